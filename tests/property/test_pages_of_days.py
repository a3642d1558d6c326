"""The pages of a list within a range of instants contain each row of the range once and in order."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from readmodels.page import SortOrder, TimePosition, time_page

_ZERO = datetime(2026, 1, 1, tzinfo=UTC)
_INSTANTS = st.integers(0, 4).map(lambda us: _ZERO + timedelta(microseconds=us))
_IDS = st.sampled_from([UUID(int=0), UUID(int=1), UUID(int=2**127), UUID(int=2**128 - 1)])
_ROWS = st.sets(st.builds(lambda at, id_: (at, id_), _INSTANTS, _IDS), max_size=12)


async def _fetch(conn: Any, *, order: SortOrder, at: datetime, id: UUID, until: datetime, limit: int) -> list[Any]:
    """Selects rows as the SQL statements do: those beyond (at, id) up to `until`, which descending order includes and
    ascending order excludes."""
    if order is SortOrder.DESC:
        found = sorted((row for row in conn if row < (at, id) and row[0] >= until), reverse=True)
    else:
        found = sorted(row for row in conn if row > (at, id) and row[0] < until)
    return [TimePosition(*row) for row in found[:limit]]


async def _all_rows(
    rows: Any, order: SortOrder, limit: int, after: TimePosition | None, **between: Any
) -> Sequence[Any]:
    found: list[Any] = []
    while True:
        page, after = await time_page(_fetch, rows, order, after, limit, **between)
        found += [(row.at, row.id) for row in page]
        if after is None:
            return found


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(
    rows=_ROWS,
    order=st.sampled_from(list(SortOrder)),
    limit=st.integers(1, 4),
    since=st.none() | _INSTANTS,
    before=st.none() | _INSTANTS,
    after=st.none() | st.builds(TimePosition, _INSTANTS, _IDS),
)
def test_every_row_of_the_range_is_on_one_page(
    rows: set[tuple[datetime, UUID]],
    order: SortOrder,
    limit: int,
    since: datetime | None,
    before: datetime | None,
    after: TimePosition | None,
) -> None:
    wanted = sorted(
        (row for row in rows if (since is None or since <= row[0]) and (before is None or row[0] < before)),
        reverse=order is SortOrder.DESC,
    )
    if after is not None:
        place = (after.at, after.id)
        wanted = [row for row in wanted if (row < place if order is SortOrder.DESC else row > place)]
    assert asyncio.run(_all_rows(rows, order, limit, after, since=since, before=before)) == wanted
