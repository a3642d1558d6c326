"""Calls to banks over the last days, for the staff: how many, how many went unanswered, and how long they took."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from litestar.response import Response

from domain.brazilian import day, moment, thousands
from readmodels.dashboard.bank_calls import HOURS_MAX, BankCalls, CallsAt, calls_by_operation, calls_by_time
from readmodels.filters import read_choice
from runtime.postgres import session
from web.painel.lists import ListQuery
from web.painel.page_request import PageRequest
from web.painel.plot import Drawn, Plot, bars
from web.plataforma.labels import BANK_OPERATIONS

_LENGTHS: Final = {"1": "24 horas", "3": "3 dias", "7": "7 dias", "30": "30 dias"}
_USUAL: Final = "3"


async def show(request: PageRequest) -> Response[Any]:
    asked = ListQuery(request.http, ("dias",))
    length = timedelta(days=int(read_choice(asked, "dias", list(_LENGTHS)) or _USUAL))
    async with session(request.report_pool) as conn:
        times = await calls_by_time(conn, length, now=request.now)
        operations = await calls_by_operation(conn, length, now=request.now)
    by_hour = length <= HOURS_MAX
    values = {
        "asked": asked,
        "lengths": {days: text for days, text in _LENGTHS.items() if days != _USUAL},
        "usual": _LENGTHS[_USUAL],
        "total": _sum(times),
        "times": [each for each in reversed(times) if each.calls],
        "operations": operations,
        "operation_words": BANK_OPERATIONS,
        "by_hour": by_hour,
        "ends": (_at(times[0], by_hour=by_hour), "agora" if by_hour else "hoje"),
        "plots": [
            _plot("Chamadas sem resposta", times, lambda each: each.unanswered, thousands, by_hour=by_hour),
            _plot("Tempo médio", times, lambda each: each.mean_ms or 0, _ms, by_hour=by_hour),
            _plot("Chamadas", times, lambda each: each.calls, thousands, by_hour=by_hour),
        ],
    }
    return request.show("plataforma/bank_calls.html", values, status=400 if asked.faults else 200)


def _plot(
    name: str, times: Sequence[CallsAt], value: Callable[[CallsAt], int], said: Callable[[int], str], *, by_hour: bool
) -> tuple[str, str, Plot]:
    """Returns the plot's name, its highest value as text, and its bars."""
    drawn = [
        Drawn(value(each), f"{_at(each, by_hour=by_hour)}: {said(value(each))}", number == len(times) - 1)
        for number, each in enumerate(times)
    ]
    highest = said(max(each.value for each in drawn))
    unit = "hora" if by_hour else "dia"
    return (
        f"{name} por {unit}",
        highest,
        bars(drawn, f"{name}, {len(drawn)} barras, uma por {unit}; a mais alta: {highest}."),
    )


def _ms(number: int) -> str:
    return f"{thousands(number)} ms"


def _at(each: CallsAt, *, by_hour: bool) -> str:
    return moment(each.at) if by_hour else day(each.at)


def _sum(times: Sequence[CallsAt]) -> BankCalls:
    return BankCalls(
        calls=sum(each.calls for each in times),
        rejected=sum(each.rejected for each in times),
        unanswered=sum(each.unanswered for each in times),
        duration_ms=sum(each.duration_ms for each in times),
        slowest_ms=max((each.slowest_ms for each in times), default=0),
    )
