"""Several lists walked as one: what follows a position in each is what follows it in all of them."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from readmodels.page import SortOrder, TimePosition, cut, merged

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    at: datetime
    id: UUID


# Few instants, so that many rows are of the same one; an id is of one list alone.
lists = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=4)


def page_of(
    rows: list[Row], order: SortOrder, after: TimePosition | None, limit: int
) -> tuple[list[Row], TimePosition | None]:
    """As `time_page` reads it."""
    there = sorted(rows, reverse=order is SortOrder.DESC)
    if after is not None:
        edge = (after.at, after.id)
        there = [row for row in there if (tuple(row) < edge if order is SortOrder.DESC else tuple(row) > edge)]
    page, last = cut(there[: limit + 1], limit)
    return list(page), TimePosition(last.at, last.id) if last else None


@given(lists=lists, limit=st.integers(1, 5), order=st.sampled_from(SortOrder))
def test_every_row_comes_once_in_one_order(lists: list[list[int]], limit: int, order: SortOrder) -> None:
    held = [
        [Row(BEGIN + timedelta(minutes=at), UUID(int=100 * place + number)) for place, at in enumerate(ats)]
        for number, ats in enumerate(lists)
    ]
    whole = sorted((row for rows in held for row in rows), reverse=order is SortOrder.DESC)
    walked: list[Row] = []
    after: TimePosition | None = None
    while True:
        rows, after = merged([page_of(each, order, after, limit) for each in held], order, limit)
        walked += rows
        assert len(walked) <= len(whole)
        if after is None:
            break
        assert len(rows) == limit
        assert (after.at, after.id) == tuple(rows[-1])
    assert walked == whole
