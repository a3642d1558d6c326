"""Keep what the bank's callbacks say, as hints: they move nothing, a worker asks the bank (contract section 5)."""

from datetime import datetime
from typing import Final

from msgspec import Struct

import sql
from domain.errors import Code, Refused
from sql import Connection


class _Stored(Struct, frozen=True):
    about: str


WAITING_MAX: Final = 100_000
"""Minutes of work of one worker process. What is refused beyond it the bank sends again, and the reconciler finds."""
_FULL_S: Final = 60

store = sql.many("bank_hint.store", _Stored)
are_full = sql.one("bank_hint.are_full", bool)


async def store_hints(conn: Connection, hints: dict[str, str], *, bank: str, now: datetime) -> int:
    """Keep hints of this bank: what each is known by, and the txid or boleto number to ask for; answers how many are
    new. Refused(SERVICE_UNAVAILABLE) when WAITING_MAX wait already."""
    if not hints:
        return 0
    if await are_full(conn, waiting_max=WAITING_MAX):
        raise Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=_FULL_S)
    return len(await store(conn, bank=bank, abouts=list(hints), txids=list(hints.values()), now=now))
