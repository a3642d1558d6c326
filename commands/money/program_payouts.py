"""Mail the owners about payouts by API credentials: withdrawals, and refunds to a PIX key.

The dashboard mails about each payout, because a person makes it. A program may make hundreds, so the first one is
mailed at once and the following ones in one mail an hour, with their number and sum. Payouts are noted in the
transaction that makes them, and a worker writes the mails.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from commands.people.tell import mail_owners
from domain.brazilian import brl, moment
from runtime.seal import Seal
from sql import Connection

REFUND: Final = "refund"
WITHDRAWAL: Final = "withdrawal"
EVERY: Final = timedelta(hours=1)
DUE_MAX: Final = 100
_KINDS: Final = {REFUND: "program.refunds", WITHDRAWAL: "program.withdrawals"}


class ProgramPayout(Struct, frozen=True, gc=False):
    """A payout in production by a credential."""

    account_id: UUID
    amount_cents: int
    client_id: str


class _DuePayouts(Struct, frozen=True, gc=False):
    account_id: UUID
    kind: str
    payouts: int
    amount_cents: int
    since: datetime
    client_ids: list[str]


_note_payouts = sql.run("program_payout.note")
_take_due = sql.many("program_payout.take", _DuePayouts)


async def note_payouts(conn: Connection, kind: str, paid: Sequence[ProgramPayout], *, now: datetime) -> None:
    """Note payouts of the kind REFUND or WITHDRAWAL. Call it with the accounts' clocks locked, so that two batches
    never deadlock."""
    if paid:
        await _note_payouts(conn, kind=kind, paid=paid, now=now)


async def mail_payouts(conn: Connection, *, now: datetime, seal: Seal) -> int:
    """Write the mails that are due; returns how many."""
    due = await _take_due(conn, now=now, again_at=now + EVERY, limit=DUE_MAX)
    for each in due:
        credentials = "credencial" if len(each.client_ids) == 1 else "credenciais"
        by = f"{credentials} {', '.join(each.client_ids)}"
        facts = {"count": str(each.payouts), "amount": brl(each.amount_cents), "by": by}
        if each.payouts > 1:
            facts["since"] = moment(each.since)
        await mail_owners(conn, each.account_id, _KINDS[each.kind], facts, now=now, seal=seal)
    return len(due)
