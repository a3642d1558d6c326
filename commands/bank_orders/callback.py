"""Store the bank's callbacks as hints. A hint moves no money: a worker asks the bank about it (contract section 5)."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from prometheus_client import Counter

import sql
from banks.choice import control_of
from banks.received import BOLETO_HINT
from domain.errors import Code, Refused
from runtime.cells.directory import NumberBlock, owner_of_number
from runtime.cells.number import HOME, cell_of
from sql import Connection


class _StoredCounts(Struct, frozen=True):
    stored: int
    unknown: int


WAITING_MAX: Final = 100_000
"""Hints that may wait: minutes of work for one worker process. The bank repeats callbacks that are refused beyond it,
and the reconciler finds their payments."""
_RETRY_AFTER_S: Final = 60

_unknown_hints = Counter("bank_hints_unknown", "Items of callbacks about no charge or boleto of ours.", ["bank"])

store = sql.one("bank_hint.store", _StoredCounts)
are_full = sql.one("bank_hint.are_full", bool)


def by_cell(
    hints: dict[str, str], bank: str, blocks: Sequence[NumberBlock], cells: Collection[int]
) -> dict[int, dict[str, str]]:
    """Returns the hints by the cell of their charge or boleto; a hint that names none of `cells` goes to HOME."""
    grouped: dict[int, dict[str, str]] = {}
    for about, txid_or_number in hints.items():
        if about.startswith(BOLETO_HINT):
            control = control_of(bank, txid_or_number)
            cell = HOME if control is None else owner_of_number(control, blocks)
        else:
            cell = cell_of(UUID(txid_or_number))
        grouped.setdefault(cell if cell in cells else HOME, {})[about] = txid_or_number
    return grouped


async def store_hints(
    conn: Connection, hints: dict[str, str], *, bank: str, now: datetime, request_id: str | None = None
) -> int:
    """Store this bank's hints, each by its key with the txid or boleto number to ask the bank about; returns how many
    are new. Hints about no charge or boleto of ours are counted and not stored: the reconciler finds such money in the
    bank's lists. Refused(SERVICE_UNAVAILABLE) when WAITING_MAX hints wait already."""
    if not hints:
        return 0
    if await are_full(conn, waiting_max=WAITING_MAX):
        raise Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=_RETRY_AFTER_S)
    counts = await store(
        conn,
        bank=bank,
        abouts=list(hints),
        txids=list(hints.values()),
        boletos=BOLETO_HINT,
        now=now,
        request_id=request_id,
    )
    if counts.unknown:
        _unknown_hints.labels(bank).inc(counts.unknown)
    return counts.stored
