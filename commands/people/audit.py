"""The audit log: the actions of people in the dashboard, each stored in the transaction that does it."""

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
    """An entry of the audit log. `audit_id` is chosen when the form is shown; `subject` is the object of the action;
    `facts` hold no secret, no document and no payload."""

    audit_id: UUID
    account_id: UUID
    email: str
    action: str
    subject: str | None
    facts: dict[str, Any]
    address_hash: str
    request_id: str


class Origin(Struct, frozen=True):
    """The person who acts and the place they act from, as the log keeps them."""

    email: str
    address_hash: str
    request_id: str


class AlreadySent(Exception):
    """The form with this id was submitted before: a double click, or a page that was reloaded."""


SEEN_BY_THE_ACCOUNT: Final = "Plataforma"
"""The name of staff in an account's own audit log: staff are not named to merchants."""

_add_entry = sql.maybe("audit.add", UUID)
_has_done = sql.one("audit.has_done", bool)


async def write_audit_entry(conn: Connection, entry: AuditEntry, *, now: datetime) -> None:
    """Store an entry. Raises AlreadySent when its id is stored already, and the caller must then roll back. Waits for
    another transaction that has written the same id and not committed yet."""
    added = await _add_entry(
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


async def audit_for_account(
    conn: Connection, account_id: UUID, action: str, facts: dict[str, Any], origin: Origin, *, now: datetime
) -> None:
    """Store an action of staff in the account's own log: its people see the action, but not who did it."""
    await _write_entry(conn, account_id, SEEN_BY_THE_ACCOUNT, action, str(account_id), facts, origin, now=now)


async def audit_for_platform(
    conn: Connection, subject: UUID | str, action: str, facts: Mapping[str, Any], origin: Origin, *, now: datetime
) -> None:
    """Store an action in the platform's log, for the operator at the command line; the forms of staff store theirs.
    `subject` is the account, or the name of another object."""
    await _write_entry(conn, PLATFORM, origin.email, action, str(subject), facts, origin, now=now)


async def staff_has_done(conn: Connection, account_id: UUID, actions: Sequence[str], *, by: str) -> bool:
    """Whether the member of staff with the e-mail `by` ever did one of these actions to the account. A person who was
    removed and admitted again under the same e-mail counts as the same."""
    return await _has_done(conn, account_id=PLATFORM, subject=str(account_id), email=by, actions=actions)


async def _write_entry(
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
    await write_audit_entry(conn, entry, now=now)
