"""The audit log: actions of people in the dashboard, by account, and actions of staff on one merchant."""

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
    """An action of a person in the dashboard. `address`: the first digits of the IP address's fingerprint, by which
    addresses can be told apart."""

    at: datetime
    id: UUID
    email: str
    action: str
    subject: str | None
    facts: dict[str, str]
    address: str


_page = sql.list_of("audit.page", _Row)
_find_on_subject = sql.many("audit.on_subject", _Row)


async def audit_page(
    conn: Connection, owner: Owner, filters: ListFilters, after: TimePosition | None, limit: int
) -> tuple[list[AuditRow], TimePosition | None]:
    """One page of the actions of the account's people, and the position after which the next page begins."""
    rows, last = await time_page(_page, conn, filters.order, after, limit, account_id=owner.account_id)
    return [_audit_row(row) for row in rows], last


async def audit_of_merchant(conn: Connection, account_id: UUID) -> list[AuditRow]:
    """Actions of staff on the merchant, newest first."""
    rows = await _find_on_subject(conn, account_id=PLATFORM, subject=str(account_id), limit=ON_SUBJECT_MAX)
    return [_audit_row(row) for row in rows]


def _audit_row(row: _Row) -> AuditRow:
    facts = msgspec.json.decode(row.facts, type=dict[str, object])
    texts = {name: str(value) for name, value in facts.items()}
    return AuditRow(row.at, row.id, row.email, row.action, row.subject, texts, row.address_hash[:8])
