"""Tell operators of money that went into suspense, where it waits for a person."""

from collections.abc import Sequence

import structlog
from prometheus_client import Counter

_log = structlog.get_logger()
_suspended = Counter("money_suspended", "Money received that fits no charge.", ["bank"])


def count_from_zero(bank: str) -> None:
    """Start the bank's series at 0: Prometheus sees no increase in a series that begins with its first count."""
    _suspended.labels(bank)


def report_suspended(bank: str, sources: Sequence[str]) -> None:
    """`sources` are endToEndIds and boletos' numbers: who paid is not logged."""
    if sources:
        _suspended.labels(bank).inc(len(sources))
        _log.error("money_without_charge", bank=bank, count=len(sources), first=sources[0])
