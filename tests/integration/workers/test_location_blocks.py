"""A process takes only as many blocks of locations as it asks for, however large the pool; others take the rest."""

from typing import Any

import asyncpg

from banks.protocol import Location
from commands.bank_orders.pix_locations import BLOCK, add_to_pool, take_blocks
from domain.mode import Mode
from runtime.postgres import open_pool, session
from tests.support.database import own_database

BLOCKS = 240


async def test_a_claim_of_one_block_takes_one_block_even_after_a_vacuum(servers: Any) -> None:
    """Once the table's size was known, a plan took :blocks blocks for each row: one process held the whole pool."""
    async with own_database(servers, "blocks") as url:
        pool = await open_pool(url, name="tests", size=1)
        async with session(pool) as conn:
            await add_to_pool(
                conn, Mode.SANDBOX, "001", [Location(n, f"pix.example.com/{n}") for n in range(BLOCKS * BLOCK)]
            )
            vacuum = await asyncpg.connect(url)
            await vacuum.execute("VACUUM pix_location")
            await vacuum.close()
            for left in range(BLOCKS - 1, BLOCKS - 8, -1):  # PostgreSQL plans the statement anew for some executions
                assert len(await take_blocks(conn, test=True, bank="001", blocks=1, after=0)) == BLOCK
                assert await conn.fetchval("SELECT count(*) FROM pix_location") == left
        await pool.close()
