"""Hash chains over the two append-only tables, the journal and the audit log: extended block by block behind the
writers, and checked by verifications.

A chain shows a change made past the triggers by a role that may disable them. A role that can also recompute the whole
chain is exposed by a digest that was kept elsewhere (`quita readmodels head`).
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

import sql
from readmodels.reports.fold import Horizon
from readmodels.verify_scope import Difference, Slice, VerifyPart, VerifyScope
from sql import Connection

ROWS_MAX: Final = 2_000
"""Rows of a block."""
_BLOCKS: Final = 10


class Chain(StrEnum):
    """The table that a chain seals."""

    JOURNAL = "journal"
    AUDIT = "audit"


class ChainSeal(Struct, frozen=True):
    """The seal of the block that ends with row `last_id`: the block's `rows`, and the chain's digest so far, in hex."""

    last_id: int
    rows: int
    digest: str
    sealed_at: datetime


class _BlockCheck(Struct, frozen=True):
    last_id: int
    rows: int
    holds: bool


_seal_next_block = sql.one("seal.extend", int)
_check_blocks = sql.many("seal.look", _BlockCheck)
chain_head = sql.maybe("seal.head", ChainSeal)
"""Takes `chain`."""
seal_at = sql.maybe("seal.at", ChainSeal)
"""Takes `chain, last_id`."""


async def extend_seals(conn: Connection, horizon: Horizon) -> int:
    """Seal the next block of each chain; returns the number of rows sealed. Below the horizon no new row can appear."""
    up_to = {Chain.JOURNAL: horizon.journal_id, Chain.AUDIT: horizon.audit_number}
    return sum([await _seal_next_block(conn, chain=chain, up_to=up_to[chain], limit=ROWS_MAX) for chain in Chain])


def _verify_part(name: str, chain: Chain) -> VerifyPart:
    async def check_slice(conn: Connection, scope: VerifyScope, start: str) -> Slice:
        if not scope.everything:  # a block has rows of all accounts and days
            return Slice(None, 0, [])
        checks = await _check_blocks(conn, chain=chain, last_id=int(start), limit=_BLOCKS)
        broken = sum(not each.holds for each in checks)
        found = [Difference(chain, "blocks that are not what was sealed", broken)] if broken else []
        next_start = str(checks[-1].last_id) if len(checks) == _BLOCKS else None
        return Slice(next_start, sum(each.rows for each in checks), found)

    return VerifyPart(name, lambda scope: "0", check_slice)


PARTS: Final = (_verify_part("seals", Chain.JOURNAL), _verify_part("audit_seals", Chain.AUDIT))
