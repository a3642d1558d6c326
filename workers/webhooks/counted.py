"""Metrics and log lines of webhook attempts."""

from datetime import datetime
from functools import cache
from typing import Any, Final

import structlog
from prometheus_client import Counter, Histogram

from workers.webhooks.attempt import ReceiverAnswer
from workers.webhooks.lanes import DueDelivery

# Cached by their labels: looking up a counter costs more than counting.
_attempts: Final = cache(Counter("webhook_deliveries", "Webhook attempts by outcome.", ["outcome", "mode"]).labels)
_duration: Final = cache(Histogram("webhook_delivery_duration_seconds", "How long receivers took.", ["mode"]).labels)
_delay: Final = cache(
    Histogram(
        "quita_webhook_delay_seconds",
        "From when an event's first attempt was due to its beginning, of lanes that are not being probed.",
        ["mode"],
        buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
    ).labels
)


_log = structlog.get_logger()


def log_fields(due: DueDelivery) -> dict[str, Any]:
    """The fields that identify a delivery in a log line."""
    return {
        "delivery_id": str(due.delivery_id),
        "event_id": str(due.event_id),
        "attempt": due.attempt,
        "test": due.test,
        "request_id": due.request_id,
    }


def count_attempt(due: DueDelivery, answer: ReceiverAnswer, started_at: datetime, duration_s: float) -> None:
    """Count the attempt, and log one line for it, as the API does for each request."""
    mode = "test" if due.test else "production"
    duration_ms = round(duration_s * 1000)
    _log.info("webhook_sent", outcome=answer.outcome, status=answer.status, duration_ms=duration_ms, **log_fields(due))
    _attempts(answer.outcome, mode).inc()
    _duration(mode).observe(duration_s)
    if due.attempt == 1 and not due.probe:
        _delay(mode).observe((started_at - due.due_at).total_seconds())
