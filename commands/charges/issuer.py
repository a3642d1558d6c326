"""The account that issues a charge, and the actor who requested the charge."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from banks.protocol import Location
from domain.mode import Mode, Owner
from domain.pix.br_code import dynamic_br_code
from domain.sandbox_clock import on_clock
from sql import Connection


class Issuer(Struct, frozen=True, gc=False, kw_only=True):
    """The issuing account: `name`, `city` and `pix_key` go into the BR Code; the journal names `actor`."""

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
        """Returns the time on the clock of its charges at the real instant `now`."""
        return on_clock(now, self.ahead_s)


def br_code_at(location: Location, issuer: Issuer, amount_cents: int) -> str:
    """Returns the BR Code of a cob that will be at `location`."""
    return dynamic_br_code(location=location.location, amount_cents=amount_cents, name=issuer.name, city=issuer.city)


class PixKeyOwner(Struct, frozen=True):
    """The registered data of an account that go into its charges."""

    name: str
    city: str
    pix_key: str
    ahead_s: int
    """By how much its sandbox is ahead of real time; 0 in production."""


_find_registered = sql.maybe("account.registered", PixKeyOwner)


async def find_issuer(conn: Connection, owner: Owner, *, actor: str) -> Issuer:
    """Returns an account as the issuer of its charges. The account must exist."""
    registered = await _find_registered(conn, account_id=owner.account_id, test=owner.test)
    assert registered is not None
    return Issuer(
        account_id=owner.account_id,
        test=owner.test,
        name=registered.name,
        city=registered.city,
        pix_key=registered.pix_key,
        actor=actor,
        ahead_s=registered.ahead_s,
    )
