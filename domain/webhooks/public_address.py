"""Decide which IP addresses are public: only these may be reached through a merchant's webhook address."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

# The part of IPv6 that IANA assigns to the internet. Outside it are local addresses, and addresses that embed an IPv4
# address, possibly 127.0.0.1, for translation (NAT64, SIIT).
_ASSIGNED_IPV6 = IPv6Network("2000::/3")
# Ranges that `ipaddress.is_global` wrongly allows in some Python versions. Those that embed IPv4 are refused whole.
_NOT_PUBLIC: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(each)
    for each in (
        "2002::/16",  # 6to4
        "2001::/32",  # Teredo
        "3fff::/20",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.0.0.0/24",  # protocol assignments
        "168.63.129.16/32",  # a cloud's host, reached from inside its machines
        "100.100.100.200/32",  # a cloud's metadata
    )
)


def is_public(address: str) -> bool:
    """Whether the public internet routes this IP address, given as text. False for text that is no address."""
    try:
        ip: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if ip.version == 6 and ip not in _ASSIGNED_IPV6:
        return False
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _NOT_PUBLIC)
