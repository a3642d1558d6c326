"""Refunds: what was sent back, or is on its way, of whichever charge. They are asked for on a charge's own page."""

from typing import Any
from uuid import UUID

from litestar.response import Response
from msgspec.structs import replace

from readmodels.money.refund import RefundProjection
from readmodels.money.refund_list import STATUSES, RefundFilters, refund_page
from readmodels.page import SortOrder, TimePosition
from readmodels.reports.csv_lines import Cents
from runtime.postgres import session
from web.painel.csv_export import ROWS, Columns, back_to, pages, sheet
from web.painel.labels import REFUND_FAILURES, REFUND_STATES
from web.painel.lists import PAGE, ListQuery, walk
from web.painel.page_request import PageRequest
from web.painel.rows import RefundRow, cents, instant, refund_rows

_FILTERS = ("status", "external_id", "charge_id", "payment_id", "created_from", "created_to")
_COLUMNS: Columns[RefundProjection] = {
    "refund_id": lambda item: item.refund_id,
    "charge_id": lambda item: item.charge_id,
    "payment_id": lambda item: item.payment_id,
    "referencia": lambda item: item.external_id,
    "situacao": lambda item: REFUND_STATES[item.status],
    "valor": lambda item: Cents(cents(item.amount)),
    "pedida_em": lambda item: instant(item.created_at),
    "concluida_em": lambda item: None if item.completed_at is None else instant(item.completed_at),
    "motivo": lambda item: item.reason,
    "falha": lambda item: REFUND_FAILURES.get(item.failure_code or "", item.failure_code),
    "end_to_end_id": lambda item: item.end_to_end_id,
    "return_id": lambda item: item.return_id,
}


async def show_list(request: PageRequest) -> Response[Any]:
    asked = ListQuery(request.http, _FILTERS)
    filters = _filters(asked)
    values: dict[str, object] = {"asked": asked, "states": REFUND_STATES, "walked": None}
    if asked.faults:
        return request.show("refunds.html", values, status=400)

    async def fetch(order: SortOrder, after: TimePosition | None) -> tuple[list[RefundRow], TimePosition | None]:
        async with session(request.pool) as conn:
            items, last = await refund_page(conn, request.owner, replace(filters, order=order), after, PAGE)
            return await refund_rows(conn, items, request), last

    values["walked"] = await walk(
        request,
        asked,
        "refunds",
        filters,
        TimePosition,
        fetch,
        lambda row: TimePosition(row.created_at, UUID(row.refund_id)),
    )
    return request.show("refunds.html", values)


async def show_csv(request: PageRequest) -> Response[Any]:
    asked = ListQuery(request.http, _FILTERS)
    filters = _filters(asked)
    if asked.faults:
        return back_to(request, "/devolucoes", asked)

    async def fetch(after: TimePosition | None) -> tuple[list[RefundProjection], TimePosition | None]:
        async with session(request.pool) as conn:
            return await refund_page(conn, request.owner, filters, after, ROWS)

    return sheet(request, "devolucoes", _COLUMNS, pages(fetch))


def _filters(asked: ListQuery) -> RefundFilters:
    created_from, created_to = asked.days("created_from", "created_to")
    return RefundFilters(
        statuses=asked.choices("status", STATUSES),
        external_id=asked.word("external_id"),
        charge_id=asked.uuid("charge_id"),
        payment_id=asked.uuid("payment_id"),
        created_from=created_from,
        created_to=created_to,
    )
