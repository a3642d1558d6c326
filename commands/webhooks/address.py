"""Check webhook addresses: public names over https, resolved once before the address is accepted."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from urllib.parse import urlsplit

from aiohttp.resolver import AsyncResolver
from yarl import URL  # the sender's parser too: a check that parses a URL otherwise than the sender can be bypassed

from domain.errors import Code, Refused
from domain.webhooks.public_address import is_public

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


class AddressFault(StrEnum):
    """A fault of an address, with its English text; the dashboard has texts of its own (web/painel)."""

    LENGTH = f"The address must have 1 to {URL_LENGTH_MAX} characters."
    CHARACTERS = "The address must not contain spaces, backslashes or control characters."
    NO_URL = "The address is not a URL."
    SCHEME_OR_HOST = "The address must begin with https:// and name a host."
    CREDENTIALS_OR_FRAGMENT = "The address must not contain a user, a password or a fragment."
    NOT_HTTPS = "The address must begin with https://."
    IP_ADDRESS = "The address must name a host; IP addresses are not taken."
    PRIVATE_NAME = "The host must be a public name."
    PRIVATE_ADDRESS = "The host must resolve to public addresses only."
    PORT = "The port must be 443 or one above 1023 that no other protocol owns."
    NONE = "The account has no webhook address."


async def check_address(url: str, *, allow_private: bool, nameservers: Sequence[str] = ()) -> None:
    """Refused(VALIDATION_ERROR) unless the address is plainly public; called before the transaction of `set_endpoint`.

    Resolves the name, for at most 2 s, and refuses it when any of its addresses is not public. A name without an
    address at this moment is accepted: it may be published later, or a resolver may be down, and the real protection is
    the check at each connection. Attempts fail with dns_error until the name resolves.
    """
    fault = fault_of(url, allow_private=allow_private)
    if fault is None and not allow_private and not await _resolves_publicly(str(URL(url).raw_host), nameservers):
        fault = AddressFault.PRIVATE_ADDRESS
    if fault is not None:
        raise Refused(Code.VALIDATION_ERROR, fields={"url": fault})


def host_of(url: str) -> str:
    """Returns scheme and host, the only parts of an address that the audit log and notices contain: its path or query
    may hold a merchant's secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}"


def fault_of(url: str, *, allow_private: bool) -> AddressFault | None:
    """Returns the fault of a webhook URL as it is written, without resolving its name; None if there is none."""
    if not 0 < len(url) <= URL_LENGTH_MAX:
        return AddressFault.LENGTH
    if not url.isprintable() or " " in url or "\\" in url:
        return AddressFault.CHARACTERS
    try:
        parsed = URL(url)
        host, port = parsed.raw_host, parsed.explicit_port
    except (ValueError, IndexError):  # yarl's own, of a "[" before a last "@"
        return AddressFault.NO_URL
    if parsed.scheme not in ("https", "http") or not host:
        return AddressFault.SCHEME_OR_HOST
    if parsed.raw_user is not None or parsed.raw_password is not None or "#" in url:
        return AddressFault.CREDENTIALS_OR_FRAGMENT
    return None if allow_private else _fault_in_public(parsed.scheme, host, port)


def _fault_in_public(scheme: str, host: str, port: int | None) -> AddressFault | None:
    if scheme != "https":
        return AddressFault.NOT_HTTPS
    labels = host.lower().removesuffix(".").split(".")
    # A last label of digits or 0x.. makes the host an IPv4 address to some parsers (WHATWG).
    if ":" in host or labels[-1].isdecimal() or labels[-1].startswith("0x"):
        return AddressFault.IP_ADDRESS
    if len(labels) < 2 or "" in labels or labels[-1] in _PRIVATE_ENDINGS:
        return AddressFault.PRIVATE_NAME
    if port is not None and port != _HTTPS and (port < _PORT_MIN or port in _BAD_PORTS):
        return AddressFault.PORT
    return None


async def _resolves_publicly(host: str, nameservers: Sequence[str]) -> bool:
    resolver = AsyncResolver(nameservers=list(nameservers) or None, timeout=_RESOLVE_S, tries=1)
    try:
        async with asyncio.timeout(_RESOLVE_S):
            answers = await resolver.resolve(host, 0, 0)  # type: ignore[arg-type]  # AF_UNSPEC: both families
    except OSError:  # TimeoutError is one
        return True
    finally:
        await resolver.close()
    return all(is_public(answer["host"]) for answer in answers)
