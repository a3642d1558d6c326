"""The review of a registration: which items were checked, by whom, whether they changed since, and staff's notes."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest_asyncio

from readmodels.dashboard.registration_review import ReviewItem
from runtime.ids import new_id
from runtime.postgres import Pool
from tests.support.dashboard import Person, Seen, a_merchant, owner_in_browser, settings_with, staff_in_browser
from tests.support.pages import serving

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def staff(pool: Pool, address: str) -> AsyncIterator[Person]:
    async with staff_in_browser(pool, address) as person:
        yield person


def hash_of_item(page: Seen, item: str) -> str:
    found = re.search(rf'name="item" value="{item}"><input type="hidden" name="seen" value="([0-9a-f]+)"', page.html)
    assert found, item
    return found[1]


async def test_a_checked_item_names_its_reviewer_and_needs_a_new_check_once_its_data_change(
    pool: Pool, staff: Person, address: str
) -> None:
    merchant = await a_merchant(pool, "Quitanda da Dona Zefa", kyc="pending")
    one = f"/plataforma/lojas/{merchant.account_id}"
    page = await staff.opened(one)
    assert page.text.count("Falta conferir") == len(ReviewItem) == 5
    assert "Ainda por conferir: empresa, endereço, pessoas, chave dos saques, atividade." in page.text
    assert "https://solucoes.receita.fazenda.gov.br/" in page.html
    for item in ReviewItem:
        done = await staff.post(f"{one}/conferencia", on=one, item=item, seen=hash_of_item(page, item))
        assert done.status == 303
    page = await staff.opened(one)
    assert "Falta conferir" not in page.text
    assert "Ainda por conferir" not in page.text
    assert page.text.count(f", {staff.email}") >= 5
    await pool.execute("UPDATE account SET name = 'Quitanda do Seu Zé' WHERE account_id = $1", merchant.account_id)
    changed = await staff.opened(one)
    # Company and activity were checked under another name; address, people and key stay checked.
    assert changed.text.count("Mudou depois de conferido") == 2
    # A check of a page opened before the correction does not count for the corrected data.
    late = await staff.post(f"{one}/conferencia", on=one, item="address", seen="00" * 32)
    assert late.status == 303
    assert (await staff.opened(one)).text.count("Mudou depois de conferido") == 3
    gone = await staff.post(f"{one}/conferencia/desmarcar", on=one, item="people")
    assert gone.status == 303
    assert (await staff.opened(one)).text.count("Falta conferir") == 1
    log = await staff.audit_log()
    assert "Conferiu uma parte de um cadastro" in log
    assert "Desmarcou uma parte de um cadastro" in log
    # The checks decide nothing: an approval is possible as without them.
    approved = await staff.post(f"{one}/cadastro", on=one, kyc="approved")
    assert approved.status == 303
    assert await pool.fetchval("SELECT kyc FROM account WHERE account_id = $1", merchant.account_id) == "approved"


async def test_a_check_of_an_unknown_item_or_account_is_refused_and_stores_nothing(pool: Pool, staff: Person) -> None:
    merchant = await a_merchant(pool, kyc="pending")
    one = f"/plataforma/lojas/{merchant.account_id}"
    for item, seen, status in (("nothing", "00" * 32, 404), ("company", "00", 400), ("company", "x" * 64, 400)):
        assert (await staff.post(f"{one}/conferencia", on=one, item=item, seen=seen)).status == status
    nobody = f"/plataforma/lojas/{new_id()}"
    assert (await staff.post(f"{nobody}/conferencia", on=one, item="company", seen="00" * 32)).status == 404
    assert (await staff.post(f"{nobody}/observacoes", on=one, note="oi")).status == 404
    assert not await pool.fetchval("SELECT count(*) FROM registration_check WHERE account_id = $1", merchant.account_id)


async def test_notes_about_an_account_are_stored_and_shown_to_staff_only(
    pool: Pool, staff: Person, address: str
) -> None:
    merchant = await a_merchant(pool)
    one = f"/plataforma/lojas/{merchant.account_id}"
    for wrong in (" ", "x" * 2_001):
        refused = await staff.post(f"{one}/observacoes", on=one, note=wrong)
        assert (refused.status, "Escreva a observação" in refused.text) == (400, True)
    note = "Falei com a sócia.\r\n<b>Volume</b> de 300 boletos por mês."
    form = await staff.opened(one)
    assert (await staff.post(f"{one}/observacoes", form=form, note=note)).status == 303
    assert (await staff.post(f"{one}/observacoes", form=form, note=note)).status == 409  # the same form sent again
    page = await staff.opened(one)
    assert "Falei com a sócia." in page.text
    assert "&lt;b&gt;Volume&lt;/b&gt; de 300" in page.html
    assert await pool.fetchval("SELECT count(*) FROM account_note WHERE account_id = $1", merchant.account_id) == 1
    assert "Escreveu uma observação sobre uma loja" in await staff.audit_log()
    async with owner_in_browser(address, merchant) as owner:
        for path in ("/painel/empresa", "/painel/auditoria"):
            seen = await owner.opened(path)
            assert "sócia" not in seen.text
            assert "observação sobre" not in seen.text
