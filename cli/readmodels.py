"""`quita readmodels verify|rebuild`: compare the read tables with the journal, or build them from it."""

import argparse
import asyncio
import sys

import msgspec

from cli import running
from cli.answer import Commands, answer, family, reaching_postgres


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "readmodels", "check and rebuild the read tables")
    verbs.add_parser("verify", help="exit 1 and show the rows that differ from the journal").set_defaults(run=verify)
    verbs.add_parser("rebuild", help="make every read table anew from the journal").set_defaults(run=rebuild)


def verify(args: argparse.Namespace) -> int:
    from readmodels.verify import verify as compare

    with reaching_postgres():
        differences = msgspec.to_builtins(asyncio.run(compare(running.find().need("database_url"))))
    if args.json:
        answer(args, {"clean": not differences, "differences": differences})
    else:
        for difference in differences:
            print(msgspec.json.encode(difference).decode())
        print(f"{len(differences)} differences" if differences else "clean")
    return 1 if differences else 0


def rebuild(args: argparse.Namespace) -> int:
    from readmodels.rebuild import rebuild as make_anew

    with reaching_postgres():
        rows = asyncio.run(make_anew(running.find().need("database_url"), progress=_tell))
    return answer(args, rows)


def _tell(done: int) -> None:
    print(f"{done} journal rows", file=sys.stderr)
