"""`quita recover status|begin|release`: after a restore to an earlier instant, until the bank was compared with."""

import argparse
import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from cli.answer import Commands, answer, connected, family, in_transaction, operator
from cli.run.child import CannotRun

if TYPE_CHECKING:
    from commands.money.recovery import RecoveryState

_NUMBERS: Final = 100_000


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "recover", "after a restore to an earlier instant: hold payouts, raise numbers of boletos")
    verbs.add_parser("status", help="exit 1 while payouts are held").set_defaults(run=status)
    begin_ = verbs.add_parser("begin", help="as the owner, before the API starts: raise numbers, and hold on")
    begin_.add_argument("--numbers", type=int, default=_NUMBERS, help="more than were taken since (default 100000)")
    begin_.add_argument("--restored-to", metavar="INSTANT", help="of a server that does not name it itself")
    begin_.set_defaults(run=begin)
    release_ = verbs.add_parser("release", help="the bank's statement was compared: let what is held be sent")
    release_.add_argument("--compared-by", required=True, metavar="NAME", help="who compared it, for the record")
    release_.set_defaults(run=release)


def status(args: argparse.Namespace) -> int:
    state = _state()
    answer(args, state)
    return 1 if state.held else 0


def begin(args: argparse.Namespace) -> int:
    from commands.money.recovery import NUMBERS_MAX, begin_recovery

    restored_to = args.restored_to or _named(_state())
    if not 1 <= args.numbers <= NUMBERS_MAX:
        raise CannotRun(f"--numbers is a whole number from 1 to {NUMBERS_MAX}")

    async def change(conn: Any) -> bool:
        return await begin_recovery(conn, restored_to, numbers=args.numbers, by=operator(), now=datetime.now(UTC))

    begun = in_transaction(change, url="database_owner_url")
    return answer(args, {"restored_to": restored_to, "begun": begun, "boletos_to": _state().boletos_to})


def release(args: argparse.Namespace) -> int:
    from commands.money.recovery import NotBegun, release_payouts

    restored_to = _named(_state())

    async def change(conn: Any) -> None:
        by = f"{operator()}, compared by {args.compared_by}"
        await release_payouts(conn, restored_to, by=by, now=datetime.now(UTC))

    try:
        in_transaction(change, url="database_owner_url")
    except NotBegun:
        raise CannotRun(
            "nothing to release: it was not begun (`quita recover begin`), or was released before"
        ) from None
    return answer(args, {"restored_to": restored_to, "released": True})


def _state() -> "RecoveryState":
    from commands.money.recovery import recovery_state

    async def find() -> "RecoveryState":
        async with connected() as conn:
            return await recovery_state(conn)

    return asyncio.run(find())


def _named(state: "RecoveryState") -> str:
    if state.restored_to is None:
        raise CannotRun("this server does not say that it was restored: name the instant with --restored-to")
    return state.restored_to
