"""Reports of the dashboard printed by a real browser: amounts stay whole, and the merchant is named."""

import base64
from datetime import UTC, datetime
from pathlib import Path

import pypdfium2
import pytest

from domain.instants import SAO_PAULO
from runtime.postgres import Pool
from tests.integration.painel.test_merchant_reports import ADD_CHARGES
from tests.support.browser import CHROMIUM
from tests.support.dashboard import a_merchant, owner_in_browser, settings_with
from tests.support.pages import serving, tab, until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser on this machine")

SETTINGS = settings_with()
# In inches: portrait, which a printer uses unless the page asks for something else.
A4 = {"paperWidth": 8.27, "paperHeight": 11.69}
_AMOUNTS = "[...document.querySelectorAll('td.number')].map((each) => each.innerText)"


@pytest.mark.parametrize("report", ["conversao", "meses"])
async def test_a_printed_report_splits_no_amount_and_names_the_merchant(
    pool: Pool, tmp_path: Path, report: str
) -> None:
    merchant = await a_merchant(pool, "Padaria São João")
    today = datetime.now(SAO_PAULO).date()
    for status in ("paid", "expired"):
        await pool.execute(ADD_CHARGES, merchant.account_id, "issued", today, status, 120, 98_765_432_10)
    async with (
        serving(pool, lambda: datetime.now(UTC), SETTINGS) as address,
        owner_in_browser(address, merchant) as owner,
        tab(tmp_path / "profile") as (command, evaluate),
    ):
        await command("Network.setCookie", name="painel", value=owner.cookie(), url=address)
        url = f"{address}/painel/relatorios/{report}"
        await command("Page.navigate", url=url)
        await until(evaluate, "location.href + document.readyState", f"{url}complete")
        # The longest amounts possible, in every column of amounts.
        await evaluate(
            "document.querySelectorAll('td.number').forEach((each) =>"
            " { if (each.innerText.startsWith('R$')) each.innerText = '−R$ 98.765.432,10'; })"
        )
        amounts = await evaluate(_AMOUNTS)
        answer = await command("Page.printToPDF", **A4)
    with pypdfium2.PdfDocument(base64.b64decode(answer["data"])) as document:
        (text,) = (sheet.get_textpage().get_text_bounded().replace("\u00a0", " ") for sheet in document)
    assert len(amounts) > 8
    for amount in amounts:
        assert text.count(amount) >= amounts.count(amount), (amount, text)
    assert "Padaria São João · " in text
