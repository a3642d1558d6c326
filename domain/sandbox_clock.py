"""The clock of an account's sandbox: real time, and the seconds by which the merchant has advanced it.

The clock only goes forward, so nothing that has happened in a sandbox is ever in its future. Only test charges are
dated by it. docs/decisions/0013 says where it is stored and read.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

ADVANCE_S_MAX: Final = 366 * 86_400
"""The most that one call advances: a P3000D that was meant to be P30D could not be undone."""
AHEAD_S_MAX: Final = 3_660 * 86_400
"""The most that a clock is ahead, ten years: a barcode carries due dates up to 2049 only."""

_DURATION = re.compile(
    r"P(?:(\d{1,3})W|(?:(\d{1,4})D)?(?:T(?=\d)(?:(\d{1,5})H)?(?:(\d{1,7})M)?(?:(\d{1,9})S)?)?)", re.ASCII
)
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z", re.ASCII)
_SECONDS: Final = (7 * 86_400, 86_400, 3_600, 60, 1)


def on_clock(now: datetime, ahead_s: int) -> datetime:
    """Returns the time on a clock that is `ahead_s` ahead, at the real instant `now`."""
    return now + timedelta(seconds=ahead_s) if ahead_s else now


def parse_advance(text: str) -> int:
    """Returns the seconds of an ISO 8601 duration in whole weeks, or days, hours, minutes and seconds: `P1W`, `P3D`,
    `PT36H`, `P1DT12H`. Months and years are refused, because they have no fixed length. ValueError unless the duration
    is more than 0 and at most ADVANCE_S_MAX."""
    match = _DURATION.fullmatch(text)
    seconds = 0
    if match is not None:
        seconds = sum(int(part) * unit for part, unit in zip(match.groups("0"), _SECONDS, strict=True))
    if not 0 < seconds <= ADVANCE_S_MAX:
        raise ValueError(f"not a duration: {text!r}")
    return seconds


def parse_instant(text: str) -> datetime:
    """Parse `2026-11-21T09:54:00.123Z`, in any precision down to the microsecond; ValueError for anything else."""
    if not _INSTANT.fullmatch(text):
        raise ValueError(f"not an instant: {text!r}")
    return datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC)


def ahead_to_reach(to: datetime, *, now: datetime) -> int:
    """Returns by how many whole seconds a clock must be ahead at `now` to have reached `to`, at least 0."""
    return max(0, -((now - to) // timedelta(seconds=1)))
