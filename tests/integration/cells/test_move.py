"""A cell moves to another server while merchants use it: nothing acknowledged is lost, nothing is doubled."""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import AsyncMock, patch
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import pytest

from commands.cells import move
from commands.cells.move import CellMoved, move_cell
from commands.merchants.profile.logo import set_logo
from commands.merchants.profile.logo_pixels import read_logo
from domain.errors import Refused
from readmodels.verify import verify
from runtime.cells.addresses import as_role_of, with_search_path
from runtime.cells.directory import read_cells
from runtime.local.embedded import EmbeddedPostgres
from runtime.postgres import connect
from tests.support.banking import SECRET_KEY
from tests.support.cells import Cells, open_cells, second_server
from tests.support.pictures import draw_logo
from tests.support.system import ROOT

pytestmark = pytest.mark.slow

ALA = 1
REPLICATION = """
SELECT (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_subscription)
       + (SELECT count(*) FROM pg_replication_slots WHERE database = current_database())
"""


async def move_ala(cells: Cells, to: EmbeddedPostgres, from_dsn: str | None = None) -> CellMoved:
    conn, now = await connect(cells.home.owner_url), lambda: datetime.now(UTC)
    try:
        return await move_cell(conn, cells.home, "ala", to.dsn, from_dsn=from_dsn, seal=cells.seal, now=now)
    finally:
        await conn.close()


class Load:
    """Several programs that create charges at once; each repeats an unanswered creation with the same key."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._body = {"account_id": str(cells.merchants[ALA].account_id), "amount": "10.00"}
        self.made: dict[str, UUID] = {}
        self.failed: list[int] = []
        self.longest_s = 0.0
        self._ending = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        token = await self._cells.api.token(self._cells.merchants[ALA])
        programs = [asyncio.create_task(self._create(token)) for _ in range(6)]
        try:
            yield self
        finally:
            self._ending.set()
            await asyncio.gather(*programs)

    async def _create(self, token: str) -> None:
        clock = asyncio.get_running_loop().time
        while not self._ending.is_set():
            key, began = secrets.token_hex(8), clock()
            reply = await self._cells.api.post("/v1/charges/pix", self._body, token=token, key=key)
            while reply.status not in (200, 201):
                self.failed.append(reply.status)
                await asyncio.sleep(0.2)
                reply = await self._cells.api.post("/v1/charges/pix", self._body, token=token, key=key)
            self.longest_s = max(self.longest_s, clock() - began)
            self.made[key] = UUID(reply.json()["charge_id"])
            await asyncio.sleep(0.05)


async def prepare_creation(cells: Cells) -> Callable[[], Awaitable[int]]:
    """Gets a token; returns a function that creates one charge with it and returns the status."""
    api = cells.api
    token = await api.token(cells.merchants[ALA])
    body = {"account_id": str(cells.merchants[ALA].account_id), "amount": "10.00"}

    async def create() -> int:
        return (await api.post("/v1/charges/pix", body, token=token, key=secrets.token_hex(8))).status

    return create


async def test_a_cell_moves_under_load_without_losing_or_doubling_a_charge(
    servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bool, int, int]] = []  # whether requests wait, and the range of the journal

    async def compare_between(conn: Any, *, after: int, up_to: int) -> Any:
        compared.append((bool(await find_fenced(conn)), after, up_to))
        return await journal_between(conn, after=after, up_to=up_to)

    journal_between, find_fenced = move._journal_between, move._find_fenced
    monkeypatch.setattr(move, "_journal_between", compare_between)
    # What is under way when requests are held must have ended before writes are refused; on a busy machine that takes
    # more than 0.3 s.
    monkeypatch.setattr(move, "_HOLD_S", 3.0)
    with second_server() as second:
        async with open_cells(servers) as cells:
            old = await asyncpg.connect(cells.owner_urls[ALA])
            await old.execute("SELECT nextval('boleto_control')")
            logo = read_logo(draw_logo())
            await set_logo(old, cells.merchants[ALA].account_id, logo, now=datetime.now(UTC))
            async with Load(cells).running() as load:
                told = await move_ala(cells, second)
                after = len(load.made)
                async with asyncio.timeout(60):
                    while len(load.made) < after + 50:  # noqa: ASYNC110 - it goes on at the new server
                        await asyncio.sleep(0.02)
            assert load.failed == [], "requests must wait during the move, and none may be refused"
            (held_at, _, up_to), _, (held_then, counted_after, _), _ = (
                compared  # each at the old server, then at the new one
            )
            assert (held_at, held_then) == (False, True)
            assert counted_after == up_to > 0, "rows that were there before must not be counted while requests wait"
            new_url = as_role_of(with_search_path(second.dsn, "cell_ala"), second.dsn)
            new = await asyncpg.connect(new_url)
            there = {row["charge_id"] for row in await new.fetch("SELECT charge_id FROM charge")}
            assert set(load.made.values()) == there
            assert len(there) == len(load.made), "each key must have one charge"
            assert await new.fetchval("SELECT image FROM merchant_logo") == logo.image
            held = await old.fetchval("SELECT count(*) FROM charge")
            assert held < len(there), "the move must happen while charges are created"
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError, match="has moved"):
                await old.execute("UPDATE account SET name = name")
            before = await old.fetchval("SELECT last_value FROM boleto_control")
            assert await new.fetchval("SELECT nextval('boleto_control')") == before + 50
            assert await verify(as_role_of(new_url, cells.urls[ALA])) == []
            for conn in (old, new):
                assert await conn.fetchval(REPLICATION) == 0
                await conn.close()
            assert (told.name, told.number) == ("ala", ALA)
            assert told.held_s < load.longest_s + 1
            print(f"longest wait {load.longest_s:.2f} s, held {told.held_s} s, {len(there)} charges")


async def test_a_cell_that_moves_before_its_first_boleto_keeps_its_block_of_numbers(servers: Any) -> None:
    """The numbers from 1 on belong to home: two boletos with one number would be one boleto at the bank."""
    bounds = (
        "SELECT min_value, max_value, start_value, increment_by FROM pg_sequences"
        " WHERE schemaname = current_schema() AND sequencename = 'boleto_control'"
    )
    with second_server() as second:
        async with open_cells(servers) as cells:
            old = await asyncpg.connect(cells.owner_urls[ALA])
            block = await old.fetchrow("SELECT first, last FROM number_block WHERE number = $1", ALA)
            assert block is not None
            had = await old.fetchrow(bounds)
            await old.close()
            await move_ala(cells, second)
            new = await asyncpg.connect(as_role_of(with_search_path(second.dsn, "cell_ala"), second.dsn))
            assert await new.fetchval("SELECT nextval('boleto_control')") == block["first"]
            assert await new.fetchrow(bounds) == had, "the sequence must keep the bounds of its block"
            await new.close()


async def test_a_move_that_fails_or_is_interrupted_is_undone_completely(servers: Any) -> None:
    with second_server() as second:
        async with open_cells(servers) as cells:
            create = await prepare_creation(cells)
            with pytest.raises(Refused) as refused:  # before anything is made at the new server
                await move_ala(cells, second, from_dsn="postgresql://postgres:wrong@localhost/x")
            assert "--from-dsn" in (refused.value.fields or {})["from_dsn"]
            assert "wrong" not in str(refused.value.fields)
            with (
                patch.object(move, "_sequences", AsyncMock(side_effect=ConnectionResetError("the line broke"))),
                pytest.raises(ConnectionResetError),
            ):
                await move_ala(cells, second)
            assert await create() == 201
            await check_undone(cells)
            new = await asyncpg.connect(second.dsn)
            await new.execute("DROP SCHEMA cell_ala CASCADE")
            await new.execute(f"ALTER ROLE postgres PASSWORD '{urlsplit(cells.home.owner_url).password}'")
            await new.close()
            await interrupt_move_of_ala(cells, as_role_of(second.dsn, cells.home.owner_url))
            assert await create() == 201
            await check_undone(cells)


async def interrupt_move_of_ala(cells: Cells, dsn: str) -> None:
    """Runs `quita cell move` until every process knows of it; then its terminal closes, and it is told so twice."""
    env = {
        **os.environ,
        "DATABASE_URL": cells.home.app_url, "DATABASE_OWNER_URL": cells.home.owner_url,
        "DATABASE_REPORT_URL": cells.home.report_url, "SECRET_KEY": SECRET_KEY, "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    reading, writing = os.pipe()
    moving = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli.main", "cell", "move", "ala", dsn, env=env, stderr=writing
    )
    os.close(writing)
    told = b""
    async with asyncio.timeout(120):
        while b"every process" not in told:
            part = await asyncio.to_thread(os.read, reading, 1_000)
            assert part, told
            told += part
        os.close(reading)
        for each in (signal.SIGHUP, signal.SIGTERM):
            moving.send_signal(each)
        assert await moving.wait() == 130


async def check_undone(cells: Cells) -> None:
    old = await asyncpg.connect(cells.owner_urls[ALA])
    assert await old.fetchval(REPLICATION) == 0
    assert await old.fetchval("SELECT count(*) FROM pg_trigger WHERE tgname = 'moved_away'") == 0
    await old.close()
    conn = await connect(cells.urls[0])
    (cell,) = await read_cells(conn, cells.seal)
    await conn.close()
    assert (cell.next, cell.held) == (None, False)


@pytest.mark.heavy
async def test_a_move_that_was_killed_is_completed_by_the_next_one(servers: Any) -> None:
    """The move is killed at the worst moment: requests are held, the old tables refuse writes, and the directory
    does not have the new address yet."""
    with second_server() as second, second_server() as third:
        async with open_cells(servers) as cells:
            create = await prepare_creation(cells)
            cut_off = RuntimeError("killed")
            with (
                patch.object(move, "_moved", AsyncMock(side_effect=cut_off)),
                pytest.raises(RuntimeError, match="killed"),
            ):
                await move_ala(cells, second)
            conn = await connect(cells.home.owner_url)
            await conn.execute("UPDATE cell SET held_since = now() - interval '61 s'")
            await conn.close()
            await asyncio.sleep(1.5)
            assert await create() == 503
            assert (await move_ala(cells, third)).number == ALA
            async with asyncio.timeout(30):
                while await create() != 201:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
