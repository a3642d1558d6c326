"""A lane in trouble is asked less, then hardly, then not; and comes back slowly. Nobody is left untold."""

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


def taken(n: int = 0) -> AttemptResult:
    return AttemptResult(delivery_id=UUID(int=n), outcome="delivered", status=200)


def refused(
    n: int, status: int | None = 503, *, probe: bool = False, retry_after_s: float | None = None
) -> AttemptResult:
    outcome = "connection_refused" if status is None else "rejected"
    return AttemptResult(
        delivery_id=UUID(int=n), outcome=outcome, status=status, probe=probe, retry_after_s=retry_after_s
    )


def after(lane: Lane, *landings: AttemptResult, now: datetime = NOW) -> Lane:
    for each in landings:
        lane, _ = on_result(lane, each, RULES, now=now)
    return lane


def told(lane: Lane, *landings: AttemptResult, now: datetime = NOW) -> list[Transition]:
    turns: list[Transition] = []
    for each in landings:
        lane, more = on_result(lane, each, RULES, now=now)
        turns += more
    return turns


def broken() -> Lane:
    return after(Lane(concurrency=10), *(refused(n) for n in range(5)))


def paused() -> Lane:
    return after(broken(), refused(9, probe=True), now=NOW + timedelta(hours=72))


def test_a_new_lane_grows_with_each_success_up_to_its_cap() -> None:
    lane = Lane()
    assert lane.concurrency == CONCURRENCY_FIRST == 2
    assert after(lane, taken()).concurrency == 3
    assert after(lane, *[taken()] * 20).concurrency == 10


def test_five_failures_of_three_deliveries_open_the_breaker() -> None:
    lane = after(Lane(concurrency=10), *(refused(n) for n in range(4)))
    assert lane.state is LaneState.OPEN
    lane = after(lane, refused(4))
    assert (lane.state, lane.concurrency, lane.probes) == (LaneState.BROKEN, 1, 0)
    assert lane.blocked_until == NOW + timedelta(seconds=5)


def test_one_bad_event_alone_never_opens_it() -> None:
    lane = after(Lane(), *[refused(1)] * 12)
    assert lane.state is LaneState.OPEN
    assert lane.blocked_until is None


def test_two_bad_events_alone_never_open_it() -> None:
    assert after(Lane(), *[refused(n % 2) for n in range(20)]).state is LaneState.OPEN


def test_a_success_in_between_begins_the_count_anew() -> None:
    lane = after(Lane(), *(refused(n) for n in range(4)), taken(), *(refused(n) for n in range(4)))
    assert lane.state is LaneState.OPEN
    assert lane.failures == 4


@pytest.mark.parametrize("status", [301, 400, 401, 404, 410, 422, 499])
def test_a_refusal_of_one_request_says_nothing_of_the_receiver(status: int) -> None:
    lane = after(Lane(), *(refused(n, status) for n in range(20)))
    assert lane.state is LaneState.OPEN
    assert lane.failures == 20


def test_refusals_of_single_requests_do_not_help_to_open_it() -> None:
    """Neither as deliveries that failed, nor as the failure after which it opens."""
    assert after(Lane(), *(refused(n, 404) for n in range(4)), refused(4)).state is LaneState.OPEN
    assert after(Lane(), *(refused(n) for n in range(4)), refused(4, 404)).state is LaneState.OPEN


def test_a_long_outage_is_remembered_with_no_more_deliveries_than_it_takes() -> None:
    assert len(after(Lane(), *(refused(n) for n in range(20))).strained_by) == STRAINED_DELIVERIES


@pytest.mark.parametrize("status", [None, 429, 500, 502, 503, 504, 599])
def test_which_answers_count_as_failures_of_the_endpoint(status: int | None) -> None:
    assert counts_as_failure(refused(1, status))


def test_each_failed_probe_doubles_the_wait_up_to_a_minute() -> None:
    lane, waits = broken(), []
    for n in range(8):
        lane = after(lane, refused(n, probe=True))
        assert lane.blocked_until is not None
        waits.append((lane.blocked_until - NOW).total_seconds())
    assert waits == [10, 20, 40, 60, 60, 60, 60, 60]
    assert after(lane, *[refused(1, probe=True)] * 5000).state is LaneState.BROKEN


def test_what_was_under_way_when_it_broke_is_no_probe() -> None:
    lane = after(broken(), refused(7), refused(8), now=NOW + timedelta(seconds=3))
    assert lane.probes == 0
    assert lane.blocked_until == NOW + timedelta(seconds=5)


def test_a_probe_that_fails_once_it_was_opened_again_holds_nothing_back() -> None:
    assert after(resumed(paused()), refused(9, probe=True)).blocked_until is None


def test_a_success_closes_it_and_it_starts_slowly() -> None:
    lane = after(broken(), taken())
    assert lane == Lane(concurrency=1)
    concurrencies = []
    for _ in range(4):  # each round all requests in flight succeed
        concurrencies.append(lane.concurrency)
        lane = after(lane, *[taken()] * lane.concurrency)
    assert concurrencies == [1, 2, 4, 8]
    assert lane.concurrency == 10


def test_who_does_not_answer_is_asked_one_at_a_time() -> None:
    for outcome in ("timeout", "dns_error"):
        assert after(Lane(concurrency=10), AttemptResult(delivery_id=UUID(int=1), outcome=outcome)).concurrency == 1
    assert after(Lane(concurrency=10), refused(1)).concurrency == 10


def test_too_many_requests_speaks_for_the_whole_lane_up_to_an_hour() -> None:
    for status in (429, 503):
        assert after(Lane(), refused(1, status, retry_after_s=30)).blocked_until == NOW + timedelta(seconds=30)
        assert after(Lane(), refused(1, status, retry_after_s=1e9)).blocked_until == NOW + timedelta(hours=1)
    assert after(Lane(), refused(1, 500, retry_after_s=30)).blocked_until is None
    assert after(Lane(), refused(1, 404, retry_after_s=30)).blocked_until is None
    shorter_later = after(Lane(), refused(1, 429, retry_after_s=30), refused(2, 429, retry_after_s=3))
    assert shorter_later.blocked_until == NOW + timedelta(seconds=30)
    assert after(shorter_later, taken()).blocked_until == NOW + timedelta(seconds=30)


def test_the_fifth_failure_in_a_row_is_told_once() -> None:
    assert told(Lane(), *(refused(n, 404) for n in range(40))) == [Transition.FAILING]
    assert told(Lane(), *[refused(1)] * 40) == [Transition.FAILING]
    assert told(Lane(), *[refused(1)] * (FAILURES_TOLD - 1), taken()) == []


def test_recovery_is_told_to_whom_the_failure_was() -> None:
    assert told(Lane(), *[refused(1)] * 5, taken(), taken()) == [Transition.FAILING, Transition.RECOVERED]
    assert told(paused(), taken(), taken()) == [Transition.RECOVERED]


def test_three_days_without_a_success_pause_it() -> None:
    almost = after(broken(), refused(9, probe=True), now=NOW + timedelta(hours=71, minutes=59))
    assert almost.state is LaneState.BROKEN
    lane = paused()
    assert (lane.state, lane.paused_reason, lane.holding) == (LaneState.PAUSED, PausedReason.NO_SUCCESS, True)
    assert (lane.concurrency, lane.probes) == (1, 0)
    assert lane.paused_at == NOW + timedelta(hours=72)
    assert lane.blocked_until == NOW + timedelta(hours=73)
    assert told(broken(), refused(9, probe=True), now=NOW + timedelta(hours=72)) == [Transition.PAUSED]


def test_refusals_of_each_event_pause_it_as_silence_does() -> None:
    lane = after(Lane(), *(refused(n, 404) for n in range(10)))
    assert after(lane, refused(11, 404), now=NOW + timedelta(hours=73)).state is LaneState.PAUSED


def test_one_success_in_three_days_is_enough() -> None:
    lane = after(broken(), taken(), now=NOW + timedelta(hours=71))
    assert after(lane, refused(9), now=NOW + timedelta(hours=73)).state is LaneState.OPEN


def test_time_in_which_we_did_not_ask_is_not_his_failure() -> None:
    """We may have been away ourselves: a failure, three days of nothing, a failure."""
    lane = after(Lane(), refused(1), now=NOW)
    assert after(lane, refused(1), now=NOW + timedelta(hours=80)).state is LaneState.OPEN
    assert after(lane, *[refused(1)] * 4, now=NOW + timedelta(hours=80)).state is LaneState.PAUSED


def test_one_gone_is_a_failure_and_three_over_ten_minutes_are_believed() -> None:
    lane = after(Lane(), refused(1, 410), refused(2, 410), refused(3, 410))
    assert lane.state is LaneState.OPEN
    later = NOW + timedelta(minutes=10)
    gone = after(lane, refused(1, 410), now=later)
    assert (gone.state, gone.paused_reason) == (LaneState.PAUSED, PausedReason.GONE)
    assert gone.blocked_until is None, "who asked not to be called is not called"
    assert told(gone, taken()) == [Transition.RECOVERED], "as its pause was, though no failure was told before"
    assert after(lane, refused(9, 500), refused(1, 410), now=later).state is LaneState.OPEN
    assert after(lane, refused(9, 500), *[refused(1, 410)] * 3, now=later).state is LaneState.OPEN
    parted = after(lane, refused(9, 500), refused(1, 410))
    assert after(parted, refused(1, 410), now=later).state is LaneState.OPEN, "two since it was another answer"
    first = after(Lane(), refused(9, 500), refused(1, 410))
    assert after(first, refused(1, 410), now=later).state is LaneState.OPEN
    assert after(first, *[refused(1, 410)] * 2, now=later).state is LaneState.PAUSED


def test_failures_while_paused_change_nothing_but_whose_turn_it_is() -> None:
    lane = paused()
    assert told(lane, *[refused(1, probe=True)] * 20, now=NOW + timedelta(days=9)) == []
    assert after(lane, refused(1, probe=True)).probes == 1
    assert after(lane, refused(1, probe=True)).blocked_until == lane.blocked_until


def test_a_resumed_lane_starts_slowly_and_anew_and_is_told_when_it_works() -> None:
    lane = resumed(paused())
    assert (lane.state, lane.concurrency, lane.failures) == (LaneState.OPEN, 1, 0)
    assert told(lane, taken()) == [Transition.RECOVERED]
    assert told(lane, *(refused(n) for n in range(5))) == [Transition.FAILING]
