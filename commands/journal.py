"""Post to the journal: number events and entries, append, project, and leave deliveries and bank orders to workers.

Everything that happens is written here, in the transaction that makes it happen. The clocks of the accounts concerned
are locked last, because a busy account's transactions queue for them.
"""

from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.bank_orders.kinds import kind_of
from domain.errors import Code, Refused
from domain.events import EventKind
from domain.mode import Owner
from readmodels.projector import Projection
from runtime.ids import new_id
from sql import Connection


class Event(Struct, frozen=True, gc=False):
    """An event for the merchant; `body` is the webhook's, frozen."""

    event_id: UUID
    body: bytes


class Entry(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A line of the ledger; credits are positive cents."""

    type: str
    amount_cents: int
    payment_id: UUID | None = None
    refund_id: UUID | None = None
    withdrawal_id: UUID | None = None
    covered: bool = False
    """Of a debit: the balance must cover it, else everything of its transaction is Refused(INSUFFICIENT_BALANCE)."""


class Posting(Struct, frozen=True, gc=False, kw_only=True):
    """One thing that happened: a journal row, and what comes with it.

    Without a charge it is about the account's wallet alone, and `version` is of whatever else it is about.
    """

    owner: Owner
    charge_id: UUID | None = None
    version: int
    kind: str
    at: datetime
    """When it happened, by the account's clock."""
    actor: str
    request_id: str | None = None
    payload: dict[str, Any]
    """The documents, or what changes in them, under the names in _PROJECTIONS."""
    event: Event | None = None
    entry: Entry | None = None
    order: Struct | None = None
    """The request of the order that it leaves for the charge's bank (commands/bank_orders/kinds.py)."""


class JournalRow(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A row as the statement reads it: one object costs the client less than twelve arrays do."""

    account_id: UUID
    test: bool
    charge_id: UUID | None = None
    version: int
    kind: str
    recorded_at: datetime
    actor: str
    request_id: str | None = None
    payload: dict[str, Any]
    event_id: UUID | None = None
    event_sequence: int | None = None
    event_body: str | None = None


class Clock(Struct, frozen=True, gc=False):
    """Where an account's clock stands after this transaction's numbers were taken."""

    account_id: UUID
    test: bool
    event_sequence: int
    entry_sequence: int
    balance_cents: int
    latest_at: datetime

    @property
    def owner(self) -> Owner:
        return Owner.of(self.account_id, self.test)


advance_clocks = sql.many("clock.advance", Clock)
post_rows = sql.run("journal.post")
add_orders = sql.run("order.add")
_encode = msgspec.json.Encoder().encode

_PROJECTIONS: Final = {
    "charge": Projection.CHANGED,
    "payment": Projection.PAYMENTS,
    "fund": Projection.FUNDS,
    "refund": Projection.REFUNDS_ENDED,
    "withdrawal": Projection.WITHDRAWALS_CHANGED,
    "entry": Projection.ENTRIES,
}
"""Which projection reads which part of a payload."""
_MAILED: Final = (EventKind.PAYMENT_RECEIVED, EventKind.CHARGE_DUE_DATE_CHANGED)
"""After which a payer may be mailed: a receipt, or another reminder."""
_BEGINNINGS: Final = {
    ("refund", "refund.created"): Projection.REFUNDS,
    ("withdrawal", "withdrawal.created"): Projection.WITHDRAWALS,
}
"""Where a part's first row has a projection of its own."""


async def post(conn: Connection, postings: Sequence[Posting], *, now: datetime) -> None:
    """Journal them in order. A row is dated by its account's clock; orders and deliveries are due by `now`, real time.

    Charges concerned are locked by this transaction. Raises Refused(INSUFFICIENT_BALANCE) when the balance does not
    cover a debit that it must cover, which is known only under the clock's lock. Nothing of the transaction may stay
    then; of several commands each is to be tried again alone.
    """
    await _order(conn, [posting for posting in postings if posting.order is not None], now=now)
    counts = await _take_numbers(conn, postings)
    projections: set[Projection] = set()
    items: list[bytes] = []
    for posting in postings:
        count = counts.get(posting.owner)
        payload, event, sequence = posting.payload, posting.event, None
        if posting.entry is not None:
            assert count is not None
            payload = {**payload, "entry": count.next_entry(posting.entry)}
        if event is not None:
            assert count is not None
            sequence = count.event = count.event + 1
            projections.add(Projection.EVENTS)
        for part in payload:
            if part in _PROJECTIONS:
                projections.add(_BEGINNINGS.get((part, posting.kind), _PROJECTIONS[part]))
        items.append(
            _encode(
                JournalRow(
                    account_id=posting.owner.account_id,
                    test=posting.owner.test,
                    charge_id=posting.charge_id,
                    version=posting.version,
                    kind=posting.kind,
                    recorded_at=posting.at if count is None else count.at,
                    actor=posting.actor,
                    request_id=posting.request_id,
                    payload=payload,
                    event_id=None if event is None else event.event_id,
                    event_sequence=sequence,
                    event_body=None if event is None else b64encode(event.body).decode(),
                )
            )
        )
    mailed = [posting.charge_id for posting in postings if not posting.owner.test and posting.kind in _MAILED]
    await post_rows(conn, items=items, which=list(projections), mailed=mailed, now=now)


class _Count:
    """How far this transaction moves a clock; after `start`, the clock counted on from its first number."""

    def __init__(self, at: datetime) -> None:
        self.at = at
        self.event = self.entry = self.cents = 0

    def start(self, clock: Clock) -> None:
        self.at = clock.latest_at
        self.event = clock.event_sequence - self.event
        self.entry = clock.entry_sequence - self.entry
        self.cents = clock.balance_cents - self.cents

    def next_entry(self, entry: Entry) -> dict[str, Any]:
        self.entry += 1
        self.cents += entry.amount_cents
        if entry.covered and self.cents < 0:
            raise Refused(Code.INSUFFICIENT_BALANCE)
        fields = {
            "sequence": self.entry,
            "entry_id": new_id(),
            "type": entry.type,
            "amount_cents": entry.amount_cents,
            "balance_after_cents": self.cents,
            "payment_id": entry.payment_id,
            "refund_id": entry.refund_id,
            "withdrawal_id": entry.withdrawal_id,
        }
        return {name: value for name, value in fields.items() if value is not None}


async def _take_numbers(conn: Connection, postings: Sequence[Posting]) -> dict[Owner, _Count]:
    """Lock and advance the clocks that are needed, in key order so that no two transactions wait in a circle."""
    counts: dict[Owner, _Count] = {}
    for posting in postings:
        if posting.event is None and posting.entry is None:
            continue
        count = counts.get(posting.owner)
        if count is None:
            count = counts[posting.owner] = _Count(posting.at)
        count.at = max(count.at, posting.at)
        count.event += posting.event is not None
        if posting.entry is not None:
            count.entry += 1
            count.cents += posting.entry.amount_cents
    if counts:
        owners = sorted(counts)
        for clock in await advance_clocks(conn, owners=owners, counts=[counts[owner] for owner in owners]):
            counts[clock.owner].start(clock)
    return counts


async def _order(conn: Connection, postings: Sequence[Posting], *, now: datetime) -> None:
    orders = [posting.order for posting in postings if posting.order is not None]
    if orders:
        await add_orders(
            conn,
            order_ids=[new_id() for _ in postings],
            postings=postings,
            kinds=[kind_of(order) for order in orders],
            requests=[_encode(order) for order in orders],
            now=now,
        )
