"""The scope of a verification, and its slices: each is one snapshot, and none depends on another."""

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
    """A number of rows of a table, or of the books, that are not as they must be."""

    table: str
    what: str
    rows: int


Look = Callable[..., Awaitable[list[Difference]]]


def differences(name: str) -> Look:
    """Bind a statement that returns differences."""
    return sql.many(name, Difference)


class VerifyScope(Struct, frozen=True, omit_defaults=True):
    """One account or all accounts; the Sao Paulo days from `since` to `until`, both included, or all days.

    Charges, payments and every other row with an id belong to the day of the instant in the id; ledger lines and events
    belong to the day of their created_at.
    """

    account_id: UUID | None = None
    since: date | None = None
    until: date | None = None
    begun: datetime = END
    """When the verification began. Ids of the thirty days after it belong to rows that are written meanwhile; they are
    left to the next verification, so that this one need not keep up with the writers. An id from beyond these days
    cannot come from a writer, and is checked."""
    rows_max: int = 10_000
    """Size of a slice: this many charges, with everything that happened to them, or this many rows of another table."""

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
    """The result of one slice."""

    next: str | None
    """Where the next slice begins; None after the last."""
    rows: int
    found: list[Difference]
    left_feed: int = 0
    """Events that left the feed with its detached months: counted in the journal, less the number that the sequences
    imply. Over all slices they sum to 0 when no event is missing."""


class VerifyPart(NamedTuple):
    """A walk along one table. All parts together check every row of journal, books, read tables and totals."""

    name: str
    first: Callable[[VerifyScope], str]
    look: Callable[[Connection, VerifyScope, str], Awaitable[Slice]]
    """Checks the slice that begins at the given key."""
