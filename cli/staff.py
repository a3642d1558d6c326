"""`quita staff`: the platform's own people, who work at {app_url}/plataforma."""

import argparse
import secrets
from datetime import UTC, datetime

from cli.answer import Commands, answer, family, in_transaction


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "staff", "the platform's own people")
    for verb, run, text in (
        ("create", create, "a person with a password, which is shown only once"),
        ("reset", reset, "a new password, shown once; the second factor and all sessions end"),
        ("remove", remove, "remove a person and end the sessions"),
    ):
        one = verbs.add_parser(verb, help=text)
        one.add_argument("--email", required=True)
        one.set_defaults(run=run)


def create(args: argparse.Namespace) -> int:
    from commands.people.people import add_staff
    from runtime.passwords import hash_password

    email, password = _email(args), secrets.token_urlsafe(15)
    in_transaction(lambda conn: add_staff(conn, email, hash_password(password), now=datetime.now(UTC)))
    return answer(args, {"email": email, "password": password})


def reset(args: argparse.Namespace) -> int:
    from commands.people.people import reset_staff
    from runtime.passwords import hash_password

    email, password = _email(args), secrets.token_urlsafe(15)
    _found(in_transaction(lambda conn: reset_staff(conn, email, hash_password(password))))
    return answer(args, {"email": email, "password": password})


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
