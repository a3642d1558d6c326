"""The people of an account: add them, change roles, remove them. Also for staff: passwords and lost second factors.

Nobody sets another person's password: a person without one, or who has lost it, chooses one by a mailed link
(commands/people/links.py).

A change locks all people of the account first, so that of two owners who remove each other one stays. Callers pass
passwords hashed (runtime/passwords.py): hashing takes 20 ms, too long for the transaction that is open here.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from commands.people.second_factor import clear
from commands.people.sessions import PASSWORD_MAX, end_all_sessions
from domain.errors import Code, Refused
from domain.merchants.guessable import is_guessable
from domain.payer import holds_link, is_mail_address
from sql import Connection

PEOPLE_MAX = 50
PASSWORD_MIN = 10
GUESSABLE = "is easily guessed"
NAME_MAX = 100
ROLES = ("owner", "finance", "developer", "support")


class _Member(Struct, frozen=True):
    email: str
    role: str


lock_people = sql.many("people.lock", _Member)
"""`account_id`: locks and returns all people of the account."""
_add_person = sql.maybe("people.add", str)
_set_role = sql.run("people.set_role")
_set_password = sql.run("people.set_password")
renew_password = sql.run("people.renew_password")
set_name = sql.run("people.set_name")
"""`email, name`; the name was checked."""
_withdraw_invitations_by = sql.run("access.withdraw_of")
delete_person = sql.run("people.remove")
"""`email`; the caller has checked that the person may be removed."""


async def add_person(
    conn: Connection,
    account_id: UUID,
    email: str,
    role: str,
    password_hash: str | None,
    *,
    name: str | None = None,
    now: datetime,
) -> None:
    """Add a person. With None as password, the person chooses one by a mailed link. An e-mail signs in to one account
    only.

    Refused(VALIDATION_ERROR) with fields email, role, name or limit.
    """
    check_person(email, role)
    if name is not None:
        check_name(name)
    if len(await lock_people(conn, account_id=account_id)) >= PEOPLE_MAX:
        raise Refused(Code.VALIDATION_ERROR, fields={"limit": f"{PEOPLE_MAX} people at most"})
    added = await _add_person(
        conn, email=email, account_id=account_id, role=role, name=name, password_hash=password_hash, now=now
    )
    if added is None:
        raise Refused(Code.VALIDATION_ERROR, fields={"email": "is taken"})


async def change_role(conn: Connection, account_id: UUID, email: str, role: str) -> bool:
    """Change a person's role; False when the account has no such person. Refused(VALIDATION_ERROR) with fields.role,
    also for the last owner. An owner who becomes something else has their invitations withdrawn."""
    check_role(role, ROLES)
    people = await lock_people(conn, account_id=account_id)
    if not _is_member(people, email):
        return False
    if role != "owner":
        _keep_an_owner(people, email)
        await _withdraw_invitations_by(conn, account_id=account_id, email=email)
    await _set_role(conn, email=email, role=role)
    return True


async def remove_person(conn: Connection, account_id: UUID, email: str) -> bool:
    """Remove a person, their sessions and the invitations they made; False when the account has no such person.
    Refused(VALIDATION_ERROR) for the last owner."""
    people = await lock_people(conn, account_id=account_id)
    if not _is_member(people, email):
        return False
    _keep_an_owner(people, email)
    await _withdraw_invitations_by(conn, account_id=account_id, email=email)
    await delete_person(conn, email=email)
    return True


async def is_member(conn: Connection, account_id: UUID, email: str) -> bool:
    """Whether this e-mail belongs to a person of the account; locks all people of the account."""
    return _is_member(await lock_people(conn, account_id=account_id), email)


async def clear_factor(conn: Connection, email: str) -> None:
    """Remove the second factor and end all sessions of a person who lost telephone and recovery codes."""
    await clear(conn, email=email)
    await end_all_sessions(conn, email)


def check_password(password: str, email: str) -> None:
    """Check a password chosen by the person of this e-mail; Refused(VALIDATION_ERROR) with fields.password."""
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise Refused(Code.VALIDATION_ERROR, fields={"password": f"{PASSWORD_MIN} to {PASSWORD_MAX} characters"})
    if is_guessable(password, email):
        raise Refused(Code.VALIDATION_ERROR, fields={"password": GUESSABLE})


async def change_password(conn: Connection, email: str, password_hash: str) -> None:
    """Set the person's own new password."""
    await _set_password(conn, email=email, password_hash=password_hash)


def check_person(email: str, role: str) -> None:
    """Refused(VALIDATION_ERROR) with fields email or role."""
    check_email(email)
    check_role(role, ROLES)


def check_name(name: str) -> None:
    """Check a person's name; Refused(VALIDATION_ERROR) with fields.name."""
    # The name goes out in our name, in mails to invited people, so it must hold no link.
    if not name.strip() or len(name) > NAME_MAX or not name.isprintable() or holds_link(name):
        raise Refused(Code.VALIDATION_ERROR, fields={"name": f"must be 1 to {NAME_MAX} printable characters"})


def check_email(email: str) -> None:
    """Check a person's e-mail; Refused(VALIDATION_ERROR) with fields.email."""
    if not is_mail_address(email) or email != email.lower():
        raise Refused(Code.VALIDATION_ERROR, fields={"email": "must be an e-mail address in lower case"})


def check_role(role: str, roles: Sequence[str]) -> None:
    """Refused(VALIDATION_ERROR) with fields.role when the role is none of `roles`."""
    if role not in roles:
        raise Refused(Code.VALIDATION_ERROR, fields={"role": f"must be one of {', '.join(roles)}"})


def _is_member(people: list[_Member], email: str) -> bool:
    return any(each.email == email for each in people)


def _keep_an_owner(people: list[_Member], email: str) -> None:
    if not any(each.role == "owner" and each.email != email for each in people):
        raise Refused(Code.VALIDATION_ERROR, fields={"role": "the last owner stays"})
