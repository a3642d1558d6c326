"""Money that goes out, as a refund or a withdrawal: sent once, and asked about until its outcome is known.

No request waits, and no order is given up. The first attempt sends. Each later attempt first asks what became of the
money, and sends again, under the same id, only what the bank says it does not have. Money on its way (EM_PROCESSAMENTO)
is asked about for as long as that takes. A refusal is believed only when no earlier attempt can still succeed: each
unknown outcome is stored with the time at which an attempt was last left without an answer.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct

import sql
from banks.protocol import Done, NotFound, Rejected, Unknown
from banks.transfers import NO_TRANSFERS, PIX_UNKNOWN, Sent
from commands.bank_orders.kinds import OrderLane
from domain.mode import Mode
from domain.refund import FailureCode
from runtime.postgres import session
from sql import Connection
from workers.context import Context
from workers.orders.lease import LEASE, LOST_CALL_WATCH, ClaimedOrder, Later, backoff_s, put_off, settle
from workers.orders.queue_head import QueueHead

BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 900.0)
SILENT_S: Final = 25.0
"""The longest wait between two questions to a bank that gave no answer, however long it was away: open orders are
known within half a minute of its return. The longer waits are for money that the bank says is on its way."""
ATTEMPTS_MIN: Final = 5
"""Attempts before the bank is believed not to know a PIX it told us of: LOST_CALL_WATCH may have passed without a
question."""

_DETAIL_MAX = 200  # characters

_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode


class MoneyOrder(ClaimedOrder, frozen=True, gc=False):
    account_id: UUID
    charge_id: UUID | None
    """The charge of a refund; None for a withdrawal."""
    outcome: bytes | None
    """What the previous attempt stored, a `LastAnswer`. When its worker was lost: an older attempt's, or None."""


class LastAnswer(Struct, frozen=True, gc=False, omit_defaults=True):
    """The stored outcome of an attempt after which the order's outcome is still unknown."""

    detail: str
    attempt: int = 0
    lost_at: datetime | None = None
    """When an attempt that may have sent the money was last left without an answer; None when there was none."""


class MoneyOutcome(Struct, frozen=True, kw_only=True):
    """How the order ended. Without a failure, the money was sent under the bank's `reference`."""

    reference: str | None = None
    failure: FailureCode | None = None
    detail: str | None = None
    """The bank's own words, for people."""


_claim = sql.many("bank_order.claim_money", MoneyOrder)
_read_last_answer = msgspec.json.Decoder(LastAnswer).decode

Answer = Done[Sent] | Rejected | Unknown


async def claim_money(
    context: Context, lane: OrderLane, mode: Mode, limit: int, head: QueueHead
) -> Sequence[MoneyOrder]:
    now = context.now()
    async with session(context.pool) as conn:
        return await head.claim(
            lambda since: _claim(conn, lane=lane, test=mode.test, since=since, now=now, limit=limit, lease=LEASE),
            now=now,
        )


async def find_earlier_send(
    order: MoneyOrder, find: Callable[[], Awaitable[Sent | NotFound | Unknown]]
) -> Done[Sent] | Unknown | None:
    """What became of earlier attempts; None when the bank has no such transfer, so that the money may be sent."""
    if order.attempts == 1:
        return None
    match await find():
        case NotFound():
            return None
        case Unknown() as unknown:
            return unknown
        case sent:
            return Done(sent)


def judge(
    order: MoneyOrder, answer: Answer, amount_cents: int, lost_at: datetime | None, *, now: datetime
) -> MoneyOutcome | Later:
    """What the bank's answer means; any answer that is not final is asked again. `lost_at` is as in `LastAnswer`."""
    match answer:
        case Unknown(detail):
            return Later(detail=detail, lost_at=now, silent=True)
        case Done(Sent(amount_cents=cents)) if cents != amount_cents:
            # We send no other amount under this id: a person has to look into it.
            _log.error("sent_another_amount", kind=order.kind, order_id=str(order.order_id))
            return Later(detail="another amount", lost_at=now)
        case Done(Sent(status="processing")):
            return Later(detail="processing", lost_at=now)
        case Done(Sent(status="not_done", detail=detail)):
            return _not_sent(order, FailureCode.NOT_CARRIED_OUT, detail)
        case Done(Sent(reference=reference)):
            return MoneyOutcome(reference=reference)
        case Rejected(code, message):
            if _may_still_succeed(order, code, lost_at, now):
                return Later(detail=f"refused: {code}", lost_at=lost_at)
            unavailable = code == NO_TRANSFERS
            failure = FailureCode.TRANSFER_UNAVAILABLE if unavailable else FailureCode.BANK_REFUSED
            return _not_sent(order, failure, f"{code}: {message}")


def _may_still_succeed(order: MoneyOrder, code: str, lost_at: datetime | None, now: datetime) -> bool:
    if code == NO_TRANSFERS and lost_at is not None:
        # A bank that sends nothing cannot say what became of money sent earlier: a person has to look into it.
        _log.error("sent_and_not_to_be_asked_about", kind=order.kind, order_id=str(order.order_id))
        return True
    if code == PIX_UNKNOWN and (now < order.created_at + LOST_CALL_WATCH or order.attempts < ATTEMPTS_MIN):
        return True
    return lost_at is not None and now < lost_at + LOST_CALL_WATCH


def _not_sent(order: MoneyOrder, failure: FailureCode, detail: str | None) -> MoneyOutcome:
    _log.warning("money_not_sent", kind=order.kind, order_id=str(order.order_id), failure=failure, test=order.test)
    return MoneyOutcome(failure=failure, detail=detail)


def last_unanswered_at(order: MoneyOrder, *, now: datetime) -> datetime | None:
    """When an earlier attempt was last left without an answer; `now` when the previous attempt stored no outcome."""
    if order.attempts == 1:
        return None
    last = None if order.outcome is None else _read_last_answer(order.outcome)
    return now if last is None or last.attempt != order.attempts - 1 else last.lost_at


async def settle_money_orders(
    conn: Connection, known: Sequence[tuple[MoneyOrder, MoneyOutcome]], *, now: datetime
) -> list[tuple[MoneyOrder, MoneyOutcome]]:
    """End the orders; returns those still under this lease. The others are left to whichever worker has their lease."""
    settled = await settle(
        conn,
        [
            (
                order,
                "done" if each.failure is None else "refused",
                None if each.detail is None else _encode({"detail": each.detail[:_DETAIL_MAX]}),
            )
            for order, each in known
        ],
        now=now,
    )
    return [(order, each) for order, each in known if order.order_id in settled]


async def put_off_money(context: Context, order: MoneyOrder, later: Later) -> None:
    wait_s = money_backoff_s(order.attempts, silent=later.silent)
    last = LastAnswer(later.detail, order.attempts, later.lost_at)
    await put_off(context, order, later, wait_s, outcome=_encode(last))


def money_backoff_s(attempts: int, *, silent: bool) -> float:
    """Seconds until the next question."""
    return backoff_s(BACKOFF_S, attempts, wait_s_max=SILENT_S if silent else BACKOFF_S[-1])
