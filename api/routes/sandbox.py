"""Tools of the sandbox (contract section 14): its clock, and a test charge that expires, fails, or is paid as no payer
should pay it."""

import secrets
import string
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from api.answers import Answer, encode
from api.bodies import shaped
from api.context import ApiContext
from api.query import path_id
from api.route import Call, Route
from api.routes.charges import SANDBOX_ISPB, payers_bank
from api.routes.pix import SANDBOX_BANK, scenario_of
from commands.bank_orders.kinds import Pay
from commands.charges.fail import failing
from commands.charges.sandbox import SANDBOX_FAILURE, expiring, paying
from commands.sandbox_clock import advance_clock, ahead_of, reach_instant, settle
from domain.errors import Code, Refused
from domain.instants import iso
from domain.mode import Mode
from domain.money import BOLETO_CENTS_MAX, PIX_CENTS_MAX, parse_amount
from domain.pix.br_code import end_to_end_id
from domain.sandbox_clock import CALL_MOST_S, on_clock, parse_advance, parse_instant
from readmodels.charges.charge import ChargeDoc, ChargeProjection, present
from runtime.jobs import WEBHOOKS
from runtime.postgres import session, transaction

TIMES_MAX: Final = 10
_ALPHABET: Final = string.ascii_letters + string.digits


class SandboxPayment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`amount` is decimal reais (the charge's own unless given), `paid_at` an instant in the past, `times` 1 to 10."""

    amount: str | None = None
    paid_at: str | None = None
    times: int | None = None


class AdvanceClock(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Exactly one of the two. `advance`: an ISO 8601 duration in weeks, or in days, hours, minutes and seconds, of at
    most 366 days, such as P3D. `to`: the instant the clock is to have reached; asked again, nothing changes."""

    advance: str | None = None
    to: str | None = None


class SandboxClock(Struct, frozen=True, kw_only=True):
    """What the clock of the account's sandbox shows, what time it really is, and the seconds between. The clock goes on
    by itself."""

    now: str
    real_time: str
    advanced_seconds: int


async def read_clock(context: ApiContext, call: Call) -> Answer:
    async with session(context.pool) as conn:
        return _clock(context, await ahead_of(conn, call.caller.account_id))


async def move(context: ApiContext, call: Call) -> Answer:
    """The clock once everything that is due by it has happened and every process goes by it."""
    account_id = call.caller.account_id
    asked = shaped(call.body, AdvanceClock)
    if (asked.advance is None) == (asked.to is None):
        raise Refused(Code.VALIDATION_ERROR, fields={"advance": "give exactly one of advance and to"})
    by_s = None if asked.advance is None else _duration(asked.advance)
    to = None if asked.to is None else _instant(asked.to)
    async with transaction(context.pool) as conn:
        if by_s is not None:
            ahead_s = await advance_clock(conn, account_id, by_s, now=call.at)
        else:
            assert to is not None
            ahead_s = await reach_instant(conn, account_id, to, now=call.at)
    await settle(context.pool, account_id, now=context.now)
    context.jobs.wake(WEBHOOKS)
    return _clock(context, ahead_s)


async def expire(context: ApiContext, call: Call) -> Answer:
    doc = await _charge(context, call)
    command = expiring(UUID(doc.charge_id), call.caller.owner, actor=call.caller.client_id, request_id=call.request_id)
    await context.charges.change(command)
    return await _shown(context, call, doc)


async def fail(context: ApiContext, call: Call) -> Answer:
    scenario = scenario_of(call)
    doc = await _charge(context, call)
    charge_id = UUID(doc.charge_id)
    if doc.boleto is not None:
        await context.boletos.sandbox_fail(charge_id, call.caller, request_id=call.request_id, scenario=scenario)
    else:
        code, message = SANDBOX_FAILURE
        await context.charges.change(
            failing(
                charge_id,
                call.caller.owner,
                code=code,
                message=message,
                actor=call.caller.client_id,
                request_id=call.request_id,
            )
        )
    return await _shown(context, call, doc)


async def pay(context: ApiContext, call: Call) -> Answer:
    """The charge once the money has arrived. It may be too little, too much, too late or too often."""
    paid_at = _paid_at(call.body, now=call.now)
    times = _times(call.body)
    given = call.body.get("amount")
    shaped({name: value for name, value in call.body.items() if name != "amount"}, SandboxPayment)
    _amount(given, PIX_CENTS_MAX)
    scenario = scenario_of(call)
    doc = await _charge(context, call)
    charge_id = UUID(doc.charge_id)
    if doc.boleto is not None:
        asked = Pay(
            actor=call.caller.client_id,
            request_id=call.request_id,
            amount_cents=_amount(given, BOLETO_CENTS_MAX),
            paid_at=paid_at,
            times=times,
            force=True,
            scenario=scenario,
        )
        await context.boletos.sandbox_pay(charge_id, call.caller, asked)
    else:
        await payers_bank(scenario)
        at = paid_at or call.now
        ids = [
            end_to_end_id(SANDBOX_ISPB, at, "".join(secrets.choice(_ALPHABET) for _ in range(11))) for _ in range(times)
        ]
        await context.charges.change(
            paying(
                charge_id,
                call.caller.owner,
                end_to_end_ids=ids,
                amount_cents=_amount(given, PIX_CENTS_MAX),
                paid_at=paid_at,
                seal=context.seal,
                actor=call.caller.client_id,
                request_id=call.request_id,
            )
        )
    return await _shown(context, call, doc)


def _clock(context: ApiContext, ahead_s: int) -> Answer:
    now = context.now()
    shown = SandboxClock(now=iso(on_clock(now, ahead_s)), real_time=iso(now), advanced_seconds=ahead_s)
    return Answer(encode(shown))


def _duration(given: str) -> int:
    try:
        return parse_advance(given)
    except ValueError:
        fault = f"must be an ISO 8601 duration of at most {CALL_MOST_S // 86_400} days, such as P3D or PT36H"
        raise Refused(Code.VALIDATION_ERROR, fields={"advance": fault}) from None


def _instant(given: str) -> datetime:
    try:
        return parse_instant(given)
    except ValueError:
        fault = "must be an instant such as 2026-11-24T09:54:00.123Z"
        raise Refused(Code.VALIDATION_ERROR, fields={"to": fault}) from None


async def _charge(context: ApiContext, call: Call) -> ChargeDoc:
    charge_id = path_id(call.path("charge_id"))
    if charge_id is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
    return await context.charges.find(charge_id, call.caller.owner)


async def _shown(context: ApiContext, call: Call, before: ChargeDoc) -> Answer:
    doc = await context.charges.find(UUID(before.charge_id), call.caller.owner)
    return Answer(encode(present(doc, context.seal, now=call.now)))


def _amount(given: Any, most_cents: int) -> int | None:
    if given is None:
        return None
    try:
        return parse_amount(given, most_cents=most_cents)
    except ValueError:
        raise Refused(Code.AMOUNT_INVALID, fields={"amount": 'must be a string such as "10.50"'}) from None


def _paid_at(body: dict[str, Any], *, now: datetime) -> datetime | None:
    given = body.get("paid_at")
    if given is None:
        return None
    try:
        if not isinstance(given, str):
            raise ValueError
        at = parse_instant(given)
        if at.year < 2000 or at > now:
            raise ValueError
    except ValueError:
        raise Refused(
            Code.VALIDATION_ERROR,
            fields={"paid_at": "must be an instant in the past, such as 2026-11-21T09:54:00.123Z"},
        ) from None
    return at


def _times(body: dict[str, Any]) -> int:
    given = body.get("times")
    if given is None:
        return 1
    if type(given) is not int or not 1 <= given <= TIMES_MAX:
        raise Refused(Code.VALIDATION_ERROR, fields={"times": f"must be a whole number from 1 to {TIMES_MAX}"})
    return given


_ERRORS = (Code.CHARGE_NOT_FOUND, Code.CHARGE_NOT_PENDING, Code.BANK_UNAVAILABLE)

ROUTES = (
    Route(
        method="GET",
        path="/v1/sandbox/clock",
        name="readSandboxClock",
        summary="What the clock of the account's sandbox shows",
        tag="Sandbox",
        handle=read_clock,
        scopes=("charges:create", "charges:read"),
        mode=Mode.SANDBOX,
        answers={200: SandboxClock},
    ),
    Route(
        method="POST",
        path="/v1/sandbox/clock",
        name="advanceSandboxClock",
        summary="Advance the clock of the account's sandbox; answers when everything that is due by it has happened",
        tag="Sandbox",
        handle=move,
        scopes=("charges:create",),
        mode=Mode.SANDBOX,
        body=AdvanceClock,
        answers={200: SandboxClock},
        errors=(Code.VALIDATION_ERROR, Code.SERVICE_UNAVAILABLE),
    ),
    Route(
        method="POST",
        path="/v1/sandbox/charges/{charge_id:str}/expire",
        name="sandboxExpire",
        summary="Let a test charge's time be over",
        tag="Sandbox",
        handle=expire,
        scopes=("charges:create",),
        mode=Mode.SANDBOX,
        answers={200: ChargeProjection},
        errors=_ERRORS[:2],
    ),
    Route(
        method="POST",
        path="/v1/sandbox/charges/{charge_id:str}/fail",
        name="sandboxFail",
        summary="Let the bank refuse a test charge for good",
        tag="Sandbox",
        handle=fail,
        scopes=("charges:create",),
        mode=Mode.SANDBOX,
        headers=(SANDBOX_BANK,),
        answers={200: ChargeProjection},
        errors=_ERRORS,
    ),
    Route(
        method="POST",
        path="/v1/sandbox/charges/{charge_id:str}/pay",
        name="sandboxPay",
        summary="Pay a test charge: any amount, at any time, several times, in any state",
        tag="Sandbox",
        handle=pay,
        scopes=("charges:create",),
        mode=Mode.SANDBOX,
        body=SandboxPayment,
        body_optional=True,
        headers=(SANDBOX_BANK,),
        answers={200: ChargeProjection},
        errors=(Code.AMOUNT_INVALID, Code.CHARGE_NOT_FOUND, Code.BANK_UNAVAILABLE),
    ),
)
