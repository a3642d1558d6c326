"""Charging a payer again: the form is prefilled from a charge, or from a payer found by name or document."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
import pytest_asyncio

from commands.bank_orders.pix_locations import add_to_pool
from commands.payers.erase import erase_payer
from commands.people.audit import Origin
from domain.mode import Mode, Owner
from domain.payer import MASKED, WHOLE
from readmodels.dashboard.known_payer import KnownPayer
from runtime.postgres import transaction
from runtime.seal import CHARGE_PAYER, SCHEDULE_PAYER, Seal
from tests.support.banking import BANK, new_locations
from tests.support.dashboard import Books, Seen, a_merchant, colleague_in_browser, owner_in_browser, settings_with
from tests.support.pages import serving
from web.painel.charges.prefill import payer_fields
from web.painel.page_request import PageRequest

SETTINGS = settings_with()
SEAL = Seal(SETTINGS.secret_key)
DOCUMENT = "52998224725"
MASK = "***.982.247-**"
PAYER = {"name": "Maria da Silva", "document": DOCUMENT, "email": "maria@loja.example", "phone": "+5511987654321"}
PLACE = {"street": "Rua das Flores", "number": "10", "city": "Olinda", "state": "PE", "zip_code": "53020140"}
NEW = "/painel/cobrancas/nova"
PIX: dict[str, Any] = {"forma": "pix", "lifetime": "3600"}


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Any) -> AsyncIterator[Any]:
    """A merchant's owner at the dashboard, and the merchant's books."""
    merchant = await a_merchant(pool)
    async with pool.acquire() as conn:
        await add_to_pool(conn, Mode.PRODUCTION, BANK, new_locations(4))
    async with (
        serving(pool, lambda: datetime.now(UTC), SETTINGS) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        yield owner, Books(pool, merchant.account_id, SEAL), address, merchant


def field_values(seen: Seen) -> dict[str, str]:
    """The values in the fields of the page's form."""
    fields = {
        name: unescape(value)
        for name, value in re.findall(
            r'<input id="i-[a-z_]+" name="([a-z_]+)" type="(?!checkbox)[a-z]+" value="([^"]*)"', seen.html
        )
    }
    for name, options in re.findall(r'<select id="i-[a-z]+" name="([a-z]+)"[^>]*>(.*?)</select>', seen.html, re.S):
        fields[name] = next(iter(re.findall(r'value="([^"]*)" selected', options)), "")
    fields.pop("payer_query", None)
    return fields


async def stored_payer(books: Books, charge_id: str) -> dict[str, str]:
    """The payer stored with the charge, unsealed."""
    sealed = await books.pool.fetchval("SELECT payer_sealed FROM charge WHERE charge_id = $1", UUID(charge_id))
    found: dict[str, str] = msgspec.json.decode(SEAL.open(sealed, CHARGE_PAYER, UUID(charge_id)))
    return found


async def test_a_charge_is_made_again_for_its_payer_without_showing_the_document(shop: Any) -> None:
    owner, books, *_ = shop
    doc = await books.charge(
        1234_56, payer=PAYER, external_id="ped-1", description="Mensalidade", lifetime=timedelta(days=7)
    )
    page = await owner.opened(f"/painel/cobrancas/{doc.charge_id}")
    link = re.search(r'href="([^"]*)">Cobrar de novo<', page.html)
    assert link
    form = await owner.opened(link[1])
    assert field_values(form) == {
        "amount": "1.234,56", "lifetime": "604800", "external_id": "", "description": "Mensalidade",
        "payer_name": "Maria da Silva", "payer_document": MASK, "payer_email": "maria@loja.example",
        "payer_phone": "+5511987654321",
    }  # fmt: skip
    assert DOCUMENT not in form.html
    sent = {**field_values(form), "forma": "pix", "de": doc.charge_id}
    done = await owner.post(NEW, form=form, **sent)
    assert done.status == 303, done.text[:300]
    again = done.where.split("/")[-1].split("?")[0]
    assert again != doc.charge_id
    assert await stored_payer(books, again) == PAYER
    hashes = await books.pool.fetch(
        "SELECT DISTINCT payer_document_hash FROM read_charge WHERE account_id = $1", books.account_id
    )
    assert len(hashes) == 1
    # A document typed in place of the mask replaces the payer's document.
    other = await owner.post(NEW, form=await owner.opened(link[1]), **{**sent, "payer_document": "111.444.777-35"})
    assert (await stored_payer(books, other.where.split("/")[-1].split("?")[0]))["document"] == "11144477735"


async def test_a_boleto_form_is_prefilled_from_a_charge_without_a_due_date(shop: Any) -> None:
    owner, books, *_ = shop
    doc = await books.charge(10_00, payer={**PAYER, **PLACE})
    form = await owner.opened(f"{NEW}?de={doc.charge_id}&forma=boleto")
    found = field_values(form)
    assert (found["due_date"], found["zip_code"], found["street"], found["state"]) == (
        "", "53020140", "Rua das Flores", "PE",
    )  # fmt: skip
    other = await owner.post(NEW, form=form, **found, forma="boleto", de=doc.charge_id, trocar="pix")
    assert (other.status, field_values(other)["payer_name"]) == (200, "Maria da Silva"), (
        "changing the kind of charge keeps the filled fields"
    )
    assert f'name="de" value="{doc.charge_id}"' in other.html


def hidden_fields(seen: Seen) -> dict[str, str]:
    """The hidden inputs of the page's form."""
    found = re.findall(r'<input type="hidden" form="new" name="([a-z_]+)" value="([^"]*)">', seen.html)
    return {name: unescape(value) for name, value in found}


@pytest.mark.parametrize(
    ("new", "boleto", "typed"),
    [
        (NEW, "boleto", {"due_date": "2031-05-09", "integrador_code": "INTG-AB12CD"}),
        ("/painel/programacoes/nova", "boleto_hibrido", {"first_due_date": "2031-05-09", "max_charges": "12"}),
    ],
)
async def test_changing_the_kind_of_charge_and_back_keeps_every_typed_field(
    shop: Any, new: str, boleto: str, typed: dict[str, str]
) -> None:
    owner, *_ = shop
    form = await owner.opened(new)
    typed |= {"amount": "nada", "external_id": "ped <1>", "payer_name": "Ana & Cia"}
    seen = await owner.post(
        new, form=form, **{**hidden_fields(form), **field_values(form), **typed}, forma="pix", trocar=boleto
    )
    assert (seen.status, "Confira" in seen.text) == (200, False), (
        "changing the kind creates no charge and reports no fault"
    )
    typed |= {"street": "Rua das Flores", "fine": "2,00"}
    sent = {**hidden_fields(seen), **field_values(seen), "street": typed["street"], "fine": typed["fine"]}
    pix = await owner.post(new, form=seen, **sent, forma=boleto, trocar="pix")
    assert 'name="street" type' not in pix.html
    again = await owner.post(new, form=pix, **{**hidden_fields(pix), **field_values(pix)}, forma="pix", trocar=boleto)
    assert {name: field_values(again)[name] for name in typed} == typed


async def test_a_payer_found_by_document_fills_in_the_newest_name_and_address(shop: Any) -> None:
    owner, books, *_ = shop
    now = datetime.now(UTC)
    await books.charge(payer={**PAYER, **PLACE, "name": "Maria Antiga"}, at=now - timedelta(days=2))
    await books.charge(payer=PAYER, at=now - timedelta(days=1))
    await books.charge(payer={**PAYER, "name": "Teste"}, test=True)
    typed: dict[str, Any] = {
        "forma": "boleto", "kind": "boleto", "amount": "10", "payer_document": "529.982.247-25", "number": "99",
        "payer_name": "Outra", "buscar": "pagador",
    }  # fmt: skip
    seen = await owner.post(NEW, on=f"{NEW}?forma=boleto", **typed)
    assert seen.status == 200, seen.text[:300]
    found = field_values(seen)
    # The newest name, and the address of the newest charge that has one.
    assert (found["payer_name"], found["street"], found["number"]) == ("Maria da Silva", "Rua das Flores", "10")
    assert (found["payer_document"], found["amount"]) == ("529.982.247-25", "10")
    assert "Dados da cobrança mais recente" in seen.text
    unknown = await owner.post(NEW, on=NEW, **{**typed, "forma": "pix", "payer_document": "111.444.777-35"})
    assert (unknown.status, field_values(unknown)["payer_name"]) == (200, "Outra")
    assert "Nenhuma cobrança com este CPF ou CNPJ" in unknown.text
    wrong = await owner.post(NEW, on=NEW, **{**typed, "forma": "pix", "payer_document": "123"})
    assert (wrong.status, "Informe um CPF" in wrong.text) == (400, True)
    assert await books.pool.fetchval("SELECT count(*) FROM charge WHERE account_id = $1", books.account_id) == 3


async def test_a_form_is_not_prefilled_with_an_erased_payer(shop: Any) -> None:
    owner, books, *_ = shop
    doc = await books.charge(payer=PAYER)
    await books.paid(doc)
    async with transaction(books.pool) as conn:
        origin = Origin("somebody@example.com", "x", "req")
        account = Owner(books.account_id, Mode.PRODUCTION)
        await erase_payer(conn, account, SEAL.blind(DOCUMENT), "asked", origin, now=datetime.now(UTC))
    form = await owner.opened(f"{NEW}?de={doc.charge_id}")
    assert field_values(form)["amount"] == "10,00"
    assert not any(value for name, value in field_values(form).items() if name.startswith("payer_"))
    seen = await owner.post(NEW, form=form, **PIX, payer_document=DOCUMENT, buscar="pagador")
    assert "Nenhuma cobrança com este CPF ou CNPJ" in seen.text
    # The mask no longer stands for any document.
    sent = await owner.post(NEW, form=form, **PIX, amount="10", payer_document=MASK, de=doc.charge_id)
    assert (sent.status, "Informe um CPF" in sent.text) == (400, True)


async def test_an_unknown_charge_or_one_of_another_account_or_mode_prefills_nothing(shop: Any) -> None:
    owner, books, address, merchant = shop
    stranger = Books(books.pool, (await a_merchant(books.pool)).account_id, SEAL)
    theirs = await stranger.charge(payer=PAYER)
    for charge_id in (theirs.charge_id, (await books.charge(test=True)).charge_id, str(uuid4()), "x"):
        assert (await owner.get(f"{NEW}?de={charge_id}")).status == 404, charge_id
    seen = await owner.post(NEW, on=NEW, **PIX, amount="10", payer_document=MASK, de=theirs.charge_id)
    assert (seen.status, "Informe um CPF" in seen.text) == (400, True)
    searched = await owner.post(NEW, on=NEW, **PIX, payer_document=DOCUMENT, buscar="pagador")
    assert "Nenhuma cobrança com este CPF ou CNPJ" in searched.text
    doc = await books.charge(payer=PAYER)
    async with colleague_in_browser(books.pool, address, merchant, "developer") as developer:
        assert "Cobrar de novo" not in (await developer.opened(f"/painel/cobrancas/{doc.charge_id}")).text
        assert (await developer.get(f"{NEW}?de={doc.charge_id}")).status == 403


def test_a_form_is_not_prefilled_with_payer_data_for_roles_that_see_it_masked() -> None:
    payer = KnownPayer(**PAYER, **PLACE)
    assert payer_fields(payer, MASKED) == {}
    assert payer_fields(payer, WHOLE)["payer_document"] == MASK


def offered_payers(seen: Seen) -> list[tuple[str, str]]:
    """The payers offered: the charge each is taken from, and the text shown."""
    return [
        (charge_id, " ".join(unescape(re.sub(r"<[^>]+>", " ", shown)).split()))
        for charge_id, shown in re.findall(
            r'name="pagador" value="([^"]+)"[^>]*>.*?</button> <span>(.*?)</li>', seen.html
        )
    ]


async def test_choosing_a_payer_by_name_keeps_the_other_typed_fields(shop: Any) -> None:
    owner, books, *_ = shop
    now = datetime.now(UTC)
    await books.charge(payer={**PAYER, **PLACE, "name": "Maria Antiga"}, at=now - timedelta(days=3))
    newest = await books.charge(payer={**PAYER, "name": "João D'Ávila"}, at=now - timedelta(days=2))
    other = await books.charge(
        payer={"name": "Joana Prado", "document": "11144477735", "city": "Recife"}, at=now - timedelta(days=1)
    )
    await books.charge(payer={"name": "João sem documento"}, at=now)
    await books.charge(payer={**PAYER, "name": "João de teste"}, test=True)
    typed: dict[str, Any] = {
        "forma": "boleto", "kind": "boleto", "amount": "77,10", "external_id": "ped-9", "payer_name": "Outra",
    }  # fmt: skip
    seen = await owner.post(NEW, on=f"{NEW}?forma=boleto", **typed, payer_query="joao avila", buscar="pagador")
    assert offered_payers(seen) == [(newest.charge_id, f"João D'Ávila {MASK}")], seen.text[-900:]
    assert DOCUMENT not in seen.html
    both = await owner.post(NEW, on=f"{NEW}?forma=boleto", **typed, payer_query="JO", buscar="pagador")
    assert offered_payers(both) == [
        (other.charge_id, "Joana Prado ***.444.777-** · Recife"), (newest.charge_id, f"João D'Ávila {MASK}"),
    ]  # fmt: skip
    formerly = await owner.post(NEW, on=f"{NEW}?forma=boleto", **typed, payer_query="maria", buscar="pagador")
    assert offered_payers(formerly) == offered_payers(seen), "a payer whose newest charge has another name"
    by_document = await owner.post(
        NEW, on=f"{NEW}?forma=boleto", **typed, payer_query="529.982.247-25", buscar="pagador"
    )
    assert offered_payers(by_document) == offered_payers(seen)
    recent = await owner.post(NEW, on=f"{NEW}?forma=boleto", **{**typed, "payer_name": ""}, buscar="pagador")
    assert offered_payers(recent) == offered_payers(both)
    nobody = await owner.post(NEW, on=f"{NEW}?forma=boleto", **typed, payer_query="zé", buscar="pagador")
    assert (offered_payers(nobody), "Nenhum pagador com este nome nas 2.000" in nobody.text) == ([], True)

    form = await owner.post(NEW, form=seen, **typed, payer_query="joao avila", pagador=newest.charge_id)
    wanted = {
        "payer_name": "João D'Ávila", "payer_document": MASK, "street": "Rua das Flores", "amount": "77,10",
        "external_id": "ped-9",
    }  # fmt: skip
    assert {name: field_values(form)[name] for name in wanted} == wanted
    hidden = dict(re.findall(r'name="(payer_from|payer_searched)" value="([^"]*)"', form.html))
    assert hidden == {"payer_from": newest.charge_id, "payer_searched": ""}
    # Created as PIX, which needs no bank call here.
    sent = {**field_values(form), **hidden, "forma": "pix", "lifetime": "3600"}
    done = await owner.post(NEW, form=form, **sent)
    assert done.status == 303, done.text[:400]
    assert (await stored_payer(books, done.where.split("/")[-1].split("?")[0]))["document"] == DOCUMENT


async def test_enter_in_the_payer_search_searches_and_creates_no_charge(shop: Any) -> None:
    owner, books, *_ = shop
    doc = await books.charge(payer=PAYER)
    sent = {**PIX, "amount": "10", "payer_query": "maria"}
    seen = await owner.post(NEW, on=NEW, **sent, payer_searched="")
    assert [charge_id for charge_id, _ in offered_payers(seen)] == [doc.charge_id]
    assert 'name="payer_searched" value="maria"' in seen.html
    again = await owner.post(NEW, form=seen, **{**sent, "payer_query": "mario"}, payer_searched="maria")
    assert (again.status, offered_payers(again)) == (200, [])
    assert await books.pool.fetchval("SELECT count(*) FROM charge WHERE account_id = $1", books.account_id) == 1
    # A search text that did not change does not search again; the form is sent and creates a charge without payer.
    done = await owner.post(NEW, form=seen, **sent, payer_searched="maria")
    assert done.status == 303, done.text[:400]


async def test_payers_of_other_accounts_or_of_the_other_mode_are_not_offered(shop: Any) -> None:
    owner, books, address, merchant = shop
    stranger = Books(books.pool, (await a_merchant(books.pool)).account_id, SEAL)
    theirs = await stranger.charge(payer=PAYER)
    await books.charge(payer=PAYER)
    tried = await books.charge(payer={**PAYER, "name": "Teste da Silva"}, test=True)
    new = "/painel/teste/cobrancas/nova"
    chosen = await owner.post(NEW, on=NEW, **PIX, pagador=theirs.charge_id)
    assert (field_values(chosen)["payer_name"], "não está mais na lista" in chosen.text) == ("", True)
    async with colleague_in_browser(books.pool, address, merchant, "developer") as developer:
        # A role that sees payers masked creates no production charges; payers of test charges are invented.
        assert (await developer.get(NEW)).status == 403
        asked: dict[str, Any] = {"payer_query": "silva", "buscar": "pagador"}
        assert (await developer.post(NEW, on=new, **PIX, **asked)).status == 403
        seen = await developer.post(new, on=new, **PIX, **asked)
        assert [charge_id for charge_id, _ in offered_payers(seen)] == [tried.charge_id]


async def test_the_payer_search_is_closed_to_roles_that_see_payers_masked(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, books, *_ = shop
    doc = await books.charge(payer=PAYER)
    monkeypatch.setattr(PageRequest, "payers", MASKED)
    form = await owner.opened(NEW)
    assert "payer_query" not in form.html
    for asked in ({"payer_query": "maria", "buscar": "pagador"}, {"pagador": doc.charge_id}):
        seen = await owner.post(NEW, form=form, **PIX, **asked)
        assert (seen.status, offered_payers(seen), field_values(seen)["payer_name"]) == (200, [], "")
        assert "Maria" not in seen.html


async def test_a_payer_can_be_chosen_for_a_schedule(shop: Any) -> None:
    owner, books, *_ = shop
    doc = await books.charge(payer={**PAYER, **PLACE})
    new = "/painel/programacoes/nova"
    first = (datetime.now(UTC) + timedelta(days=20)).date().isoformat()
    typed: dict[str, Any] = {
        "forma": "boleto", "amount": "50", "frequency": "monthly", "first_due_date": first, "issue_days_before": "10",
    }  # fmt: skip
    seen = await owner.post(new, on=f"{new}?forma=boleto", **typed, payer_query="da silva", buscar="pagador")
    assert [charge_id for charge_id, _ in offered_payers(seen)] == [doc.charge_id]
    form = await owner.post(
        new, form=seen, **typed, payer_query="da silva", payer_searched="da silva", pagador=doc.charge_id
    )
    assert (field_values(form)["payer_document"], field_values(form)["city"]) == (MASK, "Olinda")
    done = await owner.post(new, form=form, **{**field_values(form), **typed}, payer_from=doc.charge_id)
    assert done.status == 303, done.text[:500]
    sealed, schedule_id = await books.pool.fetchrow(
        "SELECT payer_sealed, schedule_id FROM schedule WHERE account_id = $1", books.account_id
    )
    assert msgspec.json.decode(SEAL.open(sealed, SCHEDULE_PAYER, schedule_id))["document"] == DOCUMENT
