"""Refunds, page by page, in the order in which they were requested."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import sql
from domain.mode import Owner
from domain.refund import RefundStatus
from readmodels.filters import OneOf
from readmodels.money.refund import RefundProjection, RefundRow, present_refund
from readmodels.page import ListFilters, TimePosition, time_page
from sql import Connection

STATUSES = tuple(each.value for each in RefundStatus)


class RefundFilters(ListFilters, frozen=True, kw_only=True):
    charge_id: UUID | None = None
    payment_id: UUID | None = None
    statuses: Annotated[tuple[str, ...], OneOf(STATUSES, "status")] = ()
    external_id: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None


_page = sql.list_of("read_refund.page", RefundRow)
_page_by_status = sql.list_of("read_refund.by_status", RefundRow)


async def refund_page(
    conn: Connection, owner: Owner, filters: RefundFilters, after: TimePosition | None, limit: int
) -> tuple[list[RefundProjection], TimePosition | None]:
    """One page in the order (created_at, refund_id), and the position after which the next page begins."""
    has_key = filters.charge_id or filters.payment_id or filters.external_id is not None
    rows, last = await time_page(
        _page_by_status if filters.statuses and not has_key else _page,
        conn,
        filters.order,
        after,
        limit,
        account_id=owner.account_id,
        test=owner.test,
        statuses=filters.statuses or None,
        charge_id=filters.charge_id,
        payment_id=filters.payment_id,
        external_id=filters.external_id,
        since=filters.created_from,
        before=filters.created_to,
    )
    return [present_refund(row) for row in rows], last
