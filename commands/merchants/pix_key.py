"""Set the receiving PIX key, which goes into charges: the platform's own key, for all accounts or for one.

At the bank this key belongs to the platform's account, whatever merchant issues the charge; the merchant's payout key
is another one (commands/merchants/payout_key.py). A change is recorded in the platform's audit log and, for one
account, in the account's own. A charge keeps the key it was issued with: it is registered at the bank under that key.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

import sql
from commands.people.audit import Origin, audit_for_account, audit_for_platform
from domain.errors import Code, Refused
from domain.merchants.staff import PLATFORM
from domain.refund import is_pix_key, pix_key_fault
from domain.withdrawal import masked_key
from sql import Connection

ACTION: Final = "merchant.pix_key_changed"
ALL: Final = "platform.pix_key_set"


_lock_key = sql.maybe("account.lock_pix_key", str)
_set_key = sql.run("account.set_pix_key")
_set_platform_key = sql.run("account.set_receiving_key")


async def set_pix_key(conn: Connection, account_id: UUID, pix_key: str, origin: Origin, *, now: datetime) -> None:
    """Set the receiving key of the charges that this account issues from now on, in force everywhere within seconds.
    The same key is no change.

    Refused(VALIDATION_ERROR) with fields.pix_key for an invalid key: a key has the form that the DICT gives it
    (domain/refund.py), and a CPF or CNPJ has right check digits. Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown
    account.
    """
    _check_key(pix_key)
    stored = await _lock_key(conn, account_id=account_id)
    if stored is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
    if stored == pix_key:
        return
    await _set_key(conn, account_id=account_id, pix_key=pix_key)
    facts = {"pix_key": masked_key(pix_key)}
    if is_pix_key(stored):
        facts["pix_key_before"] = masked_key(stored)
    await audit_for_platform(conn, account_id, ACTION, facts, origin, now=now)
    await audit_for_account(conn, account_id, ACTION, facts, origin, now=now)


async def set_receiving_key(conn: Connection, pix_key: str, *, by: str, now: datetime) -> None:
    """Set the receiving key of every account without a key of its own (`set_pix_key`); refused as `set_pix_key`."""
    _check_key(pix_key)
    await _set_platform_key(conn, pix_key=pix_key, now=now)
    origin = Origin(by, "terminal", "cli")
    await audit_for_platform(conn, PLATFORM, ALL, {"pix_key": masked_key(pix_key)}, origin, now=now)


def _check_key(pix_key: str) -> None:
    if fault := pix_key_fault(pix_key):
        raise Refused(Code.VALIDATION_ERROR, fields={"pix_key": fault})
