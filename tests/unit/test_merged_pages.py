"""Several lists paged as one list: a position stands for the same place in each of them."""

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


# Few instants, so that many rows have the same one. Each id is in one list only.
lists = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=4)


def page_of(
    rows: list[Row], order: SortOrder, after: TimePosition | None, limit: int
) -> tuple[list[Row], TimePosition | None]:
    """A page as `time_page` reads it."""
    sorted_rows = sorted(rows, reverse=order is SortOrder.DESC)
    if after is not None:
        edge = (after.at, after.id)
        sorted_rows = [
            row for row in sorted_rows if (tuple(row) < edge if order is SortOrder.DESC else tuple(row) > edge)
        ]
    page, last = cut(sorted_rows[: limit + 1], limit)
    return list(page), TimePosition(last.at, last.id) if last else None


@given(lists=lists, limit=st.integers(1, 5), order=st.sampled_from(SortOrder))
def test_the_pages_of_merged_lists_contain_every_row_once_and_in_order(
    lists: list[list[int]], limit: int, order: SortOrder
) -> None:
    rows_of_lists = [
        [Row(BEGIN + timedelta(minutes=at), UUID(int=100 * place + number)) for place, at in enumerate(ats)]
        for number, ats in enumerate(lists)
    ]
    whole = sorted((row for rows in rows_of_lists for row in rows), reverse=order is SortOrder.DESC)
    paged: list[Row] = []
    after: TimePosition | None = None
    while True:
        rows, after = merged([page_of(each, order, after, limit) for each in rows_of_lists], order, limit)
        paged += rows
        assert len(paged) <= len(whole)
        if after is None:
            break
        assert len(rows) == limit
        assert (after.at, after.id) == tuple(rows[-1])
    assert paged == whole
