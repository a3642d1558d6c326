"""Write down what a person does in the dashboard, in the transaction that does it."""

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
    """A form of this id was sent before: a double click, or a page that was reloaded."""


class _Id(Struct, frozen=True):
    audit_id: UUID


_add = sql.maybe("audit.add", _Id)


async def write_down(conn: Connection, deed: AuditEntry, *, now: datetime) -> None:
    """Raises AlreadySent, and the transaction must then be given up. A twin that is under way is waited for."""
    added = await _add(
        conn,
        audit_id=deed.audit_id,
        account_id=deed.account_id,
        email=deed.email,
        at=now,
        action=deed.action,
        subject=deed.subject,
        facts=msgspec.json.encode(deed.facts),
        address_hash=deed.address_hash,
        request_id=deed.request_id,
    )
    if added is None:
        raise AlreadySent
