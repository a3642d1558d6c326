"""The API credentials of an account, as the dashboard lists them."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from sql import Connection

_CREDENTIALS_MAX = 100
_REVOKED_MAX = 20


class CredentialRow(Struct, frozen=True):
    """A credential. `name` is None if it was created with the account; `last_token_at` is precise to the minute."""

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
    """The e-mail of the person who created it; None if it was created with the account."""
    rotated_by: str | None


_find_of_account = sql.many("credential_admin.of_account", CredentialRow)
credentials_of_person = sql.many("credential_admin.of_person", CredentialRow)
"""The active credentials whose secret this person was shown, because they created it, rotated it last, or rotated it
before that and the old secret is still accepted. Takes `account_id, email, now`."""
find_credential = sql.maybe("credential_admin.find", CredentialRow)
"""Takes `client_id, account_id`."""


async def credentials_of(conn: Connection, account_id: UUID) -> list[CredentialRow]:
    """The credentials of both modes: the active ones, newest first, then the most recently revoked."""
    return await _find_of_account(conn, account_id=account_id, limit=_CREDENTIALS_MAX, revoked_limit=_REVOKED_MAX)
