"""Register where a merchant wants to be told, and change the secret with which he knows it is us."""

from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct
from yarl import URL  # what the sender parses with: two parsers that disagree are how guards are passed

import sql
from domain.errors import Code, Refused
from domain.events import DEFAULT_KINDS
from domain.signature import secret_text
from runtime.seal import Seal
from sql import Connection

OVERLAP = timedelta(hours=24)
"""How long the secret before signs along after a rotation (contract section 9)."""
URL_LENGTH_MAX = 2048

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
    addresses are allowed, not plainly public (VALIDATION_ERROR). What its name resolves to is checked at
    each connection.
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
        raise Refused(Code.VALIDATION_ERROR, fields={"url": "The account has no webhook address."})
    return SetEndpoint(endpoint.endpoint_id, secret)


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
