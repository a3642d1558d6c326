"""Networks that somebody signs in from: one where they never were is told by e-mail.

A browser that is known is believed to be its person's own (web/painel/auth/devices.py); its cookie may be copied, and
then it comes from elsewhere. An address changes with every day and every telephone mast, so a place is what an operator
hands out in a region: 16 bits of an IPv4 address, 32 of an IPv6 one.
"""

import ipaddress
from datetime import datetime, timedelta
from typing import Final

import sql
from runtime.seal import Seal
from sql import Connection

REMEMBERED: Final = timedelta(days=180)
PLACES_MAX: Final = 50
"""Of one person; that of the longest ago is forgotten first."""
_BITS: Final = {4: 16, 6: 32}

_take_place = sql.one("session.take_place", bool)


async def take_place(conn: Connection, email: str, address: str, *, now: datetime, seal: Seal) -> bool:
    """Remember where somebody signs in from; whether they have signed in before, and never from there."""
    return await _take_place(
        conn,
        email=email,
        place_hash=seal.blind(f"sign-in place {email} {place_of(address)}"),
        now=now,
        since=now - REMEMBERED,
        limit=PLACES_MAX,
    )


def place_of(address: str) -> str:
    """The network of an address; what is none is a place of its own."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = getattr(parsed, "ipv4_mapped", None) or parsed
    return str(ipaddress.ip_network((mapped, _BITS[mapped.version]), strict=False))
