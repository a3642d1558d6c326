"""`quita rekey`: seals all sealed columns again with the first key of SECRET_KEY."""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from cli import running
from cli.answer import Commands, answer, checked_seal, connected

if TYPE_CHECKING:
    from commands.sealed import Rekeyed, SealedColumn


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "rekey",
        help="seal everything with the first key of SECRET_KEY (id:hex,id:hex) that an older one has sealed",
        description="May be interrupted and run again, while everything runs. Exit 1 when something cannot be opened.",
    )
    parser.set_defaults(run=rekey)


def rekey(args: argparse.Namespace) -> int:
    from commands.sealed import rekey as seal_anew
    from runtime.servers.sealing_keys import record_keys

    async def run() -> "Rekeyed":
        async with connected() as conn:
            seal = await checked_seal(conn)
            # Before anything is sealed with it: a process without this key must learn that it lacks one.
            await record_keys(conn, seal)
            return await seal_anew(conn, seal, progress=_tell_progress)

    result = asyncio.run(run())
    answer(args, {"key": running.secret_key().current, "resealed": result.resealed, "unopened": result.unopened})
    if result.unopened:
        print(f"{result.unopened} rows are sealed with a key that SECRET_KEY does not have", file=sys.stderr)
    return 1 if result.unopened else 0


def _tell_progress(column: "SealedColumn", done: int, pages: int, resealed: int) -> None:
    if sys.stderr.isatty() or done == pages:
        print(f"{column}: {done} of {pages} pages, {resealed} sealed anew", file=sys.stderr)
