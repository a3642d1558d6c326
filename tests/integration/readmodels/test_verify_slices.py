"""A verification works slice by slice: it finds what one comparison of everything would find, resumes after a kill, and
does not report concurrent writes as differences."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from commands.money.withdraw import NewWithdrawal, WithdrawalEnd, create_withdrawal, end_withdrawal, start_sending
from domain.instants import SAO_PAULO, to_millisecond
from domain.merchants.fees import NO_FEES
from readmodels.projector import Projection, project
from readmodels.shadow import Shadows
from readmodels.verify import NothingToResume, VerifyProgress, resume, verify
from readmodels.verify_scope import VerifyScope
from runtime.ids import new_id
from runtime.postgres import Pool, open_pool, transaction
from tests.support.banking import make_account
from tests.support.database import own_database, owner_of
from tests.support.merchant import until_answer
from tests.support.partners import (
    create_partner,
    fold_settled_totals,
    fold_totals,
    new_charge,
    paid,
    post_partner_shares,
    refunds,
)

SMALL = VerifyScope(rows_max=5)


class World(NamedTuple):
    url: str
    pool: Pool
    owner: Pool
    merchants: list[UUID]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(servers: Any) -> AsyncIterator[World]:
    """Two merchants and a partner with rows in every table, in a database of their own."""
    async with own_database(servers, "slices") as url:
        pool = await open_pool(url, name="tests", size=8)
        owner = await open_pool(owner_of(servers, url), name="tests", size=2)
        merchants = [await make_account(pool) for _ in range(2)]
        partner = await create_partner(pool, 1_000)
        for merchant in merchants:
            for number in range(2):
                await new_charge(pool, merchant, 500, at=datetime.now(UTC) - timedelta(days=number))
                charge_id, payment_id = await paid(pool, merchant, 1_000, partner.integrador_code)
                await paid(pool, merchant, 700, None, test=True)
                await refunds(pool, merchant, [(charge_id, payment_id, 10 + number)], failing=number % 2 == 0)
            await _make_withdrawals(pool, merchant)
        await post_partner_shares(pool)
        await fold_totals(pool)
        yield World(url, pool, owner, merchants)
        await owner.close()
        await pool.close()


async def _make_withdrawals(pool: Pool, merchant: UUID) -> None:
    """Creates one withdrawal that is sent and one that stays pending."""
    now = to_millisecond(datetime.now(UTC))
    ids = [new_id(), new_id()]
    for withdrawal_id in ids:
        new = NewWithdrawal(
            account_id=merchant, key=str(withdrawal_id), fingerprint=bytes(32), withdrawal_id=withdrawal_id,
            amount_cents=100, description=None, external_id=None, actor="test", request_id="test",
        )  # fmt: skip
        async with transaction(pool) as conn:
            assert await create_withdrawal(conn, new, now=now, bank="001", grace_s=0, fees=NO_FEES) is not None
    async with transaction(pool) as conn:
        await start_sending(conn, ids[0], merchant, now=now)
        await end_withdrawal(
            conn, WithdrawalEnd(account_id=merchant, withdrawal_id=ids[0], end_to_end_id="E1"), now=now
        )


async def test_correct_read_tables_verify_clean_for_every_slice_size(world: World) -> None:
    seen: dict[int, dict[str, int]] = {}
    for rows_max in (1, 3, 10_000):
        done: list[VerifyProgress] = []
        assert await verify(world.url, scope=VerifyScope(rows_max=rows_max), progress=done.append) == []
        seen[rows_max] = {each.part: each.slices for each in done}
    assert seen[1]["charges"] == 13
    assert seen[10_000]["charges"] == 2
    assert seen[1].keys() == seen[10_000].keys()


ONE = "ctid = (SELECT min(ctid) FROM {} WHERE account_id = $1)"
ONE_OF = "ctid = (SELECT min(ctid) FROM {} WHERE account_id = $1 AND span = '{}')"
MISSING, UNKNOWN = "missing or stale", "not in the journal"
NOT_ITS_DAYS, NOT_OF_ALL = "not the sum of its days", "not the sum of all accounts"
BALANCE = "ledger lines whose balance_after is not the one before plus the amount"
BALANCES = "balances that are not the sum of their lines"
SHARES = "partner shares not in the partner's ledger exactly when they were posted, to the cent"
EVENTS_GONE = "numbers missing in a feed"
LINES_GONE = "numbers missing in a ledger"
CHARGES_SEEN = "charges that look otherwise than they are"
CHARGES_BACK = "charges of which something else is back than of their payments"
CHARGES_PAID = "charges whose status is not what their payments say"
PAYMENTS_SEEN = "payments that cannot be seen"
PAYMENTS_BACK = "payments of which something else is back or on its way than their refunds say"
PAYMENTS_TAKEN = "payments of which the bank took back something else than their reversals say"
REFUNDS_SEEN = "refunds that look otherwise than they are"
REFUNDS_BOOKED = "refunds not debited once, or not credited back exactly when they failed, to the cent"
WITHDRAWALS_SEEN = "withdrawals that look otherwise than they are"


class Corruption(NamedTuple):
    """A statement that corrupts a table, the difference that a verification must report, and others it may report."""

    table: str
    what: str
    statement: str
    also: tuple[tuple[str, str], ...] = ()

    @property
    def broken(self) -> str:
        """The table that the statement writes."""
        return self.statement.replace("INSERT INTO ", "UPDATE ").replace("DELETE FROM ", "UPDATE ").split()[1]

    @property
    def found(self) -> set[tuple[str, str]]:
        return {(self.table, self.what), *self.also}


CORRUPTIONS = (
    Corruption("read_charge", MISSING, "DELETE FROM read_charge WHERE {one}",
     (("books", CHARGES_SEEN), ("report_cohort", UNKNOWN), ("span_charge", UNKNOWN))),
    Corruption("read_charge", UNKNOWN,
     "UPDATE read_charge SET changes = coalesce(changes, '{{}}') || '{{\"a\": 1}}' WHERE {one}",
     (("read_charge", MISSING),)),
    Corruption("read_charge", UNKNOWN, "UPDATE read_charge SET journal_id = journal_id + 1 WHERE {one}",
     (("read_charge", MISSING),)),
    Corruption("read_charge", UNKNOWN,
     "INSERT INTO read_charge (account_id, charge_id, test, created_at, status, payment_method, amount_cents,"
     " public_id,"
     " version, journal_id) VALUES ($1, gen_random_uuid(), false, now(), 'pending', 'pix', 1, 'other', 1, 1)"),
    Corruption("read_payment", MISSING, "DELETE FROM read_payment WHERE {one}",
     (("books", PAYMENTS_SEEN),)),
    Corruption("read_payment", UNKNOWN,
     "INSERT INTO read_payment (account_id, test, paid_at, payment_id, charge_id, method, anomaly, external_id,"
     " journal_id) SELECT account_id, test, paid_at, gen_random_uuid(), charge_id, method, anomaly, external_id,"
     " journal_id FROM read_payment WHERE {one}"),
    Corruption("read_refund", MISSING, "DELETE FROM read_refund WHERE {one}",
     (("books", REFUNDS_SEEN), ("report_refund", MISSING), ("report_refund", UNKNOWN))),
    Corruption("read_withdrawal", MISSING, "DELETE FROM read_withdrawal WHERE {one}",
     (("books", WITHDRAWALS_SEEN),)),
    Corruption("read_withdrawal", UNKNOWN,
     "INSERT INTO read_withdrawal VALUES ($1, gen_random_uuid(), now(), 'pending', NULL, '{{}}')"),
    Corruption("read_event", MISSING, "DELETE FROM read_event WHERE account_id = $1 AND NOT test AND sequence = 2",
     (("books", EVENTS_GONE),)),
    Corruption("books", EVENTS_GONE,
     "DELETE FROM read_event WHERE account_id = $1 AND NOT test AND sequence = 2",
     (("read_event", MISSING),)),
    Corruption("read_event", MISSING, "DELETE FROM read_event WHERE account_id = $1 AND type = 'withdrawal.succeeded'",
     (("books", EVENTS_GONE),)),
    Corruption("read_event", UNKNOWN,
     "UPDATE read_event SET journal_id = 1 WHERE account_id = $1 AND type = 'withdrawal.succeeded'",
     (("read_event", MISSING),)),
    Corruption("read_event", UNKNOWN, "UPDATE read_event SET sequence = 1000000 WHERE account_id = $1 AND sequence = 2",
     (("books", EVENTS_GONE), ("read_event", MISSING))),
    Corruption("books", "numbers twice in a feed",
     "INSERT INTO read_event (account_id, test, sequence, event_id, type, charge_id, external_id, created_at,"
     " journal_id) SELECT account_id, test, sequence, event_id, type, charge_id, external_id,"
     " created_at + interval '1 hour', journal_id FROM read_event WHERE account_id = $1 AND sequence = 2",
     (("read_event", UNKNOWN),)),
    Corruption("read_ledger", MISSING, "DELETE FROM read_ledger WHERE account_id = $1 AND NOT test AND sequence = 2",
     (("books", BALANCE), ("books", LINES_GONE))),
    Corruption("books", LINES_GONE,
     "DELETE FROM read_ledger WHERE account_id = $1 AND NOT test AND sequence = 2",
     (("books", BALANCE), ("read_ledger", MISSING))),
    Corruption("read_ledger", MISSING,
     "DELETE FROM read_ledger WHERE account_id <> $1 AND type = 'partner_share' AND sequence = 1",
     (("books", BALANCE), ("books", LINES_GONE))),
    Corruption("read_ledger", UNKNOWN,
     "UPDATE read_ledger SET entry_id = gen_random_uuid() WHERE account_id = $1 AND sequence = 3",
     (("read_ledger", MISSING),)),
    Corruption("read_ledger", UNKNOWN,
     "UPDATE read_ledger SET payment_id = $1 WHERE account_id <> $1 AND type = 'partner_share'",
     (("read_ledger", MISSING),)),
    Corruption("books", BALANCE,
     "UPDATE read_ledger SET balance_after_cents = balance_after_cents + 1 WHERE account_id = $1 AND sequence = 3",
     (("read_ledger", MISSING), ("read_ledger", UNKNOWN))),
    Corruption("read_ledger", UNKNOWN,
     "INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents, balance_after_cents,"
     " created_at)"
     " VALUES ($1, false, 1000, gen_random_uuid(), 'adjustment', 1, 1, now())",
     (("books", BALANCES), ("books", BALANCE), ("books", LINES_GONE))),
    Corruption("books", BALANCES, "UPDATE account_clock SET balance_cents = 1 WHERE {one}"),
    Corruption("books", LINES_GONE,
     "UPDATE account_clock SET entry_sequence = entry_sequence + 1 WHERE {one}"),
    Corruption("books", EVENTS_GONE, "UPDATE account_clock SET event_sequence = event_sequence - 1 WHERE {one}"),
    Corruption("books", CHARGES_SEEN, "UPDATE charge SET version = 9 WHERE {one}"),
    Corruption("books", CHARGES_BACK,
     "UPDATE charge SET refunded_cents = 1 WHERE account_id = $1 AND status = 'pending'"),
    Corruption("books", "charges refunded though not all is back, or paid though it is",
     "UPDATE charge SET status = 'refunded' WHERE account_id = $1 AND status = 'paid'",
     (("books", CHARGES_SEEN),)),
    Corruption("books", CHARGES_PAID,
     "UPDATE payment SET settles = false WHERE account_id = $1"),
    Corruption("books", "payments not credited once, to the cent",
     "UPDATE payment SET amount_cents = amount_cents + 1 WHERE account_id = $1 AND test"),
    Corruption("books", PAYMENTS_SEEN,
     "INSERT INTO payment (account_id, payment_id, test, charge_id, source, method, amount_cents, settles, paid_at,"
     " credited_at) SELECT account_id, gen_random_uuid(), test, gen_random_uuid(), 'other', method, 1, false, paid_at,"
     " credited_at FROM payment WHERE {one}"),
    Corruption("books", "payments in the journal that were not booked", "DELETE FROM payment WHERE {one}",
     (("books", CHARGES_PAID),)),
    Corruption("books", PAYMENTS_TAKEN,
     "UPDATE payment SET reversed_cents = 1 WHERE account_id = $1 AND test"),
    Corruption("books", PAYMENTS_BACK,
     "UPDATE payment SET refunded_cents = 1 WHERE account_id = $1 AND test",
     (("books", CHARGES_BACK),)),
    Corruption("books", REFUNDS_SEEN,
     "UPDATE refund SET status = 'pending' WHERE account_id = $1 AND status = 'failed'",
     (("books", PAYMENTS_BACK), ("books", REFUNDS_BOOKED))),
    Corruption("books", REFUNDS_BOOKED,
     "UPDATE refund SET amount_cents = amount_cents + 1 WHERE {one}"),
    Corruption("books", "reversals of payments not debited once, to the cent",
     "INSERT INTO payment_reversal SELECT account_id, gen_random_uuid(), payment_id, charge_id, 'e', 'b', NULL,"
     " 1, paid_at"
     " FROM payment WHERE account_id = $1 AND test LIMIT 1",
     (("books", PAYMENTS_TAKEN),)),
    Corruption("books", "reversals of payments not debited once, to the cent",
     "INSERT INTO payment_reversal VALUES ($1, gen_random_uuid(), $1, $1, 'e', 'b', NULL, 1, now())"),
    Corruption("books", WITHDRAWALS_SEEN, "UPDATE withdrawal SET version = 9 WHERE {one}"),
    Corruption("books",
     "withdrawals not debited once, or not credited back exactly when they failed or were cancelled, to the cent",
     "UPDATE withdrawal SET amount_cents = 101 WHERE {one}",
     (("books", WITHDRAWALS_SEEN),)),
    Corruption("books", SHARES, "UPDATE partner_share SET posted_at = NULL WHERE {one}"),
    Corruption("books", SHARES, "DELETE FROM partner_share WHERE account_id = $1"),
    Corruption("books", "partner shares that are not what is left of their payments, to the cent",
     "UPDATE partner_share SET share_bps = share_bps - 1 WHERE {one}"),
    Corruption("books", "partner shares that are not what is left of their payments, to the cent",
     "DELETE FROM partner_share WHERE account_id = $1 AND refund_id IS NULL",
     (("books", SHARES),)),
    Corruption("books", "money in suspense, or returned from it, that is on the books as well",
     "INSERT INTO suspense (suspense_id, bank, kind, source, amount_cents, received_at, found_at) SELECT"
     " gen_random_uuid(), '001', 'pix_unknown_txid', source, 1, now(), now() FROM payment"
     " WHERE account_id = $1 AND NOT test LIMIT 1"),
    Corruption("books", "money assigned from suspense that is no payment of its charge, to the cent",
     "INSERT INTO suspense (suspense_id, bank, kind, source, amount_cents, received_at, found_at, state, settled_at,"
     " charge_id) VALUES (gen_random_uuid(), '001', 'pix_unknown_txid', 'x', 1, now(), now(), 'assigned', now(), $1)"),
    Corruption("report_charge", MISSING, "DELETE FROM report_charge WHERE {one}",
     (("report_cohort", UNKNOWN), ("span_charge", UNKNOWN))),
    Corruption("report_charge", UNKNOWN,
     "INSERT INTO report_charge VALUES (gen_random_uuid(), $1, now(), 'pix', 'paid', NULL, 1)"),
    Corruption("report_cohort", UNKNOWN, "UPDATE report_cohort SET charges = charges + 1 WHERE {one}",
     (("report_cohort", MISSING), ("report_cohort", NOT_OF_ALL))),
    Corruption("report_cohort", UNKNOWN, "UPDATE report_cohort SET day = day - 400 WHERE {one}",
     (("report_cohort", MISSING), ("report_cohort", NOT_OF_ALL))),
    Corruption("report_due", UNKNOWN, "INSERT INTO report_due VALUES ($1, 'pending', now(), 'boleto', 1, 1)",
     (("report_due", NOT_OF_ALL),)),
    Corruption("report_wait", MISSING, "DELETE FROM report_wait WHERE {one}",
     (("report_wait", NOT_OF_ALL),)),
    Corruption("report_entry", MISSING, "UPDATE report_entry SET cents = cents - 1 WHERE {one}",
     (("report_entry", UNKNOWN),)),
    Corruption("report_entry", UNKNOWN, "UPDATE report_entry SET day = day - 400 WHERE {one}",
     (("report_entry", MISSING),)),
    Corruption("report_refund", UNKNOWN, "UPDATE report_refund SET day = day + 400 WHERE {one}",
     (("report_refund", MISSING),)),
    Corruption("report_integrator", MISSING, "DELETE FROM report_integrator WHERE {one}"),
    Corruption("span_charge", UNKNOWN, "UPDATE span_charge SET charges = charges + 1 WHERE {one_of_day}",
     (("span_charge", MISSING), ("span_charge", NOT_ITS_DAYS))),
    Corruption("span_charge", MISSING, "DELETE FROM span_charge WHERE account_id = $1 AND test AND span = 'day'",
     (("span_charge", NOT_ITS_DAYS),)),
    Corruption("span_charge", UNKNOWN, "UPDATE span_charge SET starts = starts - 400 WHERE {one_of_day}",
     (("span_charge", MISSING), ("span_charge", NOT_ITS_DAYS))),
    Corruption("span_charge", NOT_ITS_DAYS, "UPDATE span_charge SET cents = cents - 1 WHERE {one_of_month}"),
    Corruption("span_charge", NOT_ITS_DAYS,
     "DELETE FROM span_charge WHERE account_id = $1 AND test AND span = 'decade'"),
    Corruption("span_charge", NOT_ITS_DAYS,
     "INSERT INTO span_charge VALUES ($1, true, 'issued', 'year', '1999-01-01', 'pix', 'paid', 1, 1)"),
    Corruption("span_charge", UNKNOWN,
     "INSERT INTO span_charge VALUES ($1, true, 'due', 'day', '2026-01-09', 'boleto', 'paid', 1, 1)",
     (("span_charge", NOT_ITS_DAYS),)),
    Corruption("span_charge", UNKNOWN,
     "INSERT INTO span_charge VALUES ($1, false, 'due', 'day', '2026-01-09', 'boleto', 'paid', 1, 1)",
     (("span_charge", NOT_ITS_DAYS),)),
    Corruption("span_entry", MISSING, "UPDATE span_entry SET cents = cents - 1 WHERE {one_of_day}",
     (("span_entry", UNKNOWN), ("span_entry", NOT_ITS_DAYS))),
    Corruption("span_entry", UNKNOWN, "UPDATE span_entry SET starts = starts - 400 WHERE {one_of_day}",
     (("span_entry", MISSING), ("span_entry", NOT_ITS_DAYS))),
    Corruption("span_entry", NOT_ITS_DAYS, "UPDATE span_entry SET entries = entries + 1 WHERE {one_of_month}"),
    Corruption("span_entry", NOT_ITS_DAYS, "DELETE FROM span_entry WHERE account_id = $1 AND span = 'year'"),
    Corruption("report_cohort", NOT_OF_ALL, "UPDATE report_cohort SET charges = charges + 1 WHERE {all}"),
    Corruption("report_wait", NOT_OF_ALL, "DELETE FROM report_wait WHERE {all}"),
    Corruption("report_due", NOT_OF_ALL,
     "INSERT INTO report_due VALUES ($1, 'pending', now(), 'boleto', 1, 1)",
     (("report_due", UNKNOWN),)),
    Corruption("report_entry", MISSING, "UPDATE report_entry SET cents = cents - 1 WHERE {all}",
     (("report_entry", UNKNOWN),)),
)  # fmt: skip


def distinguishable_batches(corruptions: Sequence[Corruption]) -> list[list[Corruption]]:
    """Groups corruptions that one verification can find and still distinguish: within a batch no two cause the same
    difference or write the same table."""
    batches: list[list[Corruption]] = []
    for each in corruptions:
        for batch in batches:
            if not any(each.found & other.found or each.broken == other.broken for other in batch):
                batch.append(each)
                break
        else:
            batches.append([each])
    return batches


@pytest.mark.parametrize("together", distinguishable_batches(CORRUPTIONS))
async def test_each_corruption_is_reported_by_its_name(world: World, together: list[Corruption]) -> None:
    """Slices have five rows, so that most related rows lie in different slices."""
    everyone = "account_id <> $1 AND account_id = '00000000-0000-0000-0000-000000000000'"
    for each in together:
        await world.owner.execute(f"CREATE TABLE kept_{each.broken} AS TABLE {each.broken}")
    try:
        for each in together:
            of_day, of_month = (ONE_OF.format(each.broken, span) for span in ("day", "month"))
            statement = each.statement.format(
                one=ONE.format(each.broken), all=everyone, one_of_day=of_day, one_of_month=of_month
            )
            assert not (await world.owner.execute(statement, world.merchants[0])).endswith(" 0")
        found = {(each.table, each.what) for each in await verify(world.url, scope=SMALL)}
        assert {(each.table, each.what) for each in together} <= found
        assert found <= {name for each in together for name in each.found}
    finally:
        for each in together:
            await world.owner.execute(f"DELETE FROM {each.broken}")  # noqa: S608
            await world.owner.execute(f"INSERT INTO {each.broken} OVERRIDING SYSTEM VALUE TABLE kept_{each.broken}")
            await world.owner.execute(f"DROP TABLE kept_{each.broken}")


async def test_a_row_lost_from_the_journal_is_reported(world: World) -> None:
    """No role may delete a row of the journal, but a damaged file system can lose one."""
    lost = (
        "DELETE FROM journal WHERE journal_id ="
        " (SELECT min(journal_id) FROM journal WHERE account_id = $1 AND payload ? 'entry')"
    )
    await world.owner.execute("CREATE TABLE kept_rows AS TABLE journal")
    await world.owner.execute("ALTER TABLE journal DISABLE TRIGGER USER")
    try:
        for of in (world.merchants[0], await _partner(world)):
            assert await world.owner.execute(lost, of) == "DELETE 1"
            found = {(each.table, each.what) for each in await verify(world.url, scope=SMALL)}
            assert ("read_ledger", UNKNOWN) in found
            await world.owner.execute("DELETE FROM journal")
            await world.owner.execute("INSERT INTO journal OVERRIDING SYSTEM VALUE TABLE kept_rows")
    finally:
        await world.owner.execute("ALTER TABLE journal ENABLE TRIGGER USER")
        await world.owner.execute("DROP TABLE kept_rows")
    assert await verify(world.url) == []


async def _partner(world: World) -> UUID:
    found: UUID = await world.pool.fetchval("SELECT DISTINCT partner_id FROM partner_share")
    return found


async def test_a_verification_can_be_limited_to_an_account_and_to_days(world: World) -> None:
    one, other = world.merchants
    began: datetime = await world.pool.fetchval("SELECT min(instant_of_id(charge_id)) FROM read_payment")
    today = began.astimezone(SAO_PAULO).date()  # of the payments: by now it may be the next day
    yesterday = today - timedelta(days=1)
    await world.owner.execute("CREATE TABLE kept_rows AS TABLE read_payment")
    await world.owner.execute("DELETE FROM read_payment WHERE account_id = $1", one)
    try:
        for scope, clean in (
            (VerifyScope(other), True),
            (VerifyScope(one), False),
            (VerifyScope(one, yesterday, today), False),
            (VerifyScope(None, today), False),
            (VerifyScope(one, None, yesterday), True),
            (VerifyScope(other, yesterday, today, rows_max=3), True),
        ):
            assert (await verify(world.url, scope=scope) == []) is clean, scope
    finally:
        await world.owner.execute("DELETE FROM read_payment")
        await world.owner.execute("INSERT INTO read_payment TABLE kept_rows")
        await world.owner.execute("DROP TABLE kept_rows")


async def _slices(world: World) -> dict[str, int]:
    """Returns the number of slices of each part of the newest verification."""
    rows = await world.pool.fetch(
        "SELECT part, slices FROM verification_part"
        " WHERE verification_id = (SELECT max(verification_id) FROM verification)"
    )
    return {row["part"]: row["slices"] for row in rows}


# A verification stops in its tenth slice while an advisory lock is held, so that it is killed there, however late.
_STOP_IN_TENTH_SLICE = """
CREATE FUNCTION wait_for_lock() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN PERFORM pg_advisory_xact_lock(10); RETURN NEW; END';
CREATE TRIGGER tenth_slice BEFORE UPDATE ON verification_part
FOR EACH ROW WHEN (NEW.slices = 10) EXECUTE FUNCTION wait_for_lock();
SELECT pg_advisory_lock(10)
"""
_STOPPED = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
_GO_ON = "SELECT pg_advisory_unlock(10); DROP FUNCTION wait_for_lock() CASCADE"


async def test_a_killed_verification_resumes_with_the_slice_it_was_in(world: World) -> None:
    await verify(world.url, scope=VerifyScope(rows_max=1))
    whole = await _slices(world)
    await world.pool.execute(
        "UPDATE read_charge SET version = version + 1 WHERE charge_id = (SELECT charge_id FROM read_charge"
        " ORDER BY charge_id LIMIT 1)"
    )
    try:
        async with world.owner.acquire() as owner:
            await owner.execute(_STOP_IN_TENTH_SLICE)
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "cli.main", "readmodels", "verify", "--slice", "1",
                    env=os.environ | {"DATABASE_URL": world.url},
                    stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                )  # fmt: skip
                assert process.stderr is not None
                for _ in range(9):
                    line = await process.stderr.readline()
                    assert line.startswith(b"charges: slice "), line + await process.stderr.read()
                await until_answer(lambda: owner.fetchval(_STOPPED))
                process.kill()
                await process.wait()
            finally:
                await owner.execute(_GO_ON)
        before = await _slices(world)
        assert before == {"charges": 9}
        done: list[VerifyProgress] = []
        found = await resume(world.url, progress=done.append)
        assert {each.table for each in found} == {
            "read_charge",
            "books",
        }  # The kill does not lose differences found before it.
        assert len(done) == sum(whole.values()) - 9
        assert await _slices(world) == whole
    finally:
        await world.pool.execute(
            "UPDATE read_charge SET version = version - 1 WHERE charge_id = (SELECT charge_id FROM read_charge"
            " ORDER BY charge_id LIMIT 1)"
        )
    with pytest.raises(NothingToResume):
        await resume(world.url)


async def test_two_concurrent_resumes_of_a_verification_repeat_no_slice(world: World) -> None:
    def stop(done: VerifyProgress) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        await verify(world.url, scope=SMALL, progress=stop)
    ends = await asyncio.gather(resume(world.url), resume(world.url), return_exceptions=True)
    assert all(end == [] or isinstance(end, asyncpg.SerializationError) for end in ends)
    whole = await _slices(world)
    await verify(world.url, scope=SMALL)
    assert await _slices(world) == whole


async def test_concurrent_writes_are_not_reported_as_differences(world: World) -> None:
    writing = True

    async def write(merchant: UUID) -> int:
        written = 0
        while writing:
            charge_id, payment_id = await paid(world.pool, merchant, 900, None)
            await refunds(world.pool, merchant, [(charge_id, payment_id, 9)])
            await post_partner_shares(world.pool)
            written += 1
        return written

    async def fold() -> int:
        while writing:
            await fold_settled_totals(world.pool)
        return 1

    tasks = [asyncio.create_task(each) for each in (*map(write, world.merchants), write(world.merchants[0]), fold())]
    try:
        for rows_max in (5, 50):
            assert await verify(world.url, scope=VerifyScope(rows_max=rows_max)) == []
    finally:
        writing = False
        written = await asyncio.gather(*tasks)
    assert all(written)
    await fold_totals(world.pool)
    assert await verify(world.url) == []


async def test_a_transaction_with_shadow_tables_cannot_write_a_real_table(world: World) -> None:
    """Without this a projection whose shadow table is missing would write into the real table."""
    ids = [row[0] for row in await world.pool.fetch("SELECT journal_id FROM journal")]
    async with world.pool.acquire() as conn, conn.transaction(isolation="repeatable_read"):
        await Shadows.make(conn, "read_payment")
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await project(conn, ids, (Projection.ENTRIES,))
