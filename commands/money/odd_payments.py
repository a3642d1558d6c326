"""Say of a payment that came otherwise than asked for that what there was to do about it is done."""

from datetime import datetime
from typing import Final
from uuid import UUID

import sql
from domain.errors import Code, Refused
from domain.mode import Owner
from sql import Connection

NOTE_MAX: Final = 200
SETTLED: Final = "payment.odd_settled"
"""The action in the audit log."""

_settle = sql.maybe("odd_payment.settle", UUID)


async def settle_odd_payment(
    conn: Connection, owner: Owner, payment_id: UUID, note: str, by: str, *, now: datetime
) -> None:
    """`by`: the person's e-mail. Who says so again changes nothing.

    Refused(VALIDATION_ERROR) with fields.note; Refused(CHARGE_NOT_FOUND) when the account has no such payment.
    """
    if not 0 < len(note) <= NOTE_MAX or not note.isprintable():
        raise Refused(Code.VALIDATION_ERROR, fields={"note": f"1 to {NOTE_MAX} characters"})
    given = {"account_id": owner.account_id, "test": owner.test, "payment_id": payment_id}
    if await _settle(conn, **given, note=note, by=by, now=now) is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
