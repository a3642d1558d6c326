"""The chain of hashes over the journal: made block by block behind the writers, and looked at by verifications.

It shows a change that was made past the append-only triggers, by whoever may switch them off. Who can also make the
whole chain anew is found out by a digest that was kept elsewhere (`quita readmodels head`).
"""

from datetime import datetime
from typing import Final

from msgspec import Struct

import sql
from readmodels.verify_scope import Difference, Slice, VerifyPart, VerifyScope
from sql import Connection

ROWS_MAX: Final = 2_000
"""Of a block."""
_BLOCKS: Final = 10


class JournalSeal(Struct, frozen=True):
    """Of the rows up to `last_id`: `rows` of its block, and the digest of the chain so far, in hex."""

    last_id: int
    rows: int
    digest: str
    sealed_at: datetime


class _Looked(Struct, frozen=True):
    last_id: int
    rows: int
    holds: bool


_extend = sql.one("seal.extend", int)
_look_at = sql.many("seal.look", _Looked)
journal_head = sql.maybe("seal.head", JournalSeal)
seal_at = sql.maybe("seal.at", JournalSeal)
"""`last_id`."""


async def extend_seals(conn: Connection, *, up_to: int) -> int:
    """Seal the next block; how many rows. Below `up_to` no row can appear any more (readmodels/reports/fold.py)."""
    return await _extend(conn, up_to=up_to, limit=ROWS_MAX)


async def _look(conn: Connection, scope: VerifyScope, began: str) -> Slice:
    if not scope.everything:  # a block has rows of all accounts and days
        return Slice(None, 0, [])
    looked = await _look_at(conn, last_id=int(began), limit=_BLOCKS)
    broken = sum(not each.holds for each in looked)
    found = [Difference("journal", "blocks that are not what was sealed", broken)] if broken else []
    following = str(looked[-1].last_id) if len(looked) == _BLOCKS else None
    return Slice(following, sum(each.rows for each in looked), found)


PART: Final = VerifyPart("seals", lambda scope: "0", _look)
