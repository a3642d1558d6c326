"""Redeliver events: one delivery, or every event in a range of the feed."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

import asyncpg

import sql
from domain.errors import Code, Refused
from domain.mode import Owner
from sql import Connection

Found = TypeVar("Found")

RANGE_MAX = 10_000
"""Sequence numbers in one range: the transaction takes less than a second, and the deliveries about a minute."""

_SPACING = timedelta(milliseconds=5)  # 200/s: the rate of ten concurrent requests to a receiver that answers in 50 ms
_TRIES_MAX: Final = 5


hold = sql.maybe("redeliver.hold", UUID)
again = sql.maybe("redeliver.one", UUID)
redeliver_in_range = sql.one("redeliver.range", int)


async def redeliver(conn: Connection, owner: Owner, delivery_id: UUID, *, now: datetime) -> None:
    """Make this delivery due now, and start its retry schedule anew. A delivery that is being sent stays as it is, so
    none is sent twice at once. Refused(DELIVERY_NOT_FOUND) for a delivery of another owner, and for one whose event has
    left the feed, because its body is gone."""
    endpoint_id = await hold(conn, account_id=owner.account_id)
    if endpoint_id is None:
        raise Refused(Code.DELIVERY_NOT_FOUND)
    one = partial(again, conn, delivery_id=delivery_id, endpoint_id=endpoint_id, test=owner.test, now=now)
    if await _retry_serialization(conn, one) is None:
        raise Refused(Code.DELIVERY_NOT_FOUND)


async def redeliver_range(
    conn: Connection, owner: Owner, from_sequence: int, to_sequence: int, *, now: datetime
) -> int:
    """Send every event of this range (both ends included) whose kind the endpoint receives, again or for the first
    time. Returns how many deliveries are due, those that were due before included.

    Refuses a range that ends before it begins or is wider than RANGE_MAX (VALIDATION_ERROR).
    """
    if to_sequence < from_sequence:
        raise Refused(Code.VALIDATION_ERROR, fields={"to_sequence": "must not be before from_sequence"})
    if to_sequence - from_sequence >= RANGE_MAX:
        raise Refused(Code.VALIDATION_ERROR, fields={"to_sequence": f"a range has at most {RANGE_MAX} numbers"})
    await hold(conn, account_id=owner.account_id)
    every = partial(
        redeliver_in_range,
        conn,
        account_id=owner.account_id,
        test=owner.test,
        from_sequence=from_sequence,
        to_sequence=to_sequence,
        apart=_SPACING,
        now=now,
    )
    return await _retry_serialization(conn, every)


async def _retry_serialization(conn: Connection, statement: Callable[[], Awaitable[Found]]) -> Found:
    """Run the statement, and again after a serialization error (40001). Storing a receiver's answer moves the
    delivery's row to another partition, and a statement that waits for the row then fails; the next snapshot finds it.
    """
    for _ in range(_TRIES_MAX - 1):
        try:
            async with conn.transaction():  # inside the caller's: a savepoint
                return await statement()
        except asyncpg.SerializationError:
            continue
    return await statement()
