"""`quita pix`: suspends and resumes issuing standalone PIX charges in production, and sets the platform's PIX key."""

import argparse
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from cli.answer import Commands, answer, family, operator, origin
from cli.cells.each import in_each_cell


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "pix", "suspend and resume issuing PIX charges in production")
    verbs.add_parser("suspend", help="refuse new PIX charges in production").set_defaults(run=suspend)
    verbs.add_parser("resume", help="allow them again").set_defaults(run=resume)
    one = verbs.add_parser("receiving-key", help="set the platform's own PIX key, which charges are received under")
    one.add_argument("pix_key", metavar="KEY", help="CPF, CNPJ, +55 and telephone, e-mail or random key")
    one.set_defaults(run=receiving_key)


def suspend(args: argparse.Namespace) -> int:
    from commands.merchants.pix_suspension import suspend_pix

    _change_and_audit(args, "pix.suspended", lambda conn, now: suspend_pix(conn, now=now))
    return answer(args, {"suspended": True})


def resume(args: argparse.Namespace) -> int:
    from commands.merchants.pix_suspension import resume_pix

    _change_and_audit(args, "pix.resumed", lambda conn, now: resume_pix(conn))
    return answer(args, {"suspended": False})


def _change_and_audit(
    args: argparse.Namespace, action: str, change: Callable[[Any, datetime], Awaitable[object]]
) -> None:
    """Makes the change in each cell, and writes a line in that cell's audit log of the platform."""
    from commands.people.audit import audit_for_platform
    from domain.merchants.staff import PLATFORM

    now = datetime.now(UTC)

    async def run(conn: Any) -> None:
        await change(conn, now)
        await audit_for_platform(conn, PLATFORM, action, {}, origin(), now=now)

    in_each_cell(args, run)


def receiving_key(args: argparse.Namespace) -> int:
    from commands.merchants.pix_key import set_receiving_key
    from domain.withdrawal import masked_key

    in_each_cell(args, lambda conn: set_receiving_key(conn, args.pix_key, by=operator(), now=datetime.now(UTC)))
    return answer(args, {"pix_key": masked_key(args.pix_key)})
