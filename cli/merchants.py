"""`quita merchant list|show`: lists merchants, and shows one of them."""

import argparse
from typing import Any, Final
from uuid import UUID

from cli.answer import Commands, answer, in_transaction
from domain.instants import iso

_PAGE: Final = 100


def add_looks(verbs: Commands) -> None:
    one = verbs.add_parser("list", help="merchants, newest first; or those that something is known of")
    one.add_argument("text", nargs="?", help="an account_id, a CNPJ, a person's e-mail or the beginning of a name")
    one.add_argument("--kyc", choices=("pending", "approved", "rejected", "blocked"), help="only registrations so far")
    one.add_argument("--limit", type=_how_many, default=50, metavar="N", help="at most so many; 50 unless given")
    one.set_defaults(run=show_list)

    one = verbs.add_parser("show", help="a merchant: registration, people, webhook and balance")
    one.add_argument("account_id", type=UUID)
    one.set_defaults(run=show)


def _how_many(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError("must be a whole number, 1 or more")
    return int(text)


def show_list(args: argparse.Namespace) -> int:
    from domain.mode import Mode, Owner
    from readmodels.dashboard.platform import MerchantFilters, merchant_page

    async def found(conn: Any) -> list[Any]:
        rows: list[Any] = []
        # merchant_page ignores the owner: the list is over all accounts.
        asked, nobody, after = MerchantFilters(text=args.text, kyc=args.kyc), Owner(UUID(int=0), Mode.PRODUCTION), None
        while len(rows) < args.limit:
            page, after = await merchant_page(conn, nobody, asked, after, min(args.limit - len(rows), _PAGE))
            rows += page
            if after is None:
                break
        return [row for row in rows if args.kyc in (None, row.kyc)][: args.limit]

    rows = in_transaction(found, url="database_report_url")
    if args.json:
        told = [
            {"account_id": str(row.id), "name": row.name, "document": row.document, "kyc": row.kyc,
             "address_complete": row.complete, "created_at": iso(row.at)} for row in rows
        ]  # fmt: skip
        return answer(args, told)
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
    from readmodels.webhooks.endpoint import lanes_health

    async def found(conn: Any) -> dict[str, Any]:
        one = required(await find_merchant(conn, account_id=args.account_id), Code.WALLET_ACCOUNT_NOT_FOUND)
        people = await people_of_account(conn, args.account_id)
        lanes = await lanes_health(conn, args.account_id)
        return {
            "account_id": str(one.account_id),
            "name": one.name,
            "document": one.document,
            "kyc": one.kyc,
            "kyc_reason": one.kyc_reason,
            "address_complete": one.complete,
            "pix_key": masked_key(one.pix_key),
            "balance": reais(one.balance_cents),
            "created_at": iso(one.created_at),
            "webhook": one.webhook_url,
            "lanes": [{"mode": "test" if lane.test else "production", "state": lane.state, "waiting": lane.waiting,
                       "held": lane.held} for lane in lanes],
            "people": [{"email": each.email, "role": each.role, "second_factor": each.totp_since is not None,
                        "seen_at": each.seen_at and iso(each.seen_at)} for each in people],
        }  # fmt: skip

    # As the application's role: the reports' role may not read webhook endpoints.
    return answer(args, in_transaction(found))
