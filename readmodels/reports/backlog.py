"""What is due in a queue, as the gauges of a worker and the staff's first page show it."""

from datetime import datetime
from typing import Final

from msgspec import Struct

import sql

COUNTED_MAX: Final = 10_000
"""Rows counted of one queue: that many already show that something is wrong."""
LANES_MAX: Final = 1_000
"""Lanes visited, while COUNTED_MAX deliveries are due, for those that a failing receiver's deliveries hide."""


class QueueBacklog(Struct, frozen=True):
    """`oldest`: since when the oldest item is due; None when nothing is due."""

    queue: str
    mode: str
    waiting: int
    oldest: datetime | None


find_due_deliveries = sql.many("backlog.deliveries", QueueBacklog)
"""Due deliveries by mode, those to failing receivers apart. Takes `now`, `counted_max` and `lanes_max`."""
