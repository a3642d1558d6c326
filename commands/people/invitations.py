"""Invite people to an account: an invited person follows the link of a mail and chooses a password.

An invitation is a row of its own and not yet a person. So an owner gets the same answer for an unused e-mail and for
one that signs in to another account; only the mail to that address says which.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

import sql
from commands.people.people import PEOPLE_MAX, check_name, check_person, lock_people
from domain.errors import Code, Refused
from sql import Connection

INVITED: Final = timedelta(days=7)
"""How long an invitation is valid. Its links are valid for less time, and each mail has a new one."""


class Invitation(Struct, frozen=True):
    account_id: UUID
    email: str
    name: str
    role: str
    invited_by: str
    invited_at: datetime
    account: str


find_invitation = sql.maybe("access.invitation", Invitation)
"""`account_id, email, since`."""
latest_invitation = sql.maybe("access.latest_invitation", Invitation)
"""`email, since`: the latest invitation of this e-mail, to any account."""
withdraw = sql.maybe("access.withdraw", str)
"""`account_id, email`; None when this e-mail is not invited."""
_find_invitations = sql.many("access.invitations", Invitation)
_invite = sql.run("access.invite")
_forget_expired = sql.run("access.forget_invitations")


async def invite(
    conn: Connection, account_id: UUID, email: str, name: str, role: str, *, by: str, now: datetime
) -> None:
    """Invite a person, or renew their invitation. The caller requests the mail separately (`ask_for_link`).

    Refused(VALIDATION_ERROR) with fields email, name, role or limit, for invalid values and for an e-mail of this
    account's people; never for an e-mail that signs in to another account.
    """
    check_person(email, role)
    check_name(name)
    people = await lock_people(conn, account_id=account_id)
    if any(each.email == email for each in people):
        raise Refused(Code.VALIDATION_ERROR, fields={"email": "is here already"})
    await _forget_expired(conn, account_id=account_id, before=now - INVITED)
    invited_emails = {each.email for each in await invitations(conn, account_id, now=now)} - {email}
    if len(people) + len(invited_emails) >= PEOPLE_MAX:
        raise Refused(Code.VALIDATION_ERROR, fields={"limit": f"{PEOPLE_MAX} people at most"})
    await _invite(conn, account_id=account_id, email=email, name=name, role=role, by=by, now=now)


async def invitations(conn: Connection, account_id: UUID, *, now: datetime) -> list[Invitation]:
    """Returns the account's invitations that are still valid."""
    return await _find_invitations(conn, account_id=account_id, since=now - INVITED, limit=PEOPLE_MAX)
