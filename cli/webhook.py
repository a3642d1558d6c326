"""`quita webhook set`: where an account's events are sent."""

import argparse
import secrets
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from cli import running
from cli.answer import Commands, answer, family, in_transaction


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "webhook", "where events are sent")
    one = verbs.add_parser("set", help="set an account's endpoint, and tell its signing secret")
    one.add_argument("account_id", type=UUID)
    one.add_argument("url")
    one.add_argument("--rotate", action="store_true", help="with a new secret; the one before signs along for 24 hours")
    one.set_defaults(run=set_url)


def set_url(args: argparse.Namespace) -> int:
    import asyncio

    from commands.webhooks.address import check_address
    from commands.webhooks.endpoint import SetEndpoint, rotate_secret, set_endpoint
    from runtime.seal import Seal

    seal = Seal(running.secret_key())
    # What the running system's deliveries go by, else what theirs would.
    found = running.find()
    private = found.webhook_allow_private
    # It asks DNS, hence outside the transaction.
    asyncio.run(check_address(args.url, allow_private=private, nameservers=found.webhook_nameservers))
    now, chance = datetime.now(UTC), secrets.token_bytes(32)

    async def change(conn: Any) -> SetEndpoint:
        made = await set_endpoint(
            conn, args.account_id, args.url, allow_private=private, now=now, seal=seal, chance=chance
        )
        if args.rotate:
            made = await rotate_secret(conn, args.account_id, now=now, seal=seal, chance=secrets.token_bytes(32))
        return made

    return answer(args, in_transaction(change))
