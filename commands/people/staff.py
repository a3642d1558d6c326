"""The platform's staff: let in, given a role, removed. What each role opens is in web/plataforma/table.py.

A change locks all of the staff first, so that of two admins who remove each other one stays. Home's staff are of every
cell (docs/decisions/0052-staff-over-cells.md), so the last admin is kept at home only: somebody of another cell may
always go.
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
    """`fresh`: has chosen no password yet."""

    email: str
    role: str
    fresh: bool


_lock = sql.many("people.lock_staff", _Member)
_add = sql.maybe("people.add_staff", str)
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
    """None as password: one is chosen by a mailed link. `given_at` is the instant when a colleague lets them in, None
    when the operator does.

    Refused(VALIDATION_ERROR) with fields email (also when a merchant's person has it), role, name or limit.
    """
    check_email(email)
    check_role(role, ROLES)
    if name is not None:
        check_name(name)
    if len(await _lock(conn)) >= STAFF_MAX:
        raise Refused(Code.VALIDATION_ERROR, fields={"limit": f"{STAFF_MAX} people at most"})
    added = await _add(conn, email=email, role=role, name=name, password_hash=password_hash, given_at=given_at, now=now)
    if added is None:
        raise Refused(Code.VALIDATION_ERROR, fields={"email": "is taken"})


async def is_staff(conn: Connection, email: str) -> bool:
    """Locks all of them."""
    return _find(await _lock(conn), email) is not None


async def change_staff_role(conn: Connection, email: str, role: str, *, given_at: datetime | None = None) -> bool:
    """False for a person not of the staff; Refused(VALIDATION_ERROR) with fields.role, also for the last admin.
    `given_at` as for `add_staff`."""
    check_role(role, ROLES)
    staff = await _lock(conn)
    member = _find(staff, email)
    if member is None:
        return False
    if role != "admin":
        _keep_an_admin(staff, member, lambda other: not other.fresh)
    if role != member.role:
        await _set_role(conn, email=email, role=role, given_at=given_at)
    return True


async def remove_staff(conn: Connection, email: str) -> bool:
    """By a colleague: an admin who can sign in stays. False for a person not of the staff, Refused(VALIDATION_ERROR)
    with fields.role for the last one. Ends the sessions."""
    return await _remove(conn, email, lambda other: not other.fresh)


async def expel_staff(conn: Connection, email: str) -> bool:
    """By the operator, who does not wait until another admin has chosen a password; otherwise as `remove_staff`."""
    return await _remove(conn, email, lambda other: True)


async def _remove(conn: Connection, email: str, stays: Callable[[_Member], bool]) -> bool:
    staff = await _lock(conn)
    member = _find(staff, email)
    if member is None:
        return False
    _keep_an_admin(staff, member, stays)
    await delete_person(conn, email=email)
    return True


def _keep_an_admin(staff: list[_Member], leaving: _Member, stays: Callable[[_Member], bool]) -> None:
    """Somebody who never came in may go as long as there is another admin at all."""
    others = [each for each in staff if each.role == "admin" and each.email != leaving.email]
    if leaving.role != "admin" or current_cell() != HOME or any(stays(each) or leaving.fresh for each in others):
        return
    raise Refused(Code.VALIDATION_ERROR, fields={"role": "the last admin stays: let another one in first"})


def _find(staff: list[_Member], email: str) -> _Member | None:
    return next((each for each in staff if each.email == email), None)
