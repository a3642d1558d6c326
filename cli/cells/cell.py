"""`quita cell list|add|standby|move`: manages cells, databases side by side that each hold some of the accounts."""

import argparse
import asyncio
import signal
from datetime import UTC, datetime
from typing import Any

from cli import running
from cli.answer import Commands, answer, checked_seal, connected, family, reaching_postgres, tell
from cli.run.child import CannotRun

_REACH_S_MAX = 3.0


def add_commands(commands: Commands) -> None:
    verbs = family(commands, "cell", "databases side by side, each with some of the accounts")
    parser = verbs.add_parser("list", help="every cell, and whether it answers; exit 1 when one does not")
    parser.set_defaults(run=show, at_home=True)

    parser = verbs.add_parser("add", help="make the tables of a new cell, and serve it from then on")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("dsn", metavar="DSN", help="of its database, as the role that is to own its tables")
    parser.add_argument("--schema", default="public", help="in that database (public)")
    parser.set_defaults(run=add, at_home=True)

    parser = verbs.add_parser("standby", help="have its lists, sums and pages read there; without DSN at its primary")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("dsn", metavar="DSN", nargs="?", help="of the standby")
    parser.set_defaults(run=standby, at_home=True)

    parser = verbs.add_parser("move", help="to another server, while it is in use")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("dsn", metavar="DSN", help="of the database there, as the role that is to own its tables")
    parser.add_argument("--from-dsn", metavar="DSN", help="as the owner of its tables, where that is not home's owner")
    parser.set_defaults(run=move, at_home=True)


def show(args: argparse.Namespace) -> int:
    """Lists the cells, first the home cell as `home`."""
    from runtime.cells.addresses import shown
    from runtime.cells.directory import HOME_NAME, read_cells

    async def list_cells() -> list[dict[str, Any]]:
        async with connected() as conn:
            cells = await read_cells(conn, await checked_seal(conn))
        rows = [(0, HOME_NAME, running.find().need("database_url"), "serving")]
        rows += [
            (each.number, each.name, each.addresses.database_url, "moving" if each.next else "serving")
            for each in cells
        ]
        counts = await asyncio.gather(*(_count_accounts(url) for _, _, url, _ in rows))
        return [
            {
                "number": number,
                "name": name,
                "database": shown(url),
                "accounts": count,
                "state": "away" if count is None else state,
            }
            for (number, name, url, state), count in zip(rows, counts, strict=True)
        ]

    records = asyncio.run(list_cells())
    if args.json:
        answer(args, records)
    else:
        for each in records:
            accounts = "" if each["accounts"] is None else f"{each['accounts']} accounts"
            print(f"{each['number']:>4}  {each['name']:<16} {each['state']:<8} {accounts:<16} {each['database']}")
    return 1 if any(each["state"] == "away" for each in records) else 0


async def _count_accounts(url: str) -> int | None:
    """The number of accounts in the cell; None when it does not answer."""
    import asyncpg

    from runtime.cells.directory import count_accounts
    from runtime.postgres import connect

    try:
        async with asyncio.timeout(_REACH_S_MAX):
            conn = await connect(url)
            try:
                return await count_accounts(conn)
            finally:
                await conn.close()
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return None


def add(args: argparse.Namespace) -> int:
    from commands.cells.add import add_cell

    async def run() -> Any:
        async with connected("database_owner_url") as home:
            with reaching_postgres():
                await _check_owner(args.dsn)
                return await add_cell(
                    home,
                    _home_addresses(),
                    args.name,
                    args.dsn,
                    args.schema,
                    seal=await checked_seal(home),
                    now=datetime.now(UTC),
                )

    return answer(args, asyncio.run(run()))


def standby(args: argparse.Namespace) -> int:
    from commands.cells.standby import set_standby
    from runtime.cells.addresses import shown

    async def run() -> str:
        async with connected("database_owner_url") as home:
            with reaching_postgres():
                return await set_standby(home, args.name, args.dsn, seal=await checked_seal(home))

    url = asyncio.run(run())
    return answer(args, {"name": args.name, "standby": shown(url) if url else None})


def move(args: argparse.Namespace) -> int:
    from commands.cells.move import move_cell

    async def run() -> Any:
        _cancel_on_end_signals()
        async with connected("database_owner_url") as home:
            with reaching_postgres():
                await _check_owner(args.dsn)
                return await move_cell(
                    home,
                    _home_addresses(),
                    args.name,
                    args.dsn,
                    from_dsn=args.from_dsn,
                    seal=await checked_seal(home),
                    now=lambda: datetime.now(UTC),
                    tell=tell,
                )

    try:
        return answer(args, asyncio.run(run()))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _cancel_on_end_signals() -> None:
    """Have SIGTERM and SIGHUP cancel this task, as Ctrl-C does, so that it can undo what it has begun. Once: a terminal
    that closes may send SIGHUP twice."""
    task = asyncio.current_task()
    assert task is not None
    for each in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) is not signal.SIG_IGN:  # nohup
            asyncio.get_running_loop().add_signal_handler(each, lambda: task.cancelling() or task.cancel())


async def _check_owner(dsn: str) -> None:
    """CannotRun unless `dsn` names the role and password of home's owner, as which every later `quita migrate` connects
    to the cell."""
    import asyncpg

    from runtime.cells.addresses import as_role_of, same_role, shown
    from runtime.postgres import connect

    owner_url = running.find().need("database_owner_url")
    fault = "DSN names another role"
    if same_role(dsn, owner_url):
        try:
            await (await connect(as_role_of(dsn, owner_url))).close()
            return
        except asyncpg.InvalidAuthorizationSpecificationError:
            fault = f"home's password is refused at {shown(dsn)}"
    raise CannotRun(f"the cell has to belong to home's owner (DATABASE_OWNER_URL), whom migrations need there: {fault}")


def _home_addresses() -> Any:
    from commands.cells.add import HomeAddresses

    system = running.find()
    return HomeAddresses(
        owner_url=system.need("database_owner_url"),
        app_url=system.need("database_url"),
        report_url=system.need("database_report_url"),
    )
