"""Whose charge it will be: what issuing one needs to know of the account and of who asks."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.mode import Mode, Owner
from domain.sandbox_clock import on_clock


class Issuer(Struct, frozen=True, gc=False, kw_only=True):
    """`name`, `city` and `pix_key` go into the BR Code; `actor` is who the journal says it was."""

    account_id: UUID
    test: bool
    name: str
    city: str
    pix_key: str
    actor: str
    ahead_s: int = 0
    """By how much its sandbox is ahead of real time; 0 in production."""

    @property
    def mode(self) -> Mode:
        return Mode.of(self.test)

    @property
    def owner(self) -> Owner:
        return Owner.of(self.account_id, self.test)

    def clock(self, now: datetime) -> datetime:
        """The instant it is for its charges when it is really `now`."""
        return on_clock(now, self.ahead_s)


class PixKeyOwner(Struct, frozen=True):
    """What an account is registered with."""

    name: str
    city: str
    pix_key: str
    ahead_s: int
    """By how much its sandbox is ahead of real time; 0 in production."""


find_registered = sql.maybe("account.registered", PixKeyOwner)
"""`account_id` and `test`."""
