"""A lane whose receiver fails is slowed, then probed, then paused, and restarts slowly. Its merchant is notified of
failure, pause and recovery."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from domain.webhooks.breaker import (
    CONCURRENCY_FIRST,
    FAILURES_TOLD,
    STRAINED_DELIVERIES,
    AttemptResult,
    Lane,
    LaneState,
    PausedReason,
    Rules,
    Transition,
    counts_as_failure,
    on_result,
    resumed,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
RULES = Rules(cap=10, probe_s_min=5, probe_s_max=60, pause_after_s=72 * 3600, paused_probe_s=3600)


def delivered(n: int = 0) -> AttemptResult:
    return AttemptResult(delivery_id=UUID(int=n), outcome="delivered", status=200)


def failed(
    n: int, status: int | None = 503, *, probe: bool = False, retry_after_s: float | None = None
) -> AttemptResult:
    outcome = "connection_refused" if status is None else "rejected"
    return AttemptResult(
        delivery_id=UUID(int=n), outcome=outcome, status=status, probe=probe, retry_after_s=retry_after_s
    )


def lane_after(lane: Lane, *results: AttemptResult, now: datetime = NOW) -> Lane:
    for each in results:
        lane, _ = on_result(lane, each, RULES, now=now)
    return lane


def notices_of(lane: Lane, *results: AttemptResult, now: datetime = NOW) -> list[Transition]:
    notices: list[Transition] = []
    for each in results:
        lane, more = on_result(lane, each, RULES, now=now)
        notices += more
    return notices


def broken_lane() -> Lane:
    return lane_after(Lane(concurrency=10), *(failed(n) for n in range(5)))


def paused_lane() -> Lane:
    return lane_after(broken_lane(), failed(9, probe=True), now=NOW + timedelta(hours=72))


def test_a_new_lane_grows_with_each_success_up_to_its_cap() -> None:
    lane = Lane()
    assert lane.concurrency == CONCURRENCY_FIRST == 2
    assert lane_after(lane, delivered()).concurrency == 3
    assert lane_after(lane, *[delivered()] * 20).concurrency == 10


def test_five_failures_of_three_deliveries_open_the_breaker() -> None:
    lane = lane_after(Lane(concurrency=10), *(failed(n) for n in range(4)))
    assert lane.state is LaneState.OPEN
    lane = lane_after(lane, failed(4))
    assert (lane.state, lane.concurrency, lane.probes) == (LaneState.BROKEN, 1, 0)
    assert lane.blocked_until == NOW + timedelta(seconds=5)


def test_failures_of_one_event_never_open_the_breaker() -> None:
    lane = lane_after(Lane(), *[failed(1)] * 12)
    assert lane.state is LaneState.OPEN
    assert lane.blocked_until is None


def test_failures_of_two_events_never_open_the_breaker() -> None:
    assert lane_after(Lane(), *[failed(n % 2) for n in range(20)]).state is LaneState.OPEN


def test_a_success_resets_the_count_of_failures() -> None:
    lane = lane_after(Lane(), *(failed(n) for n in range(4)), delivered(), *(failed(n) for n in range(4)))
    assert lane.state is LaneState.OPEN
    assert lane.failures == 4


@pytest.mark.parametrize("status", [301, 400, 401, 404, 410, 422, 499])
def test_3xx_and_4xx_answers_other_than_429_do_not_open_the_breaker(status: int) -> None:
    lane = lane_after(Lane(), *(failed(n, status) for n in range(20)))
    assert lane.state is LaneState.OPEN
    assert lane.failures == 20


def test_404_answers_do_not_count_towards_opening_the_breaker() -> None:
    """They count neither as failed deliveries, nor as the failure after which it opens."""
    assert lane_after(Lane(), *(failed(n, 404) for n in range(4)), failed(4)).state is LaneState.OPEN
    assert lane_after(Lane(), *(failed(n) for n in range(4)), failed(4, 404)).state is LaneState.OPEN


def test_a_lane_stores_no_more_failed_deliveries_than_open_the_breaker() -> None:
    assert len(lane_after(Lane(), *(failed(n) for n in range(20))).strained_by) == STRAINED_DELIVERIES


@pytest.mark.parametrize("status", [None, 429, 500, 502, 503, 504, 599])
def test_no_answer_429_and_5xx_count_as_failures_of_the_endpoint(status: int | None) -> None:
    assert counts_as_failure(failed(1, status))


def test_each_failed_probe_doubles_the_wait_up_to_a_minute() -> None:
    lane, waits = broken_lane(), []
    for n in range(8):
        lane = lane_after(lane, failed(n, probe=True))
        assert lane.blocked_until is not None
        waits.append((lane.blocked_until - NOW).total_seconds())
    assert waits == [10, 20, 40, 60, 60, 60, 60, 60]
    assert lane_after(lane, *[failed(1, probe=True)] * 5000).state is LaneState.BROKEN


def test_attempts_in_flight_when_the_breaker_opens_do_not_count_as_probes() -> None:
    lane = lane_after(broken_lane(), failed(7), failed(8), now=NOW + timedelta(seconds=3))
    assert lane.probes == 0
    assert lane.blocked_until == NOW + timedelta(seconds=5)


def test_a_probe_that_fails_after_the_lane_was_resumed_does_not_block_it() -> None:
    assert lane_after(resumed(paused_lane()), failed(9, probe=True)).blocked_until is None


def test_a_success_closes_the_breaker_and_concurrency_grows_by_one_per_success() -> None:
    lane = lane_after(broken_lane(), delivered())
    assert lane == Lane(concurrency=1)
    concurrencies = []
    for _ in range(4):  # in each round, all requests in flight succeed
        concurrencies.append(lane.concurrency)
        lane = lane_after(lane, *[delivered()] * lane.concurrency)
    assert concurrencies == [1, 2, 4, 8]
    assert lane.concurrency == 10


def test_an_endpoint_that_does_not_answer_gets_one_request_at_a_time() -> None:
    for outcome in ("timeout", "dns_error"):
        assert (
            lane_after(Lane(concurrency=10), AttemptResult(delivery_id=UUID(int=1), outcome=outcome)).concurrency == 1
        )
    assert lane_after(Lane(concurrency=10), failed(1)).concurrency == 10


def test_retry_after_of_a_429_or_503_blocks_the_whole_lane_up_to_an_hour() -> None:
    for status in (429, 503):
        assert lane_after(Lane(), failed(1, status, retry_after_s=30)).blocked_until == NOW + timedelta(seconds=30)
        assert lane_after(Lane(), failed(1, status, retry_after_s=1e9)).blocked_until == NOW + timedelta(hours=1)
    assert lane_after(Lane(), failed(1, 500, retry_after_s=30)).blocked_until is None
    assert lane_after(Lane(), failed(1, 404, retry_after_s=30)).blocked_until is None
    lane = lane_after(Lane(), failed(1, 429, retry_after_s=30), failed(2, 429, retry_after_s=3))
    assert lane.blocked_until == NOW + timedelta(seconds=30)
    assert lane_after(lane, delivered()).blocked_until == NOW + timedelta(seconds=30)


def test_the_fifth_consecutive_failure_is_notified_once() -> None:
    assert notices_of(Lane(), *(failed(n, 404) for n in range(40))) == [Transition.FAILING]
    assert notices_of(Lane(), *[failed(1)] * 40) == [Transition.FAILING]
    assert notices_of(Lane(), *[failed(1)] * (FAILURES_TOLD - 1), delivered()) == []


def test_recovery_is_notified_when_a_failure_or_a_pause_was() -> None:
    assert notices_of(Lane(), *[failed(1)] * 5, delivered(), delivered()) == [Transition.FAILING, Transition.RECOVERED]
    assert notices_of(paused_lane(), delivered(), delivered()) == [Transition.RECOVERED]


def test_three_days_without_a_success_pause_the_lane() -> None:
    almost = lane_after(broken_lane(), failed(9, probe=True), now=NOW + timedelta(hours=71, minutes=59))
    assert almost.state is LaneState.BROKEN
    lane = paused_lane()
    assert (lane.state, lane.paused_reason, lane.holding) == (LaneState.PAUSED, PausedReason.NO_SUCCESS, True)
    assert (lane.concurrency, lane.probes) == (1, 0)
    assert lane.paused_at == NOW + timedelta(hours=72)
    assert lane.blocked_until == NOW + timedelta(hours=73)
    assert notices_of(broken_lane(), failed(9, probe=True), now=NOW + timedelta(hours=72)) == [Transition.PAUSED]


def test_three_days_of_404_answers_pause_the_lane() -> None:
    lane = lane_after(Lane(), *(failed(n, 404) for n in range(10)))
    assert lane_after(lane, failed(11, 404), now=NOW + timedelta(hours=73)).state is LaneState.PAUSED


def test_one_success_in_three_days_keeps_the_lane_open() -> None:
    lane = lane_after(broken_lane(), delivered(), now=NOW + timedelta(hours=71))
    assert lane_after(lane, failed(9), now=NOW + timedelta(hours=73)).state is LaneState.OPEN


def test_time_without_attempts_does_not_count_towards_the_pause() -> None:
    """Our own outage, for example: a failure, three days without an attempt, then another failure."""
    lane = lane_after(Lane(), failed(1), now=NOW)
    assert lane_after(lane, failed(1), now=NOW + timedelta(hours=80)).state is LaneState.OPEN
    assert lane_after(lane, *[failed(1)] * 4, now=NOW + timedelta(hours=80)).state is LaneState.PAUSED


def test_one_410_is_a_failure_and_three_over_ten_minutes_pause_the_lane() -> None:
    lane = lane_after(Lane(), failed(1, 410), failed(2, 410), failed(3, 410))
    assert lane.state is LaneState.OPEN
    later = NOW + timedelta(minutes=10)
    gone = lane_after(lane, failed(1, 410), now=later)
    assert (gone.state, gone.paused_reason) == (LaneState.PAUSED, PausedReason.GONE)
    assert gone.blocked_until is None, "a receiver that answered 410 Gone is not called again"
    assert notices_of(gone, delivered()) == [Transition.RECOVERED], "the pause was notified, though no failure was"
    assert lane_after(lane, failed(9, 500), failed(1, 410), now=later).state is LaneState.OPEN
    assert lane_after(lane, failed(9, 500), *[failed(1, 410)] * 3, now=later).state is LaneState.OPEN
    parted = lane_after(lane, failed(9, 500), failed(1, 410))
    assert lane_after(parted, failed(1, 410), now=later).state is LaneState.OPEN, "only two 410 since another answer"
    first = lane_after(Lane(), failed(9, 500), failed(1, 410))
    assert lane_after(first, failed(1, 410), now=later).state is LaneState.OPEN
    assert lane_after(first, *[failed(1, 410)] * 2, now=later).state is LaneState.PAUSED


def test_a_failed_probe_of_a_paused_lane_is_counted_and_sends_no_notice() -> None:
    lane = paused_lane()
    assert notices_of(lane, *[failed(1, probe=True)] * 20, now=NOW + timedelta(days=9)) == []
    assert lane_after(lane, failed(1, probe=True)).probes == 1
    assert lane_after(lane, failed(1, probe=True)).blocked_until == lane.blocked_until


def test_a_resumed_lane_starts_with_concurrency_one_and_its_recovery_is_notified() -> None:
    lane = resumed(paused_lane())
    assert (lane.state, lane.concurrency, lane.failures) == (LaneState.OPEN, 1, 0)
    assert notices_of(lane, delivered()) == [Transition.RECOVERED]
    assert notices_of(lane, *(failed(n) for n in range(5))) == [Transition.FAILING]
