"""The totals of a list, when they can be read quickly: a page does not wait longer for its totals than for its rows."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from sql import Connection
from web.painel.page_request import PageRequest

TOTALS_S_MAX: Final = 1.0
"""How long a page waits for totals. Where no table keeps totals, the statement adds up all rows of the list."""
Total = TypeVar("Total")


async def totals_in_time(request: PageRequest, read: Callable[[Connection], Awaitable[Total]]) -> Total | None:
    """Returns the totals, or None when reading them takes too long; the page then says so. `read` takes no turn of the
    account's: the page holds one already, and that may be the account's last."""
    try:
        async with asyncio.timeout(TOTALS_S_MAX):
            return await request.reads.ask(read)
    except (TimeoutError, asyncpg.QueryCanceledError):
        return None
