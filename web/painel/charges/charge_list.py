"""Charges: the list with the API's filters, the number of charges by status, and the search for one charge."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from litestar.response import Response
from msgspec.structs import replace

from commands.charges.expire import expire_account
from domain.instants import iso, parse_day
from readmodels.charges.charge import ChargeDoc
from readmodels.charges.charge_list import (
    STATUSES,
    ChargeFilters,
    StatusCents,
    due_days,
    walks_due_dates,
)
from readmodels.charges.current_list import current_page, current_sums
from readmodels.charges.newest_search import (
    FOUND_MAX,
    LOOKED_MAX,
    newest_of_amount,
    newest_of_payer,
    typed_amount,
)
from readmodels.charges.search import search_charge
from readmodels.filters import read_text
from readmodels.page import TimePosition
from readmodels.reports.csv_lines import Cents
from sql import Connection
from web.painel.csv_export import Columns
from web.painel.labels import METHODS, STATUS
from web.painel.list_page import ListPage
from web.painel.lists import ListQuery, WalkedPage
from web.painel.page_request import PageRequest, go
from web.painel.rows import ListedCharge, charges_with_payers, instant, metadata_text
from web.painel.totals import totals_in_time

_COLUMNS: Columns[ListedCharge] = {
    "charge_id": lambda row: row.doc.charge_id,
    "referencia": lambda row: row.doc.external_id,
    "descricao": lambda row: row.doc.description,
    "forma": lambda row: METHODS[row.doc.payment_method],
    "situacao": lambda row: STATUS[row.doc.status],
    "pagador": lambda row: row.payer.name,
    "documento": lambda row: row.payer.document,
    "valor": lambda row: Cents(row.doc.amount_cents),
    "criada_em": lambda row: instant(row.doc.created_at),
    "vencimento": lambda row: None if row.doc.due_date is None else parse_day(row.doc.due_date),
    "expira_em": lambda row: None if row.doc.expires_at is None else instant(row.doc.expires_at),
    "paga_em": lambda row: None if row.doc.paid_at is None else instant(row.doc.paid_at),
    "valor_pago": lambda row: None if row.doc.payment is None else Cents(row.doc.payment.amount_cents),
    "valor_devolvido": lambda row: Cents(row.doc.refunded_cents),
    "cancelada_em": lambda row: None if row.doc.cancelled_at is None else instant(row.doc.cancelled_at),
    "txid": lambda row: row.doc.txid,
    "nosso_numero": lambda row: row.doc.nosso_numero,
    "linha_digitavel": lambda row: None if row.doc.boleto is None else row.doc.boleto.linha_digitavel,
    "integrador": lambda row: row.doc.integrador_code,
    "metadados": lambda row: None if row.doc.metadata is None else metadata_text(row.doc.metadata),
}


async def settle(request: PageRequest) -> None:
    await expire_account(request.pool, request.owner, now=request.now)


async def _split_by_due_date(request: PageRequest, filters: ChargeFilters) -> list[ChargeFilters]:
    """Returns the filters of a file's parts, one for each due date if the list is read by due date: the charges of one
    day are one range of the index, while a page over all days would read the beginning of each day's range."""
    if not walks_due_dates(filters):
        return [filters]
    days = await request.reads.ask(lambda conn: due_days(conn, request.owner, filters))
    return [replace(filters, due_from=day, due_to=day) for day in days]


async def _listed_charges(conn: Connection, docs: Sequence[ChargeDoc], request: PageRequest) -> Sequence[ListedCharge]:
    return await charges_with_payers(conn, docs, request.owner, request.seal, request.payers)


async def _status_totals(request: PageRequest, filters: ChargeFilters) -> Mapping[str, object]:
    """Returns `counts` by status without regard to the status filter, and `shown`, the totals of the statuses asked
    for; `counts` is None when counting takes too long."""
    any_status = replace(filters, statuses=())
    counts = await totals_in_time(
        request, lambda conn: current_sums(conn, request.owner, any_status, now=request.account_now)
    )
    if counts is None:
        return {"counts": None}
    chosen = [counts[status] for status in filters.statuses or STATUSES]
    shown = StatusCents(sum(each.count for each in chosen), sum(each.cents for each in chosen))
    return {"counts": counts, "shown": shown, "count_of_all": sum(each.count for each in counts.values())}


async def search(request: PageRequest) -> Response[Any]:
    """Redirects to the charge that was typed, or to the list of charges that match; without a match, answers a page
    that says so."""
    query = ListQuery(request.http, ("q",))
    text = read_text(query, "q")
    match = None
    if text is not None:
        find = partial(search_charge, owner=request.owner, text=text, blind=request.seal.blind)
        match = await request.reads.ask(find)
    if match is None:
        query.given.clear()
        return request.show("charges.html", {"asked": query, **await _newest_matches(request, text or "")})
    if match.charge_id is not None:
        return go(request.here(f"/cobrancas/{match.charge_id}"))
    return go(f"{request.here('/cobrancas')}?{urlencode({match.parameter: match.value})}")


async def _newest_matches(request: PageRequest, text: str) -> Mapping[str, object]:
    """Returns the newest charges of a typed amount, or of payers with the typed words in their name. The search by name
    is for people who see payers unmasked."""
    amount_cents = typed_amount(text)
    find: Callable[[Connection], Awaitable[list[ChargeDoc]]] | None = None
    if amount_cents is not None:
        find = partial(newest_of_amount, owner=request.owner, amount_cents=amount_cents)
    elif request.payers.whole and any(each.isalpha() for each in text):
        find = partial(newest_of_payer, owner=request.owner, text=text, seal=request.seal)

    async def read(conn: Connection) -> Sequence[ListedCharge]:
        docs = [] if find is None else [doc.at(iso(request.account_now)) for doc in await find(conn)]
        return await _listed_charges(conn, docs, request)

    rows = await request.reads.ask(read)
    return {
        "walked": WalkedPage(rows, "", "") if rows else None,
        "searched": text,
        "searched_amount": amount_cents,
        "looked_max": LOOKED_MAX,
        "found_max": FOUND_MAX,
        "action": request.here("/cobrancas"),
    }


LIST = ListPage(
    name="charges",
    path="/cobrancas",
    filters=ChargeFilters,
    more_names=("order",),
    fetch=lambda request: partial(current_page, now=request.account_now),
    position=TimePosition,
    at=lambda doc: TimePosition(instant(doc.created_at), UUID(doc.charge_id)),
    rows=_listed_charges,
    columns=_COLUMNS,
    more=_status_totals,
    before=settle,
    parts=_split_by_due_date,
)
