"""Merchants, as the operator sees them: create, approve, complete the address."""

import argparse
from datetime import UTC, datetime
from uuid import UUID

from cli.answer import answer, in_transaction


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    merchant = commands.add_parser("merchant", help="create and approve merchants")
    verbs = merchant.add_subparsers(title="commands", metavar="COMMAND", required=True)

    one = verbs.add_parser("create", help="a merchant with credentials for both modes; its secrets are shown only once")
    one.add_argument("--name", required=True)
    one.add_argument("--no-address", action="store_true", help="leave the registered address incomplete")
    one.add_argument("--kyc", choices=("approved", "pending"), default="approved")
    one.set_defaults(run=create)

    one = verbs.add_parser("approve", help="approve a merchant's registration")
    one.add_argument("account_id", type=UUID)
    one.set_defaults(run=approve)

    one = verbs.add_parser("address", help="set a merchant's registered address")
    one.add_argument("account_id", type=UUID)
    one.add_argument("--street", required=True)
    one.add_argument("--number", required=True)
    one.add_argument("--district", required=True)
    one.add_argument("--city", required=True)
    one.add_argument("--state", required=True, help="two letters")
    one.add_argument("--zip-code", required=True, help="CEP, eight digits")
    one.set_defaults(run=address)


def create(args: argparse.Namespace) -> int:
    from commands.merchants import create_merchant

    made = in_transaction(
        lambda conn: create_merchant(
            conn, name=args.name, address=not args.no_address, kyc=args.kyc, now=datetime.now(UTC)
        )
    )
    return answer(args, made)


def approve(args: argparse.Namespace) -> int:
    from commands.merchants import approve_merchant

    in_transaction(lambda conn: approve_merchant(conn, args.account_id))
    return answer(args, {"account_id": str(args.account_id), "kyc": "approved"})


def address(args: argparse.Namespace) -> int:
    from commands.merchants import set_address

    names = ("street", "number", "district", "city", "state", "zip_code")
    fields = {name: getattr(args, name) for name in names}
    in_transaction(lambda conn: set_address(conn, args.account_id, **fields))
    return answer(args, {"account_id": str(args.account_id), "address": fields})
