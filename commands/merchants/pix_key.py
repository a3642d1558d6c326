"""Change the PIX key an account is registered with: the one its charges are received under and its money is sent to.

It decides where money goes, so it is written to two audit logs in the transaction that does it: the platform's, with
who did it, and the account's own, so that its people see it. A charge keeps the key it was issued with, because the
bank has it so; a withdrawal keeps the key it was asked for with (commands/money/withdraw.py).
"""

from datetime import datetime
from typing import Final
from uuid import UUID

import sql
from commands.people.audit import AuditEntry, write_down
from commands.people.sessions import PLATFORM
from domain.documents import check_digits_hold
from domain.errors import Code, Refused
from domain.refund import is_pix_key
from domain.withdrawal import masked_key
from runtime.ids import new_id
from sql import Connection

ACTION: Final = "merchant.pix_key_changed"
SEEN_BY_THE_ACCOUNT: Final = "Plataforma"
"""Who did it as the account's own people see it: staff is not named to merchants."""


_lock = sql.maybe("account.lock_pix_key", str)
_set = sql.run("account.set_pix_key")


async def set_pix_key(
    conn: Connection, account_id: UUID, pix_key: str, *, by: str, address_hash: str, request_id: str, now: datetime
) -> None:
    """For charges issued and withdrawals asked for from now on, everywhere within seconds. The same key is no change.

    `by` is who does it, for the platform's log; `address_hash` and `request_id` as in commands/people/audit.py.
    Refused(VALIDATION_ERROR) with fields.pix_key for what is no key: as the DICT writes them (domain/refund.py), and
    the check digits of a CPF or CNPJ hold. Refused(WALLET_ACCOUNT_NOT_FOUND) for an unknown account.
    """
    if not is_pix_key(pix_key):
        fault = "must be a PIX key: CPF, CNPJ, +55 and telephone, e-mail in lower case or random key"
        raise Refused(Code.VALIDATION_ERROR, fields={"pix_key": fault})
    if pix_key.isdigit() and not check_digits_hold(pix_key):
        raise Refused(Code.VALIDATION_ERROR, fields={"pix_key": "has wrong check digits"})
    stored = await _lock(conn, account_id=account_id)
    if stored is None:
        raise Refused(Code.WALLET_ACCOUNT_NOT_FOUND)
    if stored == pix_key:
        return
    await _set(conn, account_id=account_id, pix_key=pix_key)
    facts = {"pix_key": masked_key(pix_key)}
    if is_pix_key(stored):
        facts["pix_key_before"] = masked_key(stored)
    for log, who in ((PLATFORM, by), (account_id, SEEN_BY_THE_ACCOUNT)):
        entry = AuditEntry(
            audit_id=new_id(),
            account_id=log,
            email=who,
            action=ACTION,
            subject=str(account_id),
            facts=facts,
            address_hash=address_hash,
            request_id=request_id,
        )
        await write_down(conn, entry, now=now)
