"""Tell merchants what happened: claim what is due, sign it, send it, write down how it went.

A lane is an endpoint in one mode. Lanes wait for nobody: at most ten requests are in flight to each
(five for sandbox), a lane nobody knows yet begins with two, and one that does not answer falls back
to one. Requests fly as tasks across the rounds of the duty, which itself only claims and returns.

A delivery is at least once. What protects it is the lease in PostgreSQL: a worker that dies leaves
rows that `release` finds, and nothing else needs to be cleaned up.
"""

import asyncio
import random
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import aiohttp
import asyncpg
import structlog
from msgspec import Struct
from prometheus_client import Counter as Metric
from prometheus_client import Histogram

import sql
from domain.schedule import next_delay_s, retry_after_s
from domain.signature import delivery_headers
from runtime.batching import Batcher
from runtime.postgres import GONE, session, transaction
from workers.context import Context
from workers.guarded_connection import BlockedAddress, Trace

CAP = 10
CAP_TEST = 5
LEASE_S = 30.0
"""Longer than a whole attempt and the writing of its result, so nobody needs to renew it."""
FLIGHTS_MOST = 500
LANES_MOST = 128
FINISH_S = 12.0
LOSSES_MOST = 5
"""Workers that may die of a delivery before it is set aside for a person to look at."""

_FIRST_ROOM = 2
_RESULTS_MOST = 200
_RELEASE_MOST = 500
_READ_BYTES = 16 * 1024
_KEEP_BYTES = 1024
_READ_S = 2.0
_STALE_S = 1.0
_STORE_TRIES = 12
_LANES_KNOWN = 10_000
_PAGES_MOST = 1_000
# One row can be at fault here (its endpoint was deleted meanwhile), so its neighbours are written without it.
_ONE_BAD = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError)

_BEFORE_ALL = (UUID(int=0), False)

_log = structlog.get_logger()
_delivered = Metric("webhook_deliveries", "Webhook attempts by outcome.", ["outcome", "mode"])
_duration = Histogram("webhook_delivery_duration_seconds", "How long receivers took.", ["mode"])

Lane = tuple[UUID, bool]


class _Taken(Struct, frozen=True):
    endpoint_id: UUID
    test: bool
    ours: bool


class Due(Struct, frozen=True):
    """A claimed delivery, with all that is needed to send it."""

    delivery_id: UUID
    endpoint_id: UUID
    test: bool
    event_id: UUID
    type: str
    step: int
    attempt: int
    url: str
    secret_sealed: bytes
    previous_secret_sealed: bytes | None
    previous_until: datetime | None
    body: bytes


class _Freed(Struct, frozen=True):
    delivery_id: UUID
    attempt: int
    state: str


class Answer(NamedTuple):
    """What the receiver did. `outcome` is of webhook_attempt's words; without an answer `status` is None."""

    outcome: str
    status: int | None = None
    kept: bytes | None = None
    retry_after: str | None = None


class Result(NamedTuple):
    due: Due
    answer: Answer
    state: str
    due_at: datetime
    started_at: datetime
    duration_ms: int


take_lanes = sql.many("webhook_delivery.take_lanes", _Taken)
claim = sql.many("webhook_delivery.claim", Due)
store_results = sql.run("webhook_delivery.store_results")
release = sql.many("webhook_delivery.release", _Freed)


class Courier:
    """The deliveries of one worker process. `wake` is called when a lane that was full has room again."""

    def __init__(
        self,
        context: Context,
        http: aiohttp.ClientSession,
        *,
        wake: Callable[[], None],
        lease_s: float = LEASE_S,
    ) -> None:
        self._context = context
        self._http = http
        self._wake = wake
        self._lease = timedelta(seconds=lease_s)
        self._after: Lane = _BEFORE_ALL
        self._flights: set[asyncio.Task[None]] = set()
        self._flying: Counter[Lane] = Counter()
        self._room: dict[Lane, int] = {}  # learned: how many at once a lane has shown to bear
        self._crowded: set[Lane] = set()  # lanes that may have more than they had room for
        self._stopping = False
        self._store = Batcher(self._store_batch, lanes=2, most=_RESULTS_MOST, alone_again=_ONE_BAD)

    async def drain(self) -> int:
        """Claim one round of what is due and let it fly; answers how many. 0: nothing due, or no room."""
        if self._stopping or len(self._flights) >= FLIGHTS_MOST:
            return 0
        for _ in range(_PAGES_MOST):
            claimed = await self._claim_page(self._context.now())
            if claimed or self._after == _BEFORE_ALL:
                return claimed
        return 0

    async def _claim_page(self, now: datetime) -> int:
        """Claim from the next lanes; answers how many. `_after` is back at the start when all had one."""
        async with transaction(self._context.pool) as conn:
            lanes = await take_lanes(
                conn,
                after_endpoint=self._after[0],
                after_test=self._after[1],
                now=now,
                cap=CAP,
                cap_test=CAP_TEST,
                most=LANES_MOST,
            )
            rooms = self._rooms([(lane.endpoint_id, lane.test) for lane in lanes if lane.ours])
            claimed = (
                await claim(
                    conn,
                    endpoint_ids=[lane[0] for lane in rooms],
                    tests=[lane[1] for lane in rooms],
                    rooms=list(rooms.values()),
                    cap=CAP,
                    cap_test=CAP_TEST,
                    now=now,
                    lease_until=now + self._lease,
                )
                if rooms
                else []
            )
        full = len(lanes) == LANES_MOST
        self._after = (lanes[-1].endpoint_id, lanes[-1].test) if full else _BEFORE_ALL
        for due in claimed:
            self._fly(due)
        found = Counter((due.endpoint_id, due.test) for due in claimed)
        # Fewer than there was room for: the lane is empty. As many: it may have more, and is looked at again.
        self._crowded.update(lane for lane in found if found[lane] >= rooms[lane])
        return len(claimed)

    async def release(self) -> int:
        """Give back what dead workers held; answers how many."""
        async with session(self._context.pool) as conn:
            freed = await release(
                conn, now=self._context.now(), most=_RELEASE_MOST, losses_most=LOSSES_MOST, lease=self._lease
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

    async def stop(self, most_s: float = FINISH_S) -> None:
        """Claim no more and let what flies land, at most `most_s`; the lease covers the rest."""
        self._stopping = True
        if self._flights:
            _, late = await asyncio.wait(set(self._flights), timeout=most_s)
            for task in late:
                task.cancel()
            if late:
                _log.warning("deliveries_left_behind", count=len(late))
                await asyncio.wait(late, timeout=1.0)

    def _rooms(self, lanes: list[Lane]) -> dict[Lane, int]:
        """How many each lane may begin now. When the house is nearly full, each gets one in turn."""
        left = FLIGHTS_MOST - len(self._flights)
        rooms: dict[Lane, int] = {}
        for lane in lanes:
            room = self._room.get(lane, _FIRST_ROOM) - self._flying[lane]
            room = min(room, max(1, left // len(lanes)), left)
            if room > 0:
                rooms[lane] = room
                left -= room
            else:
                self._crowded.add(lane)
        return rooms

    def _fly(self, due: Due) -> None:
        self._flying[due.endpoint_id, due.test] += 1
        task = asyncio.create_task(self._deliver(due))
        self._flights.add(task)
        task.add_done_callback(self._flights.discard)

    async def _deliver(self, due: Due) -> None:
        lane = (due.endpoint_id, due.test)
        try:
            context = self._context
            started_at = context.now()
            clock = asyncio.get_running_loop().time
            began = clock()
            answer = await self._send(due, started_at)
            duration_s = clock() - began
            self._learn(lane, answer)
            mode = "test" if due.test else "production"
            _delivered.labels(answer.outcome, mode).inc()
            _duration.labels(mode).observe(duration_s)
            state, due_at = self._next(due, answer, context.now())
            await self._store.submit(Result(due, answer, state, due_at, started_at, round(duration_s * 1000)))
        except Exception:
            # Ours, not the receiver's: nothing is written, the lease gives it back.
            _log.exception("delivery_failed_here", delivery_id=due.delivery_id, attempt=due.attempt)
        finally:
            self._landed(lane)

    def _landed(self, lane: Lane) -> None:
        was_full = len(self._flights) >= FLIGHTS_MOST
        self._flying[lane] -= 1
        if not self._flying[lane]:
            del self._flying[lane]
        if lane in self._crowded or was_full:
            self._crowded.discard(lane)
            # A turn later, when this flight has left the set as well.
            asyncio.get_running_loop().call_soon(self._wake)

    def _learn(self, lane: Lane, answer: Answer) -> None:
        if len(self._room) > _LANES_KNOWN:
            self._room.clear()
        if answer.outcome == "delivered":
            self._room[lane] = min(CAP, self._room.get(lane, _FIRST_ROOM) * 2)
        elif answer.outcome in ("timeout", "dns_error"):
            self._room[lane] = 1

    def _next(self, due: Due, answer: Answer, now: datetime) -> tuple[str, datetime]:
        if answer.outcome == "delivered":
            return "delivered", now
        settings = self._context.settings
        delay_s = next_delay_s(
            settings.webhook_delays_s,
            due.step + 1,
            jitter=settings.webhook_jitter,
            chance=random.random(),  # noqa: S311  spreads load, guards nothing
            retry_after_s=retry_after_s(answer.retry_after, now=now),
        )
        if delay_s is None:
            _log.warning("delivery_exhausted", delivery_id=due.delivery_id, test=due.test, outcome=answer.outcome)
            return "exhausted", now
        return "pending", now + timedelta(seconds=delay_s)

    async def _send(self, due: Due, now: datetime) -> Answer:
        context = self._context
        if not context.settings.webhook_allow_private and not due.url.startswith("https://"):
            return Answer("blocked_address")
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
                async with session(self._context.pool) as conn:
                    await store_results(
                        conn,
                        delivery_ids=[each.due.delivery_id for each in results],
                        attempts=[each.due.attempt for each in results],
                        states=[each.state for each in results],
                        steps=[each.due.step + 1 for each in results],
                        due_ats=[each.due_at for each in results],
                        started_ats=[each.started_at for each in results],
                        durations_ms=[each.duration_ms for each in results],
                        statuses=[each.answer.status for each in results],
                        outcomes=[each.answer.outcome for each in results],
                        answers=[each.answer.kept for each in results],
                        now=self._context.now(),
                    )
                return [None] * len(results)
            except GONE:
                if wait_s is None:
                    raise
                await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")


async def post(http: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str]) -> Answer:
    """One attempt, ten seconds at most (the session's timeout). Nothing a receiver does is raised."""
    clock = asyncio.get_running_loop().time
    began = clock()
    trace = Trace()
    try:
        try:
            return await _request(http, url, body, headers, trace)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            # A connection kept from before that the receiver closed just now: not his failure.
            if not trace.reused or clock() - began > _STALE_S:
                raise
            return await _request(http, url, body, headers, Trace())
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Answer(_outcome(error))


async def _request(http: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str], trace: Trace) -> Answer:
    response = await http.post(url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=trace)
    # The status is the answer. What becomes of the body, and of the time it takes, changes nothing any more.
    try:
        kept = await _read(response)
    finally:
        # A connection with something left to read is dropped, not drained.
        if response.content.at_eof():
            response.release()
        else:
            response.close()
    return Answer(
        "delivered" if 200 <= response.status <= 299 else "rejected",
        response.status,
        kept,
        response.headers.get("Retry-After"),
    )


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The first KiB of the answer, without NUL and as valid UTF-8, for the merchant to look at."""
    kept = bytearray()
    read = 0
    try:
        async with asyncio.timeout(_READ_S):
            while read < _READ_BYTES and not response.content.at_eof():
                chunk = await response.content.read(_READ_BYTES - read)
                read += len(chunk)
                kept += chunk[: _KEEP_BYTES - len(kept)]
    except (aiohttp.ClientError, OSError, ValueError):
        pass
    return bytes(kept).replace(b"\0", b"").decode("utf-8", "replace").encode()[:_KEEP_BYTES]


def _outcome(error: BaseException) -> str:
    """What went wrong, in words a merchant can act on."""
    causes: list[BaseException] = [error]
    while len(causes) < 5 and (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    for kinds, outcome in _OUTCOMES:
        if any(isinstance(cause, kinds) for cause in causes):
            return outcome
    return "network_error"


_OUTCOMES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    (BlockedAddress, "blocked_address"),  # before the kinds of connection error that wrap it
    (aiohttp.ClientConnectorDNSError, "dns_error"),
    ((aiohttp.ClientSSLError, ssl.SSLError), "tls_error"),
    (TimeoutError, "timeout"),
    (ConnectionRefusedError, "connection_refused"),
    ((ConnectionError, aiohttp.ServerDisconnectedError), "connection_reset"),
)
