"""The payer's page of a boleto: line, barcode, PDF and, on a hybrid one, the QR Code; and none of them once the boleto
can no longer be paid."""

import base64
import io
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, date, datetime
from html import unescape
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import pypdfium2
import pytest
import pytest_asyncio
from PIL import Image, ImageDraw
from pypdf import PdfReader

from commands.merchants.merchants import create_merchant
from commands.merchants.profile.logo import remove_logo, set_logo
from commands.merchants.profile.logo_pixels import read_logo
from domain.boleto.codes import printed_line
from domain.boleto.terms import Discount, Fine, Interest, PaymentTerms
from domain.instants import iso
from readmodels.charges.charge import ChargeDoc
from readmodels.charges.payer_page import page_states
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.boletos import BR_CODE, PAYER, issue, record_boleto_change, redate
from tests.support.browser import CHROMIUM
from tests.support.code_reader import printed_codes
from tests.support.pages import SETTINGS, browsing, screenshot_of, serving, tab, until
from tests.support.pictures import draw_logo

NOW = datetime(2026, 11, 21, 15, 30, tzinfo=UTC)
THURSDAY = date(2026, 12, 10)
SATURDAY = date(2026, 12, 19)
CHRISTMAS = date(2026, 12, 25)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def base_url(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: NOW) as address:
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as session:
        yield session


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def account_id(pool: Pool) -> UUID:
    async with pool.acquire() as conn, conn.transaction():
        made = await create_merchant(conn, name="Padaria Aurora Ltda", address=True, kyc="approved", now=NOW)
    return made.account_id


Boleto = Callable[..., Awaitable[ChargeDoc]]


@pytest_asyncio.fixture(loop_scope="session")
async def boleto(pool: Pool, account_id: UUID) -> Boleto:
    async def make(due: date = THURSDAY, *, test: bool = False, **more: Any) -> ChargeDoc:
        async with pool.acquire() as conn, conn.transaction():
            return await issue(conn, Seal(SETTINGS.secret_key), account_id, test=test, due=due, now=NOW, **more)

    return make


async def fetch_page(client: aiohttp.ClientSession, address: str) -> str:
    async with client.get(address) as answer:
        assert answer.status == 200
        return await answer.text()


def line_and_barcode(doc: ChargeDoc) -> tuple[str, str]:
    """The line as it is printed, and the barcode."""
    assert doc.boleto is not None
    return printed_line(doc.boleto.linha_digitavel), doc.boleto.codigo_barras


def image_of_bars(html: str) -> Image.Image:
    """The bars as the page's SVG draws them, three pixels a module."""
    (found,) = re.findall(r'<svg viewBox="0 0 (\d+) 1"[^>]* role="img"[^>]*><path d="([^"]+)"/>', html)
    width, path = int(found[0]), found[1]
    bars = re.findall(r"M(\d+) 0h(\d+)v1h-(\d+)z", path)
    assert "".join("M{} 0h{}v1h-{}z".format(*bar) for bar in bars) == path
    image = Image.new("L", (width * 3, 120), 255)
    for at, wide, back in bars:
        assert wide == back
        ImageDraw.Draw(image).rectangle((int(at) * 3, 0, (int(at) + int(wide)) * 3 - 1, 119), fill=0)
    return image


async def test_a_payer_sees_line_barcode_due_date_and_the_link_to_the_pdf(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto
) -> None:
    doc = await boleto(description="Encomenda nº 88")
    html = await fetch_page(client, f"{base_url}/pagar/{doc.public_id}")
    line, barcode = line_and_barcode(doc)
    for shown in ("Padaria Aurora Ltda", "R$\u00a01.234,56", "Encomenda nº 88", "10/12/2026", f">{line}</textarea>"):
        assert shown in html
    assert printed_codes(image_of_bars(html)) == {"ITF": barcode}
    assert f'href="/pagar/{doc.public_id}/boleto.pdf"' in html
    assert f'data-bare="{line.replace(".", "").replace(" ", "")}"' in html
    # The alternative text says what the bars are and what to use instead.
    (alternative,) = re.findall(r'<svg viewBox="[^"]*" [^>]*aria-label="([^"]+)"', html)
    assert unescape(alternative).startswith("Código de barras do boleto de R$\u00a01.234,56 para Padaria Aurora Ltda.")
    assert "Pix" not in html.replace(doc.public_id, "")
    assert "sem acréscimo" not in html


async def test_a_hybrid_boleto_offers_pix_first_then_the_line_and_the_pdf(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto
) -> None:
    doc = await boleto(hybrid=True)
    html = await fetch_page(client, f"{base_url}/pagar/{doc.public_id}")
    line, barcode = line_and_barcode(doc)
    (image,) = re.findall(r'<img src="data:image/png;base64,([^"]+)" width="\d+" height="\d+" alt="QR Code Pix', html)
    assert printed_codes(Image.open(io.BytesIO(base64.b64decode(image)))) == {"QRCode": BR_CODE}
    assert printed_codes(image_of_bars(html)) == {"ITF": barcode}
    assert f'value="{BR_CODE}"' in html
    assert html.index("Copiar código Pix") < html.index(line) < html.index("boleto.pdf")


@pytest.mark.parametrize(
    ("due", "why", "last"),
    [(SATURDAY, "um sábado", "21/12/2026"), (date(2026, 12, 20), "um domingo", "21/12/2026"),
     (CHRISTMAS, "um feriado bancário", "28/12/2026")],
)  # fmt: skip
async def test_a_due_date_on_a_day_without_banks_is_shown_with_the_last_day_to_pay(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto, due: date, why: str, last: str
) -> None:
    html = await fetch_page(client, f"{base_url}/pagar/{(await boleto(due)).public_id}")
    assert f"Vencimento: <strong>{due:%d/%m/%Y}</strong>" in html
    assert f"É {why}: pode ser pago até <strong>{last}</strong>, sem acréscimo." in html


async def test_after_a_new_due_date_page_and_pdf_have_the_new_codes_only(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto, pool: Pool
) -> None:
    doc = await boleto(hybrid=True)
    async with pool.acquire() as conn, conn.transaction():
        changed = await redate(conn, doc, CHRISTMAS, NOW)
    html = await fetch_page(client, f"{base_url}/pagar/{doc.public_id}")
    assert line_and_barcode(changed)[0] in html
    assert line_and_barcode(doc)[0] not in html
    assert printed_codes(image_of_bars(html)) == {"ITF": line_and_barcode(changed)[1]}
    assert "25/12/2026" in html
    assert "O vencimento foi alterado." in html
    async with client.get(f"{base_url}/pagar/{doc.public_id}/boleto.pdf") as answer:
        text = PdfReader(io.BytesIO(await answer.read())).pages[0].extract_text()
    assert line_and_barcode(changed)[0] in text
    assert line_and_barcode(doc)[0] not in text


@pytest.mark.parametrize("test", [False, True])
async def test_the_pdf_opens_in_the_browser_and_has_the_same_codes(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto, test: bool
) -> None:
    doc = await boleto(hybrid=True, test=test)
    async with client.get(f"{base_url}/pagar/{doc.public_id}/boleto.pdf") as answer:
        file = await answer.read()
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/pdf"
        assert answer.headers["Content-Disposition"] == f'inline; filename="boleto-{doc.nosso_numero}.pdf"'
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Robots-Tag"] == "noindex, nofollow"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    with pypdfium2.PdfDocument(file) as document:
        image = document[0].render(scale=200 / 72, grayscale=True).to_pil()
        assert printed_codes(image) == {"ITF": line_and_barcode(doc)[1], "QRCode": BR_CODE}
    text = PdfReader(io.BytesIO(file)).pages[0].extract_text()
    assert PAYER.name in text
    assert ("TESTE - SEM VALOR" in text) == test


CLOSED: dict[str, dict[str, Any]] = {
    "paid": {"status": "paid", "paid_at": iso(NOW)},
    "expired": {"status": "expired"},
    "cancelled": {"status": "cancelled", "cancelled_at": iso(NOW), "cancel_reason": "cancelled"},
    "refunded": {"status": "refunded", "paid_at": iso(NOW)},
    "failed": {"status": "failed"},
}


async def test_the_pdf_has_the_merchants_logo(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto, pool: Pool
) -> None:
    doc = await boleto(hybrid=True)
    logo = read_logo(draw_logo())
    async with pool.acquire() as conn:
        await set_logo(conn, UUID(doc.account_id), logo, now=NOW)
    async with client.get(f"{base_url}/pagar/{doc.public_id}/boleto.pdf") as answer:
        file = await answer.read()
    async with pool.acquire() as conn:
        assert await remove_logo(conn, UUID(doc.account_id))
    image: Any = PdfReader(io.BytesIO(file)).pages[0].images[0]
    assert image.image.size == (logo.width, logo.height)
    with pypdfium2.PdfDocument(file) as document:
        paper = document[0].render(scale=200 / 72, grayscale=True).to_pil()
    assert printed_codes(paper) == {"ITF": line_and_barcode(doc)[1], "QRCode": BR_CODE}


@pytest.mark.parametrize("state", CLOSED)
async def test_a_boleto_that_cannot_be_paid_has_no_code_on_its_page_and_no_pdf(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto, pool: Pool, state: str
) -> None:
    doc = await boleto(hybrid=True)
    async with pool.acquire() as conn, conn.transaction():
        await record_boleto_change(conn, doc, f"charge.{state}", NOW, **CLOSED[state])
    for tail in ("", "/fragmento"):
        html = await fetch_page(client, f"{base_url}/pagar/{doc.public_id}{tail}")
        assert_no_code(html, doc)
    async with client.get(f"{base_url}/pagar/{doc.public_id}/boleto.pdf") as answer:
        # The PDF has the payer's name, document and address: it is served only while it can be used to pay.
        assert answer.status == 404
        assert PAYER.name not in await answer.text()


@pytest.mark.parametrize(
    ("state", "told"),
    [("paid", ("Este boleto já foi pago", "This boleto has already been paid", "Este boleto ya fue pagado")),
     ("expired", ("Este boleto venceu", "This boleto has expired", "Este boleto venció")),
     ("cancelled", ("Este boleto foi cancelado", "This boleto was cancelled", "Este boleto fue cancelado")),
     ("refunded", ("O pagamento deste boleto foi devolvido", "The payment of this boleto was refunded",
                   "El pago de este boleto fue devuelto")),
     ("failed", ("Este boleto não foi registrado", "This boleto was not registered",
                 "Este boleto no fue registrado"))],
)  # fmt: skip
async def test_in_place_of_the_pdf_a_payer_reads_the_state_of_the_boleto(
    base_url: str,
    client: aiohttp.ClientSession,
    boleto: Boleto,
    pool: Pool,
    account_id: UUID,
    state: str,
    told: tuple[str, ...],
) -> None:
    doc = await boleto(hybrid=True)
    async with pool.acquire() as conn, conn.transaction():
        await record_boleto_change(conn, doc, f"charge.{state}", NOW, **CLOSED[state])
    paper = f"{base_url}/pagar/{doc.public_id}/boleto.pdf"
    for language, title in zip(("", "?lang=en", "?lang=es"), told, strict=True):
        async with client.get(paper + language) as answer:
            assert answer.status == 404
            assert answer.headers["Cache-Control"] == "no-store"
            html = await answer.text()
        assert f'<h1 class="state">{title}</h1>' in html
        assert f'href="/pagar/{doc.public_id}{language}"' in html
        assert "Página não encontrada" not in html
        for hidden in (PAYER.name, PAYER.document, *line_and_barcode(doc), BR_CODE):
            assert hidden not in html
    # The boleto of a blocked merchant answers like an unknown one.
    await pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", account_id)
    try:
        async with client.get(paper) as answer:
            blocked = await answer.text()
    finally:
        await pool.execute("UPDATE account SET kyc = 'approved' WHERE account_id = $1", account_id)
    async with client.get(f"{base_url}/pagar/AAAAAAAAAAAAAAAAAAAAAA/boleto.pdf") as answer:
        assert blocked == await answer.text()


def assert_no_code(html: str, doc: ChargeDoc) -> None:
    line, barcode = line_and_barcode(doc)
    bare = line.replace(".", "").replace(" ", "")
    for code in (line, bare, barcode, BR_CODE, "data:image/png", '<path d="M10 0h1v1', "boleto.pdf", "data-copy"):
        assert code not in html


async def test_a_boleto_past_its_last_day_shows_no_code_even_before_the_sweeper_expires_it(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto
) -> None:
    doc = await boleto(date(2026, 11, 14))  # a Saturday: payable until Monday the 16th
    html = await fetch_page(client, f"{base_url}/pagar/{doc.public_id}")
    assert_no_code(html, doc)
    assert "Esta cobrança venceu" in html
    assert "14/11/2026" in html
    assert "pagável até 16/11/2026" in html


async def test_the_page_of_a_boleto_shows_nothing_about_its_payer(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto
) -> None:
    html = await fetch_page(client, f"{base_url}/pagar/{(await boleto(hybrid=True)).public_id}")
    for hidden in (PAYER.name, PAYER.document, "123.456.789", PAYER.street, PAYER.zip_code):
        assert hidden not in html


async def test_the_pdf_link_of_no_boleto_answers_the_404_of_unknown_links(
    base_url: str, client: aiohttp.ClientSession, pool: Pool, boleto: Boleto
) -> None:
    pix = await boleto()
    async with pool.acquire() as conn, conn.transaction():
        await conn.execute(
            "UPDATE read_charge SET payment_method = 'pix', nosso_numero = NULL,"
            ' changes = \'{"boleto": null, "nosso_numero": null}\''
            " WHERE public_id = $1",
            pix.public_id,
        )
    pages = set()
    for public_id in (pix.public_id, pix.charge_id, str(pix.nosso_numero), "AAAAAAAAAAAAAAAAAAAAAA", "%00", "a" * 3000):
        async with client.get(f"{base_url}/pagar/{public_id}/boleto.pdf") as answer:
            assert answer.status == 404, public_id
            pages.add(await answer.text())
    assert len(pages) == 1
    assert "Página não encontrada" in pages.pop()


async def test_without_scripts_the_page_is_complete_and_shows_no_button_without_effect(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto
) -> None:
    html = await fetch_page(client, f"{base_url}/pagar/{(await boleto(hybrid=True)).public_id}")
    buttons = re.findall(r"<button[^>]*>", html)
    assert len(buttons) == 2
    assert all(button.endswith(" hidden>") for button in buttons)
    assert re.search(r'<noscript><p class="live">Para copiar, .*<a href="/pagar/', html)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)|url\(", html)
    sources = re.findall(r'(?:src|href|action|srcset|poster)="([^"]*)"', html)
    assert all(each.startswith(("/", "data:image/png;")) and not each.startswith("//") for each in sources)


if CHROMIUM:
    # Only these tests need a browser; the others run everywhere.

    @pytest.mark.parametrize(("width", "scale", "scripts"), [(390, 2, "on"), (390, 3, "off"), (1280, 1, "off")])
    async def test_barcode_and_qr_code_scan_from_the_screen(
        base_url: str, boleto: Boleto, tmp_path: Path, width: int, scale: int, scripts: str
    ) -> None:
        doc = await boleto(hybrid=True)
        address = f"{base_url}/pagar/{doc.public_id}"
        picture = await screenshot_of(address, tmp_path / "profile", width=width, scale=scale, scripts=scripts)
        with Image.open(io.BytesIO(picture)) as image:
            assert image.width > 0.95 * width * scale  # less a scroll bar
            assert printed_codes(image) == {"ITF": line_and_barcode(doc)[1], "QRCode": BR_CODE}

    async def test_an_amount_is_never_wrapped_or_cut(base_url: str, boleto: Boleto, pool: Pool, tmp_path: Path) -> None:
        shown = "document.querySelector('.amount strong')"
        fits = f"""(() => {{
            const range = document.createRange(); range.selectNodeContents({shown});
            const [line, ...more] = range.getClientRects(), card = document.querySelector('.card');
            const room = card.getBoundingClientRect().right - parseFloat(getComputedStyle(card).paddingRight);
            return more.length === 0 && line.right <= room && document.body.scrollWidth <= innerWidth; }})()"""
        pages: dict[str, str] = {}
        for amount_cents in (99_999_99, 999_999_99, 99_999_999_99):
            doc, over = await boleto(amount_cents=amount_cents), await boleto(amount_cents=amount_cents)
            async with pool.acquire() as conn, conn.transaction():
                await record_boleto_change(conn, over, "charge.cancelled", NOW, **CLOSED["cancelled"])
            pages |= {doc.public_id: "pending", over.public_id: "cancelled"}
        async with tab(tmp_path / "profile") as (command, evaluate):
            for public_id, status in pages.items():
                await command("Page.navigate", url=f"{base_url}/pagar/{public_id}")
                opened = f"location.pathname + {shown}?.closest('.card').dataset.status + document.readyState"
                await until(evaluate, opened, f"/pagar/{public_id}{status}complete")
                for width in (320, 360, 500, 768, 1280):
                    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
                    await command("Emulation.setDeviceMetricsOverride", **size)
                    assert await evaluate(fits) is True, (await evaluate(f"{shown}.textContent"), status, width)

    async def test_the_line_is_copied_as_digits_and_an_open_page_follows_the_charge(
        base_url: str, boleto: Boleto, pool: Pool, tmp_path: Path
    ) -> None:
        doc = await boleto()
        assert doc.boleto is not None
        async with browsing(f"{base_url}/pagar/{doc.public_id}", tmp_path / "profile") as evaluate:
            button = "document.querySelector('[data-copy=boleto-line]')"
            await until(evaluate, f"{button}?.hidden", False)
            # By the button, and by hand from the field.
            await evaluate(
                "navigator.clipboard.writeText = async (text) => { window.copied = text; };"
                f"window.stayed = true; {button}.click()"
            )
            await until(evaluate, "window.copied", doc.boleto.linha_digitavel)
            await until(evaluate, f"{button}.textContent", "✓ Linha copiada")
            await evaluate(
                "addEventListener('copy', (event) => { window.taken = event.clipboardData.getData('text/plain'); });"
                "document.querySelector('#boleto-line').select(); document.execCommand('copy')"
            )
            assert await evaluate("window.taken") == doc.boleto.linha_digitavel

            async with pool.acquire() as conn, conn.transaction():
                changed = await redate(conn, doc, CHRISTMAS, NOW)
            await until(evaluate, "document.querySelector('#boleto-line')?.value", line_and_barcode(changed)[0])
            spoken = "document.querySelector('[aria-live=polite]').textContent"
            assert await evaluate(spoken) == "O vencimento mudou, e com ele os códigos para pagar."

            async with pool.acquire() as conn, conn.transaction():
                await record_boleto_change(conn, changed, "charge.paid", NOW, **CLOSED["paid"])
            await until(evaluate, "document.querySelector('h1').textContent", "Pagamento confirmado")
            assert await evaluate("document.querySelector('.bars, .code')") is None
            assert await evaluate("window.stayed") is True


async def test_while_the_merchant_is_blocked_the_page_offers_no_way_to_pay(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto, pool: Pool, account_id: UUID
) -> None:
    doc, of_test = await boleto(hybrid=True), await boleto(hybrid=True, test=True)
    path = f"{base_url}/pagar/{doc.public_id}"
    line, barcode = line_and_barcode(doc)

    async def state() -> Any:
        async with client.get(f"{path}/estado") as answer:
            return await answer.json()

    async def pdf_status(public_id: str) -> int:
        async with client.get(f"{base_url}/pagar/{public_id}/boleto.pdf") as answer:
            return answer.status

    payable = await state()
    set_kyc = "UPDATE account SET kyc = $2 WHERE account_id = $1"
    await pool.execute(set_kyc, account_id, "blocked")
    try:
        for each in (path, f"{path}/fragmento"):
            html = await fetch_page(client, each)
            assert "Cobrança suspensa" in html
            assert "Não pague esta cobrança agora" in html
            for way in (line, barcode, BR_CODE, "data:image/png", "boleto.pdf", "Código de barras", "Como pagar"):
                assert way not in html
        assert await pdf_status(doc.public_id) == 404
        for lang, said in (("", "Não o pague agora."), ("?lang=en", "Do not pay it now.")):
            async with client.get(f"{path}/boleto.pdf{lang}") as answer:
                told = await answer.text()
                assert (said in told, f'href="/pagar/{doc.public_id}{lang}"' in told, line in told) == (
                    True,
                    True,
                    False,
                )
        # An open page notices the suspension, whether it uses the stream or polls.
        suspended = await state()
        assert (suspended["status"], suspended != payable) == ("pending", True)
        async with pool.acquire() as conn:
            seen = (await page_states(conn, [doc.public_id], now=NOW))[doc.public_id]
        assert {"status": seen.status.value, "version": seen.version} == suspended
        # A test charge involves no money and stays payable.
        assert line_and_barcode(of_test)[0] in await fetch_page(client, f"{base_url}/pagar/{of_test.public_id}")
        assert await pdf_status(of_test.public_id) == 200
    finally:
        await pool.execute(set_kyc, account_id, "approved")
    assert await state() == payable
    assert line in await fetch_page(client, path)
    assert await pdf_status(doc.public_id) == 200


TERMS = PaymentTerms(
    fine=Fine(percent_bps=200),
    interest=Interest(month_bps=100),
    discounts=(
        Discount(until=date(2026, 11, 27), percent_bps=1000),
        Discount(until=date(2026, 12, 4), percent_bps=500),
    ),
    payable_days=30,
)
CONDITIONS = (
    "Até 27/11/2026: desconto de 10,00% (R$\u00a0123,46).",
    "Até 04/12/2026: desconto de 5,00% (R$\u00a061,73).",
    "Após 10/12/2026: multa de 2,00% (R$\u00a024,69).",
    "Após 10/12/2026: juros de 1,00% ao mês.",
    "Não pode ser pago após 11/01/2027.",
)


async def test_page_and_pdf_show_the_terms_as_registered(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto
) -> None:
    doc = await boleto(hybrid=True, terms=TERMS)
    html = await fetch_page(client, f"{base_url}/pagar/{doc.public_id}")
    told = re.findall(r"<li>(.*?)</li>", html[html.index('<ul class="conditions">') :])[: len(CONDITIONS)]
    assert tuple(told) == CONDITIONS
    shown = re.findall(r"<div><dt>(.*?)</dt><dd>(.*?)</dd></div>", html)
    assert shown == [("Valor do documento", "R$\u00a01.234,56"), ("Desconto até 27/11/2026", "−R$\u00a0123,46")]
    assert re.search(r"Valor a pagar hoje</span> <strong>R\$\u00a01\.111,10</strong>", html)
    assert "Confira se o valor é <strong>R$\u00a01.111,10</strong>" in html
    async with client.get(f"{base_url}/pagar/{doc.public_id}/boleto.pdf") as answer:
        text = PdfReader(io.BytesIO(await answer.read())).pages[0].extract_text().replace("\u00a0", " ")
    for each in (*CONDITIONS[:-1], "Não receber após 11/01/2027."):
        assert text.count(each.replace("\u00a0", " ")) == 2, each  # the payer's part and the bank's


async def test_percents_follow_the_readers_language_and_amounts_stay_brazilian(
    base_url: str, client: aiohttp.ClientSession, boleto: Boleto
) -> None:
    doc = await boleto(terms=TERMS)
    for language, told in (
        ("pt", ("desconto de 10,00% (R$\u00a0123,46)", "multa de 2,00% (R$\u00a024,69)", "juros de 1,00% ao mês")),
        ("en", ("discount of 10.00% (R$\u00a0123,46)", "fine of 2.00% (R$\u00a024,69)", "interest of 1.00% a month")),
        ("es", ("descuento del 10,00% (R$\u00a0123,46)", "multa del 2,00% (R$\u00a024,69)", "del 1,00% al mes")),
    ):
        html = await fetch_page(client, f"{base_url}/pagar/{doc.public_id}?lang={language}")
        for each in told:
            assert each in html, (language, each)


@pytest.mark.parametrize(
    ("language", "words"),
    [("pt", ("Valor a pagar hoje", "Multa", "Juros", "Está vencido e ainda pode ser pago até", "11/01/2027")),
     ("en", ("Amount to pay today", "Late fine", "Interest", "It is overdue and can still be paid until",
             "11 Jan 2027")),
     ("es", ("Importe a pagar hoy", "Multa", "Intereses", "Está vencido y todavía se puede pagar hasta el",
             "11 ene 2027"))],
)  # fmt: skip
async def test_an_overdue_boleto_shows_the_amount_to_pay_today_in_the_payers_language(
    pool: Pool, account_id: UUID, language: str, words: tuple[str, ...]
) -> None:
    """Two days late: 1.234,56 + 24,69 + 0,82."""
    async with pool.acquire() as conn, conn.transaction():
        doc = await issue(conn, Seal(SETTINGS.secret_key), account_id, test=False, due=THURSDAY, now=NOW, terms=TERMS)
    late = datetime(2026, 12, 12, 15, tzinfo=UTC)
    async with serving(pool, lambda: late) as base_url, aiohttp.ClientSession() as client:
        html = await fetch_page(client, f"{base_url}/pagar/{doc.public_id}?lang={language}")
        for each in words:
            assert each in html, each
        assert "<strong>R$\u00a01.260,07</strong>" in html
        assert "10,00%" not in html  # that discount is over
        assert 'data-changes-at="2026-12-13T03:00:00.000Z"' in html


async def test_preview_and_page_of_an_overdue_boleto_name_the_last_day_to_pay(pool: Pool, account_id: UUID) -> None:
    async with pool.acquire() as conn, conn.transaction():
        doc = await issue(conn, Seal(SETTINGS.secret_key), account_id, test=False, due=THURSDAY, now=NOW, terms=TERMS)
    for at, told in (
        (NOW, 'og:description" content="Pague com boleto até 10/12/2026."'),
        (datetime(2026, 12, 12, 15, tzinfo=UTC), 'og:description" content="Pague com boleto até 11/01/2027."'),
        (datetime(2027, 1, 12, 15, tzinfo=UTC), "pagável até 11/01/2027</span>"),
    ):
        async with serving(pool, lambda at=at: at) as base_url, aiohttp.ClientSession() as client:  # type: ignore[misc]
            assert told in await fetch_page(client, f"{base_url}/pagar/{doc.public_id}")
