"""`quita staff`: manages the platform's own staff, who work at {app_url}/plataforma."""

import argparse
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from cli.answer import Commands, answer, family, in_transaction, origin, sealing
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
        one = verbs.add_parser(verb, help=text)
        one.add_argument("--email", required=True)
        if verb == "create":
            one.add_argument("--name", help="what the person is called; asked with the password unless given")
            one.add_argument("--role", choices=ROLES, default="admin", help="what the person opens (default: admin)")
        elif verb == "role":
            one.add_argument("--role", choices=ROLES, required=True)
        one.set_defaults(run=run)
    everybody = verbs.add_parser("list", help="everybody of the staff: their role, and who has a second factor")
    everybody.set_defaults(run=listed)


def create(args: argparse.Namespace) -> int:
    from commands.people.staff import INVITED, add_staff

    async def made(conn: Any) -> bool:
        await add_staff(conn, _email(args), None, role=args.role, name=args.name, now=datetime.now(UTC))
        return await _send(conn, args)

    _change(args, INVITED, made, role=args.role)
    return answer(args, {"email": _email(args), "mailed": True})


def role(args: argparse.Namespace) -> int:
    from commands.people.staff import ROLE_CHANGED, change_staff_role

    _change(args, ROLE_CHANGED, lambda conn: change_staff_role(conn, _email(args), args.role), role=args.role)
    return answer(args, {"email": _email(args), "role": args.role})


def access(args: argparse.Namespace) -> int:
    from commands.people.staff import ACCESS_SENT, is_staff

    async def sent(conn: Any) -> bool:
        return await is_staff(conn, _email(args)) and await _send(conn, args)

    _change(args, ACCESS_SENT, sent)
    return answer(args, {"email": _email(args), "mailed": True})


def reset(args: argparse.Namespace) -> int:
    from commands.people.people import clear_factor
    from commands.people.staff import FACTOR_CLEARED, is_staff

    async def cleared(conn: Any) -> bool:
        if not await is_staff(conn, _email(args)):
            return False
        await clear_factor(conn, _email(args))
        return await _send(conn, args)

    _change(args, FACTOR_CLEARED, cleared)
    return answer(args, {"email": _email(args), "mailed": True})


def remove(args: argparse.Namespace) -> int:
    from commands.people.staff import REMOVED, expel_staff

    _change(args, REMOVED, lambda conn: expel_staff(conn, _email(args)))
    return answer(args, {"email": _email(args), "removed": True})


def listed(args: argparse.Namespace) -> int:
    from readmodels.dashboard.people import staff

    found = in_transaction(staff)
    if args.json:
        told = [
            {"email": each.email, "name": each.name, "role": each.role, "second_factor": each.totp_since is not None,
             "fresh": each.fresh, "created_at": iso(each.created_at), "seen_at": each.seen_at and iso(each.seen_at)}
            for each in found
        ]  # fmt: skip
        return answer(args, told)
    for each in found:
        factor = "second factor" if each.totp_since else "password alone"
        seen = f"seen {iso(each.seen_at)}" if each.seen_at else "never seen"
        print(f"{each.email:<40}  {each.role:<10}  {factor:<14}  {seen}")
    return 0


def _change(args: argparse.Namespace, action: str, do: Callable[[Any], Awaitable[bool]], **facts: str) -> None:
    """Changes a member of staff, with a line in the audit log and a mail to all admins, as when an admin does it.
    Refused(VALIDATION_ERROR) with fields.email when `do` finds nobody."""
    from commands.people.audit import write_of_platform
    from commands.people.tell import tell_admins
    from domain.errors import Code, Refused

    by, now, email = origin(), datetime.now(UTC), _email(args)

    async def done(conn: Any) -> None:
        # Mailed before the change, so that an admin who is removed is told, and one who is added is not.
        told = {"person": email, **facts, "by": by.email}
        await tell_admins(conn, action, told, now=now, seal=await sealing(conn))
        if not await do(conn):
            raise Refused(Code.VALIDATION_ERROR, fields={"email": "is not of the staff"})
        await write_of_platform(conn, email, action, facts, by, now=now)

    in_transaction(done)


async def _send(conn: Any, args: argparse.Namespace) -> bool:
    from commands.people.links import ask_for_link

    await ask_for_link(conn, _email(args), now=datetime.now(UTC), seal=await sealing(conn))
    return True


def _email(args: argparse.Namespace) -> str:
    email: str = args.email
    return email.strip().lower()
