"""What a verification is of, and what its slices are: each one snapshot, none depending on another."""

from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

import sql
from domain.instants import day_begins
from readmodels.page import BEGINNING, END
from runtime.ids import first_id
from sql import Connection

_LIVE = timedelta(days=30)
LOWEST, HIGHEST = UUID(int=0), UUID(int=2**128 - 1)


class Difference(Struct, frozen=True):
    """So many rows of a table, or of the books, are not as they must be."""

    table: str
    what: str
    rows: int


Look = Callable[..., Awaitable[list[Difference]]]


def differences(name: str) -> Look:
    """Bind a statement that compares."""
    return sql.many(name, Difference)


class VerifyScope(Struct, frozen=True, omit_defaults=True):
    """One account or all; the days in Sao Paulo from `since` to `until`, both included, or all.

    Of days: charges, payments and whatever else has an id by the instant in its id, lines and events by their own.
    """

    account_id: UUID | None = None
    since: date | None = None
    until: date | None = None
    begun: datetime = END
    """Ids of the thirty days after it are those of what is written meanwhile: that is left to the next verification, so
    that none has to keep up with the writers. Ids from after these days are nobody's, and are looked at."""
    rows_max: int = 10_000
    """Of a slice: so many charges, with whatever happened to them, or so many rows of another table."""

    @property
    def everything(self) -> bool:
        return (self.account_id, self.since, self.until) == (None, None, None)

    @property
    def low(self) -> UUID:
        return self.account_id or LOWEST

    @property
    def high(self) -> UUID:
        return self.account_id or HIGHEST

    @property
    def lowest_id(self) -> UUID:
        return LOWEST if self.since is None else first_id(day_begins(self.since))

    @property
    def last_id(self) -> UUID:
        return HIGHEST if self.until is None else UUID(int=first_id(day_begins(self.after)).int - 1)

    @property
    def live_first(self) -> UUID:
        return first_id(min(self.begun, END - _LIVE) + timedelta(milliseconds=1))

    @property
    def live_after(self) -> UUID:
        return first_id(min(self.begun, END - _LIVE) + _LIVE)

    @property
    def first(self) -> date:
        return self.since or date.min

    @property
    def after(self) -> date:
        """The day after the last one."""
        return date.max if self.until is None else self.until + timedelta(days=1)

    @property
    def begins_at(self) -> datetime:
        return BEGINNING if self.since is None else day_begins(self.since)

    @property
    def ends_at(self) -> datetime:
        return END if self.until is None else day_begins(self.after)


class Slice(NamedTuple):
    """What one slice came to."""

    next: str | None
    """Where the next one begins; None when this was the last."""
    rows: int
    found: list[Difference]
    left_feed: int = 0
    """Events that left the feed with its old months: in the journal, less those that the numbers speak of."""


class VerifyPart(NamedTuple):
    """A walk along one table. All parts together look at every row of journal, books, read tables and totals."""

    name: str
    first: Callable[[VerifyScope], str]
    look: Callable[[Connection, VerifyScope, str], Awaitable[Slice]]
    """Of the slice that begins there."""
