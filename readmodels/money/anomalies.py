"""Payments with an anomaly that is open: neither refunded whole nor resolved by somebody with a note."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.mode import Owner
from readmodels.money.payment_list import PaymentItem, read_payment
from readmodels.page import ListFilters, TimePosition, time_page
from runtime.seal import Seal
from sql import Connection

COUNT_MAX = 1_000
"""They are counted no further; a page that reaches it says "more than"."""


class AnomalousPayment(Struct, frozen=True):
    """`resolved_by` is the e-mail of the person who wrote the note; the three are None while it is open."""

    payment: PaymentItem
    resolved_at: datetime | None
    resolved_by: str | None
    note: str | None


class OpenAnomaly(Struct, frozen=True):
    """A payment whose anomaly is open, and what of its charge's other payments is back with who paid, refunded or taken
    back by the bank, or on its way there: a duplicate may have been sent back by refunding its twin."""

    payment_id: UUID
    returned_cents: int
    returning_cents: int


class AnomalyFilters(ListFilters, frozen=True, kw_only=True):
    """Of all merchants: none."""


class AnomalyEverywhere(Struct, frozen=True):
    """One of some merchant's; `at` is when the payment was credited. Who paid is not told."""

    at: datetime
    id: UUID
    account_id: UUID
    merchant: str
    charge_id: UUID
    amount_cents: int
    refunded_cents: int
    method: str
    anomaly: str


class _Found(Struct, frozen=True):
    doc: bytes
    resolved_at: datetime | None
    resolved_by: str | None
    note: str | None


_count = sql.one("anomaly.count", int)
_newest = sql.many("anomaly.newest", bytes)
_count_everywhere = sql.one("anomaly.count_everywhere", int)
_everywhere = sql.list_of("anomaly.everywhere", AnomalyEverywhere)
_open_among = sql.many("anomaly.open_among", OpenAnomaly)
_find = sql.maybe("anomaly.find", _Found)


async def count_open_anomalies(conn: Connection, owner: Owner) -> int:
    """At most COUNT_MAX."""
    return await _count(conn, account_id=owner.account_id, test=owner.test, limit=COUNT_MAX)


async def newest_open_anomalies(conn: Connection, owner: Owner, limit: int, *, seal: Seal) -> list[PaymentItem]:
    docs = await _newest(conn, account_id=owner.account_id, test=owner.test, limit=limit)
    return [read_payment(doc, owner, seal) for doc in docs]


async def open_anomalies_among(conn: Connection, owner: Owner, payment_ids: Sequence[UUID]) -> dict[str, OpenAnomaly]:
    """Of the account's payments among these, a page of a list at most; by payment_id."""
    if not payment_ids:
        return {}
    rows = await _open_among(conn, payment_ids=payment_ids, account_id=owner.account_id, test=owner.test)
    return {str(row.payment_id): row for row in rows}


async def count_anomalies_everywhere(conn: Connection) -> int:
    """Of production; at most COUNT_MAX."""
    return await _count_everywhere(conn, limit=COUNT_MAX)


async def anomalies_everywhere(
    conn: Connection, owner: Owner, filters: AnomalyFilters, after: TimePosition | None, limit: int
) -> tuple[Sequence[AnomalyEverywhere], TimePosition | None]:
    """One page of the open ones of production over all merchants, and where the next one begins."""
    return await time_page(_everywhere, conn, filters.order, after, limit)


async def find_anomalous(conn: Connection, owner: Owner, payment_id: UUID, *, seal: Seal) -> AnomalousPayment | None:
    """Also one that is resolved or refunded; None for a payment without an anomaly."""
    row = await _find(conn, account_id=owner.account_id, test=owner.test, payment_id=payment_id)
    if row is None:
        return None
    return AnomalousPayment(read_payment(row.doc, owner, seal), row.resolved_at, row.resolved_by, row.note)
