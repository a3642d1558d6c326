"""No page has an accessibility barrier that axe-core finds (WCAG 2.2 AA), on a phone and on a desktop.

The pages are those of the tables of dashboard and staff, the payer's page in each of its states, and the documentation.
"""

import asyncio
import os
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
import pytest_asyncio

from commands.money.refund import TransferDestination
from runtime.ids import new_id
from runtime.seal import Seal
from tests.support.browser import Browser, Tab
from tests.support.merchant import ApiClient, ApiMerchant, Books, new_merchant, until_answer
from tests.support.system import System
from web.painel.route import Page
from web.painel.table import TABLE
from web.plataforma.table import TABLE as TABLE_OF_STAFF

WIDTHS = (1440, 390)
FULL = os.environ.get("FAULT") == "full"
TOGETHER = 3  # tabs at a time; more wait for each other on two cores
PAYER = {
    "nome": "Ana Lima", "documento": "52998224725", "tipoPessoa": "PESSOA_FISICA", "cep": "01310100",
    "logradouro": "Avenida Paulista", "numero": "1578", "cidade": "São Paulo", "uf": "SP",
}  # fmt: skip
DUAL_PAYER = {
    "name": "Ana Lima", "document": "52998224725", "person_type": "PESSOA_FISICA",
    "address": {"zip_code": "01310100", "street": "Avenida Paulista", "city": "São Paulo", "state": "SP"},
}  # fmt: skip
DUE = "2049-01-29"


class Stage(NamedTuple):
    """The running system, a merchant, and a group of tabs with the cookies of its owner and of the staff."""

    system: System
    merchant: ApiMerchant
    group: str


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(system: System, browser: Browser) -> AsyncIterator[Stage]:
    async with new_merchant(system) as merchant:
        group = await browser.group()
        people = {"/painel": msgspec.to_builtins(merchant.record.dashboard), "/plataforma": system.dev["staff"]}
        async with browser.tab(group=group) as tab:
            for root, person in people.items():
                await tab.sign_in(f"{system.app_url}{root}/entrar", person["email"], person["password"])
                await tab.until("location.pathname", root)
        yield Stage(system, merchant, group)


Screens = tuple[int, ...]


async def barriers(
    browser: Browser, group: str | None, addresses: Iterable[tuple[str, Screens]], *, also_dark: bool = False
) -> list[str]:
    """The barriers found on these pages at these widths, each with its page and width."""
    waiting = list(addresses)
    found: list[str] = []

    async def examine(tab: Tab) -> None:
        while waiting:
            address, widths = waiting.pop()
            await tab.screen(widths[0])
            await tab.open(address)
            # The page itself must be examined, not a page that it redirects to.
            assert await tab.value("location.pathname") == urlsplit(address).path
            # Folded sections are examined too.
            await tab.value("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
            for width in widths:
                await tab.screen(width)
                found.extend(f"{address} at {width}: {each}" for each in await tab.barriers())
            if also_dark:
                await tab.screen(widths[-1], scheme="dark")
                found.extend(f"{address} in dark colours: {each}" for each in await tab.barriers())
            found.extend(f"{address}: {each}" for each in tab.complaints)
            tab.complaints.clear()

    async def examine_in_a_tab() -> None:
        async with browser.tab(group=group) as tab:
            await examine(tab)

    await asyncio.gather(*(examine_in_a_tab() for _ in range(TOGETHER)))
    return found


async def issue_boleto(client: ApiClient, **more: str) -> dict[str, str]:
    body = {"tipo": "boleto", "valorCents": "150.00", "dataVencimento": DUE, "pagador": PAYER, **more}
    answer = await client.ask("POST", "/v1/charges/boleto", json=body, key=f"boleto-{more}")
    assert answer.status == 201, answer.raw
    return dict(answer.body)


async def test_no_page_of_the_dashboard_has_an_accessibility_barrier(stage: Stage, browser: Browser) -> None:
    system, merchant, group = stage
    system.json("webhook", "set", str(merchant.record.account_id), "http://127.0.0.1:9/none")
    schedule = {
        "payment_method": "pix", "amount": "99.90", "frequency": "monthly", "first_due_date": DUE, "payer": {},
    }  # fmt: skip
    answer = await merchant.production.ask("POST", "/v1/charge-schedules", json=schedule, key="schedule")
    assert answer.status == 201, answer.raw
    ids = {"schedule_id": answer.body["schedule_id"]}
    known: dict[bool, dict[str, str]] = {}
    for test, client, credential in (
        (True, merchant.sandbox, merchant.record.test),
        (False, merchant.production, merchant.record.production),
    ):
        boleto = await issue_boleto(client)
        await client.created("25.00", external_id="aberta")
        if test:
            paid = await client.created("25.00", external_id="paga")
            await client.post(f"/v1/sandbox/charges/{paid['charge_id']}/pay", {"times": 2})
            ids["paid"] = paid["charge_id"]
        else:
            assert (await client.cancel((await client.created("25.00"))["charge_id"])).status == 200
            twice = (await client.created("25.00"))["charge_id"]
            await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", twice, "--times", "2")
            (odd,) = await until_answer(lambda client=client: client.all("/v1/payments", anomaly="duplicate"))
            ids["payment_id"] = odd["payment_id"]
        deliveries = await until_answer(lambda client=client: first_delivery(client))
        known[test] = {**ids, "charge_id": boleto["charge_id"], "client_id": credential.client_id} | {
            "delivery_id": deliveries
        }
    async with browser.tab(group=group) as tab:
        for test in (True, False):
            root = f"{system.app_url}/painel{'/teste' if test else ''}/requisicoes"

            async def logged(root: str = root, tab: Tab = tab) -> str:
                await tab.open(root)
                return str(await tab.value("document.querySelector('main .row-link')?.getAttribute('href') ?? ''"))

            known[test]["request_id"] = (await until_answer(logged)).rsplit("/", 1)[1]
    pages = [
        page
        for page in TABLE
        if page.method == "GET" and not page.path.endswith((".csv", ".json", ".xlsx", ".pdf", "{cep:str}"))
    ]
    addresses = [(system.app_url + filled(page, known[page.mode.test]), screens(page)) for page in pages]
    # An open charge's page has more forms, and the refund page has a form only when something can be refunded.
    addresses += [
        (f"{system.app_url}/painel/teste/cobrancas/{ids['paid']}{more}", WIDTHS) for more in ("", "/devolver")
    ]
    assert await barriers(browser, group, addresses) == []


async def test_no_page_of_the_staff_has_an_accessibility_barrier(stage: Stage, browser: Browser, books: Books) -> None:
    suspense_id = new_id()
    await books.execute(
        "INSERT INTO suspense (suspense_id, bank, kind, source, amount_cents, received_at, found_at)"
        " VALUES ($1, '001', 'pix_without_txid', $2, 1234, now(), now())",
        suspense_id, f"E99999994{suspense_id.hex[:23]}",
    )  # fmt: skip
    refund_id, charge = new_id(), await stage.merchant.production.created("12.34")
    to = TransferDestination(pix_key="ana@example.com", document="52998224725").kept(
        refund_id, Seal(stage.system.secret_key)
    )
    request = {"refund_id": refund_id, "amount_cents": 1234, "destination_sealed": b64encode(to.sealed).decode()}
    await books.execute(
        "INSERT INTO held_refund (account_id, refund_id, charge_id, amount_cents, why, request, held_at)"
        " VALUES ($1, $2, $3, 1234, 'over_bound', $4, now())",
        stage.merchant.record.account_id, refund_id, UUID(charge["charge_id"]), msgspec.json.encode(request),
    )  # fmt: skip
    known = {
        "account_id": str(stage.merchant.record.account_id), "name": "receipts", "suspense_id": str(suspense_id),
        "refund_id": str(refund_id),
    }  # fmt: skip
    pages = [
        page
        for page in TABLE_OF_STAFF
        if page.method == "GET" and not page.path.endswith(("/arquivo", "/planilha", "{cep:str}"))
    ]
    addresses = [(stage.system.app_url + filled(page, known), WIDTHS if FULL else WIDTHS[1:]) for page in pages]
    assert await barriers(browser, stage.group, addresses) == []


async def first_delivery(client: ApiClient) -> str:
    """The id of the newest delivery, or an empty text."""
    listed = await client.get("/v1/webhook-deliveries")
    return str(listed.body["data"][0]["delivery_id"]) if listed.body["data"] else ""


def screens(page: Page) -> Screens:
    """The widths at which to examine a page. A page and its twin in the other mode differ in colour only: production is
    examined on a desktop, test on a phone; with FAULT=full both on both."""
    twin = any(each is not page and (each.handle, each.method) == (page.handle, page.method) for each in TABLE)
    if FULL or not twin:
        return WIDTHS
    return (WIDTHS[-1],) if page.mode.test else (WIDTHS[0],)


def filled(page: Page, known: dict[str, str]) -> str:
    """The page's path, with an existing id in place of each parameter."""
    return re.sub(r"\{(\w+):str\}", lambda found: known[found[1]], page.whole_path)


async def test_no_state_of_the_payers_page_has_an_accessibility_barrier(stage: Stage, browser: Browser) -> None:
    client = stage.merchant.sandbox
    states = {name: await client.created("149.90", description="Pedido 88") for name in (
        "pending", "paid", "expired", "cancelled", "refunded", "failed",
    )}  # fmt: skip

    async def act(path: str, name: str) -> None:
        answer = await client.post(path.format(states[name]["charge_id"]))
        assert answer.status == 200, (name, answer.raw)

    await act("/v1/charges/{}/simulate-payment", "paid")
    await act("/v1/charges/{}/simulate-payment", "refunded")
    await act("/v1/charges/{}/cancel", "cancelled")
    await act("/v1/sandbox/charges/{}/expire", "expired")
    await act("/v1/sandbox/charges/{}/fail", "failed")
    back = f"/v1/charges/{states['refunded']['charge_id']}/refunds"
    assert (await client.ask("POST", back, json={}, key="back")).status == 201
    states["boleto"] = await issue_boleto(client, descricao="um")
    states["hybrid"] = await issue_boleto(client, tipo="boleto_hibrido")
    dual = {"amount": "150.00", "due_date": DUE, "payer": DUAL_PAYER, "expires_in": 3600}
    answer = await client.ask("POST", "/v1/charges/dual", json=dual, key="dual")
    assert answer.status == 201, answer.raw
    states["dual"] = answer.body

    async def is_refunded() -> bool:
        return bool((await client.charge(states["refunded"]["charge_id"]))["status"] == "refunded")

    await until_answer(is_refunded)
    pages = [(f"{stage.system.app_url}/pagar/{each['public_id']}", WIDTHS) for each in states.values()]
    assert await barriers(browser, None, pages, also_dark=True) == []


async def test_the_documentation_has_no_accessibility_barrier(system: System, browser: Browser) -> None:
    # A page and its twin in the other language differ in words: one is examined on a desktop, the other on a phone.
    desktop, phone = ("/en", "/api", "/pt/api/charges"), ("/pt", "/pt/api", "/api/refunds")
    both = ("/pt/events", "/pt/errors", "/errors/AMOUNT_INVALID", "/pt/sandbox", "/search")
    screens_of: dict[str, Screens] = dict.fromkeys((*desktop, *phone, *both), WIDTHS)
    if not FULL:
        screens_of |= dict.fromkeys(desktop, WIDTHS[:1])
        screens_of |= dict.fromkeys(phone, WIDTHS[1:])
    assert await barriers(browser, None, [(system.docs_url + path, on) for path, on in screens_of.items()]) == []


async def test_axe_finds_the_barriers_of_a_bad_page(browser: Browser) -> None:
    """The examination itself finds barriers, on a page that has them on purpose."""
    async with browser.tab() as tab:
        await tab.value("document.body.innerHTML = '<p style=\"color:#999;background:#fff\">grey</p><img src=x>'")
        rules = {each.split(":")[0] for each in await tab.barriers()}
        assert {"color-contrast", "image-alt", "html-has-lang"} <= rules


async def test_on_a_phone_the_copy_button_is_visible_without_scrolling_and_the_layout_is_stable(
    stage: Stage, browser: Browser
) -> None:
    """375 x 667 is the smallest of today's phone screens; payers overlook what is below its lower edge."""
    charge = await stage.merchant.production.created(
        "149.90", external_id="pedido-1001", description="Encomenda de pães"
    )
    async with browser.tab() as tab:
        await tab.screen(375, height=667)
        await tab.open(f"{stage.system.app_url}/pagar/{charge['public_id']}")
        await tab.until("document.querySelector('[data-copy]').hidden", False)
        bottom = await tab.value("document.querySelector('[data-copy]').getBoundingClientRect().bottom")
        assert bottom < 560, "the bars of a phone's browser take a hundred pixels more"
        moved = await tab.value(
            "new Promise(told => new PerformanceObserver(list => told(list.getEntries().reduce("
            "(sum, each) => sum + each.value, 0))).observe({type: 'layout-shift', buffered: true})"
            " || setTimeout(() => told(0), 1000))"
        )
        assert moved < 0.02
