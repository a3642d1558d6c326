"""Reports match the books to the cent, cover production only, and miss no row however late it is committed."""

import argparse
import asyncio
import hashlib
import io
import json
import math
import random
import tempfile
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, time, timedelta
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from uuid import UUID

import asyncpg
import msgspec
import pytest
import pytest_asyncio

from cli.report import _write_table, add_commands, show
from commands.charges.cancel import cancellation
from commands.charges.change import change_charges
from commands.charges.expire import expire_charges
from commands.charges.pay import BoletoPaymentFacts, Confirmation, confirm_payments
from commands.money.reversals import BankReturn, book_reversals
from domain.charge import CancelReason
from domain.errors import Code, Refused
from domain.instants import SAO_PAULO, day_begins, day_ends, iso, to_millisecond
from domain.merchants.fees import NO_FEES, FeeTerms
from domain.money import reais
from readmodels.rebuild import rebuild
from readmodels.reports import fees
from readmodels.reports.compare import whole as total_whole
from readmodels.reports.csv_lines import csv_line
from readmodels.reports.fold import find_horizon, fold_up_to, wait_for_horizon
from readmodels.reports.report import By, ReportQuery, Row, as_csv, as_json, ask, freshness, keeping
from readmodels.reports.reports import DELIVERIES_MAX, REPORTS
from readmodels.verify import verify
from runtime.cells.number import HOME
from runtime.postgres import Connection, Pool, connect, open_pool, session, transaction
from tests.conftest import Servers
from tests.integration.readmodels.test_plans import SEED_S, Explained, assert_cheap
from tests.support.banking import SECRET_KEY, make_account
from tests.support.boleto_merchant import issue_boleto_in_the_past
from tests.support.database import own_database, owner_of
from tests.support.merchant import new_merchant, until_answer
from tests.support.orders import end_orders
from tests.support.partners import (
    book_further_payment,
    confirmation,
    create_partner,
    fold_totals,
    new_charge,
    paid,
    post_partner_shares,
    refunds,
)
from tests.support.system import ROOT, System
from tests.support.wallet import SEAL, credit_wallet
from tests.support.webhooks import create_merchant_with_endpoint, receiving, record_events, until, webhook_worker
from workers.housekeeping.reports import LEASE, fold_reports, follow_journal
from workers.webhooks.attempt import ReceiverAnswer
from workers.webhooks.dispatcher import release
from workers.webhooks.lanes import DeliveryOutcome, store_results

DAYS = 24
TODAY = FIRST = date.min  # Set when the tests of this file start: the import may have been on another day.
MIDNIGHT_S = 120.0
FEES = FeeTerms(pix_bps=150, pix_cents_min=20, boleto_cents=199)


class World(NamedTuple):
    """Two merchants with some weeks of charges, and the codes of the partners who brought some of these."""

    merchants: list[UUID]
    codes: list[str]


@pytest.fixture(scope="module", autouse=True)
def _stay_within_one_day() -> None:
    """Makes all tests run on one day of São Paulo: if less than MIDNIGHT_S of the day is left, waits for midnight."""
    global TODAY, FIRST
    left_s = (day_ends(_day(datetime.now(UTC))) - datetime.now(UTC)).total_seconds()
    if left_s < MIDNIGHT_S:
        sleep(left_s + 0.1)
    TODAY = _day(datetime.now(UTC))
    FIRST = TODAY - timedelta(days=DAYS)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def servers(servers: Any) -> AsyncIterator[Any]:
    """The same servers with a database of its own: reports of all merchants together would otherwise count rows of
    other tests, and some of those were never journaled."""
    async with own_database(servers, "reports") as url:
        yield SimpleNamespace(database_url=url, owner_url=owner_of(servers, url), redis_url=servers.redis_url)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pool(servers: Any) -> AsyncIterator[Any]:
    opened = await open_pool(servers.database_url, name="tests", size=10)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def owner(servers: Any) -> AsyncIterator[Any]:
    opened = await open_pool(servers.owner_url, name="tests as owner", size=2)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(pool: Pool, servers: Any) -> World:
    chance = random.Random(4)
    merchants = [await make_account(pool) for _ in range(2)]
    partners = [await create_partner(pool, share) for share in (250, 1_000)]
    # They have been partners since before the weeks of the reports.
    await pool.execute(
        "UPDATE integrator_share SET since = '2020-01-01' WHERE integrador_code = ANY($1)",
        [each.integrador_code for each in partners],
    )
    codes = [each.integrador_code for each in partners]
    # One of the two merchants pays fees. Its wallets get money first, to cover fees that its refunds do not return.
    await pool.execute("UPDATE account SET fees = $2 WHERE account_id = $1", merchants[0], msgspec.json.encode(FEES))
    for test in (False, True):
        at = datetime.combine(FIRST, time(0, 0, 0), SAO_PAULO).astimezone(UTC)
        charge_id = await new_charge(pool, merchants[0], 100_000, test=test, at=at)
        payment = await book_further_payment(pool, charge_id, 100_000, None, now=at)
        # Late payments, duplicates and refunds of one day, some of them in the totals before the others. The charges of
        # a merchant differ in nothing but their ids.
        alike = [
            await new_charge(pool, merchant, 900, test=test, at=at, code=codes[0])
            for merchant in (*merchants, *merchants)
        ]
        for late_s, charges in ((3_601, alike[:2]), (3_602, alike[2:])):
            late_at = at + timedelta(seconds=late_s)
            for late in charges:
                await book_further_payment(pool, late, 900, codes[0], now=late_at)
            await book_further_payment(pool, charge_id, 70, None, now=late_at)
            await refunds(pool, merchants[0], [(charge_id, payment, 10)], test=test, now=late_at)
            await fold_totals(pool)
    for back in range(DAYS, -1, -1):
        day = TODAY - timedelta(days=back)
        # At 22:00 in São Paulo the day in UTC is the next one.
        begins = datetime.combine(day, time(22 if back % 2 else 0, 0, 1), SAO_PAULO).astimezone(UTC)
        for merchant in merchants:
            await _record_a_day(pool, merchant, begins, codes, chance)
        if back == DAYS // 2:
            await post_partner_shares(pool)
    # Seven days back, not three: a boleto due on a holiday before a weekend can still be paid days later.
    boletos = [(merchants[0], due) for due in (-12, -7, 0, 1, 5, 20, 45)] + [(merchants[0], 5), (merchants[1], 5)]
    conn: Any
    async with pool.acquire() as conn:
        place: Any = SimpleNamespace(
            database_url=servers.database_url, secret_key=bytes.fromhex(SECRET_KEY), bank_url="http://127.0.0.1:9"
        )
        for merchant, due in boletos:
            client: Any = SimpleNamespace(account_id=str(merchant))
            boleto = await issue_boleto_in_the_past(
                place,
                conn,
                client,
                test=False,
                due_on=TODAY + timedelta(days=due),
                amount_cents=1_000 + due,
            )
            async with conn.transaction():
                await expire_charges(conn, [UUID(boleto)], now=datetime.now(UTC), actor="test")
            if due == 45:
                await fold_totals(pool)
        paid_boleto = await issue_boleto_in_the_past(place, conn, client, test=False, due_on=TODAY + timedelta(days=3))
        await _pay_boleto(conn, UUID(paid_boleto), 15_000, codes[0])
    await post_partner_shares(pool)
    await fold_totals(pool)
    return World(merchants, codes)


async def _record_a_day(pool: Pool, merchant: UUID, begins: datetime, codes: list[str], chance: random.Random) -> None:
    """Records a day of one merchant, in production and in the sandbox, which no report may show."""
    at = begins
    for _ in range(chance.randrange(1, 4)):
        test = chance.random() < 0.2
        cents = chance.randrange(100, 50_000)
        code = chance.choice([None, *codes])
        charge_id = await new_charge(pool, merchant, cents, test=test, at=at, lifetime=timedelta(minutes=10), code=code)
        if chance.random() < 0.3:
            await fold_totals(pool)  # The charge is counted as open, and then changes its status.
        match chance.randrange(7):
            case 0:  # Stays open until it expires.
                at += timedelta(minutes=20)
                async with transaction(pool) as conn:
                    await expire_charges(conn, [charge_id], now=at, actor="test")
            case 1:
                wish = cancellation(charge_id, None, reason=CancelReason.CANCELLED, actor="test", request_id=None)
                async with transaction(pool) as conn:
                    await change_charges(conn, [wish], now=to_millisecond(at))
                    await end_orders(conn, [charge_id])
            case 2:  # Expires, and is paid late.
                at += timedelta(minutes=30)
                await book_further_payment(pool, charge_id, cents, code, now=at)
            case 3:  # Is paid twice and refunded in part.
                at += timedelta(seconds=chance.randrange(1, 500))
                first = await book_further_payment(pool, charge_id, cents, code, now=at)
                await book_further_payment(pool, charge_id, 70, code, now=at)
                for part, failing in ((cents // 3, False), (cents // 5, True)):
                    at += timedelta(seconds=1)
                    await refunds(pool, merchant, [(charge_id, first, part)], test=test, failing=failing, now=at)
            case _:
                at += timedelta(seconds=chance.randrange(1, 500))
                payment = await book_further_payment(pool, charge_id, cents, code, now=at)
                if chance.random() < 0.3:
                    await refunds(pool, merchant, [(charge_id, payment, cents)], test=test, now=at)
        at += timedelta(minutes=1)


async def _pay_boleto(conn: Any, charge_id: UUID, cents: int, code: str) -> None:
    number = await conn.fetchval("SELECT nosso_numero FROM read_charge WHERE charge_id = $1", charge_id)
    boleto = BoletoPaymentFacts(source=f"{number}/{cents}", method="boleto", nosso_numero=number, txid=None)
    now = datetime.now(UTC)
    received = Confirmation(
        charge_id=charge_id, end_to_end_id=None, amount_cents=cents, paid_at=now, boleto=boleto, integrador_code=code
    )
    async with conn.transaction():
        await confirm_payments(conn, [received], now=now, seal=SEAL, fees=NO_FEES)


async def rows_of(
    pool: Pool, name: str, account_id: UUID | None, *, first: date | None = None, last: date | None = None,
    by: By = By.DAY,
) -> list[dict[str, Any]]:  # fmt: skip
    report = REPORTS[name]
    asked = ReportQuery(first=first or FIRST, last=last or TODAY, today=TODAY, account_id=account_id, by=by)
    async with session(pool) as conn:
        names = [column.name for column in report.columns]
        return [dict(zip(names, row, strict=True)) async for row in report.rows(keeping(conn), asked)]


def _day(at: datetime) -> date:
    return at.astimezone(SAO_PAULO).date()


def _month(day: date) -> date:
    return day.replace(day=1)


GROUPS: dict[By, Callable[[date], date]] = {By.DAY: lambda day: day, By.MONTH: _month, By.PERIOD: lambda day: FIRST}


@pytest.fixture(params=["first", "second", "all"])
def whose(world: World, request: pytest.FixtureRequest) -> UUID | None:
    """The account to report on: one of the merchants, or None for all accounts of the database."""
    merchants: dict[str, UUID | None] = {"first": world.merchants[0], "second": world.merchants[1], "all": None}
    return merchants[request.param]


@pytest.mark.parametrize("by", list(By))
async def test_receipts_match_payments_and_ledger_to_the_cent(pool: Pool, whose: UUID | None, by: By) -> None:
    found = await rows_of(pool, "receipts", whose, by=by)
    wanted: defaultdict[tuple[date, str], Counter[str]] = defaultdict(Counter)
    for row in await pool.fetch(
        "SELECT p.*, r.doc FROM payment p JOIN payment_view r USING (account_id, test, paid_at, payment_id)"
        " WHERE NOT p.test AND ($1::uuid IS NULL OR p.account_id = $1)", whose,
    ):  # fmt: skip
        if FIRST <= _day(row["credited_at"]) <= TODAY:
            cell = wanted[GROUPS[by](_day(row["credited_at"])), row["method"]]
            cell["payments"] += 1
            cell["amount"] += row["amount_cents"]
            cell["anomalous"] += row["anomaly"] is not None
            cell["late"] += json.loads(row["doc"]).get("late", False)
    names = ("payments", "amount", "late", "anomalous")
    assert {(row["day"], row["method"]): [row[name] for name in names] for row in found} == {
        key: [cell[name] for name in names] for key, cell in wanted.items()
    }
    assert len(found) == len(wanted) > 0
    ledger = await pool.fetchval(
        "SELECT sum(amount_cents) FROM read_ledger WHERE NOT test AND type = 'payment'"
        " AND ($1::uuid IS NULL OR account_id = $1) AND created_at >= $2 AND created_at < $3",
        whose, day_begins(FIRST), day_ends(TODAY),
    )  # fmt: skip
    assert sum(row["amount"] for row in found) == ledger


async def test_the_kept_totals_of_entries_match_the_ledger_of_each_day(pool: Pool, whose: UUID | None) -> None:
    moved = await pool.fetch(
        "SELECT day, sum(cents)::bigint FROM report_entry WHERE account_id = $1 GROUP BY 1", whose or UUID(int=0)
    )
    lines = await pool.fetch(
        "SELECT created_at, amount_cents FROM read_ledger WHERE NOT test AND ($1::uuid IS NULL OR account_id = $1)",
        whose,
    )
    wanted: Counter[date] = Counter()
    for row in lines:
        wanted[_day(row["created_at"])] += row["amount_cents"]
    assert {day: cents for day, cents in moved if cents} == {day: cents for day, cents in wanted.items() if cents}


@pytest.mark.parametrize("by", list(By))
async def test_expiry_and_conversion_match_the_current_state_of_the_charges(
    pool: Pool, whose: UUID | None, by: By
) -> None:
    expiry = await rows_of(pool, "expiry", whose, by=by)
    conversion = await rows_of(pool, "conversion", whose, by=by)
    cells: defaultdict[tuple[date, str], Counter[str]] = defaultdict(Counter)
    waits: defaultdict[tuple[date, str], list[float]] = defaultdict(list)
    for row in await pool.fetch(
        "SELECT c.*, p.paid_at FROM charge c LEFT JOIN payment p"
        " ON p.charge_id = c.charge_id AND p.account_id = c.account_id AND p.settles"
        " WHERE NOT c.test AND ($1::uuid IS NULL OR c.account_id = $1)", whose,
    ):  # fmt: skip
        if FIRST <= _day(row["created_at"]) <= TODAY:
            key = (GROUPS[by](_day(row["created_at"])), row["payment_method"])
            cells[key].update({"charges": 1, "amount": row["amount_cents"], row["status"]: 1})
            cells[key][f"{row['status']}_amount"] += row["amount_cents"]
            if row["paid_at"] is not None:
                waits[key].append(max(1.0, (row["paid_at"] - row["created_at"]).total_seconds()))
    assert len(expiry) == len(conversion) == len(cells) > 0
    for shown in expiry:
        cell = cells[shown["day"], shown["method"]]
        assert shown == {
            "day": shown["day"], "method": shown["method"], "charges": cell["charges"], "open": cell["pending"],
            "expired": cell["expired"], "expired_amount": cell["expired_amount"], "cancelled": cell["cancelled"],
            "cancelled_amount": cell["cancelled_amount"], "failed": cell["failed"],
            "expiry": _half_up(cell["expired"], cell["charges"]),
            "cancellation": _half_up(cell["cancelled"], cell["charges"]),
        }  # fmt: skip
    for shown in conversion:
        key = (shown["day"], shown["method"])
        cell, wait = cells[key], sorted(waits[key])
        done = cell["paid"] + cell["refunded"]
        assert (shown["charges"], shown["amount"], shown["paid"]) == (cell["charges"], cell["amount"], done)
        assert shown["paid_amount"] == cell["paid_amount"] + cell["refunded_amount"]
        assert shown["conversion"] == _half_up(done, cell["charges"])
        for name, part in (("median_seconds", 0.5), ("p90_seconds", 0.9)):
            if wait:
                exact = wait[math.ceil(round(part * len(wait), 9)) - 1]
                assert abs(shown[name] - exact) <= 0.046 * exact + 0.5  # The report shows whole seconds.
            else:
                assert shown[name] is None


def _half_up(part: int, whole: int) -> int:
    return (20_000 * part + whole) // (2 * whole)


async def test_boletos_are_counted_in_the_aging_bucket_of_their_due_date(pool: Pool, world: World) -> None:
    found = {row["bucket"]: (row["slips"], row["amount"]) for row in await rows_of(pool, "aging", world.merchants[0])}
    assert found == {
        "open_31_or_more": (1, 1_045),
        "open_8_to_30": (1, 1_020),
        "open_1_to_7": (3, 1_001 + 2 * 1_005),
        "open_today": (1, 1_000),
        "open_past_due": (0, 0),
        "expired_7_or_less": (1, 993),
        "expired_8_to_30": (1, 988),
        "expired_31_to_90": (0, 0),
        "expired_91_or_more": (0, 0),
    }
    found = {row["bucket"]: (row["slips"], row["amount"]) for row in await rows_of(pool, "aging", world.merchants[1])}
    assert {bucket: sums for bucket, sums in found.items() if any(sums)} == {"open_1_to_7": (1, 1_005)}
    of_all = {row["bucket"]: (row["slips"], row["amount"]) for row in await rows_of(pool, "aging", None)}
    assert of_all["open_1_to_7"] == (4, 1_001 + 3 * 1_005)


async def test_a_boleto_changes_its_aging_bucket_with_its_due_date(pool: Pool, servers: Any) -> None:
    merchant = await make_account(pool)
    place: Any = SimpleNamespace(
        database_url=servers.database_url, secret_key=bytes.fromhex(SECRET_KEY), bank_url="http://127.0.0.1:9"
    )
    client: Any = SimpleNamespace(account_id=str(merchant))
    conn: Any
    async with pool.acquire() as conn:
        boleto = await issue_boleto_in_the_past(place, conn, client, test=False, due_on=TODAY + timedelta(days=2))
    await fold_totals(pool)
    # The journal rows that a change of the due date writes; this test does not read the boleto itself.
    for days in (20, 40):
        await pool.execute(
            "INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload)"
            " VALUES ($1, false, $2, 2, 'charge.due_date_changed', now(), 'test', jsonb_build_object('charge',"
            " jsonb_build_object('due_date', $3::text)))",
            merchant, UUID(boleto), (TODAY + timedelta(days=days)).isoformat(),
        )  # fmt: skip
        await fold_totals(pool)
    found = {row["bucket"]: row["slips"] for row in await rows_of(pool, "aging", merchant)}
    assert {bucket: boletos for bucket, boletos in found.items() if boletos} == {"open_31_or_more": 1}
    await rebuild(servers.database_url)  # Brings all read tables up to the journal.
    await pool.execute("UPDATE charge SET version = 2 WHERE charge_id = $1", UUID(boleto))


async def test_refunds_are_counted_on_the_day_of_their_request_and_of_their_end(pool: Pool, whose: UUID | None) -> None:
    found = await rows_of(pool, "refunds", whose)
    wanted: defaultdict[tuple[date, str], Counter[str]] = defaultdict(Counter)
    for row in await pool.fetch(
        "SELECT f.*, p.method, r.doc ->> 'completed_at' AS completed_at FROM refund f"
        " JOIN payment p USING (payment_id) JOIN read_refund r USING (refund_id)"
        " WHERE NOT f.test AND ($1::uuid IS NULL OR f.account_id = $1)", whose,
    ):  # fmt: skip
        moments = [("asked", row["created_at"])]
        if row["status"] != "pending":
            moments.append((row["status"], datetime.fromisoformat(row["completed_at"])))
        for what, at in moments:
            if FIRST <= _day(at) <= TODAY:
                wanted[_day(at), row["method"]].update({what: 1, f"{what}_amount": row["amount_cents"]})
    assert len(found) == len(wanted) > 0
    for shown in found:
        cell = wanted[shown.pop("day"), shown.pop("method")]
        assert shown == {name: cell[name] for name in shown}


async def test_ledger_entries_of_a_payment_are_counted_under_its_method(pool: Pool) -> None:
    merchant = await make_account(pool)
    charge_id, payment_id = await paid(pool, merchant, 10_000, None)
    source = await pool.fetchval("SELECT source FROM payment WHERE payment_id = $1", payment_id)
    await refunds(pool, merchant, [(charge_id, payment_id, 1_000)])
    await refunds(pool, merchant, [(charge_id, payment_id, 500)], failing=True)
    returned = BankReturn(
        position=0, charge_id=charge_id, boleto_number=None, end_to_end_id=source, refund_id=None, bank_id="MED1",
        return_id=None, amount_cents=2_000,
    )  # fmt: skip
    async with transaction(pool) as conn:
        assert await book_reversals(conn, [returned], bank="001", now=datetime.now(UTC)) == 1
    await fold_totals(pool)
    rows = await pool.fetch(
        "SELECT type, method, entries, (amount * 100)::bigint AS cents FROM reporting_ledger_by_day"
        " WHERE account_id = $1 ORDER BY type", merchant,
    )  # fmt: skip
    assert [tuple(row) for row in rows] == [
        ("adjustment", "pix", 1, -2_000),
        ("payment", "pix", 1, 10_000),
        ("refund", "pix", 2, -1_500),
        ("refund_reversal", "pix", 1, 500),
    ]


@pytest.mark.parametrize("by", list(By))
async def test_the_fees_report_matches_the_ledger_of_every_charged_account(
    pool: Pool, whose: UUID | None, by: By, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await rows_of(pool, "fees", whose, by=by)
    if whose is None:
        # In slices of a day or a month, as with thousands of accounts: no row is lost, twice, or out of order.
        monkeypatch.setattr(fees, "ROWS_AT_ONCE", 1)
        assert await rows_of(pool, "fees", whose, by=by) == found
    lines = await pool.fetch(
        "SELECT l.account_id, l.type, l.amount_cents, l.created_at, l.withdrawal_id, p.method FROM read_ledger l"
        " LEFT JOIN payment p ON p.account_id = l.account_id AND p.payment_id = l.payment_id"
        " WHERE NOT l.test AND l.type IN ('payment', 'fee') AND ($1::uuid IS NULL OR l.account_id = $1)", whose,
    )  # fmt: skip
    lines = [line for line in lines if FIRST <= _day(line["created_at"]) <= TODAY]
    charged = {line["account_id"] for line in lines if line["type"] == "fee"}
    wanted: defaultdict[tuple[date, str], Counter[str]] = defaultdict(Counter)
    for line in lines:
        if line["account_id"] not in charged:
            continue
        cell = wanted[GROUPS[by](_day(line["created_at"])), str(line["account_id"])]
        if line["type"] == "payment":
            cell.update({"payments": 1, "amount": line["amount_cents"]})
        else:
            cell.update({line["method"] or "withdrawal": -line["amount_cents"], "fees": -line["amount_cents"]})
    names = ("payments", "amount", "pix", "boleto", "withdrawal", "fees")
    assert {(row["day"], row["account_id"]): [row[name] for name in names] for row in found} == {
        key: [cell[name] for name in names] for key, cell in wanted.items()
    }
    assert len(found) == len(wanted)
    for row in found:
        assert row["rate"] == (_half_up(row["fees"], row["amount"]) if row["amount"] else None)
    assert [row["day"] for row in found] == sorted(row["day"] for row in found)


async def test_the_fees_report_adds_up_to_the_settlement_of_the_merchant(pool: Pool, world: World) -> None:
    charged, other = world.merchants
    assert await rows_of(pool, "fees", other) == []
    (whole,) = await rows_of(pool, "fees", charged, by=By.PERIOD)
    closings = [row for row in await rows_of(pool, "settlement", charged) if row["record"] == "closing"]
    assert sum(row["received"] for row in closings) == whole["amount"] > 0
    assert sum(row["fees"] for row in closings) == whole["fees"] > 0
    assert all(row["net"] == row["received"] - row["fees"] for row in closings)
    asked = ReportQuery(first=FIRST, last=TODAY, today=TODAY, account_id=charged)
    async with session(pool) as conn:
        total = await total_whole(REPORTS["settlement"], keeping(conn), asked)
    names = [column.name for column in REPORTS["settlement"].columns]
    shown = dict(zip(names, total, strict=True))
    assert (shown["received"], shown["fees"], shown["net"]) == (
        whole["amount"], whole["fees"], whole["amount"] - whole["fees"],
    )  # fmt: skip


async def test_the_integrators_report_matches_charges_payments_and_partner_shares(
    pool: Pool, world: World, whose: UUID | None
) -> None:
    found = {row["integrador_code"]: row for row in await rows_of(pool, "integrators", whose)}
    for code in world.codes:
        payments = await pool.fetch(
            "SELECT p.amount_cents FROM payment_view r JOIN payment p USING (account_id, test, paid_at, payment_id)"
            " WHERE NOT p.test AND r.doc ->> 'integrador_code' = $1 AND ($2::uuid IS NULL OR p.account_id = $2)",
            code, whose,
        )  # fmt: skip
        charges = await pool.fetch(
            "SELECT amount_cents FROM read_charge WHERE NOT test AND integrador_code = $1"
            " AND ($2::uuid IS NULL OR account_id = $2)", code, whose,
        )  # fmt: skip
        shares = await pool.fetch(
            "SELECT share_cents FROM partner_share WHERE NOT test AND integrador_code = $1"
            " AND ($2::uuid IS NULL OR account_id = $2)", code, whose,
        )  # fmt: skip
        row = found[code]
        assert (row["charges"], row["charge_amount"]) == (len(charges), sum(each[0] for each in charges))
        assert (row["payments"], row["payment_amount"]) == (len(payments), sum(each[0] for each in payments))
        assert row["given"] == sum(each[0] for each in shares if each[0] > 0) > 0
        assert row["taken_back"] == -sum(each[0] for each in shares if each[0] < 0) > 0
        assert row["net"] == row["given"] - row["taken_back"]
        if whose is None:
            partner = await pool.fetchval(
                "SELECT sum(l.amount_cents) FROM integrator i JOIN read_ledger l USING (account_id)"
                " WHERE i.integrador_code = $1 AND NOT l.test AND l.type = 'partner_share'", code,
            )  # fmt: skip
            assert row["net"] == partner


async def test_a_settlement_matches_the_ledger_and_its_checksum_can_be_recomputed(pool: Pool, world: World) -> None:
    merchant = world.merchants[0]
    rows = await rows_of(pool, "settlement", merchant)
    lines = await pool.fetch("SELECT * FROM read_ledger WHERE account_id = $1 AND NOT test ORDER BY sequence", merchant)
    assert [row["sequence"] for row in rows if row["record"] == "entry"] == list(range(1, len(lines) + 1))
    balance = 0
    for day in (FIRST + timedelta(days=number) for number in range(DAYS + 1)):
        of_day = [row for row in rows if row["day"] == day]
        opening, *entries, closing = of_day
        assert (opening["record"], closing["record"]) == ("opening", "closing")
        assert opening["balance"] == balance
        text = f"{merchant};{day};{reais(balance)}\n"
        mine = [line for line in lines if _day(line["created_at"]) == day]
        assert closing["entries"] == len(mine) == len(entries)
        for line, entry in zip(mine, entries, strict=True):
            balance += line["amount_cents"]
            assert (entry["amount"], entry["balance"]) == (line["amount_cents"], balance)
            assert entry["payment_id"] == (str(line["payment_id"]) if line["payment_id"] else None)
            text += (
                f"{line['sequence']};{line['entry_id']};{iso(line['created_at'])};{line['type']};"
                f"{reais(line['amount_cents'])};{reais(balance)}\n"
            )
        text += f"{reais(balance)}\n"
        assert (closing["amount"], closing["balance"]) == (balance - opening["balance"], balance)
        assert closing["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert balance == await pool.fetchval(
        "SELECT balance_cents FROM account_clock WHERE account_id = $1 AND NOT test", merchant
    )


async def test_a_settlement_of_many_lines_is_read_in_pages(pool: Pool, world: World, monkeypatch: Any) -> None:
    whole = await rows_of(pool, "settlement", world.merchants[1])
    monkeypatch.setattr("readmodels.reports.settlement._LINES_PAGE", 3)
    assert await rows_of(pool, "settlement", world.merchants[1]) == whole
    middle = FIRST + timedelta(days=DAYS // 2)
    later = await rows_of(pool, "settlement", world.merchants[1], first=middle)
    assert later == [row for row in whole if row["day"] >= middle]


async def test_a_settlement_adds_up_when_payments_are_booked_while_it_is_read(pool: Pool) -> None:
    """Two payments, one of the day before, are booked between two statements of the report."""
    merchant, begins = await make_account(pool), day_begins(TODAY)
    asked = ReportQuery(first=TODAY, last=TODAY, today=TODAY, account_id=merchant, by=By.DAY)
    lent = 0

    @asynccontextmanager
    async def lend() -> AsyncIterator[Connection]:
        nonlocal lent
        lent += 1
        if lent == 2:
            for at in (begins - timedelta(milliseconds=1), begins + timedelta(milliseconds=1)):
                await credit_wallet(pool, merchant, 500, now=at)
        async with session(pool) as conn:
            yield conn

    rows = [row async for row in REPORTS["settlement"].rows(lend, asked)]
    assert [row[1] for row in rows] == ["opening", "closing"]
    assert [row[1] async for row in REPORTS["settlement"].rows(lend, asked)] == ["opening", "entry", "closing"]


async def test_no_report_counts_sandbox_rows(pool: Pool, servers: Any) -> None:
    merchant, partner = await make_account(pool), await create_partner(pool, 1_000)
    await pool.execute("UPDATE account SET fees = $2 WHERE account_id = $1", merchant, msgspec.json.encode(FEES))
    charge_id, payment_id = await paid(pool, merchant, 1_000, partner.integrador_code, test=True)
    await refunds(pool, merchant, [(charge_id, payment_id, 10)], test=True)
    await new_charge(pool, merchant, 500, test=True, code=partner.integrador_code)
    place: Any = SimpleNamespace(
        database_url=servers.database_url, secret_key=bytes.fromhex(SECRET_KEY), bank_url="http://127.0.0.1:9"
    )
    client: Any = SimpleNamespace(account_id=str(merchant))
    conn: Any
    async with pool.acquire() as conn:
        await issue_boleto_in_the_past(place, conn, client, test=True, due_on=TODAY + timedelta(days=2))
    await post_partner_shares(pool)
    await fold_totals(pool)
    for account_id in (merchant, partner.account_id):
        for name in REPORTS:
            for row in await rows_of(pool, name, account_id):
                shown = {key: value for key, value in row.items() if isinstance(value, int) and value}
                assert not shown, (name, row)


async def test_a_row_that_is_committed_late_is_not_missed(pool: Pool) -> None:
    late, soon = await make_account(pool), await make_account(pool)
    charge_id = await new_charge(pool, late, 1_000)
    await fold_totals(pool)
    async with pool.acquire() as conn:
        writing = conn.transaction()
        await writing.start()
        await confirm_payments(
            conn, [confirmation(charge_id, 1_000, None)], now=datetime.now(UTC), seal=SEAL, fees=NO_FEES
        )
        # Rows with larger journal ids are committed first.
        await paid(pool, soon, 2_000, None)
        async with session(pool) as other:
            assert await wait_for_horizon(other) is None
        waited = asyncio.create_task(fold_all_when_settled(pool))
        await asyncio.sleep(0.2)
        await writing.commit()
    await waited
    for account_id, cents in ((late, 1_000), (soon, 2_000)):
        assert [row["amount"] for row in await rows_of(pool, "receipts", account_id)] == [cents]


async def fold_all_when_settled(pool: Pool) -> None:
    for _ in range(20):
        async with session(pool) as conn:
            horizon = await wait_for_horizon(conn)
        if horizon is not None:
            await fold_totals(pool)
            return
    raise AssertionError("the writer's transaction never ended")


async def test_one_worker_folds_at_a_time_and_another_takes_over_when_its_lease_ends(pool: Pool) -> None:
    merchant = await make_account(pool)
    await fold_totals(pool)
    await pool.execute("DELETE FROM lease WHERE name = $1", LEASE)
    settings = SimpleNamespace(cell=HOME)
    one, other = (cast("Any", SimpleNamespace(pool=pool, worker=name, settings=settings)) for name in ("one", "other"))
    await paid(pool, merchant, 100, None)
    assert await fold_reports(one) > 0
    await paid(pool, merchant, 100, None)
    assert await fold_reports(other) == 0
    assert await fold_reports(one) > 0
    await paid(pool, merchant, 100, None)
    await pool.execute("UPDATE lease SET until = now() WHERE name = $1", LEASE)
    assert await fold_reports(other) > 0
    assert await fold_reports(one) == 0
    await pool.execute("DELETE FROM lease WHERE name = $1", LEASE)


async def test_a_worker_continues_only_while_a_round_leaves_rows_behind(pool: Pool, monkeypatch: Any) -> None:
    merchant = await make_account(pool)
    await fold_totals(pool)
    await pool.execute("DELETE FROM lease WHERE name = $1", LEASE)
    context = cast("Any", SimpleNamespace(pool=pool, worker="one", settings=SimpleNamespace(cell=HOME)))
    while await fold_reports(context):  # This also seals the hash chains.
        pass
    for name in ("readmodels.reports.fold.ROWS_MAX", "workers.housekeeping.reports.FOLDED_MAX"):
        monkeypatch.setattr(name, 4)
    for _ in range(3):
        await paid(pool, merchant, 100, None)  # Each writes two journal rows.
    # The first round folds four of the six rows; the hash chain seals all six at once.
    assert await follow_journal(context) > 0
    assert await follow_journal(context) == 0
    assert await fold_reports(context) == 0, "no row was left to fold"
    await pool.execute("DELETE FROM lease WHERE name = $1", LEASE)


async def test_concurrent_folds_count_each_row_once(pool: Pool, monkeypatch: Any) -> None:
    monkeypatch.setattr("readmodels.reports.fold.ROWS_MAX", 3)
    merchant = await make_account(pool)
    for _ in range(6):
        await paid(pool, merchant, 100, None)
    async with session(pool) as conn:
        horizon = await find_horizon(conn)

    async def work() -> None:
        for _ in range(40):
            async with transaction(pool) as conn:
                if await fold_up_to(conn, horizon) == 0:
                    return

    await asyncio.gather(*(work() for _ in range(4)))
    await fold_totals(pool)
    assert [(row["payments"], row["amount"]) for row in await rows_of(pool, "receipts", merchant)] == [(6, 600)]


async def test_a_fold_that_is_rolled_back_is_repeated_completely(pool: Pool) -> None:
    merchant = await make_account(pool)
    await paid(pool, merchant, 100, None)
    async with session(pool) as conn:
        horizon = await wait_for_horizon(conn)
        assert horizon is not None
    async with pool.acquire() as conn:
        lost = conn.transaction()
        await lost.start()
        assert await fold_up_to(conn, horizon)
        await lost.rollback()
    assert await rows_of(pool, "receipts", merchant) == []
    await fold_totals(pool)
    assert [row["amount"] for row in await rows_of(pool, "receipts", merchant)] == [100]


async def test_reports_state_how_far_they_lag(pool: Pool) -> None:
    began = monotonic()
    await fold_totals(pool)
    async with session(pool) as conn:
        fresh = await freshness(conn)
        assert fresh is not None
        assert fresh.lag_seconds <= monotonic() - began + 1
        await conn.execute("UPDATE report_position SET as_of = as_of - interval '90 seconds'")
        stale = await freshness(conn)
        assert stale is not None
        assert 89 <= stale.lag_seconds <= monotonic() - began + 91
    await fold_totals(pool)


TOTALS = (
    "report_charge", "report_cohort", "report_due", "report_wait", "report_entry", "report_refund", "report_integrator",
    "span_charge", "span_entry",
)  # fmt: skip


async def _totals(pool: Pool) -> dict[str, set[str]]:
    counted = {"report_cohort", "report_due", "span_charge"}
    return {
        table: {
            row[0]
            for row in await pool.fetch(
                f"SELECT t::text FROM {table} t" + (" WHERE charges <> 0" if table in counted else "")  # noqa: S608
            )
        }
        for table in TOTALS
    }


async def test_a_rebuild_reproduces_the_totals_that_were_kept_live(pool: Pool, servers: Any, world: World) -> None:
    before = await verify(servers.database_url)
    await fold_totals(pool)
    live = await _totals(pool)
    assert all(live.values())
    rows = await rebuild(servers.database_url)
    assert await _totals(pool) == live
    assert set(TOTALS) <= set(rows)
    # Folding continues from the rebuilt totals.
    await paid(pool, world.merchants[0], 100, None)
    await fold_totals(pool)
    assert {each.table for each in await verify(servers.database_url)} <= {each.table for each in before}


@pytest.mark.parametrize(
    "corruptions",
    [
        {"report_charge": "UPDATE report_charge SET status = 'failed' WHERE account_id = $1"},
        # Each table is compared separately with what follows from the journal or from report_charge.
        {
            "report_cohort": "UPDATE report_cohort SET charges = charges + 1 WHERE account_id = $1",
            "report_due": "DELETE FROM report_due WHERE account_id = $1",
            "report_wait": "DELETE FROM report_wait WHERE account_id = $1",
            "report_entry": "UPDATE report_entry SET cents = cents - 1 WHERE account_id = $1",
            "report_refund": "UPDATE report_refund SET refunds = 0 WHERE account_id = $1",
            "report_integrator": "UPDATE report_integrator SET given_cents = 0 WHERE account_id = $1",
            "span_charge": "UPDATE span_charge SET charges = charges + 1 WHERE account_id = $1 AND span = 'day'",
            "span_entry": "DELETE FROM span_entry WHERE account_id = $1 AND span = 'day'",
        },
        {
            "span_charge": "UPDATE span_charge SET cents = 0 WHERE account_id = $1 AND test AND span = 'year'",
            "span_entry": "UPDATE span_entry SET entries = entries + 1 WHERE account_id = $1 AND span = 'decade'",
        },
    ],
)
async def test_verify_reports_totals_that_do_not_match_the_journal(
    pool: Pool, servers: Any, world: World, corruptions: dict[str, str]
) -> None:
    for corruption in corruptions.values():
        await pool.execute(corruption, world.merchants[0])
    assert corruptions.keys() <= {each.table for each in await verify(servers.database_url)}
    await rebuild(servers.database_url)
    assert not corruptions.keys() & {each.table for each in await verify(servers.database_url)}


async def test_verify_reports_no_difference_while_totals_lag(pool: Pool, servers: Any) -> None:
    await fold_totals(pool)
    await paid(pool, await make_account(pool), 100, None)
    assert not [each for each in await verify(servers.database_url) if each.table.startswith(("report_", "span_"))]


async def test_webhook_attempts_are_counted_by_their_outcome(pool: Pool, servers: Any) -> None:
    async with receiving(lambda n: 200 if n >= 3 else 500) as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        async with webhook_worker(pool, servers.redis_url, delays_s=(0.1, 0.1), every_s=0.05):
            for test in (False, True):
                await record_events(pool, merchant, test=test)
                await until(pool, merchant, "delivered")
    await fold_totals(pool)
    ((row),) = await rows_of(pool, "webhooks", merchant.account_id)
    assert {name: row[name] for name in ("day", "attempts", "delivered", "rejected", "timed_out", "lost")} == {
        "day": TODAY, "attempts": 3, "delivered": 1, "rejected": 2, "timed_out": 0, "lost": 0,
    }  # fmt: skip
    assert row["success"] == 3_333
    await pool.execute("DELETE FROM webhook_endpoint")


async def test_an_attempt_counted_as_lost_is_recounted_when_its_answer_arrives(pool: Pool, servers: Any) -> None:
    async with receiving() as receiver:
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        (event_id,) = await record_events(pool, merchant)
        delivery = await pool.fetchval(
            "UPDATE webhook_delivery SET state = 'sending', attempt = 1, lease_until = now() WHERE event_id = $1"
            " RETURNING delivery_id", UUID(event_id),
        )  # fmt: skip
        async with session(pool) as conn:
            await release(conn, now=datetime.now(UTC), limit=10, losses_max=5, lease=timedelta(seconds=30))
        await fold_totals(pool)
        ((row),) = await rows_of(pool, "webhooks", merchant.account_id)
        assert (row["attempts"], row["lost"], row["delivered"]) == (1, 1, 0)
        # Then its answer arrives.
        await pool.execute(
            "UPDATE webhook_delivery SET state = 'sending', attempt = 1 WHERE delivery_id = $1", delivery
        )
        now = datetime.now(UTC)
        attempt = SimpleNamespace(
            due=SimpleNamespace(delivery_id=delivery, account_id=merchant.account_id, test=False, attempt=1),
            started_at=now, duration_ms=40,
            answer=ReceiverAnswer("delivered", 200, b""),
        )  # fmt: skip
        async with transaction(pool) as conn:
            await store_results(
                conn, attempts=[attempt], outcomes=[DeliveryOutcome("delivered", 1, now)], lanes=[], cap=10, cap_test=5,
                now=now,
            )  # fmt: skip
        await fold_totals(pool)
        ((row),) = await rows_of(pool, "webhooks", merchant.account_id)
        assert (row["attempts"], row["lost"], row["delivered"], row["mean_ms"]) == (1, 0, 1, 40)
    await pool.execute("DELETE FROM webhook_endpoint")


async def test_the_webhook_lanes_report_shows_their_current_state_and_backlog(
    pool: Pool, servers: Any, monkeypatch: Any
) -> None:
    async with receiving() as receiver:
        well, ill, other = [await create_merchant_with_endpoint(pool, receiver.url) for _ in range(3)]
        states = {"pending": 3, "held": 2, "exhausted": 1, "delivered": 4}
        for merchant, test in ((ill, False), (ill, True), (other, False)):
            for state, count in states.items():
                for _ in range(count):
                    (event_id,) = await record_events(pool, merchant, test=test)
                    await pool.execute(
                        "UPDATE webhook_delivery SET state = $2 WHERE event_id = $1", UUID(event_id), state
                    )
        await pool.execute(
            "UPDATE webhook_lane l SET state = 'paused', paused_at = '2026-11-20T12:00:00Z', failing_since ="
            " '2026-11-17T12:00:00Z' FROM webhook_endpoint e"
            " WHERE e.endpoint_id = l.endpoint_id AND e.account_id = $1 AND NOT l.test", ill.account_id,
        )  # fmt: skip
    names = ("state", "since", "pending", "held", "exhausted")
    paused = datetime(2026, 11, 20, 12, tzinfo=UTC)
    wanted = {
        str(well.account_id): ("idle", None, 0, 0, 0),
        str(ill.account_id): ("paused", paused, 3, 2, 1),
        str(other.account_id): ("idle", None, 3, 2, 1),
    }
    # First all accounts, in pages of one row; then each account alone.
    monkeypatch.setattr("readmodels.reports.reports._LANES_PAGE", 1)
    rows = await rows_of(pool, "webhook_lanes", None)
    assert {row["account_id"]: tuple(row[name] for name in names) for row in rows} == wanted
    assert [row["account_id"] for row in rows] == sorted(wanted)
    for account_id, standing in wanted.items():
        ((row),) = await rows_of(pool, "webhook_lanes", UUID(account_id))
        assert (row["account_id"], tuple(row[name] for name in names)) == (account_id, standing)
    # A lane is "open" once it has delivered something, and "strained" while it fails.
    await pool.execute(
        "UPDATE webhook_delivery d SET delivered_at = '2026-11-20T12:00:00Z' FROM webhook_endpoint e"
        " WHERE e.endpoint_id = d.endpoint_id AND e.account_id = $1 AND NOT d.test", other.account_id,
    )  # fmt: skip
    ((row),) = await rows_of(pool, "webhook_lanes", other.account_id)
    assert row["state"] == "open"
    await pool.execute(
        "UPDATE webhook_lane l SET consecutive_failures = 1 FROM webhook_endpoint e"
        " WHERE e.endpoint_id = l.endpoint_id AND e.account_id = $1 AND NOT l.test", other.account_id,
    )  # fmt: skip
    ((row),) = await rows_of(pool, "webhook_lanes", other.account_id)
    assert row["state"] == "strained"
    # Deliveries are counted up to DELIVERIES_MAX only.
    monkeypatch.setattr("readmodels.reports.reports.DELIVERIES_MAX", 2)
    ((row),) = await rows_of(pool, "webhook_lanes", ill.account_id)
    assert (row["pending"], row["held"], row["exhausted"]) == (2, 2, 1)
    await pool.execute("DELETE FROM webhook_endpoint")


# Queries, and how their rows are shown


def test_a_report_defaults_to_recent_days_and_refuses_impossible_ones() -> None:
    today = date(2026, 11, 21)
    receipts, settlement = REPORTS["receipts"], REPORTS["settlement"]
    asked = ask(receipts, today=today)
    assert (asked.first, asked.last) == (date(2026, 10, 23), today)
    asked = ask(settlement, today=today, account_id=UUID(int=1))
    assert asked.first == asked.last == date(2026, 11, 20)
    assert ask(receipts, today=today, first=date(2025, 1, 1)).first == date(2025, 1, 1)
    for report, first, last in (
        (receipts, date(2026, 11, 2), date(2026, 11, 1)),
        (receipts, date(2020, 1, 1), today),
        (settlement, date(2026, 1, 1), date(2026, 6, 1)),
        # Half-typed years give days at the ends of the calendar, which have no day before or after them.
        (receipts, None, date(1, 1, 5)),
        (receipts, date(1, 1, 1), date(1, 1, 5)),
        (settlement, date(9999, 12, 31), date(9999, 12, 31)),
    ):
        with pytest.raises(Refused) as refused:
            ask(report, today=today, first=first, last=last, account_id=UUID(int=1))
        assert refused.value.code is Code.DATE_RANGE_INVALID
    with pytest.raises(Refused) as refused:
        ask(settlement, today=today)
    assert refused.value.code is Code.VALIDATION_ERROR


def test_the_command_line_knows_every_report() -> None:
    commands = argparse.ArgumentParser().add_subparsers()
    add_commands(commands)
    (verbs,) = (each for each in commands.choices["report"]._actions if isinstance(each, argparse._SubParsersAction))
    assert list(verbs.choices) == [*REPORTS, "grant-role"]


@pytest.mark.parametrize("name", list(REPORTS))
async def test_a_slow_reader_of_a_report_holds_no_connection(pool: Pool, world: World, name: str) -> None:
    lent = 0

    @asynccontextmanager
    async def lend() -> AsyncIterator[Connection]:
        nonlocal lent
        async with session(pool) as conn:
            lent += 1
            yield conn
            lent -= 1

    report = REPORTS[name]
    asked = ask(report, today=TODAY, first=FIRST, last=TODAY, account_id=world.merchants[0])
    async for _ in report.rows(lend, asked):
        assert lent == 0


async def test_every_report_fills_its_columns_with_values_of_their_kind(pool: Pool, world: World) -> None:
    kinds = {"date": date, "instant": datetime, "text": str, "money": int, "count": int, "ratio": int, "seconds": int}
    for report in REPORTS.values():
        asked = ask(report, today=TODAY, first=FIRST, last=TODAY, account_id=world.merchants[0])
        async with session(pool) as conn:
            rows = [row async for row in report.rows(keeping(conn), asked)]
        if not report.name.startswith("webhook"):
            assert rows, report.name
        for row in rows:
            for column, value in zip(report.columns, row, strict=True):
                assert value is None or type(value) is kinds[column.kind], (report.name, column)
        for row in rows:
            assert csv_line(as_csv(report, row)).endswith(b"\r\n")
            for column, shown in zip(report.columns, as_json(report, row).values(), strict=True):
                assert shown is None or isinstance(shown, int if column.kind in ("count", "seconds") else str)


# What a report reads


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def three_years_of_totals(owner: Pool) -> AsyncIterator[Any]:
    """A connection whose open transaction holds the totals of three years of 40 merchants; it is rolled back after the
    tests."""
    async with owner.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        for statement in (
            "SET LOCAL idle_in_transaction_session_timeout = 0",
            "SET LOCAL statement_timeout = 0",
            "CREATE TEMPORARY TABLE cell ON COMMIT DROP AS SELECT md5('shop' || a)::uuid AS account_id,"
            " current_date - d AS day FROM generate_series(1, 40) a, generate_series(0, 1000) d",
            "INSERT INTO report_cohort SELECT account_id, day, m, s, 10, 1000 FROM cell,"
            " unnest(ARRAY['pix', 'boleto']) m, unnest(ARRAY['paid', 'pending', 'expired']) s",
            "INSERT INTO report_wait SELECT account_id, day, 'pix', b, 3 FROM cell, generate_series(40, 60, 5) b",
            "INSERT INTO report_due SELECT account_id, s, day + 30, 'boleto', 2, 200 FROM cell,"
            " unnest(ARRAY['paid', 'pending', 'expired']) s",
            "INSERT INTO report_entry SELECT account_id, day, t, m, 5, 500, 0, 0 FROM cell,"
            " unnest(ARRAY['payment', 'refund']) t, unnest(ARRAY['pix', 'boleto']) m",
            "INSERT INTO span_entry SELECT account_id, 'day', day, t, m, 5, 500 FROM cell,"
            " unnest(ARRAY['payment', 'refund', 'fee']) t, unnest(ARRAY['pix', 'boleto']) m",
            "INSERT INTO report_refund SELECT account_id, day, 'pix', w, 1, 100 FROM cell,"
            " unnest(ARRAY['created', 'succeeded']) w",
            "INSERT INTO report_integrator SELECT account_id, day, 'INTG-AAAAAA', 1, 1, 1, 1, 1, 1 FROM cell",
            "INSERT INTO report_attempt SELECT account_id, day, o, 5, 500 FROM cell,"
            " unnest(ARRAY['delivered', 'timeout']) o",
            "ANALYZE report_cohort, report_wait, report_due, report_entry, report_refund, report_integrator,"
            " report_attempt, integrator, span_entry",
        ):
            await conn.execute(statement, timeout=SEED_S)
        yield conn
        await transaction.rollback()


# How many rows of the totals a report on 31 days of one account may read.
COST = {
    "receipts": 124,
    "aging": 2_000,
    "conversion": 341,
    "expiry": 186,
    "refunds": 62,
    "fees": 210,
    "integrators": 32,
    "webhooks": 62,
}


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", [name for name, report in REPORTS.items() if not report.live])
async def test_a_report_reads_only_its_range_of_an_index(three_years_of_totals: Any, name: str, mode: str) -> None:
    explained: Any = Explained(three_years_of_totals, mode)
    merchant = await three_years_of_totals.fetchval("SELECT md5('shop7')::uuid")
    asked = ReportQuery(first=TODAY - timedelta(days=30), last=TODAY, today=TODAY, account_id=merchant)
    try:
        assert [row async for row in REPORTS[name].rows(keeping(explained), asked)] == []
    except ValueError:
        assert name == "aging"  # This report requires its nine buckets.
    ((_, plan),) = explained.plans
    _assert_reads_index_ranges(plan, COST[name])


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_charged_accounts_are_found_by_reading_fee_rows_only(three_years_of_totals: Any, mode: str) -> None:
    explained: Any = Explained(three_years_of_totals, mode)
    asked = ReportQuery(first=TODAY - timedelta(days=30), last=TODAY, today=TODAY, by=By.DAY)
    assert [row async for row in REPORTS["fees"].rows(keeping(explained), asked)] == []
    plans = dict(explained.plans)
    assert set(plans) == {"report.charged", "report.fees"}
    _assert_reads_index_ranges(plans["report.charged"], 31 * 40 * 2 + 200)  # 200: rows of the other tests


def _assert_reads_index_ranges(plan: Any, rows_max: int) -> None:
    nodes = [plan]
    read = 0
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        assert node["Node Type"] not in ("Seq Scan", "Bitmap Heap Scan"), json.dumps(plan)
        if node["Node Type"].startswith("Index"):
            read += node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
    assert read <= rows_max, (read, json.dumps(plan))


async def test_a_page_of_a_settlement_reads_only_its_lines(three_years_of_totals: Any) -> None:
    await three_years_of_totals.execute(
        "INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents, balance_after_cents,"
        " created_at)"
        " SELECT md5('shop7')::uuid, false, n, gen_random_uuid(), 'payment', 1, n,"
        " now() - interval '300 days' + n * interval '20 minutes' FROM generate_series(1, 20000) n"
    )
    await three_years_of_totals.execute("ANALYZE read_ledger")
    explained: Any = Explained(three_years_of_totals, "force_generic_plan")
    merchant = await three_years_of_totals.fetchval("SELECT md5('shop7')::uuid")
    asked = ReportQuery(
        first=TODAY - timedelta(days=100), last=TODAY - timedelta(days=100), today=TODAY, account_id=merchant
    )
    assert [row[1] async for row in REPORTS["settlement"].rows(keeping(explained), asked)] == ["opening", "closing"]
    assert {name for name, _ in explained.plans} == {"report.settled_before", "report.settlement"}
    assert_cheap(explained.plans, page=72)


async def test_webhook_lanes_are_counted_along_indexes_up_to_the_bound(three_years_of_totals: Any) -> None:
    for statement in (
        "INSERT INTO account (account_id, name, document, city, pix_key, kyc, created_at)"
        " SELECT md5('lane' || a)::uuid, 'Loja', '11222333000181', 'SAO PAULO', 'k' || a, 'approved', now()"
        " FROM generate_series(1, 600) a",
        "INSERT INTO webhook_endpoint SELECT md5('e' || a)::uuid, md5('lane' || a)::uuid, 'https://example.com/', '',"
        " '{}', now() FROM generate_series(1, 600) a",
        "INSERT INTO webhook_lane (endpoint_id, test) SELECT md5('e' || a)::uuid, t FROM generate_series(1, 600) a,"
        " unnest(ARRAY[true, false]) t",
        "INSERT INTO webhook_delivery (delivery_id, endpoint_id, account_id, test, event_id, sequence, type, state,"
        " due_at, created_at) SELECT gen_random_uuid(), md5('e7')::uuid, md5('lane7')::uuid, false, gen_random_uuid(),"
        " n, 'payment.received', s, now(), now() FROM generate_series(1, 12000) n,"
        " unnest(ARRAY['pending', 'held', 'exhausted', 'delivered']) s",
        "ANALYZE account, webhook_endpoint, webhook_lane, webhook_delivery",
    ):
        await three_years_of_totals.execute(statement, timeout=SEED_S)
    explained: Any = Explained(three_years_of_totals, "force_generic_plan")
    merchant = await three_years_of_totals.fetchval("SELECT md5('lane7')::uuid")
    asked = ReportQuery(first=TODAY, last=TODAY, today=TODAY, account_id=merchant)
    assert [row async for row in REPORTS["webhook_lanes"].rows(keeping(explained), asked)] == []
    ((_, plan),) = explained.plans
    # Besides the counts it reads the hundred newest deliveries, to find one that was delivered.
    _assert_reads_index_ranges(plan, 3 * DELIVERIES_MAX + 110)


# Roles of analysts


async def test_a_role_that_is_granted_the_views_reads_them_and_nothing_else(owner: Pool, world: World) -> None:

    async with owner.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        try:
            await conn.execute("CREATE ROLE analyst_of_reports")
            await conn.execute("SELECT reporting_grant('analyst_of_reports')")
            await conn.execute("SET LOCAL ROLE analyst_of_reports")
            views = [
                row[0]
                for row in await conn.fetch(
                    "SELECT relname FROM pg_class WHERE relname LIKE 'reporting\\_%' AND relkind = 'v'"
                )
            ]
            assert len(views) >= 12
            for view in views:
                await conn.fetch(f"SELECT * FROM {view} LIMIT 5")  # noqa: S608
            received = await conn.fetchval(
                "SELECT sum(amount) FROM reporting_receipts_by_day WHERE account_id = $1", world.merchants[0]
            )
            lines = await conn.fetchval(
                "SELECT sum(amount) FROM reporting_ledger WHERE account_id = $1 AND type = 'payment'",
                world.merchants[0],
            )
            assert received == lines > 0
            for secret in ("charge", "account", "read_payment", "credential", "report_entry", "journal"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    async with conn.transaction():
                        await conn.fetch(f"SELECT FROM {secret}")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with conn.transaction():
                    await conn.execute("SELECT reporting_grant('analyst_of_reports')")
        finally:
            await transaction.rollback()


async def test_every_view_and_column_for_analysts_is_described_and_none_is_personal(pool: Pool) -> None:
    rows = await pool.fetch(
        "SELECT c.relname, a.attname, col_description(c.oid, a.attnum) AS said,"
        " obj_description(c.oid, 'pg_class') AS what"
        " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
        " WHERE c.relname LIKE 'reporting\\_%' AND c.relkind = 'v'"
    )
    assert rows
    for row in rows:
        assert row["said"], row
        assert row["what"], row
        for word in ("payer", "document", "doc", "sealed", "email", "pix_key", "external_id", "secret", "hash"):
            assert word not in row["attname"], row


# The command line


@pytest.mark.parametrize("form", ["csv", "json", "table"])
async def test_a_pager_holds_no_connection_to_the_database(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    opened: list[Any] = []

    @asynccontextmanager
    async def connected(_: str) -> AsyncIterator[Any]:
        opened.append(await connect(servers.database_url))
        yield opened[-1]
        await opened[-1].close()

    class Pager(io.BytesIO):
        def write(self, shown: Any) -> int:
            assert opened[0].is_closed()
            return super().write(shown)

    pager = Pager()
    monkeypatch.setattr("cli.report.connected", connected)
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(pager, encoding="utf-8"))
    asked = {"report": REPORTS["receipts"], "account": None, "cell": None}
    args = argparse.Namespace(**asked, csv=form == "csv", json=form == "json")
    assert await asyncio.to_thread(show, args) == 0
    assert pager.getvalue()


async def test_a_long_table_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    report, number = REPORTS["receipts"], 20_000

    async def rows() -> AsyncIterator[Row]:
        for each in range(number):
            yield TODAY, "pix", each, 100, 0, 0

    head = {"from": TODAY, "to": TODAY, "as_of": None, "lag_seconds": None}
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    with tempfile.TemporaryFile() as out:
        tracemalloc.start()
        try:
            await _write_table(out, report, head, rows())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        out.seek(0)
        assert sum(1 for _ in out) == number + 2
    assert peak < 100 * number, "less than a row takes"


async def test_the_command_line_shows_each_report_three_ways(system: System) -> None:
    async with new_merchant(system) as merchant:
        account_id = merchant.production.account_id
        conn = await connect(system.database_url)
        try:
            # The payment is credited by the command that workers use, without the bank.
            made = await merchant.production.created("12.34", external_id="pedido 7\n2020-01-01  entry\u009b1m")
            received = confirmation(UUID(made["charge_id"]), 1_234, None)
            async with conn.transaction():
                await confirm_payments(conn, [received], now=datetime.now(UTC), seal=SEAL, fees=NO_FEES)
            await until_answer(
                lambda: conn.fetchval("SELECT true FROM report_entry WHERE account_id = $1", UUID(account_id))
            )
        finally:
            await conn.close()
        shown = system.json("report", "receipts", "--account", account_id)
        assert shown["rows"] == [
            {"day": TODAY.isoformat(), "method": "pix", "payments": 1, "amount": "12.34", "late": 0, "anomalous": 0}
        ]
        assert (shown["report"], shown["account_id"], shown["to"]) == ("receipts", account_id, TODAY.isoformat())
        assert 0 <= shown["lag_seconds"] < 60
        csv = system.quita("report", "receipts", "--account", account_id, "--csv")
        assert csv.stdout.lstrip("\ufeff").splitlines() == [
            "Dia;Pago por;Pagamentos;Valor;Com atraso;Com anomalia", f"{TODAY};pix;1;12,34;0;0",
        ]  # fmt: skip
        table = system.quita("report", "receipts", "--account", account_id).stdout
        assert table.splitlines()[1].split() == ["day", "method", "payments", "amount", "late", "anomalous"]
        assert table.splitlines()[2].split() == [TODAY.isoformat(), "pix", "1", "12.34", "0", "0"]
        settlement = ("report", "settlement", "--account", account_id, "--from", str(TODAY), "--to", str(TODAY))
        # Text of a merchant stays in its table cell: control characters do not reach the terminal.
        lines = system.quita(*settlement).stdout.split("\n")
        assert [line.split()[1] for line in lines[2:-1]] == ["opening", "entry", "closing"]
        assert "pedido 7 2020-01-01  entry 1m" in lines[3]
        closing = system.json(*settlement)["rows"][-1]
        assert (closing["record"], closing["balance"], closing["entries"]) == ("closing", "12.34", 1)
        # The merchant recomputes the checksum from the API's ledger with the code of the guide.
        guide: dict[str, Any] = {}
        exec((ROOT / "docs/reports.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0], guide)  # noqa: S102
        ledger = await merchant.production.ledger()
        assert guide["check_sum"](account_id, TODAY.isoformat(), "0.00", "12.34", ledger) == closing["sha256"]
        for name in REPORTS:
            given = ["--account", account_id] if REPORTS[name].of_one_account else []
            assert "rows" in system.json("report", name, *given)
        assert system.quita("report", "settlement").returncode == 2
        assert system.quita("report", "receipts", "--from", "2026-02-30").returncode == 2
        refused = system.quita("report", "receipts", "--from", "2026-02-02", "--to", "2026-02-01")
        assert (refused.returncode, refused.stderr.split(":")[1].strip()) == (1, "DATE_RANGE_INVALID")
        assert system.quita("report", "grant-role", "nobody_of_this_name").returncode == 1
        # An id that belongs to no account is refused, and not shown as an account that received nothing.
        for name, everywhere in (("settlement", ()), ("receipts", ("--cell", "all"))):
            nobody = system.quita("report", name, "--account", made["charge_id"], *everywhere)
            assert (nobody.returncode, nobody.stdout) == (1, ""), nobody.stderr
            assert f"there is no account {made['charge_id']}" in nobody.stderr
