"""Free an account of the rule that a refund by transfer goes to the charge's payer (contract section 16), or end that.

For a merchant whose payers are often paid back through somebody else: a company that pays for its customers, heirs.
The reason stays with the account. Both audit logs have it; who gave it stands in the platform's alone.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

import sql
from commands.people.audit import Origin, tell_account
from domain.errors import Code, Refused
from domain.merchants.staff import read_reason
from sql import Connection

FREED: Final = "merchant.refunds_freed"
BOUND: Final = "merchant.refunds_bound"

_set = sql.maybe("account.set_refunds_to_others", UUID)


async def free_refunds(conn: Connection, account_id: UUID, reason: str, origin: Origin, *, now: datetime) -> None:
    """For refunds asked for from now on. Refused(VALIDATION_ERROR) with fields.reason for what is none,
    Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown account."""
    reason = read_reason(reason)
    await _store(conn, account_id, reason)
    await tell_account(conn, account_id, FREED, {"reason": reason}, origin, now=now)


async def bind_refunds(conn: Connection, account_id: UUID, origin: Origin, *, now: datetime) -> None:
    """Refunds go to the payer again; refused as `free_refunds`."""
    await _store(conn, account_id, None)
    await tell_account(conn, account_id, BOUND, {}, origin, now=now)


async def _store(conn: Connection, account_id: UUID, reason: str | None) -> None:
    if await _set(conn, account_id=account_id, reason=reason) is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
