"""`quita staff`: the platform's own people, who work at {app_url}/plataforma."""

import argparse
from datetime import UTC, datetime
from typing import Any

from cli import running
from cli.answer import Commands, answer, family, in_transaction


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "staff", "the platform's own people")
    for verb, run, text in (
        ("create", create, "a person, who is mailed a one-time link to choose a password by"),
        ("access", access, "mail a one-time link to a person who lost the password"),
        ("reset", reset, "the same for who lost the telephone too: the second factor and all sessions end"),
        ("remove", remove, "remove a person and end the sessions"),
    ):
        one = verbs.add_parser(verb, help=text)
        one.add_argument("--email", required=True)
        one.set_defaults(run=run)


def create(args: argparse.Namespace) -> int:
    from commands.people.people import add_staff

    async def made(conn: Any) -> None:
        await add_staff(conn, _email(args), None, now=datetime.now(UTC))
        await _send(conn, args)

    in_transaction(made)
    return answer(args, {"email": _email(args), "mailed": True})


def access(args: argparse.Namespace) -> int:
    async def sent(conn: Any) -> bool:
        return await _known(conn, args) and await _send(conn, args)

    _found(in_transaction(sent))
    return answer(args, {"email": _email(args), "mailed": True})


def reset(args: argparse.Namespace) -> int:
    async def cleared(conn: Any) -> bool:
        from commands.people.people import clear_factor

        if not await _known(conn, args):
            return False
        await clear_factor(conn, _email(args))
        return await _send(conn, args)

    _found(in_transaction(cleared))
    return answer(args, {"email": _email(args), "mailed": True})


async def _known(conn: Any, args: argparse.Namespace) -> bool:
    from commands.people.people import is_staff

    return await is_staff(conn, _email(args))


async def _send(conn: Any, args: argparse.Namespace) -> bool:
    from commands.people.links import ask_for_link
    from runtime.seal import Seal

    await ask_for_link(conn, _email(args), now=datetime.now(UTC), seal=Seal(running.secret_key()))
    return True


def remove(args: argparse.Namespace) -> int:
    from commands.people.people import remove_staff

    email = _email(args)
    _found(in_transaction(lambda conn: remove_staff(conn, email)))
    return answer(args, {"email": email, "removed": True})


def _email(args: argparse.Namespace) -> str:
    email: str = args.email
    return email.strip().lower()


def _found(there: bool) -> None:
    from domain.errors import Code, Refused

    if not there:
        raise Refused(Code.VALIDATION_ERROR, fields={"email": "is not of the staff"})
