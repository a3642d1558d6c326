"""Make the bank's books equal ours, after a change of a boleto whose answer was lost: one open boleto for each pending
charge, none for a creation that failed, none for a cancelled charge, and none for a charge that was paid by something
else: a dual one by its PIX leg, any by money that staff assigned to it.
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
from domain.instants import SAO_PAULO
from workers.context import Context
from workers.orders.boleto_changes import (
    BoletoOrder,
    OrderEnded,
    boleto_of,
    following,
    issuing_found,
    terms_of,
)
from workers.orders.lease import WATCH, Later

LOOK_AGAIN: Final = timedelta(seconds=31)
"""Between looks at a boleto that seems untouched: who asks within 30 s may be shown the answer of before."""
TOO_YOUNG: Final = timedelta(seconds=15)
"""Times the number of attempts: some fifteen calls in the half hour in which the bank may say no to a young boleto."""
WAIT_SHARE: Final = 0.1
"""Of the order's age: how long is waited for a boleto that the bank has and does not let go of yet. A scheduled payment
takes days, a notary weeks, and what is shown within 30 s is the answer of before."""
WAIT_MAX: Final = timedelta(minutes=15)

_log = structlog.get_logger()


class _Reason(Struct, frozen=True):
    reason: str = CancelReason.CANCELLED


_read_reconciliation = msgspec.json.Decoder(Reconciliation).decode
_read_reason = msgspec.json.Decoder(_Reason).decode


async def reconcile_boleto(context: Context, bank: Bank, order: BoletoOrder) -> OrderEnded | Later:
    """Look what the bank has, and make it equal to what we have."""
    cause = _read_reconciliation(order.request)
    number, asked = order.number, None
    if number is None:
        assert cause.after == OrderKind.BOLETO_REGISTER, "only a creation that failed has no boleto here"
        asked = read_registration(cause.request)
        number = boleto_of(context, asked).number
    now = context.now()
    match await bank.boletos.find_boleto(number):
        case Unknown(detail):
            return Later(detail=detail)
        case NotFound():
            if now < order.created_at + WATCH:
                return Later(detail="may be on its way")
            if order.status == Status.PENDING:
                _log.error("boleto_not_at_bank", number=number)
            return OrderEnded()
        case BoletoState() as state:
            if asked is not None and not asked.stands and not _same(state, boleto_of(context, asked)):
                # Another issuer under the agreement has the number: that boleto is not ours to touch.
                _log.warning("boleto_number_taken", number=number)
                return OrderEnded()
            result = await _reconcile(context, bank, order, cause, state)
            if result == OrderEnded() and _may_still_change(order, cause, context.now()):
                # Of a dual charge sooner: who books its other leg meanwhile leaves the boleto to this order.
                at = None if order.dual else context.now() + LOOK_AGAIN
                return Later(detail="may be on its way", at=at)
            return result


def _may_still_change(order: BoletoOrder, cause: Reconciliation, now: datetime) -> bool:
    """Whether a change whose end nobody read may yet be done, or be done and not shown. The sandbox's bank is in this
    process: there nothing is on its way."""
    return (
        not order.test
        and cause.after in (OrderKind.BOLETO_WRITE_OFF, OrderKind.BOLETO_REDATE)
        and order.status in (Status.PENDING, Status.EXPIRED)
        and now < order.created_at + WATCH
    )


async def _reconcile(
    context: Context, bank: Bank, order: BoletoOrder, cause: Reconciliation, state: BoletoState
) -> OrderEnded | Later:
    now = context.now()
    if state.status == "in_between":
        return Later(detail="money may be on its way", at=_seldom(order, now))
    if state.status == "paid":
        if order.number is None:
            return OrderEnded(change=issuing_found(context, order, read_registration(cause.request), state))
        return OrderEnded(change=following(context, order, state))
    if state.status == "written_off":
        written_off = cause.after == OrderKind.BOLETO_WRITE_OFF
        reason = _read_reason(cause.request).reason if written_off else CancelReason.CANCELLED
        return OrderEnded(change=following(context, order, state, reason=reason))
    if order.status == Status.PENDING:
        terms = terms_of(order)
        # A due date may have been given back, and the days counted from it not yet.
        if order.due_on is None or (order.due_on == state.due_on and state.follows(terms)):
            return OrderEnded()
        if order.due_on < order.clock(now).astimezone(SAO_PAULO).date():
            # A due date on a weekend, which cannot be given back: what is printed then is payable for longer.
            _log.warning("boleto_due_differs", number=state.number)
            return OrderEnded()
        answer = await bank.boletos.redate_boleto(
            state.number, order.due_on, terms=terms, registered_at=order.registered_at
        )
    elif order.status == Status.EXPIRED and order.due_on == state.due_on:
        # It may stand: money that arrives late still counts.
        return OrderEnded()
    else:
        # Where it was the boleto that was paid, and the bank tells us old news, it says no to this.
        answer = await bank.boletos.write_off_boleto(
            state.number, registered_at=order.registered_at or order.created_at
        )
    match answer:
        case Done():
            return OrderEnded()
        case NotYet(retry_at):
            # That it is too young is only the likeliest reason of a no: ask now and then before its time as well.
            again = context.now() + TOO_YOUNG * order.attempts
            wait = again if retry_at is None else min(retry_at - timedelta(seconds=order.ahead_s), again)
            return Later(detail="too young", at=wait)
        case Rejected(code, _):
            # Paid or written off this moment: the next look tells.
            return Later(detail=f"refused: {code}", at=_seldom(order, now))
        case Unknown(detail):
            return Later(detail=detail)


def _seldom(order: BoletoOrder, now: datetime) -> datetime | None:
    """When to look again at what may stay as it is; None: after the usual wait, while the order is young."""
    wait = min((now - order.created_at) * WAIT_SHARE, WAIT_MAX)
    return None if wait < LOOK_AGAIN else now + wait


def _same(state: BoletoState, boleto: NewBoleto) -> bool:
    """Whether the bank's boleto is the one we asked for. Its due date has not been changed: it never had a charge."""
    return (state.amount_cents, state.due_on, state.seu_numero) == (
        boleto.amount_cents,
        boleto.due_on,
        boleto.seu_numero.strip(),
    )
