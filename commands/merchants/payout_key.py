"""Change the key an account's withdrawals go to: an owner asks, or one of the staff does and another confirms it.

A withdrawal keeps the key it was asked for with. The account's row is locked by each change, so that of two one is
decided knowing the other; withdrawals read without waiting.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

import sql
from domain.errors import Code, Refused, required
from domain.merchants.payout import PayoutChange, PayoutKey, ask, cancel, confirm
from runtime.ids import new_id
from sql import Connection

ASKED: Final = "payout_key.asked"
CONFIRMED: Final = "payout_key.confirmed"
CANCELLED: Final = "payout_key.cancelled"

_lock = sql.maybe("payout.lock", PayoutKey)
_latest = sql.maybe("payout.latest", PayoutChange)
_add = sql.run("payout.add")
_store = sql.run("payout.store")


async def ask_payout_key(
    conn: Connection, account_id: UUID, to: PayoutKey, *, by: str, by_staff: bool, now: datetime
) -> PayoutChange:
    """Refused(VALIDATION_ERROR) as domain/merchants/payout.py says; Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown
    account."""
    before = required(await _lock(conn, account_id=account_id, now=now), Code.WALLET_ACCOUNT_NOT_FOUND)
    waiting = await payout_change_of(conn, account_id, now=now)
    change = ask(before, waiting, to, change_id=new_id(), account_id=account_id, by=by, by_staff=by_staff, now=now)
    await _add(
        conn,
        change_id=change.change_id,
        account_id=account_id,
        pix_key=change.pix_key,
        document=change.document,
        asked_by=by,
        by_staff=by_staff,
        asked_at=now,
        effective_at=change.effective_at,
    )
    return change


async def confirm_payout_key(
    conn: Connection, account_id: UUID, change_id: UUID, *, by: str, now: datetime
) -> PayoutChange:
    """Begin the day of one that staff asked for; refused as `ask_payout_key`."""
    return await _change(conn, account_id, change_id, lambda waiting: confirm(waiting, by=by, now=now), now=now)


async def cancel_payout_key(
    conn: Connection, account_id: UUID, change_id: UUID, *, by: str, now: datetime
) -> PayoutChange:
    """Withdrawals go on to the key in force; refused as `ask_payout_key`."""
    return await _change(conn, account_id, change_id, lambda waiting: cancel(waiting, by=by, now=now), now=now)


async def payout_change_of(conn: Connection, account_id: UUID, *, now: datetime) -> PayoutChange | None:
    """The change that waits, if one does."""
    found = await _latest(conn, account_id=account_id)
    return found if found is not None and found.waits(now) else None


async def _change(
    conn: Connection,
    account_id: UUID,
    change_id: UUID,
    decide: Callable[[PayoutChange], PayoutChange],
    *,
    now: datetime,
) -> PayoutChange:
    required(await _lock(conn, account_id=account_id, now=now), Code.WALLET_ACCOUNT_NOT_FOUND)
    waiting = await payout_change_of(conn, account_id, now=now)
    if waiting is None or waiting.change_id != change_id:
        raise Refused(Code.VALIDATION_ERROR, fields={"change": "does not wait any more"})
    changed = decide(waiting)
    await _store(
        conn,
        change_id=change_id,
        confirmed_by=changed.confirmed_by,
        effective_at=changed.effective_at,
        cancelled_by=changed.cancelled_by,
        cancelled_at=changed.cancelled_at,
    )
    return changed
