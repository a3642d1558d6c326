"""The same work on a small database and on larger ones, in turn: its cost must not follow how much there is.

Databases of one server, each with a year of one busy merchant. BENCH_CHARGES sets their sizes (10000,200000), the
small one first; a million charges are five gigabytes and take some seven minutes to write. Beside the time of each
piece of work stand the blocks that PostgreSQL touched for it and the WAL it wrote, which no other program of the
machine changes.
"""

import os
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from msgspec import Struct

from bench.environment import BenchEnvironment
from bench.growth_books import filled
from bench.growth_work import ROUNDS, Round, Work
from bench.report import Finding, Shown
from runtime.postgres import Pool, session

AIM = 1.2
"""How many times the cost on the small database the larger one may have, in blocks and in time."""

_SIZES = os.environ.get("BENCH_CHARGES", "10000,200000")

_COST = """
SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint AS blocks,
  coalesce(sum(shared_blks_read), 0)::bigint AS uncached,
  coalesce(sum(wal_bytes), 0)::bigint AS wal
FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


class _Cost(NamedTuple):
    ms: float
    blocks: int
    """Touched, in the cache or not."""
    uncached: int
    """Those that were not in PostgreSQL's cache."""
    wal: int
    """Bytes, of whole pages too."""


class Compared(Struct, frozen=True):
    """Medians, and how many times the first the second is."""

    small: float
    large: float
    ratio: float
    held: bool
    """The ratio is AIM at most."""

    def said(self, shown: str) -> str:
        verdict = "ok" if self.held else "MISSED"
        return f"{self.ratio:.2f} {verdict:<6} ({format(self.small, shown)} and {format(self.large, shown)})"


class Growth(Struct, frozen=True):
    """What a piece of work costs in two databases."""

    name: str
    charges: tuple[int, int]
    items: int
    """How many were created, paid, found or listed each time."""
    blocks: Compared
    ms: Compared
    """Its ratio is the median of those of the pairs: what disturbs one database disturbs the next moment's as well."""
    uncached: tuple[int, int]
    """Of the blocks, those that were not in PostgreSQL's cache: what of the time is the memory that it was given."""
    wal: tuple[int, int]

    def line(self) -> str:
        line = f"  {self.name:<38} blocks {self.blocks.said(',.0f'):<30} ms {self.ms.said(',.2f'):<29}"
        if any(self.wal):
            line += f" WAL {self.wal[0]:,} and {self.wal[1]:,}"
        if any(self.uncached):
            line += f" not cached {self.uncached[0]:,} and {self.uncached[1]:,}"
        return line.rstrip()


class Heading(Struct, frozen=True):
    """Of what follows."""

    charges: tuple[int, int]
    pages: tuple[int, int]
    """The numbers of the first page that is far down; each round asks for the next one."""
    rounds: int

    def line(self) -> str:
        return (
            f"  {self.charges[1]:,} charges to {self.charges[0]:,}, medians of {self.rounds} rounds; aim <= {AIM}"
            f" by blocks and time; far down are pages {self.pages[0]:,} and {self.pages[1]:,}"
        )


async def growth(environment: BenchEnvironment, seconds: float) -> list[Shown]:
    """`seconds` is not used: every piece of work is done a number of times in each database."""
    sizes = [int(size) for size in _SIZES.split(",")]
    async with AsyncExitStack() as opened:
        books = [await opened.enter_async_context(filled(environment, size)) for size in sizes]
        rounds = [Round(each) for each in books]
        works = [each.works() for each in rounds]
        costs = [[list[_Cost]() for _ in works[0]] for _ in sizes]
        for number in range(ROUNDS + 1):
            for each in rounds:
                await each.begin(number)
            for at in range(len(works[0])):
                for time_ in range(works[0][at].times):
                    # One right after the other, and every second time the other way round.
                    for of in range(len(sizes)) if (number + time_) % 2 else reversed(range(len(sizes))):
                        cost = await _cost_of(books[of].pool, works[of][at])
                        if number:  # the first round makes the plans
                            costs[of][at].append(cost)
        wrote = [await each.check() for each in rounds]
    shown: list[Shown] = []
    for of in range(1, len(sizes)):
        both = (sizes[0], sizes[of])
        shown.append(Heading(both, (rounds[0].deep_page, rounds[of].deep_page), ROUNDS))
        shown += [_grown(work, both, costs[0][at], costs[of][at]) for at, work in enumerate(works[of])]
    for size, (paid, deliveries) in zip(sizes, wrote, strict=True):
        name = f"deliveries written for each payment, of {size:,} charges"
        shown.append(Finding(name, deliveries / paid, "each", note=f"{paid:,} payments"))
    return shown


async def _cost_of(pool: Pool, work: Work) -> _Cost:
    async with session(pool) as conn:
        before = await conn.fetchrow(_COST)
    began = time.perf_counter()
    items = await work.run()
    ms = (time.perf_counter() - began) * 1_000
    async with session(pool) as conn:
        after = await conn.fetchrow(_COST)
    assert items == work.items, f"{work.name}: {items} of {work.items}"
    assert before is not None
    assert after is not None
    return _Cost(ms, *(after[name] - before[name] for name in ("blocks", "uncached", "wal")))


def _grown(work: Work, charges: tuple[int, int], small: Sequence[_Cost], large: Sequence[_Cost]) -> Growth:
    few, many = _medians(small), _medians(large)
    ms_ratio = statistics.median(after.ms / before.ms for before, after in zip(small, large, strict=True))
    return Growth(
        name=work.name,
        charges=charges,
        items=work.items,
        blocks=_compared(few.blocks, many.blocks, many.blocks / few.blocks),
        ms=_compared(few.ms, many.ms, ms_ratio),
        uncached=(few.uncached, many.uncached),
        wal=(few.wal, many.wal),
    )


def _medians(costs: Sequence[_Cost]) -> _Cost:
    ms, *counted = zip(*costs, strict=True)
    return _Cost(statistics.median(ms), *(round(statistics.median(each)) for each in counted))


def _compared(small: float, large: float, ratio: float) -> Compared:
    return Compared(small, large, ratio, ratio <= AIM)
