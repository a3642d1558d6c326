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


class _Stored(Struct, frozen=True):
    stored: int
    unknown: int


WAITING_MAX: Final = 100_000
"""Hints that may wait: minutes of work for one worker process. The bank repeats callbacks that are refused beyond it,
and the reconciler finds their payments."""
_FULL_S: Final = 60

_unknown = Counter("bank_hints_unknown", "Items of callbacks about no charge or boleto of ours.", ["bank"])

store = sql.one("bank_hint.store", _Stored)
are_full = sql.one("bank_hint.are_full", bool)


def by_cell(
    hints: dict[str, str], bank: str, blocks: Sequence[NumberBlock], cells: Collection[int]
) -> dict[int, dict[str, str]]:
    """Returns the hints by the cell of their charge or boleto; a hint that names none of `cells` goes to HOME."""
    found: dict[int, dict[str, str]] = {}
    for about, named in hints.items():
        if about.startswith(BOLETO_HINT):
            control = control_of(bank, named)
            number = HOME if control is None else owner_of_number(control, blocks)
        else:
            number = cell_of(UUID(named))
        found.setdefault(number if number in cells else HOME, {})[about] = named
    return found


async def store_hints(
    conn: Connection, hints: dict[str, str], *, bank: str, now: datetime, request_id: str | None = None
) -> int:
    """Store this bank's hints, each by its key with the txid or boleto number to ask the bank about; returns how many
    are new. Hints about no charge or boleto of ours are counted and not stored: the reconciler finds such money in the
    bank's lists. Refused(SERVICE_UNAVAILABLE) when WAITING_MAX hints wait already."""
    if not hints:
        return 0
    if await are_full(conn, waiting_max=WAITING_MAX):
        raise Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=_FULL_S)
    done = await store(
        conn,
        bank=bank,
        abouts=list(hints),
        txids=list(hints.values()),
        boletos=BOLETO_HINT,
        now=now,
        request_id=request_id,
    )
    if done.unknown:
        _unknown.labels(bank).inc(done.unknown)
    return done.stored
