"""Tools of the sandbox (contract section 14): advance its clock; let a test charge expire or fail; pay it with any
amount, late, or several times."""

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from api.answers import Answer, encode
from api.body.fields import INSTANT_GIVEN, Amount, boleto_cents, checked, pix_cents
from api.body.reading import convert_body
from api.charge_answers import charge_answer, charge_id_of
from api.context import ApiContext
from api.gate import SANDBOX_BANK, play_payers_bank, sandbox_payment_id, scenario_of
from api.route import Call, Route, routes_of
from commands.bank_orders.kinds import Pay, WriteOff
from commands.charges.fail import failing
from commands.charges.sandbox import SANDBOX_FAILURE, TIMES_MAX, paying, sandbox_expiry
from commands.sandbox_clock import advance_clock, find_ahead_s, reach_instant, settle
from domain.errors import Code, Refused
from domain.instants import iso
from domain.mode import Mode
from domain.sandbox_clock import ADVANCE_S_MAX, on_clock, parse_advance, parse_instant
from readmodels.charges.charge import ChargeDoc, ChargeProjection
from runtime.coordination.lanes import WEBHOOKS
from runtime.postgres import session, transaction

_DAYS_MAX: Final = ADVANCE_S_MAX // 86_400


def _parse_paid_at(text: str) -> datetime:
    at = parse_instant(text)
    if at.year < 2000:
        raise ValueError("before there was PIX")
    return at


class SandboxPayment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payment to simulate. Every field is optional: by default the charge is paid once, now, with what it costs."""

    amount: Annotated[
        Amount | None,
        Meta(
            description="Amount in reais, as a decimal string; by default what the charge costs on the day of payment."
        ),
    ] = None
    paid_at: (
        Annotated[
            str,
            checked(
                _parse_paid_at,
                "must be an instant in the past, such as 2026-11-21T09:54:00.123Z",
                description="When the payer paid, an instant in the past; by default now.",
                **INSTANT_GIVEN,
            ),
        ]
        | None
    ) = None
    times: Annotated[int, Meta(ge=1, le=TIMES_MAX)] | None = None


class AdvanceClock(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How to advance the clock: give exactly one of the two fields. `advance` is an ISO 8601 duration in weeks, or in
    days, hours, minutes and seconds, such as P3D. `to` is the instant to reach; sending it again changes nothing."""

    advance: (
        Annotated[
            str,
            checked(
                parse_advance,
                f"must be an ISO 8601 duration of at most {_DAYS_MAX} days, such as P3D or PT36H",
                description=f"By how much the clock moves: an ISO 8601 duration above zero, at most {_DAYS_MAX} days.",
                pattern=r"^(?=.*[1-9])P([0-9]{1,3}W"
                r"|([0-9]{1,4}D)?(T(?=[0-9])([0-9]{1,5}H)?([0-9]{1,7}M)?([0-9]{1,9}S)?)?)$",
                examples=["P3D"],
            ),
        ]
        | None
    ) = None
    to: (
        Annotated[
            str,
            checked(
                parse_instant,
                "must be an instant such as 2026-11-24T09:54:00.123Z",
                description=(
                    f"Instant for the clock to reach, at most {_DAYS_MAX} days ahead of it. An instant in its past "
                    "changes nothing."
                ),
                **INSTANT_GIVEN,
            ),
        ]
        | None
    ) = None


class SandboxClock(Struct, frozen=True, kw_only=True):
    """The clock of the account's sandbox: the time it shows, the real time, and the seconds between them. The clock
    runs on by itself."""

    now: str
    real_time: str
    advanced_seconds: int


async def read_clock(context: ApiContext, call: Call) -> Answer:
    async with session(context.pool) as conn:
        return _clock_answer(context, await find_ahead_s(conn, call.caller.account_id))


async def move(context: ApiContext, call: Call) -> Answer:
    """Advances the clock. Answers once everything that is then due has happened and every process uses the new
    position."""
    account_id = call.caller.account_id
    body = convert_body(call.body, AdvanceClock)
    if (body.advance is None) == (body.to is None):
        raise Refused(Code.VALIDATION_ERROR, fields={"advance": "give exactly one of advance and to"})
    by_s = None if body.advance is None else parse_advance(body.advance)
    to = None if body.to is None else parse_instant(body.to)
    async with transaction(context.pool) as conn:
        if by_s is not None:
            ahead_s = await advance_clock(conn, account_id, by_s, now=call.at)
        else:
            assert to is not None
            ahead_s = await reach_instant(conn, account_id, to, now=call.at)
    await settle(context.pool, account_id, now=context.now)
    context.jobs.wake(WEBHOOKS)
    return _clock_answer(context, ahead_s)


async def expire(context: ApiContext, call: Call) -> Answer:
    doc = await _find_charge(context, call)
    command = sandbox_expiry(
        UUID(doc.charge_id), call.caller.owner, actor=call.caller.client_id, request_id=call.request_id
    )
    await context.charges.change(command)
    return await charge_answer(context, call, UUID(doc.charge_id))


async def fail(context: ApiContext, call: Call) -> Answer:
    scenario = scenario_of(call)
    doc = await _find_charge(context, call)
    charge_id = UUID(doc.charge_id)
    if doc.boleto is not None:
        order = WriteOff(
            reason="cancelled", fail=True, actor=call.caller.client_id, request_id=call.request_id, scenario=scenario
        )
        await context.boletos.change(charge_id, call.caller, order)
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
    return await charge_answer(context, call, charge_id)


async def pay(context: ApiContext, call: Call) -> Answer:
    """Answers with the charge once the money has arrived: also too little, too much, too late or more than once."""
    body = convert_body(call.body, SandboxPayment)
    paid_at = None if body.paid_at is None else _parse_paid_at(body.paid_at)
    if paid_at is not None and paid_at > call.now:
        raise Refused(Code.VALIDATION_ERROR, fields={"paid_at": "must be an instant in the past"})
    times = body.times or 1
    scenario = scenario_of(call)
    doc = await _find_charge(context, call)
    charge_id = UUID(doc.charge_id)
    if doc.boleto is not None:
        payment = Pay(
            actor=call.caller.client_id,
            request_id=call.request_id,
            amount_cents=None if body.amount is None else boleto_cents(body.amount),
            paid_at=paid_at,
            times=times,
            force=True,
            scenario=scenario,
        )
        # In any status: money that was on its way arrives whatever has happened to the boleto since.
        await context.boletos.change(charge_id, call.caller, payment, pending_only=False)
    else:
        await play_payers_bank(scenario)
        at = paid_at or call.now
        ids = [sandbox_payment_id(at) for _ in range(times)]
        await context.charges.change(
            paying(
                charge_id,
                call.caller.owner,
                end_to_end_ids=ids,
                amount_cents=None if body.amount is None else pix_cents(body.amount),
                paid_at=paid_at,
                seal=context.seal,
                fees=context.settings.fees,
                actor=call.caller.client_id,
                request_id=call.request_id,
            )
        )
    return await charge_answer(context, call, charge_id)


def _clock_answer(context: ApiContext, ahead_s: int) -> Answer:
    now = context.now()
    clock = SandboxClock(now=iso(on_clock(now, ahead_s)), real_time=iso(now), advanced_seconds=ahead_s)
    return Answer(encode(clock))


async def _find_charge(context: ApiContext, call: Call) -> ChargeDoc:
    return await context.charges.find(charge_id_of(call), call.caller.owner)


_ERRORS = (Code.CHARGE_NOT_FOUND, Code.CHARGE_NOT_PENDING, Code.BANK_UNAVAILABLE)

ROUTES = routes_of(
    "Sandbox",
    Route(
        method="GET",
        path="/v1/sandbox/clock",
        name="readSandboxClock",
        summary="Read the clock of the account's sandbox",
        handle=read_clock,
        scopes=("charges:create", "charges:read"),
        answers={200: SandboxClock},
    ),
    Route(
        method="POST",
        path="/v1/sandbox/clock",
        name="advanceSandboxClock",
        summary="Advance the clock of the account's sandbox; the answer comes once everything due by the new time "
        "has happened",
        handle=move,
        scopes=("charges:create",),
        body=AdvanceClock,
        answers={200: SandboxClock},
        errors=(Code.VALIDATION_ERROR, Code.SERVICE_UNAVAILABLE),
    ),
    Route(
        method="POST",
        path="/v1/sandbox/charges/{charge_id:str}/expire",
        name="sandboxExpire",
        summary="Expire a test charge at once",
        handle=expire,
        scopes=("charges:create",),
        answers={200: ChargeProjection},
        errors=_ERRORS[:2],
    ),
    Route(
        method="POST",
        path="/v1/sandbox/charges/{charge_id:str}/fail",
        name="sandboxFail",
        summary="Make a test charge fail, as if the bank had refused it for good",
        handle=fail,
        scopes=("charges:create",),
        headers=(SANDBOX_BANK,),
        answers={200: ChargeProjection},
        errors=_ERRORS,
    ),
    Route(
        method="POST",
        path="/v1/sandbox/charges/{charge_id:str}/pay",
        name="sandboxPay",
        summary="Pay a test charge: any amount, at any time, several times, in any state",
        handle=pay,
        scopes=("charges:create",),
        body=SandboxPayment,
        body_optional=True,
        headers=(SANDBOX_BANK,),
        answers={200: ChargeProjection},
        errors=(Code.AMOUNT_INVALID, Code.CHARGE_NOT_FOUND, Code.BANK_UNAVAILABLE),
    ),
    mode=Mode.SANDBOX,
)
