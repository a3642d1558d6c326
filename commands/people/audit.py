"""The audit log: what a person does in the dashboard, stored in the transaction that does it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.merchants.staff import PLATFORM
from runtime.ids import new_id
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


class Origin(Struct, frozen=True):
    """Who does something and from where, as the log keeps it."""

    email: str
    address_hash: str
    request_id: str


class AlreadySent(Exception):
    """The form with this id was submitted before: a double click, or a page that was reloaded."""


SEEN_BY_THE_ACCOUNT: Final = "Plataforma"
"""Who staff are to an account's own people: they are not named to merchants."""

_add = sql.maybe("audit.add", UUID)
_has_done = sql.one("audit.has_done", bool)


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


async def tell_account(
    conn: Connection, account_id: UUID, action: str, facts: dict[str, Any], origin: Origin, *, now: datetime
) -> None:
    """What staff do to an account stands in its own log too: its people see that it was done, and not by whom."""
    await _write(conn, account_id, SEEN_BY_THE_ACCOUNT, action, str(account_id), facts, origin, now=now)


async def tell_platform(
    conn: Connection, account_id: UUID, action: str, facts: dict[str, Any], origin: Origin, *, now: datetime
) -> None:
    """What the operator does to an account from the terminal, as staff's own forms are written down."""
    await write_of_platform(conn, str(account_id), action, facts, origin, now=now)


async def write_of_platform(
    conn: Connection, subject: str, action: str, facts: Mapping[str, Any], origin: Origin, *, now: datetime
) -> None:
    """The same of what is no account: `subject` says what it was done to."""
    await _write(conn, PLATFORM, origin.email, action, subject, facts, origin, now=now)


async def staff_has_done(conn: Connection, account_id: UUID, actions: Sequence[str], *, by: str) -> bool:
    """Whether `by`, of the staff, ever did one of these to the account. Somebody who was removed and let in again under
    the same e-mail did it too."""
    return await _has_done(conn, account_id=PLATFORM, subject=str(account_id), email=by, actions=actions)


async def _write(
    conn: Connection,
    log: UUID,
    email: str,
    action: str,
    subject: str,
    facts: Mapping[str, Any],
    origin: Origin,
    *,
    now: datetime,
) -> None:
    entry = AuditEntry(
        audit_id=new_id(),
        account_id=log,
        email=email,
        action=action,
        subject=subject,
        facts=dict(facts),
        address_hash=origin.address_hash,
        request_id=origin.request_id,
    )
    await write_down(conn, entry, now=now)
