"""The locations that a process of the API holds in memory, so that creating a PIX charge waits for no bank and no lock.

They are taken from the pool in blocks, and a process that crashes loses those it held: an address that no charge has is
missed by nobody.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from banks.protocol import Location
from commands.bank_orders.kinds import LocationsRequest
from domain.errors import Code, Refused
from domain.mode import Mode
from runtime.ids import new_id
from runtime.jobs import LOCATION_POOL, PIX_ORDERS, Jobs
from runtime.postgres import Pool, session
from runtime.replies import Replies
from sql import Connection

HIGH = {Mode.SANDBOX: 20_000, Mode.PRODUCTION: 2_000}
"""How full the pool is made."""
LOW = {Mode.SANDBOX: 10_000, Mode.PRODUCTION: 1_000}
"""Below this it is filled again."""
DEADLINE_S = 10.0
"""How long a creation waits for the bank when the pool is empty."""

RETRY_AFTER_S = 2
_BLOCK_LEAST = 32
_BLOCK_MAX = 1_024
# A block used up faster than this was too small, one that lasted longer than that too large.
_QUICK_S = 0.5
_LONG_S = 5.0
_ASK_MAX = 512
_FILLS_MAX = 8


class PixLocation(Location, frozen=True):
    """A location, and the bank that made it: it carries the charge that is made with it."""

    bank: str


class _Taken(PixLocation, frozen=True):
    low: bool


class _Abandoned(Struct, frozen=True):
    order_id: UUID


class _Outcome(Struct, frozen=True):
    outcome: bytes | None


class LocationsMade(Struct, frozen=True):
    """The outcome of an order of kind `locations`; empty when the bank refused."""

    locations: list[Location] = []


take_block = sql.many("pix_location.take", _Taken)
add = sql.run("pix_location.add")
ask_for_locations = sql.run("bank_order.ask_for_locations")
abandon = sql.maybe("bank_order.abandon", _Abandoned)
find_outcome = sql.maybe("bank_order.outcome", _Outcome)

_encode = msgspec.json.Encoder().encode
_read_made = msgspec.json.Decoder(LocationsMade).decode


async def add_to_pool(conn: Connection, mode: Mode, bank: str, locations: Sequence[Location]) -> None:
    """Keep locations that this bank has made."""
    await add(conn, test=mode.test, bank=bank, locations=locations)


class LocationReserve:
    """Locations of the bank that carries new charges. `deadline_s` bounds the wait for it when the pool is empty."""

    def __init__(
        self,
        bank: str,
        pool: Pool,
        jobs: Jobs,
        replies: Replies,
        now: Callable[[], datetime],
        *,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._bank = bank
        self._pool = pool
        self._jobs = jobs
        self._replies = replies
        self._now = now
        self._deadline_s = deadline_s
        self._held: dict[Mode, deque[PixLocation]] = {mode: deque() for mode in Mode}
        self._block = dict.fromkeys(Mode, _BLOCK_LEAST)
        self._claimed_at = dict.fromkeys(Mode, 0.0)
        # Callers of one mode claim one after the other; the one that waits for the bank waits for all.
        self._claiming = {mode: asyncio.Lock() for mode in Mode}
        self._wanted = dict.fromkeys(Mode, 0)
        self._failed_at = dict.fromkeys(Mode, 0.0)

    async def take(self, mode: Mode, count: int, *, waited_s: float = 0.0) -> list[PixLocation]:
        """`count` locations nobody else has; Refused(BANK_UNAVAILABLE) when the bank makes none in time.

        `waited_s` is how long all of those who ask have waited already, for a place in a batch.
        """
        held = self._held[mode]
        if len(held) < count:
            came_at = asyncio.get_running_loop().time() - waited_s
            self._wanted[mode] += count
            try:
                async with self._claiming[mode]:
                    # The wait for the bank is shared, and so is its failure: nobody waits twice.
                    if came_at <= self._failed_at[mode]:
                        raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)
                    await self._fill(mode, count)
                    return [held.popleft() for _ in range(count)]
            finally:
                self._wanted[mode] -= count
        return [held.popleft() for _ in range(count)]

    def give_back(self, mode: Mode, locations: Sequence[PixLocation]) -> None:
        """Locations nothing was made with after all."""
        self._held[mode].extend(locations)

    async def _fill(self, mode: Mode, count: int) -> None:
        """Hold at least `count`, or raise. Called by one at a time; those without the lock may take meanwhile."""
        held = self._held[mode]
        for _ in range(_FILLS_MAX):
            if len(held) >= count:
                return
            found = await self._claim(mode, max(self._next_block(mode), count - len(held)))
            held.extend(found)
            if not found:
                held.extend(await self._ask(mode, min(max(self._wanted[mode], _BLOCK_LEAST), _ASK_MAX)))
        if len(held) < count:
            raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)

    def _next_block(self, mode: Mode) -> int:
        at = asyncio.get_running_loop().time()
        lasted_s = at - self._claimed_at[mode]
        self._claimed_at[mode] = at
        if lasted_s < _QUICK_S:
            self._block[mode] = min(self._block[mode] * 2, _BLOCK_MAX)
        elif lasted_s > _LONG_S:
            self._block[mode] = max(self._block[mode] // 2, _BLOCK_LEAST)
        return self._block[mode]

    async def _claim(self, mode: Mode, limit: int) -> list[PixLocation]:
        async with session(self._pool) as conn:
            rows = await take_block(conn, test=mode.test, bank=self._bank, limit=limit, low=LOW[mode])
        if not rows or rows[0].low:
            self._jobs.wake(LOCATION_POOL[mode])
        return list(rows)

    async def _ask(self, mode: Mode, count: int) -> list[PixLocation]:
        """Have a worker ask the bank, and wait for the answer until the deadline."""
        order_id, now = new_id(), self._now()
        async with session(self._pool) as conn:
            await ask_for_locations(
                conn,
                order_id=order_id,
                test=mode.test,
                bank=self._bank,
                request=_encode(LocationsRequest(count)),
                now=now,
                deadline=now + timedelta(seconds=self._deadline_s),
                reply_to=self._replies.reply_to,
            )
        self._jobs.wake(PIX_ORDERS[mode])
        try:
            outcome = await self._replies.wait(order_id, deadline_s=self._deadline_s, look=_look)
        except asyncio.CancelledError:
            await asyncio.shield(self._abandon(order_id))
            raise
        if outcome is None:
            outcome = await self._abandon(order_id)
        made = _read_made(outcome).locations if outcome is not None else []
        if not made:
            self._failed_at[mode] = asyncio.get_running_loop().time()
            raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)
        return [PixLocation(each.location_id, each.location, self._bank) for each in made]

    async def _abandon(self, order_id: UUID) -> bytes | None:
        """Wait no longer. The outcome, when it arrived at the last moment."""
        async with session(self._pool) as conn:
            if await abandon(conn, order_id=order_id) is not None:
                return None
            return await _look(conn, order_id)


async def _look(conn: Connection, order_id: UUID) -> bytes | None:
    found = await find_outcome(conn, order_id=order_id)
    return None if found is None else found.outcome
