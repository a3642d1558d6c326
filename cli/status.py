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
from cli.run.serve import is_ready, is_ready_at, reachable
from runtime.cells.number import current_cell

_WORKERS_START_S = 30.0
_HEARTBEATS_S_MAX = 3.0


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
    system = running.find()
    # Without `quita up`, as in a container, the API is asked at BASE_URL, where merchants reach it.
    ready = is_ready(system.host, system.port) if system.pids else is_ready_at(system.base_url)
    if not ready:
        where = f"port {system.port}" if system.pids else system.base_url or "BASE_URL, which is not set"
        tell(f"the API is not ready, or does not answer, at {where}")
    all_cells = _heartbeats_of_all_cells() if takes_all(args) else None
    may_ask = bool(system.database_url) and (ready or not system.pids)
    workers = (_heartbeats_of_cell() if may_ask else []) if all_cells is None else _flat_heartbeats(all_cells)
    # A worker writes its first heartbeat some seconds after the API is ready: no fault before then.
    is_starting = time.time() - system.ready_at < _WORKERS_START_S
    if all_cells is None:
        working = is_starting or any(each["well"] for each in workers)
    else:
        working = all(is_starting or any(each["well"] for each in cell.answer) for cell in all_cells.answers)
        working &= not all_cells.away
    answer(
        args,
        {
            "ready": ready,
            "working": ready and working,
            "workers": workers,
            **({} if all_cells is None else {"away": all_cells.away}),
            "home": str(running.home()),
            "base_url": system.base_url,
            "app_url": system.app_url,
            "docs_url": system.docs_url,
            "bank_url": system.bank_url,
            "metrics_url": f"http://{reachable(system.host)}:{system.metrics_port}/metrics"
            if system.metrics_port
            else None,
            "pids": system.pids,
        },
    )
    return 0 if ready and working else 1


def _heartbeats_of_cell() -> list[dict[str, object]]:
    """The last heartbeat of each worker process; none, with the reason on stderr, while PostgreSQL does not answer."""
    from runtime.postgres import DB_UNAVAILABLE

    async def ask() -> list[dict[str, object]]:
        async with asyncio.timeout(_HEARTBEATS_S_MAX), connected() as conn:
            return await _read_heartbeats(conn)

    try:
        return asyncio.run(ask())
    except (CannotRun, *DB_UNAVAILABLE) as error:
        tell(f"what workers say is not known: {' '.join(str(error).split()) or 'PostgreSQL does not answer'}")
        return []


async def _read_heartbeats(conn: Any) -> list[dict[str, object]]:
    from runtime.coordination.heartbeats import heard

    return [{**msgspec.structs.asdict(each), "well": each.well} for each in await heard(conn)]


def _heartbeats_of_all_cells() -> Answers[list[dict[str, object]]]:
    async def ask() -> Answers[list[dict[str, object]]]:
        return await ask_each(await cells_of(), lambda _, conn: _read_heartbeats(conn), answer_s=2 * _HEARTBEATS_S_MAX)

    return asyncio.run(ask())


def _flat_heartbeats(answers: Answers[list[dict[str, object]]]) -> list[dict[str, object]]:
    return [{"cell": each.cell, **worker} for each in answers.answers for worker in each.answer]


def doctor(args: argparse.Namespace) -> int:
    from banks.certificate import certificate_ends_at, client_tls
    from runtime.production import environment, production_faults
    from runtime.settings import read_settings

    faults, environment_name, ends_at = production_faults(os.environ), os.environ.get("QUITA_ENV", ""), None
    try:
        environment_name = environment(os.environ)
        settings = read_settings({**os.environ, "QUITA_ENV": "local"})  # checks that each setting can be read at all
        client_tls(settings)
        ends_at = certificate_ends_at(settings)
    except ValueError as error:
        faults.append(str(error))
    has_ended = ends_at is not None and ends_at <= datetime.now(UTC)
    if has_ended:
        faults.append(f"BANK_CERTIFICATE ended at {ends_at:%Y-%m-%d %H:%M} UTC: the bank takes no connection with it")
    if args.json:
        answer(args, {"environment": environment_name, "faults": faults, "bank_certificate_ends_at": ends_at})
    else:
        print("\n".join(faults) or "nothing keeps this environment from production")
        if ends_at is not None and not has_ended:
            print(f"BANK_CERTIFICATE ends at {ends_at:%Y-%m-%d %H:%M} UTC")
    return 1 if faults else 0


def migrate(args: argparse.Namespace) -> int:
    """Migrates home's database, then those of the other cells; with --cell only that cell's."""
    from cli.cells.upgrade import migrate_cells
    from sql.migrate import migrate as apply

    with reaching_postgres():
        system = running.find()
        owner_url, app_url = system.need("database_owner_url"), system.database_url or None
        report_url = system.database_report_url or None
        applied = asyncio.run(apply(owner_url, app_url=app_url, report_url=report_url, tell=tell))
        if current_cell():
            return answer(args, {"applied": applied})
        cells = asyncio.run(migrate_cells(owner_url, tell))
        of_cells = {"cells": cells.applied, "away": cells.away} if cells.applied or cells.away else {}
        answer(args, {"applied": applied, **of_cells})
        return 1 if cells.away else 0
