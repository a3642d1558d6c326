"""Keep locations ready, so that creating a PIX charge waits for no bank.

Their number follows from how fast they are taken: some seconds of supply, made as fast as the bank answers, and beyond
that a reserve for bursts, made slowly in the background. One process of the installation fills a pool at a time, under
a lease.
"""

import asyncio
import math
import time
from collections.abc import Coroutine, Sequence
from itertools import islice
from typing import Any, Final

import structlog
from msgspec import Struct

import sql
from banks.protocol import Done, Location, Rejected, Unknown
from commands.bank_orders.pix_locations import BLOCK, add_to_pool, note_silence
from domain.mode import Mode
from runtime.coordination.leases import release_lease, take_lease
from runtime.pace import Pace
from runtime.postgres import DB_UNAVAILABLE, session
from sql import Connection
from workers.concurrency import run_batched
from workers.context import Context

LEASE_S: Final = 6.0
"""Shorter than creations wait: when the holder dies, another process fills the pool before creations are refused."""
SLICE: Final = {Mode.SANDBOX: 2_000, Mode.PRODUCTION: BLOCK}
"""Locations asked for together: by one statement at the simulated bank, by one request each at a real bank."""

PROBE_S: Final = 3.0
"""After so long without an answer, and as often from then on, the bank is asked by one call more: a bank that is back
may never answer the calls from before, which hang for 30 s and are all that may be under way."""

_NEEDED_MIN = 2_000
_COUNT_INTERVAL_S = 5.0  # between two counts of what was taken
_COUNT_STALE_S = 60.0  # a count that old says nothing about now
_RATE_HALF_LIFE_S = 300.0  # the rate of a burst is forgotten by half in this time
_LOOK_S = 0.25
_STORE_S = 1.0  # blocks stay whole at a bank that answers faster than this
_KNOWN_IDS_MAX = 20_000
_BACKOFF_S = (1.0, 2.0, 5.0)  # after slices that the bank did not make

_log = structlog.get_logger()


class Level(Struct, frozen=True):
    """The pool's content, and the latest count. Before its first location nothing is ready, and the count is None."""

    ready: int
    first: int
    made: int | None
    taken: int | None
    per_s: float | None
    counted_s_ago: float | None


class Consumption(Struct, frozen=True):
    taken: int
    per_s: float


find_level = sql.one("pix_location.level", Level)
count_consumption = sql.run("pix_location.count_consumption")


def count(level: Level) -> Consumption | None:
    """The rate at which locations are taken; None before it is time to count again. The rate follows a rise at once and
    a fall slowly: merchants who took a thousand a second a minute ago may do so again."""
    if level.made is None or level.taken is None or level.per_s is None or level.counted_s_ago is None:
        return None
    elapsed_s = level.counted_s_ago
    if elapsed_s < _COUNT_INTERVAL_S:
        return None
    taken = level.made - level.ready
    now_per_s = max(taken - level.taken, 0) / elapsed_s if elapsed_s < _COUNT_STALE_S else 0.0
    return Consumption(taken, max(now_per_s, level.per_s * 0.5 ** (elapsed_s / _RATE_HALF_LIFE_S)))


def needed(pace: Pace, per_s: float) -> int:
    """How many must be ready: below this the pool is filled as fast as the bank answers."""
    return min(max(_NEEDED_MIN, math.ceil(per_s * pace.pix_locations_s)), pace.pix_locations_max)


def kept(pace: Pace, mode: Mode, per_s: float) -> int:
    """How many the pool is filled up to, with the reserve for bursts."""
    reserve = pace.sandbox_locations_min if mode.test else pace.pix_locations_min
    return max(needed(pace, per_s), reserve)


class LocationPool:
    """Fills the pool of one mode, for the bank of new charges."""

    def __init__(self, context: Context, mode: Mode) -> None:
        self._context = context
        self._mode = mode
        self._bank = context.settings.bank
        self._pace = context.settings.pace
        self._lease = f"locations_{mode}_{self._bank}"
        self._has_lease = False
        self._per_s = 0.0
        self._first_block_id = 0
        self._known_ids: dict[int, None] = {}  # ids that the bank made lately, the oldest first
        self._outstanding = 0  # locations of slices under way that are not stored yet
        # Enough slices for all calls to be under way while one slice is being stored.
        self._slices_max = 2 + -(-self._pace.bank_location_calls // BLOCK) if mode is Mode.PRODUCTION else 1
        self._call_slots = asyncio.Semaphore(self._pace.bank_location_calls)
        self._calls: dict[asyncio.Timeout, float] = {}  # under way, with the time at which each began
        self._answered_at = 0.0
        self._added = 0
        self._next_reserve_at = 0.0
        self._failures = 0
        self._retry_at = 0.0

    async def fill(self) -> int:
        """Fill the pool unless another process does; returns how many locations were added."""
        self._added = 0
        # A slice that awaits its last answer still takes a place. With one place for each call, calls that hang do not
        # keep other slices from being made.
        at_once = self._slices_max + self._pace.bank_location_calls
        beside = [asyncio.create_task(self._renew_lease())]
        if self._mode is Mode.PRODUCTION:
            beside.append(asyncio.create_task(self._probe_when_silent()))
        try:
            await run_batched(
                self._claim, begin=self._start_slices, at_once=at_once, look_s=_LOOK_S, stopping=self._context.stopping
            )
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            if self._has_lease:
                self._has_lease = False
                async with session(self._context.pool) as conn:
                    await release_lease(conn, name=self._lease, holder=self._context.worker)
        return self._added

    async def _claim(self, limit: int) -> Sequence[int]:
        """The sizes of the slices to make now."""
        size = SLICE[self._mode]
        while not self._context.stopping.is_set():
            limit = min(limit, self._slices_max - -(-self._outstanding // size))
            if limit <= 0:
                break
            async with session(self._context.pool) as conn:
                # Read before the level: locations stored meanwhile count twice, for a moment, and not as missing.
                outstanding = self._outstanding
                supply = outstanding + (await self._read_level(conn)).ready
                missing = kept(self._pace, self._mode, self._per_s) - supply
                if missing < BLOCK or time.monotonic() < self._retry_at or not await self._take_lease(conn):
                    break
            slices = [min(size, missing - at) for at in range(0, missing, size)]
            if self._mode is Mode.SANDBOX or supply < needed(self._pace, self._per_s):
                return slices[:limit]
            # The reserve for bursts: no creation waits for it, and the bank and this machine have other work.
            wait_s = self._next_reserve_at - time.monotonic()
            if wait_s <= 0:
                self._next_reserve_at = time.monotonic() + size / self._pace.pix_locations_per_s
                return slices[:1]
            await asyncio.sleep(min(wait_s, _LOOK_S))
        return []

    async def _read_level(self, conn: Connection) -> Level:
        level = await find_level(conn, test=self._mode.test, bank=self._bank, since=self._first_block_id)
        self._first_block_id = level.first
        self._per_s = level.per_s or 0.0
        if (consumption := count(level)) is not None:
            self._per_s = consumption.per_s
            if consumption.per_s > 1 or consumption.taken != level.taken:
                await count_consumption(
                    conn, test=self._mode.test, bank=self._bank, taken=consumption.taken, per_s=consumption.per_s
                )
        return level

    async def _take_lease(self, conn: Connection) -> bool:
        """Whether the pool is ours to fill."""
        if not self._has_lease:
            self._has_lease = await take_lease(conn, name=self._lease, holder=self._context.worker, lease_s=LEASE_S)
        return self._has_lease

    async def _renew_lease(self) -> None:
        """Keep the lease, however long the bank takes for a slice. A lost lease is asked for again between slices."""
        while True:
            await asyncio.sleep(LEASE_S / 3)
            try:
                async with session(self._context.pool) as conn:
                    self._has_lease = self._has_lease and await take_lease(
                        conn, name=self._lease, holder=self._context.worker, lease_s=LEASE_S
                    )
            except DB_UNAVAILABLE:
                self._has_lease = False

    def _start_slices(self, sizes: Sequence[int]) -> list[Coroutine[Any, Any, None]]:
        self._outstanding += sum(sizes)
        return [self._make_slice(size) for size in sizes]

    async def _make_slice(self, size: int) -> None:
        """Raises nothing. Locations are stored each second, so that one slow answer keeps none of the others from the
        creations that wait. Locations that could not be stored are lost: stored again after a lost connection they
        might stand in two blocks, and two charges would share a location."""
        missing, added, unstored = size, 0, list[Location]()
        refusals: list[Rejected | Unknown] = []
        calls = {asyncio.create_task(self._create(count, unstored, refusals)) for count in self._call_sizes(size)}
        try:
            while calls:
                ended, calls = await asyncio.wait(calls, timeout=_STORE_S)
                for each in ended:
                    each.result()
                created, unstored[:] = unstored[:], []
                if created:
                    added += await self._store(created)
                    missing -= len(created)
            if missing > size - size // 2 or not added:
                # The bank is away, limits calls, or repeats an answer: more questions would improve none of these.
                self._failures += 1
                self._retry_at = time.monotonic() + _BACKOFF_S[min(self._failures, len(_BACKOFF_S)) - 1]
                refusal = refusals[0] if refusals else Unknown("fewer new ones than asked for")
                detail = refusal.detail if isinstance(refusal, Unknown) else refusal.code
                _log.warning("location_pool_not_filled", test=self._mode.test, detail=detail)
            else:
                self._failures = 0
            if missing == size == self._outstanding:  # and no other slice is under way that the bank may still answer
                async with session(self._context.pool) as conn:
                    await note_silence(conn, test=self._mode.test, bank=self._bank)
        except DB_UNAVAILABLE as error:
            _log.warning("locations_not_stored", error=type(error).__name__)
        except Exception:
            _log.exception("locations_not_made")
        finally:
            self._outstanding -= missing
            for each in calls:
                each.cancel()

    def _call_sizes(self, size: int) -> Sequence[int]:
        """How many locations each call asks for. The simulated bank in this process makes all by one statement."""
        return [size] if self._mode is Mode.SANDBOX else [1] * size

    async def _create(self, count: int, created: list[Location], refusals: list[Rejected | Unknown]) -> None:
        async with self._call_slots:
            answer = None
            while answer is None:
                if refusals:
                    return  # a bank that is away is not asked for the rest of the slice
                answer = await self._ask(count)
        if isinstance(answer, Done):
            created += answer.value
        else:
            refusals.append(answer)

    async def _ask(self, count: int) -> Done[list[Location]] | Rejected | Unknown | None:
        """None: the bank answers again, but not this call, which is from before."""
        began_at = time.monotonic()
        bank = self._context.banks.of(self._mode, self._bank)
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._calls[limit] = began_at
                answer = await bank.pix.create_locations(count)
        except TimeoutError:
            return None
        finally:
            self._calls.pop(limit, None)
        self._answered_at = time.monotonic()
        return answer

    async def _probe_when_silent(self) -> None:
        probes = set[asyncio.Task[None]]()
        try:
            while True:
                await asyncio.sleep(PROBE_S)
                probes = {probe for probe in probes if not probe.done()}
                if time.monotonic() - max(min(self._calls.values(), default=math.inf), self._answered_at) >= PROBE_S:
                    probes.add(asyncio.create_task(self._probe()))
        finally:
            for probe in probes:
                probe.cancel()
            await asyncio.gather(*probes, return_exceptions=True)

    async def _probe(self) -> None:
        """If the bank answers, have calls that began before begin anew. The location that it made is left unused."""
        asked_at = time.monotonic()
        if isinstance(await self._context.banks.of(self._mode, self._bank).pix.create_locations(1), Done):
            for limit in [limit for limit, began_at in self._calls.items() if began_at < asked_at]:
                del self._calls[limit]
                limit.reschedule(0.0)

    async def _store(self, created: Sequence[Location]) -> int:
        """Returns how many were new."""
        new = self._without_known(created)
        async with session(self._context.pool) as conn:
            await add_to_pool(conn, self._mode, self._bank, new)
        self._outstanding -= len(created)
        self._added += len(new)
        return len(new)

    def _without_known(self, created: Sequence[Location]) -> list[Location]:
        """The locations that the bank has not made before: two charges with one location would share a QR Code."""
        new = {each.location_id: each for each in created if each.location_id not in self._known_ids}
        if len(new) < len(created):
            _log.error("locations_made_twice", test=self._mode.test, bank=self._bank, count=len(created) - len(new))
        self._known_ids |= dict.fromkeys(new)
        for old in list(islice(self._known_ids, max(len(self._known_ids) - _KNOWN_IDS_MAX, 0))):
            del self._known_ids[old]
        return list(new.values())
