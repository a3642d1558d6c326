"""Post to the journal: number events and ledger entries, append rows, update the projections, and enqueue webhook
deliveries and bank orders for the workers.

Every change is journaled here, in the transaction that makes the change. The clocks (`account_clock`: the counters and
the balance) of the accounts concerned are locked last, because a busy account's transactions queue for that lock.
"""

from base64 import b64encode
from collections.abc import Sequence
from copy import copy
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

BANK: Final = "bank"
"""The actor of changes that follow from a bank's answer or callback."""


class Event(Struct, frozen=True, gc=False):
    """An event for the merchant; `body` is the webhook body, whose bytes never change."""

    event_id: UUID
    body: bytes


class Entry(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A ledger entry; credits are positive cents."""

    type: str
    amount_cents: int
    payment_id: UUID | None = None
    refund_id: UUID | None = None
    withdrawal_id: UUID | None = None
    covered: bool = False
    """Set for a debit that the balance must cover, else the whole transaction is Refused(INSUFFICIENT_BALANCE)."""


class Posting(Struct, frozen=True, gc=False, kw_only=True):
    """One journal row to write, with its event, ledger entry and bank order, if any.

    A posting without a charge concerns the account's wallet alone; `version` is then that of the refund, withdrawal or
    other subject of the posting.
    """

    owner: Owner
    charge_id: UUID | None = None
    version: int
    kind: str
    at: datetime
    """When it happened, on the account's own time (a sandbox may be ahead of real time)."""
    actor: str
    request_id: str | None = None
    payload: dict[str, Any]
    """The documents, or their changed fields, under the names in _PROJECTIONS."""
    event: Event | None = None
    entry: Entry | None = None
    order: Struct | None = None
    """The request of the order to the charge's bank (commands/bank_orders/kinds.py)."""


class JournalRow(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A journal row as the statement reads it: one JSON object costs the client less than twelve arrays do.

    `events_back`, `entries_back` and `cents_back` are subtracted from the clock's counters as they stand after this
    transaction. So all rows are encoded before their numbers are known, that is before the clock is locked.
    """

    account_id: UUID
    test: bool
    charge_id: UUID | None = None
    version: int
    kind: str
    at: datetime
    """When the row is recorded, unless the account's clock has already recorded a later instant."""
    actor: str
    request_id: str | None = None
    payload: dict[str, Any]
    entry: dict[str, Any] | None = None
    covered: bool = False
    event_id: UUID | None = None
    event_body: str | None = None
    events_back: int = 0
    entries_back: int = 0
    cents_back: int = 0


post_rows = sql.one("journal.post", bool)
add_orders = sql.run("order.add")
_encode = msgspec.json.Encoder().encode

_PROJECTIONS: Final = {
    "charge": Projection.CHANGED,
    "payment": Projection.PAYMENTS,
    "fund": Projection.FUNDS,
    "refund": Projection.REFUNDS_ENDED,
    "withdrawal": Projection.WITHDRAWALS_CHANGED,
}
"""The projection that reads each part of a payload."""
_MAILED_KINDS: Final = (EventKind.PAYMENT_RECEIVED, EventKind.CHARGE_DUE_DATE_CHANGED)
"""Events after which the payer may be mailed a receipt or another reminder."""
_CREATION_PROJECTIONS: Final = {
    ("refund", "refund.created"): Projection.REFUNDS,
    ("withdrawal", "withdrawal.created"): Projection.WITHDRAWALS,
}
"""The (part, kind) pairs whose first row is read by a projection of its own."""


async def post(conn: Connection, postings: Sequence[Posting], *, now: datetime) -> None:
    """Journal the postings in order. Rows are dated by their account's time; orders and deliveries are due at `now`,
    which is real time.

    The caller's transaction has locked the charges concerned. Raises Refused(INSUFFICIENT_BALANCE) when the balance
    does not cover a debit marked `covered`, which is known only under the clock's lock. The caller must then roll back
    the whole transaction, and retry each of several batched commands alone.
    """
    await _add_orders(conn, postings, now=now)
    movements = _clock_movements(postings)
    owners = sorted(movements)  # one lock order for the clocks, so that no two transactions deadlock
    totals = [movements[owner] for owner in owners]
    movements = {owner: copy(movement) for owner, movement in movements.items()}
    projections: set[Projection] = set()
    items = []
    for posting in postings:
        for part in posting.payload:
            if part in _PROJECTIONS:
                projections.add(_CREATION_PROJECTIONS.get((part, posting.kind), _PROJECTIONS[part]))
        if posting.event is not None:
            projections.add(Projection.EVENTS)
        if posting.entry is not None:
            projections.add(Projection.ENTRIES)
        items.append(_encode(_journal_row(posting, movements.get(posting.owner))))
    mailed = [posting.charge_id for posting in postings if not posting.owner.test and posting.kind in _MAILED_KINDS]
    uncovered = await post_rows(
        conn, owners=owners, counts=totals, items=items, which=list(projections), mailed=mailed, now=now
    )
    if uncovered:
        raise Refused(Code.INSUFFICIENT_BALANCE)


class _ClockMovement(Struct, gc=False):
    """How far this transaction moves a clock; while the rows are built, how much of that the remaining rows take."""

    at: datetime
    events: int = 0
    entries: int = 0
    cents: int = 0


def _clock_movements(postings: Sequence[Posting]) -> dict[Owner, _ClockMovement]:
    """Returns the clock movement of each owner whose postings carry an event or an entry."""
    movements: dict[Owner, _ClockMovement] = {}
    for posting in postings:
        if posting.event is None and posting.entry is None:
            continue
        movement = movements.get(posting.owner)
        if movement is None:
            movement = movements[posting.owner] = _ClockMovement(posting.at)
        movement.at = max(movement.at, posting.at)
        movement.events += posting.event is not None
        if posting.entry is not None:
            movement.entries += 1
            movement.cents += posting.entry.amount_cents
    return movements


def _journal_row(posting: Posting, left: _ClockMovement | None) -> JournalRow:
    """`left` is the share of the owner's clock movement that this row and the rows after it take; this row's share is
    subtracted from it."""
    event, entry, fields = posting.event, posting.entry, None
    if left is None:
        left = _ClockMovement(posting.at)
    left.events -= event is not None
    if entry is not None:
        left.entries -= 1
        left.cents -= entry.amount_cents
        fields = {
            "entry_id": new_id(),
            "type": entry.type,
            "amount_cents": entry.amount_cents,
            "payment_id": entry.payment_id,
            "refund_id": entry.refund_id,
            "withdrawal_id": entry.withdrawal_id,
        }
        fields = {name: value for name, value in fields.items() if value is not None}
    return JournalRow(
        account_id=posting.owner.account_id,
        test=posting.owner.test,
        charge_id=posting.charge_id,
        version=posting.version,
        kind=posting.kind,
        at=posting.at,
        actor=posting.actor,
        request_id=posting.request_id,
        payload=posting.payload,
        entry=fields,
        covered=entry is not None and entry.covered,
        event_id=None if event is None else event.event_id,
        event_body=None if event is None else b64encode(event.body).decode(),
        events_back=left.events,
        entries_back=left.entries,
        cents_back=left.cents,
    )


async def _add_orders(conn: Connection, postings: Sequence[Posting], *, now: datetime) -> None:
    ordered = [(posting, posting.order) for posting in postings if posting.order is not None]
    if ordered:
        await add_orders(
            conn,
            order_ids=[new_id() for _ in ordered],
            postings=[posting for posting, _ in ordered],
            kinds=[kind_of(order) for _, order in ordered],
            requests=[_encode(order) for _, order in ordered],
            now=now,
        )
