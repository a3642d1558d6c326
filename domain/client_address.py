"""Find the client's address behind proxies: the last hop that is not one of our proxies.

Only the hops that our own proxies appended to the header can be trusted. So the hops are read from the right as long as
a trusted address reported them; the first hop that is not trusted is the client.
"""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
HEADERS = ("x-forwarded-for", "forwarded")
"""A setting chooses one of these: a proxy that writes one header passes the other on as the client sent it."""
HOPS_MAX = 20

# RFC 7239 section 4: for=192.0.2.1, for="192.0.2.1:80", for="[2001:db8::1]:80"; anything else names no address.
_FORWARDED_FOR = re.compile(r"(?:^|;)\s*for\s*=\s*(?:\"([^\"]*)\"|([^;\"\s]+))", re.I)
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::[0-9]{1,5})?|([0-9.]+)(?::[0-9]{1,5})?")


def client_address(peer: str, values: Sequence[str], *, header: str, trusted: Sequence[Network]) -> str:
    """Returns the client's address. `peer` is the address connected to us, which is returned unless it is trusted;
    `values` are all lines of `header`, in order.

    A hop that cannot be parsed ends the search, and the proxy that reported it is returned, so that such hops get no
    rate limit of their own.
    """
    client = _parse(peer)
    if client is None or not _is_in_any(client, trusted):
        return peer if client is None else str(client)
    hops = [hop.strip() for value in values for hop in value.split(",")]
    for hop in reversed(hops[-HOPS_MAX:]):
        hop_address = _hop_address(hop, header)
        if hop_address is None:
            break
        client = hop_address
        if not _is_in_any(hop_address, trusted):
            break
    return str(client)


def client_group(address: str) -> str:
    """Returns the address or network under which requests are counted. For IPv6 it is the /64 network that one customer
    gets: a limit for each single address would limit nobody."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is None:
            return str(IPv6Address(int(ip) >> 64 << 64))
        ip = ip.ipv4_mapped
    return str(ip)


def is_among(address: str, networks: Sequence[Network]) -> bool:
    ip = _parse(address)
    return ip is not None and _is_in_any(ip, networks)


def _hop_address(text: str, header: str) -> IPv4Address | IPv6Address | None:
    if header == "forwarded":
        pair = _FORWARDED_FOR.search(text)
        if pair is None:
            return None
        text = pair[1] if pair[1] is not None else pair[2]
    bare = _parse(text)
    if bare is not None:
        return bare
    named = _WITH_PORT.fullmatch(text)
    return None if named is None else _parse(named[1] or named[2])


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    try:
        ip = ip_address(text)
    except ValueError:
        return None
    if isinstance(ip, IPv6Address):
        if ip.scope_id is not None:
            return None
        # A dual-stack socket shows IPv4 addresses as mapped IPv6 addresses.
        return ip.ipv4_mapped or ip
    return ip


def _is_in_any(address: IPv4Address | IPv6Address, trusted: Sequence[Network]) -> bool:
    return any(address in network for network in trusted)
