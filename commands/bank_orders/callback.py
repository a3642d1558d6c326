"""Keep what the bank's callbacks say, as hints: they move nothing, a worker asks the bank (contract section 5)."""

from datetime import datetime
from typing import Final

from msgspec import Struct
from prometheus_client import Counter

import sql
from banks.received import BOLETO_HINT
from domain.errors import Code, Refused
from sql import Connection


class _Stored(Struct, frozen=True):
    stored: int
    unknown: int


WAITING_MAX: Final = 100_000
"""Minutes of work of one worker process. What is refused beyond it the bank sends again, and the reconciler finds."""
_FULL_S: Final = 60

_unknown = Counter("bank_hints_unknown", "Items of callbacks about no charge or boleto of ours.", ["bank"])

store = sql.one("bank_hint.store", _Stored)
are_full = sql.one("bank_hint.are_full", bool)


async def store_hints(conn: Connection, hints: dict[str, str], *, bank: str, now: datetime) -> int:
    """Keep hints of this bank: what each is known by, and the txid or boleto number to ask for; answers how many are
    new. Those about no charge or boleto of ours are counted and not kept: money for none is found in the bank's lists.
    Refused(SERVICE_UNAVAILABLE) when WAITING_MAX wait already."""
    if not hints:
        return 0
    if await are_full(conn, waiting_max=WAITING_MAX):
        raise Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=_FULL_S)
    done = await store(conn, bank=bank, abouts=list(hints), txids=list(hints.values()), boletos=BOLETO_HINT, now=now)
    if done.unknown:
        _unknown.labels(bank).inc(done.unknown)
    return done.stored
