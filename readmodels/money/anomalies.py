"""Payments with an anomaly that is open: neither refunded whole nor resolved by somebody with a note."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.mode import Owner
from readmodels.money.payment_list import PaymentItem, read_payment
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


class _Found(Struct, frozen=True):
    doc: bytes
    resolved_at: datetime | None
    resolved_by: str | None
    note: str | None


_count = sql.one("anomaly.count", int)
_newest = sql.many("anomaly.newest", bytes)
_find = sql.maybe("anomaly.find", _Found)


async def count_open_anomalies(conn: Connection, owner: Owner) -> int:
    """At most COUNT_MAX."""
    return await _count(conn, account_id=owner.account_id, test=owner.test, limit=COUNT_MAX)


async def newest_open_anomalies(conn: Connection, owner: Owner, limit: int, *, seal: Seal) -> list[PaymentItem]:
    docs = await _newest(conn, account_id=owner.account_id, test=owner.test, limit=limit)
    return [read_payment(doc, owner, seal) for doc in docs]


async def find_anomalous(conn: Connection, owner: Owner, payment_id: UUID, *, seal: Seal) -> AnomalousPayment | None:
    """Also one that is resolved or refunded; None for a payment without an anomaly."""
    row = await _find(conn, account_id=owner.account_id, test=owner.test, payment_id=payment_id)
    if row is None:
        return None
    return AnomalousPayment(read_payment(row.doc, owner, seal), row.resolved_at, row.resolved_by, row.note)
