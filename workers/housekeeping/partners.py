"""Partners across cells: each cell's copy of the partners, and their shares on the way to their own cell.

In each cell one worker does each of the two, under a lease. Nothing else waits for a cell or a home that is away: its
shares stay where they are, and `quita_queue_waiting{queue="partner_shares_away"}` counts them.
"""

import asyncio
from typing import Final

import structlog
from asyncpg import PostgresError

from commands.merchants.partner_copy import copy_partners
from commands.money.partner_shares import find_shares_to_send, has_shares_to_send, mark_sent, receive_shares
from runtime.cells.directory import read_cells
from runtime.cells.number import HOME
from runtime.coordination.leases import release_lease, take_lease
from runtime.postgres import DB_UNAVAILABLE, connect, session
from sql import Connection
from workers.context import Context

SENT_MAX: Final = 500
"""Shares sent to each cell in one round."""
_COPY_LEASE_S: Final = 5.0
_SEND_LEASE_S: Final = 30.0
"""Outlasts a round, after which it is released. Two workers that send at once do no harm."""
_CELL_TIMEOUT_S: Final = 10.0

_log = structlog.get_logger()


class PartnerCopy:
    """Keeps a connection to home, which is asked each second."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._home_conn: Connection | None = None
        self._home_is_away = False

    async def follow(self) -> int:
        """One round; returns how many partners changed. 0 at home, and while another worker does it."""
        if self._context.settings.cell == HOME:
            return 0
        async with session(self._context.pool) as conn:
            if not await take_lease(conn, name="partner_copy", holder=self._context.worker, lease_s=_COPY_LEASE_S):
                await self.close()
                return 0
            try:
                async with asyncio.timeout(_CELL_TIMEOUT_S):
                    if self._home_conn is None or self._home_conn.is_closed():
                        self._home_conn = await connect(self._context.settings.directory_url)
                    copied = await copy_partners(self._home_conn, conn)
            except DB_UNAVAILABLE as error:
                await self.close()
                if not self._home_is_away:
                    _log.warning("partners_not_copied", error=type(error).__name__)
                self._home_is_away = True
                return 0
        self._home_is_away = False
        return copied

    async def close(self) -> None:
        home_conn, self._home_conn = self._home_conn, None
        if home_conn is not None and not home_conn.is_closed():
            home_conn.terminate()


async def send_shares(context: Context) -> int:
    """One round; returns how many shares reached another cell."""
    async with session(context.pool) as conn:
        if not await has_shares_to_send(conn):
            return 0
        if not await take_lease(conn, name="shares_away", holder=context.worker, lease_s=_SEND_LEASE_S):
            return 0
    urls = await _database_urls(context)
    sent = sum(await asyncio.gather(*(_send_to_cell(context, number, url) for number, url in urls.items())))
    async with session(context.pool) as conn:
        # The next cron may come to another worker, which would leave new shares until the lease has ended.
        await release_lease(conn, name="shares_away", holder=context.worker)
    return sent


async def _database_urls(context: Context) -> dict[int, str]:
    """The database of every other cell, by number; read from the directory each time, since a cell may have moved."""
    settings = context.settings
    conn = await connect(settings.directory_url)
    try:
        urls = {each.number: each.addresses.database_url for each in await read_cells(conn, context.seal)}
    finally:
        await conn.close()
    urls[HOME] = settings.directory_url
    urls.pop(settings.cell, None)
    return urls


async def _send_to_cell(context: Context, number: int, url: str) -> int:
    """Send a cell its shares. Its transaction ends before ours begins: after a worker died between them, another sends
    the shares again."""
    async with session(context.pool) as conn:
        shares = await find_shares_to_send(conn, cell=number, limit=SENT_MAX)
    if not shares:
        return 0
    try:
        async with asyncio.timeout(_CELL_TIMEOUT_S):
            cell_conn = await connect(url)
            try:
                received_ids = await receive_shares(cell_conn, shares, sender=context.settings.cell, cell=number)
            finally:
                cell_conn.terminate()
    except (*DB_UNAVAILABLE, PostgresError) as error:  # that it refuses concerns no other cell either
        _log.warning("shares_not_sent", cell=number, shares=len(shares), error=type(error).__name__)
        return 0
    if len(received_ids) < len(shares):
        _log.error("shares_not_taken", cell=number, shares=len(shares) - len(received_ids))
    async with session(context.pool) as conn:
        await mark_sent(conn, share_ids=received_ids, now=context.now())
    return len(received_ids)
