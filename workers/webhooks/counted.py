"""What is counted of webhook attempts."""

from datetime import datetime
from functools import cache
from typing import Final

from prometheus_client import Counter, Histogram

from workers.webhooks.lanes import DueDelivery

# Kept by their labels: to look a counter up costs more than to count.
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


def count_attempt(due: DueDelivery, outcome: str, started_at: datetime, duration_s: float) -> None:
    mode = "test" if due.test else "production"
    _attempts(outcome, mode).inc()
    _duration(mode).observe(duration_s)
    if due.attempt == 1 and not due.probe:
        _delay(mode).observe((started_at - due.due_at).total_seconds())
