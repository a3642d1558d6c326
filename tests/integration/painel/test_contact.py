"""Payers read whom to ask about a charge, as an owner says it, and of a blocked merchant they read nothing."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from runtime.seal import Seal
from tests.support.dashboard import Books, Person, a_merchant, colleague_of, person_of, settings_with
from tests.support.pages import serving

SETTINGS = settings_with()
PAGE, FORM = "/painel/empresa", "/painel/empresa/contato"


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Any) -> AsyncIterator[Any]:
    merchant = await a_merchant(pool)
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as address, person_of(address, merchant) as owner:
        yield owner, Books(pool, merchant.account_id, Seal(SETTINGS.secret_key)), address, merchant


async def said(owner: Person, **fields: Any) -> int:
    return (await owner.post(FORM, on=PAGE, **fields)).status


async def test_payers_read_it_in_every_state_of_the_charge_and_not_once_the_merchant_is_blocked(shop: Any) -> None:
    owner, books, *_ = shop
    doc = await books.charge()
    path = f"/pagar/{doc.public_id}"
    assert "Fale com" not in (await owner.opened(path)).text
    assert await said(owner, phone="(11) 98765-4321", whatsapp="yes", contact_email="ajuda@loja.example") == 303
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


async def test_it_is_taken_back_by_leaving_it_empty_and_is_in_the_audit_log(shop: Any) -> None:
    owner, books, *_ = shop
    doc = await books.charge()
    assert await said(owner, phone="+351 912 345 678", contact_email="") == 303
    shown = await owner.opened(f"/pagar/{doc.public_id}")
    assert "+351912345678" in shown.text
    assert "wa.me" not in shown.html
    assert await said(owner, phone="", contact_email="") == 303
    assert "Fale com" not in (await owner.opened(f"/pagar/{doc.public_id}")).text
    assert "Mudou o contato que os pagadores veem" in (await owner.opened("/painel/auditoria")).text


@pytest.mark.parametrize(
    "fields",
    [{"phone": "98765-4321"}, {"phone": "0800 123"}, {"phone": "javascript:alert(1)"}, {"phone": "1" * 30},
     {"phone": "", "whatsapp": "yes"},
     {"contact_email": "a@b"}, {"contact_email": "<b>@x.example"}, {"contact_email": "x?subject=a@b.example, c"}],
)  # fmt: skip
async def test_what_nobody_could_be_reached_by_is_refused_beside_its_field(shop: Any, fields: dict[str, Any]) -> None:
    owner, books, *_ = shop
    refused = await owner.post(FORM, on=PAGE, **fields)
    assert refused.status == 400
    assert f'id="w-{next(iter(fields))}"' in refused.html
    stored = await books.pool.fetchrow(
        "SELECT contact_phone, contact_email FROM account WHERE account_id = $1", books.account_id
    )
    assert tuple(stored) == ("", "")


async def test_only_owners_say_it(shop: Any) -> None:
    _, books, address, merchant = shop
    async with colleague_of(books.pool, address, merchant, "finance") as finance:
        assert "Salvar contato" not in (await finance.opened(PAGE)).text
        assert (await finance.post(FORM, phone="(11) 98765-4321")).status == 403
