"""End refunds as the bank reports: the money is back with the payer, or in the wallet (contract section 11)."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.charges.change import (
    ChargeChange,
    ChargeCommand,
    Outcome,
    change_charges,
    lock_charges,
)
from commands.journal import BANK, Entry, Event
from commands.money.refund import REFUNDS_MAX
from commands.money.refund_store import RefundChange, fund_fields
from domain.charge import Charge
from domain.events import EventKind, charge_refunded_body, refund_body
from domain.instants import iso
from domain.refund import (
    FailureCode,
    Refund,
    RefundablePayment,
    RefundStatus,
    fail,
    succeed,
)
from readmodels.money.refund import read_refund_doc
from runtime.ids import new_id
from sql import Connection


class Ending(Struct, frozen=True, gc=False, kw_only=True):
    """The end of a refund as the bank reports it. Without a failure code the money is back with the payer."""

    charge_id: UUID
    refund_id: UUID
    end_to_end_id: str | None = None
    """That of the PIX sent, for a transfer."""
    return_id: str | None = None
    failure: FailureCode | None = None
    request_id: str | None = None
    """That of the API request for the refund."""


class _RefundRow(Struct, frozen=True, gc=False):
    account_id: UUID
    refund_id: UUID
    test: bool
    charge_id: UUID
    payment_id: UUID
    amount_cents: int
    status: str
    created_at: datetime
    paid_cents: int
    refunded_cents: int
    refunding_cents: int
    reversed_cents: int
    settles: bool
    paid_at: datetime
    refund_doc: bytes
    outstanding_cents: int


find_standing = sql.many("refund.standing", _RefundRow)


async def end_refunds(
    conn: Connection, endings: Sequence[Ending], *, now: datetime, actor: str = BANK
) -> list[Outcome]:
    """End each refund as the bank reports; a refund that has already ended stays as it is."""
    assert len(endings) <= REFUNDS_MAX
    await lock_charges(conn, charge_ids=sorted({each.charge_id for each in endings}))
    rows = await find_standing(conn, refund_ids=[each.refund_id for each in endings])
    books = _Books(rows)
    charge_commands = [
        ChargeCommand(
            charge_id=each.charge_id,
            owner=None,
            decide=_ending_decision(each, books),
            actor=actor,
            request_id=each.request_id,
        )
        for each in endings
    ]
    return await change_charges(conn, charge_commands, now=now)


class _Books:
    """The refunds and payments of one batch, updated by each ending so that the next is decided on the result."""

    def __init__(self, rows: Sequence[_RefundRow]) -> None:
        self.refunds = {row.refund_id: msgspec.convert(row, Refund, from_attributes=True) for row in rows}
        self.docs = {row.refund_id: read_refund_doc(row.refund_doc) for row in rows}
        self.funds = {
            row.payment_id: RefundablePayment(
                account_id=row.account_id,
                payment_id=row.payment_id,
                charge_id=row.charge_id,
                amount_cents=row.paid_cents,
                refunded_cents=row.refunded_cents,
                refunding_cents=row.refunding_cents,
                settles=row.settles,
                paid_at=row.paid_at,
                end_to_end_id=None,
                reversed_cents=row.reversed_cents,
            )
            for row in rows
        }
        self.outstanding_cents = {row.charge_id: row.outstanding_cents for row in rows}


def _ending_decision(ending: Ending, books: _Books) -> Callable[[Charge, datetime], list[ChargeChange]]:
    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        refund = books.refunds.get(ending.refund_id)
        assert refund is not None, "orders are written with their refunds"
        if refund.status != RefundStatus.PENDING:
            return []
        if ending.failure is not None:
            return _failure_changes(charge, refund, ending, books, now=now)
        return _success_changes(charge, refund, ending, books, now=now)

    return decide


def _success_changes(
    charge: Charge, refund: Refund, ending: Ending, books: _Books, *, now: datetime
) -> list[ChargeChange]:
    outstanding_cents = books.outstanding_cents[charge.charge_id]
    charge, refunded, refund, fund = succeed(
        charge, refund, books.funds[refund.payment_id], outstanding_cents=outstanding_cents
    )
    books.outstanding_cents[charge.charge_id] = outstanding_cents - refund.amount_cents
    books.refunds[refund.refund_id], books.funds[fund.payment_id] = refund, fund
    charge_fields: dict[str, Any] = {"refunded_cents": charge.refunded_cents}
    if fund.settles:
        # The charge's document shows the payment that settled it, without the payer, whose data can be erased while
        # the journal cannot.
        charge_fields["payment"] = fund_fields(fund)
    changes = [_ended_change(charge, refund, fund, ending, books, now=now, charge_fields=charge_fields)]
    if refunded is not None:
        event_id = new_id()
        body = charge_refunded_body(refunded, event_id=event_id, refunded_at=now)
        event = Event(event_id, body)
        changes.append(ChargeChange(charge=refunded, kind=EventKind.CHARGE_REFUNDED, event=event, charge_fields={}))
    return changes


def _failure_changes(
    charge: Charge, refund: Refund, ending: Ending, books: _Books, *, now: datetime
) -> list[ChargeChange]:
    refund, fund = fail(refund, books.funds[refund.payment_id])
    books.refunds[refund.refund_id], books.funds[fund.payment_id] = refund, fund
    credit = Entry(
        type="refund_reversal",
        amount_cents=refund.amount_cents,
        payment_id=refund.payment_id,
        refund_id=refund.refund_id,
    )
    return [_ended_change(charge, refund, fund, ending, books, now=now, entry=credit)]


def _ended_change(
    charge: Charge,
    refund: Refund,
    fund: RefundablePayment,
    ending: Ending,
    books: _Books,
    *,
    now: datetime,
    charge_fields: dict[str, Any] | None = None,
    entry: Entry | None = None,
) -> ChargeChange:
    doc = books.docs[refund.refund_id]
    kind = EventKind.REFUND_SUCCEEDED if ending.failure is None else EventKind.REFUND_FAILED
    end_to_end_id = ending.end_to_end_id or doc.end_to_end_id
    event_id = new_id()
    body = refund_body(
        kind,
        charge,
        refund,
        fund,
        event_id=event_id,
        completed_at=now,
        reason=doc.reason,
        external_id=doc.external_id,
        end_to_end_id=end_to_end_id,
        return_id=ending.return_id,
        failure_code=ending.failure,
    )
    fields = {
        "refund_id": refund.refund_id,
        "status": refund.status,
        "completed_at": iso(now),
        "end_to_end_id": end_to_end_id,
        "return_id": ending.return_id,
        "failure_code": ending.failure,
    }
    return ChargeChange(
        charge=charge,
        kind=kind,
        event=Event(event_id, body),
        charge_fields=charge_fields,
        refund=RefundChange(refund, fund, {name: value for name, value in fields.items() if value is not None}),
        entry=entry,
    )
