"""A process takes the blocks of locations that it asked for, however large the pool, and leaves the rest to others."""

from typing import Any

import asyncpg

from banks.protocol import Location
from commands.bank_orders.pix_locations import BLOCK, add_to_pool, take_blocks
from domain.mode import Mode
from runtime.postgres import open_pool, session
from tests.support.database import own_database

BLOCKS = 240


async def test_one_block_is_taken_from_a_pool_that_was_vacuumed(servers: Any) -> None:
    """Once its size was known, a plan took :blocks of them for each row: one process held all there were."""
    async with own_database(servers, "blocks") as url:
        pool = await open_pool(url, name="tests", size=1)
        async with session(pool) as conn:
            await add_to_pool(
                conn, Mode.SANDBOX, "001", [Location(n, f"pix.example.com/{n}") for n in range(BLOCKS * BLOCK)]
            )
            vacuum = await asyncpg.connect(url)
            await vacuum.execute("VACUUM pix_location")
            await vacuum.close()
            for left in range(BLOCKS - 1, BLOCKS - 8, -1):  # a statement's plan is made anew for some executions
                assert len(await take_blocks(conn, test=True, bank="001", blocks=1, after=0)) == BLOCK
                assert await conn.fetchval("SELECT count(*) FROM pix_location") == left
        await pool.close()
