"""Which scopes each role may grant to a credential, and which actions ask for the password again."""

import itertools
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from html import unescape
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from commands.merchants.merchants import ALL_SCOPES, MerchantCreated
from commands.people.people import add_person
from commands.people.scopes import grantable
from domain.mode import Mode
from runtime.passwords import hash_password
from runtime.postgres import Pool
from tests.support.dashboard import Clock, Person, Seen, a_merchant, owner_in_browser, settings_with
from tests.support.pages import serving

PASSWORD = "uma senha de teste"
LATER = timedelta(minutes=6)


class Environment(NamedTuple):
    merchant: MerchantCreated
    owner: Person
    address: str
    clock: Clock
    pool: Pool
    opened: AsyncExitStack

    async def colleague(self, role: str) -> Person:
        email = f"{role}.{self.merchant.account_id.hex[-12:]}@example.com"
        async with self.pool.acquire() as conn:
            await add_person(conn, self.merchant.account_id, email, role, hash_password(PASSWORD), now=self.clock.now())
        person = Person(self.address, email, PASSWORD)
        self.opened.push_async_callback(person.http.close)
        assert (await person.sign_in()).status == 303
        return person


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool) -> AsyncIterator[Environment]:
    clock, merchant = Clock(), await a_merchant(pool)
    async with AsyncExitStack() as opened:
        address = await opened.enter_async_context(serving(pool, clock.now, settings_with()))
        owner = await opened.enter_async_context(owner_in_browser(address, merchant))
        yield Environment(merchant, owner, address, clock, pool, opened)


def scopes_offered(page: Seen, form: str) -> set[str]:
    """The scopes that the form at this address offers."""
    found = re.search(rf'<form method="post" action="{form}">(.*?)</form>', page.html, re.DOTALL)
    assert found, form
    return set(re.findall(r'name="scope" type="checkbox" value="([^"]+)"', found[1]))


async def confirm(person: Person, page: Seen, path: str, password: str = "") -> Seen:
    """Send the form again as the step-up page holds it, with the password."""
    assert "Confirme que é você" in page.text, page.text[:300]
    data = [
        (name, unescape(value))
        for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page.html)
    ]
    return await person.ask("POST", path, data=[*data, ("step_up_password", password or person.password)])


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("role", ["owner", "developer", "finance", "support"])
async def test_a_role_grants_only_the_scopes_it_may_use_itself(env: Environment, role: str, mode: Mode) -> None:
    person = env.owner if role == "owner" else await env.colleague(role)
    path = "/painel/teste/tokens" if mode.test else "/painel/tokens"
    page = await person.get(path)
    if not grantable(role, mode):
        assert page.status == 403
        assert (await person.post(path, name="x", scope=["charges:read"])).status == 403
        return
    assert scopes_offered(page, path) == grantable(role, mode)
    for scope in ALL_SCOPES:
        seen = await person.post(path, on=path, name="Loja", scope=[scope])
        made = await env.pool.fetchrow(
            "SELECT created_by, test FROM credential WHERE account_id = $1 AND name = 'Loja' AND scopes = $2",
            env.merchant.account_id, [scope],
        )  # fmt: skip
        if scope in grantable(role, mode):
            assert seen.status == 200, seen.text[:300]
            assert made is not None
            assert (made["created_by"], made["test"]) == (person.email, mode.test)
            await env.pool.execute(
                "UPDATE credential SET name = 'Outra' WHERE account_id = $1 AND name = 'Loja'", env.merchant.account_id
            )
        else:
            assert seen.status == 400
            assert made is None


async def test_a_developer_cannot_rotate_a_credential_with_money_scopes_in_production(env: Environment) -> None:
    developer = await env.colleague("developer")
    initial = env.merchant.production.client_id
    page = await developer.opened(f"/painel/tokens/{initial}")
    assert "Peça a um proprietário" in page.text
    assert "/trocar" not in page.html
    seen = await developer.post(f"/painel/tokens/{initial}/trocar", form=page, overlap="24h")
    assert seen.status == 403
    assert await env.pool.fetchval("SELECT rotated_at FROM credential WHERE client_id = $1", initial) is None
    test = env.merchant.test.client_id
    seen = await developer.post(f"/painel/teste/tokens/{test}/trocar", on=f"/painel/teste/tokens/{test}", overlap="24h")
    assert seen.status == 200
    assert await env.pool.fetchval("SELECT rotated_by FROM credential WHERE client_id = $1", test) == developer.email


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/painel/saques", {"amount": "10,00", "sure": "yes"}),
        ("/painel/saques/chave", {"pix_key": "loja@example.com", "document": "11222333000181"}),
        ("/painel/saques/automatico", {"keep": "0", "sure": "yes"}),
        ("/painel/tokens", {"name": "ERP", "scope": ["charges:read", "withdrawals:create"]}),
        ("/painel/pessoas", {"name": "Nova", "email": "nova@example.com", "role": "support"}),
        ("/painel/pessoas/convite", {"email": "nova@example.com"}),
        ("/painel/pessoas/perfil", {"email": "nobody@example.com", "role": "owner"}),
        ("/painel/pessoas/acesso", {"email": "nobody@example.com", "sure": "yes"}),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_actions_that_move_money_or_admit_people_ask_for_the_password_again(
    env: Environment, path: str, fields: Any
) -> None:
    env.clock.on(LATER)
    asked = await env.owner.post(path, **fields)
    assert asked.status == 403
    # Nothing was done, and nothing is audited.
    count = "SELECT count(*) FROM audit WHERE account_id = $1"
    before = await env.pool.fetchval(count, env.merchant.account_id)
    wrong = await confirm(env.owner, asked, path, "not the password")
    assert wrong.status == 403
    assert "Senha incorreta" in wrong.text
    assert await env.pool.fetchval(count, env.merchant.account_id) == before
    done = await confirm(env.owner, wrong, path)
    assert done.status != 403
    assert "Confirme que é você" not in done.text
    # The confirmation holds for five minutes.
    env.clock.on(timedelta(minutes=4))
    assert "Confirme que é você" not in (await env.owner.post(path, **fields)).text
    env.clock.on(timedelta(minutes=2))
    assert "Confirme que é você" in (await env.owner.post(path, **fields)).text


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        (
            "/painel/saques",
            {"amount": "10,00", "sure": "yes"},
            [
                "Pedir um saque",
                "Valor R$\xa010,00",
                "Para a chave Pix l***@example.com",
                "Dono da chave Loja Açaí & Cia 12.***.***/0001-**",
            ],
        ),
        (
            "/painel/saques/chave",
            {"pix_key": "outra@example.com", "document": "11.222.333/0001-81"},
            ["Trocar a chave Pix dos saques", "Chave nova outra@example.com", "CPF ou CNPJ do dono 11.222.333/0001-81"],
        ),
        (
            "/painel/saques/automatico",
            {"keep": "250,00"},
            ["saque automático", "Fica no saldo R$\xa0250,00", "Para a chave Pix l***@example.com"],
        ),
        (
            "/painel/tokens",
            {"name": "ERP", "scope": ["charges:read", "withdrawals:create"]},
            ["Criar uma credencial", "Nome ERP", "Consultar cobranças e boletos, Pedir saques"],
        ),
        (
            "/painel/pessoas/perfil",
            {"email": "ana@example.com", "role": "owner"},
            ["Mudar o perfil de uma pessoa", "E-mail ana@example.com", "Perfil novo Proprietário"],
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_the_step_up_page_says_what_is_confirmed_also_after_a_wrong_password(
    env: Environment, path: str, fields: Any, said: list[str]
) -> None:
    await env.pool.execute(
        "UPDATE account SET pix_key = 'loja@example.com', document = '12345678000195' WHERE account_id = $1",
        env.merchant.account_id,
    )
    env.clock.on(LATER)
    asked = await env.owner.post(path, **fields)
    wrong = await confirm(env.owner, asked, path, "not the password")
    for seen in (asked, wrong):
        assert seen.status == 403
        assert [each for each in said if each not in seen.text] == []
        assert seen.url == env.address + path


async def test_a_wrong_password_is_refused_even_shortly_after_the_right_one(env: Environment) -> None:
    path = "/painel/pessoas"
    fields: dict[str, Any] = {"name": "Ana Lima", "email": "ana.lima@example.com", "role": "support"}
    env.clock.on(LATER)
    asked = await env.owner.post(path, **fields)
    assert (await confirm(env.owner, asked, path)).status == 303
    fields["email"] = "outra@example.com"
    wrong = await env.owner.post(path, **fields, step_up_password="not the password")
    assert (wrong.status, "Senha incorreta" in wrong.text) == (403, True)
    plain = await env.owner.post("/painel/tokens", name="ERP", scope=["charges:read"], step_up_password="not it")
    assert (plain.status, "Senha incorreta" in plain.text) == (403, True)
    assert "outra@example.com" not in (await env.owner.opened(path)).text


async def test_rotating_a_credential_with_money_scopes_asks_for_the_password_again(env: Environment) -> None:
    path = f"/painel/tokens/{env.merchant.production.client_id}/trocar"
    env.clock.on(LATER)
    asked = await env.owner.post(path, overlap="24h")
    assert asked.status == 403
    rotated = "SELECT rotated_by FROM credential WHERE client_id = $1"
    assert await env.pool.fetchval(rotated, env.merchant.production.client_id) is None
    assert (await confirm(env.owner, asked, path)).status == 200
    assert await env.pool.fetchval(rotated, env.merchant.production.client_id) == env.owner.email


async def test_a_confirmed_form_is_executed_as_it_was_filled_in(env: Environment) -> None:
    env.clock.on(LATER)
    asked = await env.owner.post("/painel/pessoas", name="Ana <b>", email="ana@example.com", role="finance")
    assert asked.status == 403
    assert "<b>" not in asked.html
    asked = await env.owner.post("/painel/pessoas", name="Ana Lima", email="Ana@Example.com", role="finance")
    done = await confirm(env.owner, asked, "/painel/pessoas")
    assert done.status == 303
    assert "Ana Lima ana@example.com Financeiro" in (await env.owner.opened("/painel/pessoas")).text


async def test_credentials_without_money_scopes_or_in_test_mode_need_no_step_up(env: Environment) -> None:
    env.clock.on(LATER)
    for scopes, path in itertools.product([["charges:read"]], ["/painel/tokens", "/painel/teste/tokens"]):
        assert (await env.owner.post(path, name="ERP", scope=scopes)).status == 200
    assert (await env.owner.post("/painel/teste/tokens", name="ERP", scope=list(ALL_SCOPES))).status == 200


async def test_an_owner_cannot_send_an_access_link_to_themselves_from_an_open_browser(env: Environment) -> None:
    seen = await env.owner.post("/painel/pessoas/acesso", email=env.owner.email, sure="yes")
    assert seen.status == 400
    assert "Seu acesso" in seen.text
    assert (await env.owner.get("/painel")).status == 200


async def test_removing_a_person_lists_the_credentials_that_person_created_or_rotated(env: Environment) -> None:
    developer = await env.colleague("developer")
    made = await developer.post("/painel/tokens", name="Do desenvolvedor", scope=["charges:read"])
    client_id = made.field("client_id")
    rotated = env.merchant.test.client_id
    await developer.post(f"/painel/teste/tokens/{rotated}/trocar", overlap="24h")
    # The secret that the developer knows keeps working during the overlap.
    await env.owner.post(f"/painel/teste/tokens/{rotated}/trocar", overlap="24h")
    left = await env.owner.post("/painel/pessoas/remover", email=developer.email, sure="yes")
    assert left.status == 200
    assert client_id in left.html
    assert rotated in left.html
    assert env.merchant.production.client_id not in left.html
    done = await env.owner.post("/painel/pessoas/credenciais", form=left, client_id=[client_id])
    assert done.status == 303
    revoked = "SELECT revoked_at IS NOT NULL FROM credential WHERE client_id = $1"
    assert await env.pool.fetchval(revoked, client_id)
    assert not await env.pool.fetchval(revoked, rotated)


@pytest.mark.parametrize("how", ["remover", "perfil"])
async def test_a_payout_key_change_requested_by_a_leaving_owner_is_shown_and_can_be_cancelled(
    env: Environment, how: str
) -> None:
    leaving, new = await env.colleague("owner"), "11144477735"
    assert (await leaving.post("/painel/saques/chave", pix_key=new, document=new)).status == 303
    left = await env.owner.post(f"/painel/pessoas/{how}", email=leaving.email, sure="yes", role="finance")
    assert (left.status, "pediu outra chave para os saques, ***.444.777-**" in left.text) == (200, True), left.text
    change_id = re.search(r'name="change_id" value="([^"]+)"', left.html)
    assert change_id
    done = await env.owner.post("/painel/saques/chave/cancelar", form=left, change_id=change_id[1])
    assert done.where == "/painel/saques?feito=chave-cancelada"


async def test_reducing_a_role_lists_the_persons_credentials_with_scopes_beyond_the_new_role(env: Environment) -> None:
    leaving = await env.colleague("owner")
    made = {}
    for name, scopes in (("Saques", ["withdrawals:create"]), ("Consulta", ["charges:read"])):
        made[name] = (await leaving.post("/painel/tokens", name=name, scope=scopes)).field("client_id")
    changed = await env.owner.post("/painel/pessoas/perfil", email=leaving.email, role="developer")
    assert (changed.status, "agora tem o perfil Desenvolvimento" in changed.text) == (200, True)
    assert "Chave dos saques" not in changed.text
    assert (made["Saques"] in changed.html, made["Consulta"] in changed.html) == (True, False)
    done = await env.owner.post("/painel/pessoas/credenciais", form=changed, client_id=[made["Saques"]])
    assert done.status == 303
    again = await env.owner.post("/painel/pessoas/perfil", email=leaving.email, role="developer")
    assert again.where == "/painel/pessoas?feito=perfil"


async def test_with_money_totp_required_a_withdrawal_needs_a_second_factor(pool: Pool) -> None:
    merchant = await a_merchant(pool)
    settings = settings_with(MONEY_TOTP_REQUIRED="1")
    async with serving(pool, Clock().now, settings) as address, owner_in_browser(address, merchant) as owner:
        seen = await owner.post("/painel/saques", amount="10,00", sure="yes")
        assert seen.status == 403
        assert 'href="/painel/acesso/codigo"' in seen.html
        assert (await owner.post("/painel/tokens", name="ERP", scope=["charges:read"])).status == 200
