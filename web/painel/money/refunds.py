"""Refunds: what was sent back, or is on its way, of whichever charge. They are asked for on a charge's own page."""

from uuid import UUID

from readmodels.money.refund import RefundProjection
from readmodels.money.refund_list import STATUSES, RefundFilters, refund_page
from readmodels.page import TimePosition
from readmodels.reports.csv_lines import Cents
from web.painel.csv_export import Columns
from web.painel.labels import REFUND_FAILURES, REFUND_STATES
from web.painel.list_page import ListPage
from web.painel.lists import ListQuery
from web.painel.page_request import PageRequest
from web.painel.rows import cents, instant, refund_rows

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


def _filters(asked: ListQuery, request: PageRequest) -> RefundFilters:
    created_from, created_to = asked.days("created_from", "created_to")
    return RefundFilters(
        statuses=asked.choices("status", STATUSES),
        external_id=asked.word("external_id"),
        charge_id=asked.uuid("charge_id"),
        payment_id=asked.uuid("payment_id"),
        created_from=created_from,
        created_to=created_to,
    )


LIST = ListPage(
    name="refunds",
    path="/devolucoes",
    names=("status", "external_id", "charge_id", "payment_id", "created_from", "created_to"),
    words={"states": REFUND_STATES},
    filters=_filters,
    fetch=lambda conn, request, filters, after, limit: refund_page(conn, request.owner, filters, after, limit),
    position=TimePosition,
    at=lambda item: TimePosition(instant(item.created_at), UUID(item.refund_id)),
    rows=refund_rows,
    columns=_COLUMNS,
)
