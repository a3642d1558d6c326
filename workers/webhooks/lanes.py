"""Lanes at work: fold what attempts came to into them, and tend those that are paused or were.

A batch of finished attempts is written in one transaction: the lanes that change, the deliveries, the
attempts and the notices. What is decided of a lane is decided in domain/webhooks/breaker.py.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from msgspec import Struct

import sql
from commands.webhooks.lanes import LaneKey, lock_lanes, store_lanes
from commands.webhooks.notices import NewNotice, give_notice
from domain.instants import iso
from domain.mode import Mode
from domain.webhooks.breaker import AttemptResult, Lane, LaneState, Rules, Transition, on_result
from domain.webhooks.retry import next_delay_s, retry_after_s
from runtime.ids import new_id
from runtime.postgres import Pool, session, transaction
from runtime.settings import Settings
from sql import Connection
from workers.webhooks.attempt import ReceiverAnswer

CAP = 10
CAP_TEST = 5

_PROBE_S_MAX = 60.0
"""Between two probes of a broken lane: merchants wait for payments, and a request a minute costs nobody anything."""
_LANES_MAX = 100
_MOVED_MAX = 500
"""Rows moved in one lane and round: a lane sends far fewer in the second until the next."""
_FORGOTTEN_MAX = 1_000

_log = structlog.get_logger()


class DueDelivery(Struct, frozen=True):
    """A claimed delivery, with all that is needed to send it."""

    delivery_id: UUID
    endpoint_id: UUID
    test: bool
    event_id: UUID
    type: str
    step: int
    attempt: int
    due_at: datetime
    probe: bool
    url: str
    secret_sealed: bytes
    previous_secret_sealed: bytes | None
    previous_until: datetime | None
    body: bytes

    @property
    def lane(self) -> LaneKey:
        return self.endpoint_id, Mode.of(self.test)


class Result(NamedTuple):
    """An attempt that ended. `chance` in [0, 1) spreads the next one."""

    due: DueDelivery
    answer: ReceiverAnswer
    started_at: datetime
    duration_ms: int
    chance: float


class DeliveryOutcome(NamedTuple):
    """What becomes of a delivery after an attempt."""

    state: str
    step: int
    due_at: datetime


class _Notified(Struct, frozen=True):
    endpoint_id: UUID
    account_id: UUID
    url: str


class _Active(Struct, frozen=True):
    endpoint_id: UUID
    test: bool


class _Moved(Struct, frozen=True):
    delivery_id: UUID


relax = sql.run("webhook_delivery.relax")
store_results = sql.run("webhook_delivery.store_results")
store_delivered = sql.many("webhook_delivery.store_delivered", _Active)
told_of = sql.many("webhook_lane.told_of", _Notified)
hold = sql.many("webhook_lane.hold", _Moved)
release_held = sql.many("webhook_lane.release", _Moved)
probe = sql.many("webhook_lane.probe", _Moved)
forget_held = sql.many("webhook_lane.forget_held", _Moved)


def rules_of(settings: Settings, mode: Mode) -> Rules:
    """The first probe comes when the first retry would."""
    delays_s = settings.webhook_delays_s
    return Rules(
        cap=CAP_TEST if mode.test else CAP,
        probe_s_min=min(delays_s[0], _PROBE_S_MAX),
        probe_s_max=min(max(delays_s), _PROBE_S_MAX),
        pause_after_s=settings.webhook_pause_after_s,
        paused_probe_s=settings.webhook_paused_probe_s,
    )


async def store_landed(
    pool: Pool, settings: Settings, results: Sequence[Result], *, now: datetime
) -> tuple[list[DeliveryOutcome], list[datetime]]:
    """Write a batch down. Answers what became of each delivery, and when lanes it blocked may be asked again."""
    by_lane: dict[LaneKey, list[int]] = defaultdict(list)
    for at, each in enumerate(results):
        by_lane[each.due.lane].append(at)
    if all(each.answer.outcome == "delivered" for each in results):
        astir = await _store_delivered(pool, results, by_lane.keys(), now=now)
        if astir:
            async with transaction(pool) as conn:
                await relax(conn)
                await _fold(conn, settings, results, {key: by_lane[key] for key in astir}, now=now)
        return [DeliveryOutcome("delivered", each.due.step + 1, now) for each in results], []
    async with transaction(pool) as conn:
        await relax(conn)
        fates, blocked_untils = await _fold(conn, settings, results, by_lane, now=now)
        written = [fates[at] for at in range(len(results))]
        await _store_results(conn, results, written, now=now)
    return written, blocked_untils


async def _fold(
    conn: Connection,
    settings: Settings,
    results: Sequence[Result],
    by_lane: dict[LaneKey, list[int]],
    *,
    now: datetime,
) -> tuple[dict[int, DeliveryOutcome], list[datetime]]:
    """Fold the results at these places into their lanes, write those that change, and tell of what is to be told."""
    rows = await lock_lanes(
        conn,
        endpoint_ids=[endpoint_id for endpoint_id, _ in by_lane],
        tests=[mode.test for _, mode in by_lane],
        failed=[any(results[at].answer.outcome != "delivered" for at in by_lane[key]) for key in by_lane],
        caps=[_cap(key) for key in by_lane],
    )
    before = {row.key: row.lane() for row in rows}
    after: dict[LaneKey, Lane] = {}
    fates: dict[int, DeliveryOutcome] = {}
    turns: list[tuple[LaneKey, Transition, Result, Lane]] = []
    for key, places in by_lane.items():
        # Without a row the lane is healthy, or its endpoint is gone.
        lane = before.get(key, Lane())
        rules = rules_of(settings, key[1])
        for at in places:
            result = results[at]
            wish_s = retry_after_s(result.answer.retry_after, now=now)
            lane, told = on_result(lane, _attempt_result(result, wish_s), rules, now=now)
            turns += [(key, turn, result, lane) for turn in told if key in before]
            fates[at] = _fate(result, lane, settings, wish_s=wish_s, now=now)
        if key in before and lane != before[key]:
            after[key] = lane
    await store_lanes(conn, after)
    if turns:
        await _give_notice(conn, turns, before, now=now)
    for key, lane in after.items():
        if lane.state is not before[key].state:
            _log.warning("webhook_lane_changed", endpoint_id=key[0], test=key[1].test, state=lane.state.value)
    return fates, [lane.blocked_until for lane in after.values() if lane.blocked_until is not None]


async def _store_delivered(
    pool: Pool, results: Sequence[Result], lanes: Collection[LaneKey], *, now: datetime
) -> list[LaneKey]:
    """Write successes down; answers which of these lanes they change."""
    async with session(pool) as conn:
        rows = await store_delivered(
            conn,
            delivery_ids=[each.due.delivery_id for each in results],
            attempts=[each.due.attempt for each in results],
            steps=[each.due.step + 1 for each in results],
            started_ats=[each.started_at for each in results],
            durations_ms=[each.duration_ms for each in results],
            statuses=[each.answer.status for each in results],
            answers=[each.answer.kept for each in results],
            endpoint_ids=[endpoint_id for endpoint_id, _ in lanes],
            tests=[mode.test for _, mode in lanes],
            caps=[_cap(key) for key in lanes],
            now=now,
        )
    return [(row.endpoint_id, Mode.of(row.test)) for row in rows]


def _cap(key: LaneKey) -> int:
    return CAP_TEST if key[1].test else CAP


def _attempt_result(result: Result, wish_s: float | None) -> AttemptResult:
    return AttemptResult(
        delivery_id=result.due.delivery_id,
        outcome=result.answer.outcome,
        status=result.answer.status,
        probe=result.due.probe,
        wish_s=wish_s,
    )


def _fate(result: Result, lane: Lane, settings: Settings, *, wish_s: float | None, now: datetime) -> DeliveryOutcome:
    """Where the delivery goes after this attempt; `lane` is as the attempt left it."""
    due = result.due
    if result.answer.outcome == "delivered":
        return DeliveryOutcome("delivered", due.step + 1, now)
    if lane.state is LaneState.PAUSED:
        # Also what was just tried for the last time: it may go out when the lane is well again.
        return DeliveryOutcome("held", due.step, due.due_at)
    step = due.step + 1
    delay_s = next_delay_s(
        settings.webhook_delays_s,
        step,
        jitter=settings.webhook_jitter,
        chance=result.chance,
        retry_after_s=wish_s,
    )
    if delay_s is None:
        return DeliveryOutcome("exhausted", step, now)
    return DeliveryOutcome("pending", step, now + timedelta(seconds=delay_s))


async def _store_results(
    conn: Connection, results: Sequence[Result], fates: Sequence[DeliveryOutcome], *, now: datetime
) -> None:
    await store_results(
        conn,
        delivery_ids=[each.due.delivery_id for each in results],
        attempts=[each.due.attempt for each in results],
        states=[fate.state for fate in fates],
        steps=[fate.step for fate in fates],
        due_ats=[fate.due_at for fate in fates],
        started_ats=[each.started_at for each in results],
        durations_ms=[each.duration_ms for each in results],
        statuses=[each.answer.status for each in results],
        outcomes=[each.answer.outcome for each in results],
        answers=[each.answer.kept for each in results],
        now=now,
    )


async def _give_notice(
    conn: Connection,
    turns: list[tuple[LaneKey, Transition, Result, Lane]],
    before: dict[LaneKey, Lane],
    *,
    now: datetime,
) -> None:
    endpoints = {
        each.endpoint_id: each for each in await told_of(conn, endpoint_ids=list({key[0] for key, *_ in turns}))
    }
    await give_notice(
        conn,
        [
            NewNotice(
                notice_id=new_id(),
                account_id=endpoints[key[0]].account_id,
                test=key[1].test,
                kind=turn.value,
                event_type=result.due.type,
                endpoint_id=key[0],
                facts=_facts(turn, result, lane, before[key], endpoints[key[0]].url),
            )
            for key, turn, result, lane in turns
            if key[0] in endpoints
        ],
        now=now,
    )


def _facts(turn: Transition, result: Result, lane: Lane, before: Lane, url: str) -> dict[str, Any]:
    """What the reader needs to act: where, since when, and what the last answer was."""
    since = lane.failing_since or before.failing_since
    facts: dict[str, Any] = {"url": url, "failing_since": None if since is None else iso(since)}
    if turn is not Transition.RECOVERED:
        facts |= {"failures": lane.failures, "outcome": result.answer.outcome, "status": result.answer.status}
    if turn is Transition.PAUSED:
        facts["reason"] = lane.paused_reason
    return facts


async def tend_lanes(pool: Pool, settings: Settings, *, now: datetime) -> int:
    """One round for lanes that are or were paused: hold, release, probe, and forget what was held too long.

    Answers how many deliveries it made ready to be sent. What it could not do now it does in the next round.
    """
    async with session(pool) as conn:
        await hold(conn, now=now, lanes_max=_LANES_MAX, limit=_MOVED_MAX)
        probes = await probe(
            conn,
            now=now,
            next_at=now + timedelta(seconds=settings.webhook_paused_probe_s),
            lanes_max=_LANES_MAX,
        )
        released = await release_held(conn, lanes_max=_LANES_MAX, limit=_MOVED_MAX)
        forgotten = await forget_held(
            conn, before=now - timedelta(seconds=settings.webhook_held_s), limit=_FORGOTTEN_MAX
        )
    if forgotten:
        _log.warning("deliveries_held_too_long", count=len(forgotten))
    return len(probes) + len(released)
