"""What a caller has in hand is found in whichever cell it is, by one search."""

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
from tests.support.staff_in_cells import Desk, Page, staff_of_cell

ALA, BELA, CORA = 1, 2, 3
NAMES = {HOME: "home", ALA: "ala", BELA: "bela", CORA: "cora"}
DOCUMENT = "52998224725"
PATH = "/plataforma/busca"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cells(servers: Any, second: EmbeddedPostgres) -> AsyncIterator[Cells]:
    async with open_cells(servers, second) as opened:
        yield opened


async def charged(cells: Cells, number: int, **more: Any) -> Any:
    """A charge of this cell that was paid."""
    async with cells.pool(number) as pool:
        books = Books(pool, cells.merchants[number].account_id, cells.seal)
        with in_cell(number):
            doc = await books.charge(1_000 + number, **more)
            await books.paid(doc)
    return doc


async def searched(desk: Desk, text: str) -> Page:
    page = await desk.send(PATH, on=PATH, q=text)
    assert page.status == 200, page.text[:400]
    return page


def found_in(page: Page) -> list[tuple[str, str]]:
    """charge_id and cell of each hit, as the page shows them."""
    hits = re.findall(r'<section class="panel" aria-label="Cobrança.*?</section>', page.html, re.DOTALL)
    return [
        (
            str(re.search(r">charge_id</code></dt><dd><code>(.*?)</code>", hit)[1]),  # type: ignore[index]
            str(re.search(r'<div class="whose">.*?<span class="chip">(.*?)</span>', hit, re.DOTALL)[1]),  # type: ignore[index]
        )
        for hit in hits
    ]


async def written(cells: Cells, number: int, desk: Desk) -> list[Any]:
    async with cells.pool(number) as pool:
        rows = await pool.fetch(
            "SELECT facts FROM audit WHERE email = $1 AND action = 'platform.searched' ORDER BY number", desk.email
        )
    return [json.loads(row["facts"]) for row in rows]


async def test_what_is_of_several_cells_is_found_in_all_and_each_hit_names_its_cell(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    docs = {
        number: await charged(cells, number, payer={"name": "Ana", "document": DOCUMENT})
        for number in (HOME, BELA, CORA)
    }
    page = await searched(desk, "529.982.247-25")
    assert found_in(page) == [(docs[number].charge_id, NAMES[number]) for number in docs]
    for number in NAMES:
        (facts,) = await written(cells, number, desk)
        assert facts["found_by"] == ("payer" if number in docs else "nothing")
        assert facts["accounts"] == (str(cells.merchants[number].account_id) if number in docs else "")
        assert facts.get("staff_of") == (None if number == HOME else "home")
        assert DOCUMENT not in json.dumps(facts)


@pytest.mark.parametrize("number", [HOME, ALA, BELA], ids=["home", "ala", "bela"])
async def test_whatever_a_caller_has_leads_to_the_cell_of_it(cells: Cells, number: int) -> None:
    desk = await staff_of_cell(cells)
    doc = await charged(cells, number, external_id=f"Pedido {NAMES[number]}-1")
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
        assert found_in(await searched(desk, text)) == [(doc.charge_id, NAMES[number])], text
    page = await searched(desk, request_id)
    assert "/v1/charges/pix" in page.text
    merchant = f"/plataforma/lojas/{account_id}"
    if number != HOME:
        assert f'href="{merchant}"' not in page.html, "the way there is the change of cell"
        led = await desk.ask("POST", "/plataforma/celula", page.hidden_with("para", merchant))
        assert (led.status, led.where) == (303, merchant)
    await desk.opened(merchant)
    # From there it is of the cell one is in, and what is of others leads away.
    page = await searched(desk, doc.charge_id)
    assert (f'href="{merchant}"' in page.html, found_in(page)) == (True, [(doc.charge_id, NAMES[number])])


async def test_staff_of_one_cell_find_what_is_theirs(cells: Cells) -> None:
    desk = await staff_of_cell(cells, ALA)
    ours, theirs = await charged(cells, ALA), await charged(cells, BELA)
    assert ours.charge_id in (await searched(desk, ours.charge_id)).html
    page = await searched(desk, theirs.charge_id)
    assert ("Nada encontrado" in page.text, "célula" in page.text) == (True, False)
    assert len(await written(cells, ALA, desk)) == 2
    for number in (HOME, BELA, CORA):
        assert await written(cells, number, desk) == []


async def test_a_search_costs_each_cell_what_it_costs_one(cells: Cells) -> None:
    desks = await staff_of_cell(cells, ALA), await staff_of_cell(cells)
    asked = []
    for desk in desks:
        with statements_run() as run:
            await searched(desk, "nothing at all has this")
        asked.append(run["staff_search"])
    assert asked[1] == asked[0] * len(cells.urls) > 0


async def test_a_search_sent_twice_is_made_once(cells: Cells) -> None:
    desk = await staff_of_cell(cells)
    form = (await desk.opened(PATH)).hidden(PATH) | {"q": "Pedido"}
    assert (await desk.ask("POST", PATH, form)).status == 200
    assert (await desk.ask("POST", PATH, form)).status == 409
    for number in NAMES:
        assert len(await written(cells, number, desk)) == 1


async def test_a_cell_that_is_away_or_slow_is_named_and_the_others_answer(
    cells: Cells, second: EmbeddedPostgres
) -> None:
    desk = await staff_of_cell(cells)
    document = "11144477735"
    payer = {"name": "Ana", "document": document}
    docs = {number: await charged(cells, number, payer=payer) for number in NAMES}
    conn = await asyncpg.connect(cells.owner_urls[ALA])
    async with conn.transaction():
        await conn.execute("LOCK TABLE read_charge IN ACCESS EXCLUSIVE MODE")
        page = await searched(desk, document)
    await conn.close()
    assert "A célula ala não respondeu" in page.text
    assert [cell for _, cell in found_in(page)] == ["home", "bela", "cora"]
    second.stop()
    page = await searched(desk, document)
    assert [name for name in NAMES.values() if f"A célula {name} não respondeu" in page.text] == [
        "bela",
        "cora",
    ]
    assert found_in(page) == [(docs[HOME].charge_id, "home"), (docs[ALA].charge_id, "ala")]
    nothing = await searched(desk, "of nobody")
    assert "em nenhuma das células que responderam" in nothing.text
    second.restart()
