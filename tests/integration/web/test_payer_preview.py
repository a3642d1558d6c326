"""The payer's page beside the ways to pay: the link's preview, the reference, and payments that do not fit."""

import base64
import io
import re
from urllib.parse import urlsplit

import aiohttp
import pytest
from PIL import Image

from runtime.ids import new_id
from runtime.postgres import Pool
from tests.integration.web.test_payer_page import PAYMENT, Charge, base_url, charge, client, fetch_page, pay

__all__ = ["base_url", "charge", "client"]


async def test_the_preview_of_a_link_shows_payee_amount_expiry_and_state(
    base_url: str, client: aiohttp.ClientSession, charge: Charge, pool: Pool
) -> None:
    public_id = await charge()
    _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}")
    told = dict(re.findall(r'<meta property="og:([a-z:_]+)" content="([^"]*)">', html))
    assert told["title"] == "R$\xa01.234,56 para Padaria Aurora Ltda"
    assert told["description"].startswith("Pague com Pix até ")
    assert told["url"].endswith(f"/pagar/{public_id}")
    async with client.get(base_url + urlsplit(told["image"]).path) as image:
        assert image.headers["content-type"] == "image/png"
        assert (await image.read()).startswith(b"\x89PNG")
    await pay(pool, public_id)
    _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}")
    assert '<meta property="og:description" content="Pagamento confirmado.">' in html


async def test_preview_and_shared_text_of_a_receipt_name_the_amount_paid(
    base_url: str, client: aiohttp.ClientSession, charge: Charge
) -> None:
    """With fine and interest it is not the amount of the charge."""
    late = PAYMENT | {"method": "boleto", "amount_cents": 125956, "fine_cents": 2469, "interest_cents": 31}
    public_id = await charge("paid", payment=late)
    _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}")
    paid_to = "R$\xa01.259,56 para Padaria Aurora Ltda"
    assert f'<meta property="og:title" content="{paid_to}">' in html
    assert f"<title>Pagamento confirmado – {paid_to}</title>" in html
    assert f'data-title="Pagamento confirmado – {paid_to}"' in html
    assert f'data-share="Comprovante: Pagamento confirmado – {paid_to}"' in html
    assert "1.234,56" not in html


async def test_the_merchants_reference_is_shown_before_and_after_payment(
    base_url: str, client: aiohttp.ClientSession, charge: Charge, pool: Pool
) -> None:
    public_id = await charge(external_id="pedido <1001>")
    _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}")
    assert "Referência: pedido &lt;1001&gt;" in html
    await pay(pool, public_id)
    assert (
        "<dt>Referência</dt><dd>pedido &lt;1001&gt;</dd>"
        in (await fetch_page(client, f"{base_url}/pagar/{public_id}"))[1]
    )


async def book_payment(
    pool: Pool,
    public_id: str,
    *,
    anomaly: str | None,
    amount_cents: int = 123456,
    refunded_cents: int = 0,
    settles: bool | None = None,
) -> None:
    """Insert a payment as it is booked; it settles its charge when it has no anomaly, unless `settles` is given."""
    await pool.execute(
        "WITH booked AS (INSERT INTO payment (account_id, test, payment_id, charge_id, source, method, settles,"
        " anomaly, amount_cents, refunded_cents, paid_at, credited_at)"
        " SELECT account_id, test, $2::uuid, charge_id, $2::uuid::text, 'pix', coalesce($6, $3::text IS NULL),"
        " $3::text, $4, $5, now(), now() FROM read_charge WHERE public_id = $1)"
        " INSERT INTO read_payment (account_id, test, payment_id, charge_id, method, anomaly, paid_at, journal_id)"
        " SELECT account_id, test, $2, charge_id, 'pix', $3, now(), journal_id FROM read_charge"
        " WHERE public_id = $1",
        public_id, new_id(), anomaly, amount_cents, refunded_cents, settles,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("anomaly", "words"),
    [
        ("duplicate", "foi paga mais de uma vez"),
        ("paid_after_cancel", "depois do fim desta cobrança"),
        ("amount_mismatch", "de outro valor"),
    ],
)
async def test_an_anomalous_payment_is_explained_on_the_page(
    base_url: str, client: aiohttp.ClientSession, charge: Charge, pool: Pool, anomaly: str, words: str
) -> None:
    public_id = await charge()
    assert 'class="anomaly"' not in (await fetch_page(client, f"{base_url}/pagar/{public_id}"))[1]
    await book_payment(pool, public_id, anomaly=anomaly)
    _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}")
    assert words in html
    assert "Padaria Aurora" in html[html.index(words) - 60 : html.index(words) + 90]


@pytest.mark.parametrize(
    ("refunded_cents", "told"),
    # Refunded of the payment that settles, and of the second one.
    [((0, 0), True), ((0, 123455), True), ((0, 123456), False), ((123456, 0), False), ((100000, 23456), False)],
)
async def test_the_notice_of_a_duplicate_payment_goes_once_its_amount_was_refunded(
    base_url: str,
    client: aiohttp.ClientSession,
    charge: Charge,
    pool: Pool,
    refunded_cents: tuple[int, int],
    told: bool,
) -> None:
    public_id = await charge("paid", refunded_cents=sum(refunded_cents))
    await book_payment(pool, public_id, anomaly=None, refunded_cents=refunded_cents[0])
    await book_payment(pool, public_id, anomaly="duplicate", refunded_cents=refunded_cents[1])
    _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}")
    assert ("foi paga mais de uma vez" in html) is told
    # The receipt is of one payment, and must not be read as if that one had been returned.
    returned = "<dt>Devolvido</dt>" in html, "do total de R$\xa02.469,12 pago" in html
    assert returned == (sum(refunded_cents) > 0,) * 2


@pytest.mark.parametrize(("refunded_cents", "told"), [(0, True), (4999, True), (5000, False)])
async def test_an_overpaid_charge_is_shown_as_paid_and_its_excess_as_refundable_until_refunded(
    base_url: str, client: aiohttp.ClientSession, charge: Charge, pool: Pool, refunded_cents: int, told: bool
) -> None:
    """The page says that the charge is paid: more than its amount settles it, and the difference can be refunded."""
    public_id = await charge("paid", refunded_cents=refunded_cents)
    much = 128456
    await book_payment(
        pool, public_id, anomaly="amount_mismatch", amount_cents=much, refunded_cents=refunded_cents, settles=True
    )
    _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}")
    assert "não quita" not in html
    assert ("Foi pago mais do que o valor cobrado. Padaria Aurora Ltda pode devolver a diferença." in html) is told
    _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}?lang=en")
    assert ("More was paid than the amount of the charge." in html) is told


async def test_of_two_anomalous_payments_the_one_not_refunded_is_explained(
    base_url: str, client: aiohttp.ClientSession, charge: Charge, pool: Pool
) -> None:
    public_id = await charge()
    await book_payment(pool, public_id, anomaly="amount_mismatch", amount_cents=500)
    await book_payment(pool, public_id, anomaly="duplicate", refunded_cents=123456)
    _, html = await fetch_page(client, f"{base_url}/pagar/{public_id}")
    assert "de outro valor" in html
    assert "foi paga mais de uma vez" not in html


async def test_the_image_of_the_qr_code_declares_its_width_and_height(
    base_url: str, client: aiohttp.ClientSession, charge: Charge
) -> None:
    _, html = await fetch_page(client, f"{base_url}/pagar/{await charge()}")
    source, side, height = re.findall(r'<img src="data:image/png;base64,([^"]+)" width="(\d+)" height="(\d+)"', html)[0]
    assert Image.open(io.BytesIO(base64.b64decode(source))).size == (int(side), int(height))
