"""Credentials of an account's programs: create, rotate with an overlap, revoke (contract section 3).

A secret is returned once and stored as its hash. A credential of another account is treated as one that does not exist:
None.
"""

import hashlib
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import sql
from commands.merchants.merchants import ALL_SCOPES, NewCredential, client_id_of, secret_of
from commands.people.scopes import grantable
from domain.errors import Code, Refused
from domain.mode import Mode
from sql import Connection

CREDENTIALS_MAX = 20
"""Credentials of one account and mode that are not revoked."""
NAME_MAX = 60
CHANCE: Final = 44
"""Bytes: 12 for the public id, 32 for the secret."""

OVERLAPS: Final[dict[str, timedelta]] = {
    "now": timedelta(0), "1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7),
}  # fmt: skip
"""How long the old secret still works after a rotation."""


_lock_account = sql.maybe("credential_admin.lock_account", UUID)
_count_credentials = sql.one("credential_admin.count", int)
_create = sql.run("credential_admin.create")
_rotate = sql.maybe("credential_admin.rotate", str)
_end_tokens = sql.run("credential_admin.end_tokens")
_revoke = sql.maybe("credential_admin.revoke", str)


async def create_credential(
    conn: Connection,
    account_id: UUID,
    *,
    mode: Mode,
    name: str,
    scopes: Collection[str],
    by: str,
    role: str,
    now: datetime,
    chance: bytes,
) -> NewCredential:
    """Create a credential of this mode from CHANCE random bytes; `by` and `role` are the creating person's.

    Refused(VALIDATION_ERROR) for an invalid name, for scopes that the role may not grant, for no scope at all, and when
    the account has CREDENTIALS_MAX of this mode.
    """
    assert len(chance) == CHANCE
    name = name.strip()
    wrong = {}
    if not 0 < len(name) <= NAME_MAX or not name.isprintable():
        wrong["name"] = f"must have 1 to {NAME_MAX} printable characters"
    allowed = grantable(role, mode)
    if not scopes or not set(scopes) <= allowed:
        wrong["scopes"] = f"must be some of {', '.join(scope for scope in ALL_SCOPES if scope in allowed)}"
    if wrong:
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)
    locked = await _lock_account(conn, account_id=account_id)
    assert locked is not None, "who is signed in has an account"
    if await _count_credentials(conn, account_id=account_id, test=mode.test) >= CREDENTIALS_MAX:
        raise Refused(Code.VALIDATION_ERROR, fields={"limit": f"at most {CREDENTIALS_MAX} credentials of one mode"})
    client_id = client_id_of(chance[:12], test=mode.test)
    secret = _secret_from(chance)
    await _create(
        conn,
        client_id=client_id,
        account_id=account_id,
        test=mode.test,
        secret_hash=hashlib.sha256(secret.encode()).digest(),
        # In the documented order, whatever order they were chosen in.
        scopes=[scope for scope in ALL_SCOPES if scope in scopes],
        name=name,
        by=by,
        now=now,
    )
    return NewCredential(client_id, secret)


async def rotate_credential(
    conn: Connection, account_id: UUID, client_id: str, *, overlap: timedelta, by: str, now: datetime, chance: bytes
) -> NewCredential | None:
    """Give the credential a new secret from CHANCE random bytes; the old secret works until `overlap` is over.

    Without an overlap the old secret may have leaked, so its tokens stop working too, within 5 s everywhere. None for
    a credential that is not this account's or was revoked.
    """
    assert overlap in OVERLAPS.values()
    secret = _secret_from(chance)
    rotated = await _rotate(
        conn,
        client_id=client_id,
        account_id=account_id,
        secret_hash=hashlib.sha256(secret.encode()).digest(),
        previous_until=now + overlap if overlap else None,
        by=by,
        now=now,
    )
    if rotated is None:
        return None
    if not overlap:
        await _end_tokens(conn, client_id=client_id)
    return NewCredential(client_id, secret)


async def revoke_credential(conn: Connection, account_id: UUID, client_id: str, *, now: datetime) -> bool:
    """Revoke a credential for good; it and its tokens stop working within 5 s everywhere. False for a credential that
    is not this account's or was revoked before."""
    return await _revoke(conn, client_id=client_id, account_id=account_id, now=now) is not None


def _secret_from(chance: bytes) -> str:
    assert len(chance) == CHANCE
    return secret_of(chance[12:])
