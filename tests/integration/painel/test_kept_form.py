"""A form sent after its session ended: nothing is done, the user is told, and can send it after signing in again."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
import pytest_asyncio

from commands.bank_orders.pix_locations import add_to_pool
from commands.merchants.merchants import MerchantCreated
from commands.people.sessions import IDLE
from domain.mode import Mode
from runtime.postgres import Pool
from tests.support.banking import BANK, new_locations
from tests.support.dashboard import (
    ENTRY,
    Clock,
    Person,
    Seen,
    a_merchant,
    colleague_in_browser,
    owner_in_browser,
    settings_with,
)
from tests.support.pages import serving

NEW = "/painel/cobrancas/nova"
CHARGE: dict[str, Any] = {
    "forma": "pix", "amount": "12,34", "lifetime": "86400", "external_id": "pedido <1>", "payer_name": "Ana & Cia",
}  # fmt: skip
MADE = "SELECT count(*) FROM charge WHERE account_id = $1"


@pytest_asyncio.fixture(loop_scope="session")
async def address(pool: Pool, clock: Clock) -> AsyncIterator[str]:
    async with pool.acquire() as conn:
        await add_to_pool(conn, Mode.PRODUCTION, BANK, new_locations(10))
    async with serving(pool, clock.now, settings_with()) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def merchant(pool: Pool) -> MerchantCreated:
    return await a_merchant(pool)


def _hidden_fields(seen: Seen) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', seen.html)
    return {name: unescape(value) for name, value in found}


async def _sign_in(person: Person, page: Seen, password: str) -> Seen:
    sent = {**_hidden_fields(page), "email": person.email, "password": password}
    return await person.ask("POST", ENTRY, data=sent)


async def test_a_form_sent_after_its_session_ended_can_be_sent_after_the_sign_in(
    address: str, clock: Clock, pool: Pool, merchant: MerchantCreated
) -> None:
    async with owner_in_browser(address, merchant) as person:
        form = await person.opened(NEW)
        clock.on(IDLE + timedelta(seconds=1))
        late = await person.post(NEW, form=form, **CHARGE)
        assert late.status == 403
        assert "Sua sessão terminou." in late.text
        assert "ainda não foi feito: entre para enviar." in late.text
        wrong = await _sign_in(person, late, "errada")
        assert "E-mail ou senha incorretos." in wrong.text
        entered = await _sign_in(person, wrong, person.password)
        assert (entered.status, await pool.fetchval(MADE, merchant.account_id)) == (200, 0)
        assert "Falta enviar o formulário" in entered.text
        assert f'action="{NEW}"' in entered.html
        for _ in range(2):
            done = await person.ask("POST", NEW, data=_hidden_fields(entered))
            assert done.status == 303, done.text[:300]
        assert await pool.fetchval(MADE, merchant.account_id) == 1
        shown = await person.opened(done.where)
        assert "Cobrança criada." in shown.text
        for typed in ("R$\xa012,34", "pedido <1>", "Ana & Cia"):
            assert typed in shown.text


async def test_the_kept_form_is_offered_only_to_the_person_of_the_ended_session(
    address: str, clock: Clock, pool: Pool, merchant: MerchantCreated
) -> None:
    async with (
        owner_in_browser(address, merchant) as person,
        colleague_in_browser(pool, address, merchant, "finance") as other,
    ):
        form = await person.opened(NEW)
        clock.on(IDLE + timedelta(seconds=1))
        late = await person.post(NEW, form=form, **CHARGE)
        person.email, person.password = other.email, other.password
        entered = await _sign_in(person, late, other.password)
        assert (entered.status, entered.where) == (303, "/painel")


async def test_a_kept_form_that_needs_step_up_asks_for_the_password_and_shows_its_content(
    address: str, clock: Clock, merchant: MerchantCreated
) -> None:
    """Another person may have filled it in before the sign-in, in a browser that was left open."""
    path = "/painel/pessoas"
    async with owner_in_browser(address, merchant) as person:
        form = await person.opened(path)
        clock.on(IDLE + timedelta(seconds=1))
        late = await person.post(path, form=form, name="Eu", email="eu@example.com", role="owner")
        entered = await _sign_in(person, late, person.password)
        assert "Falta enviar o formulário" in entered.text
        asked = await person.ask("POST", path, data=_hidden_fields(entered))
        assert asked.status == 403
        for said in ("Confirme que é você", "Convidar uma pessoa", "eu@example.com", "Proprietário"):
            assert said in asked.text, said
        assert "eu@example.com" not in (await person.opened(path)).text
        done = await person.ask("POST", path, data={**_hidden_fields(asked), "step_up_password": person.password})
        assert done.where == f"{path}?feito=convite"


@pytest.mark.parametrize("how", ["signed out", "another's form", "password"])
async def test_other_forms_are_not_kept_and_the_user_is_told_that_nothing_was_done(
    address: str, clock: Clock, merchant: MerchantCreated, how: str
) -> None:
    """A form of a signed-out session, a form of another session and a form with a password are not kept."""
    async with owner_in_browser(address, merchant) as person:
        form = await person.opened(NEW)
        page, fields = NEW, {**form.hidden(), **CHARGE}
        kept = {(each.key, each.value) for each in person.http.cookie_jar}
        if how == "signed out":
            await person.post("/painel/sair")
            person.http.cookie_jar.update_cookies(dict(kept))
        elif how == "another's form":
            fields["csrf"] = "0" * 64
        else:
            page, fields = "/painel/acesso/senha", {**form.hidden(), "password": "a", "new": "segredo", "again": "b"}
        clock.on(IDLE + timedelta(seconds=1))
        late = await person.ask("POST", page, data=fields)
        assert (late.status, late.where) == (303, f"{ENTRY}?terminou=1")
        told = await person.opened(late.where)
        assert "Sua sessão terminou, e nada do que você enviou foi feito." in told.text
        assert "pedido" not in told.html
