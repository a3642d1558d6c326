"""A webhook that is not accepted is tried 13 times in about 72 hours, with jitter against simultaneous retries."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from domain.webhooks.retry import next_delay_s, retry_after_s
from runtime.settings import WEBHOOK_DELAYS_S

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def delay(step: int, *, chance: float = 0.5, retry_after: float | None = None) -> float | None:
    return next_delay_s(WEBHOOK_DELAYS_S, step, jitter=0.2, chance=chance, retry_after_s=retry_after)


def test_thirteen_attempts_in_about_three_days() -> None:
    delays = [delay(step) for step in range(1, 14)]
    assert delays == [5, 30, 120, 600, 1800, 3600, 7200, 14400, 28800, 43200, 72000, 86400, None]
    assert sum(each or 0 for each in delays) / 3600 == pytest.approx(72, rel=0.02)


def test_jitter_changes_a_delay_by_up_to_a_fifth_in_either_direction() -> None:
    assert delay(2, chance=0.0) == pytest.approx(24)
    assert delay(2, chance=0.999999) == pytest.approx(36, abs=0.001)


def test_retry_after_lengthens_a_delay_up_to_an_hour_and_never_shortens_it() -> None:
    assert delay(1, retry_after=7) == 7
    assert delay(1, retry_after=1) == 5
    assert delay(1, retry_after=1e9) == 3600
    assert delay(12, retry_after=7) == 86400


def test_retry_after_adds_no_attempt_after_the_last_one() -> None:
    assert delay(13, retry_after=7) is None


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
def test_retry_after_is_parsed_as_seconds_or_a_date_and_otherwise_ignored(
    value: str | None, seconds: float | None
) -> None:
    assert retry_after_s(value, now=NOW) == seconds
