"""How much a lane (an endpoint in one mode) is asked at once: breaker, slow start, pause and recovery.

What each attempt came to is folded into its lane, one after the other. Two things are counted apart.
Any failure counts towards the notices and the pause. Only what shows that the receiver as a whole is
in trouble (no answer, 429, 5xx) counts_as_failure it and can open the breaker, and only from three deliveries:
a single event that a healthy receiver chokes on must not keep the others from it.

While the breaker is open the due deliveries wait and use up nothing of their schedules; one at a time
is sent as a probe, and whose turn it is rotates over the oldest and the newest.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from domain.webhooks.retry import RETRY_AFTER_S_MAX

ROOM_FIRST = 2
"""Of a lane nobody knows yet: an endpoint that never answers must not take many places to be found out."""
FAILURES_TOLD = 5
"""Failures in a row after which the merchant is told (contract section 9), and the breaker may open."""
STRAINED_DELIVERIES = 3
GONE_ANSWERS = 3
GONE_FOR = timedelta(minutes=10)
"""A 410 is resent like any refusal; only several over a while are believed, and pause the lane."""

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
    """What a merchant is told of: the kinds of notices."""

    FAILING = "webhook_failing"
    PAUSED = "webhook_paused"
    RECOVERED = "webhook_recovered"


class Lane(Struct, frozen=True, kw_only=True):
    """`room`: requests at once. `failures`: in a row. `probes`: failed ones since it broke or was paused."""

    state: LaneState = LaneState.OPEN
    room: int = ROOM_FIRST
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
    """An attempt that ended. `outcome` is of webhook_attempt's words, `wish_s` what Retry-After asked for."""

    delivery_id: UUID
    outcome: str
    status: int | None = None
    probe: bool = False
    wish_s: float | None = None


class Rules(Struct, frozen=True, kw_only=True):
    """The numbers of an installation, in seconds. `pause_after_s`: without a success."""

    cap: int
    probe_s_min: float
    probe_s_max: float
    pause_after_s: float
    paused_probe_s: float


def on_result(
    lane: Lane, landing: AttemptResult, rules: Rules, *, now: datetime
) -> tuple[Lane, tuple[Transition, ...]]:
    """The lane after this attempt, and what its merchant is to be told."""
    if landing.outcome == "delivered":
        return _succeeded(lane, rules), ((Transition.RECOVERED,) if lane.noticed else ())
    return _failed(lane, landing, rules, now=now)


def _succeeded(lane: Lane, rules: Rules) -> Lane:
    if lane.state is not LaneState.OPEN:
        # One more for each success, so twice as many with each round: a receiver that just rose is not flooded.
        return Lane(room=1)
    # A receiver that asked for time gets it, even if something sent before was taken.
    return Lane(room=min(rules.cap, lane.room + 1), blocked_until=lane.blocked_until)


def _failed(lane: Lane, landing: AttemptResult, rules: Rules, *, now: datetime) -> tuple[Lane, tuple[Transition, ...]]:
    gone = landing.status == _GONE
    strained = lane.strained_by
    if counts_as_failure(landing) and landing.delivery_id not in strained and len(strained) < STRAINED_DELIVERIES:
        strained = (*strained, landing.delivery_id)
    lane = replace(
        lane,
        failures=lane.failures + 1,
        failing_since=lane.failing_since or now,
        strained_by=strained,
        gone=lane.gone + 1 if gone else 0,
        gone_since=(lane.gone_since or now) if gone else None,
        probes=lane.probes + landing.probe,
        # Who does not answer holds places for ten seconds: one at a time until he does.
        room=1 if landing.outcome in ("timeout", "dns_error") else lane.room,
    )
    if lane.state is LaneState.PAUSED:
        return lane, ()
    turns: tuple[Transition, ...] = ()
    if lane.failures == FAILURES_TOLD:
        turns = (Transition.FAILING,)
        lane = replace(lane, noticed=True)
    reason = _reason_to_pause(lane, rules, now=now)
    if reason is not None:
        return _paused(lane, reason, rules, now=now), (*turns, Transition.PAUSED)
    return _braked(lane, landing, rules, now=now), turns


def _braked(lane: Lane, landing: AttemptResult, rules: Rules, *, now: datetime) -> Lane:
    """Open the breaker when it is time, and say when the lane may be asked next."""
    breaks = (
        lane.state is LaneState.OPEN
        and counts_as_failure(landing)
        and lane.failures >= FAILURES_TOLD
        and len(lane.strained_by) >= STRAINED_DELIVERIES
    )
    wait_s = 0.0
    if breaks:
        lane = replace(lane, state=LaneState.BROKEN, room=1, probes=0)
        wait_s = rules.probe_s_min
    elif lane.state is LaneState.BROKEN and landing.probe:
        wait_s = min(rules.probe_s_max, rules.probe_s_min * 2 ** min(lane.probes, _DOUBLINGS_MAX))
    if landing.wish_s is not None and landing.status in (_TOO_MANY, _UNAVAILABLE):
        # These two speak for the whole receiver (RFC 9110 15.6.4, RFC 6585 4), any other of one request.
        wait_s = max(wait_s, min(landing.wish_s, RETRY_AFTER_S_MAX))
    if not wait_s:
        return lane
    until = now + timedelta(seconds=wait_s)
    return replace(lane, blocked_until=until if lane.blocked_until is None else max(until, lane.blocked_until))


def counts_as_failure(landing: AttemptResult) -> bool:
    """Whether a failure says something of the receiver as a whole, and not of this one event."""
    return landing.status is None or landing.status == _TOO_MANY or landing.status >= 500


def _reason_to_pause(lane: Lane, rules: Rules, *, now: datetime) -> PausedReason | None:
    # Judged when an attempt fails and never by the clock alone: time in which we did not ask is not his failure.
    assert lane.failing_since is not None
    if lane.failures >= FAILURES_TOLD and now - lane.failing_since >= timedelta(seconds=rules.pause_after_s):
        return PausedReason.NO_SUCCESS
    if lane.gone >= GONE_ANSWERS and lane.gone_since is not None and now - lane.gone_since >= GONE_FOR:
        return PausedReason.GONE
    return None


def _paused(lane: Lane, reason: PausedReason, rules: Rules, *, now: datetime) -> Lane:
    # Who says 410 asked not to be called; whoever is only silent is looked after now and then.
    probe_at = now + timedelta(seconds=rules.paused_probe_s) if reason is PausedReason.NO_SUCCESS else None
    return replace(
        lane,
        state=LaneState.PAUSED,
        room=1,
        probes=0,
        blocked_until=probe_at,
        noticed=True,
        paused_at=now,
        paused_reason=reason,
        holding=True,
    )


def resumed(lane: Lane) -> Lane:
    """The lane after its merchant said that it works again: a new start, with the good news still owed."""
    return Lane(room=1, noticed=lane.noticed)
