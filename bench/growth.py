"""The same work on a small database and on larger ones, in turn: its cost must not grow with the amount of data.

The databases are on one server, each with a year of one busy merchant. BENCH_CHARGES sets their sizes (10000,200000),
the small one first; a million charges are five gigabytes and take about seven minutes to write. For each piece of work
the bench shows its time, and the blocks that PostgreSQL touched and the WAL it wrote, which do not depend on other
programs of the machine.
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
"""The most that the cost on a larger database may be, as a multiple of that on the small one, in blocks and in time."""

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
    """Blocks touched, in the cache or not."""
    uncached: int
    """Blocks that were not in PostgreSQL's cache."""
    wal: int
    """Bytes of WAL, full-page images included."""


class Compared(Struct, frozen=True):
    """The medians on both databases, and their ratio (large / small)."""

    small: float
    large: float
    ratio: float
    held: bool
    """Whether the ratio is at most AIM."""

    def said(self, shown: str) -> str:
        verdict = "ok" if self.held else "MISSED"
        return f"{self.ratio:.2f} {verdict:<6} ({format(self.small, shown)} and {format(self.large, shown)})"


class Growth(Struct, frozen=True):
    """The cost of a piece of work in two databases."""

    name: str
    charges: tuple[int, int]
    items: int
    """How many items were created, paid, found or listed each time."""
    blocks: Compared
    ms: Compared
    """The ratio is the median of the ratios of pairs: a disturbance of the machine affects both runs of a pair."""
    uncached: tuple[int, int]
    """The blocks that were not in PostgreSQL's cache: the part of the time that depends on the cache's size."""
    wal: tuple[int, int]

    def line(self) -> str:
        line = f"  {self.name:<38} blocks {self.blocks.said(',.0f'):<30} ms {self.ms.said(',.2f'):<29}"
        if any(self.wal):
            line += f" WAL {self.wal[0]:,} and {self.wal[1]:,}"
        if any(self.uncached):
            line += f" not cached {self.uncached[0]:,} and {self.uncached[1]:,}"
        return line.rstrip()


class Heading(Struct, frozen=True):
    """The heading of a comparison of two databases."""

    charges: tuple[int, int]
    pages: tuple[int, int]
    """The number of the deep page in each database in the first round; each round asks for the next page."""
    rounds: int

    def line(self) -> str:
        return (
            f"  {self.charges[1]:,} charges to {self.charges[0]:,}, medians of {self.rounds} rounds; aim <= {AIM}"
            f" by blocks and time; far down are pages {self.pages[0]:,} and {self.pages[1]:,}"
        )


async def growth(environment: BenchEnvironment, seconds: float) -> list[Shown]:
    """Runs every piece of work a fixed number of times in each database; `seconds` is not used."""
    sizes = [int(size) for size in _SIZES.split(",")]
    async with AsyncExitStack() as stack:
        books = [await stack.enter_async_context(filled(environment, size)) for size in sizes]
        rounds = [Round(each) for each in books]
        works = [each.works() for each in rounds]
        costs = [[list[_Cost]() for _ in works[0]] for _ in sizes]
        for number in range(ROUNDS + 1):
            for each in rounds:
                await each.begin(number)
            for work_index in range(len(works[0])):
                for repetition in range(works[0][work_index].times):
                    # The databases run right after one another, in alternating order.
                    for index in range(len(sizes)) if (number + repetition) % 2 else reversed(range(len(sizes))):
                        cost = await _cost_of(books[index].pool, works[index][work_index])
                        if number:  # not the first round, in which statements are planned
                            costs[index][work_index].append(cost)
        totals = [await each.check() for each in rounds]
    lines: list[Shown] = []
    for index in range(1, len(sizes)):
        compared_sizes = (sizes[0], sizes[index])
        lines.append(Heading(compared_sizes, (rounds[0].deep_page, rounds[index].deep_page), ROUNDS))
        lines += [
            _growth_of(work, compared_sizes, costs[0][work_index], costs[index][work_index])
            for work_index, work in enumerate(works[index])
        ]
    for size, (paid, deliveries) in zip(sizes, totals, strict=True):
        name = f"deliveries written for each payment, of {size:,} charges"
        lines.append(Finding(name, deliveries / paid, "each", note=f"{paid:,} payments"))
    return lines


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


def _growth_of(work: Work, charges: tuple[int, int], small: Sequence[_Cost], large: Sequence[_Cost]) -> Growth:
    small_median, large_median = _medians(small), _medians(large)
    ms_ratio = statistics.median(after.ms / before.ms for before, after in zip(small, large, strict=True))
    return Growth(
        name=work.name,
        charges=charges,
        items=work.items,
        blocks=_compare(small_median.blocks, large_median.blocks, large_median.blocks / small_median.blocks),
        ms=_compare(small_median.ms, large_median.ms, ms_ratio),
        uncached=(small_median.uncached, large_median.uncached),
        wal=(small_median.wal, large_median.wal),
    )


def _medians(costs: Sequence[_Cost]) -> _Cost:
    ms, *counts = zip(*costs, strict=True)
    return _Cost(statistics.median(ms), *(round(statistics.median(each)) for each in counts))


def _compare(small: float, large: float, ratio: float) -> Compared:
    return Compared(small, large, ratio, ratio <= AIM)
