"""What the platform does for people of an account who cannot come in any more: a link, and a lost second factor."""

from datetime import datetime
from typing import Final
from uuid import UUID

from commands.people.audit import AuditEntry, write_down
from commands.people.invitations import INVITED, find_invitation
from commands.people.links import ask_for_link
from commands.people.people import clear_factor, is_member
from commands.people.tell import tell_owners
from domain.errors import Code, Refused
from runtime.ids import new_id
from runtime.seal import Seal
from sql import Connection

SEEN_BY_THE_ACCOUNT: Final = "Plataforma"
"""Who did it as the account's own people see it: staff is not named to merchants."""
REASON_MAX: Final = 500


async def send_access(
    conn: Connection,
    account_id: UUID,
    email: str,
    *,
    factor_lost: str | None,
    address_hash: str,
    request_id: str,
    now: datetime,
    seal: Seal,
) -> str:
    """Have a link mailed to a person of the account, or to somebody invited; the action, for the platform's log.

    `factor_lost`: why the second factor is cleared too; None leaves it on. All owners are told, and the account's own
    log has it. Refused(VALIDATION_ERROR) with fields.email for anybody else, with fields.reason for a reason that is
    missing or too long.
    """
    facts = {}
    if factor_lost is not None:
        facts["reason"] = " ".join(factor_lost.split())
        if not 0 < len(facts["reason"]) <= REASON_MAX or not facts["reason"].isprintable():
            raise Refused(Code.VALIDATION_ERROR, fields={"reason": f"must be 1 to {REASON_MAX} characters"})
    member = await is_member(conn, account_id, email)
    if not member:
        invited = await find_invitation(conn, account_id=account_id, email=email, since=now - INVITED)
        if invited is None or factor_lost is not None:
            raise Refused(Code.VALIDATION_ERROR, fields={"email": "is nobody's of this account"})
    elif factor_lost is not None:
        await clear_factor(conn, email)
    await ask_for_link(conn, email, invited_to=None if member else account_id, now=now, seal=seal)
    action = "person.access_sent" if factor_lost is None else "person.factor_cleared"
    entry = AuditEntry(
        audit_id=new_id(),
        account_id=account_id,
        email=SEEN_BY_THE_ACCOUNT,
        action=action,
        subject=email,
        facts=facts,
        address_hash=address_hash,
        request_id=request_id,
    )
    await write_down(conn, entry, now=now)
    told = {"person": email, "by": SEEN_BY_THE_ACCOUNT, **facts}
    await tell_owners(conn, account_id, action, told, now=now, seal=seal)
    return action
