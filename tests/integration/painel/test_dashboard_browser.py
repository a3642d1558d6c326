"""The dashboard in a real browser: narrow and wide screens, light and dark, the menu, the keyboard, and contrast."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import pytest
import pytest_asyncio

from commands.merchants.merchants import MerchantCreated
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.browser import CHROMIUM
from tests.support.dashboard import Books, Person, a_merchant, owner_in_browser, settings_with
from tests.support.pages import Command, Evaluate, serving, tab, until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser on this machine")

SETTINGS = settings_with(WEBHOOK_ALLOW_PRIVATE="1")
LONG = "Comércio de Alimentos e Bebidas São João da Boa Vista do Rio Grande Ltda"

# The contrast of every visible text node with the background painted behind it (WCAG 2.2, 1.4.3).
_CONTRAST = """
(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const over = (top, under) => {
    const a = top[3] === undefined ? 1 : top[3];
    return [0, 1, 2].map((i) => top[i] * a + under[i] * (1 - a));
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, layer) => layer.length ? over(layer, under) : under, [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest(".unseen, .skip, svg")) continue;
    const behind = ground(element);
    const shown = over(parse(getComputedStyle(element).color), behind);
    const [high, low] = [light(shown), light(behind)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return found.join("; ");
})()
"""
_UNNAMED = """
[...document.querySelectorAll("input:not([type=hidden]), select, textarea, button, a")]
  .filter((each) => each.checkVisibility())
  .filter((each) => each.matches("button, a") ? !each.textContent.trim() : !each.labels.length)
  .map((each) => each.outerHTML.slice(0, 100)).join("; ")
"""
_SMALL = """
[...document.querySelectorAll("button, input, select, nav a, .small-button")]
  .filter((each) => each.checkVisibility() && !each.closest(".tick"))
  .map((each) => [each, each.getBoundingClientRect()])
  .filter(([, box]) => box.width > 0 && (box.width < 24 || box.height < 24))
  .map(([each]) => each.outerHTML.slice(0, 100)).join("; ")
"""
_HEADINGS = """
[...document.querySelectorAll("h1, h2, h3, h4")]
  .filter((each) => each.checkVisibility()).map((each) => +each.tagName[1])
"""


async def screen(command: Command, width: int, scheme: str) -> None:
    """Set the screen's width and colour scheme for the open page, without reloading it."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    await command("Emulation.setDeviceMetricsOverride", **size)
    # With reduced motion no colour is measured in the middle of a transition.
    wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in wanted.items()]
    await command("Emulation.setEmulatedMedia", features=features)


class Browser(NamedTuple):
    address: str
    owner: Person
    command: Command
    evaluate: Evaluate
    pages: list[str]

    async def open(self, path: str) -> None:
        await self.command("Page.navigate", url=self.address + path)
        await until(self.evaluate, "location.pathname + location.search + document.readyState", f"{path}complete")

    async def screen(self, width: int, scheme: str = "light") -> None:
        await screen(self.command, width, scheme)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """A browser signed in as the owner of an account with rows in every list, and with long names."""
    merchant: MerchantCreated = await a_merchant(pool, LONG)
    books = Books(pool, merchant.account_id, Seal(SETTINGS.secret_key))
    now = datetime.now(UTC)
    async with (
        serving(pool, lambda: datetime.now(UTC), SETTINGS) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        await owner.post("/painel/webhooks", on="/painel/webhooks", url="https://example.com/" + "muito-longo" * 20)
        payer = {"name": LONG, "document": "52998224725", "email": "x" * 60 + "@example.com"}
        paid = await books.charge(99_999_999_99, external_id="referência" * 20, payer=payer)
        await books.paid(paid, 99_999_999_99, 1_00)
        await books.charge(at=now - timedelta(days=2), lifetime=timedelta(hours=1))
        open_charge = await books.charge(external_id="aberta")
        trial = await books.charge(test=True)
        await owner.post(f"/painel/tokens/{merchant.production.client_id}/trocar", overlap="24h")
        listed = await owner.opened("/painel/webhooks/entregas")
        delivery = listed.html.split('class="row-link" href="')[1].split('"')[0]
        await pool.execute(
            "INSERT INTO webhook_attempt (delivery_id, attempt, started_at, duration_ms, status, outcome, answer)"
            " VALUES ($1, 1, now(), 12, 500, 'rejected', $2)",
            delivery.rsplit("/", 1)[1],
            b"x" * 1024,
        )
        # The state of a webhook that has the longest label.
        await pool.execute(
            "UPDATE webhook_lane SET consecutive_failures = 3, failing_since = now() WHERE endpoint_id ="
            " (SELECT endpoint_id FROM webhook_endpoint WHERE account_id = $1)",
            merchant.account_id,
        )
        refund = f"/painel/cobrancas/{paid.charge_id}/devolver"
        form = await owner.opened(refund)
        payment_id = re.findall(r'name="payment_id" type="radio" value="([^"]+)"', form.html)[0]
        await owner.post(refund, form=form, sure="yes", payment_id=payment_id, amount="0,50", reason="m" * 140)
        made = await owner.post(
            "/painel/programacoes/nova", on="/painel/programacoes/nova", forma="pix", amount="9.999.999,99",
            frequency="monthly", first_due_date=(now + timedelta(days=9)).date().isoformat(), external_id="a" * 255,
        )  # fmt: skip
        pages = [
            "/painel", "/painel/cobrancas", f"/painel/cobrancas/{paid.charge_id}",
            f"/painel/cobrancas/{open_charge.charge_id}", "/painel/teste/cobrancas",
            f"/painel/teste/cobrancas/{trial.charge_id}", "/painel/teste/relogio", "/painel/pagamentos",
            "/painel/extrato", "/painel/tokens",
            f"/painel/tokens/{merchant.production.client_id}", "/painel/webhooks", "/painel/webhooks/entregas",
            delivery, "/painel/acesso", "/painel/auditoria", "/painel/cobrancas/nova",
            "/painel/teste/cobrancas/nova?forma=boleto", f"/painel/cobrancas/{paid.charge_id}/devolver",
            "/painel/devolucoes", "/painel/extrato/dias", "/painel/programacoes",
            "/painel/programacoes/nova?forma=boleto", made.where.partition("?")[0],
        ]  # fmt: skip
        async with tab(tmp_path_factory.mktemp("profile")) as (command, evaluate):
            await command("Network.enable")
            await command("Network.setCookie", url=address, name="painel", value=owner.cookie(), httpOnly=True)
            yield Browser(address, owner, command, evaluate, pages)


async def test_every_page_fits_the_screen_with_contrast_labels_target_sizes_and_heading_order(
    browser: Browser,
) -> None:
    wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    for path in browser.pages:
        await browser.open(path)
        for width in (320, 390, 768, 1440):
            await browser.screen(width)
            assert await browser.evaluate(wider) == 0, (path, width)
        # Folded details are checked too.
        await browser.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        for width in (390, 1440):
            for scheme in ("light", "dark"):
                await browser.screen(width, scheme)
                assert await browser.evaluate(_CONTRAST) == "", (path, width, scheme)
            assert await browser.evaluate(wider) == 0, (path, width, "unfolded")
            assert await browser.evaluate(_UNNAMED) == "", (path, width)
            assert await browser.evaluate(_SMALL) == "", (path, width)
            levels: list[int] = await browser.evaluate(_HEADINGS)
            assert levels[0] == 1, path
            assert levels.count(1) == 1, path
            assert all(after - before <= 1 for before, after in pairwise(levels)), (path, levels)


async def test_figures_stay_on_one_line_and_links_are_large_enough_for_mouse_and_touch(browser: Browser) -> None:
    heights = """[...document.querySelectorAll(".row-actions a, .figure a")].filter((each) => each.checkVisibility())
      .map((each) => each.getBoundingClientRect().height)"""
    torn = """[...document.querySelectorAll(".figure-number")].filter((each) => {
      const text = document.createRange();
      text.selectNodeContents(each);
      return text.getBoundingClientRect().height > 1.5 * text.getClientRects()[0].height;
    }).map((each) => each.textContent)"""
    for width, touch, least in ((1440, False, 24), (390, True, 44), (320, True, 44)):
        await browser.screen(width)
        await browser.command("Emulation.setTouchEmulationEnabled", enabled=touch, maxTouchPoints=1)
        await browser.open("/painel")
        found: list[float] = await browser.evaluate(heights)
        wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await browser.evaluate(wider) == 0
        assert await browser.evaluate(torn) == []
        assert len(found) >= 4
        assert min(found) >= least, (width, found)
    await browser.command("Emulation.setTouchEmulationEnabled", enabled=False)


async def test_after_a_refused_form_the_faulty_field_has_the_focus_and_is_in_view(browser: Browser) -> None:
    await browser.screen(390)
    (charge,) = (each for each in browser.pages if each.startswith("/painel/teste/cobrancas/") and "nova" not in each)
    await browser.open(charge)
    # The form is in the middle of the charge's page; nothing at the top of the page mentions the fault.
    form = "document.querySelector('form[action$=\"/pagar-como\"]')"
    await browser.evaluate(f"{form}.elements.times.value = 11; {form}.submit()")
    await until(browser.evaluate, "document.activeElement.id", "i-times")
    assert await browser.evaluate("scrollY > 0 && document.activeElement.getBoundingClientRect().top < innerHeight")
    # A fault that belongs to no field is scrolled into view as well.
    await browser.open(charge)
    await browser.evaluate("document.querySelector('form[action$=\"/cancelar\"]').submit()")
    await until(browser.evaluate, "document.querySelector('.fault')?.textContent", "Confirme que quer cancelar.")
    await until(browser.evaluate, "document.querySelector('.fault').getBoundingClientRect().top < innerHeight", True)


async def test_one_box_ticks_every_charge_of_the_page(browser: Browser) -> None:
    await browser.screen(1440)
    await browser.open("/painel/cobrancas")
    ticked = """(() => { const boxes = [...document.querySelectorAll('[name="charge"]')];
      return [boxes.length, boxes.filter((each) => each.checked).length,
              document.querySelector("[data-all] input").indeterminate]; })()"""
    count, *before = await browser.evaluate(ticked)
    assert count > 0
    assert before == [0, False]
    await browser.evaluate("""document.querySelector("[data-all] input").click()""")
    assert await browser.evaluate(ticked) == [count, count, False]
    await browser.evaluate("""document.querySelector('[name="charge"]').click()""")
    assert await browser.evaluate(ticked) == [count, count - 1, count > 1]
    await browser.evaluate("""document.querySelector("[data-all] input").click()""")
    assert await browser.evaluate(ticked) == [count, count, False]


async def test_tables_of_money_need_no_sideways_scrolling_on_phones_tablets_and_laptops(
    browser: Browser, pool: Pool
) -> None:
    merchant = await a_merchant(pool, "Padaria Aurora")
    books = Books(pool, merchant.account_id, Seal(SETTINGS.secret_key))
    for cents, reference in ((88_00, None), (10_000_00, "venda-cancelada"), (4_850_00, "venda-grande")):
        charge = await books.charge(cents, external_id=reference)
        # Paid once, and once more in duplicate.
        await books.paid(charge, cents, cents)
    # A row with a checkbox, and a payer's name with words longer than its column.
    await books.charge(99_999_999_99, external_id="contrato-7", payer={"name": LONG})
    async with owner_in_browser(browser.address, merchant) as owner:
        refund = f"/painel/cobrancas/{charge.charge_id}/devolver"
        form = await owner.opened(refund)
        payment_id = re.findall(r'name="payment_id" type="radio" value="([^"]+)"', form.html)[0]
        await owner.post(refund, form=form, payment_id=payment_id, amount="3.350,00", sure="yes")
        cookie = {"name": "painel", "url": browser.address, "httpOnly": True}
        await browser.command("Network.setCookie", value=owner.cookie(), **cookie)
        try:
            for width in (390, 768, 1024, 1152, 1280):
                await browser.screen(width)
                for path in ("", "/cobrancas", "/pagamentos", "/extrato", "/extrato/dias", "/devolucoes"):
                    await browser.open(f"/painel{path}")
                    cut = "[...document.querySelectorAll('.table')].filter((t) => t.scrollWidth > t.clientWidth).length"
                    assert await browser.evaluate(cut) == 0, (path, width)
        finally:
            await browser.command("Network.setCookie", value=browser.owner.cookie(), **cookie)


async def test_the_menu_opens_on_a_phone_without_scripts_and_is_always_visible_on_a_desktop(browser: Browser) -> None:
    shown = "document.querySelector('#menu').checkVisibility()"
    await browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        await browser.screen(390)
        await browser.open("/painel")
        assert await browser.evaluate(shown) is False
        await browser.evaluate("document.querySelector('.menu-button').click()")
        await until(browser.evaluate, shown, True)
        assert await browser.evaluate("document.querySelector('#menu [aria-current]').textContent") == "Início"
        await browser.screen(1440)
        await browser.open("/painel")
        assert await browser.evaluate(shown) is True
        assert await browser.evaluate("document.querySelector('.menu-button').checkVisibility()") is False
    finally:
        await browser.command("Emulation.setScriptExecutionDisabled", value=False)


async def test_the_first_tab_stop_skips_to_the_content_and_the_focus_is_outlined(browser: Browser) -> None:
    await browser.screen(1440)
    await browser.open("/painel/cobrancas")

    async def press(key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            await browser.command("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    await press("Tab", 9)
    assert await browser.evaluate("document.activeElement.textContent") == "Pular para o conteúdo"
    assert await browser.evaluate("document.activeElement.getBoundingClientRect().top >= 0") is True
    await press("Enter", 13)
    await until(browser.evaluate, "document.activeElement.id", "content")
    await press("Tab", 9)
    assert await browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


async def test_a_browser_signs_in_and_a_form_is_sent_once_however_often_it_is_clicked(
    browser: Browser, pool: Pool
) -> None:
    """A breach of the content security policy stops a real browser, and would pass unnoticed in the other tests."""
    merchant = await a_merchant(pool)
    await browser.command("Network.clearBrowserCookies")
    try:
        await browser.open("/painel/entrar")
        assert await browser.evaluate(_CONTRAST) == await browser.evaluate(_UNNAMED) == ""

        async def fill(field: str, value: str) -> Any:
            return await browser.evaluate(f"document.getElementById('{field}').value = '{value}'")

        await fill("email", merchant.dashboard.email)
        await fill("password", merchant.dashboard.password)
        await browser.evaluate("document.querySelector('form').requestSubmit()")
        await until(browser.evaluate, "location.pathname + document.readyState", "/painelcomplete")
        await browser.open("/painel/tokens")
        await browser.evaluate("document.querySelector('details.new').open = true")
        await fill("name-p", "Loja")
        await browser.evaluate("for (let n = 0; n < 3; n++) document.querySelector('details.new button').click()")
        await until(browser.evaluate, "document.querySelector('h1').textContent", "Credencial criada")
        count = "SELECT count(*) FROM credential WHERE account_id = $1"
        assert await pool.fetchval(count, merchant.account_id) == 3
        assert await browser.evaluate(_CONTRAST) == await browser.evaluate(_UNNAMED) == ""
        await until(browser.evaluate, "document.querySelector('[data-copy]').checkVisibility()", True)
    finally:
        cookie = browser.owner.cookie()
        await browser.command("Network.setCookie", url=browser.address, name="painel", value=cookie, httpOnly=True)


async def test_a_form_whose_submission_was_stopped_keeps_its_fields_and_can_be_sent_again(browser: Browser) -> None:
    """On a slow network a user may stop the page: the typed fields remain, and the form can be sent again."""
    quick = "const later = setTimeout; window.setTimeout = (done, ms) => later(done, ms / 100);"
    await browser.command("Page.enable")
    script = await browser.command("Page.addScriptToEvaluateOnNewDocument", source=quick)
    try:
        await browser.open("/painel/cobrancas/nova")
        await browser.evaluate(
            "document.getElementById('i-amount').value = '12,34'; window.left = 0;"
            " addEventListener('submit', (event) => { left += !event.defaultPrevented; event.preventDefault(); })"
        )
        send = "document.querySelector('.form-foot button').click(), left"
        # Both clicks in one evaluation: the form is ready again 0.2 s after the first.
        assert await browser.evaluate(f"[1, 2].map(() => ({send}))") == [1, 1]
        await until(browser.evaluate, "document.querySelectorAll('[aria-disabled]').length", 0)
        assert await browser.evaluate(send) == 2
        assert await browser.evaluate("document.getElementById('i-amount').value") == "12,34"
    finally:
        await browser.command("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])
        await browser.command("Page.disable")


async def test_the_back_link_of_a_charge_leads_to_the_list_with_its_filters(browser: Browser) -> None:
    await browser.open("/painel/cobrancas?status=pending&feito=cancelada")
    row = await browser.evaluate("document.querySelector('.row-link').getAttribute('href')")
    await browser.open(row)
    way = "document.querySelector('.crumb a').href.replace(location.origin, '')"
    assert await browser.evaluate(way) == "/painel/cobrancas?status=pending"
    await browser.open("/painel/cobrancas")
    await browser.open(row)
    assert await browser.evaluate(way) == "/painel/cobrancas"


async def test_the_documentation_shows_signed_in_users_their_own_ids_and_no_secret(browser: Browser) -> None:
    seen = await browser.owner.opened("/painel/teste/chaves.json")
    ids = msgspec.json.decode(seen.html)
    assert set(ids) == {"account_id", "client_id"}
    assert str(ids["client_id"]).startswith("test_")
    await browser.open("/docs/pt")
    await until(browser.evaluate, f"document.querySelector('main').textContent.includes('{ids['client_id']}')", True)
    text = await browser.evaluate("document.querySelector('main').textContent")
    assert ids["account_id"] in text
    assert "YOUR_ACCOUNT_ID" not in text
    assert "YOUR_CLIENT_SECRET" in text
    # Choosing a language in one example chooses it in every example of the page.
    await browser.evaluate("document.getElementById('example-1-1').click()")
    shown = "[...document.querySelectorAll('.tabs pre')].filter((each) => each.checkVisibility()).length"
    assert await browser.evaluate(shown) == await browser.evaluate("document.querySelectorAll('.tabs').length") == 3
    assert (
        await browser.evaluate(
            "[...document.querySelectorAll('.tabs > input:checked')].map((e) => e.dataset.language).join()"
        )
        == "Python,Python,Python"
    )
    await browser.open("/docs/pt/search")
    await browser.evaluate("document.getElementById('docs-search').value = 'relogio teste'")
    await browser.evaluate("document.getElementById('docs-search').dispatchEvent(new Event('input'))")
    first = "[...document.querySelectorAll('#entries > li')].filter((each) => !each.hidden)[0].textContent.trim()"
    assert "relógio" in str(await browser.evaluate(first))
