"""The contact that an owner publishes for payers: shown on the page of every charge, unless the merchant is blocked."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from runtime.seal import Seal
from tests.support.dashboard import Books, Person, a_merchant, colleague_in_browser, owner_in_browser, settings_with
from tests.support.pages import serving

SETTINGS = settings_with()
PAGE, FORM = "/painel/empresa", "/painel/empresa/contato"


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Any) -> AsyncIterator[Any]:
    merchant = await a_merchant(pool)
    async with (
        serving(pool, lambda: datetime.now(UTC), SETTINGS) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        yield owner, Books(pool, merchant.account_id, Seal(SETTINGS.secret_key)), address, merchant


async def save_contact(owner: Person, **fields: Any) -> int:
    return (await owner.post(FORM, on=PAGE, **fields)).status


async def test_payers_see_the_contact_in_every_state_of_a_charge_until_the_merchant_is_blocked(shop: Any) -> None:
    owner, books, *_ = shop
    doc = await books.charge()
    path = f"/pagar/{doc.public_id}"
    assert "Fale com" not in (await owner.opened(path)).text
    assert await save_contact(owner, phone="(11) 98765-4321", whatsapp="yes", contact_email="ajuda@loja.example") == 303
    shown = await owner.opened(path)
    for link in ('href="tel:+5511987654321"', 'href="https://wa.me/5511987654321"', 'href="mailto:ajuda@loja.example"'):
        assert link in shown.html
    assert "(11) 98765-4321" in shown.text
    for state in ("expired", "cancelled", "failed"):
        await books.pool.execute("UPDATE read_charge SET status = $1 WHERE public_id = $2", state, doc.public_id)
        assert "Fale com" in (await owner.opened(path)).text, state
    await books.pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", books.account_id)
    for state in ("pending", "expired"):
        await books.pool.execute("UPDATE read_charge SET status = $1 WHERE public_id = $2", state, doc.public_id)
        assert "98765" not in (await owner.opened(path)).html, state


async def test_saving_an_empty_contact_removes_it_and_changes_are_audited(shop: Any) -> None:
    owner, books, *_ = shop
    doc = await books.charge()
    assert await save_contact(owner, phone="+351 912 345 678", contact_email="") == 303
    shown = await owner.opened(f"/pagar/{doc.public_id}")
    assert "+351912345678" in shown.text
    assert "wa.me" not in shown.html
    assert await save_contact(owner, phone="", contact_email="") == 303
    assert "Fale com" not in (await owner.opened(f"/pagar/{doc.public_id}")).text
    assert "Mudou o contato que os pagadores veem" in (await owner.opened("/painel/auditoria")).text


@pytest.mark.parametrize(
    "fields",
    [{"phone": "98765-4321"}, {"phone": "0800 123"}, {"phone": "javascript:alert(1)"}, {"phone": "1" * 30},
     {"phone": "", "whatsapp": "yes"},
     {"contact_email": "a@b"}, {"contact_email": "<b>@x.example"}, {"contact_email": "x?subject=a@b.example, c"}],
)  # fmt: skip
async def test_an_invalid_contact_is_refused_beside_its_field(shop: Any, fields: dict[str, Any]) -> None:
    owner, books, *_ = shop
    refused = await owner.post(FORM, on=PAGE, **fields)
    assert refused.status == 400
    assert f'id="w-{next(iter(fields))}"' in refused.html
    stored = await books.pool.fetchrow(
        "SELECT contact_phone, contact_email FROM account WHERE account_id = $1", books.account_id
    )
    assert tuple(stored) == ("", "")


async def test_only_owners_may_change_the_contact(shop: Any) -> None:
    _, books, address, merchant = shop
    async with colleague_in_browser(books.pool, address, merchant, "finance") as finance:
        assert "Salvar contato" not in (await finance.opened(PAGE)).text
        assert (await finance.post(FORM, phone="(11) 98765-4321")).status == 403
