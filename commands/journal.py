"""Write down what happened: journal, numbers, read tables, webhooks and bank orders, in one transaction."""

from __future__ import annotations

from base64 import b64encode
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.bank_orders.kinds import kind_of
from domain.errors import Code, Refused
from domain.mode import Owner
from domain.refund import RefundStatus
from readmodels.projector import Projection, project
from runtime.ids import new_id
from sql import Connection

if TYPE_CHECKING:
    from commands.charges.change import ChargeChange, ChargeCommand

_encode = msgspec.json.Encoder().encode


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


class JournalRow(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A row of the journal as the statement reads it: one object costs the client less than twelve arrays do.

    Without a charge it is about the account's wallet alone, and `version` is of whatever else it is about.
    """

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


class Appended(Struct, frozen=True, gc=False):
    journal_id: int


advance_clocks = sql.many("clock.advance", Clock)
append = sql.many("journal.append", Appended)
enqueue_deliveries = sql.run("webhook_delivery.enqueue")
add_orders = sql.run("order.add")


class _Numbers:
    """Counts one clock forward, from its first number of this transaction."""

    def __init__(self, clock: Clock, *, events: int, entries: int, cents: int) -> None:
        self.event = clock.event_sequence - events
        self.entry = clock.entry_sequence - entries
        self.balance = clock.balance_cents - cents
        self.at = clock.latest_at


async def record(conn: Connection, changes: Sequence[tuple[ChargeChange, ChargeCommand]], *, now: datetime) -> None:
    """Journal the steps in order, give events and entries their numbers, project them, and leave the work they cause.

    Lines are dated by the clock of their account, work is due by real time, which is `now`.
    The charges are locked by this transaction; nobody outside is waited for. Raises Refused(INSUFFICIENT_BALANCE) when
    the balance does not cover a debit that it must cover: what it is after each line is known only here, under the
    clock's lock. Nothing of the transaction may stay then; whoever sent several wishes sends each again alone.
    """
    await _order(conn, [change for change, _ in changes if change.order is not None], now=now)
    numbers = await _take_numbers(conn, changes, now=now)
    items: list[bytes] = []
    which = {Projection.CHANGED}
    for change, command in changes:
        charge = change.charge
        of = numbers.get(charge.owner)
        payload: dict[str, Any] = {}
        if charge.external_id is not None:
            payload["external_id"] = charge.external_id
        if change.charge_fields is not None:
            payload["charge"] = {"status": charge.status, "version": charge.version, **change.charge_fields}
        if change.payment_fields is not None:
            payload["payment"] = change.payment_fields
            which.add(Projection.PAYMENTS)
        if change.refund is not None:
            payload["refund"] = change.refund_fields
            payload["fund"] = change.fund_fields
            begun = change.refund.status == RefundStatus.PENDING
            which |= {Projection.REFUNDS if begun else Projection.REFUNDS_ENDED, Projection.FUNDS}
        if change.entry is not None:
            assert of is not None
            of.entry += 1
            of.balance += change.entry.amount_cents
            if change.entry.covered and of.balance < 0:
                raise Refused(Code.INSUFFICIENT_BALANCE)
            which.add(Projection.ENTRIES)
            payload["entry"] = entry = {
                "sequence": of.entry,
                "entry_id": new_id(),
                "type": change.entry.type,
                "amount_cents": change.entry.amount_cents,
                "balance_after_cents": of.balance,
                "payment_id": change.entry.payment_id,
            }
            if change.entry.refund_id is not None:
                entry["refund_id"] = change.entry.refund_id
        if change.event is not None:
            assert of is not None
            of.event += 1
            which.add(Projection.EVENTS)
        items.append(
            _encode(
                JournalRow(
                    account_id=charge.account_id,
                    test=charge.test,
                    charge_id=charge.charge_id,
                    version=charge.version,
                    kind=change.kind,
                    recorded_at=of.at if of is not None else charge.clock(now),
                    actor=command.actor,
                    request_id=command.request_id,
                    payload=payload,
                    event_id=change.event.event_id if change.event else None,
                    event_sequence=of.event if change.event and of else None,
                    event_body=b64encode(change.event.body).decode() if change.event else None,
                )
            )
        )
    journal_ids = [row.journal_id for row in await append(conn, items=items)]
    await project(conn, journal_ids, [each for each in Projection if each in which])
    if Projection.EVENTS in which:
        await enqueue_deliveries(conn, journal_ids=journal_ids, now=now)


async def _take_numbers(
    conn: Connection, changes: Sequence[tuple[ChargeChange, ChargeCommand]], *, now: datetime
) -> dict[Owner, _Numbers]:
    """Lock and advance the clocks that are needed, in key order so that no two transactions wait in a circle."""
    ats: dict[Owner, datetime] = {}
    events: dict[Owner, int] = defaultdict(int)
    entries: dict[Owner, int] = defaultdict(int)
    cents: dict[Owner, int] = defaultdict(int)
    for change, _ in changes:
        key = change.charge.owner
        ats[key] = max(change.charge.clock(now), ats.get(key, now))
        events[key] += change.event is not None
        if change.entry is not None:
            entries[key] += 1
            cents[key] += change.entry.amount_cents
    keys = sorted(key for key in events if events[key] or entries[key])
    if not keys:
        return {}
    clocks = await advance_clocks(
        conn,
        account_ids=[key.account_id for key in keys],
        tests=[key.test for key in keys],
        events=[events[key] for key in keys],
        entries=[entries[key] for key in keys],
        cents=[cents[key] for key in keys],
        ats=[ats[key] for key in keys],
    )
    return {
        clock.owner: _Numbers(
            clock,
            events=events[clock.owner],
            entries=entries[clock.owner],
            cents=cents[clock.owner],
        )
        for clock in clocks
    }


async def _order(conn: Connection, changes: list[ChargeChange], *, now: datetime) -> None:
    orders = [change.order for change in changes if change.order is not None]
    if orders:
        await add_orders(
            conn,
            order_ids=[new_id() for _ in changes],
            account_ids=[change.charge.account_id for change in changes],
            charge_ids=[change.charge.charge_id for change in changes],
            tests=[change.charge.test for change in changes],
            kinds=[kind_of(order) for order in orders],
            requests=[_encode(order) for order in orders],
            now=now,
        )
