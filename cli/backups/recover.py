"""`quita recover status|begin|compare|release`: holds payouts after a restore to an earlier instant until the database
was compared with the banks."""

import argparse
import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cli import running
from cli.answer import Commands, answer, connected, family, in_transaction, operator, reaching_postgres, tell
from cli.run.child import CannotRun

if TYPE_CHECKING:
    from commands.money.recovery import RecoveryState
    from workers.incoming.comparison import Comparison

_NOT_BEGUN: Final = "it was not begun (`quita recover begin`), or was released before"
_MARGIN: Final = timedelta(hours=1)
"""Comparison starts this long before the restored instant: clocks differ, and a bank may list money late."""
_SINCE_AGE_MAX: Final = timedelta(days=90)
_NUMBERS_DEFAULT: Final = 100_000


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "recover", "after a restore to an earlier instant: hold payouts, raise numbers of boletos")
    verbs.add_parser("status", help="exit 1 while payouts are held").set_defaults(run=status)
    begin_ = verbs.add_parser("begin", help="as the owner, before the API starts: raise numbers, and hold on")
    begin_.add_argument(
        "--numbers", type=int, default=_NUMBERS_DEFAULT, help="more than were taken since (default 100000)"
    )
    begin_.add_argument("--restored-to", metavar="INSTANT", help="of a server that does not name it itself")
    begin_.set_defaults(run=begin)
    compare_ = verbs.add_parser(
        "compare",
        help="ask the banks for all they list since, book missing receipts, list differences (exit 1: there are any)",
    )
    compare_.add_argument("--since", metavar="INSTANT", help="instead of an hour before the restored instant")
    compare_.add_argument("--file", metavar="FILE", type=Path, help="write everything found there too, as JSON")
    compare_.set_defaults(run=compare)
    release_ = verbs.add_parser("release", help="compared, and differences settled: let what is held be sent")
    release_.add_argument("--compared-by", required=True, metavar="NAME", help="who compared it, for the record")
    release_.add_argument("--differences", type=int, default=0, metavar="N", help="that are settled (default 0)")
    release_.set_defaults(run=release)


def status(args: argparse.Namespace) -> int:
    state = _state()
    answer(args, state)
    return 1 if state.held else 0


def begin(args: argparse.Namespace) -> int:
    from commands.money.recovery import NUMBERS_MAX, begin_recovery

    restored_to = args.restored_to or _restored_instant(_state())
    if args.restored_to and _instant(args.restored_to, "--restored-to") > datetime.now(UTC):
        raise CannotRun("--restored-to must not be in the future")
    if not 1 <= args.numbers <= NUMBERS_MAX:
        raise CannotRun(f"--numbers is a whole number from 1 to {NUMBERS_MAX}")

    async def change(conn: Any) -> bool:
        return await begin_recovery(conn, restored_to, numbers=args.numbers, by=operator(), now=datetime.now(UTC))

    begun = in_transaction(change, url="database_owner_url")
    return answer(args, {"restored_to": restored_to, "begun": begun, "boletos_to": _state().boletos_to})


def compare(args: argparse.Namespace) -> int:
    from commands.money.recovery import NotBegun, note_comparison
    from runtime import log
    from workers.incoming.comparison import TooManyDifferences
    from workers.incoming.slices import BankSilent

    log.setup("recover")  # bookings are logged as in a worker, apart from the answer
    state = _state()
    _restored_instant(state)
    if state.began_at is None or not state.open:
        raise CannotRun(_NOT_BEGUN)
    since = _since(args.since, state.open)
    try:
        comparison = asyncio.run(_compare_statements(since))
    except BankSilent as error:
        raise CannotRun(f"a bank does not answer ({error.args[0]}): run it again, nothing is done twice") from None
    except TooManyDifferences:
        raise CannotRun("more than 10000 differences: is this the right database, bank and instant?") from None
    if args.file:
        args.file.write_bytes(msgspec.json.format(msgspec.json.encode(comparison)) + b"\n")

    async def note(conn: Any) -> None:
        await note_comparison(
            conn,
            since=since,
            booked=comparison.booked,
            differences=len(comparison.differences),
            by=operator(),
            now=datetime.now(UTC),
        )

    try:
        in_transaction(note, url="database_owner_url")
    except NotBegun:
        raise CannotRun(_NOT_BEGUN) from None
    answer(args, comparison)
    return 1 if comparison.differences else 0


def release(args: argparse.Namespace) -> int:
    from commands.money.recovery import DifferencesLeft, NotBegun, NotCompared, release_payouts

    restored_to = _restored_instant(_state())

    async def change(conn: Any) -> None:
        by = f"{operator()}, compared by {args.compared_by}"
        await release_payouts(conn, differences=args.differences, by=by, now=datetime.now(UTC))

    try:
        in_transaction(change, url="database_owner_url")
    except NotBegun:
        raise CannotRun(
            "nothing to release: it was not begun (`quita recover begin`), or was released before"
        ) from None
    except NotCompared:
        raise CannotRun("compare with the banks first: `quita recover compare`") from None
    except DifferencesLeft as error:
        raise CannotRun(
            f"the latest comparison left {error.args[0]} differences: settle them, and say so with --differences"
            f" {error.args[0]}"
        ) from None
    return answer(args, {"restored_to": restored_to, "released": True})


async def _compare_statements(since: datetime) -> "Comparison":
    from workers.context import open_context
    from workers.incoming.statement import compare_statement

    settings = running.settings()
    with reaching_postgres():
        async with open_context(settings, _NoWakes(), asyncio.Event()) as context:
            # Banks are asked by whole seconds: round up, so that the current second is included.
            until = context.now().replace(microsecond=0) + timedelta(seconds=1)
            return await compare_statement(context, since=since, until=until, progress=_tell_progress)


class _NoWakes:
    """Jobs that wake no worker: the workers find new rows by themselves."""

    def wake(self, lane: str) -> None:
        pass


def _tell_progress(bank: str, subject: str) -> None:
    tell(f"bank {bank}: comparing {subject}")


def _since(option: str | None, restored_to: Sequence[str]) -> datetime:
    """The instant to compare from: the one given with --since, else _MARGIN before the earliest restored instant."""
    at, now = min(_instant(each, "--since") for each in ([option] if option else restored_to)), datetime.now(UTC)
    if not now - _SINCE_AGE_MAX <= at <= now:
        raise CannotRun(f"--since must be an instant of the last {_SINCE_AGE_MAX.days} days")
    return (at if option else at - _MARGIN).replace(microsecond=0)


def _instant(text: str, option: str) -> datetime:
    """Parses an instant; without an offset it is in UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise CannotRun(f"{text!r} is no instant: name one with {option} 2026-01-31T12:00:00Z") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _state() -> "RecoveryState":
    from commands.money.recovery import recovery_state

    async def find() -> "RecoveryState":
        async with connected() as conn:
            return await recovery_state(conn)

    return asyncio.run(find())


def _restored_instant(state: "RecoveryState") -> str:
    if state.restored_to is None:
        raise CannotRun("this server does not say that it was restored: name the instant with --restored-to")
    return state.restored_to
