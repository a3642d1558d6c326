"""`quita readmodels verify|rebuild`: compare the read tables with the journal, or build them from it."""

import argparse
import asyncio
import re
import sys
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from cli import running
from cli.answer import Commands, answer, connected, family, reaching_postgres
from cli.run.child import CannotRun
from domain.instants import parse_day

if TYPE_CHECKING:
    from readmodels.verify import VerifyProgress


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "readmodels", "check and rebuild the read tables")
    verify_ = verbs.add_parser("verify", help="exit 1 and show the rows that differ from the journal")
    verify_.add_argument("--account", type=UUID, help="of this account only")
    verify_.add_argument("--since", type=parse_day, metavar="DAY", help="from this day (Sao Paulo) on")
    verify_.add_argument("--until", type=parse_day, metavar="DAY", help="to this day, included")
    verify_.add_argument(
        "--slice", type=int, default=10_000, metavar="ROWS", help="at a time, in a transaction of its own"
    )
    verify_.add_argument("--resume", action="store_true", help="go on with the last verification that was not finished")
    verify_.set_defaults(run=verify)
    head_ = verbs.add_parser(
        "head",
        help="the ends of the chains over journal and audit log; keep them where nobody here can write",
    )
    head_.add_argument(
        "--check", metavar="[audit:]ID:DIGEST", help="exit 1 unless the chain had this digest at this row"
    )
    head_.set_defaults(run=head)
    rebuild_ = verbs.add_parser("rebuild", help="make every read table anew from the journal")
    rebuild_.add_argument("--resume", action="store_true", help="go on with the last rebuild that was not finished")
    rebuild_.set_defaults(run=rebuild)


def head(args: argparse.Namespace) -> int:
    from readmodels.seals import Chain, ChainSeal, chain_head

    if args.check:
        return _check(args)

    async def find() -> list[ChainSeal | None]:
        async with connected() as conn:
            return [await chain_head(conn, chain=chain) for chain in Chain]

    journal, audit = asyncio.run(find())
    if journal is None and audit is None:
        raise CannotRun("nothing is sealed yet: a worker seals what is written within seconds")
    ours = msgspec.to_builtins(journal) if journal else dict.fromkeys(ChainSeal.__struct_fields__)
    return answer(args, {**ours, "audit": audit})


def _check(args: argparse.Namespace) -> int:
    from readmodels.seals import Chain, ChainSeal, seal_at

    asked = re.fullmatch(r"(?:(journal|audit):)?([0-9]{1,18}):([0-9A-Fa-f]+)", args.check.strip())
    if asked is None:
        raise CannotRun("--check takes what `head` printed, as ID:DIGEST, or audit:ID:DIGEST of the audit log")
    chain, last_id = Chain(asked[1] or Chain.JOURNAL), int(asked[2])

    async def find() -> ChainSeal | None:
        async with connected() as conn:
            return await seal_at(conn, chain=chain, last_id=last_id)

    found = asyncio.run(find())
    same = found is not None and found.digest == asked[3].lower()
    answer(args, {"chain": chain, "last_id": last_id, "same": same})
    return 0 if same else 1


def verify(args: argparse.Namespace) -> int:
    from readmodels.verify import NothingToResume, resume
    from readmodels.verify import verify as compare
    from readmodels.verify_scope import VerifyScope

    scope = VerifyScope(args.account, args.since, args.until, rows_max=args.slice)
    if args.resume and not scope.everything:
        raise CannotRun("--resume goes on with the bounds that the verification had")
    if args.slice < 1:
        raise CannotRun("--slice is at least 1")
    if args.since and args.until and args.until < args.since:
        raise CannotRun("--until is before --since")
    database_url = running.find().need("database_url")
    with reaching_postgres():
        try:
            going = (
                resume(database_url, progress=_tell_slice)
                if args.resume
                else compare(database_url, scope=scope, progress=_tell_slice)
            )
            differences = msgspec.to_builtins(asyncio.run(going))
        except NothingToResume as error:
            raise CannotRun(str(error)) from None
    if args.json:
        answer(args, {"clean": not differences, "differences": differences})
    else:
        for difference in differences:
            print(msgspec.json.encode(difference).decode())
        print(f"{len(differences)} differences" if differences else "clean")
    return 1 if differences else 0


def _tell_slice(done: "VerifyProgress") -> None:
    found = f", {done.differences} differences" if done.differences else ""
    print(f"{done.part}: slice {done.slices}, {done.rows} rows{found}", file=sys.stderr)


def rebuild(args: argparse.Namespace) -> int:
    from readmodels.rebuild import rebuild as make_anew
    from readmodels.rebuild import resume_rebuild
    from readmodels.verify import NothingToResume

    make = resume_rebuild if args.resume else make_anew
    with reaching_postgres():
        try:
            rows = asyncio.run(make(running.find().need("database_url"), progress=_tell))
        except NothingToResume as error:
            raise CannotRun(str(error)) from None
    return answer(args, rows)


def _tell(done: int) -> None:
    print(f"{done} journal rows", file=sys.stderr)
