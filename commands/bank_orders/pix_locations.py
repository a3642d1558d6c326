"""The locations that an API process holds in memory, so that creating a PIX charge waits for no bank and no lock.

They are taken from the pool in blocks, the next block before the last one is used up. A process that crashes loses the
locations it held, which is harmless because no charge has them. When the pool is empty, creations wait for the worker
that fills it (workers/housekeeping/location_pool.py) and are served round robin over accounts.
"""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

import sql
from banks.protocol import Location
from domain.errors import Code, Refused
from domain.mode import Mode
from runtime.coordination.lanes import LOCATION_POOL
from runtime.coordination.turns import Turns
from runtime.jobs import Jobs
from runtime.postgres import DB_UNAVAILABLE, Pool, session, when_back
from sql import Connection

BLOCK: Final = 50
"""Locations in one row of the pool: a row takes 4 KB, so a page holds two rows."""
SILENT_S_MAX: Final = 10.0
"""How long creations wait for a bank that a worker found silent."""
WAIT_S_MAX: Final = 20.0
"""How long a creation waits for its turn while the bank answers."""

RETRY_AFTER_S = 2
_HELD_MIN = BLOCK
_HELD_MAX = 1_000
# Blocks used up in less than _QUICK_S were too few; blocks that lasted longer than _LONG_S were too many.
_QUICK_S = 0.5
_LONG_S = 5.0
_LOOK_S = 0.05
_WAITING_MAX = 20_000
_DATABASE_BACK_S = 8.0
_SILENCE_LIFETIME = timedelta(seconds=60)
"""How long a noted silence counts. Longer than the 35 s that the filling worker takes from one note to the next while a
bank hangs: a pause of 5 s, and 30 s for a call."""

_log = structlog.get_logger()


class PixLocation(Location, frozen=True):
    """A location and the bank that made it, which is also the bank of the charge created at this location."""

    bank: str


class _TakenLocation(PixLocation, frozen=True):
    block_id: int


class _PoolState(Struct, frozen=True):
    made: int
    silent: bool


take_blocks = sql.many("pix_location.take", _TakenLocation)
take_one = sql.maybe("pix_location.take_one", PixLocation)
add = sql.run("pix_location.add")
note_silence = sql.run("pix_location.note_silence")
"""`test, bank`: the bank was asked for locations and made none."""
find_made = sql.maybe("pix_location.made", _PoolState)


async def add_to_pool(conn: Connection, mode: Mode, bank: str, locations: Sequence[Location]) -> None:
    """Add locations that this bank has made to the pool."""
    await add(conn, test=mode.test, bank=bank, locations=locations, size=BLOCK)


class LocationReserve:
    """The locations that this process holds, of the bank that gets new charges."""

    def __init__(
        self, bank: str, pool: Pool, jobs: Jobs, *, deadline_s: float = SILENT_S_MAX, wait_s_max: float = WAIT_S_MAX
    ) -> None:
        self._bank = bank
        self._pool = pool
        self._jobs = jobs
        self._deadline_s = deadline_s
        self._wait_s_max = wait_s_max
        self._held: dict[Mode, deque[PixLocation]] = {mode: deque() for mode in Mode}
        self._turns: dict[Mode, Turns[PixLocation]] = {mode: Turns(waiting_max=_WAITING_MAX) for mode in Mode}
        self._filling: dict[Mode, asyncio.Task[None]] = {}
        self._target_size = dict.fromkeys(Mode, _HELD_MIN)
        self._last_block = dict.fromkeys(Mode, 0)
        self._filled_at = dict.fromkeys(Mode, 0.0)
        self._last_take_at = dict.fromkeys(Mode, 0.0)
        self._arrivals = dict.fromkeys(Mode, 0)  # how often new locations were seen

    def take_nowait(self, mode: Mode) -> PixLocation | None:
        """Returns an unused location without waiting; None when the caller has to `take` one."""
        held = self._held[mode]
        if not held or self._turns[mode]:
            return None
        location = held.popleft()
        if len(held) < self._target_size[mode] // 4 and self._time() - self._last_take_at[mode] >= _LOOK_S:
            self._start_filling(mode)
        return location

    async def take(self, mode: Mode, account_id: UUID, *, wait_s: float = math.inf) -> PixLocation:
        """Returns an unused location; when none is at hand, callers are served round robin over accounts, and wait at
        most `wait_s` seconds.

        Refused(BANK_UNAVAILABLE) when the bank refuses or makes no location while the caller waits;
        Refused(SERVICE_UNAVAILABLE) when too few are made; OverflowError when too many callers wait.
        """
        if (location := self.take_nowait(mode)) is not None:
            return location
        arrivals = self._arrivals[mode]
        future = self._turns[mode].join(account_id)
        self._start_filling(mode)
        try:
            await asyncio.wait((future,), timeout=min(self._wait_s_max, wait_s))
            if not future.done():
                silent = self._arrivals[mode] == arrivals
                code = Code.BANK_UNAVAILABLE if silent else Code.SERVICE_UNAVAILABLE
                raise Refused(code, retry_after_s=RETRY_AFTER_S)
            return future.result()
        finally:
            future.cancel()  # a caller that stopped waiting gets no location

    def give_back(self, mode: Mode, locations: Sequence[PixLocation]) -> None:
        """Take back locations that no charge was created at."""
        self._held[mode].extend(locations)
        self._turns[mode].serve(self._held[mode])

    async def close(self) -> None:
        for task in self._filling.values():
            task.cancel()
        await asyncio.gather(*self._filling.values(), return_exceptions=True)

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _start_filling(self, mode: Mode) -> None:
        """Start the filling task of this mode unless one runs; it runs for as long as a caller waits."""
        if mode not in self._filling or self._filling[mode].done():
            self._filling[mode] = asyncio.create_task(self._fill(mode))

    async def _fill(self, mode: Mode) -> None:
        turns = self._turns[mode]
        unavailable_since, arrivals = None, self._arrivals[mode]
        while True:
            try:
                return await self._take_until_served(mode)
            except DB_UNAVAILABLE as error:
                if not turns:
                    return
                if unavailable_since is None or arrivals != self._arrivals[mode]:
                    unavailable_since, arrivals = self._time(), self._arrivals[mode]
                # The database may answer yet refuse every write, as a standby does, and a cell that was moved away.
                if self._time() - unavailable_since >= _DATABASE_BACK_S:
                    return turns.fail(error)
                try:
                    await when_back(self._pool, timeout_s=_DATABASE_BACK_S)
                except DB_UNAVAILABLE as still_unavailable:
                    return turns.fail(still_unavailable)
                await asyncio.sleep(_LOOK_S)
            except Exception as error:
                _log.exception("locations_not_taken")
                return turns.fail(error)

    async def _take_until_served(self, mode: Mode) -> None:
        held, turns = self._held[mode], self._turns[mode]
        last_arrival_at, made = self._time(), -1
        while turns or len(held) < self._target_size[mode] // 4:
            # Creations of other processes may wait too, so while our callers wait only their number is taken.
            locations = await self._take_blocks(mode, len(turns) or self._next_size(mode))
            # The worker that fills the pool measures its consumption, and fills it before it is empty.
            self._jobs.wake(LOCATION_POOL[mode])
            held.extend(locations)
            turns.serve(held)
            if locations:
                last_arrival_at = self._time()
                self._arrivals[mode] += 1
                continue
            if not turns:
                return
            state = await self._pool_state(mode)
            made_before, made = made, state.made
            if made_before not in (-1, made):
                last_arrival_at = self._time()  # the bank makes locations, though another process took them first
                self._arrivals[mode] += 1
            # A slow bank is not silent: its calls are still under way.
            if state.silent and self._time() - last_arrival_at >= self._deadline_s:
                return turns.fail(Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S))
            await asyncio.sleep(_LOOK_S)

    def _next_size(self, mode: Mode) -> int:
        """Returns how many locations to take, so that they last some seconds."""
        now_s = self._time()
        lasted_s = now_s - self._filled_at[mode]
        self._filled_at[mode] = now_s
        if lasted_s < _QUICK_S:
            self._target_size[mode] = min(self._target_size[mode] * 2, _HELD_MAX)
        elif lasted_s > _LONG_S:
            self._target_size[mode] = max(self._target_size[mode] // 2, _HELD_MIN)
        return self._target_size[mode]

    async def _take_blocks(self, mode: Mode, count: int) -> list[PixLocation]:
        self._last_take_at[mode] = self._time()
        blocks = -(-min(count, _HELD_MAX) // BLOCK)
        async with session(self._pool) as conn:
            # When no block is left after the last one taken, blocks put back or written meanwhile may lie before it.
            for after in sorted({self._last_block[mode], 0}, reverse=True):
                locations = await take_blocks(conn, test=mode.test, bank=self._bank, blocks=blocks, after=after)
                if locations:
                    self._last_block[mode] = max(after, locations[-1].block_id)
                    break
        return list(locations)

    async def _pool_state(self, mode: Mode) -> _PoolState:
        async with session(self._pool) as conn:
            state = await find_made(conn, test=mode.test, bank=self._bank, lately=_SILENCE_LIFETIME)
        return state or _PoolState(0, silent=False)
