"""`quita webhook set`: where an account's events are sent."""

import argparse
import secrets
from datetime import UTC, datetime
from uuid import UUID

from cli import running
from cli.answer import Commands, answer, family, in_transaction


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "webhook", "where events are sent")
    one = verbs.add_parser("set", help="set an account's endpoint; the signing secret is shown only once")
    one.add_argument("account_id", type=UUID)
    one.add_argument("url")
    one.set_defaults(run=set_url)


def set_url(args: argparse.Namespace) -> int:
    import asyncio

    from commands.webhooks.address import check_address
    from commands.webhooks.endpoint import set_endpoint
    from runtime.seal import Seal

    seal = Seal(running.secret_key())
    # What the running system's deliveries go by, else what theirs would.
    found = running.find()
    private = found.webhook_allow_private
    # It asks DNS, hence outside the transaction.
    asyncio.run(check_address(args.url, allow_private=private, nameservers=found.webhook_nameservers))
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
