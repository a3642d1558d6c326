"""Deliver webhooks: claim what is due, sign it, send it, and store the result.

A lane is an endpoint in one mode. No lane waits for another: each has few requests in flight, which PostgreSQL counts
over all workers, and domain/webhooks/breaker.py decides what a lane may do at all. Requests run as tasks across the
rounds of the duty; a round itself only claims and returns.

Delivery is at least once, by the lease in PostgreSQL: a worker that dies leaves rows that `release` finds, and nothing
else needs to be cleaned up.
"""

import asyncio
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import aiohttp
import asyncpg
import structlog
from msgspec import Struct

import sql
from commands.webhooks.lanes import LaneKey
from domain.mode import Mode
from domain.webhooks.signature import delivery_headers
from runtime.batching import Batcher
from runtime.postgres import DB_UNAVAILABLE, session, transaction
from workers.context import Context
from workers.webhooks.attempt import ReceiverAnswer
from workers.webhooks.counted import count_attempt, log_fields
from workers.webhooks.lanes import DueDelivery, FinishedAttempt, store_attempts, tend_lanes
from workers.webhooks.traced import post_traced

IN_FLIGHT_MAX = 1_000
IN_FLIGHT_TEST_MAX = 300
"""The part of IN_FLIGHT_MAX that all sandbox lanes may have together, however many of them hang."""
LANES_MAX = 128
FINISH_S = 12.0
LOSSES_MAX = 5
"""Workers that may die while they send a delivery, before it is stuck for a person to look at."""

_YOUNG_S = 0.05
_UNSTORED_MAX = 100
"""Requests begun in the last 50 ms and answers not stored: sent twice if this process dies. Once there are so many,
half of them must end before the next claim."""
_BUSY_MIN = IN_FLIGHT_MAX // 2
_CONCURRENCY_WHEN_BUSY = 2
_RESULTS_MAX = 200
_RELEASE_MAX = 500
_STORE_TRIES = 12
_WINDOW = 256
"""Deliveries whose lanes a look reads: those due the longest, and as many that became due last."""
_SCAN_MAX = 1_000
"""Lanes that a look goes through while more is due than that; 2.4 us each."""
_PAGES_MAX = 8
_TIMER_S_MAX = 60.0
_TIMERS_PER_S = 20
# Another transaction ended one of these deliveries meanwhile, or has locked two of them in another order.
_CONFLICTS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
# One row can be at fault here (its endpoint was deleted meanwhile), so the other rows are written without it.
_ROW_FAULTS = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError)

_BEFORE_ALL = LaneKey(UUID(int=0), Mode.PRODUCTION)

_log = structlog.get_logger()


class _LaneLook(Struct, frozen=True):
    """A lane that has something due, and how far the look that found it went. A look that found none has one row, with
    the latter alone.

    `concurrency`: requests it may have in flight; `probe`: it is not open, so one request is sent; `ours`: no other
    worker has it locked; `n`: its place among the lanes gone through.
    """

    endpoint_id: UUID
    test: bool
    probe: bool
    failed_probes: int
    concurrency: int
    ours: bool
    n: int | None
    found: bool
    due_rows: int
    scanned: int
    last_endpoint: UUID | None
    last_test: bool | None

    @property
    def key(self) -> LaneKey:
        return LaneKey(self.endpoint_id, Mode.of(self.test))


class _ReleasedDelivery(Struct, frozen=True):
    delivery_id: UUID
    attempt: int
    state: str


take_lanes = sql.many("webhook_delivery.take_lanes", _LaneLook)
claim = sql.many("webhook_delivery.claim", DueDelivery)
release = sql.many("webhook_delivery.release", _ReleasedDelivery)


def _next_scan_start(looks: Sequence[_LaneLook], *, was_cut: bool) -> LaneKey:
    """The lane behind which the next scan begins: the last one that is claimed from when others were cut off, else the
    last one gone through."""
    last_claimed = max((look for look in looks if look.n is not None), key=lambda look: look.n or 0, default=None)
    if was_cut and last_claimed is not None:
        return last_claimed.key
    first_row = looks[0]
    if first_row.scanned < _SCAN_MAX or first_row.last_endpoint is None:
        return _BEFORE_ALL
    return LaneKey(first_row.last_endpoint, Mode.of(bool(first_row.last_test)))


class WebhookDispatcher:
    """The deliveries of one worker process. `wake` is called when there may be something to claim."""

    def __init__(self, context: Context, http: aiohttp.ClientSession, *, wake: Callable[[], None]) -> None:
        self._context = context
        self._http = http
        self._wake = wake
        self._lease = timedelta(seconds=context.settings.webhook_lease_s)
        self._scan_after: LaneKey = _BEFORE_ALL
        self._has_backlog = False  # more was due than a look's window, or more lanes than it may take
        self._scanned_first = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight: Counter[LaneKey] = Counter()
        self._in_flight_test = 0
        self._unstored: set[UUID] = set()
        # Lanes at their concurrency that may have more due, and the number in flight at which to look at them again: a
        # claim for each request that ended would cost more than the request.
        self._saturated: dict[LaneKey, int] = {}
        self._lacks_capacity = False  # a lane got fewer claims than its concurrency allows, for lack of capacity here
        self._timers: set[int] = set()
        self._stopping = False
        self._claim_lock = asyncio.Lock()
        self._store_batcher = Batcher(self._store_batch, lanes=2, batch_max=_RESULTS_MAX, alone_again=_ROW_FAULTS)

    async def drain(self) -> int:
        """Claim one round of what is due and begin to send it; returns how many. 0: nothing due, or no capacity."""
        async with self._claim_lock:
            return await self._claim_round()

    async def _claim_round(self) -> int:
        from_start = self._scan_after == _BEFORE_ALL  # a scan that began in the middle has not seen the first part yet
        for _ in range(_PAGES_MAX):
            if self._stopping:
                return 0
            if self._capacity() <= 0:
                self._lacks_capacity = True
                return 0
            claimed = await self._claim_page(self._context.now())
            if claimed or not self._has_backlog or (from_start and self._scan_after == _BEFORE_ALL):
                return claimed
            from_start = from_start or self._scan_after == _BEFORE_ALL
        return 0

    async def _claim_page(self, now: datetime) -> int:
        """Claim from the lanes of one look; returns how many. `_scan_after` is back at the start when all lanes were
        gone through."""
        # By the loop's clock, which nobody sets: the lease goes by PostgreSQL's clock, not by this machine's.
        leased_until = asyncio.get_running_loop().time() + self._lease.total_seconds()
        capacity = self._capacity()
        lanes_max = min(LANES_MAX, capacity)
        async with transaction(self._context.pool) as conn:
            looks = await take_lanes(
                conn,
                after_endpoint=self._scan_after.endpoint_id,
                after_test=self._scan_after.mode.test,
                scan_max=_SCAN_MAX if self._has_backlog else 0,
                scanned_first=self._scanned_first,
                window=_WINDOW,
                now=now,
                cap=self._context.settings.pace.webhook_requests,
                cap_test=self._context.settings.pace.sandbox_webhook_requests,
                limit=lanes_max,
            )
            lanes = [look for look in looks if look.found]
            claim_max = self._share_capacity(capacity, [lane for lane in lanes if lane.ours])
            chosen = [lane for lane in lanes if lane.key in claim_max]
            maxes = [claim_max[lane.key] for lane in chosen]
            claimed = await claim(conn, lanes=chosen, claim_maxes=maxes, now=now, lease=self._lease) if chosen else []
        was_cut = len(lanes) == lanes_max
        if self._has_backlog and not (was_cut and not self._scanned_first):
            self._scan_after = _next_scan_start(looks, was_cut=was_cut)
        self._scanned_first = not self._scanned_first
        self._has_backlog = was_cut or looks[0].due_rows == _WINDOW
        claimed_counts = Counter(due.lane for due in claimed)
        for lane in lanes:
            key = lane.key
            free, limit = lane.concurrency - self._in_flight[key], claim_max.get(key, 0)
            if not lane.ours or claimed_counts[key] < min(free, limit):
                continue  # another worker has the lane, or nothing else in it is due
            # The lane may have more due: look at it again when one of its requests, or any request, has ended.
            if free <= limit:
                self._saturated[key] = lane.concurrency * 3 // 4
            else:
                self._lacks_capacity = True
        for due in claimed:
            self._start_delivery(due, leased_until)
        return len(claimed)

    async def release(self) -> int:
        """Release the leases of workers that died; returns how many."""
        async with session(self._context.pool) as conn:
            released = await release(
                conn, now=self._context.now(), limit=_RELEASE_MAX, losses_max=LOSSES_MAX, lease=self._lease
            )
        for each in released:
            stuck = each.state == "stuck"
            (_log.error if stuck else _log.warning)(
                "delivery_stuck" if stuck else "delivery_lost_its_worker",
                delivery_id=each.delivery_id,
                attempt=each.attempt,
            )
        if released:
            self._wake()
        return len(released)

    async def tend(self) -> int:
        """One round for lanes that are or were paused; returns 0."""
        ready = await tend_lanes(self._context.pool, self._context.settings, now=self._context.now())
        if ready:
            self._wake()
        # No round follows at once: what a lane has held is released slowly, a portion at each interval.
        return 0

    async def stop(self, timeout_s: float = FINISH_S) -> None:
        """Claim no more and let requests in flight end, for at most `timeout_s`; the lease covers the rest."""
        self._stopping = True
        try:
            async with asyncio.timeout(timeout_s):
                async with self._claim_lock:
                    pass  # a round that was claiming has begun to send
                while self._tasks:
                    await asyncio.wait(set(self._tasks))
        except TimeoutError:
            late = set(self._tasks)
            for task in late:
                task.cancel()
            if late:
                _log.warning("deliveries_left_behind", count=len(late))
                await asyncio.wait(late, timeout=1.0)

    def _capacity(self) -> int:
        """How many more requests this process may begin."""
        return min(IN_FLIGHT_MAX - len(self._tasks), _UNSTORED_MAX - len(self._unstored))

    def _share_capacity(self, capacity: int, lanes: Sequence[_LaneLook]) -> dict[LaneKey, int]:
        """How many claims each lane may have of this process's capacity, in equal parts; there are no more lanes than
        that, so each gets one when capacity is short.

        The second half of IN_FLIGHT_MAX is for lanes with hardly any request in flight, so that however many receivers
        hang, one that answers is still served.
        """
        left_test = IN_FLIGHT_TEST_MAX - self._in_flight_test
        busy = len(self._tasks) >= _BUSY_MIN
        claim_max: dict[LaneKey, int] = {}
        for lane in lanes:
            key = lane.key
            limit = min(lane.concurrency, capacity // len(lanes))
            if lane.test:
                limit = min(limit, left_test)
            if busy:
                limit = min(limit, _CONCURRENCY_WHEN_BUSY - self._in_flight[key])
            if limit > 0:
                claim_max[key] = limit
                left_test -= limit * lane.test
        return claim_max

    def _start_delivery(self, due: DueDelivery, leased_until: float) -> None:
        self._in_flight[due.lane] += 1
        self._in_flight_test += due.test
        self._unstored.add(due.delivery_id)
        task = asyncio.create_task(self._deliver(due, leased_until))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, due: DueDelivery, leased_until: float) -> None:
        aging_timer = asyncio.get_running_loop().call_later(_YOUNG_S, self._count_as_stored, due.delivery_id)
        try:
            started_at = self._context.now()
            clock = asyncio.get_running_loop().time
            began_at = clock()
            if began_at >= leased_until:
                return  # this process was suspended, and another worker has the lease by now
            answer = await self._send(due, started_at)
            duration_s = clock() - began_at
            aging_timer.cancel()
            self._unstored.add(due.delivery_id)
            count_attempt(due, answer, started_at, duration_s)
            chance = random.random()  # noqa: S311 - spreads retries, guards nothing
            await self._store_batcher.submit(FinishedAttempt(due, answer, started_at, round(duration_s * 1000), chance))
        except Exception:
            # Our fault, not the receiver's: nothing is stored, and the lease runs out.
            _log.exception("delivery_failed_here", **log_fields(due))
        finally:
            aging_timer.cancel()
            self._count_as_stored(due.delivery_id)
            self._end_request(due.lane)

    def _count_as_stored(self, delivery_id: UUID) -> None:
        """The delivery no longer counts as unstored: its result is stored, or its receiver takes long."""
        self._unstored.discard(delivery_id)
        self._wake_if_room_again()

    def _wake_if_room_again(self) -> None:
        # Only with half of the capacity free: a claim costs the same for one delivery as for many.
        if self._lacks_capacity and len(self._unstored) <= _UNSTORED_MAX // 2:
            self._lacks_capacity = False
            self._wake_soon()

    def _wake_soon(self) -> None:
        # Deferred by one loop iteration, so that finished tasks have removed themselves from the set.
        asyncio.get_running_loop().call_soon(self._wake)

    def _end_request(self, lane: LaneKey) -> None:
        self._in_flight_test -= lane.mode.test
        self._in_flight[lane] -= 1
        if self._in_flight[lane] <= self._saturated.get(lane, -1):
            del self._saturated[lane]
            self._wake_soon()
        if not self._in_flight[lane]:
            del self._in_flight[lane]
        self._wake_if_room_again()

    async def _send(self, due: DueDelivery, now: datetime) -> ReceiverAnswer:
        context = self._context
        if not context.settings.webhook_allow_private and not due.url.startswith("https://"):
            return ReceiverAnswer("blocked_address")
        headers = delivery_headers(
            event=due.type,
            event_id=due.event_id,
            delivery_id=due.delivery_id,
            attempt=due.attempt,
            timestamp=int(now.timestamp()),
            body=due.body,
            secret=due.secret(due.secret_sealed, context.seal),
            old_secrets=[due.secret(each, context.seal) for each in due.old_secrets_sealed],
        )
        return await post_traced(context.traces, self._http, due, headers)

    async def _store_batch(self, attempts: Sequence[FinishedAttempt]) -> list[None]:
        """Store the attempts, with retries over a restart of PostgreSQL: the requests have been made."""
        for wait_s in (*[min(0.05 * 2**n, 2.0) for n in range(_STORE_TRIES)], None):
            try:
                now = self._context.now()
                outcomes, blocked_untils = await store_attempts(
                    self._context.pool, self._context.settings, attempts, now=now
                )
                break
            except (*DB_UNAVAILABLE, *_CONFLICTS):
                if wait_s is None:
                    raise
                await asyncio.sleep(wait_s)
        for attempt, outcome in zip(attempts, outcomes, strict=True):
            if outcome.state == "exhausted":
                _log.warning("delivery_exhausted", **log_fields(attempt.due))
            elif outcome.state == "pending":
                self._wake_at(outcome.due_at, now)
        for at in blocked_untils:
            self._wake_at(at, now)
        return [None] * len(attempts)

    def _wake_at(self, at: datetime, now: datetime) -> None:
        """Wake at this time, if it is soon; the duty's interval and other workers cover the rest."""
        delay_s = (at - now).total_seconds()
        if delay_s > _TIMER_S_MAX:
            return
        loop = asyncio.get_running_loop()
        # Rounded up to a twentieth of a second, so that there are few timers however many deliveries fail.
        moment = math.ceil((loop.time() + max(0.0, delay_s)) * _TIMERS_PER_S) + 1
        if moment not in self._timers:
            self._timers.add(moment)
            loop.call_at(moment / _TIMERS_PER_S, self._timer_ended, moment)

    def _timer_ended(self, moment: int) -> None:
        self._timers.discard(moment)
        self._wake()
