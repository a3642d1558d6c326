"""The delays between retries of a failed webhook (contract section 9)."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRY_AFTER_S_MAX = 3600.0

_SECONDS = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?(e[0-9]{1,2})?", re.ASCII | re.IGNORECASE)
_DATE_LENGTH = 64


def next_delay_s(
    delays_s: Sequence[float], step: int, *, jitter: float, chance: float, retry_after_s: float | None
) -> float | None:
    """Returns the seconds until the next attempt, or None when the schedule is used up.

    `step` counts the attempts so far; `chance` in [0, 1) spreads the delay over plus and minus `jitter`, so that
    deliveries that failed together are not retried together. A Retry-After makes the delay longer, up to an hour, never
    shorter.
    """
    assert step >= 1
    assert 0 <= chance < 1
    if step > len(delays_s):
        return None
    delay_s = delays_s[step - 1] * (1 + jitter * (2 * chance - 1))
    if retry_after_s is None:
        return delay_s
    return max(delay_s, min(retry_after_s, RETRY_AFTER_S_MAX))


def retry_after_s(value: str | None, *, now: datetime) -> float | None:
    """Returns the seconds that a Retry-After header asks for (RFC 9110 10.2.3: seconds or an HTTP date), or None."""
    if value is None:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    if len(value) > _DATE_LENGTH or not value.isascii():
        return None
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError, IndexError):
        return None
    if date.tzinfo is None:  # "-0000" means universal time without a known zone
        date = date.replace(tzinfo=UTC)
    seconds = (date - now).total_seconds()
    return seconds if seconds > 0 else None
