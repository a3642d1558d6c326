"""Decide about refunds by transfer that are held (domain/refund.py, Hold): staff release or refuse each, once.

A release writes the order to the bank in the same transaction, so only the worker's idempotent sending is left after
the decision. A refusal ends the refund as a bank's refusal would: the money is back in the wallet.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.bank_orders.kinds import RefundTransfer
from commands.charges.change import ChargeChange, ChargeCommand, change_charges
from commands.money.refund_end import Ending, end_refunds
from domain.charge import Charge
from domain.errors import Refused
from domain.merchants.staff import read_reason
from domain.refund import FailureCode
from sql import Connection

RELEASED: Final = "refund.released"
ACTOR: Final = "platform"


class AlreadyDecided(Exception):
    """Another member of staff has decided already, or there is no such held refund. Nothing is changed."""


class _HeldRefund(Struct, frozen=True, gc=False):
    charge_id: UUID
    request: bytes
    state: str


_lock_refund = sql.maybe("held_refund.hold", _HeldRefund)
_store_decision = sql.run("held_refund.decide")
_read_request = msgspec.json.Decoder(RefundTransfer).decode


async def release_refund(conn: Connection, refund_id: UUID, *, by: str, reason: str | None, now: datetime) -> None:
    """Order the transfer from the bank. Raises AlreadyDecided, or Refused(VALIDATION_ERROR) for an invalid reason."""
    reason = None if reason is None else read_reason(reason)
    held = await _lock_open(conn, refund_id)
    command = ChargeCommand(
        charge_id=held.charge_id, owner=None, decide=_release_decision(_read_request(held.request)), actor=ACTOR
    )
    (outcome,) = await change_charges(conn, [command], now=now)
    if isinstance(outcome, Refused):
        raise outcome
    await _store_decision(conn, refund_id=refund_id, state="released", by=by, reason=reason, now=now)


async def refuse_refund(conn: Connection, refund_id: UUID, *, by: str, reason: str, now: datetime) -> None:
    """Fail the refund, which credits the wallet. Raises AlreadyDecided, or Refused(VALIDATION_ERROR) with fields.reason
    for an invalid reason."""
    reason = read_reason(reason)
    held = await _lock_open(conn, refund_id)
    ending = Ending(charge_id=held.charge_id, refund_id=refund_id, failure=FailureCode.NOT_RELEASED)
    (outcome,) = await end_refunds(conn, [ending], now=now, actor=ACTOR)
    if isinstance(outcome, Refused):
        raise outcome
    await _store_decision(conn, refund_id=refund_id, state="refused", by=by, reason=reason, now=now)


async def _lock_open(conn: Connection, refund_id: UUID) -> _HeldRefund:
    held = await _lock_refund(conn, refund_id=refund_id)
    if held is None or held.state != "open":
        raise AlreadyDecided
    return held


def _release_decision(request: RefundTransfer) -> Callable[[Charge, datetime], list[ChargeChange]]:
    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        more = {"release": {"refund_id": request.refund_id, "amount_cents": request.amount_cents}}
        return [ChargeChange(charge=charge, kind=RELEASED, more=more, order=request)]

    return decide
