"""Store finished attempts, fold them into their lanes, and tend lanes that are or were paused.

A batch of finished attempts is written in one transaction: the lanes that change, the deliveries, the
attempts and the notices. domain/webhooks/breaker.py decides what becomes of a lane.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from msgspec import Struct

import sql
from commands.webhooks.address import host_of
from commands.webhooks.lanes import LaneKey, lock_lanes, store_lanes
from commands.webhooks.notices import NewNotice, give_notice
from domain.instants import iso
from domain.mode import Mode
from domain.webhooks.breaker import AttemptResult, Lane, LaneState, Rules, Transition, on_result
from domain.webhooks.retry import next_delay_s, retry_after_s
from runtime.ids import new_id
from runtime.postgres import Pool, session, transaction
from runtime.seal import WEBHOOK_SECRET, Seal
from runtime.settings import Settings
from sql import Connection
from workers.webhooks.attempt import ReceiverAnswer

_PROBE_S_MAX = 60.0
"""The longest wait between probes of a broken lane: merchants wait for payments, and a request a minute is no load."""
_LANES_MAX = 100
_MOVED_MAX = 500
"""Rows moved in one lane and round: a lane sends far fewer in the second until the next round."""
_FORGOTTEN_MAX = 1_000
_LATE = timedelta(minutes=2)
"""Longer than any transaction that writes a delivery: PostgreSQL ends its statements and its idle time sooner."""

_log = structlog.get_logger()


class DueDelivery(Struct, frozen=True):
    """A claimed delivery, with all that is needed to send it."""

    delivery_id: UUID
    endpoint_id: UUID
    account_id: UUID
    test: bool
    event_id: UUID
    type: str
    step: int
    attempt: int
    due_at: datetime
    probe: bool
    url: str
    secret_sealed: bytes
    old_secrets_sealed: list[bytes]
    body: bytes
    request_id: str | None
    """The id of the request that caused the event; None when a bank or a worker caused it."""

    @property
    def lane(self) -> LaneKey:
        return LaneKey(self.endpoint_id, Mode.of(self.test))

    def secret(self, sealed: bytes, seal: Seal) -> str:
        return seal.open(sealed, WEBHOOK_SECRET, self.account_id).decode()


class FinishedAttempt(NamedTuple):
    """`chance` in [0, 1) spreads the next attempt."""

    due: DueDelivery
    answer: ReceiverAnswer
    started_at: datetime
    duration_ms: int
    chance: float


class DeliveryOutcome(NamedTuple):
    """The delivery's state after an attempt."""

    state: str
    step: int
    due_at: datetime


class _NotifiedEndpoint(Struct, frozen=True):
    endpoint_id: UUID
    account_id: UUID
    url: str


class _UnhealthyLane(Struct, frozen=True):
    endpoint_id: UUID
    test: bool


class _Transition(NamedTuple):
    """A change of a lane that its merchant is notified of, the attempt that made it, and the lane afterwards."""

    key: LaneKey
    kind: Transition
    attempt: FinishedAttempt
    lane: Lane


relax = sql.run("webhook_delivery.relax")
store_results = sql.many("webhook_delivery.store_results", _UnhealthyLane)
find_endpoints = sql.many("webhook_lane.endpoints", _NotifiedEndpoint)
hold = sql.count("webhook_lane.hold")
release_held = sql.count("webhook_lane.release")
end_release = sql.run("webhook_lane.end_release")
probe = sql.count("webhook_lane.probe")
forget_held = sql.count("webhook_lane.forget_held")


def rules_of(settings: Settings, mode: Mode) -> Rules:
    """The breaker's rules for lanes of this mode. The first probe is due when the first retry would be."""
    delays_s = settings.webhook_delays_s
    return Rules(
        cap=settings.pace.sandbox_webhook_requests if mode.test else settings.pace.webhook_requests,
        probe_s_min=min(delays_s[0], _PROBE_S_MAX),
        probe_s_max=min(max(delays_s), _PROBE_S_MAX),
        pause_after_s=settings.webhook_pause_after_s,
        paused_probe_s=settings.webhook_paused_probe_s,
    )


async def store_attempts(
    pool: Pool, settings: Settings, attempts: Sequence[FinishedAttempt], *, now: datetime
) -> tuple[list[DeliveryOutcome], list[datetime]]:
    """Write a batch. Returns the outcome of each delivery, and when the lanes it blocked may be asked again."""
    by_lane: dict[LaneKey, list[int]] = defaultdict(list)
    for at, each in enumerate(attempts):
        by_lane[each.due.lane].append(at)
    if all(each.answer.outcome == "delivered" for each in attempts):
        # The common batch: one round trip, and no lane is written unless a success changes it.
        delivered = [DeliveryOutcome("delivered", each.due.step + 1, now) for each in attempts]
        async with session(pool) as conn:
            unhealthy = await _store_deliveries(conn, settings, attempts, delivered, by_lane.keys(), now=now)
        if unhealthy:
            async with transaction(pool) as conn:
                await relax(conn)
                await _fold_into_lanes(conn, settings, attempts, {key: by_lane[key] for key in unhealthy}, now=now)
        return delivered, []
    async with transaction(pool) as conn:
        outcome_by_place, blocked_untils = await _fold_into_lanes(conn, settings, attempts, by_lane, now=now)
        outcomes = [outcome_by_place[at] for at in range(len(attempts))]
        await _store_deliveries(conn, settings, attempts, outcomes, (), now=now)
    return outcomes, blocked_untils


async def _store_deliveries(
    conn: Connection,
    settings: Settings,
    attempts: Sequence[FinishedAttempt],
    outcomes: Sequence[DeliveryOutcome],
    lanes: Collection[LaneKey],
    *,
    now: datetime,
) -> list[LaneKey]:
    """Store attempts and deliveries; returns which of `lanes` a success changes, because they are not healthy."""
    rows = await store_results(
        conn,
        attempts=attempts,
        outcomes=outcomes,
        lanes=lanes,
        cap=settings.pace.webhook_requests,
        cap_test=settings.pace.sandbox_webhook_requests,
        now=now,
    )
    return [LaneKey(row.endpoint_id, Mode.of(row.test)) for row in rows]


async def _fold_into_lanes(
    conn: Connection,
    settings: Settings,
    attempts: Sequence[FinishedAttempt],
    by_lane: dict[LaneKey, list[int]],
    *,
    now: datetime,
) -> tuple[dict[int, DeliveryOutcome], list[datetime]]:
    """Fold the attempts at these places into their lanes, write the lanes that change, and notify their merchants."""
    rows = await lock_lanes(
        conn,
        lanes=by_lane,
        failed=[any(attempts[at].answer.outcome != "delivered" for at in places) for places in by_lane.values()],
        cap=settings.pace.webhook_requests,
        cap_test=settings.pace.sandbox_webhook_requests,
    )
    before = {row.key: row.lane() for row in rows}
    urls = {row.key: row.url for row in rows}
    after: dict[LaneKey, Lane] = {}
    outcomes: dict[int, DeliveryOutcome] = {}
    transitions: list[_Transition] = []
    for key, places in by_lane.items():
        # A lane without a row is healthy, or its endpoint was removed.
        lane = before.get(key, Lane())
        rules = rules_of(settings, key.mode)
        for at in places:
            attempt = attempts[at]
            # The answer of an address that was replaced since says nothing about the new address.
            moved = attempt.due.url != urls.get(key, attempt.due.url)
            asked_s = None if moved else retry_after_s(attempt.answer.retry_after, now=now)
            if not moved:
                lane, kinds = on_result(lane, _attempt_result(attempt, asked_s), rules, now=now)
                transitions += [_Transition(key, kind, attempt, lane) for kind in kinds if key in before]
            outcomes[at] = _delivery_outcome(attempt, lane, settings, asked_s=asked_s, now=now)
        if key in before and lane != before[key]:
            after[key] = lane
    await store_lanes(conn, after)
    if transitions:
        await _give_notice(conn, transitions, before, now=now)
    for key, lane in after.items():
        if lane.state is not before[key].state:
            _log.warning(
                "webhook_lane_changed", endpoint_id=key.endpoint_id, test=key.mode.test, state=lane.state.value
            )
    return outcomes, [lane.blocked_until for lane in after.values() if lane.blocked_until is not None]


def _attempt_result(attempt: FinishedAttempt, asked_s: float | None) -> AttemptResult:
    return AttemptResult(
        delivery_id=attempt.due.delivery_id,
        outcome=attempt.answer.outcome,
        status=attempt.answer.status,
        probe=attempt.due.probe,
        retry_after_s=asked_s,
    )


def _delivery_outcome(
    attempt: FinishedAttempt, lane: Lane, settings: Settings, *, asked_s: float | None, now: datetime
) -> DeliveryOutcome:
    """The delivery's outcome; `lane` is as the attempt left it, `asked_s` the answer's Retry-After."""
    due = attempt.due
    if attempt.answer.outcome == "delivered":
        return DeliveryOutcome("delivered", due.step + 1, now)
    if lane.state is LaneState.PAUSED:
        # Also after the schedule's last attempt: it may be sent when the lane has recovered. How long it is held counts
        # from the pause, or from its due time if that is later.
        assert lane.paused_at is not None
        return DeliveryOutcome("held", due.step, max(due.due_at, lane.paused_at))
    step = due.step + 1
    delay_s = next_delay_s(
        settings.webhook_delays_s,
        step,
        jitter=settings.webhook_jitter,
        chance=attempt.chance,
        retry_after_s=asked_s,
    )
    if delay_s is None:
        return DeliveryOutcome("exhausted", step, now)
    return DeliveryOutcome("pending", step, now + timedelta(seconds=delay_s))


async def _give_notice(
    conn: Connection, transitions: Sequence[_Transition], before: dict[LaneKey, Lane], *, now: datetime
) -> None:
    rows = await find_endpoints(conn, endpoint_ids=list({each.key.endpoint_id for each in transitions}))
    endpoints = {each.endpoint_id: each for each in rows}
    notices = [
        NewNotice(
            notice_id=new_id(),
            account_id=endpoint.account_id,
            test=each.key.mode.test,
            kind=each.kind.value,
            event_type=each.attempt.due.type,
            endpoint_id=endpoint.endpoint_id,
            facts=_notice_facts(each, before[each.key], endpoint.url),
        )
        for each in transitions
        if (endpoint := endpoints.get(each.key.endpoint_id)) is not None
    ]
    await give_notice(conn, notices, now=now)


def _notice_facts(transition: _Transition, before: Lane, url: str) -> dict[str, Any]:
    """The facts the reader needs to act: where, since when, and the last answer. Of the address only the host: its path
    and query may hold a secret of the merchant's, and a notice is mailed, and stays."""
    lane, answer = transition.lane, transition.attempt.answer
    since = lane.failing_since or before.failing_since
    facts: dict[str, Any] = {"url": host_of(url), "failing_since": None if since is None else iso(since)}
    if transition.kind is not Transition.RECOVERED:
        facts |= {"failures": lane.failures, "outcome": answer.outcome, "status": answer.status}
    if transition.kind is Transition.PAUSED:
        facts["reason"] = lane.paused_reason
    return facts


async def tend_lanes(pool: Pool, settings: Settings, *, now: datetime) -> int:
    """One round for lanes that are or were paused: hold, release, probe, and forget deliveries held too long.

    Returns how many deliveries it made ready to be sent. What it could not do now is left to the next round.
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
        await end_release(conn, late=_LATE, lanes_max=_LANES_MAX)
        forgotten = await forget_held(
            conn, before=now - timedelta(seconds=settings.webhook_held_s), limit=_FORGOTTEN_MAX
        )
    if forgotten:
        _log.warning("deliveries_held_too_long", count=forgotten)
    return probes + released
