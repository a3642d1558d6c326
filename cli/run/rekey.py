"""`quita rekey`: seals all sealed columns of every cell again with the first key of SECRET_KEY."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from cli import running
from cli.answer import Commands, answer, checked_seal
from cli.cells.each import on_each_cell

if TYPE_CHECKING:
    from commands.sealed import SealedColumn


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

    resealed = unopened = 0

    async def rekey_cell(conn: Any) -> None:
        nonlocal resealed, unopened
        seal = await checked_seal(conn)
        # Before anything is sealed with it: a process without this key must learn that it lacks one.
        await record_keys(conn, seal)
        done = await seal_anew(conn, seal, progress=_tell_progress)
        resealed, unopened = resealed + done.resealed, unopened + done.unopened

    on_each_cell(args, rekey_cell)
    answer(args, {"key": running.secret_key().current, "resealed": resealed, "unopened": unopened})
    if unopened:
        print(f"{unopened} rows are sealed with a key that SECRET_KEY does not have", file=sys.stderr)
    return 1 if unopened else 0


def _tell_progress(column: "SealedColumn", done: int, pages: int, resealed: int) -> None:
    if sys.stderr.isatty() or done == pages:
        print(f"{column}: {done} of {pages} pages, {resealed} sealed anew", file=sys.stderr)
