"""Refunds, page by page, by the instant they were asked for."""

from datetime import UTC, datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.mode import Owner
from domain.refund import RefundStatus
from readmodels.money.refund import RefundProjection, RefundRow, present_refund
from readmodels.page import SortOrder, cut
from sql import Connection

STATUSES = tuple(each.value for each in RefundStatus)
_BEGINNING = datetime(1, 1, 2, tzinfo=UTC)
_END = datetime(9999, 12, 30, tzinfo=UTC)


class RefundFilters(Struct, frozen=True, kw_only=True):
    statuses: tuple[str, ...] = ()
    charge_id: UUID | None = None
    payment_id: UUID | None = None
    external_id: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    order: SortOrder = SortOrder.DESC


class RefundPosition(Struct, frozen=True, array_like=True):
    created_at: datetime
    refund_id: UUID


class _Row(Struct, frozen=True, gc=False):
    refund_id: UUID
    created_at: datetime
    doc: bytes
    paid_cents: int
    refunded_cents: int
    refunding_cents: int


_PAGE = {
    (path, order): sql.many(f"read_refund.{path}_{order.value}", _Row)
    for path in ("page", "by_charge", "by_payment", "by_reference", "by_status")
    for order in SortOrder
}


async def refund_page(
    conn: Connection, owner: Owner, filters: RefundFilters, after: RefundPosition | None, limit: int
) -> tuple[list[RefundProjection], RefundPosition | None]:
    """One page in the order (created_at, refund_id), and where the next one begins."""
    ascending = filters.order is SortOrder.ASC
    rows, last = cut(
        await _PAGE[_path(filters), filters.order](
            conn,
            account_id=owner.account_id,
            test=owner.test,
            statuses=list(filters.statuses) or None,
            charge_id=filters.charge_id,
            payment_id=filters.payment_id,
            external_id=filters.external_id,
            created_from=filters.created_from or _BEGINNING,
            created_to=filters.created_to or _END,
            at=after.created_at if after else (_BEGINNING if ascending else _END),
            id=after.refund_id if after else UUID(int=0 if ascending else 2**128 - 1),
            most=limit + 1,
        ),
        limit,
    )
    items = [
        present_refund(RefundRow(row.doc, row.paid_cents, row.refunded_cents, row.refunding_cents)) for row in rows
    ]
    return items, RefundPosition(last.created_at, last.refund_id) if last else None


def _path(filters: RefundFilters) -> str:
    """The narrowest range there is an index for; what else is asked for is a condition on its rows."""
    if filters.payment_id is not None:
        return "by_payment"
    if filters.charge_id is not None:
        return "by_charge"
    if filters.external_id is not None:
        return "by_reference"
    return "by_status" if filters.statuses else "page"
