"""Payer data is erased after the time in the settings, one for each mode."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from commands.charges.expire import expire_charges
from commands.merchants.account_export import export_account
from commands.merchants.account_import import import_account
from readmodels.verify import verify
from runtime.ids import new_id
from runtime.limits.kept import Kept, read_kept
from runtime.postgres import Pool, connect, open_pool
from runtime.seal import SCHEDULE_PAYER, Seal
from tests.support.dashboard import Books, a_merchant
from tests.support.database import own_database, owner_of
from workers.housekeeping.old_payers import erase_old_payers

SEAL = Seal(bytes(range(32)))
PAYER = {"name": "Quitéria Bragança", "document": "52998224725"}
DAYS, MONTHS = 90, 60
_YEAR = timedelta(days=365)


@pytest_asyncio.fixture(loop_scope="session")
async def url(servers: Any) -> AsyncIterator[str]:
    """A database of the test's own: the worker walks all accounts, years later than the clock of other tests."""
    async with own_database(servers, "retention") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def own(url: str) -> AsyncIterator[Pool]:
    opened = await open_pool(url, name="tests", size=5)
    yield opened
    await opened.close()


def worker(pool: Pool, at: datetime, *, days: int = DAYS, months: int = MONTHS) -> Any:
    kept = Kept(sandbox_kept_days=days, payers_kept_months=months)
    return SimpleNamespace(pool=pool, now=lambda: at, settings=SimpleNamespace(kept=kept))


async def erase_until_done(context: Any) -> None:
    for _ in range(50):
        if not await erase_old_payers(context):
            return
    raise AssertionError("the erasure does not come to an end")


async def make_paid_charge(books: Books, *, test: bool, lifetime: timedelta = timedelta(days=1)) -> UUID:
    doc = await books.charge(payer=PAYER, test=test, lifetime=lifetime)
    await books.paid(doc, payer_name="Zulmira")
    return UUID(doc.charge_id)


async def advance(books: Books, by: timedelta) -> None:
    await books.pool.execute(
        "INSERT INTO sandbox_clock (account_id, ahead_s, moved_at) VALUES ($1, $2, now())",
        books.account_id, by.total_seconds(),
    )  # fmt: skip


async def payer_is_kept(pool: Pool, charge_id: UUID) -> bool:
    return bool(
        await pool.fetchval(
            "SELECT num_nonnulls(c.payer_sealed, c.payer_document_hash, p.payer_sealed, r.payer_document_hash) = 4"
            " FROM charge c JOIN read_charge r USING (charge_id) JOIN payment p USING (charge_id) WHERE charge_id = $1",
            charge_id,
        )
    )


async def test_payer_data_of_each_mode_is_erased_after_the_time_of_that_mode(own: Pool) -> None:
    books = Books(own, (await a_merchant(own)).account_id, SEAL)
    tried, real = await make_paid_charge(books, test=True), await make_paid_charge(books, test=False)
    # Dated by the clock of a sandbox that was advanced by a year.
    ahead = await make_paid_charge(
        advanced := Books(own, (await a_merchant(own)).account_id, SEAL), test=True, lifetime=_YEAR
    )
    await advance(advanced, _YEAR)
    now = datetime.now(UTC)
    await erase_until_done(worker(own, now + timedelta(days=DAYS - 2)))
    assert [await payer_is_kept(own, each) for each in (tried, ahead, real)] == [True, True, True]
    await erase_until_done(worker(own, now + timedelta(days=DAYS + 2)))
    assert [await payer_is_kept(own, each) for each in (tried, ahead, real)] == [False, False, True]
    await erase_until_done(worker(own, now + timedelta(days=365 * 20), months=0))
    await erase_until_done(worker(own, now, days=20_000, months=20_000 // 31))  # the longest periods that may be set
    assert await payer_is_kept(own, real)
    await erase_until_done(worker(own, now + timedelta(days=31 * MONTHS + 2)))
    assert not await payer_is_kept(own, real)
    journal = await own.fetchval("SELECT count(*) FROM journal WHERE account_id = $1", books.account_id)
    assert journal == 4


async def test_the_payer_of_a_charge_that_can_be_paid_is_erased_only_after_the_charge_ended(own: Pool) -> None:
    books = Books(own, (await a_merchant(own)).account_id, SEAL)
    now = datetime.now(UTC)
    doc = await books.charge(payer=PAYER, test=True, lifetime=timedelta(days=200))
    charge_id = UUID(doc.charge_id)
    hurried = Books(own, (await a_merchant(own)).account_id, SEAL)
    hurried_id = UUID((await hurried.charge(payer=PAYER, test=True, lifetime=_YEAR)).charge_id)
    sealed = "SELECT payer_sealed IS NOT NULL FROM charge WHERE charge_id = $1"
    await erase_until_done(worker(own, now + timedelta(days=DAYS + 2)))
    assert await own.fetchval(sealed, charge_id)
    await advance(hurried, _YEAR)
    async with own.acquire() as conn, conn.transaction():
        await expire_charges(conn, [hurried_id], now=now + timedelta(days=DAYS + 2), actor="sweeper")
    over = now + timedelta(days=201)
    async with own.acquire() as conn, conn.transaction():
        await expire_charges(conn, [charge_id], now=over, actor="sweeper")
    await erase_until_done(worker(own, over))
    assert await own.fetchval(sealed, charge_id)
    assert not await own.fetchval(sealed, hurried_id)
    await erase_until_done(worker(own, over + timedelta(days=DAYS)))
    assert not await own.fetchval(sealed, charge_id)
    assert await own.fetchval("SELECT count(*) FROM payer_kept WHERE charge_id = $1", charge_id) == 0


async def test_a_charge_with_a_pending_refund_keeps_its_payer_until_the_refund_ended(own: Pool) -> None:
    books = Books(own, (await a_merchant(own)).account_id, SEAL)
    charge_id = await make_paid_charge(books, test=True)
    await own.execute("UPDATE payment SET refunding_cents = 1 WHERE charge_id = $1", charge_id)
    at = datetime.now(UTC) + timedelta(days=DAYS + 2)
    await erase_until_done(worker(own, at))
    assert await payer_is_kept(own, charge_id)
    await own.execute("UPDATE payment SET refunding_cents = 0 WHERE charge_id = $1", charge_id)
    await erase_until_done(worker(own, at + timedelta(days=2)))
    assert not await payer_is_kept(own, charge_id)


async def make_schedule(books: Books, status: str, charge_id: UUID | None, *, at: datetime) -> UUID:
    """A schedule that was last looked at at `at`, and issued this charge."""
    schedule_id, sealed = new_id(), SEAL.seal(b"{}", SCHEDULE_PAYER, "")
    await books.pool.execute(
        "INSERT INTO schedule (account_id, schedule_id, status, created_at, payment_method, amount_cents, frequency,"
        " first_due_date, issue_days_before, send_email, payer_sealed, payer_document_hash, look_at)"
        " VALUES ($1, $2, $3, $4, 'pix', 100, 'monthly', $4::timestamptz::date, 0, false, $5, 'x', $4)",
        books.account_id, schedule_id, status, at, sealed,
    )  # fmt: skip
    if charge_id is not None:
        await books.pool.execute(
            "INSERT INTO schedule_charge (account_id, schedule_id, number, due_date, state, charge_id, recorded_at)"
            " VALUES ($1, $2, 1, $4::timestamptz::date, 'issued', $3, $4)",
            books.account_id, schedule_id, charge_id, at,
        )  # fmt: skip
    return schedule_id


async def test_an_ended_schedule_loses_its_payer_after_its_last_charge_and_a_running_one_keeps_it(own: Pool) -> None:
    books = Books(own, (await a_merchant(own)).account_id, SEAL)
    now = datetime.now(UTC)
    charge_id = await make_paid_charge(books, test=False)
    ended = await make_schedule(books, "finished", charge_id, at=now)
    empty = await make_schedule(books, "cancelled", None, at=now)
    running = [await make_schedule(books, status, None, at=now) for status in ("active", "paused")]

    async def named_schedules() -> set[UUID]:
        rows = await own.fetch(
            "SELECT schedule_id FROM schedule WHERE num_nonnulls(payer_sealed, payer_document_hash) = 2"
        )
        return {row["schedule_id"] for row in rows}

    over = now + timedelta(days=31 * MONTHS + 2)
    await erase_until_done(worker(own, over, months=0))
    await erase_until_done(worker(own, over - timedelta(days=4)))
    assert await named_schedules() == {ended, empty, *running}
    await own.execute("UPDATE payment SET refunding_cents = 1 WHERE charge_id = $1", charge_id)
    await erase_until_done(worker(own, over))
    assert await named_schedules() == {ended, *running}, "a schedule keeps its payer as long as one of its charges does"
    await own.execute("UPDATE payment SET refunding_cents = 0 WHERE charge_id = $1", charge_id)
    await erase_until_done(worker(own, over + timedelta(days=2)))
    assert await named_schedules() == set(running)


async def test_the_payer_of_returned_suspense_is_erased_after_the_same_time(own: Pool) -> None:
    """Suspended money belongs to no charge, so the erasure of a charge's payer does not reach it."""
    now = datetime.now(UTC)
    for state, settled_at, reference in (("returned", now, "D1"), ("open", None, None)):
        await own.execute(
            "INSERT INTO suspense (suspense_id, bank, kind, source, amount_cents, received_at, found_at, payer_sealed,"
            " state, settled_at, return_reference)"
            " VALUES ($1, '001', 'pix_without_txid', $2, 100, $3, $3, 'x', $2, $4, $5)",
            new_id(), state, now, settled_at, reference,
        )  # fmt: skip

    async def kept() -> list[str]:
        rows = await own.fetch("SELECT state FROM suspense WHERE payer_sealed IS NOT NULL ORDER BY 1")
        return [row["state"] for row in rows]

    await erase_until_done(worker(own, now + timedelta(days=31 * MONTHS - 1)))
    await erase_until_done(worker(own, now + timedelta(days=31 * MONTHS + 1), months=0))
    assert await kept() == ["open", "returned"]
    await erase_until_done(worker(own, now + timedelta(days=31 * MONTHS + 1)))
    assert await kept() == ["open"], "open suspense keeps its payer until staff find out whose it is"


async def test_payers_of_an_imported_account_are_erased_like_those_of_other_accounts(
    own: Pool, url: str, servers: Any, tmp_path: Path
) -> None:
    """The imported charges may be older than the point the walk has reached here."""
    now, file = datetime.now(UTC), tmp_path / "account.jsonl"
    async with own_database(servers, "retention_source") as elsewhere:
        source = await open_pool(elsewhere, name="tests", size=2)
        came = Books(source, (await a_merchant(source)).account_id, SEAL)
        charge_id = await make_paid_charge(came, test=True)
        await source.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", came.account_id)
        await source.close()
        owner = await connect(owner_of(servers, elsewhere))
        # Its events have left the feed there, as after 400 days.
        await owner.execute("DELETE FROM read_event")
        await owner.execute("UPDATE feed_begin SET begins_at = now() + interval '1 day'")
        await export_account(owner, came.account_id, file, seal=SEAL, now=now, progress=lambda table: None)
        await owner.close()
    here = Books(own, (await a_merchant(own)).account_id, SEAL)
    later = await make_paid_charge(here, test=True)
    await erase_until_done(worker(own, now + timedelta(days=DAYS + 2)))
    assert not await payer_is_kept(own, later)
    owner = await connect(owner_of(servers, url))
    await import_account(owner, file, seal=SEAL, progress=lambda table: None)
    await owner.close()
    assert await verify(url) == []
    month = f"read_event_sandbox_{now - timedelta(days=399):%Y_%m}"
    assert await own.fetchval("SELECT to_regclass($1)::text", month) == month
    assert await own.fetchval("SELECT now() - begins_at BETWEEN '400 days' AND '432 days' FROM feed_begin")
    assert await payer_is_kept(own, charge_id)
    await erase_until_done(worker(own, now + timedelta(days=DAYS + 3)))
    assert not await payer_is_kept(own, charge_id)


async def test_a_worker_does_not_wait_for_one_that_is_erasing_the_same_mode(own: Pool) -> None:
    books = Books(own, (await a_merchant(own)).account_id, SEAL)
    charge_id = await make_paid_charge(books, test=True)
    at = datetime.now(UTC) + timedelta(days=DAYS + 2)
    await erase_old_payers(worker(own, datetime.now(UTC)))  # creates the rows of payer_retention
    async with own.acquire() as conn, conn.transaction():
        await conn.execute("SELECT FROM payer_retention WHERE test FOR UPDATE")
        assert await erase_old_payers(worker(own, at, months=0)) == 0
    await erase_until_done(worker(own, at))
    assert not await payer_is_kept(own, charge_id)


@pytest.mark.parametrize(("name", "most"), [("SANDBOX_KEPT_DAYS", 20_000), ("PAYERS_KEPT_MONTHS", 645)])
def test_an_invalid_retention_time_is_refused_with_the_name_of_its_setting(name: str, most: int) -> None:
    for given in ("-1", "9" * 9, "x", str(most + 1)):
        with pytest.raises(ValueError, match=name):
            read_kept({name: given})
    assert getattr(read_kept({name: str(most)}), name.lower()) == most


def test_payers_of_production_are_kept_unless_a_setting_says_how_long() -> None:
    assert read_kept({}) == Kept(payers_kept_months=0, sandbox_kept_days=90)
    assert read_kept({"PAYERS_KEPT_MONTHS": "60", "SANDBOX_KEPT_DAYS": "0"}) == Kept(
        payers_kept_months=60, sandbox_kept_days=0
    )
