"""`quita merchant`: create, approve, reject and block merchants, give their people access, and change their address,
PIX keys, rate, fees and withdrawals."""

import argparse
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from cli import merchants
from cli.answer import Commands, answer, checked_seal, existing_account, family, in_transaction, origin
from cli.run.child import CannotRun
from cli.running import from_environment


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "merchant", "create and approve merchants")

    _add_create(verbs)
    merchants.add_list_and_show(verbs)
    parser = verbs.add_parser(
        "reset", help="a link for who lost password and telephone: the second factor is off, all owners are told"
    )
    parser.add_argument("account_id", type=UUID)
    parser.add_argument("email")
    parser.add_argument("--reason", dest="factor_lost", metavar="REASON", required=True, help="how you know who asks")
    parser.set_defaults(run=access)

    parser = verbs.add_parser(
        "access", help="mail a one-time link to a merchant's person, who chooses a password by it"
    )
    parser.add_argument("account_id", type=UUID)
    parser.add_argument("email")
    parser.add_argument("--factor-lost", metavar="REASON", help="turn the second factor off too, and write down why")
    parser.set_defaults(run=access)

    for verb, kyc, text in (
        ("approve", "approved", "approve a merchant's registration"),
        ("reject", "rejected", "reject a registration that waits"),
        ("block", "blocked", "let an approved merchant issue nothing more in production"),
    ):
        parser = verbs.add_parser(verb, help=text)
        parser.add_argument("account_id", type=UUID)
        parser.add_argument("--reason", default="", required=verb != "approve")
        parser.set_defaults(run=decide, kyc=kyc)

    parser = verbs.add_parser("address", help="set a merchant's registered address")
    parser.add_argument("account_id", type=UUID)
    parser.add_argument("--street", required=True)
    parser.add_argument("--number", required=True)
    parser.add_argument("--district", required=True)
    parser.add_argument("--city", required=True)
    parser.add_argument("--state", required=True, help="two letters")
    parser.add_argument("--zip-code", required=True, help="CEP, eight digits")
    parser.set_defaults(run=address)

    _add_keys(verbs)
    parser = verbs.add_parser("rate", help="bound a merchant's requests, for each of its credentials, from now on")
    parser.add_argument("account_id", type=UUID)
    parser.add_argument("--per-second", type=int, metavar="N", help="the platform's default unless given")
    parser.add_argument("--burst", type=int, metavar="N", help="at once; the platform's default unless given")
    parser.set_defaults(run=rate)

    _add_fees(verbs)
    parser = verbs.add_parser("auto-withdraw", help="have a merchant's balance sent to its PIX key once a day, or not")
    parser.add_argument("account_id", type=UUID)
    switch = parser.add_mutually_exclusive_group(required=True)
    switch.add_argument("--on", action="store_true")
    switch.add_argument("--off", action="store_true")
    parser.add_argument("--keep", type=_cents, default=0, metavar="AMOUNT", help="what stays, in reais: 100.00")
    parser.set_defaults(run=auto_withdraw)


def _add_keys(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "pix-key", help="set the platform's PIX key that this merchant's charges are received under, from now on"
    )
    parser.add_argument("account_id", type=UUID)
    parser.add_argument("pix_key", metavar="KEY", help="CPF, CNPJ, +55 and telephone, e-mail or random key")
    parser.set_defaults(run=pix_key)

    parser = verbs.add_parser(
        "payout-key", help="ask for another key for a merchant's withdrawals; staff confirm it, and it waits 24 h"
    )
    parser.add_argument("account_id", type=UUID)
    parser.add_argument("pix_key", metavar="KEY", help="CPF, CNPJ, +55 and telephone, e-mail or random key")
    parser.add_argument("--document", required=True, help="CPF or CNPJ of the key's owner")
    parser.set_defaults(run=payout_key)

    parser = verbs.add_parser(
        "refunds", help="whom a merchant's refunds by transfer may go to: the payer, or others too"
    )
    parser.add_argument("account_id", type=UUID)
    switch = parser.add_mutually_exclusive_group(required=True)
    switch.add_argument("--to-payer", action="store_true", help="to the payer of the charge alone, as it is at first")
    switch.add_argument("--to-others", metavar="REASON", help="to others too, for this reason")
    parser.set_defaults(run=refunds)


def _add_fees(verbs: Commands) -> None:
    parser = verbs.add_parser("fees", help="show what a merchant is charged, or agree on other fees; from now on")
    parser.add_argument("account_id", type=UUID)
    parser.add_argument("--default", action="store_true", help="what the platform charges unless said otherwise")
    parser.add_argument("--pix-percent", type=_cents, metavar="PERCENT", help="of a payment by PIX: 0.99")
    for name, what in (
        ("--pix", "a payment by PIX, beside the percentage"),
        ("--pix-min", "at least, of a payment by PIX"),
        ("--pix-max", "at most, of a payment by PIX"),
        ("--boleto", "a boleto that is paid"),
        ("--withdrawal", "a withdrawal"),
    ):
        parser.add_argument(name, type=_cents, metavar="AMOUNT", help=f"{what}, in reais: 0.50; none unless given")
    parser.add_argument("--reason", help="required for a change; both audit logs and the owners' mail have it")
    parser.set_defaults(run=fees)


def _add_create(verbs: Commands) -> None:
    parser = verbs.add_parser(
        "create",
        help="a merchant that waits for approval, whose owner is mailed a link; in local work one that is ready,"
        " with its secrets shown only once",
    )
    parser.add_argument("--name", required=True, help="as the Receita Federal has it")
    parser.add_argument("--document", metavar="CNPJ")
    parser.add_argument("--email", help="of the owner")
    parser.add_argument("--payout-key", metavar="KEY", help="the owner's PIX key that withdrawals go to")
    parts = ("STREET", "NUMBER", "DISTRICT", "CITY", "STATE", "CEP")
    parser.add_argument("--address", nargs=len(parts), metavar=parts)
    parser.add_argument("--demo", action="store_true", help="local work: invent what is missing, and approve")
    parser.add_argument("--no-address", action="store_true", help="local work: leave the registered address incomplete")
    parser.add_argument("--kyc", choices=("approved", "pending"), help="local work: approved unless given")
    parser.set_defaults(run=create)


def create(args: argparse.Namespace) -> int:
    """Registers a real merchant when all data is given; QUITA_ENV=production requires all. Else invents the missing
    data for local work."""
    from runtime.production import environment

    production = environment(os.environ) == "production"
    options = (("--demo", args.demo), ("--no-address", args.no_address), ("--kyc", args.kyc))
    local_only = [option for option, value in options if value]
    if production and local_only:
        raise CannotRun(f"{', '.join(local_only)} is for local work, and QUITA_ENV is production")
    needed = {name: getattr(args, name) for name in ("document", "email", "payout_key", "address")}
    missing = [f"--{name.replace('_', '-')}" for name, value in needed.items() if value is None]
    if production and missing:
        raise CannotRun(f"QUITA_ENV=production needs {', '.join(missing)} too")
    return _create_local(args) if missing or local_only else _register(args)


def _register(args: argparse.Namespace) -> int:
    from commands.merchants.registration import Address, MerchantRegistration, register_merchant
    from commands.people.audit import audit_for_platform
    from runtime.ids import new_id
    from runtime.limits.variables import switch

    registration = MerchantRegistration(
        name=args.name.strip(),
        document=_without_punctuation(args.document),
        email=args.email.strip().lower(),
        payout_key=args.payout_key.strip(),
        address=Address(*args.address),
    )
    letters = from_environment(lambda env: switch(env, "CNPJ_WITH_LETTERS"))

    async def register(conn: Any) -> Any:
        account_id, now, seal = new_id(), datetime.now(UTC), await checked_seal(conn)
        made = await register_merchant(conn, registration, account_id=account_id, letters=letters, now=now, seal=seal)
        facts = {"name": made.name, "cnpj": registration.document}
        await audit_for_platform(conn, account_id, "merchant.registered", facts, origin(), now=now)
        return made

    return answer(args, in_transaction(register))


def _create_local(args: argparse.Namespace) -> int:
    from commands.merchants.merchants import create_merchant
    from commands.merchants.registration import Address

    details: dict[str, Any] = {
        "document": args.document and _without_punctuation(args.document),
        "payout_key": args.payout_key,
        "email": args.email and args.email.strip().lower(),
        "kyc": args.kyc or "approved",
    }
    if args.address:
        details["at"] = Address(*args.address)
    merchant = in_transaction(
        lambda conn: create_merchant(
            conn, name=args.name, address=not args.no_address, now=datetime.now(UTC), **details
        )
    )
    return answer(args, merchant)


def _change_and_audit(
    account_id: UUID, action: str, facts: dict[str, Any], change: Callable[[Any], Awaitable[object]], own: bool = False
) -> None:
    """Changes an account and writes a line in the platform's audit log, as the pages do; with `own` in its own too."""
    from commands.people.audit import audit_for_account, audit_for_platform

    async def run(conn: Any) -> None:
        by, now = origin(), datetime.now(UTC)
        await change(conn)
        await audit_for_platform(conn, account_id, action, facts, by, now=now)
        if own:
            await audit_for_account(conn, account_id, action, facts, by, now=now)

    in_transaction(run)


async def _mail_owners(conn: Any, account_id: UUID, kind: str, facts: dict[str, str]) -> None:
    from commands.people.audit import SEEN_BY_THE_ACCOUNT
    from commands.people.tell import mail_owners

    facts = {**facts, "by": SEEN_BY_THE_ACCOUNT}
    await mail_owners(conn, account_id, kind, facts, now=datetime.now(UTC), seal=await checked_seal(conn))


def access(args: argparse.Namespace) -> int:
    from commands.people.access import send_access
    from commands.people.audit import audit_for_platform

    email, factor_lost = args.email.strip().lower(), args.factor_lost
    now, by = datetime.now(UTC), origin()

    async def send(conn: Any) -> None:
        seal = await checked_seal(conn)
        action = await send_access(conn, args.account_id, email, by, factor_lost=factor_lost, now=now, seal=seal)
        facts = {"person": email, **({"reason": factor_lost} if factor_lost else {})}
        await audit_for_platform(conn, args.account_id, action, facts, by, now=now)

    in_transaction(send)
    return answer(args, {"account_id": str(args.account_id), "email": email, "mailed": True})


def decide(args: argparse.Namespace) -> int:
    from commands.merchants.kyc import Kyc, decide_demo_kyc, decide_kyc
    from runtime.production import environment

    # In local work `create` makes accounts without an address; decide_demo_kyc approves them as they are.
    command = decide_demo_kyc if environment(os.environ) == "local" else decide_kyc
    _change_and_audit(
        args.account_id,
        f"merchant.{args.kyc}",
        {"reason": args.reason} if args.reason else {},
        lambda conn: command(conn, args.account_id, Kyc(args.kyc), args.reason, now=datetime.now(UTC)),
    )
    return answer(args, {"account_id": str(args.account_id), "kyc": args.kyc})


def address(args: argparse.Namespace) -> int:
    from commands.merchants.registration import Address, set_address

    new_address = Address(args.street, args.number, args.district, args.city, args.state, args.zip_code)
    _change_and_audit(
        args.account_id, "merchant.address_changed", {}, lambda conn: set_address(conn, args.account_id, new_address)
    )
    return answer(args, {"account_id": str(args.account_id), "address": new_address})


def pix_key(args: argparse.Namespace) -> int:
    from commands.merchants.pix_key import set_pix_key
    from domain.withdrawal import masked_key

    in_transaction(lambda conn: set_pix_key(conn, args.account_id, args.pix_key, origin(), now=datetime.now(UTC)))
    return answer(args, {"account_id": str(args.account_id), "pix_key": masked_key(args.pix_key)})


def payout_key(args: argparse.Namespace) -> int:
    from commands.merchants.payout_key import ASKED, ask_payout_key
    from domain.merchants.payout import PayoutKey
    from domain.withdrawal import masked_key

    by, now, facts = origin(), datetime.now(UTC), {"pix_key": masked_key(args.pix_key)}

    async def change(conn: Any) -> None:
        key = PayoutKey(args.pix_key, _without_punctuation(args.document))
        await ask_payout_key(conn, args.account_id, key, by=by.email, by_staff=True, now=now)
        await _mail_owners(conn, args.account_id, "payout_key.proposed", {"destination": masked_key(args.pix_key)})

    _change_and_audit(args.account_id, ASKED, facts, change, own=True)
    return answer(args, {"account_id": str(args.account_id), **facts, "waits_for": "a member of staff"})


def refunds(args: argparse.Namespace) -> int:
    from commands.merchants.refund_exemption import BOUND, FREED, end_refund_exemption, exempt_refunds

    account_id, by, now, reason = args.account_id, origin(), datetime.now(UTC), args.to_others
    if reason is None:
        _change_and_audit(account_id, BOUND, {}, lambda conn: end_refund_exemption(conn, account_id, by, now=now))
    else:
        _change_and_audit(
            account_id, FREED, {"reason": reason}, lambda conn: exempt_refunds(conn, account_id, reason, by, now=now)
        )
    return answer(args, {"account_id": str(args.account_id), "refunds_to_others": reason is not None})


def rate(args: argparse.Namespace) -> int:
    from commands.merchants.merchants import set_rate

    _change_and_audit(
        args.account_id,
        "merchant.rate_changed",
        {"per_second": args.per_second or "padrão", "burst": args.burst or "padrão"},
        lambda conn: set_rate(conn, args.account_id, per_s=args.per_second, burst=args.burst),
        own=True,
    )
    return answer(args, {"account_id": str(args.account_id), "per_second": args.per_second, "burst": args.burst})


def fees(args: argparse.Namespace) -> int:
    from commands.money.fees import SET, fee_facts, own_terms, set_fees
    from domain.merchants.fees import FeeTerms

    options = (args.pix_percent, args.pix, args.pix_min, args.pix_max, args.boleto, args.withdrawal)
    has_terms = any(value is not None for value in options)
    if args.default and has_terms:
        raise CannotRun("--default is all of the platform's fees: nothing else goes with it")
    if not args.default and not has_terms:

        async def find_terms(conn: Any) -> FeeTerms | None:
            return await own_terms(conn, await existing_account(conn, args.account_id))

        return answer(args, {"account_id": str(args.account_id), "fees": _in_reais(in_transaction(find_terms))})
    if not args.reason:
        raise CannotRun("--reason is missing")
    terms: FeeTerms | None = None
    if has_terms:
        terms = FeeTerms(
            pix_bps=args.pix_percent or 0,
            pix_cents=args.pix or 0,
            pix_cents_min=args.pix_min or 0,
            pix_cents_max=args.pix_max,
            boleto_cents=args.boleto or 0,
            withdrawal_cents=args.withdrawal or 0,
        )

    async def change(conn: Any) -> None:
        seal = await checked_seal(conn)
        await set_fees(conn, args.account_id, terms, args.reason, origin(), now=datetime.now(UTC), seal=seal)

    _change_and_audit(args.account_id, SET, fee_facts(terms, args.reason), change)
    return answer(args, {"account_id": str(args.account_id), "fees": _in_reais(terms)})


def _in_reais(terms: Any) -> Any:
    from domain.money import reais

    if terms is None:
        return "default"
    return {
        "pix_percent": reais(terms.pix_bps),
        "pix": reais(terms.pix_cents),
        "pix_min": reais(terms.pix_cents_min),
        "pix_max": None if terms.pix_cents_max is None else reais(terms.pix_cents_max),
        "boleto": reais(terms.boleto_cents),
        "withdrawal": reais(terms.withdrawal_cents),
    }


def auto_withdraw(args: argparse.Namespace) -> int:
    from commands.money.withdraw import end_daily, set_daily
    from domain.brazilian import brl
    from domain.money import reais
    from domain.withdrawal import masked_key
    from readmodels.money.withdrawal import find_destination

    account_id, keep = args.account_id, {} if args.off else {"keep": reais(args.keep)}
    action = "withdrawal.daily_ended" if args.off else "withdrawal.daily_set"

    async def change(conn: Any) -> None:
        if args.off:
            await end_daily(conn, account_id)
            return
        await set_daily(conn, account_id, keep_cents=args.keep)
        key = (await find_destination(conn, account_id=account_id, now=datetime.now(UTC))).pix_key
        await _mail_owners(conn, account_id, action, {"kept": brl(args.keep), "destination": masked_key(key)})

    _change_and_audit(account_id, action, keep, change, own=True)
    return answer(args, {"account_id": str(account_id), "auto_withdraw": not args.off, **keep})


def _without_punctuation(document: str) -> str:
    from domain.documents import without_marks

    return without_marks(document).upper()


def _cents(text: str) -> int:
    from domain.money import PIX_CENTS_MAX, parse_amount

    if text in ("0", "0.00"):
        return 0
    try:
        return parse_amount(text, cents_max=PIX_CENTS_MAX)
    except ValueError:
        raise argparse.ArgumentTypeError('must be an amount such as "100.00"') from None
