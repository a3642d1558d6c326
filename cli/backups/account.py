"""`quita account export|import`: moves one merchant's account to another installation, as a file."""

import argparse
import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from cli.answer import Commands, answer, checked_seal, connected, family, tell
from cli.run.child import CannotRun


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "account", "take an account from one installation to another, as a file")
    parser = verbs.add_parser("export", help="write an account that is blocked, and all of it, into a new file")
    parser.add_argument("account_id", type=UUID)
    parser.add_argument("file", type=Path)
    parser.set_defaults(run=export)
    parser = verbs.add_parser(
        "import", help="take an account from a file: all of it, compared with the file, or nothing"
    )
    parser.add_argument("file", type=Path)
    parser.set_defaults(run=import_)


def export(args: argparse.Namespace) -> int:
    from commands.merchants.account_export import AccountNotReady, export_account

    async def run() -> Any:
        async with connected("database_owner_url") as conn:
            return await export_account(
                conn, args.account_id, args.file, seal=await checked_seal(conn), now=datetime.now(UTC), progress=tell
            )

    try:
        end = asyncio.run(run())
    except AccountNotReady as why:
        raise CannotRun(str(why)) from None
    except FileExistsError:
        raise CannotRun(f"{args.file} is there already") from None
    return answer(args, {"account_id": args.account_id, "file": str(args.file), "rows": end.rows, "sha256": end.sha256})


def import_(args: argparse.Namespace) -> int:
    from commands.merchants.account_file import UnfitFile
    from commands.merchants.account_import import import_account

    async def run() -> Any:
        async with connected("database_owner_url") as conn:
            return await import_account(conn, args.file, seal=await checked_seal(conn), progress=tell)

    try:
        head, end = asyncio.run(run())
    except UnfitFile as why:
        raise CannotRun(f"nothing was changed: {why}") from None
    except OSError as error:
        raise CannotRun(f"{args.file} cannot be read: {error.strerror}") from None
    return answer(args, {"account_id": head.account_id, "name": head.name, "rows": end.rows, "sha256": end.sha256})
