"""`quita integrator create`: partners, whose code stands on the charges they bring."""

import argparse
from datetime import UTC, datetime
from uuid import UUID

from cli.answer import answer, in_transaction


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    integrator = commands.add_parser("integrator", help="create partners")
    verbs = integrator.add_subparsers(title="commands", metavar="COMMAND", required=True)
    one = verbs.add_parser("create", help="a partner with a code of his own (INTG- and six characters)")
    one.add_argument("--name", required=True)
    one.add_argument("--account-id", type=UUID, help="the partner's own account, when he has one")
    one.set_defaults(run=create)


def create(args: argparse.Namespace) -> int:
    from commands.integrators import create_integrator

    made = in_transaction(
        lambda conn: create_integrator(conn, name=args.name, account_id=args.account_id, now=datetime.now(UTC))
    )
    return answer(args, made)
