"""A journal that was changed past its triggers is found, wherever and however it was changed."""

import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from readmodels import seals
from readmodels.reports.fold import settled_up_to
from readmodels.seals import JournalSeal, extend_seals, journal_head, seal_at
from readmodels.verify import verify
from readmodels.verify_scope import Difference
from runtime.postgres import Pool, open_pool, transaction
from tests.integration.readmodels.test_charge_summary import issue, pay
from tests.support.banking import make_account
from tests.support.database import own_database, owner_of

BROKEN = "blocks that are not what was sealed"


@pytest_asyncio.fixture(loop_scope="session")
async def url(servers: Any) -> AsyncIterator[str]:
    async with own_database(servers, "seals") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def pool(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pool]:
    monkeypatch.setattr(seals, "ROWS_MAX", 4)
    monkeypatch.setattr(seals, "_BLOCKS", 2)
    opened = await open_pool(url, name="tests", size=4)
    account_id = await make_account(opened)
    await pay(opened, (await issue(opened, account_id, 20))[:7])
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="session")
async def owner(servers: Any, url: str) -> AsyncIterator[Pool]:
    """Who alone can switch triggers off."""
    opened = await open_pool(owner_of(servers, url), name="tests as owner", size=1)
    yield opened
    await opened.close()


async def sealed(pool: Pool) -> int:
    async with pool.acquire() as conn:
        horizon = await settled_up_to(conn)
    assert horizon is not None
    rows = 0
    while True:
        async with transaction(pool) as conn:
            done = await extend_seals(conn, up_to=horizon.journal_id)
        if not done:
            return rows
        rows += done


async def head(pool: Pool) -> JournalSeal:
    async with pool.acquire() as conn:
        found = await journal_head(conn)
    assert found is not None
    return found


async def tamper(owner: Pool, statement: str) -> None:
    async with owner.acquire() as conn:
        await conn.execute("ALTER TABLE journal DISABLE TRIGGER USER; ALTER TABLE journal_seal DISABLE TRIGGER USER")
        await conn.execute(statement)
        await conn.execute("ALTER TABLE journal ENABLE TRIGGER USER; ALTER TABLE journal_seal ENABLE TRIGGER USER")


async def blocks_broken(url: str) -> int:
    return sum(each.rows for each in await verify(url) if each == Difference("journal", BROKEN, each.rows))


async def test_each_row_is_sealed_once_and_the_chain_holds(pool: Pool, url: str) -> None:
    assert await sealed(pool) == 27
    assert await sealed(pool) == 0
    assert await pool.fetchval("SELECT count(*) FROM journal_seal") == 7
    assert (await head(pool)).last_id == await pool.fetchval("SELECT max(journal_id) FROM journal")
    assert await blocks_broken(url) == 0
    account_id = await make_account(pool)
    await issue(pool, account_id, 3)
    assert await sealed(pool) == 3
    assert await blocks_broken(url) == 0


async def test_anybody_can_make_the_digests_from_the_rows_alone(pool: Pool) -> None:
    """As the documentation says it: an auditor needs nothing of ours."""
    await sealed(pool)
    digest, after = b"", 0
    for block in await pool.fetch("SELECT last_id, digest FROM journal_seal ORDER BY last_id"):
        rows = await pool.fetch(
            "SELECT jsonb_build_array(journal_id, account_id, test, charge_id, version, kind,"
            " (extract(epoch FROM recorded_at) * 1000000)::bigint, actor, request_id, payload, event_id,"
            " event_sequence, encode(event_body, 'hex'))::text AS row"
            " FROM journal WHERE journal_id > $1 AND journal_id <= $2 ORDER BY journal_id",
            after, block["last_id"],
        )  # fmt: skip
        assert all(len(json.loads(row["row"])) == 13 for row in rows)
        digests = b"".join(hashlib.sha256(row["row"].encode()).digest() for row in rows)
        digest, after = hashlib.sha256(digest + digests).digest(), block["last_id"]
        assert digest == block["digest"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journal SET payload = payload || '{\"x\": 1}' WHERE journal_id = (SELECT min(journal_id) FROM journal)",
        "UPDATE journal SET actor = 'somebody' WHERE journal_id = (SELECT max(journal_id) FROM journal)",
        "UPDATE journal SET recorded_at = recorded_at + interval '1 microsecond'"
        " WHERE journal_id = (SELECT min(journal_id) FROM journal)",
        "UPDATE journal SET event_body = event_body || 'x' WHERE journal_id ="
        " (SELECT min(journal_id) FROM journal WHERE event_id IS NOT NULL)",
        "DELETE FROM journal WHERE journal_id = (SELECT max(journal_id) FROM journal)",
        "UPDATE journal_seal SET digest = sha256('x') WHERE last_id = (SELECT max(last_id) FROM journal_seal)",
        "DELETE FROM journal_seal WHERE last_id = (SELECT min(last_id) FROM journal_seal)",
    ],
)
async def test_a_change_that_went_past_the_triggers_is_found(pool: Pool, owner: Pool, url: str, statement: str) -> None:
    await sealed(pool)
    await tamper(owner, statement)
    assert await blocks_broken(url) >= 1


async def test_a_chain_that_was_made_anew_has_another_head(pool: Pool, owner: Pool, url: str) -> None:
    await sealed(pool)
    kept = await head(pool)
    await tamper(owner, "UPDATE journal SET actor = 'x' WHERE journal_id = (SELECT min(journal_id) FROM journal)")
    await tamper(owner, "DELETE FROM journal_seal")
    assert await sealed(pool) == 27
    assert await blocks_broken(url) == 0, "by itself the new chain holds"
    async with pool.acquire() as conn:
        now_there = await seal_at(conn, last_id=kept.last_id)
    assert now_there is not None
    assert now_there.digest != kept.digest


@pytest.mark.parametrize(
    "statement", ["UPDATE journal_seal SET rows = 1", "DELETE FROM journal_seal", "TRUNCATE journal_seal"]
)
async def test_what_is_sealed_cannot_be_changed_in_passing(pool: Pool, owner: Pool, statement: str) -> None:
    """Neither by the application, which has no right to, nor by the owner while the triggers are on."""
    await sealed(pool)
    for who, refusal in ((pool, asyncpg.InsufficientPrivilegeError), (owner, asyncpg.RaiseError)):
        with pytest.raises(refusal):
            await who.execute(statement)
