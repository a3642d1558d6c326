"""The usual tasks of each role, done in a browser on a phone and on a desktop; no page on the way has an accessibility
barrier (axe)."""

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

PHONE, DESKTOP = 390, 1440
ON_DESKTOP = pytest.mark.parametrize("width", [DESKTOP, pytest.param(PHONE, marks=pytest.mark.heavy)])
ON_PHONE = pytest.mark.parametrize("width", [PHONE, pytest.param(DESKTOP, marks=pytest.mark.heavy)])
"""By the screen that the role uses most; `make fault` uses both. Every page is checked at both widths elsewhere
(painel/test_dashboard_browser.py, plataforma/test_platform_browser.py)."""
PAYER = {"name": "Joana D'Ávila", "document": "52998224725"}
PAGADOR = {
    "nome": PAYER["name"], "documento": PAYER["document"], "tipoPessoa": "PESSOA_FISICA", "cep": "01310100",
    "logradouro": "Avenida Paulista", "numero": "1578", "cidade": "São Paulo", "uf": "SP",
}  # fmt: skip


class Visitor:
    """A person at a browser tab. Each step examines the page it leads to."""

    def __init__(self, tab: Tab, app_url: str) -> None:
        self.tab = tab
        self._app_url = app_url

    async def open_page(self, path: str) -> str:
        """Open a page by its path. Returns the text of its main part."""
        await self.tab.open(self._app_url + path)
        return await self.examine()

    async def follow(self, selector: str) -> str:
        """Follow a link or a button of the page. Returns the text of the next page's main part."""
        await self.tab.leaves(selector)
        return await self.examine()

    async def choose_menu_entry(self, entry: str) -> str:
        """Choose an entry of the menu, which is folded on a phone."""
        if await self.tab.value("document.querySelector('.menu-button').checkVisibility()"):
            await self.tab.press(".menu-button")
        return await self.follow(f"nav.menu a[href='{entry}']")

    async def examine(self) -> str:
        """Assert that the page has no barrier and fits the screen. Returns the text of its main part."""
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
        await visitor.examine()
        yield visitor
        assert tab.complaints == []


async def add_person(books: Books, merchant: ApiMerchant, role: str) -> tuple[str, str]:
    """Add a person with this role to the merchant. Returns e-mail and password."""
    person = f"{role}.{secrets.token_hex(4)}@example.com", secrets.token_urlsafe(12)
    await books.execute(
        "INSERT INTO dashboard_user (email, account_id, role, password_hash, created_at) VALUES ($1, $2, $3, $4, $5)",
        person[0], merchant.record.account_id, role, hash_password(person[1]), datetime.now(UTC),
    )  # fmt: skip
    return person


def owner_of(merchant: ApiMerchant) -> tuple[str, str]:
    return merchant.record.dashboard.email, merchant.record.dashboard.password


@ON_DESKTOP
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
        await owner.open_page("/painel/teste/cobrancas/importar")
        await owner.tab.choose_file("#file", sheet)
        assert "1.241,56" in await owner.follow("form[enctype] button[type=submit]")
        await owner.tab.press("label[for=sure]")
        assert "2 de 2 cobranças" in await owner.follow("form[enctype] button[type=submit]")
        await owner.open_page("/painel/teste/cobrancas/nova?forma=boleto")
        await owner.tab.fill("#i-amount", "150,00")
        await owner.tab.fill("#i-payer_query", "joana avila")
        # Enter submits the search for a payer, not the charge.
        await owner.tab.value("window.left = true; document.querySelector('#i-payer_query').focus()")
        for kind in ("keyDown", "keyUp"):
            await owner.tab.command("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                                    windowsVirtualKeyCode=13)  # fmt: skip
        await owner.tab.until("window.left === undefined && document.readyState === 'complete'")
        assert PAYER["name"] in await owner.examine()
        await owner.follow("button[name=pagador]")
        for name, value in (("zip_code", "01310-100"), ("street", "Avenida Paulista"), ("city", "São Paulo")):
            await owner.tab.fill(f"#i-{name}", value)
        await owner.tab.value("document.querySelector('#i-state').value = 'SP'")
        assert "150,00" in await owner.follow(".form-foot button[type=submit]")
        (boleto,) = await merchant.sandbox.all("/v1/charges", payment_method="boleto_hibrido")
        assert boleto["amount"] == "150.00"


@ON_DESKTOP
async def test_finance_sees_a_payment_in_payments_ledger_and_monthly_report(
    system: System, browser: Browser, books: Books, width: int
) -> None:
    async with new_merchant(system) as merchant:
        charge = await merchant.production.created("80.00", external_id="fatura-80")
        system.json("bank", "pay", "--charge-id", charge["charge_id"])

        async def booked() -> bool:
            return str((await merchant.production.charge(charge["charge_id"]))["status"]) == "paid"

        await until_answer(booked)
        async with visiting(browser, system, width, await add_person(books, merchant, "finance")) as finance:
            assert await finance.tab.value("document.querySelector('nav.menu a[href=\"/painel/webhooks\"]')") is None
            assert "fatura-80" in await finance.choose_menu_entry("/painel/pagamentos")
            assert "80,00" in await finance.choose_menu_entry("/painel/extrato")
            await finance.choose_menu_entry("/painel/relatorios")
            assert "80,00" in await finance.follow("main a[href='/painel/relatorios/meses']")


@ON_DESKTOP
async def test_a_developer_finds_a_refused_request_and_may_create_test_charges_only(
    system: System, browser: Browser, books: Books, width: int
) -> None:
    async with new_merchant(system) as merchant:
        wrong = {"account_id": str(merchant.record.account_id), "amount": 10}
        refused = await merchant.sandbox.ask("POST", "/v1/charges/pix", json=wrong, key="k")
        assert refused.code == "AMOUNT_INVALID"

        async def refusal_is_logged() -> bool:  # requests are logged once a second
            return "AMOUNT_INVALID" in str((await merchant.sandbox.get("/v1/requests")).body)

        await until_answer(refusal_is_logged)
        async with visiting(browser, system, width, await add_person(books, merchant, "developer")) as developer:
            await developer.choose_menu_entry("/painel/teste/requisicoes")
            assert "must be a string" in await developer.follow("main tr:has(.chip-warn) .row-link")
            assert "AMOUNT_INVALID" in await developer.follow("main a[href*='/errors/']")
            await developer.open_page("/painel/teste/cobrancas/nova")
            await developer.tab.fill("#i-amount", "10,00")
            await developer.follow(".form-foot button[type=submit]")
            assert "Paga" in await developer.follow("form[action$='/pagar'] button")
            # A developer may not create production charges.
            await developer.tab.open(f"{system.app_url}/painel/cobrancas/nova")
            assert "Sem permissão" in await developer.examine()
            assert len(developer.tab.complaints) == 1, "the browser reports the 403 and nothing else"
            developer.tab.complaints.clear()


@ON_PHONE
async def test_support_finds_a_charge_by_the_payers_document_and_cancels_it(
    system: System, browser: Browser, books: Books, width: int
) -> None:
    async with new_merchant(system) as merchant:
        charge = await merchant.production.created("33.00", external_id="pedido 33", payer=PAYER)
        async with visiting(browser, system, width, await add_person(books, merchant, "support")) as support:
            await support.choose_menu_entry("/painel/cobrancas")
            await support.tab.fill("#q", "529.982.247-25")
            assert "pedido 33" in await support.follow("form[role=search] button")
            assert PAYER["name"] in await support.follow("main .row-link")
            assert PAYER["document"] not in await support.tab.text()
            await support.tab.press("label[for=sure]")
            assert "Cancelada" in await support.follow("form[action$='/cancelar'] button[type=submit]")
        assert (await merchant.production.charge(charge["charge_id"]))["status"] == "cancelled"


@ON_DESKTOP
async def test_staff_find_a_charge_by_txid_and_open_its_merchants_page(
    system: System, browser: Browser, width: int
) -> None:
    staff = system.dev["staff"]
    async with new_merchant(system) as merchant:
        charge = await merchant.production.created("44.00")
        person = staff["email"], staff["password"]
        async with visiting(browser, system, width, person, "/plataforma") as member:
            await member.open_page("/plataforma/busca")
            await member.tab.fill("form.search input[name=q]", charge["pix"]["txid"])
            assert "44,00" in await member.follow("form.search button")
            assert merchant.record.name in await member.follow(
                f"main a[href='/plataforma/lojas/{merchant.record.account_id}']"
            )
            await member.tab.press("[data-copy=c-cnpj]")
            # What a screen reader says, beside the button's text, which few of them repeat.
            await member.tab.until("document.querySelector('[data-said]').innerText", "Copiado.")
            await member.tab.command("Emulation.setEmulatedMedia", media="print")
            printed = "document.querySelector('[data-copy=c-cnpj]').checkVisibility()"
            assert await member.tab.value(printed) is False, "paper has no buttons"


@ON_PHONE
async def test_a_payer_copies_the_code_switches_language_and_sees_the_payment_confirmed(
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
            assert word in await payer.open_page(page + query)
        await payer.open_page(page)
        await tab.press("[data-copy=pix-code]")
        await tab.until("document.querySelector('[data-copy=pix-code]').innerText", "✓ Código copiado")
        assert (await merchant.sandbox.pay(charge["charge_id"])).status == 200
        await tab.until("document.querySelector('h1').innerText", "Pagamento confirmado")
        assert "150,00" in await payer.examine()
        assert tab.complaints == []
