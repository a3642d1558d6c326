"""Webhook deliveries with their attempts, newest first: the outcome of each event at the merchant's endpoint.

Deliveries are listed in the order of the feed and take the feed's filters, so that a page of deliveries corresponds to
a page of the feed. Filters by day select by the event's day. `created_at` is when the delivery was created, which is
later than the event when the endpoint was registered after it.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

import sql
from domain.instants import iso
from domain.mode import Owner
from readmodels.filters import OneOf
from readmodels.page import ListFilters, SequencePosition, sequence_page, sequence_window
from readmodels.webhooks.event_list import KINDS, find_bounds
from sql import Connection

STATES = ("pending", "sending", "delivered", "held", "exhausted", "stuck")
OUTCOMES = (
    "delivered", "rejected", "timeout", "connection_refused", "connection_reset", "dns_error", "tls_error",
    "blocked_address", "worker_lost", "network_error",
)  # fmt: skip
ATTEMPTS_MAX = 20
"""The newest attempts of a delivery that are shown. A full schedule makes 13; a redelivery by hand adds more."""

_Id = Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
_Instant = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class DeliveryAttempt(Struct, frozen=True, gc=False):
    """One request to the endpoint. `status` and `answer` (the first KiB of the body) are null when the endpoint did not
    answer."""

    attempt: Annotated[int, Meta(ge=1, description="Number of the attempt, as sent in X-Service-Attempt.")]
    started_at: _Instant
    duration_ms: Annotated[int, Meta(ge=0)]
    status: int | None
    outcome: Annotated[str, Meta(extra_json_schema={"enum": list(OUTCOMES)})]
    answer: str | None


class Delivery(Struct, frozen=True, kw_only=True):
    """The delivery of one event to one endpoint. `attempts` are the finished attempts, at most the newest 20, oldest
    first."""

    delivery_id: _Id
    event_id: str
    type: Annotated[str, Meta(extra_json_schema={"enum": list(KINDS)})]
    sequence: int
    charge_id: str | None
    url: Annotated[str, Meta(description="Present address of the endpoint.")]
    state: Annotated[str, Meta(extra_json_schema={"enum": list(STATES)})]
    attempt_count: Annotated[int, Meta(ge=0, description="Number of attempts begun, including one that is under way.")]
    next_attempt_at: Annotated[
        _Instant | None, Meta(description="When the next attempt is due; null unless the state is pending.")
    ]
    created_at: str
    delivered_at: _Instant | None
    test: bool
    attempts: Annotated[list[DeliveryAttempt], Meta(max_length=ATTEMPTS_MAX)]


class DeliveryFilters(ListFilters, frozen=True, kw_only=True):
    states: Annotated[tuple[str, ...], OneOf(STATES, "state")] = ()
    types: Annotated[tuple[str, ...], OneOf(KINDS, "type")] = ()
    event_id: UUID | None = None
    charge_id: UUID | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None


class _Row(Struct, frozen=True, gc=False):
    delivery_id: UUID
    event_id: UUID
    type: str
    sequence: int
    charge_id: UUID | None
    url: str
    state: str
    attempt: int
    due_at: datetime
    created_at: datetime
    delivered_at: datetime | None
    test: bool


class _AttemptRow(Struct, frozen=True, gc=False):
    delivery_id: UUID
    attempt: int
    started_at: datetime
    duration_ms: int
    status: int | None
    outcome: str
    answer: bytes | None


find_delivery = sql.maybe("read_delivery.find", _Row)
find_attempts = sql.many("read_delivery.attempts", _AttemptRow)
_PAGES = {path: sql.list_of(f"read_delivery.{path}", _Row) for path in ("page", "by_state", "by_charge")}
_find_by_event = sql.list_of("read_delivery.by_event", _Row)


async def delivery(conn: Connection, owner: Owner, delivery_id: UUID) -> Delivery | None:
    """The account's delivery as it is now, or None."""
    row = await find_delivery(conn, delivery_id=delivery_id, account_id=owner.account_id, test=owner.test)
    return None if row is None else (await _deliveries_with_attempts(conn, [row]))[0]


async def delivery_page(
    conn: Connection, owner: Owner, filters: DeliveryFilters, after: SequencePosition | None, limit: int
) -> tuple[list[Delivery], SequencePosition | None]:
    """One page in the order of the events' sequence, and the position after which the next page begins."""
    window = await sequence_window(find_bounds, conn, owner, filters.created_from, filters.created_to)
    parameters = {
        "account_id": owner.account_id,
        "test": owner.test,
        "charge_id": filters.charge_id,
        "states": filters.states or STATES,
        "types": filters.types or KINDS,
    }
    if filters.event_id is not None:
        deliveries_of_event = await _find_by_event(
            conn, **parameters, event_id=filters.event_id, above=window.above, below=window.below
        )
        return await _deliveries_with_attempts(conn, deliveries_of_event), None
    statement = "by_charge" if filters.charge_id else "by_state" if filters.states or filters.types else "page"
    rows, last = await sequence_page(_PAGES[statement], conn, filters.order, after, limit, window, **parameters)
    return await _deliveries_with_attempts(conn, rows), last


async def _deliveries_with_attempts(conn: Connection, rows: Sequence[_Row]) -> list[Delivery]:
    attempts_by_delivery: dict[UUID, list[DeliveryAttempt]] = defaultdict(list)
    attempted_ids = [row.delivery_id for row in rows if row.attempt]
    # Deliveries are read before attempts. An attempt that ended in between is left out, because it would be shown as
    # finished in a delivery whose state is still `sending`.
    under_way = {(row.delivery_id, row.attempt) for row in rows if row.state == "sending"}
    if attempted_ids:
        for each in await find_attempts(conn, delivery_ids=attempted_ids, limit=ATTEMPTS_MAX):
            if (each.delivery_id, each.attempt) in under_way:
                continue
            attempts_by_delivery[each.delivery_id].append(
                DeliveryAttempt(
                    each.attempt,
                    iso(each.started_at),
                    each.duration_ms,
                    each.status,
                    each.outcome,
                    None if each.answer is None else each.answer.decode("utf-8", "replace"),
                )
            )
    return [
        Delivery(
            delivery_id=str(row.delivery_id),
            event_id=str(row.event_id),
            type=row.type,
            sequence=row.sequence,
            charge_id=None if row.charge_id is None else str(row.charge_id),
            url=row.url,
            state=row.state,
            attempt_count=row.attempt,
            next_attempt_at=iso(row.due_at) if row.state == "pending" else None,
            created_at=iso(row.created_at),
            delivered_at=None if row.delivered_at is None else iso(row.delivered_at),
            test=row.test,
            attempts=attempts_by_delivery[row.delivery_id],
        )
        for row in rows
    ]
