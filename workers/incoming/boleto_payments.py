"""Book the payments of production's boletos: those that callbacks hint at, and those that the bank lists as paid.

Neither source is believed: the boleto itself is asked for, and its total decides (commands/charges/confirm_boletos.py).
A PIX that paid a hybrid boleto reaches us as its boleto's payment only; the PIX side of the bank names it by a txid
that is not ours.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from enum import Enum
from typing import Final

import structlog
from msgspec import Struct

import sql
from banks.boletos import BoletoState, PaidBoleto
from banks.protocol import NotFound, Unknown
from commands.charges.confirm_boletos import confirm_boletos, find_boletos_by_number
from commands.money.suspense import SuspendedMoney, find_reported_totals, hold_boletos, suspend_money
from domain.charge import Charge
from domain.errors import Refused
from domain.instants import day_begins, day_of
from domain.mode import Mode
from runtime.coordination.lanes import PIX_ORDERS, WEBHOOKS
from runtime.ids import new_id
from runtime.postgres import session, transaction
from workers.concurrency import ask_all
from workers.context import Context
from workers.incoming.own_share import read_share
from workers.incoming.suspended import report_suspended

_BOOKED_MAX: Final = 40  # of the 200 payments a transaction takes, so that each boleto may have several
_LATE: Final = timedelta(days=2)
"""After the day of the payment: until then the list names boletos whose payment the boleto itself may not show yet."""

_log = structlog.get_logger()


class BookingResult(Enum):
    """The result of asking the bank for a boleto."""

    BOOKED = "booked"
    """Money was booked that had not been booked before."""
    NOTHING_NEW = "nothing new"
    """The boleto is paid, and all of it was booked already."""
    UNPAID = "unpaid"
    """The boleto is not paid, is not ours, or is not ours yet."""
    UNKNOWN = "unknown"


class Unbooked(Struct, frozen=True, gc=False):
    """A boleto whose total at the bank is not all booked here."""

    number: str
    known: bool
    paid_cents: int
    moved_on: date


class _Reported(Struct, frozen=True, gc=False):
    number: str
    payments: int


find_reported = sql.many("bank_hint.reported", _Reported)
find_unbooked = sql.many("reconciled.unbooked_boletos", Unbooked)


async def look_at_boletos(
    context: Context,
    bank: str,
    numbers: Sequence[str],
    *,
    patient: Collection[str] = (),
    request_ids: Mapping[str, str | None] = {},
) -> dict[str, BookingResult]:
    """Ask this bank for each boleto and book what is new; returns the result of each. `patient` and `request_ids` are
    as in commands/charges/confirm_boletos.py."""
    states = await ask_all(context.banks.production[bank].boletos.find_boleto, numbers)
    paid = [state for state in states.values() if isinstance(state, BoletoState) and state.paid_cents > 0]
    async with session(context.pool) as conn:
        # Read after the bank was asked: the bank's totals have no more payments than are reported here, except payments
        # whose callbacks are on their way.
        reported = await find_reported(conn, bank=bank, numbers=[state.number for state in paid])
    announced = {each.number: each.payments for each in reported}
    booked = await book_boletos(context, bank, paid, announced, patient=patient, request_ids=request_ids)
    async with session(context.pool) as conn:
        known = {
            each.number
            for each in await find_boletos_by_number(conn, bank=bank, numbers=[state.number for state in paid])
        }
    results = {}
    for number in numbers:
        state = states[number]
        if isinstance(state, Unknown):
            results[number] = BookingResult.UNKNOWN
        elif isinstance(state, NotFound) or state.paid_cents == 0 or number not in known:
            results[number] = BookingResult.UNPAID
        else:
            results[number] = BookingResult.BOOKED if number in booked else BookingResult.NOTHING_NEW
    return results


async def book_boletos(
    context: Context,
    bank: str,
    states: Iterable[BoletoState],
    announced: Mapping[str, int] = {},
    *,
    patient: Collection[str] = (),
    request_ids: Mapping[str, str | None] = {},
) -> set[str]:
    """Book these boletos' totals; returns the numbers of those that had something new."""
    booked: set[str] = set()
    ordered = sorted(states, key=lambda state: state.number)
    for start in range(0, len(ordered), _BOOKED_MAX):
        batch = ordered[start : start + _BOOKED_MAX]
        async with transaction(context.pool) as conn:
            outcomes = await confirm_boletos(
                conn,
                batch,
                bank=bank,
                now=context.now(),
                seal=context.seal,
                fees=context.settings.fees,
                announced=announced,
                patient=patient,
                request_ids=request_ids,
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


async def book_listed(context: Context, bank: str, listed: Sequence[PaidBoleto]) -> int:
    """Book what is new of boletos that the bank lists as paid; returns how many had something new. Money of a boleto
    unknown here goes into suspense: its creation was given up, or another program issued it."""
    booked_count = 0
    # A page may name a boleto twice, the second time with a greater total.
    totals = {each.number: each for each in sorted(listed, key=lambda each: each.paid_cents)}
    ordered = sorted(totals.values(), key=lambda each: each.number)
    for start in range(0, len(ordered), _BOOKED_MAX):
        batch = ordered[start : start + _BOOKED_MAX]
        async with session(context.pool) as conn:
            rows = await find_unbooked(conn, bank=bank, boletos=batch)
        await suspend_unknown(context, bank, [row for row in rows if not row.known])
        results = await look_at_boletos(context, bank, [row.number for row in rows if row.known])
        booked_count += sum(each is BookingResult.BOOKED for each in results.values())
        _report_unbooked(
            context,
            bank,
            [row for row in rows if results.get(row.number, BookingResult.BOOKED) is not BookingResult.BOOKED],
        )
    return booked_count


def _report_unbooked(context: Context, bank: str, unbooked: Sequence[Unbooked]) -> None:
    """Report boletos that the bank lists as paid, and does not show as paid so much, or at all, days after."""
    today = day_of(context.now())
    late = [row.number for row in unbooked if today - row.moved_on >= _LATE]
    if late:
        # The nightly pass asks for them for a week. Then nobody does.
        _log.error("listed_boletos_not_booked", bank=bank, count=len(late), first=late[0])


async def suspend_unknown(context: Context, bank: str, unknown: Sequence[Unbooked]) -> None:
    """Put the payments of boletos unknown here into suspense, each once."""
    if not unknown:
        return
    async with session(context.pool) as conn:
        share = await read_share(conn)
    unknown = [row for row in unknown if share.has_boleto(bank, row.number)]
    numbers = [row.number for row in unknown]
    async with transaction(context.pool) as conn:
        await hold_boletos(conn, bank=bank, numbers=numbers)
        # A creation that was given up may have got its charge meanwhile: then the money is booked to the charge.
        known = {each.number for each in await find_boletos_by_number(conn, bank=bank, numbers=numbers)}
        suspended_cents = {
            each.number: each.cents for each in await find_reported_totals(conn, bank=bank, numbers=numbers)
        }
        new = [
            row for row in unknown if row.number not in known and row.paid_cents > suspended_cents.get(row.number, 0)
        ]
        added = await suspend_money(
            conn,
            [
                SuspendedMoney(
                    suspense_id=new_id(),
                    kind="boleto_unknown",
                    source=f"{row.number}/{row.paid_cents}",
                    reference=row.number,
                    amount_cents=row.paid_cents - suspended_cents.get(row.number, 0),
                    received_at=day_begins(row.moved_on),
                    payer_sealed=None,
                )
                for row in new
            ],
            bank=bank,
            now=context.now(),
        )
    report_suspended(bank, added)
