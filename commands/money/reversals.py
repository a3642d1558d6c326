"""Book devolucoes of received PIX that the bank began by itself, as after a fraud (MED), as an `adjustment` (contract
section 17).

The wallet is debited whatever its balance: the money is gone. The charge keeps its status, because the merchant
refunded nothing; the reversed amount cannot be refunded again, and a partner's share of it is taken back.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from commands.charges.change import COMMANDS_MAX, ChargeChange, ChargeCommand, change_charges, lock_charges
from commands.journal import BANK, Entry
from commands.money.partner_shares import RefundedShare, take_shares_back
from domain.charge import Charge
from domain.instants import iso, to_millisecond
from runtime.ids import new_id
from sql import Connection

REVERSALS_MAX: Final = COMMANDS_MAX
REVERSED: Final = "payment.reversed"


class BankReturn(Struct, frozen=True, gc=False, kw_only=True):
    """A devolucao of a PIX: money that is back with its payer, with the keys to find the payment. Cents."""

    position: int
    """Its place in the sequence of returns."""
    charge_id: UUID | None
    boleto_number: str | None
    end_to_end_id: str
    refund_id: UUID | None
    """The refund that began it, if a refund of ours has this id."""
    bank_id: str
    return_id: str | None
    amount_cents: int
    paid_at: datetime | None = None
    """When the PIX was received. It finds a boleto's payment that was booked before the bank named its PIX."""


class _Unbooked(Struct, frozen=True, gc=False):
    position: int
    charge_id: UUID
    account_id: UUID
    payment_id: UUID
    cents_max: int | None
    """The most that the bank can return of the payment; None for transfers, which can exceed it together."""
    paid_at: datetime
    refunded_cents: int
    reversed_cents: int


class _Reversal(Struct, frozen=True, gc=False, kw_only=True):
    account_id: UUID
    reversal_id: UUID
    payment_id: UUID
    charge_id: UUID
    end_to_end_id: str
    bank_id: str
    return_id: str | None
    amount_cents: int
    paid_at: datetime
    refunded_cents: int
    reversed_cents: int
    """The cents of the payment reversed so far, this reversal included."""


find_unbooked = sql.many("reversal.unbooked", _Unbooked)
find_unbooked_transfers = sql.many("reversal.unbooked_transfers", _Unbooked)
add_reversals = sql.run("reversal.add")
store_reversed = sql.run("reversal.store")


async def book_reversals(conn: Connection, returns: Sequence[BankReturn], *, bank: str, now: datetime) -> int:
    """Book each devolucao that no refund of ours began, once; returns how many were new. Devolucoes of a PIX that is
    not (yet) a payment of ours are skipped."""
    return await _book(conn, returns, partial(find_unbooked, conn, bank=bank, returns=returns), now=now)


async def book_sent_refunds(conn: Connection, sent: Sequence[BankReturn], *, now: datetime) -> int:
    """Like book_reversals, for refunds by transfer that failed here but that the bank sent after all."""
    return await _book(conn, sent, partial(find_unbooked_transfers, conn, returns=sent), now=now)


async def _book(
    conn: Connection,
    returns: Sequence[BankReturn],
    find: Callable[[], Awaitable[Sequence[_Unbooked]]],
    *,
    now: datetime,
) -> int:
    assert len(returns) <= REVERSALS_MAX
    now = to_millisecond(now)
    candidates = await find()
    if not candidates:
        return 0
    locked_ids = {row.charge_id for row in candidates}
    await lock_charges(conn, charge_ids=sorted(locked_ids))
    # Look again under the locks: no other transaction can book them now.
    rows = [row for row in await find() if row.charge_id in locked_ids]
    reversals = _reversals_to_book(rows, {each.position: each for each in returns})
    if not reversals:
        return 0
    await add_reversals(conn, booked=reversals, now=now)
    payments = list({each.payment_id: each for each in reversals}.values())
    await store_reversed(
        conn,
        payment_ids=[each.payment_id for each in payments],
        account_ids=[each.account_id for each in payments],
        reversed_cents=[each.reversed_cents for each in payments],
    )
    await take_shares_back(
        conn,
        [
            RefundedShare(
                each.account_id,
                each.payment_id,
                each.reversal_id,
                each.amount_cents,
                each.refunded_cents + each.reversed_cents,
            )
            for each in reversals
        ],
        now=now,
    )
    commands = [
        ChargeCommand(charge_id=each.charge_id, owner=None, decide=_reversal_decision(each), actor=BANK)
        for each in reversals
    ]
    await change_charges(conn, commands, now=now)
    return len(reversals)


def _reversals_to_book(rows: Sequence[_Unbooked], returns: dict[int, BankReturn]) -> list[_Reversal]:
    """Returns the reversals to book, each with the running total of its payment: several may concern one payment."""
    reversed_cents: dict[UUID, int] = {}
    reversals = []
    for row in rows:
        bank_return = returns[row.position]
        total = reversed_cents.get(row.payment_id, row.reversed_cents) + bank_return.amount_cents
        if row.cents_max is not None and total > row.cents_max:
            # Two returns of one boleto were matched with the same payment. The second one belongs to another payment,
            # which is found when the bank lists the return again.
            continue
        reversed_cents[row.payment_id] = total
        reversals.append(
            _Reversal(
                account_id=row.account_id,
                reversal_id=new_id(),
                payment_id=row.payment_id,
                charge_id=row.charge_id,
                end_to_end_id=bank_return.end_to_end_id,
                bank_id=bank_return.bank_id,
                return_id=bank_return.return_id,
                amount_cents=bank_return.amount_cents,
                paid_at=row.paid_at,
                refunded_cents=row.refunded_cents,
                reversed_cents=total,
            )
        )
    return reversals


def _reversal_decision(reversal: _Reversal) -> Callable[[Charge, datetime], list[ChargeChange]]:
    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        fund_fields = {
            "payment_id": reversal.payment_id,
            "paid_at": iso(reversal.paid_at),
            "reversed_cents": reversal.reversed_cents,
        }
        reversal_fields = {
            "reversal_id": reversal.reversal_id,
            "end_to_end_id": reversal.end_to_end_id,
            "bank_id": reversal.bank_id,
            "return_id": reversal.return_id,
        }
        entry = Entry(type="adjustment", amount_cents=-reversal.amount_cents, payment_id=reversal.payment_id)
        return [
            ChargeChange(
                charge=charge, kind=REVERSED, entry=entry, more={"fund": fund_fields, "reversal": reversal_fields}
            )
        ]

    return decide
