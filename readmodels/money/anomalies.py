"""Payments with an open anomaly: neither refunded in full nor resolved by a person with a note."""

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
"""Open anomalies are counted up to this number; a page that reaches it says "more than"."""


class AnomalousPayment(Struct, frozen=True):
    """A payment and the resolution of its anomaly. `resolved_by` is the e-mail of the person who wrote the note; all
    three fields are None while the anomaly is open."""

    payment: PaymentItem
    resolved_at: datetime | None
    resolved_by: str | None
    note: str | None


class OpenAnomaly(Struct, frozen=True):
    """A payment with an open anomaly, and how much of the charge's other payments has been returned (refunded or taken
    back by the bank) or is being refunded: a duplicate may have been returned by refunding its twin."""

    payment_id: UUID
    returned_cents: int
    returning_cents: int


class AnomalyFilters(ListFilters, frozen=True, kw_only=True):
    """The list over all merchants has no filters."""


class AnomalyEverywhere(Struct, frozen=True):
    """An anomalous payment of any merchant; `at` is when it was credited. The payer is left out."""

    at: datetime
    id: UUID
    account_id: UUID
    merchant: str
    charge_id: UUID
    amount_cents: int
    refunded_cents: int
    method: str
    anomaly: str


class _AnomalyRow(Struct, frozen=True):
    doc: bytes
    resolved_at: datetime | None
    resolved_by: str | None
    note: str | None


_count_open = sql.one("anomaly.count", int)
_newest_open = sql.many("anomaly.newest", bytes)
_count_everywhere = sql.one("anomaly.count_everywhere", int)
_page_everywhere = sql.list_of("anomaly.everywhere", AnomalyEverywhere)
_find_open_among = sql.many("anomaly.open_among", OpenAnomaly)
_find_payment = sql.maybe("anomaly.find", _AnomalyRow)


async def count_open_anomalies(conn: Connection, owner: Owner) -> int:
    """The number of the account's open anomalies, at most COUNT_MAX."""
    return await _count_open(conn, account_id=owner.account_id, test=owner.test, limit=COUNT_MAX)


async def newest_open_anomalies(conn: Connection, owner: Owner, limit: int, *, seal: Seal) -> list[PaymentItem]:
    docs = await _newest_open(conn, account_id=owner.account_id, test=owner.test, limit=limit)
    return [read_payment(doc, owner, seal) for doc in docs]


async def open_anomalies_among(conn: Connection, owner: Owner, payment_ids: Sequence[UUID]) -> dict[str, OpenAnomaly]:
    """The open anomalies among these payments (one page of a list at most) of the account, by payment_id."""
    if not payment_ids:
        return {}
    rows = await _find_open_among(conn, payment_ids=payment_ids, account_id=owner.account_id, test=owner.test)
    return {str(row.payment_id): row for row in rows}


async def count_anomalies_everywhere(conn: Connection) -> int:
    """The number of open anomalies in production, over all merchants; at most COUNT_MAX."""
    return await _count_everywhere(conn, limit=COUNT_MAX)


async def anomalies_everywhere(
    conn: Connection, owner: Owner, filters: AnomalyFilters, after: TimePosition | None, limit: int
) -> tuple[Sequence[AnomalyEverywhere], TimePosition | None]:
    """One page of the open anomalies in production, over all merchants, and the position after which the next
    begins."""
    return await time_page(_page_everywhere, conn, filters.order, after, limit)


async def find_anomalous_payment(
    conn: Connection, owner: Owner, payment_id: UUID, *, seal: Seal
) -> AnomalousPayment | None:
    """The payment with its anomaly, open, resolved or refunded; None for a payment without an anomaly."""
    row = await _find_payment(conn, account_id=owner.account_id, test=owner.test, payment_id=payment_id)
    if row is None:
        return None
    return AnomalousPayment(read_payment(row.doc, owner, seal), row.resolved_at, row.resolved_by, row.note)
