"""The people with access to an account or to the staff section, and their second factor."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from sql import Connection

SHOWN_MAX = 200


class PersonRow(Struct, frozen=True):
    """A person. `name` is None if they were never asked for it; `fresh`: no password chosen yet. `totp_since` is None
    without a second factor; `seen_at` is the latest page view in a session that may still be valid."""

    email: str
    role: str
    name: str | None
    fresh: bool
    created_at: datetime
    totp_since: datetime | None
    seen_at: datetime | None


class OwnFactor(Struct, frozen=True):
    totp_since: datetime | None
    recovery_codes: int


_find_of_account = sql.many("people.of_account", PersonRow)
_find_staff = sql.many("people.staff", PersonRow)
find_own_factor = sql.one("people.own", OwnFactor)
"""Takes `email`."""


async def people_of_account(conn: Connection, account_id: UUID) -> list[PersonRow]:
    return await _find_of_account(conn, account_id=account_id, limit=SHOWN_MAX)


async def staff(conn: Connection) -> list[PersonRow]:
    return await _find_staff(conn, limit=SHOWN_MAX)
