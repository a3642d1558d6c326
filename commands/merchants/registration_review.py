"""Records of staff while they review a registration: the items they checked, and notes about the account.

Neither decides anything: approval is a separate command (commands/merchants/kyc.py). The person who approves sees which
items were checked, by whom, and whether they have changed since.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

import sql
from domain.errors import Code, Refused
from readmodels.dashboard.registration_review import ReviewItem
from sql import Connection

NOTE_MAX: Final = 2_000

_check_item = sql.run("registration_review.check")
_uncheck_item = sql.run("registration_review.uncheck")
_add_note = sql.run("registration_review.note")


async def check_item(
    conn: Connection, account_id: UUID, item: ReviewItem, seen: bytes, *, by: str, now: datetime
) -> None:
    """Mark an item as checked. `seen` is the fingerprint of the value on the page, so a value that is corrected later
    counts as unchecked."""
    await _check_item(conn, account_id=account_id, item=item.value, seen=seen, by=by, now=now)


async def uncheck_item(conn: Connection, account_id: UUID, item: ReviewItem) -> None:
    await _uncheck_item(conn, account_id=account_id, item=item.value)


async def write_note(conn: Connection, account_id: UUID, text: str, *, note_id: UUID, by: str, now: datetime) -> None:
    """Write a note about the account. Refused(VALIDATION_ERROR) with fields.note unless it has 1 to NOTE_MAX
    characters."""
    text = text.strip().replace("\r\n", "\n")
    if not 0 < len(text) <= NOTE_MAX or not text.replace("\n", "").isprintable():
        raise Refused(Code.VALIDATION_ERROR, fields={"note": f"must be 1 to {NOTE_MAX} characters"})
    await _add_note(conn, note_id=note_id, account_id=account_id, text=text, by=by, now=now)
