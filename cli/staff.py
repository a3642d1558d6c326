"""`quita staff`: manages the platform's own staff, who work at {app_url}/plataforma."""

import argparse
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from cli.answer import Commands, answer, checked_seal, family, in_transaction, origin
from domain.instants import iso


def add_commands(commands: Commands) -> None:
    from domain.merchants.staff import ROLES

    verbs = family(commands, "staff", "the platform's own people")
    for verb, run, text in (
        ("create", create, "a person, who is mailed a one-time link to choose a password by"),
        ("role", role, "give a person another role"),
        ("access", access, "mail a one-time link to a person who lost the password"),
        ("reset", reset, "the same for who lost the telephone too: the second factor and all sessions end"),
        ("remove", remove, "remove a person and end the sessions"),
    ):
        parser = verbs.add_parser(verb, help=text)
        parser.add_argument("--email", required=True)
        if verb == "create":
            parser.add_argument("--name", help="what the person is called; asked with the password unless given")
            parser.add_argument("--role", choices=ROLES, default="admin", help="what the person opens (default: admin)")
        elif verb == "role":
            parser.add_argument("--role", choices=ROLES, required=True)
        parser.set_defaults(run=run)
    list_parser = verbs.add_parser("list", help="everybody of the staff: their role, and who has a second factor")
    list_parser.set_defaults(run=listed)


def create(args: argparse.Namespace) -> int:
    from commands.people.staff import INVITED, add_staff

    async def add_and_invite(conn: Any) -> bool:
        await add_staff(conn, _email(args), None, role=args.role, name=args.name, now=datetime.now(UTC))
        return await _send_link(conn, args)

    _change_and_audit(args, INVITED, add_and_invite, role=args.role)
    return answer(args, {"email": _email(args), "mailed": True})


def role(args: argparse.Namespace) -> int:
    from commands.people.staff import ROLE_CHANGED, change_staff_role

    _change_and_audit(args, ROLE_CHANGED, lambda conn: change_staff_role(conn, _email(args), args.role), role=args.role)
    return answer(args, {"email": _email(args), "role": args.role})


def access(args: argparse.Namespace) -> int:
    from commands.people.staff import ACCESS_SENT, is_staff

    async def send_if_staff(conn: Any) -> bool:
        return await is_staff(conn, _email(args)) and await _send_link(conn, args)

    _change_and_audit(args, ACCESS_SENT, send_if_staff)
    return answer(args, {"email": _email(args), "mailed": True})


def reset(args: argparse.Namespace) -> int:
    from commands.people.people import clear_factor
    from commands.people.staff import FACTOR_CLEARED, is_staff

    async def clear_and_send(conn: Any) -> bool:
        if not await is_staff(conn, _email(args)):
            return False
        await clear_factor(conn, _email(args))
        return await _send_link(conn, args)

    _change_and_audit(args, FACTOR_CLEARED, clear_and_send)
    return answer(args, {"email": _email(args), "mailed": True})


def remove(args: argparse.Namespace) -> int:
    from commands.people.staff import REMOVED, expel_staff

    _change_and_audit(args, REMOVED, lambda conn: expel_staff(conn, _email(args)))
    return answer(args, {"email": _email(args), "removed": True})


def listed(args: argparse.Namespace) -> int:
    from readmodels.dashboard.people import staff

    people = in_transaction(staff)
    if args.json:
        records = [
            {"email": each.email, "name": each.name, "role": each.role, "second_factor": each.totp_since is not None,
             "fresh": each.fresh, "created_at": iso(each.created_at), "seen_at": each.seen_at and iso(each.seen_at)}
            for each in people
        ]  # fmt: skip
        return answer(args, records)
    for each in people:
        factor = "second factor" if each.totp_since else "password alone"
        seen = f"seen {iso(each.seen_at)}" if each.seen_at else "never seen"
        print(f"{each.email:<40}  {each.role:<10}  {factor:<14}  {seen}")
    return 0


def _change_and_audit(
    args: argparse.Namespace, action: str, command: Callable[[Any], Awaitable[bool]], **facts: str
) -> None:
    """Changes a member of staff, with a line in the audit log and a mail to all admins, as when an admin does it.
    Refused(VALIDATION_ERROR) with fields.email when `command` finds nobody."""
    from commands.people.audit import audit_for_platform
    from commands.people.tell import mail_admins
    from domain.errors import Code, Refused

    by, now, email = origin(), datetime.now(UTC), _email(args)

    async def mail_and_change(conn: Any) -> None:
        # Mailed before the change, so that an admin who is removed is told, and one who is added is not.
        mail_facts = {"person": email, **facts, "by": by.email}
        await mail_admins(conn, action, mail_facts, now=now, seal=await checked_seal(conn))
        if not await command(conn):
            raise Refused(Code.VALIDATION_ERROR, fields={"email": "is not of the staff"})
        await audit_for_platform(conn, email, action, facts, by, now=now)

    in_transaction(mail_and_change)


async def _send_link(conn: Any, args: argparse.Namespace) -> bool:
    from commands.people.links import ask_for_link

    await ask_for_link(conn, _email(args), now=datetime.now(UTC), seal=await checked_seal(conn))
    return True


def _email(args: argparse.Namespace) -> str:
    email: str = args.email
    return email.strip().lower()
