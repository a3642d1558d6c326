"""Which roles see the payers of production charges unmasked, over every page and file of the dashboard."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from domain.payer import MASKED
from runtime.ids import new_id
from runtime.postgres import Pool
from runtime.seal import MAIL_TO, Seal
from tests.support.dashboard import Books, Person, a_merchant, colleague_in_browser, owner_in_browser, settings_with
from tests.support.pages import serving
from web.painel.route import EVERYBODY, PAYERS
from web.painel.table import TABLE

SETTINGS = settings_with()
SEAL = Seal(SETTINGS.secret_key)
PAYER = {
    "name": "Quitéria Bragança",
    "document": "52998224725",
    "email": "quiteria@braganca.example",
    "phone": "+5581987654321",
}
PAID_BY = ("Zulmira Fontoura", "11144477735")
SECRET = (
    *PAYER.values(),
    "529.982.247-25",
    "Bragança",
    "braganca",
    "987654321",
    *PAID_BY,
    "111.444.777-35",
    "Fontoura",
)
MAIL = (
    "INSERT INTO mail (mail_id, account_id, charge_id, kind, to_sealed, to_hash, due_at, created_at, state)"
    " VALUES ($1, $2, $3, 'charge', $4, 'x', now(), now(), 'sent')"
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


async def payers_named(person: Person, role: str, charge_id: str) -> tuple[set[str], set[str]]:
    """The payer data named by the pages and files that this role opens, and the paths of those pages."""
    named, where = set[str](), set[str]()
    for page in TABLE:
        if page.method != "GET" or role not in page.roles or page.mode.test:
            continue
        if page.path.endswith(".pdf"):  # the PDF of a boleto names its payer in glyphs
            assert page.roles <= PAYERS
            continue
        path = page.whole_path.replace("{charge_id:str}", charge_id)
        path = re.sub(r"\{[a-z_]+:str\}", str(uuid4()), path)
        seen = await person.get(path)
        assert seen.status in (200, 404), (path, seen.status)
        if found := {each for each in SECRET if each in seen.html}:
            named |= found
            where.add(page.path)
    return named, where


@pytest.mark.parametrize("role", sorted(EVERYBODY))
async def test_only_roles_that_deal_with_payers_see_them_unmasked(pool: Pool, address: str, role: str) -> None:
    merchant = await a_merchant(pool)
    books = Books(pool, merchant.account_id, SEAL)
    charge = await books.charge(payer=PAYER, external_id="pedido-1")
    await books.paid(charge, payer_name=PAID_BY[0], payer_document=PAID_BY[1])
    # A payment with an anomaly is shown on the first page, which every role opens.
    await books.paid(charge, payer_name=PAID_BY[0], payer_document=PAID_BY[1])
    mail_id = new_id()
    to = SEAL.seal(PAYER["email"].encode(), MAIL_TO, mail_id)
    await pool.execute(MAIL, mail_id, merchant.account_id, UUID(charge.charge_id), to)
    person = (
        owner_in_browser(address, merchant) if role == "owner" else colleague_in_browser(pool, address, merchant, role)
    )
    async with person as somebody:
        named, where = await payers_named(somebody, role, charge.charge_id)
        shown = (await somebody.opened(f"/painel/cobrancas/{charge.charge_id}")).text
    if role in PAYERS:
        assert {PAYER["name"], PAYER["email"], PAYER["phone"], PAID_BY[0]} <= named
        assert {"", "/cobrancas/{charge_id:str}", "/pagamentos", "/pagamentos.csv"} <= where
        assert not named & {PAYER["document"], PAID_BY[1], "529.982.247-25", "111.444.777-35"}
    else:
        assert not named, where
        assert "Q*** B***" in shown
        assert "Z*** F***" in shown
        assert "q***@***" in shown


async def test_payers_of_test_charges_are_shown_unmasked_to_a_developer(pool: Pool, address: str) -> None:
    merchant = await a_merchant(pool)
    charge = await Books(pool, merchant.account_id, SEAL).charge(payer=PAYER, test=True)
    async with colleague_in_browser(pool, address, merchant, "developer") as developer:
        assert PAYER["name"] in (await developer.opened(f"/painel/teste/cobrancas/{charge.charge_id}")).text


@pytest.mark.parametrize("text", ["Ana", "Ana  Maria", "", None, "a@b.example"])
def test_a_masked_value_keeps_one_letter_of_each_word_at_most(text: str | None) -> None:
    for masked in (MASKED.name(text), MASKED.email(text), MASKED.phone(text)):
        assert masked == text if not text else masked is not None and text not in masked


async def test_the_audit_log_keeps_no_path_of_a_webhook(pool: Pool, address: str) -> None:
    merchant = await a_merchant(pool)
    async with owner_in_browser(address, merchant) as owner:
        url = "https://example.com/hook/s3cr3t-path?token=s3cr3t"
        await owner.post("/painel/webhooks", on="/painel/webhooks", url=url)
        log = await pool.fetch("SELECT action, subject FROM audit WHERE account_id = $1", merchant.account_id)
    assert [row["subject"] for row in log if row["action"] == "webhook.registered"] == ["https://example.com"]
