"""Instants and days as the contract writes them: UTC with milliseconds outside, São Paulo days for dates."""

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

SAO_PAULO = ZoneInfo("America/Sao_Paulo")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def to_millisecond(at: datetime) -> datetime:
    """Cut an instant to milliseconds. Stored and shown instants are then equal, so cursors and comparisons never
    disagree with the answer."""
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def iso(at: datetime) -> str:
    """`2026-11-21T09:54:00.123Z`; `at` must be in UTC."""
    return at.isoformat(timespec="milliseconds")[:23] + "Z"


def parse_day(text: str) -> date:
    """Parse a strict `YYYY-MM-DD`; raises ValueError for anything else, also for other forms that date.fromisoformat
    accepts."""
    if not _DAY.fullmatch(text):
        raise ValueError(f"not a date: {text!r}")
    return date.fromisoformat(text)


def day_of(at: datetime) -> date:
    """Returns the São Paulo day of an instant."""
    return at.astimezone(SAO_PAULO).date()


def day_begins(day: date) -> datetime:
    """Returns the instant (UTC) at which a São Paulo day begins; days outside year 2..9998 are clamped to it."""
    safe = min(max(day, date(2, 1, 1)), date(9998, 12, 31))
    return datetime(safe.year, safe.month, safe.day, tzinfo=SAO_PAULO).astimezone(UTC)


def day_ends(day: date) -> datetime:
    """Returns the first instant (UTC) after a São Paulo day."""
    return day_begins(min(day, date(9998, 12, 30)) + timedelta(days=1))
