"""The dashboard links to the documentation and to support, and shares a charge's link with its payer by WhatsApp."""

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.dashboard import Books, a_merchant, owner_in_browser, settings_with, staff_in_browser
from tests.support.pages import serving


async def test_a_pending_charge_can_be_shared_by_whatsapp_with_payee_amount_and_link(pool: Pool) -> None:
    settings, merchant = settings_with(), await a_merchant(pool, "Café & Cia #1")
    books = Books(pool, merchant.account_id, Seal(settings.secret_key))
    doc, test, paid = await books.charge(123456), await books.charge(test=True), await books.charge()
    await books.paid(paid)
    async with (
        serving(pool, lambda: datetime.now(UTC), settings) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        html = (await owner.opened(f"/painel/cobrancas/{doc.charge_id}")).html
        (link,) = re.findall(r'href="(https://wa\.me/[^"]+)"', html)
        (said,) = parse_qs(urlsplit(unescape(link)).query)["text"]
        assert said == (
            f"Cobrança de Café & Cia #1: R$\u00a01.234,56. Veja e pague aqui: {settings.app_url}/pagar/{doc.public_id}"
        )
        for path in (f"/painel/teste/cobrancas/{test.charge_id}", f"/painel/cobrancas/{paid.charge_id}"):
            assert "wa.me" not in (await owner.opened(path)).html, "neither a test charge nor a paid one is shared"


@pytest.mark.parametrize(
    ("contact", "link"),
    [("", None), ("telefone 11 4000", None), ("ajuda@quita.example", "mailto:ajuda@quita.example"),
     ("https://ajuda.example", "https://ajuda.example"), ("javascript:alert(1)", None)],
)  # fmt: skip
async def test_every_page_links_to_documentation_and_support(pool: Pool, contact: str, link: str | None) -> None:
    settings: Any = settings_with(SUPPORT_CONTACT=contact, STAFF_TOTP_REQUIRED="0")
    merchant = await a_merchant(pool)
    async with (
        serving(pool, lambda: datetime.now(UTC), settings) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        page = await owner.opened("/painel/empresa")
        assert f'<a href="{settings.docs_url}/pt">Documentação</a>' in page.html
        shown = re.findall(r'<a href="([^"]+)">Falar com a plataforma</a>', page.html)
        assert shown == ([] if link is None else [link])
        async with staff_in_browser(pool, address) as staff:
            assert "Falar com a plataforma" not in (await staff.opened("/plataforma/lojas")).text


async def test_the_dashboard_links_to_the_documentation_in_portuguese(pool: Pool) -> None:
    settings, merchant = settings_with(DOCS_URL="https://docs.quita.example/docs"), await a_merchant(pool)
    async with (
        serving(pool, lambda: datetime.now(UTC), settings) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        for path, page in (
            ("/painel/webhooks", "/webhooks"),
            ("/painel/teste/relogio", "/sandbox"),
            ("/painel/empresa", "/fees"),
            ("/painel", ""),
        ):
            html = (await owner.opened(path)).html
            assert f'href="{settings.docs_url}/pt{page}"' in html
            assert not re.search(r'href="[^"]*/docs(?!/pt|\.)', html), path
        assert 'href="/painel/teste/tokens">credencial de teste</a>' in html, (
            "the first page of an account without charges links to the test credential"
        )
