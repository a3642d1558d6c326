"""`quita webhook set|list|rotate|test`: an account's webhook endpoint, its signing secret, and its deliveries."""

import argparse
import asyncio
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from cli import running
from cli.answer import Commands, answer, checked_seal, family, in_transaction, operator, origin
from domain.instants import iso

if TYPE_CHECKING:
    from runtime.seal import Seal


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "webhook", "where events are sent")
    parser = verbs.add_parser("set", help="set an account's endpoint, and tell its signing secret")
    parser.add_argument("account_id", type=UUID)
    parser.add_argument("url")
    parser.add_argument(
        "--rotate", action="store_true", help="with a new secret; the one before signs along for 24 hours"
    )
    parser.set_defaults(run=set_url)

    for verb, run, text in (
        (
            "list",
            show,
            "an account's endpoint, its kinds of events, and how deliveries go (counted up to 1,000)",
        ),
        ("rotate", rotate, "a new signing secret; the one before signs along for 24 hours"),
        ("test", try_out, "have a test event delivered: a sandbox charge of 1.00, paid at once"),
    ):
        parser = verbs.add_parser(verb, help=text)
        parser.add_argument("account_id", type=UUID)
        parser.set_defaults(run=run)


def show(args: argparse.Namespace) -> int:
    from readmodels.webhooks.endpoint import lanes_health

    async def find_record(conn: Any) -> dict[str, Any]:
        endpoint = await _existing_endpoint(conn, args.account_id)
        lanes = await lanes_health(conn, args.account_id)
        return {
            "endpoint_id": str(endpoint.endpoint_id),
            "url": endpoint.url,
            "kinds": endpoint.kinds,
            "old_secrets_until": [iso(each) for each in endpoint.old_until],
            "lanes": [
                {"mode": "test" if lane.test else "production", "state": lane.state, "failures": lane.failures,
                 "waiting": lane.waiting, "held": lane.held, "given_up": lane.given_up,
                 "delivered_at": lane.delivered_at and iso(lane.delivered_at)} for lane in lanes
            ],
        }  # fmt: skip

    return answer(args, in_transaction(find_record))


async def _existing_endpoint(conn: Any, account_id: UUID) -> Any:
    from domain.errors import Code, Refused
    from readmodels.webhooks.endpoint import endpoint_of

    endpoint = await endpoint_of(conn, account_id=account_id)
    if endpoint is None:
        raise Refused(Code.VALIDATION_ERROR, fields={"account_id": "has no webhook"})
    return endpoint


def rotate(args: argparse.Namespace) -> int:
    from commands.webhooks.endpoint import SetEndpoint, rotate_secret

    now = datetime.now(UTC)

    async def change(conn: Any) -> SetEndpoint:
        seal = await checked_seal(conn)
        endpoint = await rotate_secret(conn, args.account_id, now=now, seal=seal, chance=secrets.token_bytes(32))
        await _audit_and_mail(conn, args.account_id, "webhook.rotated", {}, now, seal)
        return endpoint

    return answer(args, in_transaction(change))


async def _audit_and_mail(
    conn: Any, account_id: UUID, action: str, facts: dict[str, str], now: datetime, seal: "Seal"
) -> None:
    """Writes the change in both audit logs, and mails it to all owners, as when the dashboard makes it."""
    from commands.people.audit import SEEN_BY_THE_ACCOUNT
    from commands.people.tell import mail_owners

    await _audit_change(conn, account_id, action, facts, now)
    await mail_owners(conn, account_id, action, {**facts, "by": SEEN_BY_THE_ACCOUNT}, now=now, seal=seal)


async def _audit_change(conn: Any, account_id: UUID, action: str, facts: dict[str, str], now: datetime) -> None:
    """Writes the change in the platform's audit log and in the account's own."""
    from commands.people.audit import audit_for_account, audit_for_platform

    await audit_for_platform(conn, account_id, action, facts, origin(), now=now)
    await audit_for_account(conn, account_id, action, facts, origin(), now=now)


def try_out(args: argparse.Namespace) -> int:
    """Creates the test event. Workers deliver it within seconds; `quita webhook list` shows whether it was accepted."""
    from commands.webhooks.trial import send_trial
    from domain.pix.end_to_end import TAIL_BYTES

    now, settings = datetime.now(UTC), running.settings()

    async def send(conn: Any) -> UUID:
        await _existing_endpoint(conn, args.account_id)
        await _audit_change(conn, args.account_id, "webhook.tried", {}, now)
        return await send_trial(
            conn,
            args.account_id,
            now=now,
            bank=settings.bank,
            fees=settings.fees,
            actor=operator(),
            request_id="cli",
            chance=secrets.token_bytes(TAIL_BYTES),
            seal=await checked_seal(conn),
        )

    return answer(args, {"charge_id": str(in_transaction(send)), "event": "payment.received"})


def set_url(args: argparse.Namespace) -> int:
    from commands.webhooks.address import check_address, host_of
    from commands.webhooks.endpoint import SetEndpoint, rotate_secret, set_endpoint
    from readmodels.webhooks.endpoint import endpoint_of

    allow_private, nameservers = running.webhook_rules()
    # Outside the transaction, because it asks DNS.
    asyncio.run(check_address(args.url, allow_private=allow_private, nameservers=nameservers))
    now, chance = datetime.now(UTC), secrets.token_bytes(32)

    async def change(conn: Any) -> SetEndpoint:
        seal = await checked_seal(conn)
        is_move = await endpoint_of(conn, account_id=args.account_id) is not None
        endpoint = await set_endpoint(
            conn, args.account_id, args.url, allow_private=allow_private, now=now, seal=seal, chance=chance
        )
        action = "webhook.moved" if is_move else "webhook.registered"
        await _audit_and_mail(conn, args.account_id, action, {"host": host_of(args.url)}, now, seal)
        if args.rotate:
            endpoint = await rotate_secret(conn, args.account_id, now=now, seal=seal, chance=secrets.token_bytes(32))
            await _audit_and_mail(conn, args.account_id, "webhook.rotated", {}, now, seal)
        return endpoint

    return answer(args, in_transaction(change))
