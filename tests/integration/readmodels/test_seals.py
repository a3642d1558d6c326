"""A verification finds every change of the journal or the audit log that was made past their triggers."""

import hashlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio

from commands.people.audit import Origin, audit_for_platform
from readmodels import seals
from readmodels.reports.fold import wait_for_horizon
from readmodels.seals import Chain, ChainSeal, chain_head, extend_seals, seal_at
from readmodels.verify import verify
from readmodels.verify_scope import Difference, VerifyScope
from runtime.postgres import Pool, open_pool, transaction
from tests.integration.readmodels.test_charge_summary import issue, pay
from tests.support.banking import make_account
from tests.support.database import own_database, owner_of, report_of

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
    await write_audit_rows(opened, 9)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="session")
async def owner(servers: Any, url: str) -> AsyncIterator[Pool]:
    """Connections of the owner, the only role that can switch triggers off."""
    opened = await open_pool(owner_of(servers, url), name="tests as owner", size=1)
    yield opened
    await opened.close()


async def write_audit_rows(pool: Pool, count: int) -> None:
    async with transaction(pool) as conn:
        for number in range(count):
            origin = Origin(f"dona.{number}@example.com", "a" * 32, "req_1")
            await audit_for_platform(conn, uuid4(), "account.approved", {"n": number}, origin, now=datetime.now(UTC))


async def seal_all(pool: Pool) -> int:
    """Seals everything that is committed; returns how many rows of both chains were sealed."""
    async with pool.acquire() as conn:
        horizon = await wait_for_horizon(conn)
    assert horizon is not None
    rows = 0
    while True:
        async with transaction(pool) as conn:
            done = await extend_seals(conn, horizon)
        if not done:
            return rows
        rows += done


async def head(pool: Pool, chain: Chain = Chain.JOURNAL) -> ChainSeal:
    async with pool.acquire() as conn:
        found = await chain_head(conn, chain=chain)
    assert found is not None
    return found


async def tamper(owner: Pool, statement: str) -> None:
    async with owner.acquire() as conn:
        for table in ("journal", "audit", "seal"):
            await conn.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        await conn.execute(statement)
        for table in ("journal", "audit", "seal"):
            await conn.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


async def count_broken_blocks(pool: Pool, chain: Chain = Chain.JOURNAL) -> int:
    """Runs only the parts of a verification that compare chains: the other parts take ten times as long."""
    found: list[Difference] = []
    async with pool.acquire() as conn:
        for part in seals.PARTS:
            at: str | None = part.first(VerifyScope())
            while at is not None:
                looked = await part.look(conn, VerifyScope(), at)
                found += looked.found
                at = looked.next
    assert {(each.table, each.what) for each in found} <= {(chain, BROKEN)}, "only this chain may be broken"
    return sum(each.rows for each in found)


async def test_each_row_is_sealed_once_and_the_chain_holds(pool: Pool, url: str) -> None:
    assert await seal_all(pool) == 27 + 9
    assert await seal_all(pool) == 0
    blocks = await pool.fetch("SELECT chain, count(*), sum(rows)::integer FROM seal GROUP BY chain")
    assert sorted(tuple(row) for row in blocks) == [("audit", 3, 9), ("journal", 7, 27)]
    assert (await head(pool)).last_id == await pool.fetchval("SELECT max(journal_id) FROM journal")
    assert (await head(pool, Chain.AUDIT)).last_id == await pool.fetchval("SELECT max(number) FROM audit")
    assert await count_broken_blocks(pool) == 0
    account_id = await make_account(pool)
    await issue(pool, account_id, 3)
    assert await seal_all(pool) == 3
    assert await count_broken_blocks(pool) == 0
    assert [each for each in await verify(url) if each.what == BROKEN] == []


async def test_verify_reports_broken_blocks_of_both_chains(pool: Pool, owner: Pool, url: str) -> None:
    await seal_all(pool)
    await tamper(owner, "UPDATE journal SET actor = 'x' WHERE journal_id = (SELECT min(journal_id) FROM journal)")
    await tamper(owner, "UPDATE audit SET email = 'x@example.com' WHERE number = 3")
    broken = {Difference(chain, BROKEN, 1) for chain in Chain}
    assert broken <= set(await verify(url))


ROWS = {
    "journal": "SELECT jsonb_build_array(journal_id, account_id, test, charge_id, version, kind,"
    " (extract(epoch FROM recorded_at) * 1000000)::bigint, actor, request_id, payload, event_id,"
    " event_sequence, encode(event_body, 'hex'))::text AS row"
    " FROM journal WHERE journal_id > $1 AND journal_id <= $2 ORDER BY journal_id",
    "audit": "SELECT jsonb_build_array(number, audit_id, account_id, email,"
    " (extract(epoch FROM at) * 1000000)::bigint, action, subject, facts, address_hash, request_id)::text AS row"
    " FROM audit WHERE number > $1 AND number <= $2 ORDER BY number",
}


@pytest.mark.parametrize(("chain", "columns"), [("journal", 13), ("audit", 10)])
async def test_the_reading_role_can_recompute_the_digests_from_the_rows(
    pool: Pool, servers: Any, url: str, chain: str, columns: int
) -> None:
    """The digests are computed as the documentation says: an auditor needs only the role that reads."""
    await seal_all(pool)
    auditor = await asyncpg.connect(report_of(servers, url))
    every = "SELECT count(*) FROM information_schema.columns WHERE table_name = $1 AND table_schema = current_schema()"
    assert await auditor.fetchval(every, chain) == columns, "the digest must cover every column"
    digest, after = b"", 0
    blocks = await auditor.fetch("SELECT last_id, digest FROM seal WHERE chain = $1 ORDER BY last_id", chain)
    assert len(blocks) > 2
    for block in blocks:
        rows = await auditor.fetch(ROWS[chain], after, block["last_id"])
        assert all(len(json.loads(row["row"])) == columns for row in rows)
        digests = b"".join(hashlib.sha256(row["row"].encode()).digest() for row in rows)
        digest, after = hashlib.sha256(digest + digests).digest(), block["last_id"]
        assert digest == block["digest"]
    await auditor.close()


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
        "UPDATE seal SET digest = sha256('x') WHERE chain = 'journal' AND last_id = (SELECT max(last_id) FROM seal)",
        "DELETE FROM seal WHERE chain = 'journal' AND last_id ="
        " (SELECT min(last_id) FROM seal WHERE chain = 'journal')",
    ],
)
async def test_a_change_of_the_journal_past_its_triggers_is_found(pool: Pool, owner: Pool, statement: str) -> None:
    await seal_all(pool)
    await tamper(owner, statement)
    assert await count_broken_blocks(pool) >= 1


AUDITED = "INSERT INTO audit (number, audit_id, account_id, email, at, action, facts, address_hash, request_id)"
NOW = "uuidv7(), uuidv7(), 'x@example.com', now(), 'account.approved', '{}', '', ''"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET email = 'somebody@example.com' WHERE number = 3",
        'UPDATE audit SET facts = facts || \'{"reason": "none"}\' WHERE number = (SELECT max(number) FROM audit)',
        "UPDATE audit SET at = at - interval '1 microsecond' WHERE number = 1",
        "UPDATE audit SET subject = NULL WHERE number = 5",
        "DELETE FROM audit WHERE number = 4",
        "DELETE FROM audit WHERE number = (SELECT max(number) FROM audit)",
        "UPDATE seal SET digest = sha256('x') WHERE chain = 'audit' AND last_id = 4",
        "DELETE FROM seal WHERE chain = 'audit' AND last_id = 4",
        f"DELETE FROM audit WHERE number = 2; {AUDITED} OVERRIDING SYSTEM VALUE VALUES (2, {NOW})",  # noqa: S608
    ],
)
async def test_a_change_of_the_audit_log_past_its_triggers_is_found(pool: Pool, owner: Pool, statement: str) -> None:
    await seal_all(pool)
    await tamper(owner, statement)
    assert await count_broken_blocks(pool, Chain.AUDIT) >= 1


@pytest.mark.parametrize("number", [0, -(2**63), 10])
async def test_an_audit_row_inserted_behind_the_sealed_head_is_found(pool: Pool, owner: Pool, number: int) -> None:
    """The application may insert rows with any number: one that the sequence skipped, or one before the first."""
    await owner.execute("SELECT nextval('audit_number_seq')")
    await write_audit_rows(pool, 2)
    assert await seal_all(pool) == 27 + 9 + 2
    await pool.execute(f"{AUDITED} OVERRIDING SYSTEM VALUE VALUES ({number}, {NOW})")
    assert await seal_all(pool) == 0
    assert await count_broken_blocks(pool, Chain.AUDIT) == 1


async def test_an_audit_row_uncommitted_during_sealing_is_sealed_later(pool: Pool) -> None:
    """A row gets its number before other transactions see it: nothing is sealed up to that number until it commits."""
    async with pool.acquire() as conn, conn.transaction():
        origin = Origin("dona@example.com", "a" * 32, "req_1")
        await audit_for_platform(conn, uuid4(), "account.approved", {}, origin, now=datetime.now(UTC))
        async with pool.acquire() as other:
            assert await wait_for_horizon(other) is None
    assert await seal_all(pool) == 27 + 10
    assert await count_broken_blocks(pool, Chain.AUDIT) == 0


async def test_a_chain_recomputed_after_a_change_has_another_head(pool: Pool, owner: Pool) -> None:
    await seal_all(pool)
    kept = await head(pool)
    await tamper(owner, "UPDATE journal SET actor = 'x' WHERE journal_id = (SELECT min(journal_id) FROM journal)")
    await tamper(owner, "DELETE FROM seal")
    assert await seal_all(pool) == 27 + 9
    assert await count_broken_blocks(pool) == 0, "the new chain must be consistent in itself"
    async with pool.acquire() as conn:
        now_there = await seal_at(conn, chain=Chain.JOURNAL, last_id=kept.last_id)
        assert await seal_at(conn, chain=Chain.AUDIT, last_id=kept.last_id) is None
        assert await seal_at(conn, chain=Chain.JOURNAL, last_id=kept.last_id - 1) is None
    assert now_there is not None
    assert now_there.digest != kept.digest


@pytest.mark.parametrize("statement", ["UPDATE seal SET rows = 1", "DELETE FROM seal", "TRUNCATE seal"])
async def test_seals_can_be_changed_neither_by_the_application_nor_by_the_owner(
    pool: Pool, owner: Pool, statement: str
) -> None:
    """Neither by the application, which has no right to, nor by the owner while the triggers are on."""
    await seal_all(pool)
    for who, refusal in ((pool, asyncpg.InsufficientPrivilegeError), (owner, asyncpg.RaiseError)):
        with pytest.raises(refusal):
            await who.execute(statement)
