"""The tools of the test section: the clock of the sandbox, and the forms that pay, expire or fail a test charge.

They do what the API's sandbox tools do, through the same commands (api/routes/sandbox.py, docs/sandbox.md).
"""

from datetime import timedelta
from secrets import token_bytes
from typing import Any, Final
from uuid import UUID

from litestar.response import Response

from banks.scenario import SCENARIOS
from commands.bank_orders.kinds import Pay, WriteOff
from commands.charges.fail import failing
from commands.charges.sandbox import SANDBOX_FAILURE, TIMES_MAX, paying, sandbox_expiry
from commands.sandbox_clock import advance_clock, settle
from domain.errors import Code, Refused
from domain.instants import to_millisecond
from domain.money import BOLETO_CENTS_MAX, PIX_CENTS_MAX
from domain.pix.end_to_end import TAIL_BYTES, sandbox_end_to_end_id
from domain.sandbox_clock import ADVANCE_S_MAX, AHEAD_S_MAX
from runtime.coordination.lanes import WEBHOOKS
from web.painel.charges.boleto_change import change_boleto, change_charge
from web.painel.charges.charge_page import charge_of, show_charge
from web.painel.fields import Filled
from web.painel.page_request import PageRequest

_DAY_S: Final = 86_400
_UNITS: Final = {"days": (ADVANCE_S_MAX // _DAY_S, _DAY_S), "hours": (999, 3_600), "minutes": (9_999, 60)}
"""Fields of the form: the maximum of each, and the seconds of its unit."""
# fmt: off
SCENARIO_WORDS: Final = {
    "unavailable": "O banco não responde. Emitir ou alterar um boleto dá 502; um Pix é criado e registrado depois.",
    "slow":        "O banco leva 3 segundos para responder.",
    "lost_reply":  "O banco faz o que foi pedido e a resposta se perde. Perguntamos de novo: nada acontece duas vezes.",
    "refuse":      "O banco recusa. Um boleto não é emitido; uma cobrança Pix passa a failed.",
}
# fmt: on
assert tuple(SCENARIO_WORDS) == SCENARIOS


async def show_clock(request: PageRequest) -> Response[Any]:
    return await _clock_page(request, Filled(shown={"days": "1"}))


async def advance(request: PageRequest) -> Response[Any]:
    """Advances the clock by the sum of days, hours and minutes, and settles what is due by then."""
    filled = Filled(request)
    counts = {name: filled.whole(name, 0, x_max) or 0 for name, (x_max, _) in _UNITS.items()}
    advance_s = sum(count * _UNITS[name][1] for name, count in counts.items())
    if not filled.faults and not 0 < advance_s <= ADVANCE_S_MAX:
        filled.wrong("days", f"Informe quanto avançar, até {ADVANCE_S_MAX // _DAY_S} dias por vez.")
    if filled.faults:
        return await _clock_page(request, filled)
    account_id = request.session.account_id
    try:
        async with request.change("sandbox.clock_advanced", seconds=advance_s) as conn:
            await advance_clock(conn, account_id, advance_s, now=request.now)
    except Refused as refused:
        if refused.code is not Code.VALIDATION_ERROR:
            raise
        filled.wrong("days", f"O relógio vai até {AHEAD_S_MAX // _DAY_S} dias à frente, e não volta.")
        return await _clock_page(request, filled)
    await settle(request.pool, account_id, now=lambda: to_millisecond(request.http.app.state.now()))
    request.context.jobs.wake(WEBHOOKS)
    return request.go(request.here("/relogio"), done="relogio")


async def expire(request: PageRequest) -> Response[Any]:
    """Expires a pending charge now."""
    charge_id = request.id("charge_id")
    await charge_of(request, charge_id)
    command = sandbox_expiry(charge_id, request.owner, actor=request.actor, request_id=request.request_id)
    await change_charge(request, "charge.expired_in_test", command)
    return _go_to_charge(request, charge_id, "expirada")


async def fail(request: PageRequest) -> Response[Any]:
    """Fails a pending charge, as if the bank had refused it for good; a boleto is written off at the bank first."""
    charge_id = request.id("charge_id")
    doc = await charge_of(request, charge_id)
    if doc.boleto is None:
        code, message = SANDBOX_FAILURE
        command = failing(
            charge_id, request.owner, code=code, message=message, actor=request.actor, request_id=request.request_id
        )
        await change_charge(request, "charge.failed_in_test", command)
    else:
        bank_order = WriteOff(reason="cancelled", fail=True, actor=request.actor, request_id=request.request_id)
        await change_boleto(request, "charge.failed_in_test", charge_id, bank_order)
    return _go_to_charge(request, charge_id, "falhou")


async def pay(request: PageRequest) -> Response[Any]:
    """Pays a charge as no payer should: with another amount, several times, or in any state of the charge."""
    charge_id = request.id("charge_id")
    doc = await charge_of(request, charge_id)
    filled = Filled(request)
    amount_cents = filled.cents("amount", PIX_CENTS_MAX if doc.boleto is None else BOLETO_CENTS_MAX, required=False)
    times = filled.whole("times", 1, TIMES_MAX) or 1
    if filled.faults:
        return await show_charge(request, paying=filled)
    if doc.boleto is None:
        command = paying(
            charge_id,
            request.owner,
            end_to_end_ids=[sandbox_end_to_end_id(request.account_now, token_bytes(TAIL_BYTES)) for _ in range(times)],
            amount_cents=amount_cents,
            paid_at=None,
            seal=request.seal,
            fees=request.settings.fees,
            actor=request.actor,
            request_id=request.request_id,
        )
        await change_charge(request, "charge.paid_in_test", command)
    else:
        bank_order = Pay(
            actor=request.actor, request_id=request.request_id, amount_cents=amount_cents, times=times, force=True
        )
        await change_boleto(request, "boleto.test_payment_ordered", charge_id, bank_order, pending_only=False)
    return _go_to_charge(request, charge_id, "simulado")


async def _clock_page(request: PageRequest, filled: Filled) -> Response[Any]:
    values = {
        "filled": filled,
        "clock": request.account_now,
        "real": request.now,
        "ahead": _duration_text(request.account_now - request.now),
        "step_days_max": ADVANCE_S_MAX // _DAY_S,
        "ahead_days_max": AHEAD_S_MAX // _DAY_S,
        "scenarios": SCENARIO_WORDS,
        "base_url": request.settings.base_url,
        "account_id": request.session.account_id,
    }
    return request.show("clock.html", values, status=400 if filled.faults else 200)


def _duration_text(ahead: timedelta) -> str:
    """ "3 dias, 12 horas"; empty when the clock is not ahead."""
    hours, rest_s = divmod(ahead.seconds, 3_600)
    minutes, seconds = divmod(rest_s, 60)
    parts = ((ahead.days, "dia"), (hours, "hora"), (minutes, "minuto"), (seconds, "segundo"))
    return ", ".join(f"{count} {word}{'s' if count > 1 else ''}" for count, word in parts if count)


def _go_to_charge(request: PageRequest, charge_id: UUID, done: str) -> Response[Any]:
    return request.go(request.here(f"/cobrancas/{charge_id}"), done=done)
