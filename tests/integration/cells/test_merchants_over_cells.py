"""The staff's list of merchants over all cells: in one order, every merchant once, in both directions; unreachable
cells are named."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest_asyncio

from runtime.cells.number import HOME
from runtime.local.embedded import EmbeddedPostgres
from tests.support.cells import Cells, open_cells
from tests.support.counting import statements_run
from tests.support.staff_in_cells import Page, StaffBrowser, staff_of_cell
from web.painel.lists import PAGE

ALA, BELA, CORA = 1, 2, 3
NAMES = {HOME: "home", ALA: "ala", BELA: "bela", CORA: "cora"}
PATH = "/plataforma/lojas"
ALL = f"{PATH}?celulas=todas"
BEGIN = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cells(servers: Any, second: EmbeddedPostgres) -> AsyncIterator[Cells]:
    """Every five merchants of a cell have one creation instant, the same in every cell. Cora has the most merchants."""
    async with open_cells(servers, second) as opened:
        for number in NAMES:
            for place in range(18 if number != CORA else 40):
                made = await opened.merchant(number, kyc="pending" if place % 3 == 0 else "approved")
                at = BEGIN + timedelta(minutes=place // 5)
                await rename_merchant(opened, number, made.account_id, f"Loja {NAMES[number]} {place:02}", at)
        yield opened


async def rename_merchant(cells: Cells, number: int, account_id: Any, name: str, at: datetime) -> None:
    async with cells.pool(number) as pool:
        await pool.execute("UPDATE account SET name = $2, created_at = $3 WHERE account_id = $1", account_id, name, at)


async def stored_merchants(cells: Cells, *, kyc: str = "%", name: str = "%") -> list[tuple[str, str]]:
    """Returns account_id and cell of all merchants that match, newest first."""
    found = []
    for number in NAMES:
        async with cells.pool(number) as pool:
            rows = await pool.fetch(
                "SELECT created_at, account_id FROM account WHERE kyc LIKE $1 AND name LIKE $2", kyc, name
            )
        found += [(row["created_at"], row["account_id"], NAMES[number]) for row in rows]
    return [(str(account_id), cell) for _, account_id, cell in sorted(found, reverse=True)]


def rows_of(page: Page) -> list[tuple[str, str]]:
    """Returns account_id and cell of each row, as the page shows them."""
    rows = re.findall(r"<tr>\s*<td>(.*?)</td>", page.html, re.DOTALL)
    return [
        (
            str(re.search(r"/plataforma/lojas/([0-9a-f-]{36})", row)[1]),  # type: ignore[index]
            str(re.search(r'<span class="chip">(\w+)</span>', row)[1]),  # type: ignore[index]
        )
        for row in rows
    ]


def link(page: Page, rel: str) -> str:
    found = re.search(rf'rel="{rel}" href="([^"]+)"', page.html)
    return PATH + found[1].replace("&amp;", "&") if found else ""


async def walk_pages(desk: StaffBrowser, path: str, rel: str) -> list[Page]:
    pages = []
    while path:
        pages.append(await desk.opened(path))
        path = link(pages[-1], rel)
        assert len(pages) < 20
    return pages


async def test_merchants_of_all_cells_are_one_ordered_list_that_pages_both_ways(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    pages = await walk_pages(desk, ALL, "next")
    assert [row for page in pages for row in rows_of(page)] == await stored_merchants(cells)
    assert [len(rows_of(page)) for page in pages[:-1]] == [PAGE] * (len(pages) - 1)
    # The first page mixes merchants of all cells.
    assert {cell for _, cell in rows_of(pages[0])} == set(NAMES.values())
    back = await walk_pages(desk, link(pages[-1], "prev"), "prev")
    assert [rows_of(page) for page in back] == [rows_of(page) for page in pages[-2::-1]]


async def test_a_status_or_a_name_is_searched_in_all_cells(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    pages = await walk_pages(desk, f"{ALL}&situacao=pending", "next")
    assert [row for page in pages for row in rows_of(page)] == await stored_merchants(cells, kyc="pending")
    page = await desk.opened(f"{ALL}&busca=loja+bela+0")
    assert sorted(rows_of(page)) == sorted(await stored_merchants(cells, name="Loja bela 0%"))
    assert {cell for _, cell in rows_of(page)} == {"bela"}
    found = rows_of(await desk.opened(f"{ALL}&busca=loja"))
    assert sorted(found) == sorted(await stored_merchants(cells))
    theirs = cells.merchants[CORA]
    for text in (str(theirs.account_id), theirs.dashboard.email):
        assert rows_of(await desk.opened(f"{ALL}&busca={text}")) == [(str(theirs.account_id), "cora")]
    wrong = await desk.ask("GET", f"{ALL}&busca=loja&situacao=pending")
    assert (wrong.status, "Busque, ou escolha uma situação" in wrong.text) == (400, True)


async def test_a_merchant_of_another_cell_is_reached_by_changing_the_cell(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    for number in (BELA, HOME):
        page = await desk.opened(f"{ALL}&busca={cells.merchants[number].account_id}")
        merchant = f"{PATH}/{cells.merchants[number].account_id}"
        assert (f'href="{merchant}"' in page.html) == (number == HOME)
        if number != HOME:
            led = await desk.ask("POST", "/plataforma/celula", page.hidden_with("para", merchant))
            assert led.where == merchant
            await desk.opened(merchant)
            await desk.choose("home")


async def test_by_default_the_list_has_the_merchants_of_the_current_cell_only(cells: Cells) -> None:
    desk = await staff_of_cell(cells, role="support")
    await desk.choose("bela")
    page = await desk.opened(PATH)
    assert "Só bela" in page.text
    rows = re.findall(r'class="row-link" href="/plataforma/lojas/([0-9a-f-]{36})"', page.html)
    assert rows == [each for each, cell in await stored_merchants(cells) if cell == "bela"]
    assert (await desk.ask("GET", f"{PATH}?celulas=x")).status == 400
    # The list over all cells is reachable from there; a position in it is not valid in the list of one cell.
    over = await desk.opened(ALL)
    assert {cell for _, cell in rows_of(over)} == set(NAMES.values())
    position = link(over, "next").partition("depois=")[2]
    assert (await desk.ask("GET", f"{PATH}?depois={position}")).where == PATH
    # Staff of one cell are offered no other.
    theirs = await staff_of_cell(cells, ALA)
    assert "celulas" not in (await theirs.opened(PATH)).html
    assert (await theirs.ask("GET", ALL)).status == 400


async def test_a_page_over_all_cells_costs_each_cell_one_statement(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    first = await desk.opened(ALL)
    for path in (ALL, link(first, "next")):
        with statements_run() as run:
            await desk.opened(path)
        assert run["platform"] == len(cells.urls), path


async def test_an_unreachable_cell_is_named_and_the_others_are_listed(cells: Cells, second: EmbeddedPostgres) -> None:
    desk = await staff_of_cell(cells)
    everybody = await stored_merchants(cells)
    second.stop()
    pages = await walk_pages(desk, ALL, "next")
    for page in pages:
        for number, cell in NAMES.items():
            assert (f"A célula {cell} não respondeu" in page.text) == (number in (BELA, CORA))
    assert [row for page in pages for row in rows_of(page)] == [row for row in everybody if row[1] in ("home", "ala")]
    second.restart()
