"""`quita payer erase|export`: erases or exports the data held of a payer at one merchant, by the payer's document."""

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from cli.answer import Commands, answer, checked_seal, connected, existing_account, family, origin, tell
from cli.run.child import CannotRun

if TYPE_CHECKING:
    from domain.mode import Owner


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "payer", "show or erase what is held of a payer")
    erase_ = verbs.add_parser("erase", help="make everything about a payer unreadable; the books stay as they are")
    export_ = verbs.add_parser("export", help="everything that is held of a payer, opened")
    for parser in (erase_, export_):
        parser.add_argument("--account", type=UUID, required=True, metavar="ACCOUNT_ID")
        parser.add_argument("--document", required=True, metavar="CPF", help="or CNPJ, as the merchant gave it")
        parser.add_argument("--test", action="store_true", help="of test charges")
    erase_.add_argument("--reason", default="asked for by the payer", help="for the audit log; it names nobody")
    erase_.add_argument("--yes", action="store_true", help="do not ask")
    erase_.set_defaults(run=erase)
    export_.set_defaults(run=export)


def erase(args: argparse.Namespace) -> int:
    from commands.payers.erase import ErasedPayer, OpenBusiness, erase_payer

    owner, document = _owner_and_document(args)
    if not args.yes and not _is_confirmed():
        raise CannotRun("nothing was erased: say --yes, or answer yes")

    async def run() -> ErasedPayer:
        async with connected() as conn:
            document_hash = (await checked_seal(conn)).blind(document)
            await existing_account(conn, args.account)
            now = datetime.now(UTC)
            return await erase_payer(
                conn, owner, document_hash, args.reason, origin(), now=now, progress=_tell_progress
            )

    try:
        erased = asyncio.run(run())
    except OpenBusiness as open_business:
        raise CannotRun(f"this payer still has {open_business}: end these first, then ask again") from None
    return answer(args, {"account_id": str(args.account), "charges": erased.charges, "schedules": erased.schedules})


def export(args: argparse.Namespace) -> int:
    from commands.payers.export import ExportedPayer, export_payer

    owner, document = _owner_and_document(args)

    async def run() -> ExportedPayer:
        async with connected() as conn:
            seal = await checked_seal(conn)
            await existing_account(conn, args.account)
            return await export_payer(conn, owner, seal.blind(document), origin(), now=datetime.now(UTC), seal=seal)

    return answer(args, {"account_id": str(args.account), **msgspec.to_builtins(asyncio.run(run()))})


def _owner_and_document(args: argparse.Namespace) -> "tuple[Owner, str]":
    from domain.documents import well_formed, without_marks
    from domain.mode import Owner

    document = without_marks(args.document).upper()
    if not well_formed(document, letters=True):
        raise CannotRun("--document is a CPF of 11 digits or a CNPJ of 14")
    return Owner.of(args.account, args.test), document


def _is_confirmed() -> bool:
    if not sys.stdin.isatty():
        return False
    return input("This cannot be undone. Erase this payer? Type yes: ").strip().lower() == "yes"


def _tell_progress(charges: int) -> None:
    tell(f"{charges} charges")
