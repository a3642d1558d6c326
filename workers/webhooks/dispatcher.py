"""Tell merchants what happened: claim what is due, sign it, send it, write down how it went.

A lane is an endpoint in one mode. Lanes wait for nobody: each has room for a few requests at once, which
PostgreSQL counts over all workers, and what a lane may do at all is decided in domain/webhooks/breaker.py. Requests
fly as tasks across the rounds of the duty, which itself only claims and returns.

A delivery is at least once. What protects it is the lease in PostgreSQL: a worker that dies leaves
rows that `release` finds, and nothing else needs to be cleaned up.
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
from prometheus_client import Counter as Metric
from prometheus_client import Histogram

import sql
from commands.webhooks.lanes import LaneKey
from domain.mode import Mode
from domain.webhooks.signature import delivery_headers
from runtime.batching import Batcher
from runtime.postgres import DB_UNAVAILABLE, session, transaction
from workers.context import Context
from workers.webhooks.attempt import ReceiverAnswer, post
from workers.webhooks.lanes import CAP, CAP_TEST, DueDelivery, Result, store_landed, tend_lanes

FLIGHTS_MAX = 1_000
FLIGHTS_TEST_MAX = 300
"""Of all: what sandbox lanes may take together, however many of them hang."""
LANES_MAX = 128
FINISH_S = 12.0
LOSSES_MAX = 5
"""Workers that may die of a delivery before it is set aside for a person to look at."""

_YOUNG_S = 0.05
_AT_RISK_MAX = 40
"""Requests begun in the last 50 ms, and answers not written down yet. Thousands a second are no more than this at once,
and receivers that take longer do not count. More would only wait for each other in here, and be sent twice if this
process died."""
_BUSY = FLIGHTS_MAX // 2
_ROOM_WHEN_BUSY = 2
_RESULTS_MAX = 200
_RELEASE_MAX = 500
_STORE_TRIES = 12
_PAGES_MAX = 1_000
_ALARM_S_MAX = 60.0
_ALARMS_PER_S = 20
# One row can be at fault here (its endpoint was deleted meanwhile), so its neighbours are written without it.
_ONE_BAD = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError)

_BEFORE_ALL = (UUID(int=0), Mode.PRODUCTION)

_log = structlog.get_logger()
_delivered = Metric("webhook_deliveries", "Webhook attempts by outcome.", ["outcome", "mode"])
_duration = Histogram("webhook_delivery_duration_seconds", "How long receivers took.", ["mode"])


class _Taken(Struct, frozen=True):
    """A lane that has something due. `room`: requests at once; `probe`: it is not open, and one is sent in `turn`."""

    endpoint_id: UUID
    test: bool
    probe: bool
    turn: int
    room: int
    ours: bool

    @property
    def key(self) -> LaneKey:
        return self.endpoint_id, Mode.of(self.test)


class _Freed(Struct, frozen=True):
    delivery_id: UUID
    attempt: int
    state: str


take_lanes = sql.many("webhook_delivery.take_lanes", _Taken)
claim = sql.many("webhook_delivery.claim", DueDelivery)
release = sql.many("webhook_delivery.release", _Freed)


class WebhookDispatcher:
    """The deliveries of one worker process. `wake` is called when there may be something to claim again.

    `lease_s` unless given is the installation's; `chance` draws from [0, 1).
    """

    def __init__(
        self,
        context: Context,
        http: aiohttp.ClientSession,
        *,
        wake: Callable[[], None],
        lease_s: float | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._context = context
        self._http = http
        self._wake = wake
        self._lease = timedelta(seconds=context.settings.webhook_lease_s if lease_s is None else lease_s)
        self._chance = chance
        self._after: LaneKey = _BEFORE_ALL
        self._flights: set[asyncio.Task[None]] = set()
        self._flying: Counter[LaneKey] = Counter()
        self._flying_test = 0
        self._at_risk: set[UUID] = set()
        # Lanes that may have more than they had room for, and with how many in flight to look at them again: a claim
        # for each landed request would cost more than the request.
        self._crowded: dict[LaneKey, int] = {}
        self._short = False  # somebody was given less than his lane had room for
        self._alarms: set[int] = set()
        self._stopping = False
        self._claiming = asyncio.Lock()
        self._store = Batcher(self._store_batch, lanes=2, batch_max=_RESULTS_MAX, alone_again=_ONE_BAD)

    async def drain(self) -> int:
        """Claim one round of what is due and let it fly; answers how many. 0: nothing due, or no room."""
        async with self._claiming:
            return await self._claim_round()

    async def _claim_round(self) -> int:
        whole = self._after == _BEFORE_ALL  # of a walk that began in the middle, the first part is still to be seen
        for _ in range(_PAGES_MAX):
            if self._stopping:
                return 0
            if self._places() <= 0:
                self._short = True
                return 0
            claimed = await self._claim_page(self._context.now())
            if claimed or (whole and self._after == _BEFORE_ALL):
                return claimed
            whole = whole or self._after == _BEFORE_ALL
        return 0

    async def _claim_page(self, now: datetime) -> int:
        """Claim from the next lanes; answers how many. `_after` is back at the start when all had their turn."""
        leased_until = now + self._lease
        lanes_max = min(LANES_MAX, self._places())
        async with transaction(self._context.pool) as conn:
            lanes = await take_lanes(
                conn,
                after_endpoint=self._after[0],
                after_test=self._after[1].test,
                now=now,
                cap=CAP,
                cap_test=CAP_TEST,
                limit=lanes_max,
            )
            claim_max = self._share([lane for lane in lanes if lane.ours])
            ours = [lane for lane in lanes if lane.key in claim_max]
            claimed = (
                await claim(
                    conn,
                    endpoint_ids=[lane.endpoint_id for lane in ours],
                    tests=[lane.test for lane in ours],
                    probes=[lane.probe for lane in ours],
                    turns=[lane.turn for lane in ours],
                    rooms=[lane.room for lane in ours],
                    claim_maxes=[claim_max[lane.key] for lane in ours],
                    now=now,
                    lease_until=leased_until,
                )
                if ours
                else []
            )
        full = len(lanes) == lanes_max
        self._after = lanes[-1].key if full else _BEFORE_ALL
        found = Counter(due.lane for due in claimed)
        for lane in lanes:
            key = lane.key
            room, limit = lane.room - self._flying[key], claim_max.get(key, 0)
            if not lane.ours or found[key] < min(room, limit):
                continue  # another worker has it, or it is empty
            # It gave all it might and may have more: it is looked at again when there is room, or a place.
            if room <= limit:
                self._crowded[key] = lane.room * 3 // 4
            else:
                self._short = True
        for due in claimed:
            self._fly(due, leased_until)
        return len(claimed)

    async def release(self) -> int:
        """Give back what dead workers held; answers how many."""
        async with session(self._context.pool) as conn:
            freed = await release(
                conn, now=self._context.now(), limit=_RELEASE_MAX, losses_max=LOSSES_MAX, lease=self._lease
            )
        for each in freed:
            stuck = each.state == "stuck"
            (_log.error if stuck else _log.warning)(
                "delivery_stuck" if stuck else "delivery_lost_its_worker",
                delivery_id=each.delivery_id,
                attempt=each.attempt,
            )
        if freed:
            self._wake()
        return len(freed)

    async def tend(self) -> int:
        """One round for lanes that are or were paused; answers how many deliveries it made ready."""
        ready = await tend_lanes(self._context.pool, self._context.settings, now=self._context.now())
        if ready:
            self._wake()
        # Always at rest afterwards: what a lane has held goes out slowly, a portion at each interval.
        return 0

    async def stop(self, timeout_s: float = FINISH_S) -> None:
        """Claim no more and let what flies land, at most `timeout_s`; the lease covers the rest."""
        self._stopping = True
        try:
            async with asyncio.timeout(timeout_s):
                async with self._claiming:
                    pass  # what a round has claimed at this moment flies by now
                while self._flights:
                    await asyncio.wait(set(self._flights))
        except TimeoutError:
            late = set(self._flights)
            for task in late:
                task.cancel()
            if late:
                _log.warning("deliveries_left_behind", count=len(late))
                await asyncio.wait(late, timeout=1.0)

    def _places(self) -> int:
        return min(FLIGHTS_MAX - len(self._flights), _AT_RISK_MAX - len(self._at_risk))

    def _share(self, lanes: Sequence[_Taken]) -> dict[LaneKey, int]:
        """How many each lane may begin now, for the sake of the others: places in this process are for all.

        When the house is nearly full each gets one in turn; the second half of the places is for lanes that
        have hardly any, so that however many receivers hang, whoever answers is still served.
        """
        left = self._places()
        left_test = FLIGHTS_TEST_MAX - self._flying_test
        busy = len(self._flights) >= _BUSY
        each = max(1, left // len(lanes)) if lanes else 0
        claim_max: dict[LaneKey, int] = {}
        for lane in lanes:
            key = lane.key
            limit = min(lane.room, each, left, left_test) if lane.test else min(lane.room, each, left)
            if busy:
                limit = min(limit, _ROOM_WHEN_BUSY - self._flying[key])
            if limit > 0:
                claim_max[key] = limit
                left -= limit
                left_test -= limit * lane.test
        return claim_max

    def _fly(self, due: DueDelivery, leased_until: datetime) -> None:
        self._flying[due.lane] += 1
        self._flying_test += due.test
        self._at_risk.add(due.delivery_id)
        task = asyncio.create_task(self._deliver(due, leased_until))
        self._flights.add(task)
        task.add_done_callback(self._flights.discard)

    async def _deliver(self, due: DueDelivery, leased_until: datetime) -> None:
        aging = asyncio.get_running_loop().call_later(_YOUNG_S, self._safe, due.delivery_id)
        try:
            started_at = self._context.now()
            if started_at >= leased_until:
                return  # this process stood still, and somebody else sends it by now
            clock = asyncio.get_running_loop().time
            began = clock()
            answer = await self._send(due, started_at)
            duration_s = clock() - began
            aging.cancel()
            self._at_risk.add(due.delivery_id)
            mode = "test" if due.test else "production"
            _delivered.labels(answer.outcome, mode).inc()
            _duration.labels(mode).observe(duration_s)
            await self._store.submit(Result(due, answer, started_at, round(duration_s * 1000), self._chance()))
        except Exception:
            # Ours, not the receiver's: nothing is written, the lease gives it back.
            _log.exception("delivery_failed_here", delivery_id=due.delivery_id, attempt=due.attempt)
        finally:
            aging.cancel()
            self._safe(due.delivery_id)
            self._landed(due.lane)

    def _safe(self, delivery_id: UUID) -> None:
        self._at_risk.discard(delivery_id)
        self._ring_if_short()

    def _ring_if_short(self) -> None:
        # Half of the places at least: a claim costs the same for one as for many.
        if self._short and len(self._at_risk) <= _AT_RISK_MAX // 2:
            self._short = False
            asyncio.get_running_loop().call_soon(self._wake)  # a turn later, when a landed flight has left its set

    def _landed(self, lane: LaneKey) -> None:
        self._flying_test -= lane[1].test
        self._flying[lane] -= 1
        if self._flying[lane] <= self._crowded.get(lane, -1):
            del self._crowded[lane]
            asyncio.get_running_loop().call_soon(self._wake)
        if not self._flying[lane]:
            del self._flying[lane]
        self._ring_if_short()

    async def _send(self, due: DueDelivery, now: datetime) -> ReceiverAnswer:
        context = self._context
        if not context.settings.webhook_allow_private and not due.url.startswith("https://"):
            return ReceiverAnswer("blocked_address")
        overlaps = due.previous_until is not None and now < due.previous_until
        previous = due.previous_secret_sealed if overlaps else None
        headers = delivery_headers(
            event=due.type,
            event_id=due.event_id,
            delivery_id=due.delivery_id,
            attempt=due.attempt,
            timestamp=int(now.timestamp()),
            body=due.body,
            secret=context.seal.open(due.secret_sealed).decode(),
            previous_secret=None if previous is None else context.seal.open(previous).decode(),
        )
        return await post(self._http, due.url, due.body, headers)

    async def _store_batch(self, results: Sequence[Result]) -> list[None]:
        """Write them down, with patience for a restart of PostgreSQL: the requests have been made."""
        for wait_s in (*[min(0.05 * 2**n, 2.0) for n in range(_STORE_TRIES)], None):
            try:
                now = self._context.now()
                fates, open_again = await store_landed(self._context.pool, self._context.settings, results, now=now)
                break
            except (*DB_UNAVAILABLE, asyncpg.DeadlockDetectedError):
                if wait_s is None:
                    raise
                await asyncio.sleep(wait_s)
        for result, fate in zip(results, fates, strict=True):
            if fate.state == "exhausted":
                _log.warning("delivery_exhausted", delivery_id=result.due.delivery_id, test=result.due.test)
            elif fate.state == "pending":
                self._wake_at(fate.due_at, now)
        for at in open_again:
            self._wake_at(at, now)
        return [None] * len(results)

    def _wake_at(self, at: datetime, now: datetime) -> None:
        """Look when this becomes due, if that is soon; the duty's interval and other workers cover the rest."""
        delay_s = (at - now).total_seconds()
        if delay_s > _ALARM_S_MAX:
            return
        loop = asyncio.get_running_loop()
        # Rounded up to a twentieth of a second, so that there are few however much fails.
        moment = math.ceil((loop.time() + max(0.0, delay_s)) * _ALARMS_PER_S) + 1
        if moment not in self._alarms:
            self._alarms.add(moment)
            loop.call_at(moment / _ALARMS_PER_S, self._ring, moment)

    def _ring(self, moment: int) -> None:
        self._alarms.discard(moment)
        self._wake()
