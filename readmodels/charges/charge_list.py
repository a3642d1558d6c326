"""The charges of an account, page by page, and their count and amount per status.

Which filters are given decides which index is walked: each index has its own statement, most
selective first.
"""

from datetime import UTC, date, datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.charge import Status
from domain.mode import Owner
from domain.money import reais
from readmodels.charges.charge import ChargeDoc, read_doc
from readmodels.page import SortOrder, cut
from sql import Connection

METHODS = ("pix", "boleto", "boleto_hibrido", "boleto_pix")
STATUSES = tuple(str(status) for status in Status)

DUE_DAYS_MAX = 20_000
"""Fifty years of days."""

_BEGINNING = datetime(1, 1, 2, tzinfo=UTC)
_END = datetime(9999, 12, 30, tzinfo=UTC)
_FIRST_ID = UUID(int=0)
_LAST_ID = UUID(int=2**128 - 1)


class ChargeFilters(Struct, frozen=True, kw_only=True):
    """What to show. Days are already instants (São Paulo); `payer_document_hash` is the blind fingerprint."""

    statuses: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    external_id: str | None = None
    payer_document_hash: str | None = None
    nosso_numero: str | None = None
    txid: str | None = None
    integrador_code: str | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    due_from: date | None = None
    due_to: date | None = None
    order: SortOrder = SortOrder.DESC


class ChargePosition(Struct, frozen=True, array_like=True):
    """The last row seen."""

    created_at: datetime
    charge_id: UUID


class _Row(Struct, frozen=True, gc=False):
    charge_id: UUID
    created_at: datetime
    doc: bytes


class _DueDay(Struct, frozen=True):
    due_date: date


class _Sum(Struct, frozen=True, gc=False):
    status: str
    count: int
    amount_cents: int


class StatusSummary(Struct, frozen=True):
    """`amount` is the sum of the charges' amounts in reais."""

    status: str
    count: int
    amount: str


_PATHS = (
    "page", "by_reference", "by_payer", "by_nosso_numero", "by_txid", "by_integrador", "by_id", "by_status", "by_due",
)  # fmt: skip
_PAGE = {(path, order): sql.many(f"read_charge.{path}_{order.value}", _Row) for path in _PATHS for order in SortOrder}
_due_days = sql.many("read_charge.due_days", _DueDay)
_SUMMARY = {
    path: sql.many("read_charge.summary" if path == "page" else f"read_charge.summary_{path}", _Sum) for path in _PATHS
}


async def charge_page(
    conn: Connection,
    owner: Owner,
    filters: ChargeFilters,
    after: ChargePosition | None,
    limit: int,
) -> tuple[list[ChargeDoc], ChargePosition | None]:
    """One page in the order (created_at, charge_id), and where the next one begins."""
    path, given = _access(owner, filters)
    ascending = filters.order is SortOrder.ASC
    given["at"] = after.created_at if after else (_BEGINNING if ascending else _END)
    given["id"] = after.charge_id if after else (_FIRST_ID if ascending else _LAST_ID)
    given["most"] = limit + 1
    rows, last = cut(await _PAGE[path, filters.order](conn, **given), limit)
    return [read_doc(row.doc) for row in rows], ChargePosition(last.created_at, last.charge_id) if last else None


def walks_due_dates(filters: ChargeFilters) -> bool:
    """Whether the narrowest index of these filters is the one of due dates."""
    return _path(filters) == "by_due"


async def due_days(conn: Connection, owner: Owner, filters: ChargeFilters) -> list[date]:
    """The due dates there are within the filters' bounds, in their order; at most DUE_DAYS_MAX."""
    rows = await _due_days(
        conn,
        account_id=owner.account_id,
        test=owner.test,
        due_from=filters.due_from,
        due_to=filters.due_to,
        most=DUE_DAYS_MAX,
    )
    days = [row.due_date for row in rows]
    return days if filters.order is SortOrder.ASC else days[::-1]


async def charge_summary(conn: Connection, owner: Owner, filters: ChargeFilters) -> list[StatusSummary]:
    """Every status, in the order of a charge's life, those without charges included."""
    path, given = _access(owner, filters)
    found = {row.status: row for row in await _SUMMARY[path](conn, **given)}
    return [
        StatusSummary(status, row.count, reais(row.amount_cents))
        if (row := found.get(status))
        else StatusSummary(status, 0, "0.00")
        for status in STATUSES
    ]


def _access(owner: Owner, filters: ChargeFilters) -> tuple[str, dict[str, object]]:
    """The index to walk and the statement's parameters."""
    path = _path(filters)
    charge_id = _charge_of_txid(filters.txid)
    merged = path == "by_status"
    return path, {
        "account_id": owner.account_id,
        "test": owner.test,
        "charge_id": charge_id,
        "txid": None if charge_id else filters.txid,
        "statuses": list(filters.statuses) or (list(STATUSES) if merged else None),
        "methods": list(filters.methods) or (list(METHODS) if merged else None),
        "external_id": filters.external_id,
        "payer_document_hash": filters.payer_document_hash,
        "nosso_numero": filters.nosso_numero,
        "integrador_code": filters.integrador_code,
        "created_from": filters.created_from or _BEGINNING,
        "created_to": filters.created_to or _END,
        "due_from": filters.due_from,
        "due_to": filters.due_to,
    }


def _path(filters: ChargeFilters) -> str:
    if _charge_of_txid(filters.txid) is not None:
        return "by_id"
    if filters.txid is not None:
        return "by_txid"
    if filters.external_id is not None:
        return "by_reference"
    if filters.nosso_numero is not None:
        return "by_nosso_numero"
    if filters.payer_document_hash is not None:
        return "by_payer"
    if filters.integrador_code is not None:
        return "by_integrador"
    if filters.due_from is not None or filters.due_to is not None:
        return "by_due"
    return "by_status" if filters.statuses or filters.methods else "page"


def _charge_of_txid(txid: str | None) -> UUID | None:
    """A PIX charge's txid is its id: 32 lower-case hex digits."""
    if txid is None or len(txid) != 32 or not all(each in "0123456789abcdef" for each in txid):
        return None
    return UUID(hex=txid)
