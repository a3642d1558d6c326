"""Refund a payment: begin a refund a merchant asks for, and end it when the bank has carried it out or refused.

The wallet is debited when a refund begins and credited back when it fails (contract section 11). How much can be asked
for is decided under the charge's lock, whether the balance covers it under the clock's (commands/journal.py).
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.bank_orders.kinds import RefundReturn, RefundTransfer
from commands.charges.change import (
    WISHES_MAX,
    ChargeChange,
    ChargeCommand,
    Entry,
    Event,
    Outcome,
    change_charges,
    lock_charges,
)
from domain.charge import Charge
from domain.errors import Refused
from domain.events import EventKind, charge_refunded_body, refund_body
from domain.instants import iso
from domain.mode import Owner
from domain.refund import (
    FailureCode,
    Refund,
    RefundablePayment,
    RefundMethod,
    RefundRequest,
    RefundStatus,
    begin,
    fail,
    succeed,
)
from readmodels.money.refund import RefundDoc, RefundProjection, project_refund, read_refund_doc
from runtime.ids import new_id
from sql import Connection

REFUNDS_MAX = WISHES_MAX

Owner = Owner
"""(account, test)."""


class NewRefund(Struct, frozen=True, gc=False, kw_only=True):
    """A valid request for a refund. `refund_id` is chosen by the door, so that a repeated write is recognised."""

    owner: Owner
    key: str
    fingerprint: bytes
    refund_id: UUID
    charge_id: UUID
    amount_cents: int | None
    payment_id: UUID | None
    reason: str | None
    description: str | None
    external_id: str | None
    destination_sealed: bytes | None
    """TransferDestination as JSON, sealed: it names a person."""
    scenario: str | None
    actor: str
    request_id: str


class TransferDestination(Struct, frozen=True, gc=False):
    """Where a transfer goes: a PIX key, and the CPF or CNPJ its owner must have."""

    pix_key: str
    document: str


class Ending(Struct, frozen=True, gc=False, kw_only=True):
    """What the bank says became of a refund. No failure code: the money is back with the payer."""

    charge_id: UUID
    refund_id: UUID
    end_to_end_id: str | None = None
    """Of the PIX that was sent, for a transfer."""
    return_id: str | None = None
    failure: FailureCode | None = None


class _Taken(Struct, frozen=True, gc=False):
    resource_id: UUID


class _Standing(Struct, frozen=True, gc=False):
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
    settles: bool
    paid_at: datetime
    refund_doc: bytes
    payment_doc: bytes
    outstanding_cents: int


take_keys = sql.many("refund.take_keys", _Taken)
give_keys_back = sql.run("refund.give_keys_back")
find_funds = sql.many("refund.funds", RefundablePayment)
find_standing = sql.many("refund.standing", _Standing)
_encode = msgspec.json.Encoder().encode
_read_fields = msgspec.json.Decoder(dict[str, Any]).decode


class _Funds:
    """Payments as the wishes of one batch leave them, one after the other."""

    def __init__(self, funds: Sequence[RefundablePayment]) -> None:
        self._by_id = {(fund.charge_id, fund.payment_id): fund for fund in funds}
        self._settling = {fund.charge_id: fund.payment_id for fund in funds if fund.settles}

    def of(self, charge_id: UUID, payment_id: UUID | None) -> RefundablePayment | None:
        """The payment named, or the one that settled the charge."""
        wanted = payment_id or self._settling.get(charge_id)
        return None if wanted is None else self._by_id.get((charge_id, wanted))

    def put(self, fund: RefundablePayment) -> None:
        self._by_id[fund.charge_id, fund.payment_id] = fund


# Begin


async def begin_refunds(
    conn: Connection, asked: Sequence[NewRefund], *, now: datetime
) -> list[RefundProjection | Refused | None]:
    """Begin each refund and leave the order to carry it out; None where the key made something before.

    Raises Refused(INSUFFICIENT_BALANCE) when a balance covers not all of them: nothing may stay of the transaction,
    and each is to be tried again alone.
    """
    assert len(asked) <= REFUNDS_MAX
    mine = await _take_keys(conn, asked, now=now)
    if not mine:
        return [None] * len(asked)
    charge_ids = sorted({each.charge_id for each in mine})
    await lock_charges(conn, charge_ids=charge_ids)
    named = [each.payment_id for each in mine if each.payment_id is not None]
    funds = _Funds(await find_funds(conn, charge_ids=charge_ids, payment_ids=named))
    begun: dict[UUID, RefundProjection] = {}
    charge_commands = [
        ChargeCommand(
            charge_id=each.charge_id,
            owner=each.owner,
            decide=_beginning(each, funds, begun),
            actor=each.actor,
            request_id=each.request_id,
        )
        for each in mine
    ]
    refused: dict[UUID, Refused] = {}
    outcomes = await change_charges(conn, charge_commands, now=now)
    for each, outcome in zip(mine, outcomes, strict=True):
        if isinstance(outcome, Refused):
            refused[each.refund_id] = outcome
    await _give_keys_back(conn, [each for each in mine if each.refund_id in refused])
    return [begun.get(each.refund_id) or refused.get(each.refund_id) for each in asked]


async def _take_keys(conn: Connection, asked: Sequence[NewRefund], *, now: datetime) -> list[NewRefund]:
    """Those whose key is theirs now. A twin in another transaction is waited for here, with nothing else locked."""
    taken = {
        row.resource_id
        for row in await take_keys(
            conn,
            account_ids=[each.owner.account_id for each in asked],
            tests=[each.owner.test for each in asked],
            keys=[each.key for each in asked],
            fingerprints=[each.fingerprint for each in asked],
            refund_ids=[each.refund_id for each in asked],
            now=now,
        )
    }
    return [each for each in asked if each.refund_id in taken]


async def _give_keys_back(conn: Connection, refused: Sequence[NewRefund]) -> None:
    if refused:
        await give_keys_back(
            conn,
            account_ids=[each.owner.account_id for each in refused],
            tests=[each.owner.test for each in refused],
            keys=[each.key for each in refused],
            refund_ids=[each.refund_id for each in refused],
        )


def _beginning(
    asked: NewRefund, funds: _Funds, begun: dict[UUID, RefundProjection]
) -> Callable[[Charge, datetime], list[ChargeChange]]:
    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        refund, fund, way = begin(
            charge,
            funds.of(charge.charge_id, asked.payment_id),
            RefundRequest(
                amount_cents=asked.amount_cents,
                payment_id=asked.payment_id,
                destination=asked.destination_sealed is not None,
            ),
            refund_id=asked.refund_id,
            now=now,
        )
        funds.put(fund)
        doc = RefundDoc(
            refund_id=str(refund.refund_id),
            charge_id=str(charge.charge_id),
            payment_id=str(fund.payment_id),
            test=charge.test,
            amount_cents=refund.amount_cents,
            status=refund.status,
            way=way,
            reason=asked.reason,
            description=asked.description,
            external_id=asked.external_id,
            end_to_end_id=fund.end_to_end_id if way is RefundMethod.RETURN else None,
            created_at=iso(now),
        )
        begun[asked.refund_id] = project_refund(
            doc,
            refunded_total_cents=fund.amount_cents - fund.remaining_cents,
            remaining_cents=fund.remaining_cents,
        )
        return [
            ChargeChange(
                charge=charge,
                kind="refund.created",
                refund=refund,
                fund=fund,
                refund_fields=msgspec.to_builtins(doc),
                fund_fields=_fund_fields(fund),
                # What a partner was given of it is taken back when the money is back
                # (commands/money/partner_shares.py).
                entry=Entry(
                    type="refund",
                    amount_cents=-refund.amount_cents,
                    payment_id=fund.payment_id,
                    refund_id=refund.refund_id,
                    covered=True,
                ),
                order=_order(asked, refund, fund, way),
            )
        ]

    return decide


def _order(
    asked: NewRefund, refund: Refund, fund: RefundablePayment, way: RefundMethod
) -> RefundReturn | RefundTransfer:
    if way is RefundMethod.RETURN:
        assert fund.end_to_end_id is not None
        return RefundReturn(
            refund_id=refund.refund_id,
            amount_cents=refund.amount_cents,
            end_to_end_id=fund.end_to_end_id,
            description=asked.description,
            scenario=asked.scenario,
        )
    assert asked.destination_sealed is not None
    return RefundTransfer(
        refund_id=refund.refund_id,
        amount_cents=refund.amount_cents,
        destination_sealed=b64encode(asked.destination_sealed).decode(),
        description=asked.description,
        scenario=asked.scenario,
    )


# End


async def end_refunds(
    conn: Connection, endings: Sequence[Ending], *, now: datetime, actor: str = "bank"
) -> list[Outcome]:
    """End each refund as the bank says it ended; one that has ended before stays as it is."""
    assert len(endings) <= REFUNDS_MAX
    await lock_charges(conn, charge_ids=sorted({each.charge_id for each in endings}))
    rows = await find_standing(conn, refund_ids=[each.refund_id for each in endings])
    books = _Books(rows)
    charge_commands = [
        ChargeCommand(charge_id=each.charge_id, owner=None, decide=_ending(each, books), actor=actor)
        for each in endings
    ]
    return await change_charges(conn, charge_commands, now=now)


class _Books:
    """Refunds and payments as the endings of one batch leave them, one after the other."""

    def __init__(self, rows: Sequence[_Standing]) -> None:
        self.refunds = {
            row.refund_id: Refund(
                account_id=row.account_id,
                refund_id=row.refund_id,
                test=row.test,
                charge_id=row.charge_id,
                payment_id=row.payment_id,
                amount_cents=row.amount_cents,
                status=row.status,
                created_at=row.created_at,
            )
            for row in rows
        }
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
            )
            for row in rows
        }
        self.payments = {row.payment_id: _read_fields(row.payment_doc) for row in rows}
        self.outstanding_cents = {row.charge_id: row.outstanding_cents for row in rows}


def _ending(ending: Ending, books: _Books) -> Callable[[Charge, datetime], list[ChargeChange]]:
    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        refund = books.refunds.get(ending.refund_id)
        assert refund is not None, "orders are written with their refunds"
        if refund.status != RefundStatus.PENDING:
            return []
        if ending.failure is not None:
            return _failed(charge, refund, ending, books, now=now)
        return _succeeded(charge, refund, ending, books, now=now)

    return decide


def _succeeded(charge: Charge, refund: Refund, ending: Ending, books: _Books, *, now: datetime) -> list[ChargeChange]:
    outstanding_cents = books.outstanding_cents[charge.charge_id]
    charge, refunded, refund, fund = succeed(
        charge, refund, books.funds[refund.payment_id], outstanding_cents=outstanding_cents
    )
    books.outstanding_cents[charge.charge_id] = outstanding_cents - refund.amount_cents
    books.refunds[refund.refund_id], books.funds[fund.payment_id] = refund, fund
    charge_fields: dict[str, Any] = {"refunded_cents": charge.refunded_cents}
    if fund.settles:
        # The charge shows the payment that settled it; a document's field is replaced whole.
        charge_fields["payment"] = {**books.payments[fund.payment_id], **_fund_fields(fund)}
    changes = [_ended(charge, refund, fund, ending, books, now=now, charge_fields=charge_fields)]
    if refunded is not None:
        event_id = new_id()
        body = charge_refunded_body(refunded, event_id=event_id, refunded_at=now)
        event = Event(event_id=event_id, kind=EventKind.CHARGE_REFUNDED, body=body)
        changes.append(ChargeChange(charge=refunded, kind=EventKind.CHARGE_REFUNDED, event=event, charge_fields={}))
    return changes


def _failed(charge: Charge, refund: Refund, ending: Ending, books: _Books, *, now: datetime) -> list[ChargeChange]:
    refund, fund = fail(refund, books.funds[refund.payment_id])
    books.refunds[refund.refund_id], books.funds[fund.payment_id] = refund, fund
    credit = Entry(
        type="refund_reversal",
        amount_cents=refund.amount_cents,
        payment_id=refund.payment_id,
        refund_id=refund.refund_id,
    )
    return [_ended(charge, refund, fund, ending, books, now=now, entry=credit)]


def _ended(
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
    told = {
        "end_to_end_id": end_to_end_id,
        "return_id": ending.return_id,
        "failure_code": ending.failure,
    }
    return ChargeChange(
        charge=charge,
        kind=kind,
        event=Event(event_id=event_id, kind=kind, body=body),
        charge_fields=charge_fields,
        refund=refund,
        fund=fund,
        refund_fields={
            "refund_id": refund.refund_id,
            "status": refund.status,
            "completed_at": iso(now),
            **{name: value for name, value in told.items() if value is not None},
        },
        fund_fields=_fund_fields(fund),
        entry=entry,
    )


def _fund_fields(fund: RefundablePayment) -> dict[str, Any]:
    """What its document says of refunds. Its key in the read table comes along, for the projection to find it by."""
    return {
        "payment_id": fund.payment_id,
        "paid_at": iso(fund.paid_at),
        "refunded_cents": fund.refunded_cents,
        "refunding_cents": fund.refunding_cents,
    }
