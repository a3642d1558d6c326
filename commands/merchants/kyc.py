"""Decide about a merchant's registration (KYC): whether it may issue charges in production (contract section 14).

Creations look at it in the account's row, remembered for at most three seconds with the token (api/callers.py): a
block is in force everywhere after that. Charges issued before can still be read, cancelled, refunded and paid.
Withdrawals look at the row itself, at the beginning and again right before the bank is asked: pending ones of a blocked
account wait until it is approved again (commands/money/withdraw.py).
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
"""Of a registration that is approved (readmodels/dashboard/company.py). Its owner may choose a password
afterwards, which says nothing of the company."""


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

_lock = sql.maybe("account.lock_kyc", str)
_set = sql.run("account.set_kyc")


async def decide_kyc(conn: Connection, account_id: UUID, to: Kyc, reason: str, *, now: datetime) -> None:
    """A state that holds already is no change. Approving needs no reason, the others do, and a complete registration;
    a block is lifted from whatever was approved before.

    Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown account; Refused(VALIDATION_ERROR) with fields.reason for a
    missing or too long one, with fields.kyc for a step that NEXT does not have, and with all of NEEDED that is missing.
    """
    reason, at = _read(reason, to), await _locked(conn, account_id, to)
    if to is Kyc.APPROVED and at in NEVER_APPROVED:
        company = await find_company(conn, account_id=account_id, now=now)
        assert company is not None
        if missing := {name: NEEDED[name] for name in company.missing if name in NEEDED}:
            raise Refused(Code.VALIDATION_ERROR, fields=missing)
    if at is not to:
        await _set(conn, account_id=account_id, kyc=to.value, reason=reason or None, now=now)


async def decide_demo_kyc(conn: Connection, account_id: UUID, to: Kyc, reason: str, *, now: datetime) -> None:
    """The same of an account of local work, which may be approved without an address (contract section 15)."""
    reason, at = _read(reason, to), await _locked(conn, account_id, to)
    if at is not to:
        await _set(conn, account_id=account_id, kyc=to.value, reason=reason or None, now=now)


def _read(reason: str, to: Kyc) -> str:
    return "" if to is Kyc.APPROVED and not reason.strip() else read_reason(reason)


async def _locked(conn: Connection, account_id: UUID, to: Kyc) -> Kyc:
    """The state it is in, held until the decision is stored."""
    stored = await _lock(conn, account_id=account_id)
    if stored is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
    at = Kyc(stored)
    if at is not to and to not in NEXT[at]:
        raise Refused(Code.VALIDATION_ERROR, fields={"kyc": f"is {at}, which does not become {to}"})
    return at
