"""Partners across cells: each cell's copy of the partners, and their shares on the way to their own cell.

In each cell one worker does each of the two, under a lease. Nothing else waits for a cell or a home that is away: its
shares stay where they are, and `quita_queue_waiting{queue="partner_shares_away"}` counts them.
"""

import asyncio
from typing import Final

import structlog

from commands.merchants.partner_copy import copy_partners
from commands.money.partner_shares import any_away, find_away, mark_sent, receive_shares
from runtime.cells.directory import read_cells
from runtime.cells.number import HOME
from runtime.coordination.leases import take_lease
from runtime.postgres import DB_UNAVAILABLE, connect, session
from sql import Connection
from workers.context import Context

SENT_MAX: Final = 500
"""Shares sent to each cell in one round."""
_COPY_LEASE_S: Final = 5.0
_SEND_LEASE_S: Final = 30.0
"""Outlasts a round. Two workers that send at once do no harm."""
_CELL_S: Final = 10.0

_log = structlog.get_logger()


class PartnerCopy:
    """Keeps a connection to home, which is asked each second."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._home: Connection | None = None
        self._away = False

    async def follow(self) -> int:
        """One round; returns how many partners changed. 0 at home, and while another worker does it."""
        if self._context.settings.cell == HOME:
            return 0
        async with session(self._context.pool) as conn:
            if not await take_lease(conn, name="partner_copy", holder=self._context.worker, lease_s=_COPY_LEASE_S):
                await self.close()
                return 0
            try:
                async with asyncio.timeout(_CELL_S):
                    if self._home is None or self._home.is_closed():
                        self._home = await connect(self._context.settings.directory_url)
                    copied = await copy_partners(self._home, conn)
            except DB_UNAVAILABLE as error:
                await self.close()
                if not self._away:
                    _log.warning("partners_not_copied", error=type(error).__name__)
                self._away = True
                return 0
        self._away = False
        return copied

    async def close(self) -> None:
        home, self._home = self._home, None
        if home is not None and not home.is_closed():
            home.terminate()


async def send_shares(context: Context) -> int:
    """One round; returns how many shares reached another cell."""
    async with session(context.pool) as conn:
        if not await any_away(conn):
            return 0
        if not await take_lease(conn, name="shares_away", holder=context.worker, lease_s=_SEND_LEASE_S):
            return 0
    addresses = await _addresses(context)
    return sum(await asyncio.gather(*(_send(context, number, url) for number, url in addresses.items())))


async def _addresses(context: Context) -> dict[int, str]:
    """The database of every other cell, by number; read from the directory each time, since a cell may have moved."""
    settings = context.settings
    conn = await connect(settings.directory_url)
    try:
        found = {each.number: each.addresses.database_url for each in await read_cells(conn, context.seal)}
    finally:
        await conn.close()
    found[HOME] = settings.directory_url
    found.pop(settings.cell, None)
    return found


async def _send(context: Context, number: int, url: str) -> int:
    """Send a cell its shares. Its transaction ends before ours begins: after a worker died between them, another sends
    the shares again."""
    async with session(context.pool) as conn:
        shares = await find_away(conn, cell=number, limit=SENT_MAX)
    if not shares:
        return 0
    try:
        async with asyncio.timeout(_CELL_S):
            other = await connect(url)
            try:
                there = await receive_shares(other, shares, sender=context.settings.cell, cell=number)
            finally:
                other.terminate()
    except DB_UNAVAILABLE as error:
        _log.warning("shares_not_sent", cell=number, shares=len(shares), error=type(error).__name__)
        return 0
    if len(there) < len(shares):
        _log.error("shares_not_taken", cell=number, shares=len(shares) - len(there))
    async with session(context.pool) as conn:
        await mark_sent(conn, share_ids=there, now=context.now())
    return len(there)
