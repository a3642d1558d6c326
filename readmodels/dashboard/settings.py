"""What an account has set up: its credentials, its endpoint and the endpoint's health, and what its people did."""

from datetime import UTC, datetime
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from readmodels.page import SortOrder, cut
from sql import Connection

WAITING_MAX = 1_000
"""Deliveries that wait are counted no further."""
NOTICES_MAX = 10
_CREDENTIALS_MAX = 100
_REVOKED_MAX = 20
_BEGINNING = datetime(1, 1, 2, tzinfo=UTC)
_END = datetime(9999, 12, 30, tzinfo=UTC)


class CredentialRow(Struct, frozen=True):
    """`name` is None for those that came with the account; `last_token_at` is to the minute."""

    client_id: str
    test: bool
    name: str | None
    scopes: list[str]
    created_at: datetime
    rotated_at: datetime | None
    previous_until: datetime | None
    last_token_at: datetime | None
    revoked_at: datetime | None


class Endpoint(Struct, frozen=True):
    """`previous_until`: until then the secret before a rotation signs along."""

    endpoint_id: UUID
    url: str
    kinds: list[str]
    created_at: datetime
    previous_until: datetime | None


class LaneHealth(Struct, frozen=True):
    """The endpoint in one mode. `state`: open | broken | paused; counts end at WAITING_MAX; `delivered_at` is the
    latest success among the newest hundred deliveries."""

    test: bool
    state: str
    failures: int
    failing_since: datetime | None
    blocked_until: datetime | None
    paused_at: datetime | None
    paused_reason: str | None
    waiting: int
    held: int
    given_up: int
    delivered_at: datetime | None


class NoticeRow(Struct, frozen=True):
    test: bool
    kind: str
    event_type: str
    at: datetime


class DeedPosition(Struct, frozen=True, array_like=True):
    at: datetime
    audit_id: UUID


class DeedRow(Struct, frozen=True):
    """A row of the audit log."""

    audit_id: UUID
    email: str
    at: datetime
    action: str
    subject: str | None
    facts: bytes
    address_hash: str


class AuditRow(Struct, frozen=True):
    """What somebody did in the dashboard. `address`: a few digits of its fingerprint, to tell addresses apart by."""

    audit_id: UUID
    email: str
    at: datetime
    action: str
    subject: str | None
    facts: dict[str, str]
    address: str


_of_account = sql.many("credential_admin.of_account", CredentialRow)
find_credential = sql.maybe("credential_admin.find", CredentialRow)
"""`client_id, account_id`."""
endpoint_of = sql.maybe("webhook_settings.of_account", Endpoint)
"""`account_id`."""
_lanes = sql.many("webhook_settings.lanes", LaneHealth)
_notices = sql.many("webhook_settings.notices", NoticeRow)
_DEEDS = {order: sql.many(f"audit.page_{order.value}", DeedRow) for order in SortOrder}


async def credentials_of(conn: Connection, account_id: UUID) -> list[CredentialRow]:
    """Of both modes: those that work, newest first, then the latest that were revoked."""
    return await _of_account(conn, account_id=account_id, most=_CREDENTIALS_MAX, revoked_most=_REVOKED_MAX)


async def lanes_health(conn: Connection, account_id: UUID) -> list[LaneHealth]:
    """Production, then test; nothing without an endpoint."""
    return await _lanes(conn, account_id=account_id, most=WAITING_MAX)


async def latest_notices(conn: Connection, account_id: UUID) -> list[NoticeRow]:
    return await _notices(conn, account_id=account_id, most=NOTICES_MAX)


async def deed_page(
    conn: Connection, account_id: UUID, order: SortOrder, after: DeedPosition | None, limit: int
) -> tuple[list[AuditRow], DeedPosition | None]:
    """One page of what the account's people did, and where the next one begins."""
    ascending = order is SortOrder.ASC
    rows, last = cut(
        await _DEEDS[order](
            conn,
            account_id=account_id,
            at=after.at if after else (_BEGINNING if ascending else _END),
            id=after.audit_id if after else UUID(int=0 if ascending else 2**128 - 1),
            most=limit + 1,
        ),
        limit,
    )
    return [shown_deed(row) for row in rows], DeedPosition(last.at, last.audit_id) if last else None


def shown_deed(row: DeedRow) -> AuditRow:
    facts = msgspec.json.decode(row.facts, type=dict[str, object])
    return AuditRow(
        row.audit_id,
        row.email,
        row.at,
        row.action,
        row.subject,
        {name: str(value) for name, value in facts.items()},
        row.address_hash[:8],
    )
