"""The audit log: what people did in the dashboard, by account, and what staff did to one merchant."""

from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.merchants.staff import PLATFORM
from domain.mode import Owner
from readmodels.page import ListFilters, TimePosition, time_page
from sql import Connection

ON_SUBJECT_MAX = 20


class _Row(Struct, frozen=True):
    at: datetime
    id: UUID
    email: str
    action: str
    subject: str | None
    facts: bytes
    address_hash: str


class AuditRow(Struct, frozen=True):
    """What somebody did in the dashboard. `address`: a few digits of its fingerprint, to tell addresses apart by."""

    at: datetime
    id: UUID
    email: str
    action: str
    subject: str | None
    facts: dict[str, str]
    address: str


_page = sql.list_of("audit.page", _Row)
_on_subject = sql.many("audit.on_subject", _Row)


async def audit_page(
    conn: Connection, owner: Owner, filters: ListFilters, after: TimePosition | None, limit: int
) -> tuple[list[AuditRow], TimePosition | None]:
    """One page of what the account's people did, and where the next one begins."""
    rows, last = await time_page(_page, conn, filters.order, after, limit, account_id=owner.account_id)
    return [_present(row) for row in rows], last


async def audit_of_merchant(conn: Connection, account_id: UUID) -> list[AuditRow]:
    """What staff did to it, newest first."""
    rows = await _on_subject(conn, account_id=PLATFORM, subject=str(account_id), limit=ON_SUBJECT_MAX)
    return [_present(row) for row in rows]


def _present(row: _Row) -> AuditRow:
    facts = msgspec.json.decode(row.facts, type=dict[str, object])
    said = {name: str(value) for name, value in facts.items()}
    return AuditRow(row.at, row.id, row.email, row.action, row.subject, said, row.address_hash[:8])
