"""Book the payments of production's boletos: what callbacks hint at, and what the bank lists as paid.

Neither is believed: the boleto itself is asked for, and its total decides (commands/charges/confirm_boletos.py). A PIX
that paid a hybrid boleto reaches us as its boleto's payment only; the PIX side of the bank names it by a txid that is
none of ours.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, time, timedelta
from enum import Enum
from typing import Final

import structlog
from msgspec import Struct

import sql
from banks.boletos import BoletoState
from banks.protocol import NotFound, Unknown
from commands.charges.confirm_boletos import confirm_boletos, find_of_numbers
from domain.charge import Charge
from domain.errors import Refused
from domain.instants import SAO_PAULO
from domain.mode import Mode
from runtime.jobs import PIX_ORDERS, WEBHOOKS
from runtime.postgres import session, transaction
from workers.concurrency import ask_all
from workers.context import Context

OVERLAP: Final = timedelta(days=1)
"""The list goes by days of movement, and may show one late."""

_FIRST: Final = timedelta(days=3)
_STEP: Final = timedelta(days=30)
_BOOK_AT_ONCE: Final = 40  # of the 200 payments a transaction takes, so that each boleto may have several
_LIST_S: Final = 120.0

_log = structlog.get_logger()


class BookingResult(Enum):
    """What asking the bank for a boleto led to."""

    BOOKED = "booked"
    """Money that was not on the books is now."""
    NOTHING_NEW = "nothing new"
    """Paid, and on the books already."""
    UNPAID = "unpaid"
    """Or no boleto of ours, or not yet."""
    UNKNOWN = "unknown"


class _Until(Struct, frozen=True):
    until: datetime


class _Unbooked(Struct, frozen=True, gc=False):
    number: str
    known: bool


class _Reported(Struct, frozen=True, gc=False):
    number: str
    payments: int


find_reported = sql.many("bank_hint.reported", _Reported)
find_reconciled = sql.maybe("bank_hint.reconciled", _Until)
set_reconciled = sql.run("bank_hint.set_reconciled")
find_unbooked = sql.many("boleto.unbooked", _Unbooked)


async def look_at_boletos(
    context: Context, bank: str, numbers: Sequence[str], *, patient: Collection[str] = ()
) -> dict[str, BookingResult]:
    """Ask this bank for each boleto and book what is new; `patient` as in commands/charges/confirm_boletos.py."""
    states = await ask_all(context.banks.production[bank].boletos.find_boleto, numbers)
    paid = [state for state in states.values() if isinstance(state, BoletoState) and state.paid_cents > 0]
    async with session(context.pool) as conn:
        # Counted after the bank was asked: but for callbacks on their way, its total is of no more payments.
        reported = await find_reported(conn, bank=bank, numbers=[state.number for state in paid])
    booked = await book_boletos(context, bank, paid, {each.number: each.payments for each in reported}, patient=patient)
    async with session(context.pool) as conn:
        known = {
            each.number for each in await find_of_numbers(conn, bank=bank, numbers=[state.number for state in paid])
        }
    seen = {}
    for number in numbers:
        state = states[number]
        if isinstance(state, Unknown):
            seen[number] = BookingResult.UNKNOWN
        elif isinstance(state, NotFound) or state.paid_cents == 0 or number not in known:
            seen[number] = BookingResult.UNPAID
        else:
            seen[number] = BookingResult.BOOKED if number in booked else BookingResult.NOTHING_NEW
    return seen


async def book_boletos(
    context: Context,
    bank: str,
    states: Iterable[BoletoState],
    announced: Mapping[str, int] = {},
    *,
    patient: Collection[str] = (),
) -> set[str]:
    """Book these boletos' totals; the numbers of those that had something new."""
    booked: set[str] = set()
    ordered = sorted(states, key=lambda state: state.number)
    for start in range(0, len(ordered), _BOOK_AT_ONCE):
        part = ordered[start : start + _BOOK_AT_ONCE]
        async with transaction(context.pool) as conn:
            outcomes = await confirm_boletos(
                conn, part, bank=bank, now=context.now(), seal=context.seal, announced=announced, patient=patient
            )
        for number, outcome in outcomes.items():
            if isinstance(outcome, Refused):
                _log.error("boleto_payment_not_booked", number=number, code=outcome.code.name)
        booked |= set(outcomes)
        if outcomes:
            context.jobs.wake(WEBHOOKS)
        if any(isinstance(outcome, Charge) and outcome.dual for outcome in outcomes.values()):
            context.jobs.wake(PIX_ORDERS[Mode.PRODUCTION])  # the cob beside the boleto is to be removed
    return booked


async def reconcile_boletos(context: Context, bank: str) -> int:
    """One round over this bank's list of paid boletos; answers how many had money that was not on the books, plus 1
    while it lags behind."""
    now = context.now()
    async with session(context.pool) as conn:
        reconciled = await find_reconciled(conn, bank=bank, method="boleto")
    since = ((reconciled.until if reconciled is not None else now - _FIRST) - OVERLAP).astimezone(SAO_PAULO).date()
    today = now.astimezone(SAO_PAULO).date()
    until = min(today, since + OVERLAP + _STEP)
    async with asyncio.timeout(_LIST_S):
        answer = await context.banks.production[bank].boletos.boletos_paid(since, until)
    if isinstance(answer, Unknown):
        _log.info("boleto_reconciler_waits", detail=answer.detail)
        return 0
    found = 0
    listed = sorted(answer.value, key=lambda boleto: boleto.number)
    for start in range(0, len(listed), _BOOK_AT_ONCE):
        part = listed[start : start + _BOOK_AT_ONCE]
        async with session(context.pool) as conn:
            rows = await find_unbooked(conn, bank=bank, boletos=part)
        unknown = [row.number for row in rows if not row.known]
        if unknown:
            # Of a creation that was given up (its reconciliation sees to it), or of another program of the agreement.
            _log.warning("paid_boletos_without_charge", count=len(unknown), first=unknown[0])
        seen = await look_at_boletos(context, bank, [row.number for row in rows if row.known])
        found += sum(each is BookingResult.BOOKED for each in seen.values())
    if found:
        _log.info("boleto_reconciler_found", count=found)
    done = now if until == today else datetime.combine(until, time(), SAO_PAULO)
    async with session(context.pool) as conn:
        await set_reconciled(conn, bank=bank, method="boleto", until=done)
    return found + (until < today)
