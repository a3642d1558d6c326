"""`quita readmodels verify|head|rebuild`: compares the read tables with the journal, prints the heads of the chains
over journal and audit log, or rebuilds the tables."""

import argparse
import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import msgspec

from cli import running
from cli.answer import Commands, answer, connected, existing_account, family, in_transaction, reaching_postgres, tell
from cli.cells.ask import Answers, CellAddress, ask_each, cells_of, takes_all
from cli.run.child import CannotRun
from domain.instants import parse_day

T = TypeVar("T")

if TYPE_CHECKING:
    from readmodels.seals import ChainSeal
    from readmodels.verify import VerifyProgress
    from readmodels.verify_scope import VerifyScope

_FIRST_DAY, _LAST_DAY = date(2000, 1, 1), date(9900, 12, 31)


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
    verify_.set_defaults(run=verify, each_cell=True)
    head_ = verbs.add_parser(
        "head",
        help="the ends of the chains over journal and audit log; keep them where nobody here can write",
    )
    head_.add_argument(
        "--check", metavar="[audit:]ID:DIGEST", help="exit 1 unless the chain had this digest at this row"
    )
    head_.set_defaults(run=head, each_cell=True)
    rebuild_ = verbs.add_parser("rebuild", help="make every read table anew from the journal")
    rebuild_.add_argument("--resume", action="store_true", help="go on with the last rebuild that was not finished")
    rebuild_.set_defaults(run=rebuild)


def head(args: argparse.Namespace) -> int:
    from readmodels.seals import Chain, ChainSeal, chain_head

    if args.check:
        if takes_all(args):
            raise CannotRun("--check is of one cell's chain: --cell NAME")
        return _check_head(args)

    async def find(conn: Any) -> tuple[ChainSeal | None, ChainSeal | None]:
        return await chain_head(conn, chain=Chain.JOURNAL), await chain_head(conn, chain=Chain.AUDIT)

    async def find_here() -> tuple[ChainSeal | None, ChainSeal | None]:
        async with connected() as conn:
            return await find(conn)

    async def find_all() -> Answers[tuple[ChainSeal | None, ChainSeal | None]]:
        return await ask_each(await cells_of(), lambda _, conn: find(conn))

    if takes_all(args):
        result = asyncio.run(find_all())
        answer(args, {**{each.cell: _heads(*each.answer) for each in result.answers}, "away": result.away})
        result.tell()
        return result.code
    journal, audit = asyncio.run(find_here())
    if journal is None and audit is None:
        raise CannotRun("nothing is sealed yet: a worker seals what is written within seconds")
    return answer(args, _heads(journal, audit))


def _heads(journal: "ChainSeal | None", audit: "ChainSeal | None") -> dict[str, Any]:
    from readmodels.seals import ChainSeal

    record = msgspec.to_builtins(journal) if journal else dict.fromkeys(ChainSeal.__struct_fields__)
    return {**record, "audit": msgspec.to_builtins(audit)}


def _check_head(args: argparse.Namespace) -> int:
    from readmodels.seals import Chain, ChainSeal, seal_at

    match = re.fullmatch(r"(?:(journal|audit):)?([0-9]{1,18}):([0-9A-Fa-f]+)", args.check.strip())
    if match is None:
        raise CannotRun("--check takes what `head` printed, as ID:DIGEST, or audit:ID:DIGEST of the audit log")
    chain, last_id = Chain(match[1] or Chain.JOURNAL), int(match[2])

    async def find() -> ChainSeal | None:
        async with connected() as conn:
            return await seal_at(conn, chain=chain, last_id=last_id)

    seal = asyncio.run(find())
    same = seal is not None and seal.digest == match[3].lower()
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
    # Id bounds and the following day are computed from these days, which fails at the ends of the calendar.
    if any(each is not None and not _FIRST_DAY <= each <= _LAST_DAY for each in (args.since, args.until)):
        raise CannotRun(f"--since and --until are days from {_FIRST_DAY} to {_LAST_DAY}")
    if takes_all(args):
        return _verify_all(args, scope)
    if args.account:
        in_transaction(lambda conn: existing_account(conn, args.account))
    database_url = running.find().need("database_url")
    with reaching_postgres():
        try:
            verification = (
                resume(database_url, progress=_tell_slice)
                if args.resume
                else compare(database_url, scope=scope, progress=_tell_slice)
            )
            differences = msgspec.to_builtins(asyncio.run(verification))
        except NothingToResume as error:
            raise CannotRun(str(error)) from None
    _show_differences(args, {"clean": not differences, "differences": differences})
    return 1 if differences else 0


def _verify_all(args: argparse.Namespace, scope: "VerifyScope") -> int:
    """Verifies each cell against its own journal, and the partners' shares that went between cells. Each difference
    names its cell."""
    from readmodels.verify import verify as compare

    if args.resume:
        raise CannotRun("--resume goes on in one cell: --cell NAME")

    async def verify_cell(cell: CellAddress, conn: Any) -> list[dict[str, Any]]:
        if args.account:
            await existing_account(conn, args.account)

        def tell_slice(progress: "VerifyProgress") -> None:
            _tell_slice(progress, f"{cell.name}: ")

        found = msgspec.to_builtins(await compare(cell.database_url, scope=scope, progress=tell_slice))
        return [{"cell": cell.name, **each} for each in found]

    async def run() -> tuple[Answers[list[dict[str, Any]]], list[dict[str, Any]]]:
        cells = await cells_of(args.account)
        found = await ask_each(cells, verify_cell, answer_s=None)
        return found, await _crossed_differences(cells) if scope.everything else []

    found, crossed = asyncio.run(run())
    differences = [each for answered in found.answers for each in answered.answer] + crossed
    clean = not differences and not found.away
    _show_differences(args, {"clean": clean, "differences": differences, "away": found.away})
    found.tell()
    return 0 if clean else 1


async def _crossed_differences(cells: Sequence[CellAddress]) -> list[dict[str, Any]]:
    """Differences between the partners' shares that cells sent and received; cells that do not answer are left out."""
    from readmodels.money.crossed_shares import compare_crossed_shares, find_received, find_sent

    numbers = {each.name: each.number for each in cells}

    async def read(find: Callable[[Any], Awaitable[T]]) -> dict[int, T]:
        answered = await ask_each(cells, lambda _, conn: find(conn), answer_s=None)
        return {numbers[each.cell]: each.answer for each in answered.answers}

    sent, received = await read(find_sent), await read(find_received)
    differing = compare_crossed_shares(sent, received, await read(find_sent))
    return [
        {"cell": each.name, **msgspec.to_builtins(differing[each.number])} for each in cells if each.number in differing
    ]


def _show_differences(args: argparse.Namespace, result: dict[str, Any]) -> None:
    if args.json:
        answer(args, result)
        return
    for difference in result["differences"]:
        print(msgspec.json.encode(difference).decode())
    if result["differences"]:
        print(f"{len(result['differences'])} differences")
    elif result["clean"]:
        print("clean")


def _tell_slice(progress: "VerifyProgress", prefix: str = "") -> None:
    differences = f", {progress.differences} differences" if progress.differences else ""
    tell(f"{prefix}{progress.part}: slice {progress.slices}, {progress.rows} rows{differences}")


def rebuild(args: argparse.Namespace) -> int:
    from readmodels.rebuild import rebuild as make_anew
    from readmodels.rebuild import resume_rebuild
    from readmodels.verify import NothingToResume

    command = resume_rebuild if args.resume else make_anew
    with reaching_postgres():
        try:
            rows = asyncio.run(command(running.find().need("database_url"), progress=_tell_rows))
        except NothingToResume as error:
            raise CannotRun(str(error)) from None
    return answer(args, rows)


def _tell_rows(rows: int) -> None:
    tell(f"{rows} journal rows")
