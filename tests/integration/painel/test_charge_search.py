"""The list of charges: each charge with its payer and amount, and a search by id, code, link, amount or payer."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from domain.mode import Mode, Owner
from readmodels.charges import newest_search
from readmodels.dashboard import known_payer
from runtime.seal import Seal
from tests.support.dashboard import Books, Person, a_merchant, colleague_in_browser, owner_in_browser, settings_with
from tests.support.pages import serving

DOCUMENT = "52998224725"


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Any) -> AsyncIterator[Any]:
    """A merchant's owner at the dashboard, and the merchant's books."""
    settings = settings_with()
    merchant = await a_merchant(pool)
    async with (
        serving(pool, lambda: datetime.now(UTC), settings) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        yield owner, Books(pool, merchant.account_id, Seal(settings.secret_key)), address, merchant


async def path_found(owner: Person, text: str, root: str = "/painel") -> str:
    """The page that the search redirects to."""
    seen = await owner.ask("GET", f"{root}/cobrancas/busca", params={"q": text})
    assert seen.status == 303, seen.text[:300]
    return seen.where.removeprefix(root)


async def test_the_list_and_its_csv_show_each_payer_except_to_roles_that_see_payers_masked(shop: Any) -> None:
    owner, books, address, merchant = shop
    await books.charge(1250, external_id="ped-1", payer={"name": "Maria da Silva", "document": DOCUMENT})
    assert "Maria da Silva" in (await owner.opened("/painel/cobrancas")).text
    assert "Maria da Silva;***.982.247-**" in (await owner.opened("/painel/cobrancas.csv")).html
    async with colleague_in_browser(books.pool, address, merchant, "developer") as developer:
        text = (await developer.opened("/painel/cobrancas")).text + (
            await developer.opened("/painel/cobrancas.csv")
        ).html
    assert "Maria" not in text
    assert DOCUMENT not in text


async def test_tabs_count_charges_per_status_and_the_list_shows_its_count_and_sum(shop: Any) -> None:
    owner, books, *_ = shop
    for cents in (1000, 2050):
        await books.charge(cents)
    await books.paid(await books.charge(700))
    text = (await owner.opened("/painel/cobrancas")).text
    assert "Todas 3 Em aberto 2 Pagas 1" in text
    assert "3 cobranças, R$\u00a037,50" in text
    pending = (await owner.opened("/painel/cobrancas?status=pending")).text
    assert "Todas 3 Em aberto 2 Pagas 1" in pending  # the tabs count all charges, whichever tab is open
    assert "2 cobranças, R$\u00a030,50" in pending


async def test_the_page_is_shown_without_counts_that_would_take_too_long(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, books, *_ = shop
    doc = await books.charge(1000, external_id="ped-9")
    monkeypatch.setattr("web.painel.totals.TOTALS_S_MAX", 0.0)
    seen = await owner.opened("/painel/cobrancas")
    assert doc.charge_id in seen.html
    assert "1 cobrança," not in seen.text


async def test_a_charge_is_found_by_any_of_its_ids_links_references_or_documents(shop: Any) -> None:
    owner, books, *_ = shop
    doc = await books.charge(900, external_id="Pedido 77/3", payer={"name": "Ana", "document": DOCUMENT})
    await books.charge(900)
    await books.paid(doc)
    receipt, payment_id = await books.pool.fetchrow(
        "SELECT source, payment_id FROM payment WHERE account_id = $1", books.account_id
    )
    page = f"/cobrancas/{doc.charge_id}"
    refund_id = await books.refunded(doc)
    for text in (
        doc.charge_id,
        payment_id,
        refund_id,
        f"D{refund_id.hex[2:]}Z",
        doc.charge_id.upper(),
        f"  {doc.charge_id} ",
        doc.txid,
        receipt,
        f"https://x.example/pagar/{doc.public_id}?a=1",
    ):
        assert await path_found(owner, str(text)) == page
    assert await path_found(owner, "Pedido 77/3") == "/cobrancas?external_id=Pedido+77%2F3"
    await books.charge(900, external_id="pão\u00a0👩\u200d🍳")
    assert (await path_found(owner, "pão\u00a0👩\u200d🍳")).startswith("/cobrancas?external_id=p%C3%A3o%C2%A0")
    for written in (DOCUMENT, "529.982.247-25"):
        assert await path_found(owner, written) == f"/cobrancas?payer_document={DOCUMENT}"
    listed = await owner.opened(f"/painel/cobrancas?payer_document={DOCUMENT}")
    assert "1 cobrança," in listed.text


async def test_the_search_finds_no_charge_of_another_account_or_of_the_other_mode(shop: Any, pool: Any) -> None:
    owner, books, *_ = shop
    mine = await books.charge(900, external_id="meu")
    test = await books.charge(900, test=True, external_id="de-teste")
    other = await a_merchant(pool)
    theirs = await Books(pool, other.account_id, books.seal).charge(900, external_id="de-outra")
    refund_id = await Books(pool, other.account_id, books.seal).refunded(theirs)
    for text in (
        theirs.charge_id,
        refund_id,
        f"D{refund_id.hex[2:]}Z",
        str(theirs.txid),
        theirs.public_id,
        "de-outra",
        "de-teste",
        test.charge_id,
        "<b>x</b>",
        "\x00",
    ):
        seen = await owner.ask("GET", "/painel/cobrancas/busca", params={"q": text})
        assert (seen.status, "<b>x</b>" in seen.html) == (200, False), text
    assert "Há caracteres que não podem ser usados." in seen.text
    seen = await owner.ask("GET", "/painel/cobrancas/busca", params={"q": "de-outra"})
    assert "Nenhuma cobrança tem de-outra" in seen.text
    assert await path_found(owner, test.charge_id, "/painel/teste") == f"/cobrancas/{test.charge_id}"
    assert await path_found(owner, mine.charge_id) == f"/cobrancas/{mine.charge_id}"


async def test_a_charge_is_found_by_its_amount_or_by_the_amount_paid(shop: Any, pool: Any) -> None:
    owner, books, *_ = shop
    await books.charge(153_10, external_id="pelo-valor")
    await books.paid(await books.charge(150_00, external_id="com-multa"), 153_10)
    await books.charge(150_01, external_id="outro-valor")
    await books.charge(153_10, external_id="de-teste", test=True)
    other = await a_merchant(pool)
    await Books(pool, other.account_id, books.seal).charge(153_10, external_id="de-outra")
    for typed in ("153,10", "R$ 153,10", "r$153,10", "R$\u00a0153,10"):
        seen = await owner.ask("GET", "/painel/cobrancas/busca", params={"q": typed})
        assert seen.status == 200
        assert "2 cobranças de R$\u00a0153,10 , ou pagas com este valor, entre as 2.000 mais novas." in seen.text, typed
        assert ("pelo-valor" in seen.text, "com-multa" in seen.text) == (True, True)
        assert not {"outro-valor", "de-teste", "de-outra"} & set(seen.text.split())
    nothing = await owner.ask("GET", "/painel/cobrancas/busca", params={"q": "153,11"})
    assert "Nenhuma cobrança tem 153,11" in nothing.text


async def test_a_charge_is_found_by_words_of_its_payers_name_or_e_mail(shop: Any) -> None:
    owner, books, *_ = shop
    await books.charge(900, external_id="a", payer={"name": "João Batista D'Ávila", "email": "joao@ipe.example"})
    await books.charge(900, external_id="b", payer={"name": "Maria Batista"})
    await books.charge(900, external_id="c")
    for typed, said in (
        ("joao avila", "1 cobrança de quem tem joao avila no nome ou no e-mail"),
        ("JOÃO@IPE.example", "1 cobrança de quem tem"),
        ("batista", "2 cobranças de quem tem batista no nome ou no e-mail"),
    ):
        seen = await owner.ask("GET", "/painel/cobrancas/busca", params={"q": typed})
        assert said in seen.text, seen.text
        assert "João Batista D'Ávila" in seen.text
    nobody = await owner.ask("GET", "/painel/cobrancas/busca", params={"q": "joao batista silva"})
    assert "nome ou e-mail do pagador entre as 2.000 mais novas" in nobody.text


async def test_roles_that_see_payers_masked_find_no_charge_by_payer_name(shop: Any) -> None:
    _, books, address, merchant = shop
    await books.charge(77_70, external_id="so-valor", payer={"name": "João Batista"})
    async with colleague_in_browser(books.pool, address, merchant, "developer") as developer:
        seen = await developer.ask("GET", "/painel/cobrancas/busca", params={"q": "joao"})
        assert "Nenhuma cobrança tem joao" in seen.text
        assert "so-valor" not in seen.text
        by_amount = await developer.ask("GET", "/painel/cobrancas/busca", params={"q": "77,70"})
        assert "so-valor" in by_amount.text
        assert "João" not in by_amount.text


async def test_a_search_through_sealed_payers_lets_other_tasks_run_between_batches(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, books, _, merchant = shop
    for number in range(9):
        await books.charge(payer={"name": f"Maria {number}", "document": f"{number:011}"})
    for module in (known_payer, newest_search):
        monkeypatch.setattr(module, "OPENED_AT_ONCE", 2)
    turns, opened_in = 0, list[int]()
    open_sealed = Seal.open

    def recording_open(seal: Seal, sealed: bytes, what: str, row: object) -> bytes:
        opened_in.append(turns)
        return open_sealed(seal, sealed, what, row)

    monkeypatch.setattr(Seal, "open", recording_open)

    async def run_other_task() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    owner = Owner(merchant.account_id, Mode.PRODUCTION)
    running = asyncio.create_task(run_other_task())
    async with books.pool.acquire() as conn:
        for search in (known_payer.search_payers_by_name, newest_search.newest_of_payer):
            assert len(await search(conn, owner, "maria", seal=books.seal)) == 9
            assert len(opened_in) == 9
            assert max(Counter(opened_in).values()) == 2
            opened_in.clear()
    running.cancel()
