"""Where a merchant wants to be told, of what, and the secret with which he knows it is us."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from aiohttp.resolver import AsyncResolver
from msgspec import Struct
from yarl import URL  # what the sender parses with: two parsers that disagree are how guards are passed

import sql
from commands.webhooks.lanes import lanes_of, store_lanes
from domain.errors import Code, Refused
from domain.events import DEFAULT_KINDS, EventKind
from domain.webhooks.breaker import LaneState, resumed
from domain.webhooks.public_address import is_public
from domain.webhooks.signature import secret_text
from runtime.seal import Seal
from sql import Connection

OVERLAP = timedelta(hours=24)
"""How long the secret before signs along after a rotation (contract section 9)."""
URL_LENGTH_MAX = 2048

_RESOLVE_S = 2.0
_HTTPS = 443
_PORT_MIN = 1024
# Ports from 1024 up whose own protocols an HTTP request could speak to (Fetch standard, "bad port").
_BAD_PORTS = frozenset({
    1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669,
    6679, 6697, 10080,
})  # fmt: skip
_PRIVATE_ENDINGS = frozenset({"localhost", "local", "internal", "intranet", "lan", "arpa", "onion", "test", "invalid"})


class SetEndpoint(Struct, frozen=True):
    endpoint_id: UUID
    secret: str
    """Shown this once, and kept sealed."""


class _Endpoint(Struct, frozen=True):
    endpoint_id: UUID


set_url = sql.maybe("webhook_endpoint.set", _Endpoint)
rotate = sql.maybe("webhook_endpoint.rotate", _Endpoint)
revoke = sql.maybe("webhook_endpoint.revoke_previous", _Endpoint)
remove = sql.maybe("webhook_endpoint.remove", _Endpoint)
choose = sql.maybe("webhook_endpoint.choose_kinds", _Endpoint)


async def check_address(url: str, *, allow_private: bool, nameservers: Sequence[str] = ()) -> None:
    """What a door asks before it opens the transaction of `set_endpoint`: is the address plainly public?

    Looks the name up, for at most 2 s, and refuses it (VALIDATION_ERROR) when any of its addresses is not public.
    A name that has no address at this moment is taken: it may be published after it is registered, a resolver may be
    down, and what protects us is that every connection looks again. Its attempts fail with dns_error until then.
    """
    fault = fault_of(url, allow_private=allow_private)
    if fault is None and not allow_private:
        fault = await _fault_in_name(str(URL(url).raw_host), nameservers)
    if fault is not None:
        raise Refused(Code.VALIDATION_ERROR, fields={"url": fault})


async def _fault_in_name(host: str, nameservers: Sequence[str]) -> str | None:
    resolver = AsyncResolver(nameservers=list(nameservers) or None, timeout=_RESOLVE_S, tries=1)
    try:
        async with asyncio.timeout(_RESOLVE_S):
            answers = await resolver.resolve(host, 0, 0)  # type: ignore[arg-type]  # AF_UNSPEC: both families
    except OSError:  # TimeoutError is one
        return None
    finally:
        await resolver.close()
    public = all(is_public(answer["host"]) for answer in answers)
    return None if public else "The host must resolve to public addresses only."


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
    """Tell this account's events to `url` from now on, signed with a new secret made of 32 bytes of `chance`.

    Refuses an unknown account (WALLET_ACCOUNT_NOT_FOUND) and a URL that is malformed or, unless private
    addresses are allowed, not plainly public (VALIDATION_ERROR). What its name resolves to is for
    `check_address`, before, and is looked at again at each connection. A new address begins with open lanes:
    what was held for the one before goes out to it.
    """
    fault = fault_of(url, allow_private=allow_private)
    if fault is not None:
        raise Refused(Code.VALIDATION_ERROR, fields={"url": fault})
    secret = secret_text(chance)
    endpoint = await set_url(
        conn,
        account_id=account_id,
        url=url,
        secret_sealed=seal.seal(secret.encode()),
        kinds=DEFAULT_KINDS,
        now=now,
    )
    if endpoint is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
    return SetEndpoint(endpoint.endpoint_id, secret)


async def rotate_secret(conn: Connection, account_id: UUID, *, now: datetime, seal: Seal, chance: bytes) -> SetEndpoint:
    """A new secret signs from now on, the one before signs along for 24 h. Refuses without an endpoint."""
    secret = secret_text(chance)
    endpoint = await rotate(
        conn, account_id=account_id, secret_sealed=seal.seal(secret.encode()), previous_until=now + OVERLAP
    )
    if endpoint is None:
        raise _no_endpoint()
    return SetEndpoint(endpoint.endpoint_id, secret)


async def revoke_previous(conn: Connection, account_id: UUID) -> None:
    """The secret before a rotation stops signing at once, because it leaked. Refuses without an endpoint."""
    if await revoke(conn, account_id=account_id) is None:
        raise _no_endpoint()


async def choose_kinds(conn: Connection, account_id: UUID, kinds: Collection[EventKind]) -> None:
    """Tell these kinds of events from now on, beside the two every endpoint hears of (contract section 8)."""
    wanted = sorted({*DEFAULT_KINDS, *kinds})
    if await choose(conn, account_id=account_id, kinds=wanted) is None:
        raise _no_endpoint()


async def resume(conn: Connection, account_id: UUID, tests: Collection[bool]) -> None:
    """The merchant says that it works again: open these lanes, by `test`. What is held goes out, in order and slowly.

    Refuses without an endpoint. A lane that is neither paused nor broken stays as it is.
    """
    rows = await lanes_of(conn, account_id=account_id)
    if not rows:
        raise _no_endpoint()
    await store_lanes(
        conn,
        {
            row.key: resumed(lane)
            for row in rows
            if row.test in tests and (lane := row.lane()).state is not LaneState.OPEN
        },
    )


async def remove_endpoint(conn: Connection, account_id: UUID) -> None:
    """Forget the address and all that was still to be told it; the feed keeps the events. Refuses without one."""
    if await remove(conn, account_id=account_id) is None:
        raise _no_endpoint()


def _no_endpoint() -> Refused:
    return Refused(Code.VALIDATION_ERROR, fields={"url": "The account has no webhook address."})


def fault_of(url: str, *, allow_private: bool) -> str | None:
    """What is wrong with a webhook URL, in a sentence for the merchant, or None."""
    if not 0 < len(url) <= URL_LENGTH_MAX:
        return f"The address must have 1 to {URL_LENGTH_MAX} characters."
    if not url.isprintable() or " " in url or "\\" in url:
        return "The address must not contain spaces, backslashes or control characters."
    try:
        parsed = URL(url)
        host, port = parsed.raw_host, parsed.explicit_port
    except (ValueError, UnicodeError):
        return "The address is not a URL."
    if parsed.scheme not in ("https", "http") or not host:
        return "The address must begin with https:// and name a host."
    if parsed.raw_user is not None or parsed.raw_password is not None or "#" in url:
        return "The address must not contain a user, a password or a fragment."
    return None if allow_private else _fault_in_public(parsed.scheme, host, port)


def _fault_in_public(scheme: str, host: str, port: int | None) -> str | None:
    if scheme != "https":
        return "The address must begin with https://."
    labels = host.lower().removesuffix(".").split(".")
    # A last label of digits or 0x.. makes the host an IPv4 address to some parsers (WHATWG).
    if ":" in host or labels[-1].isdecimal() or labels[-1].startswith("0x"):
        return "The address must name a host; IP addresses are not taken."
    if len(labels) < 2 or "" in labels or labels[-1] in _PRIVATE_ENDINGS:
        return "The host must be a public name."
    if port is not None and port != _HTTPS and (port < _PORT_MIN or port in _BAD_PORTS):
        return "The port must be 443 or one above 1023 that no other protocol owns."
    return None
