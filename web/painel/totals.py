"""What a list comes to, when that can be told at once: a page waits no longer for its totals than for its rows."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import asyncpg

from sql import Connection
from web.painel.page_request import PageRequest

COUNTED_S: Final = 1.0
"""Where no totals are kept, rows are added up one by one."""
Total = TypeVar("Total")


async def counted(request: PageRequest, read: Callable[[Connection], Awaitable[Total]]) -> Total | None:
    """None when it takes too long: the page says so. The page has its account's turn already, and may have the last."""
    try:
        async with asyncio.timeout(COUNTED_S):
            return await request.reads.ask(read)
    except (TimeoutError, asyncpg.QueryCanceledError):
        return None
