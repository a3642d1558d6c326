"""The platform's staff: add them, change their role, remove them. web/plataforma/table.py has the pages of each role.

A change locks all staff first, so that of two admins who remove each other one stays. The staff of the home cell work
in every cell (docs/decisions/0052-staff-over-cells.md), so only home must keep its last admin: staff of another cell
may always be removed.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from msgspec import Struct

import sql
from commands.people.people import check_email, check_name, check_role, delete_person
from domain.errors import Code, Refused
from domain.merchants.staff import ROLES
from runtime.cells.number import HOME, current_cell
from sql import Connection

INVITED: Final = "staff.invited"
ROLE_CHANGED: Final = "staff.role_changed"
ACCESS_SENT: Final = "staff.access_sent"
FACTOR_CLEARED: Final = "staff.factor_cleared"
REMOVED: Final = "staff.removed"
STAFF_MAX: Final = 200


class _Member(Struct, frozen=True):
    """A member of staff. `fresh`: has not chosen a password yet."""

    email: str
    role: str
    fresh: bool


_lock_staff = sql.many("people.lock_staff", _Member)
_add_member = sql.maybe("people.add_staff", str)
_set_role = sql.run("people.set_staff_role")


async def add_staff(
    conn: Connection,
    email: str,
    password_hash: str | None,
    *,
    role: str,
    name: str | None = None,
    given_at: datetime | None = None,
    now: datetime,
) -> None:
    """Add a member of staff. With None as password, they choose one by a mailed link. `given_at` is the instant when
    another member of staff adds them, None when the operator does.

    Refused(VALIDATION_ERROR) with fields email (also when a merchant's person has it), role, name or limit.
    """
    check_email(email)
    check_role(role, ROLES)
    if name is not None:
        check_name(name)
    if len(await _lock_staff(conn)) >= STAFF_MAX:
        raise Refused(Code.VALIDATION_ERROR, fields={"limit": f"{STAFF_MAX} people at most"})
    added = await _add_member(
        conn, email=email, role=role, name=name, password_hash=password_hash, given_at=given_at, now=now
    )
    if added is None:
        raise Refused(Code.VALIDATION_ERROR, fields={"email": "is taken"})


async def is_staff(conn: Connection, email: str) -> bool:
    """Whether this e-mail belongs to a member of staff; locks all staff."""
    return _find_member(await _lock_staff(conn), email) is not None


async def change_staff_role(conn: Connection, email: str, role: str, *, given_at: datetime | None = None) -> bool:
    """Change the role of a member of staff; False for a person who is none. Refused(VALIDATION_ERROR) with fields.role,
    also for the last admin. `given_at` as for `add_staff`."""
    check_role(role, ROLES)
    staff = await _lock_staff(conn)
    member = _find_member(staff, email)
    if member is None:
        return False
    if role != "admin":
        _keep_an_admin(staff, member, lambda other: not other.fresh)
    if role != member.role:
        await _set_role(conn, email=email, role=role, given_at=given_at)
    return True


async def remove_staff(conn: Connection, email: str) -> bool:
    """Remove a member of staff and their sessions, on behalf of another one; False for a person who is not staff.
    Refused(VALIDATION_ERROR) with fields.role unless an admin who can sign in stays."""
    return await _remove_member(conn, email, lambda other: not other.fresh)


async def expel_staff(conn: Connection, email: str) -> bool:
    """Like `remove_staff`, on behalf of the operator: any other admin suffices, also one without a password yet."""
    return await _remove_member(conn, email, lambda other: True)


async def _remove_member(conn: Connection, email: str, stays: Callable[[_Member], bool]) -> bool:
    staff = await _lock_staff(conn)
    member = _find_member(staff, email)
    if member is None:
        return False
    _keep_an_admin(staff, member, stays)
    await delete_person(conn, email=email)
    return True


def _keep_an_admin(staff: list[_Member], leaving: _Member, stays: Callable[[_Member], bool]) -> None:
    """Refused(VALIDATION_ERROR) when `leaving` is the last admin of the home cell. An admin who has chosen no password
    may be removed as long as any other admin stays."""
    others = [each for each in staff if each.role == "admin" and each.email != leaving.email]
    if leaving.role != "admin" or current_cell() != HOME or any(stays(each) or leaving.fresh for each in others):
        return
    raise Refused(Code.VALIDATION_ERROR, fields={"role": "the last admin stays: let another one in first"})


def _find_member(staff: list[_Member], email: str) -> _Member | None:
    return next((each for each in staff if each.email == email), None)
