"""Credentials created, rotated and revoked in the dashboard, and what that does to secrets and tokens at the API."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from commands.merchants.merchants import ALL_SCOPES, MerchantCreated
from commands.people.credentials import CREDENTIALS_MAX
from runtime.postgres import Pool
from tests.support.dashboard import Person, Seen, a_merchant, owner_in_browser, settings_with
from tests.support.in_process import Api, Reply
from tests.support.pages import serving

STOPS_WITHIN_S = 5.0


class Clock:
    """The dashboard's clock. The API's is the real one: a rotation dated an hour back here is an hour old there."""

    def __init__(self) -> None:
        self.behind = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) - self.behind


class Environment(NamedTuple):
    merchant: MerchantCreated
    person: Person
    api: Api
    clock: Clock


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, api: Api) -> AsyncIterator[Environment]:
    clock, merchant = Clock(), await a_merchant(pool)
    async with serving(pool, clock.now, settings_with()) as address, owner_in_browser(address, merchant) as person:
        yield Environment(merchant, person, api, clock)


async def request_token(api: Api, client_id: str, secret: str) -> Reply:
    given = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
    return await api.post("/v1/oauth/token", given, token=None)


async def token_of(api: Api, client_id: str, secret: str) -> str:
    reply = await request_token(api, client_id, secret)
    assert reply.status == 200, reply
    return str(reply.json()["access_token"])


async def last_accepted_s(api: Api, token: str) -> float:
    """The seconds after which the API last accepted this token; 0 when it refused it at once."""
    began, asked_s, answered_s = time.monotonic(), 0.0, 0.0
    while (await api.get("/v1/charges", token=token)).status != 401:
        answered_s = asked_s
        assert answered_s < STOPS_WITHIN_S + 1
        await asyncio.sleep(0.1)
        asked_s = time.monotonic() - began
    return answered_s


def shown_credential(seen: Seen) -> tuple[str, str]:
    assert seen.status == 200, seen.text[:400]
    return seen.field("client_id"), seen.field("client_secret")


async def rotate(env: Environment, client_id: str, overlap: str) -> str:
    """Rotate the secret with this overlap; return the new secret."""
    mode = "/teste" if client_id.startswith("test") else ""
    path = f"/painel{mode}/tokens/{client_id}"
    seen = await env.person.post(f"{path}/trocar", on=path, overlap=overlap)
    assert shown_credential(seen)[0] == client_id
    return shown_credential(seen)[1]


@pytest.mark.parametrize("test", [True, False])
async def test_a_new_credential_works_with_its_scopes_in_its_mode_and_its_secret_is_shown_once(
    env: Environment, pool: Pool, test: bool
) -> None:
    path = "/painel/teste/tokens" if test else "/painel/tokens"
    seen = await env.person.post(path, on=path, name="Loja <virtual>", scope=["payments:read", "charges:read"])
    client_id, secret = shown_credential(seen)
    assert "Guarde agora." in seen.text
    assert seen.field("account_id") == str(env.merchant.account_id)  # the quick start asks for all three
    reply = await request_token(env.api, client_id, secret)
    assert reply.json()["scope"] == "charges:read payments:read"
    row = await pool.fetchrow("SELECT * FROM credential WHERE client_id = $1", client_id)
    assert row is not None
    assert row["test"] is test
    assert secret.encode() not in row.values()
    assert secret not in str(row)
    listed = await env.person.opened(path)
    assert "Loja <virtual>" in listed.text
    assert client_id in listed.html
    for where in (path, f"{path}/{client_id}", "/painel/auditoria"):
        assert secret not in (await env.person.opened(where)).html
    # Its page exists only in the section of its mode.
    other = "/painel/tokens" if test else "/painel/teste/tokens"
    assert (await env.person.get(f"{other}/{client_id}")).status == 404


async def test_production_and_test_credentials_are_listed_separately(env: Environment) -> None:
    page = await env.person.opened("/painel/tokens")
    production, sandbox = page.html.split('id="sandbox"')
    production = production[production.index('id="production"') :]
    assert env.merchant.production.client_id in production
    assert env.merchant.test.client_id not in production
    assert env.merchant.test.client_id in sandbox
    assert env.merchant.production.client_id not in sandbox
    assert env.merchant.production.client_id not in (await env.person.opened("/painel/teste/tokens")).html


async def test_a_form_without_name_or_scopes_names_what_is_missing_and_creates_no_credential(
    env: Environment, pool: Pool
) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"name": "", "scope": "charges:read"}, "Dê um nome"),
        ({"name": "x" * 61, "scope": "charges:read"}, "Dê um nome"),
        ({"name": "ERP"}, "Escolha ao menos uma permissão"),
        ({"name": "ERP", "scope": "charges:own"}, "Escolha ao menos uma permissão"),
    ]
    for fields, said in cases:
        seen = await env.person.post("/painel/tokens", on="/painel/tokens", **fields)
        assert seen.status == 400
        assert said in seen.text
        assert 'role="alert"' in seen.html
    assert await _count(pool, env) == 2


async def test_an_account_has_a_bounded_number_of_working_credentials(env: Environment, pool: Pool) -> None:
    await pool.execute(
        "INSERT INTO credential (client_id, account_id, test, secret_hash, scopes, created_at)"
        " SELECT gen_random_uuid()::text, $1, true, decode(repeat('00', 32), 'hex'), '{}', now()"
        " FROM generate_series(1, $2::integer)",
        env.merchant.account_id,
        CREDENTIALS_MAX - 2,
    )
    path = "/painel/teste/tokens"
    answers = await asyncio.gather(
        *(env.person.post(path, on=path, name=f"n{number}", scope="charges:read") for number in range(4))
    )
    assert sorted(each.status for each in answers) == [200, 400, 400, 400]
    assert f"no máximo {CREDENTIALS_MAX}" in answers[[each.status for each in answers].index(400)].text
    # Production has its own limit.
    assert (await env.person.post("/painel/tokens", name="n", scope="charges:read")).status == 200


@pytest.mark.parametrize(("overlap", "span"), [("1h", 1), ("24h", 24), ("7d", 7 * 24)])
async def test_the_old_secret_works_during_the_overlap_and_not_after(env: Environment, overlap: str, span: int) -> None:
    client_id, old = env.merchant.production.client_id, env.merchant.production.client_secret
    # Rotated so long ago that a minute of the overlap is left.
    env.clock.behind = timedelta(hours=span) - timedelta(minutes=1)
    before = await token_of(env.api, client_id, old)
    new = await rotate(env, client_id, overlap)
    assert new != old
    assert (await request_token(env.api, client_id, new)).status == 200
    assert (await request_token(env.api, client_id, old)).status == 200
    assert (await env.api.get("/v1/charges", token=before)).status == 200
    # Rotated so long ago that the overlap has ended.
    env.clock.behind = timedelta(hours=span, seconds=1)
    newest = await rotate(env, client_id, overlap)
    assert (await request_token(env.api, client_id, newest)).status == 200
    for over in (new, old):
        refused = await request_token(env.api, client_id, over)
        assert (refused.status, refused.json()["error"]) == (401, "invalid_client")


async def test_without_an_overlap_the_old_secret_and_its_tokens_stop_working(env: Environment) -> None:
    client_id, old = env.merchant.test.client_id, env.merchant.test.client_secret
    token = await token_of(env.api, client_id, old)
    assert (await env.api.get("/v1/charges", token=token)).status == 200
    new = await rotate(env, client_id, "now")
    assert (await request_token(env.api, client_id, old)).status == 401
    assert await last_accepted_s(env.api, token) < STOPS_WITHIN_S
    assert (await env.api.get("/v1/charges", token=await token_of(env.api, client_id, new))).status == 200


async def test_a_rotation_within_an_overlap_keeps_one_old_secret(env: Environment) -> None:
    client_id, first = env.merchant.test.client_id, env.merchant.test.client_secret
    second = await rotate(env, client_id, "24h")
    third = await rotate(env, client_id, "24h")
    works = [(await request_token(env.api, client_id, each)).status for each in (first, second, third)]
    assert works == [401, 200, 200]
    assert "segredo antigo até" in (await env.person.opened("/painel/tokens")).text


async def test_a_revoked_credential_stops_working_within_five_seconds(env: Environment) -> None:
    client_id, secret = env.merchant.production.client_id, env.merchant.production.client_secret
    token = await token_of(env.api, client_id, secret)
    assert (await env.api.get("/v1/charges", token=token)).status == 200
    path = f"/painel/tokens/{client_id}"
    unsure = await env.person.post(f"{path}/revogar", on=path)
    assert (unsure.status, "Confirme" in unsure.text) == (400, True)
    done = await env.person.post(f"{path}/revogar", on=path, sure="yes")
    assert done.where == "/painel/tokens?feito=revogada"
    assert "Credencial revogada." in (await env.person.opened(done.where)).text
    assert (await request_token(env.api, client_id, secret)).status == 401
    assert await last_accepted_s(env.api, token) < STOPS_WITHIN_S
    for gone in ("", "/trocar", "/revogar"):
        ask = env.person.post(path + gone, overlap="1h", sure="yes") if gone else env.person.get(path)
        assert (await ask).status == 404
    # The credential of the other mode keeps working.
    assert (await request_token(env.api, env.merchant.test.client_id, env.merchant.test.client_secret)).status == 200


async def test_the_list_shows_when_a_credential_last_got_a_token(env: Environment, pool: Pool) -> None:
    page = await env.person.opened("/painel/tokens")
    assert page.text.count("nenhum ainda") == 2
    await token_of(env.api, env.merchant.test.client_id, env.merchant.test.client_secret)
    at = await pool.fetchval("SELECT last_token_at FROM credential WHERE client_id = $1", env.merchant.test.client_id)
    assert abs((datetime.now(UTC) - at).total_seconds()) < 60
    assert (await env.person.opened("/painel/tokens")).text.count("nenhum ainda") == 1


async def test_an_owner_can_choose_every_scope(env: Environment) -> None:
    page = await env.person.opened("/painel/tokens")
    assert all(f'value="{scope}" checked' in page.html for scope in ALL_SCOPES)


async def _count(pool: Pool, env: Environment) -> int:
    count = await pool.fetchval("SELECT count(*) FROM credential WHERE account_id = $1", env.merchant.account_id)
    return int(count)
