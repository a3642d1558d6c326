"""Charges: the list with the API's filters."""

from uuid import UUID

from msgspec.structs import replace

from commands.charges.expire import expire_account
from domain.instants import parse_day
from readmodels.charges.charge import ChargeDoc
from readmodels.charges.charge_list import ChargeFilters, charge_page, due_days, walks_due_dates
from readmodels.page import TimePosition
from readmodels.reports.csv_lines import Cents
from runtime.postgres import session
from web.painel.csv_export import Columns
from web.painel.labels import METHODS, STATUS
from web.painel.list_page import ListPage
from web.painel.page_request import PageRequest
from web.painel.rows import instant

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


async def settle(request: PageRequest) -> None:
    await expire_account(request.pool, request.owner, now=request.now)


async def _by_due_day(request: PageRequest, filters: ChargeFilters) -> list[ChargeFilters]:
    """By due date a file's charges come day by day: each day is one range of its index, where a page over all days at
    once would read the beginning of each of them."""
    if not walks_due_dates(filters):
        return [filters]
    async with session(request.pool) as conn:
        days = await due_days(conn, request.owner, filters)
    return [replace(filters, due_from=day, due_to=day) for day in days]


LIST = ListPage(
    name="charges",
    path="/cobrancas",
    filters=ChargeFilters,
    more_names=("order",),
    fetch=lambda request: charge_page,
    position=TimePosition,
    at=lambda doc: TimePosition(instant(doc.created_at), UUID(doc.charge_id)),
    columns=_COLUMNS,
    before=settle,
    parts=_by_due_day,
)
