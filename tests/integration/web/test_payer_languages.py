"""The payer's page in the language that its reader chose, also after a change of the charge."""

import re
from pathlib import Path

import aiohttp
import pytest

from runtime.postgres import Pool
from tests.integration.web.test_payer_page import (
    NOW,
    Charge,
    base_url,
    charge,
    client,
    fetch_page,
    pay,
)
from tests.support.browser import CHROMIUM
from tests.support.pages import browsing, serving, until

__all__ = ["base_url", "charge", "client"]

STATES = ("pending", "paid", "expired", "cancelled", "refunded", "failed")


async def test_the_page_is_in_portuguese_until_another_language_is_chosen(
    base_url: str, client: aiohttp.ClientSession, charge: Charge
) -> None:
    page = f"{base_url}/pagar/{await charge()}"
    for asked in ("", "?lang=fr", "?lang=", "?lang=%00"):
        _, html = await fetch_page(client, page + asked, headers={"Accept-Language": "en"})
        assert '<html lang="pt-BR">' in html
        assert "Copiar código Pix" in html
    for code, words in (("en", "Copy Pix code"), ("es", "Copiar código Pix")):
        _, html = await fetch_page(client, f"{page}?lang={code}")
        assert f'<html lang="{code}">' in html
        assert words in html
        others = re.findall(r'<a href="([^"]+)" lang="([^"]+)" hreflang', html)
        assert [tag for _, tag in others] == [tag for tag in ("pt-BR", "en", "es") if tag != code]
        for address, tag in others:
            assert f'<html lang="{tag}">' in (await fetch_page(client, base_url + address))[1]


@pytest.mark.parametrize("status", STATES)
async def test_no_state_of_a_charge_shows_portuguese_on_the_english_page(
    base_url: str, client: aiohttp.ClientSession, charge: Charge, status: str
) -> None:
    public_id = await charge(status, merchant="M", description="D")
    for suffix in ("", "/fragmento"):
        _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}{suffix}?lang=en")
        text = re.sub(r'<p class="languages">.*?</p>', "", html, flags=re.DOTALL)
        assert not re.search(r"cobrança|pagamento|código|você|banco|não|pague|(?<!/)pagar", text, re.IGNORECASE), text


async def test_an_amount_is_written_in_english_as_brazilian_banks_write_it(
    base_url: str, client: aiohttp.ClientSession, charge: Charge
) -> None:
    page = f"{base_url}/pagar/{await charge()}"
    (amount,) = set(re.findall(r"R\$\xa0[0-9.,]+[0-9]", (await fetch_page(client, page))[1]))
    assert amount in (await fetch_page(client, f"{page}?lang=en"))[1]


if CHROMIUM:

    async def test_an_open_page_keeps_its_language_when_the_payment_arrives(
        pool: Pool, charge: Charge, tmp_path: Path
    ) -> None:
        public_id = await charge()
        async with (
            serving(pool, lambda: NOW) as base_url,
            browsing(f"{base_url}/pagar/{public_id}?lang=en", tmp_path / "profile") as evaluate,
        ):
            await until(evaluate, "document.querySelector('.countdown')?.textContent.startsWith('Expires in')", True)
            await evaluate("document.querySelector('[data-copy]').click()")
            spoken = "document.querySelector('[aria-live=polite]').textContent"
            await until(evaluate, spoken, "Code copied. Paste it into your bank's app.")
            await pay(pool, public_id)
            await until(evaluate, "document.querySelector('h1').textContent", "Payment confirmed")
            assert (await evaluate(spoken)).startswith("Payment confirmed.")
