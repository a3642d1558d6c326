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
from commands.people.audit import Origin, audit_for_account, audit_for_platform
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


class _ErasedRows(Struct, frozen=True):
    charge_ids: list[UUID] | None
    mail_ids: list[UUID] | None


_find_charges = sql.many("payer.charges", UUID)
_find_pending_charges = sql.many("payer.pending_charges", UUID)
_count_pending_refunds = sql.one("payer.pending_refunds", int)
_count_running_schedules = sql.one("payer.running_schedules", int)
_erase = sql.one("payer.erase", _ErasedRows)
_erase_suspended = sql.run("payer.erase_suspended")
_erase_caught_mails = sql.run("payer.erase_caught")
_erase_schedules = sql.many("payer.erase_schedules", UUID)


def _ignore_progress(charges: int) -> None:
    """The default `progress`, which does nothing."""


async def erase_payer(
    conn: Connection,
    owner: Owner,
    document_hash: str,
    reason: str,
    origin: Origin,
    *,
    now: datetime,
    progress: Callable[[int], None] = _ignore_progress,
) -> ErasedPayer:
    """Erase the payer with this document at this account and in this mode; a repeated call finds nothing more to erase.

    `document_hash` is Seal.blind of the bare document. Raises OpenBusiness while a charge can be paid, a refund is
    pending, or a schedule is running. The connection must be in no transaction. `progress` receives the number of
    charges done so far.
    """
    payer: dict[str, Any] = {"account_id": owner.account_id, "test": owner.test, "document_hash": document_hash}
    await _refuse_open_business(conn, payer, now=now)
    async with conn.transaction():
        await _write_audit_entries(conn, owner, ASKED, {"reason": reason}, origin, now=now)
    erased = 0
    while charge_ids := await _find_charges(conn, **payer, limit=SLICE):
        erased_now = len(await erase_charges(conn, owner.account_id, charge_ids, now=now))
        if not erased_now:  # every charge of this slice became active again: it was paid or refunded meanwhile
            await _refuse_open_business(conn, payer, now=now)
        erased += erased_now
        progress(erased)
    async with conn.transaction():
        schedules = len(await _erase_schedules(conn, **payer))
        await _write_audit_entries(conn, owner, ERASED, {"charges": erased, "schedules": schedules}, origin, now=now)
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
        rows = await _erase(conn, charge_ids=charge_ids, account_id=account_id, now=now)
        if rows.charge_ids:
            await _erase_suspended(conn, charge_ids=rows.charge_ids)
        if rows.mail_ids:
            await _erase_caught_mails(conn, mail_ids=rows.mail_ids)
    return rows.charge_ids or []


async def _refuse_open_business(conn: Connection, payer: dict[str, Any], *, now: datetime) -> None:
    async with conn.transaction():
        pending = await _find_pending_charges(conn, **payer, limit=SLICE)
        if pending:
            await expire_charges(conn, pending, now=now, actor="sweeper")
        open_counts = {
            "pending charges": len(await _find_pending_charges(conn, **payer, limit=SLICE)) if pending else 0,
            "refunds on their way": await _count_pending_refunds(conn, **payer),
            "schedules that go on": await _count_running_schedules(conn, **payer),
        }
    if any(open_counts.values()):
        raise OpenBusiness({name: count for name, count in open_counts.items() if count})


async def _write_audit_entries(
    conn: Connection, owner: Owner, action: str, facts: dict[str, Any], origin: Origin, *, now: datetime
) -> None:
    """Write the action to the account's and the platform's audit logs. The entry names no payer, because the payer is
    being erased."""
    facts = {"test": owner.test, **facts}
    await audit_for_account(conn, owner.account_id, action, facts, origin, now=now)
    await audit_for_platform(conn, owner.account_id, action, facts, origin, now=now)
