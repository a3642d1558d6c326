"""Due times of bank orders: orders beyond an owner's share are postponed behind those of others, by at most a minute,
and the postponement ends as time passes."""

from datetime import UTC, datetime, timedelta

from runtime.coordination.due_times import AHEAD_S_MAX, DueTimes

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
STEP = timedelta(seconds=0.05)


def test_orders_within_the_share_are_due_at_once() -> None:
    times = DueTimes(20)
    for number in range(50):
        at = NOW + number * STEP
        assert times.take("a", at) is at


def test_orders_beyond_the_share_are_due_a_step_apart_without_delaying_other_owners() -> None:
    times = DueTimes(20)
    assert [times.take("a", NOW) for _ in range(4)] == [NOW, NOW + STEP, NOW + 2 * STEP, NOW + 3 * STEP]
    assert times.take("b", NOW) == NOW


def test_no_order_is_postponed_by_more_than_a_minute() -> None:
    times = DueTimes(20)
    due = [times.take("a", NOW) for _ in range(5_000)]
    assert max(due) == NOW + timedelta(seconds=AHEAD_S_MAX)
    assert due == sorted(due)


def test_an_owner_without_orders_for_the_length_of_the_burst_is_no_longer_postponed() -> None:
    times = DueTimes(20)
    for _ in range(5_000):
        times.take("a", NOW)
    later = NOW + timedelta(seconds=AHEAD_S_MAX) + STEP
    assert times.take("a", later) is later


def test_owners_that_are_not_postponed_are_forgotten() -> None:
    times = DueTimes(20)
    for number in range(100_000):
        times.take(number, NOW + number * STEP)
    assert len(times) <= 1_000
    burst = DueTimes(1)
    for number in range(3_000):
        burst.take(number, NOW)
    assert burst.take(0, NOW) > NOW, "an owner whose orders are postponed is not forgotten"
