"""Staff search all accounts for what a caller gives them; a search changes nothing and is audited without its text."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from runtime.seal import Seal
from tests.support.dashboard import Books, Person, Seen, a_merchant, settings_with, staff_in_browser
from tests.support.pages import serving

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0")
SEAL = Seal(SETTINGS.secret_key)
DOCUMENT = "52998224725"
PATH = "/plataforma/busca"


@pytest_asyncio.fixture(loop_scope="session")
async def staff(pool: Any) -> AsyncIterator[Person]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as address, staff_in_browser(pool, address) as person:
        yield person


async def search(staff: Person, text: str) -> Seen:
    seen = await staff.post(PATH, on=PATH, q=text)
    assert seen.status == 200, seen.text[:300]
    return seen


async def test_a_charge_is_found_by_any_id_link_document_or_reference_a_caller_gives(staff: Person, pool: Any) -> None:
    merchant = await a_merchant(pool, "Padaria do Bairro")
    books = Books(pool, merchant.account_id, SEAL)
    doc = await books.charge(4321, external_id="Pedido 88-Z", payer={"name": "Ana", "document": DOCUMENT})
    await books.paid(doc)
    receipt, payment_id = await pool.fetchrow(
        "SELECT source, payment_id FROM payment WHERE account_id = $1", merchant.account_id
    )
    search_texts = [
        doc.charge_id,
        str(payment_id),
        str(await books.refunded(doc)),
        str(doc.txid),
        receipt,
        f"https://x.example/pagar/{doc.public_id}",
        "529.982.247-25",
        "Pedido 88-Z",
    ]
    for text in search_texts:
        seen = await search(staff, text)
        assert "Padaria do Bairro" in seen.text, text
        assert doc.charge_id in seen.html
        assert receipt in seen.html  # its payment
        assert "R$\u00a043,21" in seen.text
        assert "Ana" not in seen.text
    test = await books.charge(99, test=True, external_id="Pedido 88-T")
    assert "TESTE" in (await search(staff, test.charge_id)).text
    assert "Nada encontrado" in (await search(staff, "Pedido 88-T")).text


async def test_each_charge_of_a_payer_is_shown_with_its_own_payments_newest_first(staff: Person, pool: Any) -> None:
    merchant = await a_merchant(pool, "Escola Um Dois")
    books = Books(pool, merchant.account_id, SEAL)
    payer = {"name": "Ana", "document": "15350946056"}
    older, newer = [await books.charge(cents, payer=payer) for cents in (10_00, 20_00)]
    await books.paid(older, 10_00, 3_33)
    await books.paid(newer, 20_00)
    html = (await search(staff, "153.509.460-56")).html
    first, second = html.index(newer.charge_id), html.index(older.charge_id)
    assert first < second
    of_newer, of_older = html[first:second], html[second:]
    assert ("R$\u00a020,00" in of_newer, "R$\u00a03,33" in of_newer) == (True, False)
    assert of_older.index("R$\u00a03,33") < of_older.rindex("R$\u00a010,00")


async def test_a_merchant_is_found_by_the_beginning_of_its_name_by_document_or_by_id(staff: Person, pool: Any) -> None:
    merchant = await a_merchant(pool, "Quitanda Zé & Filhos")
    document = await pool.fetchval("SELECT document FROM account WHERE account_id = $1", merchant.account_id)
    for text in ("quitanda zé", "Quitanda Zé & Filhos", document, str(merchant.account_id)):
        html = (await search(staff, text)).html
        assert f'href="/plataforma/lojas/{merchant.account_id}">Quitanda Zé &amp; Filhos</a>' in html, text
    written = await pool.fetchval(
        "SELECT facts::text FROM audit WHERE action = 'platform.searched' ORDER BY number DESC LIMIT 1"
    )
    assert (str(merchant.account_id) in written, "Quitanda" in written) == (True, False)
    assert "Quitanda" not in (await search(staff, "Zé & Filhos")).text


async def test_a_request_is_found_by_its_id(staff: Person, pool: Any) -> None:
    merchant = await a_merchant(pool, "Sapataria Passo")
    await pool.execute(
        "INSERT INTO request_log (account_id, test, at, request_id, client_id, method, path, status, code, duration_us)"
        " VALUES ($1, false, now(), $2, 'c', 'POST', '/v1/charges/pix', 400, 'AMOUNT_INVALID', 1500)",
        merchant.account_id, f"req_{merchant.account_id.hex[-16:]}",
    )  # fmt: skip
    text = (await search(staff, f"req_{merchant.account_id.hex[-16:]}")).text
    assert "Sapataria Passo" in text
    assert "POST /v1/charges/pix" in text
    assert "400 AMOUNT_INVALID" in text


async def test_each_search_is_audited_without_its_text(staff: Person, pool: Any) -> None:
    merchant = await a_merchant(pool)
    await Books(pool, merchant.account_id, SEAL).charge(payer={"name": "Ana", "document": "11144477735"})
    await search(staff, "111.444.777-35")
    row = await pool.fetchrow("SELECT * FROM audit WHERE email = $1 AND action = 'platform.searched'", staff.email)
    assert str(merchant.account_id) in str(dict(row))
    assert "payer" in str(row["facts"])
    for typed in ("111.444.777-35", "11144477735"):
        assert typed not in str(dict(row))
    assert "Procurou em todas as lojas" in await staff.audit_log()


@pytest.mark.parametrize("text", ["nada disso", "x" * 255, "E" + "9" * 31, "0" * 47, "<b>x</b>", "'; --", "req_não"])
async def test_a_search_without_results_says_so(staff: Person, text: str) -> None:
    seen = await search(staff, text)
    assert "Nada encontrado" in seen.text
    assert "<b>x</b>" not in seen.html


async def test_an_empty_or_too_long_search_text_is_refused(staff: Person) -> None:
    for text in ("", "  ", "x" * 256, "a\nb"):
        assert (await staff.post(PATH, on=PATH, q=text)).status == 400
