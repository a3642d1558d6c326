"""A merchant's webhook endpoint: its address, the event kinds it receives, and its signing secret."""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct

import sql
from commands.webhooks.address import AddressFault, fault_of
from commands.webhooks.lanes import lanes_of, store_lanes
from domain.errors import Code, Refused
from domain.events import DEFAULT_KINDS, EventKind
from domain.webhooks.breaker import resumed
from domain.webhooks.signature import secret_text
from runtime.ids import new_id
from runtime.seal import WEBHOOK_SECRET, Seal
from sql import Connection

OVERLAP = timedelta(hours=24)
"""How long the previous secret goes on signing after a rotation (contract section 9)."""
OLD_SECRETS_MAX = 5
"""Old secrets that still sign. Each signs for its whole 24 h, whatever rotations follow, and costs two signatures for
every delivery."""
SECRETS_FULL = f"{OLD_SECRETS_MAX} secrets before this one still sign along. Wait a day, or end them."


class SetEndpoint(Struct, frozen=True):
    endpoint_id: UUID
    secret: str
    """Shown once, and stored sealed."""


class _StoredEndpoint(Struct, frozen=True):
    endpoint_id: UUID
    secret_sealed: bytes


set_url = sql.maybe("webhook_endpoint.set", _StoredEndpoint)
rotate = sql.maybe("webhook_endpoint.rotate", UUID)
_lock_endpoint = sql.maybe("webhook_endpoint.hold", UUID)
_revoke_old_secrets = sql.run("webhook_endpoint.revoke_old")
remove = sql.maybe("webhook_endpoint.remove", UUID)
choose = sql.maybe("webhook_endpoint.choose_kinds", UUID)


async def set_endpoint(
    conn: Connection,
    account_id: UUID,
    url: str,
    *,
    allow_private: bool,
    now: datetime,
    seal: Seal,
    chance: bytes,
) -> SetEndpoint:
    """Send this account's events to `url` from now on, signed with the secret the account has, or with a first secret
    made of the 32 bytes `chance`. A new address keeps the secret, so the receiver's verification goes on working; only
    `rotate_secret` changes it.

    Refuses an unknown account (WALLET_ACCOUNT_NOT_FOUND) and a URL that is malformed or, unless private addresses are
    allowed, not plainly public (VALIDATION_ERROR). `check_address` resolves the name beforehand, and each connection
    checks it again. A new address begins with open lanes: deliveries held for the previous address are sent to it.
    """
    fault = fault_of(url, allow_private=allow_private)
    if fault is not None:
        raise Refused(Code.VALIDATION_ERROR, fields={"url": fault})
    secret = secret_text(chance)
    stored = await set_url(
        conn,
        endpoint_id=new_id(),
        account_id=account_id,
        url=url,
        secret_sealed=seal.seal(secret.encode(), WEBHOOK_SECRET, account_id),
        kinds=DEFAULT_KINDS,
        now=now,
    )
    if stored is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
    return SetEndpoint(stored.endpoint_id, seal.open(stored.secret_sealed, WEBHOOK_SECRET, account_id).decode())


async def move_endpoint(
    conn: Connection, account_id: UUID, url: str, *, allow_private: bool, now: datetime, seal: Seal, chance: bytes
) -> None:
    """Like `set_endpoint`, but refuses (VALIDATION_ERROR) without an endpoint."""
    if await _lock_endpoint(conn, account_id=account_id) is None:
        raise _no_endpoint()
    await set_endpoint(conn, account_id, url, allow_private=allow_private, now=now, seal=seal, chance=chance)


async def rotate_secret(conn: Connection, account_id: UUID, *, now: datetime, seal: Seal, chance: bytes) -> SetEndpoint:
    """Sign with a new secret from now on. The previous secret signs too for 24 h, and each older one for the rest of
    its own 24 h. Refuses (VALIDATION_ERROR) without an endpoint, and while OLD_SECRETS_MAX old secrets still sign."""
    endpoint_id = await _lock_endpoint(conn, account_id=account_id)
    if endpoint_id is None:
        raise _no_endpoint()
    secret = secret_text(chance)
    rotated = await rotate(
        conn,
        endpoint_id=endpoint_id,
        secret_sealed=seal.seal(secret.encode(), WEBHOOK_SECRET, account_id),
        until=now + OVERLAP,
        old_max=OLD_SECRETS_MAX,
        now=now,
    )
    if rotated is None:
        raise Refused(Code.VALIDATION_ERROR, fields={"secret": SECRETS_FULL})
    return SetEndpoint(endpoint_id, secret)


async def revoke_previous(conn: Connection, account_id: UUID) -> None:
    """Stop signing with all old secrets at once, because one leaked. Refuses without an endpoint."""
    endpoint_id = await _lock_endpoint(conn, account_id=account_id)
    if endpoint_id is None:
        raise _no_endpoint()
    await _revoke_old_secrets(conn, endpoint_id=endpoint_id)


async def choose_kinds(conn: Connection, account_id: UUID, kinds: Collection[EventKind]) -> None:
    """Send these kinds of events from now on, beside the two that every endpoint receives (contract section 8)."""
    wanted = sorted({*DEFAULT_KINDS, *kinds})
    if await choose(conn, account_id=account_id, kinds=wanted) is None:
        raise _no_endpoint()


async def resume(conn: Connection, account_id: UUID, tests: Collection[bool]) -> None:
    """Open the endpoint's lanes of these modes (`tests`), because the merchant says that the receiver works again. Held
    deliveries are sent slowly and in order.

    Refuses without an endpoint. A lane that is open already stays as it is.
    """
    rows = await lanes_of(conn, account_id=account_id)
    if not rows:
        raise _no_endpoint()
    await store_lanes(
        conn,
        {row.key: after for row in rows if row.test in tests and (after := resumed(before := row.lane())) != before},
    )


async def remove_endpoint(conn: Connection, account_id: UUID) -> None:
    """Remove the endpoint: nothing is sent to it any more, and a worker deletes its deliveries soon after.

    The feed keeps the events. Refuses without an endpoint.
    """
    if await remove(conn, account_id=account_id) is None:
        raise _no_endpoint()


def _no_endpoint() -> Refused:
    return Refused(Code.VALIDATION_ERROR, fields={"url": AddressFault.NONE})
