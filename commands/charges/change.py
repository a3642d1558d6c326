"""Change charges: the only way in which a charge's status changes and its payments are booked.

Commands are batched. The charges are locked in id order, each command is decided on the locked values (domain.charge),
and the decided changes are stored. Last they are posted to the journal, which locks each account's clock.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.journal import Entry, Event, Posting, post
from commands.money.partner_shares import AttributedPayment, accrue_shares
from commands.money.refund_store import RefundChange, fund_fields, store_refunds
from domain.charge import Charge, ChargeTransition, Payment, after
from domain.errors import Code, Refused
from domain.events import EventKind, expired_body
from domain.mode import Owner
from runtime.ids import new_id
from sql import Connection

COMMANDS_MAX = 200

lock_charges = sql.many("charge.lock", Charge)
store = sql.run("charge.store")
_encode = msgspec.json.Encoder().encode


class ChargeChange(Struct, frozen=True, gc=False, kw_only=True):
    """One change of a charge: a journal row, and the event, payment, refund, ledger entry and bank order that belong to
    it, if any."""

    charge: Charge
    kind: str
    event: Event | None = None
    charge_fields: dict[str, Any] | None = None
    """The changed fields of the charge's document, beside status and version."""
    payment: Payment | None = None
    payment_fields: dict[str, Any] | None = None
    payer_sealed: bytes | None = None
    """The payer of the payment (readmodels.charges.charge.Payer as JSON), sealed. It is kept with the payment and never
    journaled."""
    refund: RefundChange | None = None
    entry: Entry | None = None
    order: Struct | None = None
    """The request of an order to the bank (commands/bank_orders/kinds.py)."""
    more: dict[str, Any] | None = None
    """Further parts of the journal row's payload."""


class ChargeCommand(Struct, frozen=True, gc=False, kw_only=True):
    """A requested change of one charge. `owner` is None for the bank, which knows charges by txid only."""

    charge_id: UUID
    owner: Owner | None
    decide: Callable[[Charge, datetime], list[ChargeChange]]
    """Returns the changes, or raises Refused. Receives the locked charge (already expired if overdue) and the time on
    its account's clock."""
    actor: str
    request_id: str | None = None
    source: str | None = None
    """For a payment: its identity. If a payment with this source is booked already, the command succeeds and changes
    nothing."""
    paid_at: datetime | None = None
    """For a payment: when it was made. A payment made before the charge expired prevents the expiry, however late the
    bank reports it."""


class _BookedSource(Struct, frozen=True):
    account_id: UUID
    test: bool
    source: str


find_booked = sql.many("payment.booked", _BookedSource)

Outcome = Charge | Refused


async def change_charges(conn: Connection, charge_commands: Sequence[ChargeCommand], *, now: datetime) -> list[Outcome]:
    """Decide the commands in order and record their changes; returns, for each, the charge after it, or the refusal.

    `now` is real time. Each charge is judged, and its changes are dated, by its account's clock, which the lock read
    with the charge: an advanced sandbox is later than `now` (docs/decisions/0013).
    A command for a charge that does not exist or belongs to another owner is Refused(CHARGE_NOT_FOUND).
    """
    assert len(charge_commands) <= COMMANDS_MAX
    locked = await lock_charges(conn, charge_ids=sorted({command.charge_id for command in charge_commands}))
    charges = {charge.charge_id: charge for charge in locked}
    booked = await _booked_sources(conn, charge_commands, charges)

    changes: list[tuple[ChargeChange, ChargeCommand]] = []
    outcomes: list[Outcome] = []
    for command in charge_commands:
        charge = charges.get(command.charge_id)
        if charge is None or (command.owner is not None and command.owner != charge.owner):
            outcomes.append(Refused(Code.CHARGE_NOT_FOUND))
            continue
        if command.source is not None:
            source = (charge.owner, command.source)
            if source in booked:
                outcomes.append(charge)
                continue
        at = charge.clock(now)
        if charge.overdue(at) and (command.paid_at is None or command.paid_at >= charge.expires_at):
            expiry = expire(charge)
            changes.append((expiry, command))
            charge = charges[command.charge_id] = expiry.charge
        try:
            decided = command.decide(charge, at)
        except Refused as refusal:
            outcomes.append(refusal)
            continue
        for change in decided:
            changes.append((change, command))
            charge = charges[command.charge_id] = change.charge
        if command.source is not None:
            booked.add((charge.owner, command.source))
        outcomes.append(charge)

    if changes:
        before = {charge.charge_id: charge for charge in locked}
        paid = [change for change, _ in changes if change.payment is not None]
        changed = [charge for charge_id, charge in charges.items() if charge is not before[charge_id]]
        if changed or paid:
            await store(conn, charges=changed, payments=[_payment_row(change, now) for change in paid])
            await accrue_shares(conn, _attributed_payments(paid), now=now)
        await store_refunds(
            conn, [(change.charge, change.refund) for change, _ in changes if change.refund is not None], now=now
        )
        await post(conn, [_posting(change, command, now) for change, command in changes], now=now)
    return outcomes


def expire(charge: Charge) -> ChargeChange:
    """Returns the change by which an overdue pending charge becomes expired."""
    expired = after(charge, ChargeTransition.EXPIRED)
    event_id = new_id()
    event = Event(event_id, expired_body(expired, event_id=event_id))
    return ChargeChange(charge=expired, kind=EventKind.CHARGE_EXPIRED, event=event, charge_fields={})


def _posting(change: ChargeChange, command: ChargeCommand, now: datetime) -> Posting:
    charge = change.charge
    payload: dict[str, Any] = {}
    if charge.external_id is not None:
        payload["external_id"] = charge.external_id
    if change.charge_fields is not None:
        payload["charge"] = {"status": charge.status, "version": charge.version, **change.charge_fields}
    if change.payment_fields is not None:
        payload["payment"] = change.payment_fields
    if change.refund is not None:
        payload["refund"] = change.refund.fields
        payload["fund"] = fund_fields(change.refund.fund)
    if change.more is not None:
        payload |= change.more
    return Posting(
        owner=charge.owner,
        charge_id=charge.charge_id,
        version=charge.version,
        kind=change.kind,
        at=charge.clock(now),
        actor=command.actor,
        request_id=command.request_id,
        payload=payload,
        event=change.event,
        entry=change.entry,
        order=change.order,
    )


async def _booked_sources(
    conn: Connection, charge_commands: Sequence[ChargeCommand], charges: dict[UUID, Charge]
) -> set[tuple[Owner, str]]:
    sources = [
        (charges[command.charge_id].owner, command.source)
        for command in charge_commands
        if command.source is not None and command.charge_id in charges
    ]
    if not sources:
        return set()
    rows = await find_booked(
        conn,
        account_ids=[owner.account_id for owner, _ in sources],
        tests=[owner.test for owner, _ in sources],
        sources=[source for _, source in sources],
    )
    return {(Owner.of(row.account_id, row.test), row.source) for row in rows}


class _PaymentRow(Struct, frozen=True, gc=False, kw_only=True):
    """A row of `payment` as the statement reads it."""

    account_id: UUID
    payment_id: UUID
    test: bool
    charge_id: UUID
    source: str
    method: str
    amount_cents: int
    fee_cents: int
    anomaly: str | None
    settles: bool
    paid_at: datetime
    credited_at: datetime
    payer_sealed: bytes | None


def _payment_row(change: ChargeChange, now: datetime) -> bytes:
    payment, charge = change.payment, change.charge
    assert payment is not None
    return _encode(
        _PaymentRow(
            account_id=charge.account_id,
            payment_id=payment.payment_id,
            test=charge.test,
            charge_id=charge.charge_id,
            source=payment.receipt.source,
            method=payment.receipt.method,
            amount_cents=payment.receipt.amount_cents,
            fee_cents=payment.fee_cents,
            anomaly=payment.anomaly,
            settles=payment.settles,
            paid_at=payment.receipt.paid_at,
            credited_at=charge.clock(now),
            payer_sealed=change.payer_sealed,
        )
    )


def _attributed_payments(changes: list[ChargeChange]) -> list[AttributedPayment]:
    """Returns the payments of charges that carry an integrator code: the partner's share of each is accrued with it."""
    return [
        AttributedPayment(
            change.charge.account_id,
            change.charge.test,
            change.payment.payment_id,
            change.payment_fields["integrador_code"],
            change.payment.receipt.amount_cents,
            change.charge.created_at,
        )
        for change in changes
        if change.payment is not None and change.payment_fields and change.payment_fields.get("integrador_code")
    ]
