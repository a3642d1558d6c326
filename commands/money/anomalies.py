"""Resolve the anomaly of a payment: note that a person has dealt with it."""

from datetime import datetime
from typing import Final
from uuid import UUID

import sql
from domain.errors import Code, Refused
from domain.mode import Owner
from sql import Connection

NOTE_MAX: Final = 200
RESOLVED: Final = "payment.anomaly_resolved"
"""The action in the audit log."""

_resolve = sql.maybe("anomaly.resolve", UUID)


async def resolve_anomaly(
    conn: Connection, owner: Owner, payment_id: UUID, note: str, by: str, *, now: datetime
) -> None:
    """Mark the anomaly resolved by the person with the e-mail `by`. The first note is kept: a repeated call changes
    nothing.

    Refused(VALIDATION_ERROR) with fields.note; Refused(CHARGE_NOT_FOUND) when the account has no anomalous payment
    with this id.
    """
    if not 0 < len(note) <= NOTE_MAX or not note.isprintable():
        raise Refused(Code.VALIDATION_ERROR, fields={"note": f"1 to {NOTE_MAX} characters"})
    key = {"account_id": owner.account_id, "test": owner.test, "payment_id": payment_id}
    if await _resolve(conn, **key, note=note, by=by, now=now) is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
