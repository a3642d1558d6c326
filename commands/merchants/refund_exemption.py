"""Exempt an account from the rule that a refund by transfer goes to the charge's payer (contract section 16), or end
the exemption.

It is for merchants whose refunds often go to another person than the payer: a company that pays for its customers,
heirs. The reason is stored with the account and in both audit logs; only the platform's log names who gave it.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

import sql
from commands.people.audit import Origin, audit_for_account
from domain.errors import Code, Refused
from domain.merchants.staff import read_reason
from sql import Connection

FREED: Final = "merchant.refunds_freed"
BOUND: Final = "merchant.refunds_bound"

_set_reason = sql.maybe("account.set_refunds_to_others", UUID)


async def exempt_refunds(conn: Connection, account_id: UUID, reason: str, origin: Origin, *, now: datetime) -> None:
    """Exempt the refunds that are requested from now on. Refused(VALIDATION_ERROR) with fields.reason for an invalid
    reason, Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown account."""
    reason = read_reason(reason)
    await _store_exemption(conn, account_id, reason)
    await audit_for_account(conn, account_id, FREED, {"reason": reason}, origin, now=now)


async def end_refund_exemption(conn: Connection, account_id: UUID, origin: Origin, *, now: datetime) -> None:
    """End the exemption: refunds go to the payer again. Refused as `exempt_refunds`."""
    await _store_exemption(conn, account_id, None)
    await audit_for_account(conn, account_id, BOUND, {}, origin, now=now)


async def _store_exemption(conn: Connection, account_id: UUID, reason: str | None) -> None:
    if await _set_reason(conn, account_id=account_id, reason=reason) is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
