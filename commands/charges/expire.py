"""Expire pending charges whose time has passed: before a read of their account, and by the sweeper. Once each."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from commands.charges.change import COMMANDS_MAX, ChargeChange, ChargeCommand, change_charges
from domain.charge import Charge
from domain.instants import to_millisecond
from domain.mode import Owner
from runtime.postgres import Pool, session, transaction
from sql import Connection

# A read settles at most this many charges of its account before it answers; the sweeper has the rest.
BATCHES_MAX = 50


class Overdue(Struct, frozen=True):
    charge_id: UUID


find_overdue = sql.many("charge.overdue", Overdue)
find_overdue_of_account = sql.many("charge.overdue_of_account", Overdue)


def _nothing_more(charge: Charge, now: datetime) -> list[ChargeChange]:
    """Being looked at is enough: change_charges expires what is overdue before it asks."""
    return []


async def expire_charges(conn: Connection, charge_ids: Sequence[UUID], *, now: datetime, actor: str) -> None:
    """Expire those of the charges that are pending and overdue; the others stay as they are."""
    charge_commands = [
        ChargeCommand(charge_id=each, owner=None, decide=_nothing_more, actor=actor) for each in charge_ids
    ]
    await change_charges(conn, charge_commands, now=to_millisecond(now))


async def expire_account(pool: Pool, owner: Owner, *, now: datetime) -> int:
    """Expire everything overdue of one account and mode; how many there were."""
    total = 0
    for _ in range(BATCHES_MAX):
        async with session(pool) as conn:
            found = await find_overdue_of_account(
                conn, account_id=owner.account_id, test=owner.test, now=now, limit=COMMANDS_MAX
            )
        if not found:
            break
        async with transaction(pool) as conn:
            await expire_charges(conn, [each.charge_id for each in found], now=now, actor="read")
        total += len(found)
    return total


async def expire_all(pool: Pool, *, now: datetime) -> int:
    """One round of the sweeper: expire up to COMMANDS_MAX overdue charges of any account; how many."""
    async with session(pool) as conn:
        found = await find_overdue(conn, now=now, limit=COMMANDS_MAX)
    if found:
        async with transaction(pool) as conn:
            await expire_charges(conn, [each.charge_id for each in found], now=now, actor="sweeper")
    return len(found)
