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
from web.painel.plot import BarValue, Plot, bars
from web.plataforma.labels import BANK_OPERATIONS

_PERIODS: Final = {"1": "24 horas", "3": "3 dias", "7": "7 dias", "30": "30 dias"}
_DAYS_DEFAULT: Final = "3"


async def show(request: PageRequest) -> Response[Any]:
    query = ListQuery(request.http, ("dias",))
    period = timedelta(days=int(read_choice(query, "dias", list(_PERIODS)) or _DAYS_DEFAULT))
    async with session(request.report_pool) as conn:
        times = await calls_by_time(conn, period, now=request.now)
        operations = await calls_by_operation(conn, period, now=request.now)
    by_hour = period <= HOURS_MAX
    values = {
        "asked": query,
        "lengths": {days: text for days, text in _PERIODS.items() if days != _DAYS_DEFAULT},
        "usual": _PERIODS[_DAYS_DEFAULT],
        "total": _total(times),
        "times": [each for each in reversed(times) if each.calls],
        "operations": operations,
        "operation_words": BANK_OPERATIONS,
        "by_hour": by_hour,
        "ends": (_time_text(times[0], by_hour=by_hour), "agora" if by_hour else "hoje"),
        "plots": [
            _plot("Chamadas sem resposta", times, lambda each: each.unanswered, thousands, by_hour=by_hour),
            _plot("Tempo médio", times, lambda each: each.mean_ms or 0, _ms_text, by_hour=by_hour),
            _plot("Chamadas", times, lambda each: each.calls, thousands, by_hour=by_hour),
        ],
    }
    return request.show("plataforma/bank_calls.html", values, status=400 if query.faults else 200)


def _plot(
    name: str,
    times: Sequence[CallsAt],
    read_value: Callable[[CallsAt], int],
    format_value: Callable[[int], str],
    *,
    by_hour: bool,
) -> tuple[str, str, Plot]:
    """Returns the plot's name, its highest value as text, and its bars."""
    plot_bars = [
        BarValue(
            read_value(each),
            f"{_time_text(each, by_hour=by_hour)}: {format_value(read_value(each))}",
            number == len(times) - 1,
        )
        for number, each in enumerate(times)
    ]
    highest = format_value(max(each.value for each in plot_bars))
    unit = "hora" if by_hour else "dia"
    return (
        f"{name} por {unit}",
        highest,
        bars(plot_bars, f"{name}, {len(plot_bars)} barras, uma por {unit}; a mais alta: {highest}."),
    )


def _ms_text(number: int) -> str:
    return f"{thousands(number)} ms"


def _time_text(each: CallsAt, *, by_hour: bool) -> str:
    return moment(each.at) if by_hour else day(each.at)


def _total(times: Sequence[CallsAt]) -> BankCalls:
    return BankCalls(
        calls=sum(each.calls for each in times),
        rejected=sum(each.rejected for each in times),
        unanswered=sum(each.unanswered for each in times),
        duration_ms=sum(each.duration_ms for each in times),
        slowest_ms=max((each.slowest_ms for each in times), default=0),
    )
