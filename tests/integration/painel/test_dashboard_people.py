"""The account's people, managed by its owners; changing one's own password; and the client address behind a proxy."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from commands.merchants.merchants import MerchantCreated
from commands.people.attempts import ADDRESS_ATTEMPTS
from commands.people.people import PEOPLE_MAX
from runtime.postgres import Pool
from tests.support.dashboard import ENTRY, Person, a_merchant, colleague_in_browser, owner_in_browser, settings_with
from tests.support.pages import serving

TEAM = "/painel/pessoas"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), settings_with()) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def merchant(pool: Pool) -> MerchantCreated:
    return await a_merchant(pool)


@pytest_asyncio.fixture(loop_scope="session")
async def owner(address: str, merchant: MerchantCreated) -> AsyncIterator[Person]:
    async with owner_in_browser(address, merchant) as person:
        yield person


async def test_access_follows_a_changed_role_at_once_and_ends_with_removal(
    address: str, owner: Person, pool: Pool, merchant: MerchantCreated
) -> None:
    async with colleague_in_browser(pool, address, merchant, "finance") as person:
        assert (await person.get("/painel/extrato")).status == 200
        assert (await person.get(TEAM)).status == 403
        assert (await owner.post(f"{TEAM}/perfil", on=TEAM, email=person.email, role="support")).status == 303
        assert (await person.get("/painel/extrato")).status == 403
        assert (await owner.post(f"{TEAM}/remover", on=TEAM, email=person.email, sure="yes")).status == 303
        assert (await person.get("/painel")).status == 303
        assert (await person.sign_in()).status == 403
    told = (await owner.opened("/painel/auditoria")).text
    for deed in ("Mudou o perfil de uma pessoa", "Removeu uma pessoa"):
        assert f"{deed} {person.email}" in told


async def test_the_last_owner_stays_even_when_two_owners_remove_each_other(
    address: str, owner: Person, pool: Pool, merchant: MerchantCreated
) -> None:
    for path in ("perfil", "remover"):
        refused = await owner.post(f"{TEAM}/{path}", on=TEAM, email=owner.email, role="support", sure="yes")
        assert (refused.status, "ao menos um proprietário" in refused.text) == (400, True)
    async with colleague_in_browser(pool, address, merchant, "owner") as other:
        forms = [await owner.opened(TEAM), await other.opened(TEAM)]
        await asyncio.gather(
            owner.post(f"{TEAM}/remover", form=forms[0], email=other.email, sure="yes"),
            other.post(f"{TEAM}/remover", form=forms[1], email=owner.email, sure="yes"),
        )
        count = "SELECT count(*) FROM dashboard_user WHERE account_id = $1 AND role = 'owner'"
        assert await pool.fetchval(count, merchant.account_id) == 1


async def test_people_of_another_account_answer_like_unknown_people_and_stay_unchanged(
    owner: Person, pool: Pool, merchant: MerchantCreated
) -> None:
    stranger = await a_merchant(pool)
    email = stranger.dashboard.email
    before = await pool.fetchrow("SELECT * FROM dashboard_user WHERE email = $1", email)
    for path in ("perfil", "acesso", "remover"):
        assert (await owner.post(f"{TEAM}/{path}", on=TEAM, email=email, role="support", sure="yes")).status == 404, (
            path
        )
        assert (
            await owner.post(f"{TEAM}/{path}", on=TEAM, email="nobody@example.com", role="support", sure="yes")
        ).status == 404, path
    assert (await owner.post(TEAM, on=TEAM, name="Ana", email=email, role="owner")).status == 303
    assert await pool.fetchrow("SELECT * FROM dashboard_user WHERE email = $1", email) == before


async def test_an_invitation_with_an_invalid_e_mail_role_or_name_or_beyond_the_limit_is_refused(
    owner: Person, pool: Pool, merchant: MerchantCreated
) -> None:
    for email in ("", "ana", "ana@", "ana@localhost", "a b@example.com", "ana@example.com\r\nx", "x" * 250 + "@a.bc"):
        assert (await owner.post(TEAM, on=TEAM, name="Ana", email=email, role="support")).status == 400, email
    for role in ("", "admin", "root"):
        sent = await owner.post(TEAM, on=TEAM, name="Ana", email=f"x{role}@example.com", role=role)
        assert sent.status == 400, role
    for name in ("", " ", "x" * 101, "veja golpe.example", "Ana\u202e", "https://x"):
        assert (await owner.post(TEAM, on=TEAM, name=name, email="x@example.com", role="support")).status == 400, name
    assert (await owner.post(TEAM, on=TEAM, name="Ana", email=owner.email, role="support")).status == 400
    # The table's constraint checks the role as well.
    with pytest.raises(asyncpg.CheckViolationError):
        await pool.execute("UPDATE dashboard_user SET role = 'admin' WHERE email = $1", owner.email)
    await pool.execute(
        "INSERT INTO dashboard_user (email, account_id, role, password_hash, created_at)"
        " SELECT 'n' || n || $2 || '@example.com', $1, 'support', 'x', now() FROM generate_series(2, $3) AS n",
        merchant.account_id,
        merchant.account_id.hex,
        PEOPLE_MAX,
    )
    refused = await owner.post(TEAM, on=TEAM, name="Ana", email="one.more@example.com", role="support")
    assert (refused.status, f"no máximo {PEOPLE_MAX}" in refused.text) == (400, True)


async def test_changing_the_password_needs_the_old_one_and_ends_the_other_sessions(
    address: str, merchant: MerchantCreated
) -> None:
    path, fresh = "/painel/acesso/senha", "  uma senha nova de verdade  "
    async with owner_in_browser(address, merchant) as person, owner_in_browser(address, merchant) as elsewhere:

        async def change(password: str, new: str, again: str) -> Any:
            return await person.post(path, password=password, new=new, again=again)

        for given in (("wrong", fresh, fresh), (person.password, "curta", "curta"), (person.password, fresh, "outra")):
            assert (await change(*given)).status == 400, given
        guessable = await change(person.password, "flamengo1981", "flamengo1981")
        assert (guessable.status, "das primeiras que se tentam" in guessable.text) == (400, True)
        assert (await elsewhere.get("/painel")).status == 200
        assert (await change(person.password, fresh, fresh)).where == "/painel/acesso?feito=senha"
        assert (await elsewhere.get("/painel")).status == 303
        assert (await person.get("/painel")).status == 200
        assert (await elsewhere.sign_in()).status == 403
        assert (await elsewhere.sign_in(fresh)).status == 303


# Behind proxies


async def _guess(address: str, **headers: str) -> int:
    """Send one wrong password for a new e-mail; return the status."""
    person = Person(address, f"{datetime.now(UTC).timestamp()}@example.com", "wrong")
    try:
        page = await person.ask("GET", ENTRY, headers=headers)
        fields = {"csrf": page.hidden()["csrf"], "email": person.email, "password": "wrong"}
        return (await person.ask("POST", ENTRY, data=fields, headers=headers)).status
    finally:
        await person.http.close()


async def _use_up_attempts(pool: Pool) -> None:
    """Use up the attempts of every address that has tried, so that a test need not make them."""
    await pool.execute("UPDATE sign_in_attempt SET attempts = $1 WHERE attempts > 0", ADDRESS_ATTEMPTS)


@pytest.mark.parametrize("trusted", ["", "10.0.0.0/8", "127.0.0.0/8"])
async def test_a_forged_forwarded_header_gives_no_more_sign_in_attempts(pool: Pool, trusted: str) -> None:
    settings = settings_with(TRUSTED_PROXIES=trusted)
    proxy = trusted.startswith("127")
    async with serving(pool, lambda: datetime.now(UTC), settings) as address:
        # What the visitor wrote stands to the left of the address that the proxy saw.
        seen = "203.0.113.7"
        assert await _guess(address, **{"X-Forwarded-For": f"192.0.2.1, {seen}"}) == 403
        await _use_up_attempts(pool)
        for forged in ("192.0.2.2", "192.0.2.3, 10.0.0.9", "127.0.0.1"):
            value = f"{forged}, {seen}" if proxy else forged
            assert await _guess(address, **{"X-Forwarded-For": value, "Forwarded": "for=192.0.2.77"}) == 429
        # Behind a trusted proxy another visitor has another address; otherwise the header is ignored.
        assert await _guess(address, **{"X-Forwarded-For": "203.0.113.8"}) == (403 if proxy else 429)
