"""Money that fits no charge: kept in suspense until staff assign it to a charge or note that it was returned (contract
section 17).

Once assigned, it is a payment of its charge like any other: credited, in the feed, notified to the merchant. However
often it is assigned, it is booked once: the row is locked, and only an open row can be assigned.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.bank_orders.kinds import CLOSE, CobRemoval
from commands.charges.agreed_amount import Owed, lock_agreed_amounts
from commands.charges.change import ChargeChange, ChargeCommand, change_charges
from commands.charges.pay import BoletoPaymentFacts, Confirmation, book
from commands.journal import BANK
from commands.merchants.kyc import Kyc
from commands.merchants.refund_exemption import FREED
from commands.money.reversals import BankReturn
from commands.people.audit import staff_has_done
from domain.charge import Charge
from domain.errors import Code, Refused
from domain.instants import to_millisecond
from domain.merchants.fees import FeeTerms
from runtime.seal import SUSPENDED_PAYER, Seal
from sql import Connection

ASSIGNED: Final = "suspense.assigned"
INCOMPATIBLE: Final = (f"merchant.{Kyc.APPROVED}", FREED)
"""Actions that one member of staff decides alone: approving an account, and freeing its refunds from the payer's
document. A person who did either may not assign money to that account's charges (segregation of duties), or one person
could approve an account, credit it and empty it."""


class SuspendedMoney(Struct, frozen=True, gc=False, kw_only=True):
    """A new row of `suspense`. Cents."""

    suspense_id: UUID
    kind: str
    source: str
    reference: str | None
    amount_cents: int
    received_at: datetime
    payer_sealed: bytes | None


class SuspendedPayer(Struct, frozen=True):
    name: str | None = None
    document: str | None = None


class NotOpen(Exception):
    """The money was assigned or returned before, by another member of staff or by a form that was sent twice. Nothing
    is changed."""


class _SuspendedRow(Struct, frozen=True):
    kind: str
    source: str
    reference: str | None
    amount_cents: int
    received_at: datetime
    payer_sealed: bytes | None
    state: str


class _ReturnedSum(Struct, frozen=True, gc=False):
    """The sum returned of a PIX (`of` is its endToEndId) or of a boleto (`of` is its number); `reference` is the bank's
    id of the last return."""

    of: str
    cents: int
    reference: str


class _TargetCharge(Struct, frozen=True):
    account_id: UUID
    integrador_code: str | None


class _BoletoTotal(Struct, frozen=True, gc=False):
    number: str
    cents: int


hold_boletos = sql.run("suspense.hold_boletos")
find_reported_totals = sql.many("suspense.told_of_boletos", _BoletoTotal)
_remove_boletos = sql.many("suspense.leave_boletos", _BoletoTotal)
_add_money = sql.many("suspense.add", str)
_lock_row = sql.maybe("suspense.hold", _SuspendedRow)
_find_charge = sql.maybe("suspense.charge", _TargetCharge)
_set_assigned = sql.run("suspense.set_assigned")
_set_returned = sql.run("suspense.set_returned")
_lock_sources = sql.run("suspense.hold_sources")
_note_returned = sql.run("suspense.note_returned")
_note_returned_boletos = sql.run("suspense.note_returned_boletos")
_read_payer = msgspec.json.Decoder(SuspendedPayer).decode


async def suspend_money(conn: Connection, money: Sequence[SuspendedMoney], *, bank: str, now: datetime) -> list[str]:
    """Store the money that is not in suspense yet; returns the sources of the new rows."""
    return await _add_money(conn, bank=bank, found=money, now=now) if money else []


async def leave_suspense(conn: Connection, numbers: Sequence[str], *, bank: str) -> dict[str, int]:
    """Remove the money of these boletos from suspense: they have charges now, or are about to, and their payments are
    booked there. Call it before any charge is locked, the order in which `assign_suspense` locks.

    When staff have assigned or returned some of a boleto's money, the rest stays in suspense too: a payment is
    identified by the total reached with it, and the total of a later payment may be booked already. Returns the cents
    that stay, by number; they must not be booked again.
    """
    await hold_boletos(conn, bank=bank, numbers=numbers)
    return {each.number: each.cents for each in await _remove_boletos(conn, bank=bank, numbers=numbers)}


async def assign_suspense(
    conn: Connection,
    suspense_id: UUID,
    charge_id: UUID,
    *,
    by: str,
    note: str | None,
    now: datetime,
    seal: Seal,
    fees: FeeTerms,
) -> Charge:
    """Book the money as a payment of this production charge; returns the charge afterwards.

    Raises NotOpen, Refused(CHARGE_NOT_FOUND), or Refused(VALIDATION_ERROR) with the field `by` when the same person did
    one of the INCOMPATIBLE actions for the charge's account. When the payment settles the charge, its cob is removed
    and its boleto written off, so that it cannot be paid again.
    """
    money = await _lock_open(conn, suspense_id)
    charge = await _find_charge(conn, charge_id=charge_id)
    if charge is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
    if await staff_has_done(conn, charge.account_id, INCOMPATIBLE, by=by):
        raise Refused(Code.VALIDATION_ERROR, fields={"by": "must be somebody else than who let the account in"})
    agreed = (await lock_agreed_amounts(conn, [charge_id])).get(charge_id)
    owed = Owed() if agreed is None else agreed.owed(money.amount_cents, money.received_at, None)
    confirmation = _confirmation(money, charge_id, charge.integrador_code, owed, seal)
    command = ChargeCommand(
        charge_id=charge_id,
        owner=None,
        decide=_assignment_decision(suspense_id, confirmation, seal, fees),
        actor="platform",
        source=confirmation.source,
        paid_at=confirmation.paid_at,
    )
    (outcome,) = await change_charges(conn, [command], now=to_millisecond(now))
    if isinstance(outcome, Refused):
        raise outcome
    await _set_assigned(conn, suspense_id=suspense_id, charge_id=charge_id, by=by, note=note, now=now)
    return outcome


async def return_suspense(
    conn: Connection, suspense_id: UUID, *, reference: str, by: str, note: str | None, now: datetime
) -> None:
    """Note that the money was returned at the bank, which knows the return by `reference`. Raises NotOpen.

    No order to the bank is written: staff returned the money at the bank itself.
    """
    await _lock_open(conn, suspense_id)
    await _set_returned(conn, suspense_id=suspense_id, reference=reference, by=by, note=note, now=now)


async def lock_returned(conn: Connection, returns: Sequence[BankReturn], *, bank: str) -> None:
    """Lock the rows in suspense that these returns concern. Call it before any charge is locked, the order in which
    `assign_suspense` locks."""
    numbers = [each.boleto_number for each in returns if each.boleto_number is not None]
    await _lock_sources(conn, bank=bank, sources=[each.end_to_end_id for each in returns], numbers=numbers)


async def note_returned(conn: Connection, returns: Sequence[BankReturn], *, bank: str, now: datetime) -> None:
    """Mark the money in suspense that the bank lists as wholly returned."""
    of_pix = _sum_returns((each.end_to_end_id, each) for each in returns)
    of_boletos = _sum_returns((each.boleto_number, each) for each in returns if each.boleto_number is not None)
    await _note_returned(conn, bank=bank, returned=of_pix, by=BANK, now=now)
    if of_boletos:
        await _note_returned_boletos(conn, bank=bank, returned=of_boletos, by=BANK, now=now)


def open_payer(sealed: bytes | None, source: str, seal: Seal) -> SuspendedPayer:
    """Returns the payer, or an empty one when the sealed payer cannot be opened any more: the money is then settled
    without a name rather than not at all."""
    opened = None if sealed is None else seal.opened(sealed, SUSPENDED_PAYER, source)
    return SuspendedPayer() if opened is None else _read_payer(opened)


def _sum_returns(returns: Iterable[tuple[str, BankReturn]]) -> list[_ReturnedSum]:
    """Returns the sum of the returns of each PIX or boleto."""
    sums: dict[str, _ReturnedSum] = {}
    for key, each in returns:
        before_cents = sums[key].cents if key in sums else 0
        sums[key] = _ReturnedSum(key, before_cents + each.amount_cents, each.return_id or each.bank_id)
    return list(sums.values())


async def _lock_open(conn: Connection, suspense_id: UUID) -> _SuspendedRow:
    money = await _lock_row(conn, suspense_id=suspense_id)
    if money is None or money.state != "open":
        raise NotOpen
    return money


def _confirmation(
    money: _SuspendedRow, charge_id: UUID, integrador_code: str | None, owed: Owed, seal: Seal
) -> Confirmation:
    payer = open_payer(money.payer_sealed, money.source, seal)
    boleto = None
    if money.kind == "boleto_unknown":
        assert money.reference is not None
        boleto = BoletoPaymentFacts(source=money.source, method="boleto", nosso_numero=money.reference, txid=None)
    return Confirmation(
        charge_id=charge_id,
        end_to_end_id=money.source if boleto is None else None,
        amount_cents=money.amount_cents,
        paid_at=money.received_at,
        payer_name=payer.name,
        payer_document=payer.document,
        boleto=boleto,
        owed=owed,
        integrador_code=integrador_code,
    )


def _assignment_decision(
    suspense_id: UUID, confirmation: Confirmation, seal: Seal, fees: FeeTerms
) -> Callable[[Charge, datetime], list[ChargeChange]]:
    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        changes = book(charge, confirmation, now=now, seal=seal, fees=fees)
        payment = changes[0].payment
        assert payment is not None
        # The money came through neither leg of the charge, so both legs are closed. `book` closes one leg of a dual
        # charge already.
        boleto_closed = charge.dual and confirmation.boleto is None
        close: Struct = CLOSE if charge.boleto and not boleto_closed else CobRemoval()
        return [
            *changes,
            ChargeChange(
                charge=changes[-1].charge,
                kind=ASSIGNED,
                more={"suspense": {"suspense_id": suspense_id, "payment_id": payment.payment_id}},
                order=close if payment.settles else None,
            ),
        ]

    return decide
