"""Book money that the bank confirmed, and the sandbox's simulated payments in the same way."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

from commands.bank_orders.kinds import CLOSE, CobRemoval, PixSimulation
from commands.charges.agreed_amount import Owed
from commands.charges.change import ChargeChange, ChargeCommand, Outcome, change_charges
from commands.journal import BANK, Entry, Event
from commands.money.fees import FEE_CHARGED
from domain.charge import Charge, ChargeTransition, Payment, Receipt, Status, after, judge
from domain.documents import masked
from domain.errors import Code, Refused
from domain.events import EventKind, payment_body
from domain.instants import iso, to_millisecond
from domain.merchants.fees import FeeTerms, agreed_for, payment_fee, terms_in_force
from domain.mode import Owner
from runtime.ids import new_id
from runtime.seal import PAYMENT_PAYER, Seal
from sql import Connection

SANDBOX_PAYER: Final = ("PAGADOR DE TESTE", "00000000191")
"""Name and document of the payer of every test charge."""


class BoletoPaymentFacts(Struct, frozen=True, kw_only=True):
    """The facts of a boleto's payment beside its amount."""

    source: str
    """The identity of the payment: the payment of a boleto has no reliable endToEndId."""
    method: str
    nosso_numero: str
    txid: str | None


class Confirmation(Struct, frozen=True, kw_only=True):
    """Money that the bank confirmed when asked. The document is unmasked, digits only."""

    charge_id: UUID
    end_to_end_id: str | None
    """Set for a PIX. It identifies the payment, unless a boleto was paid."""
    amount_cents: int
    paid_at: datetime
    payer_name: str | None = None
    payer_document: str | None = None
    boleto: BoletoPaymentFacts | None = None
    owed: Owed = Owed()
    integrador_code: str | None = None
    """The integrator code of a boleto or a dual charge."""
    request_id: str | None = None
    """That of the bank's callback, if one reported the payment."""

    @property
    def source(self) -> str:
        if self.boleto is not None:
            return self.boleto.source
        assert self.end_to_end_id is not None, "a PIX is known by its endToEndId"
        return self.end_to_end_id


async def confirm_payments(
    conn: Connection,
    confirmations: Sequence[Confirmation],
    *,
    now: datetime,
    seal: Seal,
    fees: FeeTerms,
) -> list[Outcome]:
    """Book each confirmed payment once (by its source), whatever the status of its charge: money is never dropped.
    `fees` are charged to accounts that have no terms of their own."""
    charge_commands = [
        ChargeCommand(
            charge_id=each.charge_id,
            owner=None,
            decide=_booking_decision(each, seal, fees),
            actor=BANK,
            request_id=each.request_id,
            source=each.source,
            paid_at=each.paid_at,
        )
        for each in confirmations
    ]
    return await change_charges(conn, charge_commands, now=to_millisecond(now))


def simulated_payment(
    charge_id: UUID,
    owner: Owner,
    *,
    end_to_end_id: str,
    seal: Seal,
    fees: FeeTerms,
    actor: str,
    request_id: str | None,
) -> ChargeCommand:
    """Returns the command by which a sandbox payer pays the whole amount now; Refused(CHARGE_NOT_PENDING) unless the
    charge is pending."""

    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        if charge.status != Status.PENDING:
            raise Refused(Code.CHARGE_NOT_PENDING, status=charge.status)
        return book_simulated(charge, end_to_end_id, charge.amount_cents, now, now=now, seal=seal, fees=fees)

    return ChargeCommand(charge_id=charge_id, owner=owner, decide=decide, actor=actor, request_id=request_id)


def book_simulated(
    charge: Charge,
    end_to_end_id: str,
    amount_cents: int,
    paid_at: datetime,
    *,
    now: datetime,
    seal: Seal,
    fees: FeeTerms,
) -> list[ChargeChange]:
    """Returns the changes that credit a sandbox payment and order its entry in the simulated bank's books."""
    received = Confirmation(
        charge_id=charge.charge_id,
        end_to_end_id=end_to_end_id,
        amount_cents=amount_cents,
        paid_at=paid_at,
        payer_name=SANDBOX_PAYER[0],
        payer_document=SANDBOX_PAYER[1],
    )
    simulated = PixSimulation(end_to_end_id, amount_cents, to_millisecond(paid_at))
    return book(charge, received, now=now, seal=seal, fees=fees, order=simulated)


def book(
    charge: Charge,
    confirmed: Confirmation,
    *,
    now: datetime,
    seal: Seal,
    fees: FeeTerms,
    order: Struct | None = None,
) -> list[ChargeChange]:
    """Returns the change that credits a confirmed payment and, if the payment settles the charge, makes it paid; then
    the change that debits the fee, by the account's own terms or by `fees`. Anomalous payments are charged a fee too.

    `order` is for the bank. A payment that settles a dual charge by one leg orders the other leg closed: the cob is
    removed, or the boleto written off (contract section 12).
    """
    receipt = _receipt(confirmed)
    terms = terms_in_force(charge.fees, fees)
    fee_cents = payment_fee(terms, method=receipt.method, amount_cents=receipt.amount_cents)
    payment = judge(charge, receipt, payment_id=new_id(), fee_cents=fee_cents)
    if payment.settles:
        charge = after(charge, ChargeTransition.PAID)
        if charge.dual:
            order = CLOSE if confirmed.boleto is None else CobRemoval()
    kind = EventKind.PAYMENT_RECEIVED if payment.settles else EventKind.PAYMENT_ANOMALY
    changes = [
        ChargeChange(
            charge=charge,
            kind=kind,
            event=_payment_event(kind, charge, payment),
            charge_fields={"paid_at": iso(receipt.paid_at)} if payment.settles else None,
            payment=payment,
            payment_fields=_payment_fields(charge, payment, confirmed, now=now),
            payer_sealed=None if charge.payer_erased else _seal_payer(payment, seal),
            entry=Entry(type="payment", amount_cents=receipt.amount_cents, payment_id=payment.payment_id),
            order=order,
        )
    ]
    if fee_cents:
        changes.append(_fee_change(charge, payment, terms))
    if payment.settles and payment.anomaly is not None:
        # An overpaid charge is paid and its payment anomalous, so the merchant gets both events.
        kind = EventKind.PAYMENT_ANOMALY
        changes.append(ChargeChange(charge=charge, kind=kind, event=_payment_event(kind, charge, payment)))
    return changes


def _payment_event(kind: EventKind, charge: Charge, payment: Payment) -> Event:
    event_id = new_id()
    return Event(event_id, payment_body(kind, charge, payment, event_id=event_id))


def _receipt(confirmed: Confirmation) -> Receipt:
    boleto, owed = confirmed.boleto, confirmed.owed
    return Receipt(
        source=confirmed.source,
        method="pix" if boleto is None else boleto.method,
        amount_cents=confirmed.amount_cents,
        paid_at=to_millisecond(confirmed.paid_at),
        end_to_end_id=confirmed.end_to_end_id,
        payer_name=confirmed.payer_name,
        payer_document_masked=masked(confirmed.payer_document) if confirmed.payer_document else None,
        interest_cents=owed.interest_cents,
        fine_cents=owed.fine_cents,
        discount_cents=owed.discount_cents,
        asked_cents=owed.asked_cents,
        late_from=owed.late_from,
    )


def _fee_change(charge: Charge, payment: Payment, terms: FeeTerms) -> ChargeChange:
    """Returns the change that debits the fee. It directly follows the payment, so no ledger entry comes between."""
    return ChargeChange(
        charge=charge,
        kind=FEE_CHARGED,
        entry=Entry(type="fee", amount_cents=-payment.fee_cents, payment_id=payment.payment_id),
        more={"fee": agreed_for(terms, payment.receipt.method)},
    )


def _booking_decision(
    confirmed: Confirmation, seal: Seal, fees: FeeTerms
) -> Callable[[Charge, datetime], list[ChargeChange]]:
    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        return book(charge, confirmed, now=now, seal=seal, fees=fees)

    return decide


def _seal_payer(payment: Payment, seal: Seal) -> bytes | None:
    """Returns the sealed payer, or None when the bank names no payer."""
    payer = {"name": payment.receipt.payer_name, "document": payment.receipt.payer_document_masked}
    if not any(payer.values()):
        return None
    return seal.seal(msgspec.json.encode(payer), PAYMENT_PAYER, payment.payment_id)


def _payment_fields(charge: Charge, payment: Payment, confirmed: Confirmation, *, now: datetime) -> dict[str, Any]:
    """Returns the payment's document, with money in cents and without the payer."""
    receipt, boleto, owed = payment.receipt, confirmed.boleto, confirmed.owed
    fields: dict[str, Any] = {
        "payment_id": payment.payment_id,
        "charge_id": charge.charge_id,
        "external_id": charge.external_id,
        "payment_method": charge.payment_method,
        "method": receipt.method,
        "amount_cents": receipt.amount_cents,
        "paid_at": iso(receipt.paid_at),
        "credited_at": iso(now),
        "end_to_end_id": receipt.end_to_end_id,
        "late": payment.late,
        "anomaly": payment.anomaly,
    }
    if payment.fee_cents:
        fields["fee_cents"] = payment.fee_cents
    optional: dict[str, Any] = {
        "interest_cents": owed.interest_cents,
        "fine_cents": owed.fine_cents,
        "discount_cents": owed.discount_cents,
        "txid": charge.charge_id.hex if boleto is None else boleto.txid,
        "integrador_code": confirmed.integrador_code,
    }
    if boleto is not None:
        fields["nosso_numero"] = boleto.nosso_numero
    fields.update({name: value for name, value in optional.items() if value})
    return fields
