"""A rebuild replaces rows in place, some hundred charges at a time: a writer waits for one such slice at most."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from readmodels.rebuild import rebuild, resume_rebuild
from readmodels.verify import NothingToResume, verify
from runtime.postgres import Pool, connect, open_pool
from tests.support.banking import make_account
from tests.support.database import own_database
from tests.support.merchant import until_answer
from tests.support.partners import fold_totals, paid, refunds

READ = ("read_charge", "read_payment", "read_refund", "read_event", "read_ledger", "read_withdrawal")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def books(servers: Any) -> AsyncIterator[tuple[str, Pool]]:
    async with own_database(servers, "rebuilt") as url:
        pool = await open_pool(url, name="tests", size=8)
        yield url, pool
        await pool.close()


async def _corrupt(pool: Pool, charge_ids: list[UUID]) -> None:
    await pool.execute("UPDATE read_charge SET version = 99 WHERE charge_id = ANY($1)", charge_ids)
    await pool.execute("UPDATE report_charge SET status = 'failed' WHERE charge_id = ANY($1)", charge_ids)


async def test_a_rebuild_that_waits_for_a_locked_charge_locks_nothing_else(books: tuple[str, Pool]) -> None:
    url, pool = books
    merchant = await make_account(pool)
    held, other = [(await paid(pool, merchant, 500, None))[0] for _ in range(2)]
    await fold_totals(pool)
    journaled: list[int] = []
    rows = await rebuild(url, progress=journaled.append)
    await _corrupt(pool, [held, other])
    holder = await connect(url)  # its transaction may be idle for as long as the machine takes
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("SELECT FROM charge WHERE charge_id = $1 FOR UPDATE", held)
    beside: list[int] = []
    rebuilding = asyncio.create_task(rebuild(url, progress=beside.append))

    async def versions() -> dict[UUID, int]:
        return {row[0]: row[1] for row in await pool.fetch("SELECT charge_id, version FROM read_charge")}

    async def repaired() -> bool:
        return (await versions())[other] == 2

    await until_answer(repaired)
    assert (await versions())[held] == 99
    # The other charge is unlocked again, and so are the journal, the account's clock and all other tables.
    async with pool.acquire() as impatient:
        await impatient.execute("SET lock_timeout = '20ms'")
        async with impatient.transaction():
            await impatient.execute("SELECT FROM charge WHERE charge_id = $1 FOR UPDATE NOWAIT", other)
        await impatient.execute("RESET lock_timeout")
    charge_id, payment_id = await paid(pool, merchant, 700, None)
    await refunds(pool, merchant, [(charge_id, payment_id, 7)])
    assert not rebuilding.done()
    await transaction.rollback()
    await holder.close()
    found = await rebuilding
    # Each row is counted once, however often its charge was retried. The totals include the rows written meanwhile.
    assert [found[table] for table in READ] == [rows[table] for table in READ]
    assert beside == journaled
    assert (await versions())[held] == 2
    assert await verify(url) == []


async def test_a_stopped_rebuild_leaves_no_tables_behind_and_can_be_started_again(books: tuple[str, Pool]) -> None:
    url, pool = books
    merchant = await make_account(pool)
    charge_ids = [(await paid(pool, merchant, 500, None))[0] for _ in range(3)]
    await fold_totals(pool)
    tables = "SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relkind = 'r' AND relpersistence <> 't'"
    before = await pool.fetchval(tables)
    await _corrupt(pool, charge_ids)

    def stop(done: int) -> None:
        raise InterruptedError

    ended = await asyncio.gather(rebuild(url, progress=stop), return_exceptions=True)
    assert isinstance(ended[0], InterruptedError)
    assert await pool.fetchval(tables) == before
    await rebuild(url)
    assert await verify(url) == []


async def test_a_stopped_rebuild_resumes_with_the_next_slice_and_counts_all_rows(
    books: tuple[str, Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the rebuild stops, resuming it omits no slice and repeats none."""
    url, pool = books
    merchant = await make_account(pool)
    charge_ids = [(await paid(pool, merchant, 500, None))[0] for _ in range(5)]
    await fold_totals(pool)
    monkeypatch.setattr("readmodels.rebuild.CHARGES_MAX", 2)
    whole: list[int] = []
    rows = await rebuild(url, progress=whole.append)
    for stopped_after in (1, 3, len(whole) - 1):
        await _corrupt(pool, charge_ids)
        done: list[int] = []

        def stop(journaled: int, done: list[int] = done, stopped_after: int = stopped_after) -> None:
            done.append(journaled)
            if len(done) == stopped_after:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            await rebuild(url, progress=stop)
        assert await resume_rebuild(url, progress=done.append) == rows
        assert done == whole
        assert await verify(url) == []
    with pytest.raises(NothingToResume):
        await resume_rebuild(url)


async def test_the_rebuild_command_resumes_after_a_kill(books: tuple[str, Pool]) -> None:
    url, pool = books
    merchant = await make_account(pool)
    charge_ids = [(await paid(pool, merchant, 500, None))[0] for _ in range(3)]
    await fold_totals(pool)
    await _corrupt(pool, charge_ids)
    command = (sys.executable, "-m", "cli.main", "readmodels", "rebuild")
    given: Any = {
        "env": os.environ | {"DATABASE_URL": url},
        "stderr": asyncio.subprocess.PIPE,
        "stdout": asyncio.subprocess.PIPE,
    }
    # The daily totals are held, so that the rebuild cannot end before it is killed, however late that is.
    holder = await connect(url)
    async with holder.transaction():
        await holder.execute("SELECT FROM report_position FOR UPDATE")
        killed = await asyncio.create_subprocess_exec(*command, **given)
        assert killed.stderr is not None
        assert (await killed.stderr.readline()).endswith(b" journal rows\n")
        killed.kill()
        await killed.wait()
    await holder.close()
    rest = await asyncio.create_subprocess_exec(*command, "--resume", **given)
    _, slices = await rest.communicate()
    assert rest.returncode == 0, slices
    assert await pool.fetchval("SELECT count(*) FROM rebuild WHERE ended_at IS NULL") == 0
    assert await verify(url) == []
    again = await asyncio.create_subprocess_exec(*command, "--resume", **given)
    _, said = await again.communicate()
    assert again.returncode == 1, said
    assert b"every rebuild was finished" in said


async def test_a_rebuild_after_a_fold_on_its_connection_does_not_double_the_totals(books: tuple[str, Pool]) -> None:
    """Its prepared statements refer to the real tables; once shadow tables exist they must be planned again."""
    url, pool = books
    await paid(pool, await make_account(pool), 900, None)  # Not folded yet: the rebuild folds first.
    await rebuild(url)
    assert await verify(url) == []
