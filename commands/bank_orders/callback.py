"""Keep what the bank's callbacks say, as hints: they move nothing, a worker asks the bank (contract section 5)."""

from datetime import datetime

from msgspec import Struct

import sql
from sql import Connection


class _Stored(Struct, frozen=True):
    about: str


store = sql.many("bank_hint.store", _Stored)


async def store_hints(conn: Connection, hints: dict[str, str], *, bank: str, now: datetime) -> int:
    """Keep hints of this bank: what each is known by, and the txid or boleto number to ask for; answers how many are
    new."""
    if not hints:
        return 0
    return len(await store(conn, bank=bank, abouts=list(hints), txids=list(hints.values()), now=now))
