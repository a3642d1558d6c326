"""The changes to a charge when an order about its boleto ends. A change is made in the transaction that settles the
order; a change that returns a Refused makes the order refused after all.
"""

from base64 import b64decode
from collections.abc import Awaitable, Callable
from datetime import date, datetime
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct

from banks.boletos import BoletoPayer, BoletoState, NewBoleto
from banks.choice import agreement_of
from commands.bank_orders.boleto_orders import Outcome
from commands.bank_orders.kinds import Redate, Registration, WriteOff
from commands.charges.cancel import cancellation
from commands.charges.change import Outcome as Changed
from commands.charges.change import change_charges, lock_charges
from commands.charges.confirm_boletos import confirm_boletos
from commands.charges.create_boleto import issue_found_boleto
from commands.charges.fail import fail_charge
from commands.charges.redate import redate_boleto
from commands.charges.sandbox import SANDBOX_FAILURE
from commands.journal import BANK
from commands.money.suspense import leave_suspense
from domain.boleto.terms import PaymentTerms
from domain.charge import DUAL, CancelReason, Status
from domain.errors import Code, Refused
from domain.instants import day_of, parse_day, to_millisecond
from domain.sandbox_clock import on_clock
from readmodels.charges.charge import read_doc
from runtime.seal import CHARGE_PAYER
from sql import Connection
from workers.context import Context
from workers.orders.lease import ClaimedOrder

_log = structlog.get_logger()
_read_payer = msgspec.json.Decoder(BoletoPayer).decode

Change = Callable[[Connection], Awaitable[Changed | None]]


class BoletoOrder(ClaimedOrder, frozen=True, gc=False):
    """A claimed order, with its charge and boleto as they were when it was claimed."""

    account_id: UUID
    charge_id: UUID
    payment_method: str | None
    status: str | None
    number: str | None
    due_on: date | None
    registered_at: datetime | None
    doc: bytes | None
    ahead_s: int
    """How far its account's clock is ahead of real time; 0 in production."""

    @property
    def dual(self) -> bool:
        return self.payment_method == DUAL

    def clock(self, now: datetime) -> datetime:
        """The present instant for the order's charge. Leases, deadlines and waits go by real time."""
        return on_clock(now, self.ahead_s)


class OrderEnded(Struct, frozen=True):
    """The order is over, with this outcome. `undo`: what the bank did has to be reconciled, by the order's own request
    unless `request` replaces it."""

    outcome: Outcome = Outcome()
    change: Change | None = None
    undo: bool = False
    request: bytes | None = None


def boleto_to_register(context: Context, request: Registration, *, ahead_s: int = 0) -> NewBoleto:
    doc = request.payload.charge
    assert doc.boleto is not None
    assert doc.due_date is not None
    return NewBoleto(
        number=doc.boleto.nosso_numero,
        seu_numero=doc.boleto.seu_numero,
        amount_cents=doc.amount_cents,
        issued_on=day_of(on_clock(context.now(), ahead_s)),
        due_on=parse_day(doc.due_date),
        terms=doc.terms,
        hybrid=doc.payment_method == "boleto_hibrido",
        payer=_read_payer(context.seal.open(b64decode(request.payer_sealed), CHARGE_PAYER, doc.charge_id)),
        description=doc.description,
    )


def payment_terms_of_order(order: BoletoOrder) -> PaymentTerms | None:
    return None if order.doc is None else read_doc(order.doc).terms


def cancel_charge_change(
    context: Context, order: BoletoOrder, reason: str, *, actor: str, request_id: str | None
) -> Change:
    async def change(conn: Connection) -> Changed | None:
        command = cancellation(
            order.charge_id,
            None,
            reason=CancelReason(reason),
            actor=actor,
            request_id=request_id,
            written_off=True,
        )
        (outcome,) = await change_charges(conn, [command], now=to_millisecond(context.now()))
        return outcome

    return change


def fail_charge_change(context: Context, order: BoletoOrder, request: WriteOff) -> Change:
    async def change(conn: Connection) -> Changed | None:
        return await fail_charge(
            conn,
            charge_id=order.charge_id,
            code=SANDBOX_FAILURE[0],
            message=SANDBOX_FAILURE[1],
            now=context.now(),
            actor=request.actor,
            request_id=request.request_id,
            written_off=True,
        )

    return change


def redate_change(context: Context, order: BoletoOrder, due_on: date, request: Redate) -> Change:
    async def redate(conn: Connection) -> Changed | None:
        assert order.doc is not None
        doc = read_doc(order.doc)
        assert doc.boleto is not None
        return await redate_boleto(
            conn,
            order.charge_id,
            due_on,
            boleto=doc.boleto,
            terms=doc.terms,
            redated=doc.redated,
            pix_until=doc.pix_expires_at,
            agreement=agreement_of(context.settings, order.bank),
            now=to_millisecond(context.now()),
            actor=request.actor,
            request_id=request.request_id,
        )

    return redate


def follow_bank(
    context: Context,
    order: BoletoOrder,
    state: BoletoState,
    *,
    reason: str = CancelReason.CANCELLED,
    wanted: Status | None = None,
    payments: int = 1,
) -> Change:
    """Follow what the bank has decided: book what was paid, and cancel what was written off. Refused when the charge's
    status is not `wanted` afterwards."""

    async def change(conn: Connection) -> Changed | None:
        await _book_payments(context, order.bank, conn, state, payments=payments)
        if state.status == "written_off" and order.number is not None:
            # Refused when the charge is no longer pending: then there is nothing to cancel.
            await cancel_charge_change(context, order, reason, actor=BANK, request_id=None)(conn)
        for charge in await lock_charges(conn, charge_ids=[order.charge_id]):
            if wanted is not None and charge.status != wanted:
                return Refused(Code.CHARGE_NOT_PENDING)
        return None

    return change


def book_payments_before(context: Context, order: BoletoOrder, state: BoletoState, change: Change) -> Change:
    """Book what the boleto was paid with, then make `change`. A boleto paid with too little is closed at the bank while
    its charge is open, and then nothing stands against `change`."""

    async def book_then_change(conn: Connection) -> Changed | None:
        await _book_payments(context, order.bank, conn, state)
        return await change(conn)

    return book_then_change


def issue_paid_boleto_change(context: Context, order: BoletoOrder, request: Registration, state: BoletoState) -> Change:
    async def change(conn: Connection) -> Changed | None:
        _log.error("boleto_paid_after_it_was_given_up", number=state.number)
        settled_cents = await leave_suspense(conn, [state.number], bank=order.bank)
        if settled_cents.get(state.number, 0) >= state.paid_cents:
            return None  # staff settle all of this money in suspense: nothing is left to pay the charge with
        registered_at = to_millisecond(order.clock(context.now()))
        await issue_found_boleto(conn, request, bank=order.bank, qr_code=state.qr_code, registered_at=registered_at)
        await _book_payments(context, order.bank, conn, state)
        return None

    return change


async def _book_payments(
    context: Context, bank: str, conn: Connection, state: BoletoState, *, payments: int = 1
) -> None:
    announced = {state.number: payments}
    booked = await confirm_boletos(
        conn,
        [state],
        bank=bank,
        now=context.now(),
        seal=context.seal,
        fees=context.settings.fees,
        announced=announced,
    )
    for number, outcome in booked.items():
        if isinstance(outcome, Refused):
            _log.error("boleto_payment_not_booked", number=number, code=outcome.code.name)
