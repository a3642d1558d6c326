"""The audit log: what a person does in the dashboard, stored in the transaction that does it."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from sql import Connection


class AuditEntry(Struct, frozen=True, kw_only=True):
    """`audit_id` is chosen when the form is shown; `subject` is what it was done to; `facts` hold no secret,
    no document and no payload."""

    audit_id: UUID
    account_id: UUID
    email: str
    action: str
    subject: str | None
    facts: dict[str, Any]
    address_hash: str
    request_id: str


class AlreadySent(Exception):
    """The form with this id was submitted before: a double click, or a page that was reloaded."""


_add = sql.maybe("audit.add", UUID)


async def write_down(conn: Connection, entry: AuditEntry, *, now: datetime) -> None:
    """Raises AlreadySent, and the transaction must then be rolled back. One with the same id that is not committed yet
    is waited for."""
    added = await _add(
        conn,
        audit_id=entry.audit_id,
        account_id=entry.account_id,
        email=entry.email,
        at=now,
        action=entry.action,
        subject=entry.subject,
        facts=msgspec.json.encode(entry.facts),
        address_hash=entry.address_hash,
        request_id=entry.request_id,
    )
    if added is None:
        raise AlreadySent
