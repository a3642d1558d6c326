"""The staff's reports over all cells have the same table, total, plot and file as one database with all rows."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from commands.webhooks.endpoint import set_endpoint
from domain.instants import SAO_PAULO
from readmodels.reports.over_cells import CellRows, read_cell
from readmodels.reports.report import Report
from readmodels.reports.reports import REPORTS
from runtime.cells.number import HOME
from runtime.postgres import transaction
from tests.support.cells import Cells, open_cells, second_server
from tests.support.counting import statements_run
from tests.support.daily_totals import Totals, added, random_totals, store
from tests.support.staff_in_cells import Page, StaffBrowser, staff_of_cell
from web.plataforma.reports import sources

ALA, BELA = 1, 2
DAYS = 40
ADDED = [name for name, report in REPORTS.items() if report.key]
PATH = "/plataforma/relatorios"


class World(NamedTuple):
    cells: Cells
    today: date
    totals: dict[int, Totals]
    second: Any


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def world(servers: Any) -> AsyncIterator[World]:
    today = datetime.now(SAO_PAULO).date()
    chance = Random(12)
    with second_server() as second:
        async with open_cells(servers, second) as cells:
            totals = {number: random_totals(chance, last=today, days=DAYS) for number in cells.urls}
            for number, each in totals.items():
                await store(cells.owner_urls[number], each)
            yield World(cells, today, totals, second)


@pytest_asyncio.fixture(loop_scope="session")
async def desk(world: World) -> StaffBrowser:
    return await staff_of_cell(world.cells)


def shown(page: Page) -> list[str]:
    """Returns rows, total, comparison and plot of the page, without the time of reading."""
    tables = re.findall(r"<table>.*?</table>", page.html, re.DOTALL)
    return [*tables, *re.findall(r'<svg class="plot".*?</svg>', page.html, re.DOTALL)]


def query(world: World, name: str, **more: str) -> str:
    report = REPORTS[name]
    asked = {"de": str(world.today - timedelta(days=20)), "ate": str(world.today)} if report.dated else {}
    return "&".join(f"{field}={value}" for field, value in {**asked, **more}.items())


@pytest.mark.parametrize("name", ADDED)
async def test_a_report_over_all_cells_equals_that_of_one_database_with_all_rows(
    world: World, desk: StaffBrowser, name: str
) -> None:
    """First cora holds no totals; then it gets those of all cells, and plays the database with all rows."""
    whole = added(each for number, each in world.totals.items() if number != 3)
    await store(world.cells.owner_urls[3], added([]))
    try:
        over = await desk.opened(f"{PATH}/{name}?{query(world, name, celulas='todas')}")
        csv = await desk.opened(f"{PATH}/{name}/arquivo?{query(world, name, celulas='todas')}")
        await store(world.cells.owner_urls[3], whole)
        await desk.choose("cora")
        alone = await desk.opened(f"{PATH}/{name}?{query(world, name)}")
        assert shown(over) == shown(alone)
        assert len(shown(over)) >= 2
        assert "De todas as células" in over.text
        assert csv.html == (await desk.opened(f"{PATH}/{name}/arquivo?{query(world, name)}")).html
        assert csv.html.count("\n") > 2
    finally:
        await store(world.cells.owner_urls[3], world.totals[3])


async def test_a_report_over_all_cells_is_the_same_from_every_cell(world: World, desk: StaffBrowser) -> None:
    asked = f"{PATH}/receipts?{query(world, 'receipts', celulas='todas')}"
    of_home = await desk.opened(asked)
    await desk.choose("bela")
    assert shown(await desk.opened(asked)) == shown(of_home)
    alone = await desk.opened(f"{PATH}/receipts?{query(world, 'receipts')}")
    assert shown(alone) != shown(of_home)
    assert '<option value="">Só bela</option>' in alone.html


async def test_a_report_on_one_account_comes_from_the_accounts_cell(world: World, desk: StaffBrowser) -> None:
    merchant = world.cells.merchants[BELA]
    for name in ("settlement", "receipts"):
        asked = f"{PATH}/{name}?{query(world, name, celulas='todas', conta=str(merchant.account_id))}"
        page = await desk.opened(asked)
        assert "da célula bela" in page.text
        file = await desk.opened(asked.replace(f"{name}?", f"{name}/arquivo?"))
        assert file.html.startswith("\ufeff")
        leads = page.hidden_with("para", f"/plataforma/lojas/{merchant.account_id}")
        assert leads["celula"] == "bela"
    of_several = await desk.ask("GET", f"{PATH}/receipts?{query(world, 'receipts', celulas='todas', conta='Loja')}")
    assert (of_several.status, "Qual loja?" in of_several.text) == (400, True)
    for cell in ("home", "ala", "bela", "cora"):
        assert f'<span class="chip">{cell}</span>' in of_several.html
    nobody = await desk.ask("GET", f"{PATH}/settlement?celulas=todas")
    assert (nobody.status, "Este relatório é de uma loja" in nobody.text) == (400, True)


async def test_staff_of_one_cell_get_no_report_over_other_cells(world: World) -> None:
    desk = await staff_of_cell(world.cells, ALA)
    page = await desk.opened(f"{PATH}/receipts")
    assert "células" not in page.text
    asked = await desk.ask("GET", f"{PATH}/receipts?celulas=todas")
    assert asked.status == 400
    assert shown(asked) == []
    assert (await desk.ask("GET", f"{PATH}/receipts/arquivo?celulas=todas")).status == 404


@pytest.mark.parametrize(("name", "parts"), [("receipts", 0), ("conversion", 1), ("webhooks", 3)])
async def test_a_report_over_all_cells_costs_each_cell_the_statements_of_one_and_of_its_parts(
    world: World, desk: StaffBrowser, name: str, parts: int
) -> None:
    asked = []
    for cells in ("", "todas"):
        with statements_run() as run:
            await desk.opened(f"{PATH}/{name}?{query(world, name, celulas=cells)}")
        asked.append(run["report"])
    assert asked[1] == len(world.cells.urls) * (asked[0] + parts)


async def test_rows_and_total_come_from_one_snapshot_of_each_cell(
    world: World, desk: StaffBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = f"{PATH}/receipts?{query(world, 'receipts', celulas='todas')}"
    quiet = await desk.opened(asked)
    moved = asyncio.Event()

    async def read_while_others_write(report: Report, cell: str, *given: Any) -> CellRows:
        found = await read_cell(report, cell, *given)
        if cell == "cora" and not moved.is_set():
            moved.set()
            await store(world.cells.owner_urls[3], added([]))
        return found

    monkeypatch.setattr(sources, "read_cell", read_while_others_write)
    try:
        busy = await desk.opened(asked)
        assert moved.is_set()
        assert shown(busy) == shown(quiet)
        assert shown(await desk.opened(asked)) != shown(quiet)
    finally:
        await store(world.cells.owner_urls[3], world.totals[3])


async def test_an_unreachable_cell_is_named_on_the_page_and_in_the_file_name(world: World, desk: StaffBrowser) -> None:
    asked = query(world, "receipts", celulas="todas")
    before = await desk.opened(f"{PATH}/receipts?{asked}")
    assert "não respondeu" not in before.text
    world.second.stop()
    try:
        page = await desk.opened(f"{PATH}/receipts?{asked}")
        assert [name for name in ("home", "ala", "bela", "cora") if f"A célula {name} não respondeu" in page.text] == [
            "bela", "cora",
        ]  # fmt: skip
        assert shown(page) != shown(before)
        file = await desk.ask("GET", f"{PATH}/receipts/arquivo?{asked}")
        assert file.status == 200
        assert file.file.endswith("-todas-as-celulas-sem-bela-cora.csv")
        missing = str(world.cells.merchants[BELA].account_id)
        lost = await desk.ask("GET", f"{PATH}/receipts?{query(world, 'receipts', celulas='todas', conta=missing)}")
        assert (lost.status, "A célula bela não respondeu" in lost.text) == (400, True)
    finally:
        world.second.restart()


async def test_a_report_per_account_names_the_cell_of_each_account(world: World, desk: StaffBrowser) -> None:
    for number in (HOME, BELA):
        async with world.cells.pool(number) as pool, transaction(pool) as conn:
            await set_endpoint(
                conn, world.cells.merchants[number].account_id, "https://example.com/hook", allow_private=False,
                now=datetime.now(UTC), seal=world.cells.seal, chance=bytes(32),
            )  # fmt: skip
    page = await desk.opened(f"{PATH}/webhook_lanes?celulas=todas")
    assert re.findall(r"<tr><td>(home|bela)</td><td>Loja", page.html) == ["home", "bela"]
    file = await desk.opened(f"{PATH}/webhook_lanes/arquivo?celulas=todas")
    head, *lines = file.html.splitlines()
    assert head.startswith("\ufeffCélula;Loja;")
    account_ids = {
        name: str(world.cells.merchants[number].account_id) for name, number in (("home", HOME), ("bela", BELA))
    }
    assert {line.split(";")[0]: line.split(";")[-1] for line in lines} == account_ids
