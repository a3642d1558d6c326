"""The list of refunds of all charges, completed or pending. A refund is asked for on the page of its charge."""

from uuid import UUID

from readmodels.money.refund import RefundProjection
from readmodels.money.refund_list import RefundFilters, refund_page
from readmodels.page import TimePosition
from web.painel.csv_export import Columns
from web.painel.labels import REFUND_FAILURES, REFUND_STATES
from web.painel.list_page import ListPage
from web.painel.rows import cents, instant, refunds_with_references

_COLUMNS: Columns[RefundProjection] = {
    "refund_id": lambda item: item.refund_id,
    "charge_id": lambda item: item.charge_id,
    "payment_id": lambda item: item.payment_id,
    "referencia": lambda item: item.external_id,
    "situacao": lambda item: REFUND_STATES[item.status],
    "valor": lambda item: cents(item.amount),
    "pedida_em": lambda item: instant(item.created_at),
    "concluida_em": lambda item: None if item.completed_at is None else instant(item.completed_at),
    "motivo": lambda item: item.reason,
    "falha": lambda item: REFUND_FAILURES.get(item.failure_code or "", item.failure_code),
    "end_to_end_id": lambda item: item.end_to_end_id,
    "return_id": lambda item: item.return_id,
}


LIST = ListPage(
    name="refunds",
    path="/devolucoes",
    filters=RefundFilters,
    fetch=lambda request: refund_page,
    position=TimePosition,
    at=lambda item: TimePosition(instant(item.created_at), UUID(item.refund_id)),
    rows=lambda conn, items, request: refunds_with_references(conn, items, request.owner),
    columns=_COLUMNS,
)
