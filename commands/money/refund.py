"""Begin the refund of a payment that a merchant requests.

The wallet is debited when a refund begins and credited back when it fails (commands/money/refund_end.py). The
refundable amount is decided under the charge's lock, the cover by the balance under the account clock's lock
(commands/journal.py).
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.bank_orders.kinds import RefundReturn, RefundTransfer
from commands.charges.change import (
    COMMANDS_MAX,
    ChargeChange,
    ChargeCommand,
    change_charges,
    lock_charges,
)
from commands.journal import Entry
from commands.money.refund_store import RefundChange
from commands.money.transfer_terms import TransferLedger
from domain.charge import Charge
from domain.errors import Refused
from domain.instants import iso
from domain.mode import Owner
from domain.refund import (
    BegunRefund,
    Refund,
    RefundablePayment,
    RefundMethod,
    RefundRequest,
    begin,
)
from readmodels.money.refund import RefundDoc, RefundProjection, project_refund
from runtime.seal import DESTINATION, Seal
from sql import Connection

REFUNDS_MAX = COMMANDS_MAX


class NamedDestination(Struct, frozen=True, gc=False):
    """The destination that the merchant requests for a transfer, as it is stored: sealed, because it names a person."""

    sealed: bytes
    """TransferDestination as JSON."""
    document_hash: str
    """The document's keyed fingerprint."""


class NewRefund(Struct, frozen=True, gc=False, kw_only=True):
    """A valid request for a refund. `refund_id` is chosen by the caller, so that a repeated write is recognised."""

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
    destination: NamedDestination | None
    scenario: str | None
    actor: str
    request_id: str


class TransferDestination(Struct, frozen=True, gc=False):
    """The destination of a transfer: a PIX key, and the CPF or CNPJ that the key's owner must have."""

    pix_key: str
    document: str

    def kept(self, refund_id: UUID, seal: Seal) -> NamedDestination:
        return NamedDestination(seal.seal(_encode(self), DESTINATION, refund_id), seal.blind(self.document))


class _HeldRefund(Struct, frozen=True, gc=False):
    account_id: UUID
    refund_id: UUID
    charge_id: UUID
    amount_cents: int
    why: str
    request: RefundTransfer


take_keys = sql.many("refund.take_keys", UUID)
give_keys_back = sql.run("refund.give_keys_back")
find_funds = sql.many("refund.funds", RefundablePayment)
add_held = sql.run("held_refund.add")
_encode = msgspec.json.Encoder().encode


class _Funds:
    """The payments of one batch, updated by each refund so that the next one is decided on the result."""

    def __init__(self, funds: Sequence[RefundablePayment]) -> None:
        self._by_id = {(fund.charge_id, fund.payment_id): fund for fund in funds}
        self._settling = {fund.charge_id: fund.payment_id for fund in funds if fund.settles}

    def find(self, charge_id: UUID, payment_id: UUID | None) -> RefundablePayment | None:
        """Returns the named payment, or the one that settled the charge."""
        wanted = payment_id or self._settling.get(charge_id)
        return None if wanted is None else self._by_id.get((charge_id, wanted))

    def update(self, fund: RefundablePayment) -> None:
        self._by_id[fund.charge_id, fund.payment_id] = fund


async def begin_refunds(
    conn: Connection, requests: Sequence[NewRefund], *, now: datetime, transfers_cents_max: int
) -> list[RefundProjection | Refused | None]:
    """Begin each refund and write the order to carry it out, or hold it for staff (commands/money/held_refunds.py).

    Returns, for each request, the refund, its refusal, or None when the key was used before. `transfers_cents_max`
    bounds an account's transfers of a day.

    Raises Refused(INSUFFICIENT_BALANCE) when a balance does not cover all of them: the caller must roll back the
    transaction and try each request again alone.
    """
    assert len(requests) <= REFUNDS_MAX
    admitted = await _take_keys(conn, requests, now=now)
    if not admitted:
        return [None] * len(requests)
    by_transfer = [each for each in admitted if each.destination is not None]
    transfers = TransferLedger(cents_max=transfers_cents_max)
    await transfers.hold(conn, [each.owner.account_id for each in by_transfer if not each.owner.test], now=now)
    charge_ids = sorted({each.charge_id for each in admitted})
    await lock_charges(conn, charge_ids=charge_ids)
    payment_ids = [each.payment_id for each in admitted if each.payment_id is not None]
    funds = _Funds(await find_funds(conn, charge_ids=charge_ids, payment_ids=payment_ids))
    await transfers.read_payers(conn, [each.charge_id for each in by_transfer])
    begun: dict[UUID, RefundProjection] = {}
    held: list[_HeldRefund] = []
    charge_commands = [
        ChargeCommand(
            charge_id=each.charge_id,
            owner=each.owner,
            decide=_beginning_decision(each, funds, transfers, begun, held),
            actor=each.actor,
            request_id=each.request_id,
        )
        for each in admitted
    ]
    refused: dict[UUID, Refused] = {}
    outcomes = await change_charges(conn, charge_commands, now=now)
    for each, outcome in zip(admitted, outcomes, strict=True):
        if isinstance(outcome, Refused):
            refused[each.refund_id] = outcome
    if held:
        await add_held(conn, held=held, requests=[_encode(each.request) for each in held], now=now)
    if refused:
        await give_keys_back(conn, refused=[each for each in admitted if each.refund_id in refused])
    return [begun.get(each.refund_id) or refused.get(each.refund_id) for each in requests]


async def _take_keys(conn: Connection, requests: Sequence[NewRefund], *, now: datetime) -> list[NewRefund]:
    """Returns the requests that have taken their idempotency key. A request with the same key in another transaction is
    waited for here, before anything else is locked."""
    taken_ids = set(await take_keys(conn, asked=requests, now=now))
    return [each for each in requests if each.refund_id in taken_ids]


def _beginning_decision(
    request: NewRefund,
    funds: _Funds,
    transfers: TransferLedger,
    begun: dict[UUID, RefundProjection],
    held: list[_HeldRefund],
) -> Callable[[Charge, datetime], list[ChargeChange]]:
    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        beginning = begin(
            charge,
            funds.find(charge.charge_id, request.payment_id),
            RefundRequest(
                amount_cents=request.amount_cents,
                payment_id=request.payment_id,
                destination_hash=None if request.destination is None else request.destination.document_hash,
            ),
            transfers.terms(charge),
            refund_id=request.refund_id,
            now=now,
        )
        refund, fund = beginning.refund, beginning.fund
        funds.update(fund)
        transfers.count(refund)
        doc = _refund_doc(request, charge, beginning, now=now)
        begun[request.refund_id] = project_refund(
            doc,
            refunded_total_cents=fund.refunded_cents + fund.refunding_cents,
            remaining_cents=fund.remaining_cents,
        )
        order = _refund_order(request, refund, fund, beginning.way)
        if beginning.hold is not None:
            assert isinstance(order, RefundTransfer)
            held.append(
                _HeldRefund(
                    refund.account_id, refund.refund_id, refund.charge_id, refund.amount_cents, beginning.hold, order
                )
            )
        return [
            ChargeChange(
                charge=charge,
                kind="refund.created",
                refund=RefundChange(refund, fund, msgspec.to_builtins(doc)),
                # The partner's share is taken back when the refund succeeds (commands/money/partner_shares.py).
                entry=Entry(
                    type="refund",
                    amount_cents=-refund.amount_cents,
                    payment_id=fund.payment_id,
                    refund_id=refund.refund_id,
                    covered=True,
                ),
                order=order if beginning.hold is None else None,
            )
        ]

    return decide


def _refund_doc(request: NewRefund, charge: Charge, beginning: BegunRefund, *, now: datetime) -> RefundDoc:
    refund, fund = beginning.refund, beginning.fund
    return RefundDoc(
        refund_id=str(refund.refund_id),
        charge_id=str(charge.charge_id),
        payment_id=str(fund.payment_id),
        test=charge.test,
        amount_cents=refund.amount_cents,
        status=refund.status,
        way=beginning.way,
        held=beginning.hold is not None,
        reason=request.reason,
        description=request.description,
        external_id=request.external_id,
        end_to_end_id=fund.end_to_end_id if beginning.way is RefundMethod.RETURN else None,
        created_at=iso(now),
    )


def _refund_order(
    request: NewRefund, refund: Refund, fund: RefundablePayment, way: RefundMethod
) -> RefundReturn | RefundTransfer:
    if way is RefundMethod.RETURN:
        assert fund.end_to_end_id is not None
        return RefundReturn(
            refund_id=refund.refund_id,
            amount_cents=refund.amount_cents,
            end_to_end_id=fund.end_to_end_id,
            description=request.description,
            scenario=request.scenario,
        )
    assert request.destination is not None
    return RefundTransfer(
        refund_id=refund.refund_id,
        amount_cents=refund.amount_cents,
        destination_sealed=b64encode(request.destination.sealed).decode(),
        description=request.description,
        scenario=request.scenario,
    )
