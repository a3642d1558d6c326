"""Erase a payer at one merchant: names, documents, addresses and contacts are deleted, the books stay as they are.

These data are only in rows that can be changed (docs/decisions/0033-payers-are-erased-in-place.md). They are erased in
slices, each in its own transaction. Erased rows are no longer found by the document, so a run that was cut short
continues when it is repeated.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

import sql
from commands.charges.change import lock_charges
from commands.charges.expire import expire_charges
from commands.people.audit import Origin, tell_account, tell_platform
from domain.mode import Owner
from sql import Connection

SLICE: Final = 200
ASKED: Final = "payer.erasure_asked"
ERASED: Final = "payer.erased"


class OpenBusiness(Exception):
    """The payer still owes money or is owed money. `found` is the number of charges, refunds and schedules that must
    end first, by name, each more than 0."""

    def __init__(self, found: dict[str, int]) -> None:
        super().__init__(", ".join(f"{count} {name}" for name, count in found.items()))
        self.found = found


class ErasedPayer(Struct, frozen=True):
    """The numbers of charges and schedules from which the payer was erased."""

    charges: int
    schedules: int


class _Erased(Struct, frozen=True):
    charge_ids: list[UUID] | None
    mail_ids: list[UUID] | None


_charges = sql.many("payer.charges", UUID)
_pending_charges = sql.many("payer.pending_charges", UUID)
_pending_refunds = sql.one("payer.pending_refunds", int)
_running_schedules = sql.one("payer.running_schedules", int)
_erase = sql.one("payer.erase", _Erased)
_erase_suspended = sql.run("payer.erase_suspended")
_erase_caught = sql.run("payer.erase_caught")
_erase_schedules = sql.many("payer.erase_schedules", UUID)


def _unheard(charges: int) -> None:
    """The default `progress`, which does nothing."""


async def erase_payer(
    conn: Connection,
    owner: Owner,
    document_hash: str,
    reason: str,
    origin: Origin,
    *,
    now: datetime,
    progress: Callable[[int], None] = _unheard,
) -> ErasedPayer:
    """Erase the payer with this document at this account and in this mode; a repeated call finds nothing more to erase.

    `document_hash` is Seal.blind of the bare document. Raises OpenBusiness while a charge can be paid, a refund is
    pending, or a schedule is running. The connection must be in no transaction. `progress` receives the number of
    charges done so far.
    """
    of: dict[str, Any] = {"account_id": owner.account_id, "test": owner.test, "document_hash": document_hash}
    await _refuse_open(conn, of, now=now)
    async with conn.transaction():
        await _write_down(conn, owner, ASKED, {"reason": reason}, origin, now=now)
    erased = 0
    while found := await _charges(conn, **of, limit=SLICE):
        gone = len(await erase_charges(conn, owner.account_id, found, now=now))
        if not gone:  # every charge of this slice became active again: it was paid or refunded meanwhile
            await _refuse_open(conn, of, now=now)
        erased += gone
        progress(erased)
    async with conn.transaction():
        schedules = len(await _erase_schedules(conn, **of))
        await _write_down(conn, owner, ERASED, {"charges": erased, "schedules": schedules}, origin, now=now)
    return ErasedPayer(erased, schedules)


async def erase_charges(conn: Connection, account_id: UUID, charge_ids: Sequence[UUID], *, now: datetime) -> list[UUID]:
    """Erase the payers of these charges of one account (at most SLICE), in a transaction; returns the charges erased.

    A charge that is pending, or has a pending refund, is left as it is. The payer of a later payment of an erased
    charge is not stored.
    """
    assert len(charge_ids) <= SLICE
    async with conn.transaction():
        # The lock is a statement of its own, so that the next statement sees what earlier holders of the lock changed.
        await lock_charges(conn, charge_ids=sorted(charge_ids))
        gone = await _erase(conn, charge_ids=charge_ids, account_id=account_id, now=now)
        if gone.charge_ids:
            await _erase_suspended(conn, charge_ids=gone.charge_ids)
        if gone.mail_ids:
            await _erase_caught(conn, mail_ids=gone.mail_ids)
    return gone.charge_ids or []


async def _refuse_open(conn: Connection, of: dict[str, Any], *, now: datetime) -> None:
    async with conn.transaction():
        pending = await _pending_charges(conn, **of, limit=SLICE)
        if pending:
            await expire_charges(conn, pending, now=now, actor="sweeper")
        found = {
            "pending charges": len(await _pending_charges(conn, **of, limit=SLICE)) if pending else 0,
            "refunds on their way": await _pending_refunds(conn, **of),
            "schedules that go on": await _running_schedules(conn, **of),
        }
    if any(found.values()):
        raise OpenBusiness({name: count for name, count in found.items() if count})


async def _write_down(
    conn: Connection, owner: Owner, action: str, facts: dict[str, Any], origin: Origin, *, now: datetime
) -> None:
    """Write the action to the account's and the platform's audit logs. The entry names no payer, because the payer is
    being erased."""
    facts = {"test": owner.test, **facts}
    await tell_account(conn, owner.account_id, action, facts, origin, now=now)
    await tell_platform(conn, owner.account_id, action, facts, origin, now=now)
