"""Sums equal those of their charges and ledger lines, however far the stored totals lag: across midnights in São Paulo
and the ends of months, years and a decade, with clocks that stand still or go back."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any, Final
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from commands.charges.cancel import cancellation
from commands.charges.change import change_charges
from commands.charges.expire import expire_charges
from domain.charge import CancelReason
from domain.instants import SAO_PAULO, day_begins, day_ends, to_millisecond
from domain.merchants.fees import FeeTerms
from domain.mode import Mode, Owner
from readmodels import spans
from readmodels.charges.charge_list import STATUSES, ChargeFilters, charge_sums
from readmodels.dashboard.overview import CLOSINGS_MAX, closings
from readmodels.money.ledger import LedgerFilters, ledger_sums
from readmodels.money.payment_list import PaymentFilters, payment_sum
from readmodels.reports import fold
from readmodels.reports.merchant import CohortOutcome, first_day, outcomes, settled_months
from readmodels.reports.report import By, ReportQuery, keeping
from readmodels.reports.reports import REPORTS
from runtime.postgres import Connection, Pool, open_pool, session, transaction
from tests.support.banking import make_account
from tests.support.database import own_database
from tests.support.orders import end_orders
from tests.support.partners import book_further_payment, fold_settled_totals, fold_totals, new_charge, refunds

BEGINS: Final = datetime(2027, 12, 30, 2, 59, tzinfo=UTC)
STEPS: Final = 60
CHECK_EVERY: Final = 12
FOLDED_AT_ONCE: Final = 5
REFUNDED_WITHIN: Final = timedelta(days=80)
FEES: Final = FeeTerms(pix_bps=150, pix_cents_min=20)


@pytest_asyncio.fixture(loop_scope="session")
async def pool(servers: Any) -> AsyncIterator[Any]:
    async with own_database(servers, "sums_over_years") as url:
        opened = await open_pool(url, name="tests", size=4)
        yield opened
        await opened.close()


def _day(at: datetime) -> date:
    return at.astimezone(SAO_PAULO).date()


def _next_instant(at: datetime, rng: Random) -> datetime:
    """Often within two seconds of the end of a day, a month or a year."""
    day, near = _day(at), timedelta(milliseconds=rng.randint(-1_500, 1_500))
    match rng.randrange(8):
        case 0 | 1 | 2:
            return at + timedelta(seconds=rng.randint(-2, 2))
        case 3:
            return at + timedelta(hours=rng.randint(1, 30))
        case 4 | 5:
            return day_begins(day + timedelta(days=1)) + near
        case 6:
            return day_begins((day.replace(day=1) + timedelta(days=32)).replace(day=1)) + near
        case _:
            return day_begins(date(day.year + 1, 1, 1)) + near


class _History:
    """Random charges, payments, refunds and expiries of two accounts in both modes; one account is charged fees."""

    def __init__(self, pool: Pool, accounts: list[UUID], rng: Random) -> None:
        self.pool, self.accounts, self.rng = pool, accounts, rng
        self.at = BEGINS
        self._charges: list[tuple[UUID, UUID, bool, int]] = []
        self._payments: list[tuple[UUID, UUID, bool, UUID, int, datetime]] = []

    async def begin(self) -> None:
        """Give each wallet a balance that covers the fees that refunds do not return, and cancel a charge."""
        for account_id in self.accounts:
            for mode in Mode:
                charge_id = await new_charge(self.pool, account_id, 10_000_00, test=mode.test, at=self.at)
                await book_further_payment(self.pool, charge_id, 10_000_00, None, now=self.at)
                charge_id = await new_charge(self.pool, account_id, 3_00, test=mode.test, at=self.at)
                command = cancellation(charge_id, None, reason=CancelReason.CANCELLED, actor="test", request_id=None)
                async with transaction(self.pool) as conn:
                    await change_charges(conn, [command], now=self.at)
                    await end_orders(conn, [charge_id])

    async def step(self) -> None:
        rng = self.rng
        at = self.at = to_millisecond(_next_instant(self.at, rng))
        account_id, test, cents = rng.choice(self.accounts), rng.random() < 0.2, rng.randint(100, 90_000)
        match rng.randrange(6):
            case 0 | 1:
                lifetime = timedelta(days=rng.choice([1, 400]))
                charge_id = await new_charge(self.pool, account_id, cents, test=test, at=at, lifetime=lifetime)
                self._charges.append((charge_id, account_id, test, cents))
            case 2 | 3 if self._charges:  # some of them are paid twice, or too much
                charge_id, account_id, test, cents = rng.choice(self._charges[-9:])
                cents += rng.choice([0, 0, 7])
                payment_id = await book_further_payment(self.pool, charge_id, cents, None, now=at)
                self._payments.append((charge_id, account_id, test, payment_id, cents, at))
            case 4 if self._payments and at - self._payments[-1][-1] < REFUNDED_WITHIN:
                charge_id, account_id, test, payment_id, cents, _ = self._payments.pop()
                failing, part = rng.random() < 0.3, max(1, cents // 3)
                await refunds(
                    self.pool, account_id, [(charge_id, payment_id, part)], test=test, failing=failing, now=at
                )
            case _ if self._charges:
                overdue = [each[0] for each in self._charges[-20:]]
                async with transaction(self.pool) as conn:
                    await expire_charges(conn, overdue, now=at, actor="test")
            case _:
                pass

    async def pay_at_the_end_of_a_month(self, account_id: UUID) -> None:
        """Issue a charge that is paid at once, in the last second of the next month in São Paulo."""
        after = (_day(self.at).replace(day=1) + timedelta(days=64)).replace(day=1)
        self.at = day_begins(after) - timedelta(seconds=1)
        charge_id = await new_charge(self.pool, account_id, 70_00, at=self.at)
        await book_further_payment(self.pool, charge_id, 70_00, None, now=self.at)


@pytest.mark.parametrize("seed", [1, 2])
async def test_sums_equal_those_of_their_charges_and_ledger_lines(
    pool: Pool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "ROWS_MAX", FOLDED_AT_ONCE)
    rng = Random(seed)
    accounts = [await make_account(pool) for _ in range(2)]
    await pool.execute("UPDATE account SET fees = $2 WHERE account_id = $1", accounts[0], msgspec.json.encode(FEES))
    await pool.execute("UPDATE account SET created_at = $2 WHERE account_id = ANY($1)", accounts, BEGINS)
    history = _History(pool, accounts, rng)
    await history.begin()
    for number in range(1, STEPS + 1):
        await history.step()
        if rng.random() < 0.4:
            await fold_settled_totals(pool)
        if number % CHECK_EVERY == 0:
            await _assert_sums(pool, accounts, rng)
    # The last row of the journal is then a ledger line, in the totals or not, whose day in UTC is in the next month.
    for _ in range(2):
        await history.pay_at_the_end_of_a_month(accounts[0])
        await _assert_sums(pool, accounts, rng)
        await fold_totals(pool)
        await _assert_sums(pool, accounts, rng)
    for account_id in accounts:
        await _assert_receipts_report(pool, account_id)


async def _assert_sums(pool: Pool, accounts: list[UUID], rng: Random) -> None:
    async with session(pool) as conn:
        for account_id in accounts:
            for mode in Mode:
                owner = Owner(account_id, mode)
                assert await first_day(conn, owner) == _day(BEGINS)
                charges = await _rows(conn, "SELECT created_at AS at, * FROM charge", owner)
                lines = await _rows(conn, "SELECT created_at AS at, * FROM read_ledger", owner)
                await _assert_charge_sums(conn, owner, charges, rng)
                await _assert_daily_closings(conn, owner, lines, rng)
                if mode is Mode.PRODUCTION:
                    await _assert_ledger_sums(conn, owner, lines, rng)


async def _rows(conn: Connection, select: str, owner: Owner) -> list[Any]:
    rows = await conn.fetch(f"{select} WHERE account_id = $1 AND test = $2", owner.account_id, owner.test)
    return sorted(rows, key=lambda row: row.get("sequence") or 0)


def _random_range(rows: list[Any], rng: Random) -> tuple[date, date]:
    days = [_day(row["at"]) for row in rows] or [_day(BEGINS)]
    first, last = sorted(rng.choice(days) + timedelta(days=rng.randint(-1, 1)) for _ in range(2))
    return first, last


async def _assert_charge_sums(conn: Connection, owner: Owner, charges: list[Any], rng: Random) -> None:
    for first, last in [(date.min, date.max), *(_random_range(charges, rng) for _ in range(3))]:
        filters = ChargeFilters(created_from=day_begins(first), created_to=day_ends(last))
        found = await charge_sums(conn, owner, filters)
        wanted: Counter[str] = Counter()
        for row in charges:
            if first <= _day(row["at"]) <= last:
                wanted[row["status"]] += row["amount_cents"]
        assert {status: found[status].cents for status in STATUSES} == {each: wanted[each] for each in STATUSES}
        await _assert_conversion(conn, owner, charges, first, last)


async def _assert_conversion(conn: Connection, owner: Owner, charges: list[Any], first: date, last: date) -> None:
    """The conversion by day and by month, from the stored totals and counted while these are far behind."""
    for by in (By.DAY, By.MONTH):
        days: dict[date, list[Any]] = {}
        for row in charges:
            if first <= _day(row["at"]) <= last:
                day = _day(row["at"])
                days.setdefault(day if by is By.DAY else day.replace(day=1), []).append(row)
        wanted = [_outcome(day, days[day]) for day in sorted(days, reverse=True)]
        for lag_rows_max in (spans.LAG_ROWS_MAX, -1):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(spans, "LAG_ROWS_MAX", lag_rows_max)
                assert await outcomes(conn, owner, first, last, by) == wanted


def _outcome(day: date, charges: list[Any]) -> CohortOutcome:
    count, cents = Counter(row["status"] for row in charges), Counter[str]()
    for row in charges:
        cents[row["status"]] += row["amount_cents"]
    return CohortOutcome(
        day, issued=len(charges), issued_cents=cents.total(), paid=count["paid"] + count["refunded"],
        paid_cents=cents["paid"] + cents["refunded"], open=count["pending"], expired=count["expired"],
        cancelled=count["cancelled"], failed=count["failed"],
    )  # fmt: skip


async def _assert_daily_closings(conn: Connection, owner: Owner, lines: list[Any], rng: Random) -> None:
    first, _ = _random_range(lines, rng)
    days = [first + timedelta(days=number) for number in range(-1, rng.randint(0, CLOSINGS_MAX - 2))]
    for day in await closings(conn, owner, days or [first]):
        of_day = [row for row in lines if _day(row["at"]) == day.on]
        before = sum(row["amount_cents"] for row in lines if _day(row["at"]) < day.on)
        moved = Counter[str]()
        for row in of_day:
            moved[row["type"]] += row["amount_cents"]
        assert (day.opening_cents, day.lines, day.received_cents, day.fee_cents, day.closing_cents) == (
            before, len(of_day), moved["payment"], -moved["fee"], before + moved.total(),
        )  # fmt: skip


async def _assert_ledger_sums(conn: Connection, owner: Owner, lines: list[Any], rng: Random) -> None:
    for first, last in [(date.min, date.max), *(_random_range(lines, rng) for _ in range(3))]:
        found = await ledger_sums(conn, owner, LedgerFilters(created_from=day_begins(first), created_to=day_ends(last)))
        assert {each.type: each.cents for each in found if each.lines} == _moved_by_type(lines, first, last)
    received = await payment_sum(conn, owner, PaymentFilters())
    of_all = _moved_by_type(lines, date.min, date.max)
    assert (received.cents, -received.fee_cents) == (of_all.get("payment", 0), of_all.get("fee", 0))
    if lines:
        ends = max(_day(row["at"]) for row in lines)
        for month in await settled_months(conn, owner.account_id, min(_day(row["at"]) for row in lines), ends):
            last = (month.month + timedelta(days=31)).replace(day=1) - timedelta(days=1)
            assert (month.off_cents, dict(month.moved)) == (0, _moved_by_type(lines, month.month, last))
            assert month.lines == sum(month.month <= _day(row["at"]) <= last for row in lines)


def _moved_by_type(lines: list[Any], first: date, last: date) -> dict[str, int]:
    moved: dict[str, int] = {}
    for row in lines:
        if first <= _day(row["at"]) <= last:
            moved[row["type"]] = moved.get(row["type"], 0) + row["amount_cents"]
    return moved


async def _assert_receipts_report(pool: Pool, account_id: UUID) -> None:
    """The report of receipts by month equals the payments by the day of their credit."""
    async with session(pool) as conn:
        paid = await conn.fetch(
            "SELECT credited_at AS at, * FROM payment WHERE account_id = $1 AND NOT test", account_id
        )
        first, last = min(_day(row["at"]) for row in paid), max(_day(row["at"]) for row in paid)
        query = ReportQuery(first=first, last=last, today=last, account_id=account_id, by=By.MONTH)
        wanted: Counter[date] = Counter()
        for row in paid:
            wanted[_day(row["at"]).replace(day=1)] += row["amount_cents"]
        assert {row[0]: row[3] async for row in REPORTS["receipts"].rows(keeping(conn), query)} == wanted
