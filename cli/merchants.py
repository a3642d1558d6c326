"""`quita merchant list|show`: lists merchants, and shows one of them."""

import argparse
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from cli.answer import Commands, answer, in_transaction
from domain.instants import iso

_PAGE_ROWS: Final = 100


def add_list_and_show(verbs: Commands) -> None:
    parser = verbs.add_parser("list", help="merchants, newest first; or those that something is known of")
    parser.add_argument("text", nargs="?", help="an account_id, a CNPJ, a person's e-mail or the beginning of a name")
    parser.add_argument(
        "--kyc", choices=("pending", "approved", "rejected", "blocked"), help="only registrations in this state"
    )
    parser.add_argument(
        "--limit", type=_positive_number, default=50, metavar="N", help="at most so many; 50 unless given"
    )
    parser.set_defaults(run=show_list)

    parser = verbs.add_parser(
        "show", help="a merchant: registration, people, webhook (deliveries up to 1,000), balance"
    )
    parser.add_argument("account_id", type=UUID)
    parser.set_defaults(run=show)


def _positive_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError("must be a whole number, 1 or more")
    return int(text)


def show_list(args: argparse.Namespace) -> int:
    from domain.mode import Mode, Owner
    from readmodels.dashboard.platform import MerchantFilters, merchant_page

    async def find_rows(conn: Any) -> list[Any]:
        rows: list[Any] = []
        # merchant_page ignores the owner: the list is over all accounts.
        filters = MerchantFilters(text=args.text, kyc=args.kyc)
        nobody, after = Owner(UUID(int=0), Mode.PRODUCTION), None
        while len(rows) < args.limit:
            page, after = await merchant_page(conn, nobody, filters, after, min(args.limit - len(rows), _PAGE_ROWS))
            rows += page
            if after is None:
                break
        return [row for row in rows if args.kyc in (None, row.kyc)][: args.limit]

    rows = in_transaction(find_rows, url="database_report_url")
    if args.json:
        records = [
            {"account_id": str(row.id), "name": row.name, "document": row.document, "kyc": row.kyc,
             "address_complete": row.complete, "created_at": iso(row.at)} for row in rows
        ]  # fmt: skip
        return answer(args, records)
    for row in rows:
        print(f"{row.id}  {row.kyc:<9}  {row.document:<14}  {iso(row.at)[:10]}  {row.name}")
    return 0


def show(args: argparse.Namespace) -> int:
    """Shows a merchant, with PIX keys masked and without secrets."""
    from domain.errors import Code, required
    from domain.money import reais
    from domain.withdrawal import masked_key
    from readmodels.dashboard.people import people_of_account
    from readmodels.dashboard.platform import find_merchant
    from readmodels.money.withdrawal import find_destination
    from readmodels.webhooks.endpoint import lanes_health

    async def find_record(conn: Any) -> dict[str, Any]:
        merchant = required(await find_merchant(conn, account_id=args.account_id), Code.WALLET_ACCOUNT_NOT_FOUND)
        destination = await find_destination(conn, account_id=args.account_id, now=datetime.now(UTC))
        people = await people_of_account(conn, args.account_id)
        lanes = await lanes_health(conn, args.account_id)
        return {
            "account_id": str(merchant.account_id),
            "name": merchant.name,
            "document": merchant.document,
            "kyc": merchant.kyc,
            "kyc_reason": merchant.kyc_reason,
            "address_complete": merchant.complete,
            "pix_key": masked_key(destination.pix_key),
            "receiving_key": None if merchant.receiving_key is None else masked_key(merchant.receiving_key),
            "balance": reais(merchant.balance_cents),
            "created_at": iso(merchant.created_at),
            "webhook": merchant.webhook_url,
            "lanes": [{"mode": "test" if lane.test else "production", "state": lane.state, "waiting": lane.waiting,
                       "held": lane.held} for lane in lanes],
            "people": [{"email": each.email, "role": each.role, "second_factor": each.totp_since is not None,
                        "seen_at": each.seen_at and iso(each.seen_at)} for each in people],
        }  # fmt: skip

    # As the application's role: the reports' role may not read webhook endpoints.
    return answer(args, in_transaction(find_record))
