"""Control numbers of boletos: each is handed out once, and nobody waits in a queue for a silent database."""

import asyncio
from typing import Any

from commands.charges.control_numbers import ControlNumbers
from runtime.postgres import DB_UNAVAILABLE, open_pool
from tests.conftest import Servers


async def test_callers_that_wait_for_a_silent_database_fail_together_and_then_get_distinct_numbers(
    servers: Servers, table_owner: Any
) -> None:
    pool = await open_pool(servers.database_url, name="numbers", size=1)
    try:
        # Only the wait for the lock is short: a database that is merely slow still gives numbers afterwards.
        await pool.execute("SET lock_timeout = '500ms'")
        numbers = ControlNumbers(pool)
        async with table_owner.acquire() as owner:
            transaction = owner.transaction()
            await transaction.start()
            await owner.execute("ALTER SEQUENCE boleto_control NO CYCLE")  # locks it: nextval() waits
            waiting = [asyncio.create_task(numbers.next()) for _ in range(30)]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            failed = [each for each in waiting if each.done()]
            await transaction.rollback()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert len(failed) == len(waiting)
        assert all(isinstance(each, DB_UNAVAILABLE) for each in outcomes)
        assert len(set(await asyncio.gather(*(numbers.next() for _ in range(120))))) == 120
    finally:
        await pool.close()
