"""Erase payers' data at the end of their retention time, charge by charge, the oldest first.

A charge's id contains its creation time, so old charges are at the beginning of the primary key of `charge`. One walk
for each mode goes along that key once; its position is stored in a row. A charge whose payer is still needed when the
walk passes it (it can be paid, or ended too recently) is noted with the day to look again. The payer of an ended
schedule is erased after the last of its charges, and the payer of returned money in suspense after the same time.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from commands.payers.erase import SLICE, erase_charges
from domain.charge import Status
from domain.mode import Mode
from runtime.ids import first_id
from sql import Connection

_LOOK_AGAIN: Final = timedelta(days=1)


class PassedCharge(Struct, frozen=True):
    charge_id: UUID
    account_id: UUID
    test: bool
    status: str
    expired_at: datetime
    """When it can be paid for the last time, by the real clock."""


class _KeptCharge(Struct, frozen=True):
    charge_id: UUID
    account_id: UUID
    look_at: datetime


_begin_walk = sql.run("payer_retention.begin")
_lock_position = sql.maybe("payer_retention.place", UUID)
_find_passed = sql.many("payer_retention.passed", PassedCharge)
_find_due = sql.many("payer_retention.due", PassedCharge)
_note_kept = sql.run("payer_retention.keep")
_forget_kept = sql.run("payer_retention.done")
_erase_ended_schedules = sql.count("payer_retention.ended_schedules")
_erase_returned_money = sql.count("payer_retention.returned_money")
_move_position = sql.run("payer_retention.move")
look_at_passed = sql.run("payer_retention.look_at_passed")
"""`account_id`: notes charges of an imported account that are older than the position of the walks."""


async def erase_expired_payers(conn: Connection, mode: Mode, kept: timedelta, *, now: datetime) -> int:
    """Erase the payers of charges of this mode that could last be paid `kept` ago or earlier.

    Does one slice, within the caller's transaction; returns how many rows it looked at, 0 when nothing is left to do or
    another worker has the walk.
    """
    await _begin_walk(conn, test=mode.test)
    position = await _lock_position(conn, test=mode.test)
    if position is None:
        return 0
    passed = await _find_passed(conn, after=position, until=first_id(now - kept), limit=SLICE)
    due = await _find_due(conn, test=mode.test, now=now, limit=SLICE)
    for charges in (passed, due):
        await _erase_or_keep(conn, [each for each in charges if each.test == mode.test], kept, now=now)
    if passed:
        await _move_position(conn, test=mode.test, charge_id=passed[-1].charge_id)
    looked_at = len(passed) + len(due)
    if not mode.test:
        # After the charges, because a schedule is erased after the last of its charges.
        looked_at += await _erase_ended_schedules(conn, before=now - kept, limit=SLICE)
        looked_at += await _erase_returned_money(conn, before=now - kept, limit=SLICE)
    return looked_at


async def _erase_or_keep(conn: Connection, charges: Sequence[PassedCharge], kept: timedelta, *, now: datetime) -> None:
    expired, erased = defaultdict[UUID, list[UUID]](list), set[UUID]()
    for each in charges:
        if each.status != Status.PENDING and each.expired_at <= now - kept:
            expired[each.account_id].append(each.charge_id)
    for account_id, charge_ids in sorted(expired.items()):
        erased.update(await erase_charges(conn, account_id, charge_ids, now=now))
    rows = [
        # A charge that can still be paid may end long before it expires, because a sandbox's clock can be advanced.
        _KeptCharge(each.charge_id, each.account_id, max(min(each.expired_at, now) + kept, now + _LOOK_AGAIN))
        for each in charges
        if each.charge_id not in erased
    ]
    if rows:
        await _note_kept(conn, test=charges[0].test, kept=rows)
    if erased:
        await _forget_kept(conn, charge_ids=sorted(erased))
