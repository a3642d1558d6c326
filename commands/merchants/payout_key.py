"""Change the payout key of an account: an owner requests a change, or one member of staff does and another confirms it.

A withdrawal keeps the key that was in force when it was requested. Each change locks the account's row, so that two
changes are decided one after the other; withdrawals read the key without waiting.
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

_lock_key = sql.maybe("payout.lock", PayoutKey)
_find_latest = sql.maybe("payout.latest", PayoutChange)
_add_change = sql.run("payout.add")
_store_change = sql.run("payout.store")


async def ask_payout_key(
    conn: Connection, account_id: UUID, to: PayoutKey, *, by: str, by_staff: bool, now: datetime
) -> PayoutChange:
    """Request a change of the payout key. Refused(VALIDATION_ERROR) as domain/merchants/payout.py says;
    Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown account."""
    current = required(await _lock_key(conn, account_id=account_id, now=now), Code.WALLET_ACCOUNT_NOT_FOUND)
    waiting = await payout_change_of(conn, account_id, now=now)
    change = ask(current, waiting, to, change_id=new_id(), account_id=account_id, by=by, by_staff=by_staff, now=now)
    await _add_change(
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
    """Confirm a change that staff requested, which begins its waiting day; refused as `ask_payout_key`."""
    return await _decide_change(conn, account_id, change_id, lambda waiting: confirm(waiting, by=by, now=now), now=now)


async def cancel_payout_key(
    conn: Connection, account_id: UUID, change_id: UUID, *, by: str, now: datetime
) -> PayoutChange:
    """Cancel the waiting change; the key in force stays. Refused as `ask_payout_key`."""
    return await _decide_change(conn, account_id, change_id, lambda waiting: cancel(waiting, by=by, now=now), now=now)


async def payout_change_of(conn: Connection, account_id: UUID, *, now: datetime) -> PayoutChange | None:
    """Returns the change that waits, if there is one."""
    change = await _find_latest(conn, account_id=account_id)
    return change if change is not None and change.waits(now) else None


async def _decide_change(
    conn: Connection,
    account_id: UUID,
    change_id: UUID,
    decide: Callable[[PayoutChange], PayoutChange],
    *,
    now: datetime,
) -> PayoutChange:
    required(await _lock_key(conn, account_id=account_id, now=now), Code.WALLET_ACCOUNT_NOT_FOUND)
    waiting = await payout_change_of(conn, account_id, now=now)
    if waiting is None or waiting.change_id != change_id:
        raise Refused(Code.VALIDATION_ERROR, fields={"change": "does not wait any more"})
    changed = decide(waiting)
    await _store_change(
        conn,
        change_id=change_id,
        confirmed_by=changed.confirmed_by,
        effective_at=changed.effective_at,
        cancelled_by=changed.cancelled_by,
        cancelled_at=changed.cancelled_at,
    )
    return changed
