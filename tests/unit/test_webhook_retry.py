"""A webhook that is not taken is tried thirteen times in about 72 hours, out of step with its neighbours."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from domain.webhooks.retry import next_delay_s, retry_after_s
from runtime.settings import WEBHOOK_DELAYS_S

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def delay(step: int, *, chance: float = 0.5, wish: float | None = None) -> float | None:
    return next_delay_s(WEBHOOK_DELAYS_S, step, jitter=0.2, chance=chance, retry_after_s=wish)


def test_thirteen_attempts_in_about_three_days() -> None:
    delays = [delay(step) for step in range(1, 14)]
    assert delays == [5, 30, 120, 600, 1800, 3600, 7200, 14400, 28800, 43200, 72000, 86400, None]
    assert sum(each or 0 for each in delays) / 3600 == pytest.approx(72, rel=0.02)


def test_chance_spreads_a_delay_over_a_fifth_to_each_side() -> None:
    assert delay(2, chance=0.0) == pytest.approx(24)
    assert delay(2, chance=0.999999) == pytest.approx(36, abs=0.001)


def test_a_receivers_wish_makes_it_longer_up_to_an_hour_and_never_shorter() -> None:
    assert delay(1, wish=7) == 7
    assert delay(1, wish=1) == 5
    assert delay(1, wish=1e9) == 3600
    assert delay(12, wish=7) == 86400


def test_a_wish_does_not_prolong_a_schedule_that_is_used_up() -> None:
    assert delay(13, wish=7) is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("7", 7),
        (" 7 ", 7),
        ("1.5", 1.5),
        ("1e9", 1e9),
        ("-5", None),
        ("abc", None),
        ("", None),
        ("nan", None),
        ("inf", None),
        ("1_000", None),
        ("٧", None),
        ("9" * 400, None),
        ("Sat, 99 Foo 2026 99:99:99 GMT", None),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), None),
        ("Sat, 31 Jan 2026 12:01:00 -0000", 60),
        ("Sat, 31 Jan 2026 14:01:00 +0200", 60),
        ("Sat, 31 Jan 2026 12:0１:00 GMT", None),
        ("Sat, 31 Jan 2026 12:01:00 GMT".ljust(64, " ") + "()", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date_and_else_ignored(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, now=NOW) == seconds
