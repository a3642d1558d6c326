"""Payments that came otherwise than asked for and that somebody has to look at; and what was said of those settled."""

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


class OddPayment(Struct, frozen=True):
    """`settled_by` is the e-mail of the person who wrote the note."""

    payment: PaymentItem
    settled_at: datetime | None
    settled_by: str | None
    note: str | None


class _Doc(Struct, frozen=True):
    doc: bytes


class _Found(Struct, frozen=True):
    doc: bytes
    settled_at: datetime | None
    settled_by: str | None
    note: str | None


_count = sql.one("odd_payment.count", int)
_newest = sql.many("odd_payment.newest", _Doc)
_find = sql.maybe("odd_payment.find", _Found)


async def count_odd(conn: Connection, owner: Owner) -> int:
    return await _count(conn, account_id=owner.account_id, test=owner.test, limit=COUNT_MAX)


async def newest_odd(conn: Connection, owner: Owner, limit: int, *, seal: Seal) -> list[PaymentItem]:
    rows = await _newest(conn, account_id=owner.account_id, test=owner.test, limit=limit)
    return [read_payment(row.doc, owner, seal) for row in rows]


async def find_odd(conn: Connection, owner: Owner, payment_id: UUID, *, seal: Seal) -> OddPayment | None:
    row = await _find(conn, account_id=owner.account_id, test=owner.test, payment_id=payment_id)
    if row is None:
        return None
    return OddPayment(read_payment(row.doc, owner, seal), row.settled_at, row.settled_by, row.note)
