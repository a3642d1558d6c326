"""Restore the access of an account's people who cannot sign in: mail a link, and clear a lost second factor."""

from datetime import datetime
from uuid import UUID

from commands.people.audit import SEEN_BY_THE_ACCOUNT, Origin, audit_for_account
from commands.people.invitations import INVITED, find_invitation
from commands.people.links import ask_for_link
from commands.people.people import clear_factor, is_member
from commands.people.tell import mail_owners
from domain.errors import Code, Refused
from domain.merchants.staff import read_reason
from runtime.seal import Seal
from sql import Connection


async def send_access(
    conn: Connection,
    account_id: UUID,
    email: str,
    origin: Origin,
    *,
    factor_lost: str | None,
    now: datetime,
    seal: Seal,
) -> str:
    """Have a link mailed to a person of the account, or to an invited one; returns the action for the platform's log.

    `factor_lost` is the reason why the second factor is cleared too; None leaves the factor on. The account's own audit
    log records the action, and all owners are mailed. Refused(VALIDATION_ERROR) with fields.email for any other e-mail,
    with fields.reason for a reason that is missing or too long.
    """
    facts = {}
    if factor_lost is not None:
        facts["reason"] = read_reason(factor_lost)
    member = await is_member(conn, account_id, email)
    if not member:
        invited = await find_invitation(conn, account_id=account_id, email=email, since=now - INVITED)
        if invited is None or factor_lost is not None:
            raise Refused(Code.VALIDATION_ERROR, fields={"email": "is nobody's of this account"})
    elif factor_lost is not None:
        await clear_factor(conn, email)
    await ask_for_link(conn, email, invited_to=None if member else account_id, now=now, seal=seal)
    action = "person.access_sent" if factor_lost is None else "person.factor_cleared"
    await audit_for_account(conn, account_id, action, {"person": email, **facts}, origin, now=now)
    mail_facts = {"person": email, "by": SEEN_BY_THE_ACCOUNT, **facts}
    await mail_owners(conn, account_id, action, mail_facts, now=now, seal=seal)
    return action
