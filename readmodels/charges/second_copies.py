"""Payers' requests for second copies of boletos, as the merchant sees them."""

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from domain.mode import Owner
from readmodels.charges.charge import ChargeDoc, read_doc
from sql import Connection

COUNT_MAX: Final = 100
"""Open requests are counted up to this number."""


class SecondCopyRequest(Struct, frozen=True):
    """A payer's request for a second copy, made `times` times, the last time at `asked_at`. It is open until
    `closed_at`; the merchant answers it with a new charge (`answered_by`) or dismisses it."""

    asked_at: datetime
    times: int
    closed_at: datetime | None
    answered_by: UUID | None


class OpenRequest(Struct, frozen=True):
    asked_at: datetime
    charge: ChargeDoc


class _Row(Struct, frozen=True):
    asked_at: datetime
    doc: bytes


_find_of_charge = sql.maybe("second_copy.of_charge", SecondCopyRequest)
_find_open = sql.many("second_copy.open", _Row)
_count_open = sql.one("second_copy.count_open", int)


async def second_copy_of(conn: Connection, charge_id: UUID, owner: Owner) -> SecondCopyRequest | None:
    return await _find_of_charge(conn, charge_id=charge_id, account_id=owner.account_id, test=owner.test)


async def open_second_copies(conn: Connection, owner: Owner, limit: int) -> list[OpenRequest]:
    """The open requests for charges that are still expired, the newest first."""
    rows = await _find_open(conn, account_id=owner.account_id, test=owner.test, limit=limit)
    return [OpenRequest(row.asked_at, read_doc(row.doc)) for row in rows]


async def count_open_second_copies(conn: Connection, owner: Owner) -> int:
    """The number of open requests, at most COUNT_MAX."""
    return await _count_open(conn, account_id=owner.account_id, test=owner.test, limit=COUNT_MAX)
