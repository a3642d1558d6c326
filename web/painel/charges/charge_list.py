"""Charges: the list with the API's filters."""

from collections.abc import Sequence
from uuid import UUID

from msgspec.structs import replace

from commands.charges.expire import expire_account
from domain.instants import parse_day
from readmodels.charges.charge import ChargeDoc
from readmodels.charges.charge_list import METHODS as ALL_METHODS
from readmodels.charges.charge_list import STATUSES, ChargeFilters, charge_page, due_days, walks_due_dates
from readmodels.page import SortOrder, TimePosition
from readmodels.reports.csv_lines import Cents
from runtime.postgres import session
from sql import Connection
from web.painel.csv_export import Columns
from web.painel.labels import METHODS, STATUS
from web.painel.list_page import ListPage
from web.painel.lists import ListQuery
from web.painel.page_request import PageRequest
from web.painel.rows import ChargeRow, charge_row, instant

_COLUMNS: Columns[ChargeDoc] = {
    "charge_id": lambda doc: doc.charge_id,
    "referencia": lambda doc: doc.external_id,
    "descricao": lambda doc: doc.description,
    "forma": lambda doc: METHODS[doc.payment_method],
    "situacao": lambda doc: STATUS[doc.status],
    "valor": lambda doc: Cents(doc.amount_cents),
    "criada_em": lambda doc: instant(doc.created_at),
    "vencimento": lambda doc: None if doc.due_date is None else parse_day(doc.due_date),
    "expira_em": lambda doc: None if doc.expires_at is None else instant(doc.expires_at),
    "paga_em": lambda doc: None if doc.paid_at is None else instant(doc.paid_at),
    "valor_pago": lambda doc: None if doc.payment is None else Cents(doc.payment.amount_cents),
    "valor_devolvido": lambda doc: Cents(doc.refunded_cents),
    "cancelada_em": lambda doc: None if doc.cancelled_at is None else instant(doc.cancelled_at),
    "txid": lambda doc: doc.txid,
    "nosso_numero": lambda doc: doc.nosso_numero,
    "linha_digitavel": lambda doc: None if doc.boleto is None else doc.boleto.linha_digitavel,
    "integrador": lambda doc: doc.integrador_code,
}


async def _settle(request: PageRequest) -> None:
    await expire_account(request.pool, request.owner, now=request.now)


async def _by_due_day(request: PageRequest, filters: ChargeFilters) -> list[ChargeFilters]:
    """By due date a file's charges come day by day: each day is one range of its index, where a page over all days at
    once would read the beginning of each of them."""
    if not walks_due_dates(filters):
        return [filters]
    async with session(request.pool) as conn:
        days = await due_days(conn, request.owner, filters)
    return [replace(filters, due_from=day, due_to=day) for day in days]


async def _rows(conn: Connection, docs: Sequence[ChargeDoc], request: PageRequest) -> list[ChargeRow]:
    return [charge_row(doc, request) for doc in docs]


def _filters(asked: ListQuery, request: PageRequest) -> ChargeFilters:
    created_from, created_to = asked.days("created_from", "created_to")
    due_from, due_to = asked.dates("due_from", "due_to")
    document = asked.digits("payer_document")
    return ChargeFilters(
        statuses=asked.choices("status", STATUSES),
        methods=asked.choices("payment_method", ALL_METHODS),
        external_id=asked.word("external_id"),
        payer_document_hash=None if document is None else request.seal.blind(document),
        nosso_numero=asked.digits("nosso_numero"),
        txid=asked.word("txid"),
        integrador_code=asked.word("integrador_code"),
        created_from=created_from,
        created_to=created_to,
        due_from=due_from,
        due_to=due_to,
        order=SortOrder(asked.choice("order", ("asc", "desc")) or "desc"),
    )


LIST = ListPage(
    name="charges",
    path="/cobrancas",
    names=(
        "status", "payment_method", "external_id", "payer_document", "nosso_numero", "txid", "integrador_code",
        "created_from", "created_to", "due_from", "due_to", "order",
    ),
    words={"statuses": STATUS, "methods": METHODS},
    filters=_filters,
    fetch=lambda conn, request, filters, after, limit: charge_page(conn, request.owner, filters, after, limit),
    position=TimePosition,
    at=lambda doc: TimePosition(instant(doc.created_at), UUID(doc.charge_id)),
    rows=_rows,
    columns=_COLUMNS,
    before=_settle,
    parts=_by_due_day,
)  # fmt: skip
