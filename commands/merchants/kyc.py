"""Decide about a merchant's registration (KYC): whether it may issue charges in production (contract section 14).

Creations of charges read the state from the account's row, cached with the token for at most three seconds
(api/callers.py), so a block is in force everywhere after that. Charges issued before can still be read, cancelled,
refunded and paid. Withdrawals read the row itself, when they begin and again right before the bank is asked: pending
withdrawals of a blocked account wait until it is approved again (commands/money/withdraw.py).
"""

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

import sql
from domain.errors import Code, Refused
from domain.merchants.staff import read_reason
from readmodels.dashboard.company import find_company
from sql import Connection

NEEDED: Final[dict[str, str]] = {
    "document": "the account has no CNPJ with right check digits",
    "address": "the account's address is not complete",
    "payout_key": "the account has no PIX key of its own to be paid out to",
}
"""The parts of a registration that approval needs, each with the fault when it is missing
(readmodels/dashboard/company.py). The owner's password is none of them: it says nothing about the company."""


class Kyc(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    BLOCKED = "blocked"


NEXT: Final[dict[Kyc, frozenset[Kyc]]] = {
    Kyc.PENDING: frozenset({Kyc.APPROVED, Kyc.REJECTED}),
    Kyc.APPROVED: frozenset({Kyc.BLOCKED}),
    Kyc.REJECTED: frozenset({Kyc.APPROVED}),
    Kyc.BLOCKED: frozenset({Kyc.APPROVED}),
}
NEVER_APPROVED: Final = (Kyc.PENDING, Kyc.REJECTED)

_lock_kyc = sql.maybe("account.lock_kyc", str)
_set_kyc = sql.run("account.set_kyc")


async def decide_kyc(conn: Connection, account_id: UUID, to: Kyc, reason: str, *, now: datetime) -> None:
    """Set the KYC state of an account; the state it already has is no change. Approving needs a complete registration
    but no reason; the other states need a reason. Lifting a block does not check the registration again.

    Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown account; Refused(VALIDATION_ERROR) with fields.reason for a missing
    or too long reason, with fields.kyc for a step that NEXT does not have, and with the missing parts of NEEDED.
    """
    reason, current = _checked_reason(reason, to), await _lock_state(conn, account_id, to)
    if to is Kyc.APPROVED and current in NEVER_APPROVED:
        company = await find_company(conn, account_id=account_id, now=now)
        assert company is not None
        if missing := {name: NEEDED[name] for name in company.missing if name in NEEDED}:
            raise Refused(Code.VALIDATION_ERROR, fields=missing)
    if current is not to:
        await _set_kyc(conn, account_id=account_id, kyc=to.value, reason=reason or None, now=now)


async def decide_demo_kyc(conn: Connection, account_id: UUID, to: Kyc, reason: str, *, now: datetime) -> None:
    """Like `decide_kyc`, for an account of local work: it may be approved without an address (contract section 15)."""
    reason, current = _checked_reason(reason, to), await _lock_state(conn, account_id, to)
    if current is not to:
        await _set_kyc(conn, account_id=account_id, kyc=to.value, reason=reason or None, now=now)


def _checked_reason(reason: str, to: Kyc) -> str:
    return "" if to is Kyc.APPROVED and not reason.strip() else read_reason(reason)


async def _lock_state(conn: Connection, account_id: UUID, to: Kyc) -> Kyc:
    """Lock the account's KYC state until the transaction ends, and return it."""
    stored = await _lock_kyc(conn, account_id=account_id)
    if stored is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
    current = Kyc(stored)
    if current is not to and to not in NEXT[current]:
        raise Refused(Code.VALIDATION_ERROR, fields={"kyc": f"is {current}, which does not become {to}"})
    return current
