"""Which IP addresses the public internet routes: those alone may be what a merchant's webhook address leads to."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

# What `ipaddress.is_global` wrongly allows in some Python versions. Ranges that embed IPv4 addresses are refused whole.
_REFUSED: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(each)
    for each in (
        "64:ff9b::/96",  # NAT64, also of 127.0.0.1
        "64:ff9b:1::/48",  # NAT64, local use
        "2002::/16",  # 6to4
        "2001::/32",  # Teredo
        "::/96",  # IPv4-compatible
        "fec0::/10",  # site-local
        "3fff::/20",  # documentation
        "5f00::/16",  # SRv6 SIDs
        "100::/64",  # discard
        "192.88.99.0/24",  # 6to4 relays
        "192.0.0.0/24",  # protocol assignments
        "168.63.129.16/32",  # a cloud's host, reached from inside its machines
        "100.100.100.200/32",  # a cloud's metadata
    )
)


def is_public(address: str) -> bool:
    """Whether an IP address, as text, is one the public internet routes. False for what is no address."""
    try:
        ip: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _REFUSED)
