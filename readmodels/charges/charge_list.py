"""The charges of an account, page by page, and their count and amount per status.

The given filters decide which statement of read_charge.sql is run, and so which index is walked.
"""

from collections import Counter
from datetime import date, datetime, timedelta
from typing import Annotated
from uuid import UUID

from msgspec import Struct

import sql
from domain.charge import Status
from domain.instants import day_begins, day_of
from domain.mode import Owner
from readmodels.charges.charge import ChargeDoc, read_doc
from readmodels.filters import Digits, Fingerprint, OneOf
from readmodels.page import BEGINNING, END, DocRow, ListFilters, SortOrder, TimePosition, time_page
from readmodels.spans import span_ranges, totals_are_fresh
from sql import Connection

METHODS = ("pix", "boleto", "boleto_hibrido", "boleto_pix")
STATUSES = tuple(str(status) for status in Status)

DUE_DAYS_MAX = 20_000
"""More than fifty years of days."""
_LAST_DAY = date(9999, 12, 30)


class ChargeFilters(ListFilters, frozen=True, kw_only=True):
    statuses: Annotated[tuple[str, ...], OneOf(STATUSES, "status")] = ()
    methods: Annotated[tuple[str, ...], OneOf(METHODS, "payment_method")] = ()
    external_id: str | None = None
    payer_document_hash: Annotated[str | None, Fingerprint("payer_document")] = None
    nosso_numero: Annotated[str | None, Digits()] = None
    txid: str | None = None
    integrador_code: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    due_from: date | None = None
    due_to: date | None = None


class _ChargeRow(Struct, frozen=True, gc=False):
    at: datetime
    id: UUID
    doc: bytes
    status: str
    amount_cents: int


class _StatusSum(Struct, frozen=True, gc=False):
    status: str
    count: int
    amount_cents: int


class StatusCents(Struct, frozen=True):
    """The number of charges with a status, and the sum of their amounts in cents."""

    count: int
    cents: int


class StatusSummary(Struct, frozen=True):
    """`amount` is the sum of the charges' amounts in reais."""

    status: str
    count: int
    amount: str


_PAGES = {path: sql.list_of(f"read_charge.{path}", DocRow) for path in ("page", "by_key", "by_status", "by_due")}
_find_by_id = sql.list_of("read_charge.by_id", _ChargeRow)
_find_due_days = sql.many("read_charge.due_days", date)
_summary = sql.list_of("read_charge.summary", _StatusSum)
_summary_by_due = sql.many("read_charge.summary_by_due", _StatusSum)
_summary_by_totals = sql.many("read_charge.summary_by_totals", _StatusSum)


async def charge_page(
    conn: Connection, owner: Owner, filters: ChargeFilters, after: TimePosition | None, limit: int
) -> tuple[list[ChargeDoc], TimePosition | None]:
    """One page in the order (created_at, charge_id), and the position after which the next page begins."""
    statement, parameters = _statement_for(filters), charge_filter_parameters(owner, filters)
    if statement == "by_id":
        return [read_doc(row.doc) for row in await _find_by_id(conn, **parameters)], None
    rows, last = await time_page(
        _PAGES[statement],
        conn,
        filters.order,
        after,
        limit,
        since=filters.created_from,
        before=filters.created_to,
        **parameters,
    )
    return [read_doc(row.doc) for row in rows], last


def walks_due_dates(filters: ChargeFilters) -> bool:
    """Whether the index of due dates is the narrowest one for these filters."""
    return _statement_for(filters) == "by_due"


async def due_days(conn: Connection, owner: Owner, filters: ChargeFilters) -> list[date]:
    """The due dates that charges have within the filters' bounds, in the filters' order; at most DUE_DAYS_MAX."""
    days = await _find_due_days(conn, **charge_filter_parameters(owner, filters), limit=DUE_DAYS_MAX)
    return days if filters.order is SortOrder.ASC else days[::-1]


async def charge_sums(conn: Connection, owner: Owner, filters: ChargeFilters) -> dict[str, StatusCents]:
    """Count and amount per status, in the order of a charge's life; a status without charges is included with zeros."""
    statement, parameters = _statement_for(filters), charge_filter_parameters(owner, filters)
    if statement == "by_id":
        sums = [_StatusSum(row.status, 1, row.amount_cents) for row in await _find_by_id(conn, **parameters)]
    elif statement == "by_key" or not await totals_are_fresh(conn):
        sums = await (_summary_by_due if statement == "by_due" else _summary)(conn, **parameters)
    elif statement != "by_due":
        sums = await _sum_days(conn, filters, parameters)
    elif filters.created_from is None and filters.created_to is None:
        sums = await _sum_due_days(conn, filters, parameters)
    else:
        sums = await _summary_by_due(conn, **parameters)
    counts, cents = Counter[str](), Counter[str]()
    for row in sums:
        counts[row.status] += row.count
        cents[row.status] += row.amount_cents
    return {status: StatusCents(counts[status], cents[status]) for status in STATUSES}


async def _sum_days(conn: Connection, filters: ChargeFilters, parameters: dict[str, object]) -> list[_StatusSum]:
    """Sums whole days from the stored totals, and the partial first and last day of the range charge by charge."""
    first, after = date.min, date.max
    partial_days: list[dict[str, object]] = []
    if filters.created_from is not None:
        first = day_of(filters.created_from)
        if day_begins(first) < filters.created_from:
            first += timedelta(days=1)
            partial_days.append({"created_to": day_begins(first)})
    if filters.created_to is not None:
        after = day_of(filters.created_to)
        if day_begins(after) < filters.created_to:
            partial_days.append({"created_from": day_begins(after)})
    if after < first:  # both within one day
        return await _summary(conn, **parameters)
    sums = await _sum_spans(conn, "issued", first, after, parameters)
    for partial_day in partial_days:
        sums += await _summary(conn, **parameters | partial_day)
    return sums


async def _sum_due_days(conn: Connection, filters: ChargeFilters, parameters: dict[str, object]) -> list[_StatusSum]:
    last = min(filters.due_to or _LAST_DAY, _LAST_DAY)
    return await _sum_spans(conn, "due", filters.due_from or date.min, last + timedelta(days=1), parameters)


async def _sum_spans(
    conn: Connection, dated: str, first: date, after: date, parameters: dict[str, object]
) -> list[_StatusSum]:
    ranges = span_ranges(first, after)
    return await _summary_by_totals(conn, **parameters, dated=dated, first=first, after=after, ranges=ranges)


def charge_filter_parameters(owner: Owner, filters: ChargeFilters) -> dict[str, object]:
    """The parameters of all statements. asyncpg sends date.min and date.max as -infinity and infinity, and a charge
    without a due date counts as due at infinity. So date.max means "no filter" only; a filter's upper bound ends at the
    day before it."""
    charge_id = _charge_id_from_txid(filters.txid)
    has_due_filter = filters.due_from is not None or filters.due_to is not None
    return {
        "account_id": owner.account_id,
        "test": owner.test,
        "charge_id": charge_id,
        "txid": None if charge_id else filters.txid,
        "statuses": filters.statuses or STATUSES,
        "methods": filters.methods or METHODS,
        "external_id": filters.external_id,
        "payer_document_hash": filters.payer_document_hash,
        "nosso_numero": filters.nosso_numero,
        "integrador_code": filters.integrador_code,
        "created_from": filters.created_from or BEGINNING,
        "created_to": filters.created_to or END,
        "due_from": filters.due_from or date.min,
        "due_to": min(filters.due_to or _LAST_DAY, _LAST_DAY) if has_due_filter else date.max,
    }


def _statement_for(filters: ChargeFilters) -> str:
    if _charge_id_from_txid(filters.txid) is not None:
        return "by_id"
    keys = (
        filters.txid, filters.external_id, filters.nosso_numero, filters.payer_document_hash, filters.integrador_code,
    )  # fmt: skip
    if any(key is not None for key in keys):
        return "by_key"
    if filters.due_from is not None or filters.due_to is not None:
        return "by_due"
    return "by_status" if filters.statuses or filters.methods else "page"


def _charge_id_from_txid(txid: str | None) -> UUID | None:
    """The charge id that a txid spells, or None: a PIX charge's txid is its id as 32 lower-case hex digits."""
    if txid is None or len(txid) != 32 or not all(each in "0123456789abcdef" for each in txid):
        return None
    return UUID(hex=txid)
