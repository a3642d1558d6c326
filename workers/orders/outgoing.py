"""Money that goes out, as a refund or a withdrawal: sent once, and asked about until it is known whether it went.

Nobody waits and nothing is given up. The first attempt sends; each later one asks first what became of it, and sends
again, under the same id, only what the bank says it does not have. Money on its way (EM_PROCESSAMENTO) is asked about
for as long as that takes. A no is believed only when no attempt can still turn out to have been a yes: with each
outcome that is not known yet it is stored when an attempt was last left without an answer.
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
from workers.orders.lease import LEASE, WATCH, ClaimedOrder, Later, put_off, settle, wait_after

BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 900.0)
SILENT_S: Final = 25.0
"""The most between two questions to a bank that said nothing, however long it was away: what is open is known within
half a minute of its return. The long waits are for money that the bank says is on its way."""
ATTEMPTS_MIN: Final = 5
"""Before a PIX that the bank told us of counts as unknown to it: WATCH may have passed while nobody asked."""

_DETAIL_MAX = 200  # characters

_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode


class MoneyOrder(ClaimedOrder, frozen=True, gc=False):
    account_id: UUID
    charge_id: UUID | None
    """Of a refund."""
    outcome: bytes | None
    """Of the attempt before, a `LastAnswer`; it is an older attempt's, or none, when that one's worker was lost."""


class LastAnswer(Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of an attempt after which nothing is known yet."""

    detail: str
    attempt: int = 0
    lost_at: datetime | None = None
    """When an attempt that may have sent the money was last left without an answer; None when none was."""


class Known(Struct, frozen=True, kw_only=True):
    """How it ended. No failure: the money went, under the bank's `reference`."""

    reference: str | None = None
    failure: FailureCode | None = None
    detail: str | None = None
    """The bank's own words, for people."""


_claim = sql.many("bank_order.claim_money", MoneyOrder)
_read_last = msgspec.json.Decoder(LastAnswer).decode

Answer = Done[Sent] | Rejected | Unknown


async def claim_money(context: Context, lane: OrderLane, mode: Mode, limit: int) -> list[MoneyOrder]:
    now = context.now()
    async with session(context.pool) as conn:
        return await _claim(conn, lane=lane, test=mode.test, now=now, limit=limit, lease=LEASE)


async def found_sent(
    order: MoneyOrder, find: Callable[[], Awaitable[Sent | NotFound | Unknown]]
) -> Done[Sent] | Unknown | None:
    """What became of earlier attempts; None when the bank has none, and the money may be sent."""
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
) -> Known | Later:
    """What the bank's answer means; whatever is not for good is asked again. `lost_at` tells of attempts before."""
    match answer:
        case Unknown(detail):
            return Later(detail=detail, lost_at=now, silent=True)
        case Done(Sent(amount_cents=cents)) if cents != amount_cents:
            # Nothing of ours sends another amount under this id: somebody has to look.
            _log.error("sent_another_amount", kind=order.kind, order_id=str(order.order_id))
            return Later(detail="another amount", lost_at=now)
        case Done(Sent(status="processing")):
            return Later(detail="processing", lost_at=now)
        case Done(Sent(status="not_done", detail=detail)):
            return _failed(order, FailureCode.NOT_CARRIED_OUT, detail)
        case Done(Sent(reference=reference)):
            return Known(reference=reference)
        case Rejected(code, message):
            if _may_be_overtaken(order, code, lost_at, now):
                return Later(detail=f"refused: {code}", lost_at=lost_at)
            unavailable = code == NO_TRANSFERS
            failure = FailureCode.TRANSFER_UNAVAILABLE if unavailable else FailureCode.BANK_REFUSED
            return _failed(order, failure, f"{code}: {message}")


def _may_be_overtaken(order: MoneyOrder, code: str, lost_at: datetime | None, now: datetime) -> bool:
    if code == NO_TRANSFERS and lost_at is not None:
        # Whoever sends nothing cannot say what became of what was sent before: somebody has to look.
        _log.error("sent_and_not_to_be_asked_about", kind=order.kind, order_id=str(order.order_id))
        return True
    if code == PIX_UNKNOWN and (now < order.created_at + WATCH or order.attempts < ATTEMPTS_MIN):
        return True
    return lost_at is not None and now < lost_at + WATCH


def _failed(order: MoneyOrder, failure: FailureCode, detail: str | None) -> Known:
    _log.warning("money_not_sent", kind=order.kind, order_id=str(order.order_id), failure=failure, test=order.test)
    return Known(failure=failure, detail=detail)


def lost_before(order: MoneyOrder, *, now: datetime) -> datetime | None:
    """When an attempt before this one was last left without an answer; `now` when the last one left nothing behind."""
    if order.attempts == 1:
        return None
    last = None if order.outcome is None else _read_last(order.outcome)
    return now if last is None or last.attempt != order.attempts - 1 else last.lost_at


async def settle_known(
    conn: Connection, known: Sequence[tuple[MoneyOrder, Known]], *, now: datetime
) -> list[tuple[MoneyOrder, Known]]:
    """End the orders; answers those that were still this lease's: another one's are passed over, that one ends them."""
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
    wait_s = money_wait(order.attempts, silent=later.silent)
    last = LastAnswer(later.detail, order.attempts, later.lost_at)
    await put_off(context, order, later, wait_s, outcome=_encode(last))


def money_wait(attempts: int, *, silent: bool) -> float:
    """Seconds until the next question."""
    return wait_after(BACKOFF_S, attempts, wait_s_max=SILENT_S if silent else BACKOFF_S[-1])
