"""The networks that a person signs in from: a sign-in from a new one is mailed to the person.

A known browser is assumed to be its person's own (web/painel/auth/devices.py). If its cookie is copied, the copy signs
in from elsewhere. An IP address may change every day and with every mobile mast, so a place is the range that a network
operator assigns in a region: 16 bits of an IPv4 address, 32 bits of an IPv6 address.
"""

import ipaddress
from datetime import datetime, timedelta
from typing import Final

import sql
from runtime.seal import Seal
from sql import Connection

REMEMBERED: Final = timedelta(days=180)
PLACES_MAX: Final = 50
"""Places remembered of one person; the place used longest ago is forgotten first."""
_PREFIX_BITS: Final = {4: 16, 6: 32}

_take_place = sql.one("session.take_place", bool)


async def remember_place(conn: Connection, email: str, address: str, *, now: datetime, seal: Seal) -> bool:
    """Remember the place of a sign-in; returns whether the person has signed in before, but never from this place."""
    return await _take_place(
        conn,
        email=email,
        place_hash=seal.blind(f"sign-in place {email} {place_of(address)}"),
        now=now,
        since=now - REMEMBERED,
        limit=PLACES_MAX,
    )


def place_of(address: str) -> str:
    """Returns the network of an address; text that is no IP address is a place of its own."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    ip = getattr(parsed, "ipv4_mapped", None) or parsed
    return str(ipaddress.ip_network((ip, _PREFIX_BITS[ip.version]), strict=False))
