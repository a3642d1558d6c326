"""The concurrency limit of a lane (an endpoint in one mode): circuit breaker, slow start, pause and recovery.

The result of each attempt updates its lane. Every failure counts towards the notices and the pause. Only failures of
the receiver as a whole (no answer, 429, 5xx) open the breaker, and only failures of three different deliveries: an
event that a healthy receiver cannot process must not stop others.

While the breaker is open, due deliveries wait without using up their retries; one at a time is sent as a probe,
alternating between the oldest and the newest.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from domain.webhooks.retry import RETRY_AFTER_S_MAX

CONCURRENCY_FIRST = 2
"""Concurrent requests of a new lane: an endpoint that never answers must not occupy many."""
FAILURES_TOLD = 5
"""Consecutive failures after which the merchant is notified (contract section 9), and the breaker may open."""
STRAINED_DELIVERIES = 3
GONE_ANSWERS = 3
GONE_FOR = timedelta(minutes=10)
"""A 410 is retried like any failure; only GONE_ANSWERS of them over this time pause the lane."""

_TOO_MANY, _UNAVAILABLE, _GONE = 429, 503, 410
_DOUBLINGS_MAX = 30


class LaneState(StrEnum):
    OPEN = "open"
    BROKEN = "broken"
    PAUSED = "paused"


class PausedReason(StrEnum):
    NO_SUCCESS = "no_success"
    GONE = "gone"


class Transition(StrEnum):
    """The kinds of notices to merchants."""

    FAILING = "webhook_failing"
    PAUSED = "webhook_paused"
    RECOVERED = "webhook_recovered"


class Lane(Struct, frozen=True, kw_only=True):
    """The state of a lane. `concurrency`: how many requests may be in flight. `failures`: consecutive failures.
    `probes`: failed probes since the breaker opened or the lane was paused."""

    state: LaneState = LaneState.OPEN
    concurrency: int = CONCURRENCY_FIRST
    failures: int = 0
    failing_since: datetime | None = None
    strained_by: tuple[UUID, ...] = ()
    blocked_until: datetime | None = None
    probes: int = 0
    gone: int = 0
    gone_since: datetime | None = None
    noticed: bool = False
    paused_at: datetime | None = None
    paused_reason: PausedReason | None = None
    holding: bool = False


class AttemptResult(Struct, frozen=True, kw_only=True):
    """The result of an attempt. workers/webhooks/attempt.py names `outcome`; `retry_after_s` is the Retry-After."""

    delivery_id: UUID
    outcome: str
    status: int | None = None
    probe: bool = False
    retry_after_s: float | None = None


class Rules(Struct, frozen=True, kw_only=True):
    """The settings of an installation, in seconds. `pause_after_s`: the time without a success after which a lane is
    paused."""

    cap: int
    probe_s_min: float
    probe_s_max: float
    pause_after_s: float
    paused_probe_s: float


def on_result(lane: Lane, result: AttemptResult, rules: Rules, *, now: datetime) -> tuple[Lane, tuple[Transition, ...]]:
    """Returns the lane after this attempt, and the notices for its merchant."""
    if result.outcome == "delivered":
        return _after_success(lane, rules), ((Transition.RECOVERED,) if lane.noticed else ())
    return _after_failure(lane, result, rules, now=now)


def _after_success(lane: Lane, rules: Rules) -> Lane:
    if lane.state is not LaneState.OPEN:
        # Slow start: the concurrency grows by one for each success, so that a receiver that just recovered is not
        # flooded.
        return Lane(concurrency=1)
    # A Retry-After stays in force, even when a request that was sent before it succeeds.
    return Lane(concurrency=min(rules.cap, lane.concurrency + 1), blocked_until=lane.blocked_until)


def _after_failure(
    lane: Lane, result: AttemptResult, rules: Rules, *, now: datetime
) -> tuple[Lane, tuple[Transition, ...]]:
    gone = result.status == _GONE
    strained = lane.strained_by
    if counts_as_failure(result) and result.delivery_id not in strained and len(strained) < STRAINED_DELIVERIES:
        strained = (*strained, result.delivery_id)
    lane = replace(
        lane,
        failures=lane.failures + 1,
        failing_since=lane.failing_since or now,
        strained_by=strained,
        gone=lane.gone + 1 if gone else 0,
        gone_since=(lane.gone_since or now) if gone else None,
        probes=lane.probes + result.probe,
        # Each unanswered request occupies a slot for ten seconds, so one at a time is sent until one is answered.
        concurrency=1 if result.outcome in ("timeout", "dns_error") else lane.concurrency,
    )
    if lane.state is LaneState.PAUSED:
        return lane, ()
    transitions: tuple[Transition, ...] = ()
    if lane.failures == FAILURES_TOLD:
        transitions = (Transition.FAILING,)
        lane = replace(lane, noticed=True)
    reason = _reason_to_pause(lane, rules, now=now)
    if reason is not None:
        return _pause(lane, reason, rules, now=now), (*transitions, Transition.PAUSED)
    return _with_backoff(lane, result, rules, now=now), transitions


def _with_backoff(lane: Lane, result: AttemptResult, rules: Rules, *, now: datetime) -> Lane:
    """Open the breaker if its conditions hold, and set the instant from which the lane may send again."""
    opens = (
        lane.state is LaneState.OPEN
        and counts_as_failure(result)
        and lane.failures >= FAILURES_TOLD
        and len(lane.strained_by) >= STRAINED_DELIVERIES
    )
    wait_s = 0.0
    if opens:
        lane = replace(lane, state=LaneState.BROKEN, concurrency=1, probes=0)
        wait_s = rules.probe_s_min
    elif lane.state is LaneState.BROKEN and result.probe:
        wait_s = min(rules.probe_s_max, rules.probe_s_min * 2 ** min(lane.probes, _DOUBLINGS_MAX))
    if result.retry_after_s is not None and result.status in (_TOO_MANY, _UNAVAILABLE):
        # These two concern the whole receiver (RFC 9110 15.6.4, RFC 6585 4), any other status one request.
        wait_s = max(wait_s, min(result.retry_after_s, RETRY_AFTER_S_MAX))
    if not wait_s:
        return lane
    until = now + timedelta(seconds=wait_s)
    return replace(lane, blocked_until=until if lane.blocked_until is None else max(until, lane.blocked_until))


def counts_as_failure(result: AttemptResult) -> bool:
    """Whether a failure concerns the receiver as a whole, and not only this event."""
    return result.status is None or result.status == _TOO_MANY or result.status >= 500


def _reason_to_pause(lane: Lane, rules: Rules, *, now: datetime) -> PausedReason | None:
    # Decided only when an attempt fails: time without attempts is no failure.
    assert lane.failing_since is not None
    if lane.failures >= FAILURES_TOLD and now - lane.failing_since >= timedelta(seconds=rules.pause_after_s):
        return PausedReason.NO_SUCCESS
    if lane.gone >= GONE_ANSWERS and lane.gone_since is not None and now - lane.gone_since >= GONE_FOR:
        return PausedReason.GONE
    return None


def _pause(lane: Lane, reason: PausedReason, rules: Rules, *, now: datetime) -> Lane:
    # A 410 asks not to be called again; a silent receiver is probed now and then.
    probe_at = now + timedelta(seconds=rules.paused_probe_s) if reason is PausedReason.NO_SUCCESS else None
    return replace(
        lane,
        state=LaneState.PAUSED,
        concurrency=1,
        probes=0,
        blocked_until=probe_at,
        noticed=True,
        paused_at=now,
        paused_reason=reason,
        holding=True,
    )


def resumed(lane: Lane) -> Lane:
    """Returns the lane after its merchant resumed it: like a new lane, but a success still sends the notice of
    recovery. An open lane only stops waiting for its Retry-After."""
    if lane.state is LaneState.OPEN:
        return replace(lane, blocked_until=None)
    return Lane(concurrency=1, noticed=lane.noticed)
