"""The settlement of an account, day by day, from the ledger itself: opening balance, each line, closing balance.

A day that does not add up is a fault of ours: an assertion fails and the day is not shown. A day's check sum is
computed from the lines as shown, so that it can be recomputed from the file.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime, timedelta
from hashlib import sha256
from uuid import UUID

from msgspec import Struct

import sql
from domain.instants import day_begins, day_ends, day_of, iso
from domain.money import reais
from readmodels.money.ledger import LedgerRow
from readmodels.reports.report import Lend, ReportQuery, Row

_LINES_PAGE = 5_000


class _LedgerPosition(Struct, frozen=True, gc=False):
    sequence: int
    balance_after_cents: int


find_position = sql.maybe("report.settled_before", _LedgerPosition)
find_lines = sql.many("report.settlement", LedgerRow)


class _SettlementDay:
    """One day of a settlement: the opening row, its lines, the closing row."""

    def __init__(self, account_id: UUID, day: date, opening: _LedgerPosition) -> None:
        self._day = day
        self._opening = self._reached = opening
        self._lines = 0
        self._moved_cents = 0
        self._received_cents = 0
        self._fee_cents = 0
        self._digest = sha256(f"{account_id};{day};{reais(opening.balance_after_cents)}\n".encode())

    def opening_row(self) -> Row:
        return (self._day, "opening", *[None] * 4, self._opening.balance_after_cents, *[None] * 11)

    def add_line(self, line: LedgerRow) -> Row:
        assert line.sequence == self._reached.sequence + 1, "the numbers of a ledger are dense"
        amount, balance = reais(line.amount_cents), reais(line.balance_after_cents)
        self._digest.update(
            f"{line.sequence};{line.entry_id};{iso(line.created_at)};{line.type};{amount};{balance}\n".encode()
        )
        self._reached = _LedgerPosition(line.sequence, line.balance_after_cents)
        self._moved_cents += line.amount_cents
        self._received_cents += line.amount_cents if line.type == "payment" else 0
        self._fee_cents -= line.amount_cents if line.type == "fee" else 0
        self._lines += 1
        references = [line.charge_id, line.payment_id, line.refund_id, line.withdrawal_id]
        return (
            self._day, "entry", line.sequence, line.created_at, line.type, line.amount_cents,
            line.balance_after_cents, str(line.entry_id), *[None if each is None else str(each) for each in references],
            line.external_id, *[None] * 5,
        )  # fmt: skip

    def close(self) -> tuple[Row, _LedgerPosition]:
        closing_cents = self._reached.balance_after_cents
        assert self._opening.balance_after_cents + self._moved_cents == closing_cents, (
            "a balance is the sum of its lines"
        )
        self._digest.update(f"{reais(closing_cents)}\n".encode())
        net_cents = self._received_cents - self._fee_cents
        row = (
            self._day, "closing", *[None] * 3, self._moved_cents, closing_cents, *[None] * 6, self._lines,
            self._digest.hexdigest(), self._received_cents, self._fee_cents, net_cents,
        )  # fmt: skip
        return row, self._reached


async def settlement(lend: Lend, query: ReportQuery) -> AsyncIterator[Row]:
    """For each day an opening row, the ledger's lines, and a closing row with the number of lines, the check sum, and
    the sums of payments and fees."""
    assert query.account_id is not None, "checked by ask()"
    day = query.first
    begins_at, ends_at = day_begins(query.first), day_ends(query.last)

    async def page(from_at: datetime, from_sequence: int) -> Sequence[LedgerRow]:
        async with lend() as conn:
            return await find_lines(
                conn,
                account_id=query.account_id,
                from_at=from_at,
                from_sequence=from_sequence,
                before=ends_at,
                limit=_LINES_PAGE,
            )

    lines = await page(begins_at, 0)
    # The opening position is read after the lines: once a line of the first day is visible, no more lines of the day
    # before can appear.
    async with lend() as conn:
        opening = await find_position(conn, account_id=query.account_id, at=begins_at)
    open_day = _SettlementDay(query.account_id, day, opening or _LedgerPosition(0, 0))
    yield open_day.opening_row()
    while True:
        for line in lines:
            line_day = day_of(line.created_at)
            while day < line_day:
                closing, position = open_day.close()
                yield closing
                day += timedelta(days=1)
                open_day = _SettlementDay(query.account_id, day, position)
                yield open_day.opening_row()
            yield open_day.add_line(line)
        if len(lines) < _LINES_PAGE:
            break
        lines = await page(lines[-1].created_at, lines[-1].sequence + 1)
    while True:
        closing, position = open_day.close()
        yield closing
        if day == query.last:
            return
        day += timedelta(days=1)
        open_day = _SettlementDay(query.account_id, day, position)
        yield open_day.opening_row()
