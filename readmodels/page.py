"""What all lists share: one more row than asked tells whether there is a next page."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

Row = TypeVar("Row")

LIMIT_DEFAULT = 25
LIMIT_MAX = 100


class SortOrder(StrEnum):
    DESC = "desc"
    ASC = "asc"


def cut(rows: Sequence[Row], limit: int) -> tuple[Sequence[Row], Row | None]:
    """The page, and its last row when more follow."""
    page = rows[:limit]
    return page, page[-1] if len(rows) > limit else None
