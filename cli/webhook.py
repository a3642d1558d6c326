"""`quita webhook set`: where an account's events are sent."""

import argparse
import secrets
from datetime import UTC, datetime
from uuid import UUID

from cli import running
from cli.answer import answer, in_transaction


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    webhook = commands.add_parser("webhook", help="where events are sent")
    verbs = webhook.add_subparsers(title="commands", metavar="COMMAND", required=True)
    one = verbs.add_parser("set", help="set an account's endpoint; the signing secret is shown only once")
    one.add_argument("account_id", type=UUID)
    one.add_argument("url")
    one.set_defaults(run=set_url)


def set_url(args: argparse.Namespace) -> int:
    import asyncio
    import os

    from commands.webhooks.endpoint import check_address, set_endpoint
    from runtime.seal import Seal

    seal = Seal(running.secret_key())
    # As `quita up` does: beside a local system endpoints may be local too, anywhere else only by explicit
    # setting.
    local = (running.home() / "run.json").exists()
    private = os.environ.get("WEBHOOK_ALLOW_PRIVATE", "1" if local else "0") == "1"
    asyncio.run(check_address(args.url, allow_private=private))  # it asks DNS, so no transaction is open yet
    made = in_transaction(
        lambda conn: set_endpoint(
            conn,
            args.account_id,
            args.url,
            allow_private=private,
            now=datetime.now(UTC),
            seal=seal,
            chance=secrets.token_bytes(32),
        )
    )
    return answer(args, made)
