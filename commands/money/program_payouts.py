"""Mail the owners what programs pay out: withdrawals, and refunds to a PIX key, over the API.

The dashboard tells of each one, because a person does it. A program may do hundreds: the first is told at once, and
then a letter an hour, with how many there were and how much. They are noted in the transaction that pays out, and told
by a worker.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from commands.people.tell import tell_owners
from domain.brazilian import brl, moment
from runtime.seal import Seal
from sql import Connection

REFUND: Final = "refund"
WITHDRAWAL: Final = "withdrawal"
EVERY: Final = timedelta(hours=1)
TOLD_MAX: Final = 100
_KINDS: Final = {REFUND: "program.refunds", WITHDRAWAL: "program.withdrawals"}


class ProgramPayout(Struct, frozen=True, gc=False):
    """Money of production that a credential sends out."""

    account_id: UUID
    amount_cents: int
    client_id: str


class _Due(Struct, frozen=True, gc=False):
    account_id: UUID
    kind: str
    payouts: int
    amount_cents: int
    since: datetime
    client_id: str


_note = sql.run("program_payout.note")
_take = sql.many("program_payout.take", _Due)


async def note_payouts(conn: Connection, kind: str, paid: Sequence[ProgramPayout], *, now: datetime) -> None:
    """REFUND or WITHDRAWAL. Called with the accounts' clocks held, so that two batches never wait in a circle."""
    if paid:
        await _note(conn, kind=kind, paid=paid, now=now)


async def tell_payouts(conn: Connection, *, now: datetime, seal: Seal) -> int:
    """Write the letters that are due; answers how many accounts were told of."""
    due = await _take(conn, now=now, again_at=now + EVERY, limit=TOLD_MAX)
    for each in due:
        facts = {"count": str(each.payouts), "amount": brl(each.amount_cents), "by": f"credencial {each.client_id}"}
        if each.payouts > 1:
            facts["since"] = moment(each.since)
        await tell_owners(conn, each.account_id, _KINDS[each.kind], facts, now=now, seal=seal)
    return len(due)
