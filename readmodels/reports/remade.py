"""Columns that cannot be added over several cells, computed anew from their parts: percentiles from the histograms, a
mean from its sum. The results are the same, to the unit, as from one database with all the rows."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from readmodels.reports.report import Column, ColumnKind, Remade, Row
from readmodels.reports.totals import totals

_DAY = Column("day", "Dia", ColumnKind.DATE)
_COUNT_COLUMNS = ("charges", "bucket", "attempts", "duration_ms")


def _part_columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, name, ColumnKind.COUNT if name in _COUNT_COLUMNS else ColumnKind.TEXT) for name in names)


def half_up(part: int, whole: int) -> int:
    """The quotient, rounded as PostgreSQL rounds it: halves away from zero, for negative numbers too. `whole` is
    positive."""
    rounded = (2 * abs(part) + whole) // (2 * whole)
    return -rounded if part < 0 else rounded


def _percentiles(parts: Sequence[Row]) -> Row:
    """The median and the 90th percentile, by nearest rank and a bucket's middle, as in the statement `conversion`."""
    histogram: Counter[int] = Counter()
    for bucket, charges in parts:
        histogram[bucket] += charges
    buckets = sorted(histogram)
    total = histogram.total()
    cumulative = list(zip(buckets, accumulate(histogram[each] for each in buckets), strict=True))

    def percentile(tenths: int) -> int | None:
        reached_bucket = next((bucket for bucket, up_to in cumulative if up_to * 10 >= total * tenths), None)
        return None if reached_bucket is None else round(2.0 ** ((reached_bucket + 0.5) / 8))

    return percentile(5), percentile(9)


def _mean(parts: Sequence[Row]) -> Row:
    attempts = sum(part[0] for part in parts)
    return (half_up(sum(part[1] for part in parts), attempts) if attempts else None,)


WAITED: Final = Remade(
    ("median_seconds", "p90_seconds"),
    totals("waited", (_DAY, *_part_columns("method", "bucket", "charges"))),
    _percentiles,
)
MEAN_MS: Final = Remade(("mean_ms",), totals("took_ms", (_DAY, *_part_columns("attempts", "duration_ms"))), _mean)
