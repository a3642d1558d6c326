"""The credentials of an account's programs, as the dashboard lists them."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from sql import Connection

_CREDENTIALS_MAX = 100
_REVOKED_MAX = 20


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
    created_by: str | None
    """The e-mail of who made it; None for those that came with the account."""
    rotated_by: str | None


_of_account = sql.many("credential_admin.of_account", CredentialRow)
credentials_of_person = sql.many("credential_admin.of_person", CredentialRow)
"""`account_id, email, now`: those that work and whose secret this person was shown: who made it, rotated it last, or
before that with an overlap that lasts."""
find_credential = sql.maybe("credential_admin.find", CredentialRow)
"""`client_id, account_id`."""


async def credentials_of(conn: Connection, account_id: UUID) -> list[CredentialRow]:
    """Of both modes: those that work, newest first, then the latest that were revoked."""
    return await _of_account(conn, account_id=account_id, limit=_CREDENTIALS_MAX, revoked_limit=_REVOKED_MAX)
