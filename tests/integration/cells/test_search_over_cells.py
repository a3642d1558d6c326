"""One search finds what a caller names in whichever cell it is."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from runtime.cells.number import HOME, in_cell
from runtime.local.embedded import EmbeddedPostgres
from tests.support.cells import Cells, open_cells
from tests.support.counting import statements_run
from tests.support.dashboard import Books
from tests.support.staff_in_cells import Page, StaffBrowser, staff_of_cell

ALA, BELA, CORA = 1, 2, 3
NAMES = {HOME: "home", ALA: "ala", BELA: "bela", CORA: "cora"}
DOCUMENT = "52998224725"
PATH = "/plataforma/busca"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cells(servers: Any, second: EmbeddedPostgres) -> AsyncIterator[Cells]:
    async with open_cells(servers, second) as opened:
        yield opened


async def create_paid_charge(cells: Cells, number: int, **more: Any) -> Any:
    """Creates a charge in this cell and pays it."""
    async with cells.pool(number) as pool:
        books = Books(pool, cells.merchants[number].account_id, cells.seal)
        with in_cell(number):
            doc = await books.charge(1_000 + number, **more)
            await books.paid(doc)
    return doc


async def search_for(desk: StaffBrowser, text: str) -> Page:
    page = await desk.send(PATH, on=PATH, q=text)
    assert page.status == 200, page.text[:400]
    return page


def hits_of(page: Page) -> list[tuple[str, str]]:
    """Returns charge_id and cell of each hit, as the page shows them."""
    hits = re.findall(r'<section class="panel" aria-label="Cobrança.*?</section>', page.html, re.DOTALL)
    return [
        (
            str(re.search(r">charge_id</code></dt><dd><code>(.*?)</code>", hit)[1]),  # type: ignore[index]
            str(re.search(r'<div class="whose">.*?<span class="chip">(.*?)</span>', hit, re.DOTALL)[1]),  # type: ignore[index]
        )
        for hit in hits
    ]


async def audited_searches(cells: Cells, number: int, desk: StaffBrowser) -> list[Any]:
    async with cells.pool(number) as pool:
        rows = await pool.fetch(
            "SELECT facts FROM audit WHERE email = $1 AND action = 'platform.searched' ORDER BY number", desk.email
        )
    return [json.loads(row["facts"]) for row in rows]


async def test_a_document_is_found_in_all_cells_and_each_hit_names_its_cell(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    docs = {
        number: await create_paid_charge(cells, number, payer={"name": "Ana", "document": DOCUMENT})
        for number in (HOME, BELA, CORA)
    }
    page = await search_for(desk, "529.982.247-25")
    assert hits_of(page) == [(docs[number].charge_id, NAMES[number]) for number in docs]
    for number in NAMES:
        (facts,) = await audited_searches(cells, number, desk)
        assert facts["found_by"] == ("payer" if number in docs else "nothing")
        assert facts["accounts"] == (str(cells.merchants[number].account_id) if number in docs else "")
        assert facts.get("staff_of") == (None if number == HOME else "home")
        assert DOCUMENT not in json.dumps(facts)


@pytest.mark.parametrize("number", [HOME, ALA, BELA], ids=["home", "ala", "bela"])
async def test_every_identifier_of_a_charge_or_request_leads_to_its_cell(cells: Cells, number: int) -> None:
    desk = await staff_of_cell(cells)
    doc = await create_paid_charge(cells, number, external_id=f"Pedido {NAMES[number]}-1")
    account_id = cells.merchants[number].account_id
    request_id = f"req_{account_id.hex[-20:]}"
    async with cells.pool(number) as pool:
        await pool.execute(
            "INSERT INTO request_log"
            " (account_id, test, at, request_id, client_id, method, path, status, code, duration_us)"
            " VALUES ($1, false, now(), $2, 'c', 'POST', '/v1/charges/pix', 201, NULL, 1500)",
            account_id,
            request_id,
        )
    link = f"https://pay.example/pagar/{doc.public_id}"
    for text in (doc.charge_id, str(doc.txid), link, f"Pedido {NAMES[number]}-1"):
        assert hits_of(await search_for(desk, text)) == [(doc.charge_id, NAMES[number])], text
    page = await search_for(desk, request_id)
    assert "/v1/charges/pix" in page.text
    merchant = f"/plataforma/lojas/{account_id}"
    if number != HOME:
        assert f'href="{merchant}"' not in page.html, "a merchant of another cell is reached only by changing the cell"
        led = await desk.ask("POST", "/plataforma/celula", page.hidden_with("para", merchant))
        assert (led.status, led.where) == (303, merchant)
    await desk.opened(merchant)
    # In its own cell the merchant is linked directly.
    page = await search_for(desk, doc.charge_id)
    assert (f'href="{merchant}"' in page.html, hits_of(page)) == (True, [(doc.charge_id, NAMES[number])])


async def test_staff_of_one_cell_find_only_charges_of_their_cell(cells: Cells) -> None:
    desk = await staff_of_cell(cells, ALA)
    ours, theirs = await create_paid_charge(cells, ALA), await create_paid_charge(cells, BELA)
    assert ours.charge_id in (await search_for(desk, ours.charge_id)).html
    page = await search_for(desk, theirs.charge_id)
    assert ("Nada encontrado" in page.text, "célula" in page.text) == (True, False)
    assert len(await audited_searches(cells, ALA, desk)) == 2
    for number in (HOME, BELA, CORA):
        assert await audited_searches(cells, number, desk) == []


async def test_a_search_over_all_cells_costs_each_cell_the_statements_of_one(cells: Cells) -> None:
    desks = await staff_of_cell(cells, ALA), await staff_of_cell(cells)
    asked = []
    for desk in desks:
        with statements_run() as run:
            await search_for(desk, "nothing at all has this")
        asked.append(run["staff_search"])
    assert asked[1] == asked[0] * len(cells.urls) > 0


async def test_a_search_form_sent_twice_is_executed_once(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    form = (await desk.opened(PATH)).hidden(PATH) | {"q": "Pedido"}
    assert (await desk.ask("POST", PATH, form)).status == 200
    assert (await desk.ask("POST", PATH, form)).status == 409
    for number in NAMES:
        assert len(await audited_searches(cells, number, desk)) == 1


async def test_an_unreachable_or_slow_cell_is_named_and_the_others_answer(
    cells: Cells, second: EmbeddedPostgres
) -> None:
    desk = await staff_of_cell(cells)
    document = "11144477735"
    payer = {"name": "Ana", "document": document}
    docs = {number: await create_paid_charge(cells, number, payer=payer) for number in NAMES}
    conn = await asyncpg.connect(cells.owner_urls[ALA])
    async with conn.transaction():
        await conn.execute("LOCK TABLE read_charge IN ACCESS EXCLUSIVE MODE")
        page = await search_for(desk, document)
    await conn.close()
    assert "A célula ala não respondeu" in page.text
    assert [cell for _, cell in hits_of(page)] == ["home", "bela", "cora"]
    second.stop()
    page = await search_for(desk, document)
    assert [name for name in NAMES.values() if f"A célula {name} não respondeu" in page.text] == [
        "bela",
        "cora",
    ]
    assert hits_of(page) == [(docs[HOME].charge_id, "home"), (docs[ALA].charge_id, "ala")]
    nothing = await search_for(desk, "of nobody")
    assert "em nenhuma das células que responderam" in nothing.text
    second.restart()
