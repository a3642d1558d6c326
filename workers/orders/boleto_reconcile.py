"""Make the bank's books equal ours, after a change of a boleto whose answer was lost: one open boleto for each pending
charge; none for a failed creation, for a cancelled charge, or for a charge paid by something else (a dual charge by its
PIX leg, any charge by money that staff assigned to it).
"""

from datetime import datetime, timedelta
from typing import Final

import msgspec
import structlog
from msgspec import Struct

from banks.boletos import BoletoState, NewBoleto, NotYet
from banks.protocol import Bank, Done, NotFound, Rejected, Unknown
from commands.bank_orders.kinds import OrderKind, Reconciliation
from commands.charges.create_boleto import read_registration
from domain.charge import CancelReason, Status
from domain.instants import day_of
from workers.context import Context
from workers.orders.boleto_changes import (
    BoletoOrder,
    OrderEnded,
    boleto_to_register,
    follow_bank,
    issue_paid_boleto_change,
    payment_terms_of_order,
)
from workers.orders.lease import LOST_CALL_WATCH, Later

LOOK_AGAIN: Final = timedelta(seconds=31)
"""Between looks at a boleto that seems untouched: within 30 s of a question the bank may repeat its earlier answer."""
TOO_YOUNG: Final = timedelta(seconds=15)
"""Times the number of attempts: some fifteen calls in the half hour in which the bank may refuse a young boleto."""
WAIT_SHARE: Final = 0.1
"""The share of the order's age to wait for a boleto that the bank has and does not release yet. A scheduled payment
takes days, a notary weeks, and within 30 s the bank may repeat its earlier answer."""
WAIT_MAX: Final = timedelta(minutes=15)

_log = structlog.get_logger()


class _WriteOffReason(Struct, frozen=True):
    reason: str = CancelReason.CANCELLED


_read_reconciliation = msgspec.json.Decoder(Reconciliation).decode
_read_write_off_reason = msgspec.json.Decoder(_WriteOffReason).decode


async def reconcile_boleto(context: Context, bank: Bank, order: BoletoOrder) -> OrderEnded | Later:
    """Look at the bank's boleto, and make it equal to ours."""
    reconciliation = _read_reconciliation(order.request)
    number, registration = order.number, None
    if number is None:
        assert reconciliation.after == OrderKind.BOLETO_REGISTER, "only a creation that failed has no boleto here"
        registration = read_registration(reconciliation.request)
        number = boleto_to_register(context, registration).number
    now = context.now()
    match await bank.boletos.find_boleto(number):
        case Unknown(detail):
            return Later(detail=detail)
        case NotFound():
            if now < order.created_at + LOST_CALL_WATCH:
                return Later(detail="may be on its way")
            if order.status == Status.PENDING:
                _log.error("boleto_not_at_bank", number=number)
            return OrderEnded()
        case BoletoState() as state:
            if (
                registration is not None
                and not registration.stands
                and not _is_our_boleto(state, boleto_to_register(context, registration))
            ):
                # Another issuer under the agreement has the number: that boleto is not ours to touch.
                _log.warning("boleto_number_taken", number=number)
                return OrderEnded()
            result = await _reconcile_found(context, bank, order, reconciliation, state)
            if result == OrderEnded() and _may_still_change(order, reconciliation, context.now()):
                # Sooner for a dual charge: a payment of its other leg leaves the boleto to this order meanwhile.
                look_at = None if order.dual else context.now() + LOOK_AGAIN
                return Later(detail="may be on its way", at=look_at)
            return result


def _may_still_change(order: BoletoOrder, reconciliation: Reconciliation, now: datetime) -> bool:
    """Whether a change whose answer was lost may still be carried out, or is done and not shown yet. The sandbox's bank
    is in this process, so nothing is on its way there."""
    return (
        not order.test
        and reconciliation.after in (OrderKind.BOLETO_WRITE_OFF, OrderKind.BOLETO_REDATE)
        and order.status in (Status.PENDING, Status.EXPIRED)
        and now < order.created_at + LOST_CALL_WATCH
    )


async def _reconcile_found(
    context: Context, bank: Bank, order: BoletoOrder, reconciliation: Reconciliation, state: BoletoState
) -> OrderEnded | Later:
    now = context.now()
    if state.status == "in_between":
        return Later(detail="money may be on its way", at=_next_look_at(order, now))
    if state.status == "paid":
        if order.number is None:
            return OrderEnded(
                change=issue_paid_boleto_change(context, order, read_registration(reconciliation.request), state)
            )
        return OrderEnded(change=follow_bank(context, order, state))
    if state.status == "written_off":
        written_off = reconciliation.after == OrderKind.BOLETO_WRITE_OFF
        reason = _read_write_off_reason(reconciliation.request).reason if written_off else CancelReason.CANCELLED
        return OrderEnded(change=follow_bank(context, order, state, reason=reason))
    if order.status == Status.PENDING:
        terms = payment_terms_of_order(order)
        # The bank may have our due date again, but not yet the days that are counted from it.
        if order.due_on is None or (order.due_on == state.due_on and state.follows(terms)):
            return OrderEnded()
        if order.due_on < day_of(order.clock(now)):
            # A past due date on a weekend, which the bank does not take: the printed boleto is payable for longer.
            _log.warning("boleto_due_differs", number=state.number)
            return OrderEnded()
        answer = await bank.boletos.redate_boleto(
            state.number, order.due_on, terms=terms, registered_at=order.registered_at
        )
    elif order.status == Status.EXPIRED and order.due_on == state.due_on:
        # The boleto may stand: money that arrives late still counts.
        return OrderEnded()
    else:
        # If this boleto is what the charge was paid by, and the bank showed an old state, it refuses the write-off.
        answer = await bank.boletos.write_off_boleto(
            state.number, registered_at=order.registered_at or order.created_at
        )
    match answer:
        case Done():
            return OrderEnded()
        case NotYet(retry_at):
            # Too young is only the likeliest reason of a refusal: ask now and then before `retry_at` as well.
            young_look_at = context.now() + TOO_YOUNG * order.attempts
            look_at = (
                young_look_at if retry_at is None else min(retry_at - timedelta(seconds=order.ahead_s), young_look_at)
            )
            return Later(detail="too young", at=look_at)
        case Rejected(code, _):
            # Paid or written off just now: the next look tells.
            return Later(detail=f"refused: {code}", at=_next_look_at(order, now))
        case Unknown(detail):
            return Later(detail=detail)


def _next_look_at(order: BoletoOrder, now: datetime) -> datetime | None:
    """When to look again at a boleto that may stay as it is; None, while the order is young: after the usual wait."""
    wait = min((now - order.created_at) * WAIT_SHARE, WAIT_MAX)
    return None if wait < LOOK_AGAIN else now + wait


def _is_our_boleto(state: BoletoState, boleto: NewBoleto) -> bool:
    """Whether the bank's boleto is the one we asked for. Its due date never changed, since it never had a charge."""
    return (state.amount_cents, state.due_on, state.seu_numero) == (
        boleto.amount_cents,
        boleto.due_on,
        boleto.seu_numero.strip(),
    )
