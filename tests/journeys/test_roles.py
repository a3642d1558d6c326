"""What each role comes for, done in a browser on a telephone and on a desktop: nothing is in the way, and no page on
the way has a barrier (axe)."""

import io
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import openpyxl
import pytest

from runtime.passwords import hash_password
from tests.support.browser import Browser, Tab
from tests.support.merchant import ApiMerchant, Books, new_merchant, until_answer
from tests.support.system import System

WIDTHS = (390, 1440)
PAYER = {"name": "Joana D'Ávila", "document": "52998224725"}
PAGADOR = {
    "nome": PAYER["name"], "documento": PAYER["document"], "tipoPessoa": "PESSOA_FISICA", "cep": "01310100",
    "logradouro": "Avenida Paulista", "numero": "1578", "cidade": "São Paulo", "uf": "SP",
}  # fmt: skip


class Visitor:
    """Somebody on a screen so wide, who looks where he is before he goes on."""

    def __init__(self, tab: Tab, app_url: str) -> None:
        self.tab = tab
        self._app_url = app_url

    async def opens(self, path: str) -> str:
        """A page by its address; what it says."""
        await self.tab.open(self._app_url + path)
        return await self.looks()

    async def goes(self, selector: str) -> str:
        """By a link or a button of the page."""
        await self.tab.leaves(selector)
        return await self.looks()

    async def chooses(self, entry: str) -> str:
        """An entry of the menu, which is folded away on a telephone."""
        if await self.tab.value("document.querySelector('.menu-button').checkVisibility()"):
            await self.tab.press(".menu-button")
        return await self.goes(f"nav.menu a[href='{entry}']")

    async def looks(self) -> str:
        path = await self.tab.value("location.pathname")
        assert await self.tab.barriers() == [], path
        over = await self.tab.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, f"{path} is {over} px wider than the screen"
        return await self.tab.text("main")


@asynccontextmanager
async def visiting(
    browser: Browser, system: System, width: int, person: tuple[str, str], root: str = "/painel"
) -> AsyncIterator[Visitor]:
    async with browser.tab() as tab:
        await tab.screen(width)
        await tab.sign_in(f"{system.app_url}{root}/entrar", *person)
        await tab.until("location.pathname", root)
        visitor = Visitor(tab, system.app_url)
        await visitor.looks()
        yield visitor
        assert tab.complaints == []


async def colleague(books: Books, merchant: ApiMerchant, role: str) -> tuple[str, str]:
    person = f"{role}.{secrets.token_hex(4)}@example.com", secrets.token_urlsafe(12)
    await books.execute(
        "INSERT INTO dashboard_user (email, account_id, role, password_hash, created_at) VALUES ($1, $2, $3, $4, $5)",
        person[0], merchant.record.account_id, role, hash_password(person[1]), datetime.now(UTC),
    )  # fmt: skip
    return person


def owner_of(merchant: ApiMerchant) -> tuple[str, str]:
    return merchant.record.dashboard.email, merchant.record.dashboard.password


@pytest.mark.parametrize("width", WIDTHS)
async def test_an_owner_imports_a_sheet_and_charges_one_of_its_payers_again(
    system: System, browser: Browser, tmp_path: Path, width: int
) -> None:
    book = openpyxl.Workbook()
    for row in (
        ("tipo", "valor", "referencia", "nome", "documento"),
        ("pix", 1234.56, 1001, PAYER["name"], int(PAYER["document"])),
        ("pix", 7, "ped-2", "Zé", 1234567890),
    ):
        book.active.append(row)
    made = io.BytesIO()
    book.save(made)
    sheet = tmp_path / "cobrancas.xlsx"
    sheet.write_bytes(made.getvalue())
    async with new_merchant(system) as merchant, visiting(browser, system, width, owner_of(merchant)) as owner:
        await owner.opens("/painel/teste/cobrancas/importar")
        await owner.tab.choose_file("#file", sheet)
        assert "1.241,56" in await owner.goes("form[enctype] button[type=submit]")
        await owner.tab.press("label[for=sure]")
        assert "2 de 2 cobranças" in await owner.goes("form[enctype] button[type=submit]")
        await owner.opens("/painel/teste/cobrancas/nova?forma=boleto")
        await owner.tab.fill("#i-amount", "150,00")
        await owner.tab.fill("#i-payer_query", "joana avila")
        # Enter, and nothing is made of it but a search.
        await owner.tab.value("window.left = true; document.querySelector('#i-payer_query').focus()")
        for kind in ("keyDown", "keyUp"):
            await owner.tab.command("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                                    windowsVirtualKeyCode=13)  # fmt: skip
        await owner.tab.until("window.left === undefined && document.readyState === 'complete'")
        assert PAYER["name"] in await owner.looks()
        await owner.goes("button[name=pagador]")
        for name, value in (("zip_code", "01310-100"), ("street", "Avenida Paulista"), ("city", "São Paulo")):
            await owner.tab.fill(f"#i-{name}", value)
        await owner.tab.value("document.querySelector('#i-state').value = 'SP'")
        assert "150,00" in await owner.goes(".form-foot button[type=submit]")
        (boleto,) = await merchant.sandbox.all("/v1/charges", payment_method="boleto_hibrido")
        assert boleto["amount"] == "150.00"


@pytest.mark.parametrize("width", WIDTHS)
async def test_finance_sees_what_came_in_and_what_it_comes_to(
    system: System, browser: Browser, books: Books, width: int
) -> None:
    async with new_merchant(system) as merchant:
        charge = await merchant.production.created("80.00", external_id="fatura-80")
        system.json("bank", "pay", "--charge-id", charge["charge_id"])

        async def booked() -> bool:
            return str((await merchant.production.charge(charge["charge_id"]))["status"]) == "paid"

        await until_answer(booked)
        async with visiting(browser, system, width, await colleague(books, merchant, "finance")) as finance:
            assert await finance.tab.value("document.querySelector('nav.menu a[href=\"/painel/webhooks\"]')") is None
            assert "fatura-80" in await finance.chooses("/painel/pagamentos")
            assert "80,00" in await finance.chooses("/painel/extrato")
            await finance.chooses("/painel/relatorios")
            assert "80,00" in await finance.goes("main a[href='/painel/relatorios/meses']")


@pytest.mark.parametrize("width", WIDTHS)
async def test_a_developer_finds_out_what_a_program_did_wrong(
    system: System, browser: Browser, books: Books, width: int
) -> None:
    async with new_merchant(system) as merchant:
        wrong = {"account_id": str(merchant.record.account_id), "amount": 10}
        refused = await merchant.sandbox.ask("POST", "/v1/charges/pix", json=wrong, key="k")
        assert refused.code == "AMOUNT_INVALID"

        async def written_down() -> bool:  # once a second
            return "AMOUNT_INVALID" in str((await merchant.sandbox.get("/v1/requests")).body)

        await until_answer(written_down)
        async with visiting(browser, system, width, await colleague(books, merchant, "developer")) as developer:
            await developer.chooses("/painel/teste/requisicoes")
            assert "must be a string" in await developer.goes("main tr:has(.chip-warn) .row-link")
            assert "AMOUNT_INVALID" in await developer.goes("main a[href*='/errors/']")
            await developer.opens("/painel/teste/cobrancas/nova")
            await developer.tab.fill("#i-amount", "10,00")
            await developer.goes(".form-foot button[type=submit]")
            assert "Paga" in await developer.goes("form[action$='/pagar'] button")
            # Real money's charges are not a developer's to make.
            await developer.tab.open(f"{system.app_url}/painel/cobrancas/nova")
            assert "Sem permissão" in await developer.looks()
            assert len(developer.tab.complaints) == 1, "the browser tells the 403"
            developer.tab.complaints.clear()


@pytest.mark.parametrize("width", WIDTHS)
async def test_support_finds_a_charge_by_what_a_caller_says_and_cancels_it(
    system: System, browser: Browser, books: Books, width: int
) -> None:
    async with new_merchant(system) as merchant:
        charge = await merchant.production.created("33.00", external_id="pedido 33", payer=PAYER)
        async with visiting(browser, system, width, await colleague(books, merchant, "support")) as support:
            await support.chooses("/painel/cobrancas")
            await support.tab.fill("#q", "529.982.247-25")
            assert "pedido 33" in await support.goes("form[role=search] button")
            assert PAYER["name"] in await support.goes("main .row-link")
            assert PAYER["document"] not in await support.tab.text()
            await support.tab.press("label[for=sure]")
            assert "Cancelada" in await support.goes("form[action$='/cancelar'] button[type=submit]")
        assert (await merchant.production.charge(charge["charge_id"]))["status"] == "cancelled"


@pytest.mark.parametrize("width", WIDTHS)
async def test_staff_find_whose_charge_it_is_and_how_the_merchant_stands(
    system: System, browser: Browser, width: int
) -> None:
    staff = system.dev["staff"]
    async with new_merchant(system) as merchant:
        charge = await merchant.production.created("44.00")
        person = staff["email"], staff["password"]
        async with visiting(browser, system, width, person, "/plataforma") as member:
            await member.opens("/plataforma/busca")
            await member.tab.fill("form.search input[name=q]", charge["pix"]["txid"])
            assert "44,00" in await member.goes("form.search button")
            assert merchant.record.name in await member.goes(
                f"main a[href='/plataforma/lojas/{merchant.record.account_id}']"
            )


@pytest.mark.parametrize("width", WIDTHS)
async def test_a_payer_copies_the_code_reads_it_in_his_language_and_sees_it_paid(
    system: System, browser: Browser, width: int
) -> None:
    async with new_merchant(system) as merchant, browser.tab() as tab:
        body = {"tipo": "boleto_hibrido", "valorCents": "150.00", "dataVencimento": "2049-01-29", "pagador": PAGADOR}
        made = await merchant.sandbox.ask("POST", "/v1/charges/boleto", json=body, key="one")
        assert made.status == 201, made.raw
        charge = made.body
        await tab.screen(width)
        payer = Visitor(tab, system.app_url)
        page = f"/pagar/{charge['public_id']}"
        for query, word in (("", "Vencimento"), ("?lang=en", "Due"), ("?lang=es", "Vencimiento")):
            assert word in await payer.opens(page + query)
        await payer.opens(page)
        await tab.press("[data-copy=pix-code]")
        await tab.until("document.querySelector('[data-copy=pix-code]').innerText", "✓ Código copiado")
        assert (await merchant.sandbox.pay(charge["charge_id"])).status == 200
        await tab.until("document.querySelector('h1').innerText", "Pagamento confirmado")
        assert "150,00" in await payer.looks()
        assert tab.complaints == []
