"""Charges: the list with the API's filters."""

from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

from litestar.response import Response
from msgspec.structs import replace

from commands.charges.expire import expire_account
from domain.instants import parse_day
from readmodels.charges.charge import ChargeDoc
from readmodels.charges.charge_list import METHODS as ALL_METHODS
from readmodels.charges.charge_list import STATUSES, ChargeFilters, charge_page, due_days, walks_due_dates
from readmodels.page import SortOrder, TimePosition
from readmodels.reports.csv_lines import Cents
from runtime.postgres import session
from web.painel.csv_export import ROWS, Columns, back_to, pages, sheet
from web.painel.labels import METHODS, STATUS
from web.painel.lists import PAGE, ListQuery, walk
from web.painel.page_request import PageRequest
from web.painel.rows import ChargeRow, charge_row, instant

_FILTERS = (
    "status", "payment_method", "external_id", "payer_document", "nosso_numero", "txid", "integrador_code",
    "created_from", "created_to", "due_from", "due_to", "order",
)  # fmt: skip
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


async def show_list(request: PageRequest) -> Response[Any]:
    asked = ListQuery(request.http, _FILTERS)
    filters = _filters(asked, request)
    values: dict[str, object] = {"asked": asked, "statuses": STATUS, "methods": METHODS, "walked": None}
    if asked.faults:
        return request.show("charges.html", values, status=400)
    owner = request.owner
    await expire_account(request.pool, owner, now=request.now)

    async def fetch(order: SortOrder, after: TimePosition | None) -> tuple[list[ChargeRow], TimePosition | None]:
        async with session(request.pool) as conn:
            docs, last = await charge_page(conn, owner, replace(filters, order=order), after, PAGE)
        return [charge_row(doc, request) for doc in docs], last

    values["walked"] = await walk(
        request, asked, "charges", filters, TimePosition, fetch, _position, order=filters.order
    )
    return request.show("charges.html", values)


async def show_csv(request: PageRequest) -> Response[Any]:
    asked = ListQuery(request.http, _FILTERS)
    filters = _filters(asked, request)
    if asked.faults:
        return back_to(request, "/cobrancas", asked)
    await expire_account(request.pool, request.owner, now=request.now)
    return sheet(request, "cobrancas", _COLUMNS, _all(request, filters))


async def _all(request: PageRequest, filters: ChargeFilters) -> AsyncIterator[Sequence[ChargeDoc]]:
    """Every charge of the filters. By due date they come day by day: each day is one range of its index, where a page
    over all days at once would read the beginning of each of them."""
    parts = [filters]
    if walks_due_dates(filters):
        async with session(request.pool) as conn:
            days = await due_days(conn, request.owner, filters)
        parts = [replace(filters, due_from=day, due_to=day) for day in days]
    for part in parts:

        async def fetch(
            after: TimePosition | None, part: ChargeFilters = part
        ) -> tuple[Sequence[ChargeDoc], TimePosition | None]:
            async with session(request.pool) as conn:
                return await charge_page(conn, request.owner, part, after, ROWS)

        async for docs in pages(fetch):
            yield docs


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


def _position(row: ChargeRow) -> TimePosition:
    return TimePosition(row.created_at, UUID(row.charge_id))
