"""Have the bank register, write off, redate and (in the sandbox) pay boletos, for requests that wait.

An order is tried a few times within its deadline and then given up. Giving up leaves an order of kind boleto_reconcile,
which is tried until the bank's books equal ours (workers/orders/boleto_reconcile.py). The outcome is stored with the
charge's change in one transaction.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

import sql
from banks.boletos import LINE_MISMATCH, NOT_FOUND, NUMBER_TAKEN, PAID, STANDS_AT_BANK, WRITTEN_OFF, BoletoState, NotYet
from banks.protocol import Bank, Done, Rejected, Unknown
from banks.scenario import Acting, acting
from banks.simulated.boletos import ANNOUNCED
from commands.bank_orders.boleto_orders import Outcome, give_up, order_reconciliation
from commands.bank_orders.kinds import OrderKind, OrderLane, Pay, Redate, WriteOff
from commands.charges.change import lock_charges
from commands.charges.create_boleto import ISSUED_MAX, RegistrationResult, issue_boletos, placed, read_registration
from domain.charge import Status
from domain.errors import Code, Refused
from domain.instants import parse_day
from domain.mode import Mode
from runtime.batching import Batcher
from runtime.coordination.lanes import BOLETO_ORDERS, PIX_ORDERS, WEBHOOKS
from runtime.ids import new_id
from runtime.postgres import session, transaction
from runtime.replies import send_reply
from sql import Connection
from workers.context import Context
from workers.orders.boleto_changes import (
    BoletoOrder,
    OrderEnded,
    boleto_to_register,
    book_payments_before,
    cancel_charge_change,
    fail_charge_change,
    follow_bank,
    payment_terms_of_order,
    redate_change,
)
from workers.orders.boleto_reconcile import reconcile_boleto
from workers.orders.lease import (
    LEASE,
    Later,
    LeaseLost,
    backoff_s,
    drain_lanes,
    log_unknown,
    put_off,
    read_scenario,
    settle,
    store_with_retry,
)
from workers.orders.queue_head import QueueHead, QueueHeads

LANES: Final = (OrderLane.BOLETO, OrderLane.BOLETO_CHANGE, OrderLane.RECONCILIATION)
"""A bank that registers boletos may hang when it is asked to change or to show one, and an outage leaves many to be
reconciled: none of these keeps a request for a new boleto waiting."""
ATTEMPTS_MAX: Final = 3
"""Attempts of an order that a request waits for."""
BACKOFF_S: Final = (0.2, 0.5)
RECONCILE_BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
CALL_S: Final = 20.0

_UNAVAILABLE: Final = Outcome(refused=Code.BANK_UNAVAILABLE.name)
_NOT_PENDING: Final = Outcome(refused=Code.CHARGE_NOT_PENDING.name)
_PAST_DEADLINE: Final = Later(detail="past its deadline", asked=False)
_OPEN_STATUSES: Final = (Status.PENDING, Status.EXPIRED)

_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode


class _TakenOver(Struct, frozen=True, gc=False):
    reconcile: bool = False
    """Whether a reconciliation was open when this order was placed (boleto.order_change)."""


find_booked_cents = sql.one("boleto.booked_of", int)
claim = sql.many("bank_order.claim_boletos", BoletoOrder)

_read_write_off = msgspec.json.Decoder(WriteOff).decode
_read_pay = msgspec.json.Decoder(Pay).decode
_read_redate = msgspec.json.Decoder(Redate).decode
_read_taken_over = msgspec.json.Decoder(_TakenOver).decode

Result = OrderEnded | Later | None
"""None: the order has already been settled, together with its change."""


class BoletoOrderWorker:
    """Carries out the orders about boletos of one mode. Registered boletos are stored in batches."""

    def __init__(self, context: Context, mode: Mode) -> None:
        self._context = context
        self._mode = mode
        self._queue_heads: QueueHeads = defaultdict(QueueHead)
        self._issue_batcher: Batcher[RegistrationResult, bool] = Batcher(
            self._issue_charges, lanes=2, batch_max=ISSUED_MAX
        )
        self._ask_by_kind: dict[str, Callable[[Bank, BoletoOrder], Awaitable[Result]]] = {
            OrderKind.BOLETO_REGISTER: self._register,
            OrderKind.BOLETO_WRITE_OFF: self._write_off,
            OrderKind.BOLETO_REDATE: self._redate,
            OrderKind.BOLETO_PAY: self._pay,
            OrderKind.BOLETO_RECONCILE: partial(reconcile_boleto, context),
        }

    async def drain(self) -> int:
        at_once = self._context.settings.pace.bank_boleto_calls
        claims = [partial(self._claim, lane) for lane in LANES]
        return await drain_lanes(
            self._context, *claims, ask=self._ask, store=self._store, at_once=at_once, call_s=CALL_S
        )

    async def _claim(self, lane: OrderLane, limit: int) -> Sequence[BoletoOrder]:
        now, test = self._context.now(), self._mode.test
        async with session(self._context.pool) as conn:
            return await self._queue_heads[lane].claim(
                lambda since: claim(conn, lane=lane, test=test, since=since, now=now, limit=limit, lease=LEASE), now=now
            )

    async def _ask(self, order: BoletoOrder) -> Result:
        # A reconciliation ignores the merchant's scenario: no test may leave the books in disagreement.
        scenario = None if order.kind == OrderKind.BOLETO_RECONCILE else read_scenario(order.request)
        bank = self._context.banks.of(order.mode, order.bank, ahead_s=order.ahead_s)
        return await self._ask_by_kind[order.kind](acting(bank, scenario, attempt=order.attempts), order)

    # The kinds of order: ask the bank, return what is to be stored

    async def _register(self, bank: Bank, order: BoletoOrder) -> Result:
        request = read_registration(order.request)
        if order.late(self._context.now()):
            return _PAST_DEADLINE
        if request.pix is not None and request.pix.location_id is None:
            match await bank.cobvs.create_cobv_location():
                case Done(location):
                    request = placed(request, location)
                case Rejected(code, message):
                    _log.warning("cobv_location_refused", code=code, message=message)
                    return OrderEnded(_UNAVAILABLE, undo=order.attempts > 1)
                case Unknown(detail):
                    return Later(detail=detail)
        boleto = boleto_to_register(self._context, request, ahead_s=order.ahead_s)
        answer = await bank.boletos.register_boleto(boleto)
        match answer:
            case Done(registered):
                registration = RegistrationResult(
                    order_id=order.order_id,
                    attempts=order.attempts,
                    reconcile_id=new_id(),
                    cob_order_id=None if request.pix is None else new_id(),
                    request=request,
                    qr_code=registered.qr_code,
                    at=self._context.now(),
                    ahead_s=order.ahead_s,
                )
                if not await self._issue_batcher.submit(registration):
                    raise LeaseLost
                return None
            case Rejected(code, message):
                if code in (NUMBER_TAKEN, WRITTEN_OFF):
                    return OrderEnded(Outcome(refused=NUMBER_TAKEN))
                if code == LINE_MISMATCH:
                    # The payer would scan other codes than the bank has: never handed out, and a person has to look.
                    _log.error("boleto_line_differs", number=boleto.number)
                else:
                    _log.warning("boleto_refused", number=boleto.number, code=code, message=message)
                if code in STANDS_AT_BANK:
                    return OrderEnded(_UNAVAILABLE, undo=True, request=_encode(replace(request, stands=True)))
                # An earlier attempt, whose answer was lost, may have registered the boleto all the same.
                return OrderEnded(_UNAVAILABLE, undo=order.attempts > 1)
            case Unknown(detail, asked):
                return Later(detail=detail, asked=asked)

    async def _write_off(self, bank: Bank, order: BoletoOrder) -> Result:
        request = _read_write_off(order.request)
        if order.status != Status.PENDING or order.number is None:
            return OrderEnded(_NOT_PENDING)
        if order.late(self._context.now()):
            return _PAST_DEADLINE
        if request.fail:
            change = fail_charge_change(self._context, order, request)
        else:
            change = cancel_charge_change(
                self._context, order, request.reason, actor=request.actor, request_id=request.request_id
            )
        match await bank.boletos.write_off_boleto(order.number, registered_at=order.registered_at):
            case Done() | Rejected(code="WRITTEN_OFF"):
                return OrderEnded(change=change)
            case Rejected(code) if code == NOT_FOUND:
                # A bank in trouble denies boletos that it has: the charge is cancelled, and the boleto is reconciled.
                _log.error("boleto_not_at_bank", number=order.number)
                return OrderEnded(change=change, undo=True)
            case Rejected(code) if code == PAID:
                state = await bank.boletos.find_boleto(order.number)
                if not isinstance(state, BoletoState) or state.status != "paid":
                    return Later(detail="paid, and not to be read yet")
                return OrderEnded(change=book_payments_before(self._context, order, state, change))
            case NotYet(retry_at):
                return OrderEnded(self._too_early(order, retry_at), undo=order.attempts > 1)
            case Rejected(code, message):
                _log.warning("boleto_not_written_off", number=order.number, code=code, message=message)
                # An earlier attempt, whose answer was lost, may still write the boleto off.
                return OrderEnded(_UNAVAILABLE, undo=order.attempts > 1)
            case Unknown(detail):
                return Later(detail=detail)

    async def _redate(self, bank: Bank, order: BoletoOrder) -> Result:
        request = _read_redate(order.request)
        if order.status != Status.PENDING or order.number is None:
            return OrderEnded(_NOT_PENDING)
        if order.late(self._context.now()):
            return _PAST_DEADLINE
        due_on = parse_day(request.due_date)
        answer = await bank.boletos.redate_boleto(
            order.number, due_on, terms=payment_terms_of_order(order), registered_at=order.registered_at
        )
        match answer:
            case Done():
                return OrderEnded(change=redate_change(self._context, order, due_on, request))
            case Rejected(code) if code in (PAID, WRITTEN_OFF):
                state = await bank.boletos.find_boleto(order.number)
                if not isinstance(state, BoletoState):
                    return Later(detail="the boleto cannot be read")
                # A boleto paid with too little is pending here and closed at the bank for ever: no try will succeed.
                return OrderEnded(_NOT_PENDING, change=follow_bank(self._context, order, state))
            case NotYet(retry_at):
                return OrderEnded(self._too_early(order, retry_at))
            case Rejected(code, message):
                _log.warning("boleto_not_redated", number=order.number, code=code, message=message)
                return OrderEnded(_UNAVAILABLE)
            case Unknown(detail):
                return Later(detail=detail)

    async def _pay(self, bank: Bank, order: BoletoOrder) -> Result:
        simulated = self._context.banks.sandbox.ahead(order.ahead_s)
        request = _read_pay(order.request)
        if order.number is None or (order.status != Status.PENDING and not request.force):
            return OrderEnded(_NOT_PENDING)
        async with session(self._context.pool) as conn:
            booked_cents = await find_booked_cents(conn, bank=order.bank, number=order.number)
        at_bank = await simulated.boletos.booked(order.number)
        # Money not booked here yet may be this order's own payment from before a crash: then it is not paid again.
        has_unbooked = at_bank is not None and (at_bank.state == ANNOUNCED or at_bank.paid_cents > booked_cents)
        if at_bank is not None and not (has_unbooked and order.attempts > 1):
            pay = partial(
                simulated.boletos.pay,
                order.number,
                rail=request.rail,
                amount_cents=request.amount_cents,
                paid_at=request.paid_at,
                times=request.times,
                force=request.force,
                # Pending with money booked, it was paid with too little: the payer may come back and pay it all.
                after=0 if has_unbooked else at_bank.payments,
                tell=False,
            )
            match await (bank.pay(pay) if isinstance(bank, Acting) else pay()):
                case Rejected():
                    return OrderEnded(_UNAVAILABLE)
                case Unknown(detail):
                    return Later(detail=detail)
        state = await bank.boletos.find_boleto(order.number)
        if not isinstance(state, BoletoState) or state.status in ("open", "in_between"):
            return Later(detail="not settled yet")
        wanted = None if request.force else Status.PAID
        return OrderEnded(change=follow_bank(self._context, order, state, wanted=wanted, payments=request.times))

    def _too_early(self, order: BoletoOrder, retry_at: datetime | None) -> Outcome:
        """The refusal when the bank takes no change yet, with the time to come back."""
        wait = (retry_at - order.clock(self._context.now())) if retry_at is not None else timedelta(minutes=30)
        return Outcome(refused=Code.BANK_UNAVAILABLE.name, retry_after_s=max(1, int(wait.total_seconds()) + 1))

    # Storing

    async def _store(self, order: BoletoOrder, result: Result) -> None:
        outcome: Outcome | None
        match result:
            case None:
                outcome = Outcome()
            case OrderEnded():
                outcome = await self._settle_ended(order, result)
            case Later():
                outcome = await self._put_off_or_give_up(order, result)
        if order.kind != OrderKind.BOLETO_REGISTER or (outcome is not None and outcome.refused):
            self._context.jobs.wake(WEBHOOKS)
            if order.dual:
                self._context.jobs.wake(PIX_ORDERS[self._mode])  # the cob follows the boleto
        if outcome is not None and order.reply_to is not None:
            await send_reply(self._context.redis, order.reply_to, order.order_id, _encode(outcome), self._context.seal)

    async def _settle_ended(self, order: BoletoOrder, ended: OrderEnded) -> Outcome:
        outcome, now = ended.outcome, self._context.now()
        async with transaction(self._context.pool) as conn:
            if ended.change is not None:
                change_outcome = await ended.change(conn)
                if isinstance(change_outcome, Refused):
                    outcome = Outcome(refused=change_outcome.code.name)
            overtaken = await self._was_overtaken(conn, order, outcome)
            state = "refused" if outcome.refused else "done"
            if not await settle(conn, [(order, state, _encode(outcome))], now=now):
                raise LeaseLost  # this rolls back all of it: giving the order up has left an order to reconcile
            undo = ended.undo or overtaken or _needs_reconciliation(order, outcome)
            if undo:
                await order_reconciliation(
                    conn,
                    reconcile_id=new_id(),
                    account_id=order.account_id,
                    charge_id=order.charge_id,
                    test=order.test,
                    bank=order.bank,
                    after=order.kind,
                    request=ended.request or order.request,
                    now=now,
                )
        if undo:
            self._context.jobs.wake(BOLETO_ORDERS[self._mode])
        return outcome

    async def _was_overtaken(self, conn: Connection, order: BoletoOrder, outcome: Outcome) -> bool:
        """Whether the boleto may have been left open although its charge was settled by something else: a dual charge
        by its PIX leg, any charge by money that staff assigned to it.

        Booking that payment, under the charge's lock, writes no order to close the boleto while this order is open. So
        this order takes the same lock before it ends, and looks.
        """
        may_be_left_open = (
            order.status in _OPEN_STATUSES if order.kind == OrderKind.BOLETO_RECONCILE else bool(outcome.refused)
        )
        if order.status is None or not may_be_left_open:
            return False
        (charge,) = await lock_charges(conn, charge_ids=[order.charge_id])
        return charge.status not in _OPEN_STATUSES

    async def _put_off_or_give_up(self, order: BoletoOrder, later: Later) -> Outcome | None:
        """Have the order wait for another attempt; or give it up, when no request can wait any longer."""
        now = self._context.now()
        is_reconciliation = order.kind == OrderKind.BOLETO_RECONCILE
        if is_reconciliation or (later.asked and order.attempts < ATTEMPTS_MAX and not order.late(now)):
            wait_s = backoff_s(RECONCILE_BACKOFF_S if is_reconciliation else BACKOFF_S, order.attempts)
            await put_off(self._context, order, later, wait_s)
            return None
        log_unknown(order, later)
        async with transaction(self._context.pool) as conn:
            given_up = await give_up(
                conn,
                order.order_id,
                reconcile_id=new_id(),
                outcome=_encode(_UNAVAILABLE),
                now=now,
                attempts=order.attempts,
                untouched=0 if later.asked else 1,
            )
        if not given_up:
            raise LeaseLost
        self._context.jobs.wake(BOLETO_ORDERS[self._mode])
        return _UNAVAILABLE

    async def _issue_charges(self, boletos: Sequence[RegistrationResult]) -> list[bool]:
        """Make charges of what the bank registered; False for orders that are no longer under our lease."""

        async def store() -> list[bool]:
            async with session(self._context.pool) as conn:
                settled, issued = await issue_boletos(conn, boletos)
            if any(boleto.request.pix is not None for boleto in boletos):
                self._context.jobs.wake(PIX_ORDERS[self._mode])
            undone_count = len(settled) - len(issued)
            if undone_count:
                _log.info("boletos_of_used_keys_undone", count=undone_count)
                self._context.jobs.wake(BOLETO_ORDERS[self._mode])
            return [boleto.order_id in settled for boleto in boletos]

        # An attempt that committed before its connection was lost has settled its orders, so the retry reports them as
        # not ours. Their charges exist, and a request that got no reply finds them by looking.
        return await store_with_retry(store)


def _needs_reconciliation(order: BoletoOrder, outcome: Outcome) -> bool:
    """Whether the boleto has to be reconciled. When its charge expired or was paid while the bank was asked for a new
    due date, the bank has a date that we do not have. And a reconciliation that was open before this order came is
    still due, unless this order closed the boleto: then nothing about it changes any more."""
    is_redate = order.kind == OrderKind.BOLETO_REDATE
    follows_reconciliation = _read_taken_over(order.request).reconcile
    return (bool(outcome.refused) and (is_redate or follows_reconciliation)) or (is_redate and follows_reconciliation)
