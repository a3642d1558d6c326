"""The wallet: balance and statement. The balance is the newest line's balance_after, so the two cannot disagree."""

from datetime import date, datetime
from typing import Annotated
from uuid import UUID

from msgspec import Struct

import sql
from domain.instants import day_of, iso
from domain.mode import Mode, Owner
from domain.money import reais
from readmodels.filters import OneOf
from readmodels.page import BEGINNING, END, Bounds, ListFilters, SequencePosition, sequence_page, sequence_window
from readmodels.spans import span_ranges, totals_are_fresh
from sql import Connection

ENTRY_TYPES = (
    "payment", "refund", "refund_reversal", "withdrawal", "withdrawal_reversal", "fee", "partner_share", "adjustment",
)  # fmt: skip


class LedgerFilters(ListFilters, frozen=True, kw_only=True):
    type: Annotated[str | None, OneOf(ENTRY_TYPES)] = None
    created_from: datetime | None = None
    created_to: datetime | None = None


class Balance(Struct, frozen=True):
    """The balance of the account."""

    balance: str
    currency: str = "BRL"


class LedgerItem(Struct, frozen=True, gc=False, kw_only=True):
    """An entry of the ledger (contract section 10). `amount` has no sign; `direction` is credit or debit."""

    entry_id: str
    sequence: int
    type: str
    direction: str
    amount: str
    balance_after: str
    charge_id: str | None
    payment_id: str | None
    refund_id: str | None
    withdrawal_id: str | None
    external_id: str | None
    created_at: str
    test: bool


class LedgerRow(Struct, frozen=True, gc=False):
    sequence: int
    entry_id: UUID
    type: str
    amount_cents: int
    balance_after_cents: int
    charge_id: UUID | None
    payment_id: UUID | None
    refund_id: UUID | None
    withdrawal_id: UUID | None
    external_id: str | None
    created_at: datetime


class EntrySum(Struct, frozen=True, gc=False):
    """The number and sum of the ledger lines of one type; `cents` is signed, credits are positive."""

    type: str
    lines: int
    cents: int


class HeldShares(Struct, frozen=True):
    """The sum of a partner's shares that are not yet credited; `earliest` is when the first of them was earned."""

    cents: int
    earliest: datetime | None


find_held_shares = sql.one("read_ledger.held_shares", HeldShares)
"""Takes `account_id`."""
find_balance = sql.one("read_ledger.balance", int)
"""The balance in cents. Takes `account_id, test`."""
find_bounds = sql.one("read_ledger.bounds", Bounds)
_page = sql.list_of("read_ledger.page", LedgerRow)
_sums_from_totals = sql.many("read_ledger.sums", EntrySum)
_sums_from_lines = sql.many("read_ledger.sums_counted", EntrySum)


async def balance(conn: Connection, owner: Owner) -> Balance:
    """The balance; 0.00 for an account without ledger lines."""
    return Balance(reais(await find_balance(conn, account_id=owner.account_id, test=owner.test)))


async def ledger_page(
    conn: Connection, owner: Owner, filters: LedgerFilters, after: SequencePosition | None, limit: int
) -> tuple[list[LedgerItem], SequencePosition | None]:
    """One page in the order of the lines' sequence, and the position after which the next page begins."""
    window = await sequence_window(find_bounds, conn, owner, filters.created_from, filters.created_to)
    rows, last = await sequence_page(
        _page,
        conn,
        filters.order,
        after,
        limit,
        window,
        account_id=owner.account_id,
        test=owner.test,
        type=filters.type,
    )
    return [_ledger_item(row, owner.mode) for row in rows], last


async def ledger_sums(conn: Connection, owner: Owner, filters: LedgerFilters) -> list[EntrySum]:
    """Sums of the lines that the filters select, by type, in the order of ENTRY_TYPES. The filters' range must be of
    whole São Paulo days."""
    assert not owner.test, "only production's totals are kept"
    begin, end = filters.created_from, filters.created_to
    if await totals_are_fresh(conn):
        first = date.min if begin is None else day_of(begin)
        after = date.max if end is None else day_of(end)
        rows = await sums_from_totals(conn, owner.account_id, first, after)
    else:
        rows = await _sums_from_lines(
            conn, account_id=owner.account_id, created_from=begin or BEGINNING, created_to=end or END
        )
    selected = [row for row in rows if filters.type in (None, row.type)]
    return sorted(selected, key=lambda row: ENTRY_TYPES.index(row.type))


async def sums_from_totals(conn: Connection, account_id: UUID, first: date, after: date) -> list[EntrySum]:
    """Sums of production's lines from `first` on and before `after`, by type: from the stored totals and the journal
    rows not yet in them, however many these are."""
    return await _sums_from_totals(
        conn, account_id=account_id, first=first, after=after, ranges=span_ranges(first, after)
    )


def _ledger_item(row: LedgerRow, mode: Mode) -> LedgerItem:
    return LedgerItem(
        entry_id=str(row.entry_id),
        sequence=row.sequence,
        type=row.type,
        direction="credit" if row.amount_cents > 0 else "debit",
        amount=reais(abs(row.amount_cents)),
        balance_after=reais(row.balance_after_cents),
        charge_id=_id_text(row.charge_id),
        payment_id=_id_text(row.payment_id),
        refund_id=_id_text(row.refund_id),
        withdrawal_id=_id_text(row.withdrawal_id),
        external_id=row.external_id,
        created_at=iso(row.created_at),
        test=mode.test,
    )


def _id_text(value: UUID | None) -> str | None:
    return None if value is None else str(value)
