"""`quita status`, `quita doctor` and `quita migrate`."""

import argparse
import asyncio
import os
import time
from datetime import UTC, datetime
from typing import Any

import msgspec

from cli import running
from cli.answer import Commands, answer, connected, reaching_postgres, tell
from cli.cells.ask import Answers, ask_each, cells_of, takes_all
from cli.run.child import CannotRun
from cli.run.serve import answers, answers_at, reachable
from runtime.cells.number import current_cell

_WORKERS_START_S = 30.0
_HEARD_S_MAX = 3.0


def add_commands(commands: Commands) -> None:
    verb = commands.add_parser(
        "status", help="what runs, where; exit 1 when the API does not answer or no worker works"
    )
    verb.set_defaults(run=status, each_cell=True)
    doctor_help = "what keeps this environment from production, without starting anything; exit 1 when something does"
    commands.add_parser("doctor", help=doctor_help).set_defaults(run=doctor)
    commands.add_parser(
        "migrate", help="bring the database to the newest shape, and give its roles their rights"
    ).set_defaults(run=migrate)


def status(args: argparse.Namespace) -> int:
    found = running.find()
    # Without `quita up`, as in a container, the API is asked at BASE_URL, where merchants reach it.
    ready = answers(found.host, found.port) if found.pids else answers_at(found.base_url)
    everywhere = _workers_of_all() if takes_all(args) else None
    asked = bool(found.database_url) and (ready or not found.pids)
    workers = (_workers() if asked else []) if everywhere is None else _workers_in(everywhere)
    # A worker writes its first heartbeat some seconds after the API is ready: no fault before then.
    starts = time.time() - found.ready_at < _WORKERS_START_S
    if everywhere is None:
        working = starts or any(each["well"] for each in workers)
    else:
        working = all(starts or any(each["well"] for each in cell.answer) for cell in everywhere.answers)
        working &= not everywhere.away
    answer(
        args,
        {
            "ready": ready,
            "working": ready and working,
            "workers": workers,
            **({} if everywhere is None else {"away": everywhere.away}),
            "home": str(running.home()),
            "base_url": found.base_url,
            "app_url": found.app_url,
            "docs_url": found.docs_url,
            "bank_url": found.bank_url,
            "metrics_url": f"http://{reachable(found.host)}:{found.metrics_port}/metrics"
            if found.metrics_port
            else None,
            "pids": found.pids,
        },
    )
    return 0 if ready and working else 1


def _workers() -> list[dict[str, object]]:
    """The last heartbeat of each worker process; none, with the reason on stderr, while PostgreSQL does not answer."""
    from runtime.postgres import DB_UNAVAILABLE

    async def ask() -> list[dict[str, object]]:
        async with asyncio.timeout(_HEARD_S_MAX), connected() as conn:
            return await _heard(conn)

    try:
        return asyncio.run(ask())
    except (CannotRun, *DB_UNAVAILABLE) as error:
        tell(f"what workers say is not known: {' '.join(str(error).split()) or 'PostgreSQL does not answer'}")
        return []


async def _heard(conn: Any) -> list[dict[str, object]]:
    from runtime.coordination.heartbeats import heard

    return [{**msgspec.structs.asdict(each), "well": each.well} for each in await heard(conn)]


def _workers_of_all() -> Answers[list[dict[str, object]]]:
    async def ask() -> Answers[list[dict[str, object]]]:
        return await ask_each(await cells_of(), lambda _, conn: _heard(conn), answer_s=2 * _HEARD_S_MAX)

    return asyncio.run(ask())


def _workers_in(found: Answers[list[dict[str, object]]]) -> list[dict[str, object]]:
    return [{"cell": each.cell, **worker} for each in found.answers for worker in each.answer]


def doctor(args: argparse.Namespace) -> int:
    from banks.certificate import certificate_ends_at, client_tls
    from runtime.production import environment, production_faults
    from runtime.settings import read_settings

    faults, given, ends_at = production_faults(os.environ), os.environ.get("QUITA_ENV", ""), None
    try:
        given = environment(os.environ)
        settings = read_settings({**os.environ, "QUITA_ENV": "local"})  # checks that each setting can be read at all
        client_tls(settings)
        ends_at = certificate_ends_at(settings)
    except ValueError as error:
        faults.append(str(error))
    ended = ends_at is not None and ends_at <= datetime.now(UTC)
    if ended:
        faults.append(f"BANK_CERTIFICATE ended at {ends_at:%Y-%m-%d %H:%M} UTC: the bank takes no connection with it")
    if args.json:
        answer(args, {"environment": given, "faults": faults, "bank_certificate_ends_at": ends_at})
    else:
        print("\n".join(faults) or "nothing keeps this environment from production")
        if ends_at is not None and not ended:
            print(f"BANK_CERTIFICATE ends at {ends_at:%Y-%m-%d %H:%M} UTC")
    return 1 if faults else 0


def migrate(args: argparse.Namespace) -> int:
    """Migrates home's database, then those of the other cells; with --cell only that cell's."""
    from sql.migrate import migrate as apply

    with reaching_postgres():
        found = running.find()
        owner_url, app_url = found.need("database_owner_url"), found.database_url or None
        report_url = found.database_report_url or None
        applied = asyncio.run(apply(owner_url, app_url=app_url, report_url=report_url, tell=tell))
        if current_cell() or not asyncio.run(_has_others(owner_url)):
            return answer(args, {"applied": applied})
        return _migrate_others(args, owner_url, applied)


async def _has_others(owner_url: str) -> bool:
    from runtime.cells.directory import find_numbers
    from runtime.postgres import connect

    conn = await connect(owner_url)
    try:
        return bool(await find_numbers(conn))
    finally:
        await conn.close()


def _migrate_others(args: argparse.Namespace, owner_url: str, applied: list[str]) -> int:
    """Migrates the other cells. CannotRun without SECRET_KEY, because their addresses are sealed with it."""
    from cli.cells.upgrade import migrate_cells

    cells = asyncio.run(migrate_cells(owner_url, owner_url, tell))
    answer(args, {"applied": applied, "cells": cells.applied, "away": cells.away})
    return 1 if cells.away else 0
