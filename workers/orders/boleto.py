"""Have the bank register, change and write off boletos, for doors that wait; and put right what no answer came of.

As in workers/orders/pix.py an order is claimed, the bank asked with no transaction open, and the outcome stored with
the charge's change in one transaction. What differs: somebody waits. An order is tried a few times within its deadline
and then given up, and giving up leaves an order of kind boleto_align, which is tried until the bank's books equal ours:
one open boleto for each pending charge, none for a creation that failed, none for a cancelled charge, and none for a
dual charge that was paid by its PIX leg.
"""

import asyncio
import random
from base64 import b64decode
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

import sql
from banks.boletos import (
    LINE_MISMATCH,
    NOT_FOUND,
    NUMBER_TAKEN,
    PAID,
    STANDS_AT_BANK,
    WRITTEN_OFF,
    Boleto,
    BoletoPayer,
    BoletoState,
    NotYet,
)
from banks.protocol import Bank, Done, NotFound, Rejected, Unknown
from banks.scenario import Acting, acting
from banks.simulated.bank import SimulatedBank
from banks.simulated.boletos import ANNOUNCED
from commands.bank_orders.boleto_orders import Outcome, give_up, put_right
from commands.bank_orders.kinds import OrderKind, Pay, Reconciliation, Redate, Registration, WriteOff
from commands.charges.cancel import cancellation
from commands.charges.change import Outcome as Changed
from commands.charges.change import change_charges, lock_charges
from commands.charges.confirm_boletos import confirm_boletos
from commands.charges.create_boleto import (
    ISSUED_MAX,
    RegistrationResult,
    issue_boletos,
    issue_found_boleto,
    read_registration,
)
from commands.charges.fail import fail_charge
from commands.charges.redate import redate_boleto
from commands.charges.sandbox import SANDBOX_FAILURE
from domain.charge import DUAL, CancelReason, Status
from domain.errors import Code, Refused
from domain.instants import SAO_PAULO, parse_day, to_millisecond
from domain.mode import Mode
from domain.sandbox_clock import on_clock
from readmodels.charges.charge import ChargeDoc, read_doc
from runtime.batching import Batcher
from runtime.ids import new_id
from runtime.jobs import BOLETO_ORDERS, PIX_ORDERS, WEBHOOKS
from runtime.postgres import DB_UNAVAILABLE, session, transaction
from runtime.replies import send_reply
from sql import Connection
from workers.concurrency import run_concurrently
from workers.context import Context

AT_ONCE: Final = 128
"""Calls about boletos to one bank at the same time, per mode and process."""
ATTEMPTS_MAX: Final = 3
"""Of an order somebody waits for."""
LEASE: Final = timedelta(seconds=30)
BACKOFF_S: Final = (0.2, 0.5)
ALIGN_BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
WATCH: Final = timedelta(seconds=60)
"""What was asked for may still be on its way to the bank, or done there and not shown yet: for this long after the
order to put it right was written, neither "not found" nor "as it was" is an answer. Longer than any call of ours
lives, and than any detail the bank shows is old."""
LOOK_AGAIN: Final = timedelta(seconds=31)
"""Between looks at a boleto that seems untouched: who asks within 30 s may be shown the answer of before."""
TOO_YOUNG: Final = timedelta(seconds=15)
"""Times the number of attempts: some fifteen calls in the half hour in which the bank may say no to a young boleto."""
CALL_S: Final = 20.0

_RING_S_MAX = 1.0
_STORE_WAITS_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0)

_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode


class BoletoOrder(Struct, frozen=True, gc=False):
    """A claimed order, with its charge and boleto as they were at that moment."""

    order_id: UUID
    account_id: UUID
    charge_id: UUID
    test: bool
    kind: str
    request: bytes
    attempts: int
    created_at: datetime
    deadline: datetime | None
    reply_to: str | None
    payment_method: str | None
    status: str | None
    expires_at: datetime | None
    number: str | None
    due_on: date | None
    registered_at: datetime | None
    doc: bytes | None
    ahead_s: int
    """By how much its account's clock is ahead of real time; 0 in production."""

    @property
    def dual(self) -> bool:
        return self.payment_method == DUAL


class _Acted(Struct, frozen=True):
    scenario: str | None = None


class _Reason(Struct, frozen=True):
    reason: str = CancelReason.CANCELLED


class _Booked(Struct, frozen=True, gc=False):
    booked_cents: int


class _Settled(Struct, frozen=True, gc=False):
    order_id: UUID


find_booked = sql.one("boleto.booked_of", _Booked)
claim = sql.many("boleto.claim", BoletoOrder)
settle = sql.maybe("boleto.settle", _Settled)

_read_aligned = msgspec.json.Decoder(Reconciliation).decode
_read_acted = msgspec.json.Decoder(_Acted).decode
_read_reason = msgspec.json.Decoder(_Reason).decode
_read_write_off = msgspec.json.Decoder(WriteOff).decode
_read_pay = msgspec.json.Decoder(Pay).decode
_read_redate = msgspec.json.Decoder(Redate).decode
_read_payer = msgspec.json.Decoder(BoletoPayer).decode

Change = Callable[[Connection], Awaitable[Changed | None]]


class _Ended(Struct, frozen=True):
    """The order is over, with this outcome. `change` comes with it in one transaction, and may refuse after all;
    `undo`: what the bank did is to be undone, by the order's request unless another `request` says more."""

    outcome: Outcome = Outcome()
    change: Change | None = None
    undo: bool = False
    request: bytes | None = None


class _Later(Struct, frozen=True):
    """Not known yet, or not possible yet: again at `at`, or after the usual wait. `asked`: the bank was."""

    detail: str
    at: datetime | None = None
    asked: bool = True


class _Stored(Struct, frozen=True):
    """The order has been settled with its change already."""

    outcome: Outcome


Result = _Ended | _Later | _Stored
_UNAVAILABLE: Final = Outcome(refused=Code.BANK_UNAVAILABLE.name)
_NOT_PENDING: Final = Outcome(refused=Code.CHARGE_NOT_PENDING.name)


class _NotOurs(Exception):
    """The order is another lease's, or was given up: whoever has it now sees to it."""


class BoletoOrderWorker:
    """Does the orders about boletos of one mode. What the bank has registered is stored in batches."""

    def __init__(self, context: Context, mode: Mode, *, at_once: int = AT_ONCE) -> None:
        self._context = context
        self._mode = mode
        self._at_once = at_once
        self._bank = context.banks[mode]
        self._issuing: Batcher[RegistrationResult, bool] = Batcher(self._issue, lanes=2, most=ISSUED_MAX)
        self._kinds: dict[str, Callable[[Bank, BoletoOrder], Awaitable[Result]]] = {
            OrderKind.BOLETO_REGISTER: self._register,
            OrderKind.BOLETO_WRITE_OFF: self._write_off,
            OrderKind.BOLETO_REDATE: self._redate,
            OrderKind.BOLETO_PAY: self._pay,
            OrderKind.BOLETO_RECONCILE: self._align,
        }

    async def drain(self) -> int:
        """Do what is due; answers how many orders were taken up. One slow answer holds nobody else up."""
        return await run_concurrently(self._claim, self._do, at_once=self._at_once, stopping=self._context.stopping)

    async def _claim(self, most: int) -> list[BoletoOrder]:
        now = self._context.now()
        async with session(self._context.pool) as conn:
            return await claim(conn, test=self._mode.test, now=now, most=most, lease_until=now + LEASE)

    async def _do(self, order: BoletoOrder) -> None:
        try:
            try:
                acted = acting(self._bank_of(order), self._scenario(order), attempt=order.attempts)
                async with asyncio.timeout(CALL_S):
                    result = await self._kinds[order.kind](acted, order)
            except (*DB_UNAVAILABLE, TimeoutError) as gone:
                result = _Later(type(gone).__name__)
            except _NotOurs:
                return
            except Exception:
                _log.exception("boleto_order_failed_here", order_id=str(order.order_id), kind=order.kind)
                result = _Later("failed here")
            await _patiently(lambda: self._store(order, result))
        except Exception:
            _log.exception("boleto_order_not_stored", order_id=str(order.order_id), kind=order.kind)

    def _scenario(self, order: BoletoOrder) -> str | None:
        # What is put right is asked for without the merchant's scenario: nothing may stay behind a test.
        return None if order.kind == OrderKind.BOLETO_RECONCILE else _read_acted(order.request).scenario

    # The kinds of order: ask the bank, answer what is to be stored

    async def _register(self, bank: Bank, order: BoletoOrder) -> Result:
        request = read_registration(order.request)
        if self._late(order):
            return _Later("past its deadline", asked=False)
        boleto = self._boleto(request, order.ahead_s)
        answer = await bank.register_boleto(boleto)
        match answer:
            case Done(registered):
                made = RegistrationResult(
                    order_id=order.order_id,
                    attempts=order.attempts,
                    align_id=new_id(),
                    cob_order_id=None if request.pix is None else new_id(),
                    request=request,
                    qr_code=registered.qr_code,
                    at=self._context.now(),
                    ahead_s=order.ahead_s,
                )
                if not await self._issuing.submit(made):
                    raise _NotOurs
                return _Stored(Outcome())
            case Rejected(code, message):
                if code in (NUMBER_TAKEN, WRITTEN_OFF):
                    return _Ended(Outcome(refused=NUMBER_TAKEN))
                if code == LINE_MISMATCH:
                    # What the payer would scan is not what the bank has: never handed out, and somebody has to look.
                    _log.error("boleto_line_differs", number=boleto.number)
                else:
                    _log.warning("boleto_refused", number=boleto.number, code=code, message=message)
                if code in STANDS_AT_BANK:
                    return _Ended(_UNAVAILABLE, undo=True, request=_encode(replace(request, stands=True)))
                # An earlier attempt, whose answer was lost, may have registered it all the same.
                return _Ended(_UNAVAILABLE, undo=order.attempts > 1)
            case Unknown(detail):
                return _Later(detail)

    async def _write_off(self, bank: Bank, order: BoletoOrder) -> Result:
        request = _read_write_off(order.request)
        if order.status != Status.PENDING or order.number is None:
            return _Ended(_NOT_PENDING)
        if self._late(order):
            return _Later("past its deadline", asked=False)
        cancel = self._cancelling(order, request.reason, actor=request.actor, request_id=request.request_id)
        if request.fail:
            cancel = self._failing(order, request)
        match await bank.write_off_boleto(order.number, registered_at=order.registered_at):
            case Done() | Rejected(code="WRITTEN_OFF"):
                return _Ended(change=cancel)
            case Rejected(code) if code == NOT_FOUND:
                # A bank in a bad minute says so of boletos it has: cancelled here, it is looked for and closed there.
                _log.error("boleto_not_at_bank", number=order.number)
                return _Ended(change=cancel, undo=True)
            case Rejected(code) if code == PAID:
                return await self._paid_before(bank, order, cancel)
            case NotYet(retry_at):
                return _Ended(self._not_yet(order, retry_at), undo=order.attempts > 1)
            case Rejected(code, message):
                _log.warning("boleto_not_written_off", number=order.number, code=code, message=message)
                # An earlier attempt, whose answer was lost, may write it off all the same.
                return _Ended(_UNAVAILABLE, undo=order.attempts > 1)
            case Unknown(detail):
                return _Later(detail)

    async def _redate(self, bank: Bank, order: BoletoOrder) -> Result:
        request = _read_redate(order.request)
        if order.status != Status.PENDING or order.number is None:
            return _Ended(_NOT_PENDING)
        if self._late(order):
            return _Later("past its deadline", asked=False)
        due_on = parse_day(request.due_date)
        match await bank.redate_boleto(order.number, due_on, registered_at=order.registered_at):
            case Done():
                return _Ended(change=self._redating(order, due_on, request))
            case Rejected(code) if code in (PAID, WRITTEN_OFF):
                state = await bank.find_boleto(order.number)
                if not isinstance(state, BoletoState):
                    return _Later("the boleto cannot be read")
                # Paid with too little it is pending here, and closed at the bank for ever.
                return _Ended(_UNAVAILABLE, change=self._follow(order, state, wanted=Status.PENDING))
            case NotYet(retry_at):
                return _Ended(self._not_yet(order, retry_at))
            case Rejected(code, message):
                _log.warning("boleto_not_redated", number=order.number, code=code, message=message)
                return _Ended(_UNAVAILABLE)
            case Unknown(detail):
                return _Later(detail)

    async def _pay(self, bank: Bank, order: BoletoOrder) -> Result:
        simulated = self._bank_of(order)
        assert isinstance(simulated, SimulatedBank), "only the sandbox has simulated payers"
        request = _read_pay(order.request)
        if order.number is None or (order.status != Status.PENDING and not request.force):
            return _Ended(_NOT_PENDING)
        async with session(self._context.pool) as conn:
            ours = await find_booked(conn, number=order.number)
        booked = await simulated.boletos.booked(order.number)
        # Money we have not booked yet may be this order's own, from before a crash: asked again it is paid once.
        unseen = booked is not None and (booked.state == ANNOUNCED or booked.paid_cents > ours.booked_cents)
        if booked is not None and not (unseen and order.attempts > 1):
            pay = partial(
                simulated.boletos.pay,
                order.number,
                rail=request.rail,
                amount_cents=request.amount_cents,
                paid_at=request.paid_at,
                times=request.times,
                force=request.force,
                # Pending here with money on it, it was paid with too little: the payer may come back and pay it all.
                after=0 if unseen else booked.payments,
                tell=False,
            )
            match await (bank.pay(pay) if isinstance(bank, Acting) else pay()):
                case Rejected():
                    return _Ended(_UNAVAILABLE)
                case Unknown(detail):
                    return _Later(detail)
        state = await bank.find_boleto(order.number)
        if not isinstance(state, BoletoState) or state.status in ("open", "in_between"):
            return _Later("not settled yet")
        wanted = None if request.force else Status.PAID
        return _Ended(change=self._follow(order, state, wanted=wanted, payments=request.times))

    async def _align(self, bank: Bank, order: BoletoOrder) -> Result:
        """Look what the bank has, and make it equal to what we have."""
        aligned = _read_aligned(order.request)
        number, asked = order.number, None
        if number is None:
            assert aligned.after == OrderKind.BOLETO_REGISTER, "only a creation that failed has no boleto here"
            asked = read_registration(aligned.request)
            number = self._boleto(asked).number
        match await bank.find_boleto(number):
            case Unknown(detail):
                return _Later(detail)
            case NotFound():
                if self._context.now() < order.created_at + WATCH:
                    return _Later("may be on its way")
                if order.status == Status.PENDING:
                    _log.error("boleto_not_at_bank", number=number)
                return _Ended()
            case BoletoState() as state:
                if asked is not None and not asked.stands and not _same(state, self._boleto(asked)):
                    # Somebody else has the number: his boleto is not ours to touch.
                    _log.warning("boleto_number_taken", number=number)
                    return _Ended()
                result = await self._made_equal(bank, order, aligned, state)
                if result == _Ended() and self._may_still_change(order, aligned):
                    # Of a dual charge sooner: who books its other leg meanwhile leaves the boleto to this order.
                    at = None if order.dual else self._context.now() + LOOK_AGAIN
                    return _Later("may be on its way", at=at)
                return result

    def _may_still_change(self, order: BoletoOrder, aligned: Reconciliation) -> bool:
        """Whether a change nobody heard the end of may yet be done, or be done and not shown. The sandbox's bank is in
        this process: there nothing is on its way."""
        return (
            not order.test
            and aligned.after in (OrderKind.BOLETO_WRITE_OFF, OrderKind.BOLETO_REDATE)
            and order.status in (Status.PENDING, Status.EXPIRED)
            and self._context.now() < order.created_at + WATCH
        )

    async def _made_equal(self, bank: Bank, order: BoletoOrder, aligned: Reconciliation, state: BoletoState) -> Result:
        if state.status == "in_between":
            return _Later("money may be on its way")
        if state.status == "paid":
            if order.number is None:
                return _Ended(change=self._found_paid(order, read_registration(aligned.request), state))
            return _Ended(change=self._follow(order, state))
        if state.status == "written_off":
            reason = (
                _read_reason(aligned.request).reason
                if aligned.after == OrderKind.BOLETO_WRITE_OFF
                else CancelReason.CANCELLED
            )
            return _Ended(change=self._follow(order, state, reason=reason))
        if order.status == Status.PENDING:
            if order.due_on == state.due_on or order.due_on is None:
                return _Ended()
            if order.due_on >= self._today(order):
                answer = await bank.redate_boleto(state.number, order.due_on, registered_at=order.registered_at)
            else:
                # A due date on a weekend, which cannot be given back: what is printed then is payable for longer.
                _log.warning("boleto_due_differs", number=state.number)
                return _Ended()
        elif (order.status in (Status.PAID, Status.REFUNDED) and not order.dual) or (
            order.status == Status.EXPIRED and order.due_on == state.due_on
        ):
            # A boleto with one way of paying is open beside a paid charge for a moment only, while the bank tells us
            # old news. An expired one may stand: money that arrives late still counts.
            return _Ended()
        else:
            answer = await bank.write_off_boleto(state.number, registered_at=order.registered_at or order.created_at)
        match answer:
            case Done():
                return _Ended()
            case NotYet(retry_at):
                # That it is too young is only the likeliest reason of a no: ask now and then before its time as well.
                again = self._context.now() + TOO_YOUNG * order.attempts
                wait = again if retry_at is None else min(retry_at - timedelta(seconds=order.ahead_s), again)
                return _Later("too young", at=wait)
            case Rejected(code, _):
                # Paid or written off this moment: the next look tells.
                return _Later(f"refused: {code}")
            case Unknown(detail):
                return _Later(detail)

    async def _paid_before(self, bank: Bank, order: BoletoOrder, cancel: Change) -> Result:
        """The boleto was paid before it could be written off: the payment is booked, and that is what counts.

        A boleto paid with too little is closed at the bank and open here: then nothing stands against cancelling it.
        """
        assert order.number is not None
        state = await bank.find_boleto(order.number)
        if not isinstance(state, BoletoState) or state.status != "paid":
            return _Later("paid, and not to be read yet")

        async def change(conn: Connection) -> Changed | None:
            await self._confirm(conn, state)
            return await cancel(conn)

        return _Ended(change=change)

    # Changes that come with an outcome

    def _cancelling(self, order: BoletoOrder, reason: str, *, actor: str, request_id: str | None) -> Change:
        async def change(conn: Connection) -> Changed | None:
            wish = cancellation(
                order.charge_id,
                None,
                reason=CancelReason(reason),
                actor=actor,
                request_id=request_id,
                written_off=True,
            )
            (outcome,) = await change_charges(conn, [wish], now=to_millisecond(self._context.now()))
            return outcome

        return change

    def _failing(self, order: BoletoOrder, request: WriteOff) -> Change:
        async def change(conn: Connection) -> Changed | None:
            assert order.account_id is not None
            return await fail_charge(
                conn,
                account_id=order.account_id,
                charge_id=order.charge_id,
                code=SANDBOX_FAILURE[0],
                message=SANDBOX_FAILURE[1],
                now=self._context.now(),
                actor=request.actor,
                written_off=True,
            )

        return change

    def _redating(self, order: BoletoOrder, due_on: date, request: Redate) -> Change:
        async def change(conn: Connection) -> Changed | None:
            assert order.doc is not None
            doc: ChargeDoc = read_doc(order.doc)
            assert doc.boleto is not None
            return await redate_boleto(
                conn,
                order.charge_id,
                due_on,
                boleto=doc.boleto,
                redated=doc.redated,
                pix_until=doc.pix_expires_at,
                carteira=self._context.settings.bank_carteira,
                now=to_millisecond(self._context.now()),
                actor=request.actor,
                request_id=request.request_id,
            )

        return change

    def _follow(
        self,
        order: BoletoOrder,
        state: BoletoState,
        *,
        reason: str = CancelReason.CANCELLED,
        wanted: Status | None = None,
        payments: int = 1,
    ) -> Change:
        """Have here what the bank has decided: paid is paid, and what is written off is cancelled. Refused when the
        charge then is not as `wanted`."""

        async def change(conn: Connection) -> Changed | None:
            await self._confirm(conn, state, payments=payments)
            if state.status == "written_off" and order.number is not None:
                # Refused when it is not pending any more: then there is nothing to cancel.
                await self._cancelling(order, reason, actor="bank", request_id=None)(conn)
            for charge in await lock_charges(conn, charge_ids=[order.charge_id]):
                if wanted is not None and charge.status != wanted:
                    return Refused(Code.CHARGE_NOT_PENDING)
            return None

        return change

    def _found_paid(self, order: BoletoOrder, request: Registration, state: BoletoState) -> Change:
        async def change(conn: Connection) -> Changed | None:
            _log.error("boleto_paid_after_it_was_given_up", number=state.number)
            await issue_found_boleto(
                conn, request, qr_code=state.qr_code, registered_at=to_millisecond(self._clock(order))
            )
            await self._confirm(conn, state)
            return None

        return change

    async def _confirm(self, conn: Connection, state: BoletoState, *, payments: int = 1) -> None:
        context = self._context
        announced = {state.number: payments}
        booked = await confirm_boletos(conn, [state], now=context.now(), seal=context.seal, announced=announced)
        for number, outcome in booked.items():
            if isinstance(outcome, Refused):
                _log.error("boleto_payment_not_booked", number=number, code=outcome.code.name)

    # Storing

    async def _store(self, order: BoletoOrder, result: Result) -> None:
        outcome: Outcome | None
        try:
            match result:
                case _Stored():
                    outcome = result.outcome
                case _Ended():
                    outcome = await self._end(order, result)
                case _Later():
                    outcome = await self._put_off(order, result)
        except _NotOurs:
            return
        if order.kind != OrderKind.BOLETO_REGISTER or (outcome is not None and outcome.refused):
            self._context.jobs.wake(WEBHOOKS)
            if order.dual:
                self._context.jobs.wake(PIX_ORDERS[self._mode])  # what became of the boleto becomes of the cob
        if outcome is not None and order.reply_to is not None:
            await send_reply(self._context.redis, order.reply_to, order.order_id, _encode(outcome))

    async def _end(self, order: BoletoOrder, ended: _Ended) -> Outcome:
        outcome = ended.outcome
        async with transaction(self._context.pool) as conn:
            if ended.change is not None:
                changed = await ended.change(conn)
                if isinstance(changed, Refused):
                    outcome = Outcome(refused=changed.code.name)
            overtaken = order.dual and await self._overtaken(conn, order, outcome)
            settled = await settle(
                conn,
                order_id=order.order_id,
                attempts=order.attempts,
                state="refused" if outcome.refused else "done",
                due_at=self._context.now(),
                outcome=_encode(outcome),
            )
            if settled is None:
                raise _NotOurs  # nothing of this stays: an order to put it right is there
            # Expired or paid while the bank was asked for a new date, it has one that we do not have. And what waited
            # to be put right before this order came still waits: only a boleto that was closed by it changes no more.
            realign = b'"realign"' in order.request
            undo = (
                ended.undo
                or overtaken
                or (bool(outcome.refused) and (order.kind == OrderKind.BOLETO_REDATE or realign))
                or (order.kind == OrderKind.BOLETO_REDATE and realign)
            )
            if undo:
                await put_right(
                    conn,
                    align_id=new_id(),
                    account_id=order.account_id,
                    charge_id=order.charge_id,
                    test=order.test,
                    after=order.kind,
                    request=ended.request or order.request,
                    now=self._context.now(),
                )
        if undo:
            self._context.jobs.wake(BOLETO_ORDERS[self._mode])
        return outcome

    async def _overtaken(self, conn: Connection, order: BoletoOrder, outcome: Outcome) -> bool:
        """Whether the boleto of a dual charge may have been left open although the charge was settled by its PIX leg.

        Who booked that, under the charge's lock, wrote no order to close the boleto if this one was open then. So its
        end takes the same lock first, and looks.
        """
        (charge,) = await lock_charges(conn, charge_ids=[order.charge_id])
        open_then = order.status in (Status.PENDING, Status.EXPIRED)
        left_open = open_then if order.kind == OrderKind.BOLETO_RECONCILE else bool(outcome.refused)
        return left_open and charge.status not in (Status.PENDING, Status.EXPIRED)

    async def _put_off(self, order: BoletoOrder, later: _Later) -> Outcome | None:
        """Wait and try again; or, when nobody can wait any longer, give the order up."""
        now = self._context.now()
        _log.info(
            "boleto_bank_unknown",
            kind=order.kind,
            order_id=str(order.order_id),
            attempts=order.attempts,
            detail=later.detail,
        )
        if order.kind != OrderKind.BOLETO_RECONCILE and (order.attempts >= ATTEMPTS_MAX or self._late(order)):
            async with transaction(self._context.pool) as conn:
                given_up = await give_up(
                    conn,
                    order.order_id,
                    align_id=new_id(),
                    outcome=_encode(_UNAVAILABLE),
                    now=now,
                    attempts=order.attempts,
                    untouched=0 if later.asked else 1,
                )
            if not given_up:
                raise _NotOurs
            self._context.jobs.wake(BOLETO_ORDERS[self._mode])
            return _UNAVAILABLE
        waits = ALIGN_BACKOFF_S if order.kind == OrderKind.BOLETO_RECONCILE else BACKOFF_S
        wait_s = waits[min(order.attempts, len(waits)) - 1] * random.uniform(0.8, 1.2)  # noqa: S311  spreads load
        async with session(self._context.pool) as conn:
            await settle(
                conn,
                order_id=order.order_id,
                attempts=order.attempts,
                state="waiting",
                due_at=later.at or now + timedelta(seconds=wait_s),
                outcome=None,
            )
        if later.at is None and wait_s < _RING_S_MAX:
            # Somebody waits for it: the next round of looking by oneself would be too late.
            asyncio.get_running_loop().call_later(wait_s, self._context.jobs.wake, BOLETO_ORDERS[self._mode])
        return None

    async def _issue(self, boletos: Sequence[RegistrationResult]) -> list[bool]:
        """Make charges of what the bank registered; False for orders that are no longer ours."""

        async def store() -> list[bool]:
            async with session(self._context.pool) as conn:
                settled, made = await issue_boletos(conn, boletos)
            if any(boleto.request.pix is not None for boleto in boletos):
                self._context.jobs.wake(PIX_ORDERS[self._mode])
            undone = len(settled) - len(made)
            if undone:
                _log.info("boletos_of_used_keys_undone", count=undone)
                self._context.jobs.wake(BOLETO_ORDERS[self._mode])
            return [boleto.order_id in settled for boleto in boletos]

        for wait_s in _STORE_WAITS_S:
            try:
                return await store()
            except DB_UNAVAILABLE:
                # An attempt that was committed before the connection was lost has settled its orders: asked again
                # they are "not ours", their charges are there, and a door that heard nothing looks.
                await asyncio.sleep(wait_s)
        return await store()

    # Small print

    def _bank_of(self, order: BoletoOrder) -> Bank:
        """The sandbox's bank lives on the clock of whom it serves: what can be paid and changed there, and when it was,
        is judged as his charges are."""
        return self._bank.ahead(order.ahead_s) if isinstance(self._bank, SimulatedBank) else self._bank

    def _boleto(self, request: Registration, ahead_s: int = 0) -> Boleto:
        doc = request.payload.charge
        assert doc.boleto is not None
        assert doc.due_date is not None
        return Boleto(
            number=doc.boleto.nosso_numero,
            seu_numero=doc.boleto.seu_numero,
            amount_cents=doc.amount_cents,
            issued_on=on_clock(self._context.now(), ahead_s).astimezone(SAO_PAULO).date(),
            due_on=parse_day(doc.due_date),
            hybrid=doc.payment_method == "boleto_hibrido",
            payer=_read_payer(self._context.seal.open(b64decode(request.payer_sealed))),
            description=doc.description,
        )

    def _late(self, order: BoletoOrder) -> bool:
        return order.deadline is not None and order.deadline <= self._context.now()

    def _not_yet(self, order: BoletoOrder, retry_at: datetime | None) -> Outcome:
        """The bank takes no change yet: when to come back."""
        wait = (retry_at - self._clock(order)) if retry_at is not None else timedelta(minutes=30)
        return Outcome(refused=Code.BANK_UNAVAILABLE.name, retry_after_s=max(1, int(wait.total_seconds()) + 1))

    def _clock(self, order: BoletoOrder) -> datetime:
        """The instant it is for the order's charge; leases, deadlines and waits go by real time."""
        return on_clock(self._context.now(), order.ahead_s)

    def _today(self, order: BoletoOrder) -> date:
        return self._clock(order).astimezone(SAO_PAULO).date()


def _same(state: BoletoState, boleto: Boleto) -> bool:
    """Whether the bank's boleto is the one we asked for. Its due date has not been changed: it never had a charge."""
    return (state.amount_cents, state.due_on, state.seu_numero) == (
        boleto.amount_cents,
        boleto.due_on,
        boleto.seu_numero.strip(),
    )


async def _patiently(store: Callable[[], Awaitable[None]]) -> None:
    """Over a restart of PostgreSQL: the bank has been asked, and what it said is not thrown away."""
    for wait_s in (*_STORE_WAITS_S, None):
        try:
            return await store()
        except DB_UNAVAILABLE:
            if wait_s is None:
                raise
            await asyncio.sleep(wait_s)
