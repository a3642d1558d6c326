"""`quita pix suspend|resume`: stop and allow issuing standalone PIX charges in production."""

import argparse
from datetime import UTC, datetime

from cli.answer import Commands, answer, family, in_transaction


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "pix", "suspend and resume issuing PIX charges in production")
    verbs.add_parser("suspend", help="refuse new PIX charges in production").set_defaults(run=suspend)
    verbs.add_parser("resume", help="allow them again").set_defaults(run=resume)


def suspend(args: argparse.Namespace) -> int:
    from commands.merchants.pix_suspension import suspend_pix

    in_transaction(lambda conn: suspend_pix(conn, now=datetime.now(UTC)))
    return answer(args, {"suspended": True})


def resume(args: argparse.Namespace) -> int:
    from commands.merchants.pix_suspension import resume_pix

    in_transaction(lambda conn: resume_pix(conn, now=datetime.now(UTC)))
    return answer(args, {"suspended": False})
