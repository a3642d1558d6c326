"""`quita ... --cell all`: one table over all cells, equal to the answer of one database with all rows."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

import asyncpg
import pytest
import pytest_asyncio

from cli.main import main
from commands.webhooks.endpoint import set_endpoint
from domain.instants import SAO_PAULO
from readmodels.reports.reports import REPORTS
from runtime.cells.number import HOME
from runtime.postgres import transaction
from tests.support.banking import SECRET_KEY
from tests.support.cells import Cells, open_cells, second_server
from tests.support.daily_totals import CODES, added, random_totals, store
from tests.support.database import own_database, owner_of, report_of
from tests.support.staff_in_cells import staff_of_cell

ALA, BELA, CORA = 1, 2, 3
DAYS = 45
ADDED = [name for name, report in REPORTS.items() if report.key]


class World(NamedTuple):
    """Cells, and one database that has the totals of all of them."""

    cells: Cells
    today: date
    whole: dict[str, str]
    """The environment of a command for the database with all totals."""
    second: Any


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(servers: Any) -> AsyncIterator[World]:
    today = datetime.now(SAO_PAULO).date()
    chance = Random(11)
    with second_server() as second:
        async with open_cells(servers, second) as cells, own_database(servers, "whole") as url:
            totals = {number: random_totals(chance, last=today, days=DAYS) for number in cells.urls}
            for number, each in totals.items():
                await store(cells.owner_urls[number], each)
            await store(owner_of(servers, url), added(totals.values()))
            whole = {"DATABASE_URL": url, "DATABASE_REPORT_URL": report_of(servers, url)}
            yield World(cells, today, whole, second)


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def messages(self) -> list[str]:
        """The lines of the command itself: pools of this process also log there that a server stopped."""
        return [line for line in self.err.splitlines() if line.startswith("quita: ")]

    def json(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)


@pytest.fixture
def quita(world: World, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    """Runs a command on this installation, or on the database that has all totals."""

    async def run(*arguments: str, whole: bool = False) -> Said:
        home = world.cells.home
        env = world.whole if whole else {"DATABASE_URL": home.app_url, "DATABASE_REPORT_URL": home.report_url}
        for name, value in {**env, "SECRET_KEY": SECRET_KEY, "REDIS_URL": world.cells.settings.redis_url}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("DATABASE_OWNER_URL", raising=False)
        code = await asyncio.to_thread(main, list(arguments))
        said = capfdbinary.readouterr()
        return Said(code, said.out.decode("utf-8-sig"), said.err.decode())

    return run


@pytest.mark.parametrize("by", ["day", "month", "period"])
@pytest.mark.parametrize("name", ADDED)
async def test_a_report_over_all_cells_equals_that_of_one_database_with_all_rows(
    quita: Any, world: World, name: str, by: str
) -> None:
    """They are equal to the cent, the second and the hundredth of a percent."""
    report = REPORTS[name]
    asked = ["--from", str(world.today - timedelta(days=DAYS)), "--to", str(world.today)] if report.dated else []
    asked += ["--by", by] if report.grouped else []
    over = (await quita("report", name, *asked, "--cell", "all", "--json")).json()
    whole = (await quita("report", name, *asked, "--json", whole=True)).json()
    assert over["rows"] == whole["rows"]
    assert over["rows"], "the report must have rows"
    assert (over["cells"], over["away"]) == (["home", "ala", "bela", "cora"], {})
    assert {each: over[each] for each in ("report", "title", "account_id")} == {
        each: whole[each] for each in ("report", "title", "account_id")
    }
    assert over["lag_seconds"] >= 0
    csv = await quita("report", name, *asked, "--cell", "all", "--csv")
    assert (csv.code, csv.out) == (0, (await quita("report", name, *asked, "--csv", whole=True)).out)


async def test_a_report_per_account_names_the_cell_of_each_account(quita: Any, world: World) -> None:
    for number, merchant in world.cells.merchants.items():
        async with world.cells.pool(number) as pool, transaction(pool) as conn:
            await set_endpoint(
                conn,
                merchant.account_id,
                "https://example.com/webhook",
                allow_private=False,
                now=datetime.now(UTC),
                seal=world.cells.seal,
                chance=bytes(32),
            )
    said = await quita("report", "webhook_lanes", "--cell", "all", "--json")
    accounts = {number: str(each.account_id) for number, each in world.cells.merchants.items()}
    assert {(row["cell"], row["account_id"]) for row in said.json()["rows"]} == {
        ("home", accounts[HOME]), ("ala", accounts[ALA]), ("bela", accounts[BELA]), ("cora", accounts[CORA]),
    }  # fmt: skip
    csv = await quita("report", "webhook_lanes", "--cell", "all", "--csv")
    assert csv.out.startswith("Célula;Loja;")
    one = await quita("report", "webhook_lanes", "--cell", "all", "--account", accounts[BELA], "--json")
    assert [row["cell"] for row in one.json()["rows"]] == one.json()["cells"] == ["bela"]
    settled = await quita("report", "settlement", "--cell", "all", "--account", accounts[ALA], "--json")
    assert {row["cell"] for row in settled.json()["rows"]} == {"ala"}


async def test_shares_paid_in_another_cell_are_reported_beside_the_charges(quita: Any, world: World) -> None:
    merchant = world.cells.merchants[ALA].account_id
    rows = {ALA: (3, 30_00, 2, 20_00, 0, 0), CORA: (0, 0, 0, 0, 50, 10)}
    insert = "INSERT INTO report_integrator VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
    for number, values in rows.items():
        conn = await asyncpg.connect(world.cells.owner_urls[number])
        await conn.execute(insert, merchant, world.today, CODES[0], *values)
        await conn.close()
    said = await quita("report", "integrators", "--cell", "all", "--account", str(merchant), "--json")
    (row,) = said.json()["rows"]
    assert [row[each] for each in ("charges", "payments", "given", "taken_back", "net")] == [
        3,
        2,
        "0.50",
        "0.10",
        "0.40",
    ]
    desk = await staff_of_cell(world.cells)
    path = f"/plataforma/relatorios/integrators?celulas=todas&conta={merchant}"
    page = await desk.opened(path)
    assert ("R$ 0,40" in page.text, "da célula ala" in page.text) == (True, True)
    assert ";0,40" in (await desk.opened(path.replace("?", "/arquivo?"))).html


async def test_a_command_that_changes_something_refuses_all_cells_at_once(quita: Any, world: World) -> None:
    for arguments in (
        ["readmodels", "rebuild"],
        ["staff", "create", "--email", "a@example.com"],
        ["recover", "status"],
    ):
        said = await quita(*arguments, "--cell", "all")
        assert (said.code, said.out, said.err) == (1, "", "quita: this command is of one cell: --cell NAME\n")
    for said in (
        await quita("readmodels", "verify", "--resume", "--cell", "all"),
        await quita("readmodels", "head", "--check", "1:00", "--cell", "all"),
    ):
        assert (said.code, "--cell NAME" in said.err) == (1, True)


async def test_every_cell_is_compared_with_its_own_journal(quita: Any, world: World) -> None:
    """The totals of these cells are invented, so each cell has differences of its own, reported under its name."""
    found = await quita("readmodels", "verify", "--cell", "all", "--json")
    whole = found.json()
    assert (found.code, whole["clean"], whole["away"]) == (1, False, {})
    assert all(f"{cell}: charges: slice 1" in found.err for cell in ("home", "ala", "bela", "cora"))
    for cell in ("home", "ala", "bela", "cora"):
        alone = (await quita("readmodels", "verify", "--cell", cell, "--json")).json()["differences"]
        assert [each for each in whole["differences"] if each["cell"] == cell] == [
            {"cell": cell, **each} for each in alone
        ]
        assert alone
    heads = (await quita("readmodels", "head", "--cell", "all", "--json")).json()
    assert list(heads) == ["home", "ala", "bela", "cora", "away"]


async def test_an_unreachable_cell_is_named_and_the_others_answer(quita: Any, world: World) -> None:
    before = (await quita("report", "aging", "--cell", "all", "--json")).json()
    world.second.stop()
    try:
        said = await quita("report", "aging", "--cell", "all", "--json")
        found = said.json()
        assert (said.code, found["cells"], set(found["away"])) == (1, ["home", "ala"], {"bela", "cora"})
        assert [row["bucket"] for row in found["rows"]] == [row["bucket"] for row in before["rows"]]
        assert found["rows"] != before["rows"], "the amounts of the unreachable cells must be missing"
        assert [line.partition(" is away")[0] for line in said.messages] == ["quita: cell bela", "quita: cell cora"]
        table = await quita("report", "aging", "--cell", "all")
        assert (table.code, "cells home, ala" in table.out.splitlines()[0]) == (1, True)
        csv = await quita("report", "aging", "--cell", "all", "--csv")
        assert (csv.code, csv.messages) == (1, said.messages)
        merchant = world.cells.merchants[CORA].account_id
        nobody = await quita("report", "settlement", "--cell", "all", "--account", str(merchant))
        assert (nobody.code, nobody.out, "no cell answers: cora" in nobody.err) == (1, "", True)
        verified = await quita("readmodels", "verify", "--cell", "all", "--json")
        assert (verified.code, verified.json()["clean"]) == (1, False)
    finally:
        world.second.restart()
