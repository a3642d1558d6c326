"""Choosing a password by a mailed link, to recover access or to accept an invitation; only its addressee can use it."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import NamedTuple

import pytest
import pytest_asyncio

from commands.merchants.merchants import MerchantCreated
from commands.people.access import send_access
from commands.people.attempts import LINK_ADDRESS, LINKS
from commands.people.audit import Origin
from commands.people.invitations import INVITED
from commands.people.links import HOLDS
from commands.people.staff import add_staff
from domain.errors import Refused
from runtime.postgres import Pool, transaction
from runtime.seal import Seal
from runtime.settings import Settings
from tests.support.dashboard import (
    ENTRY,
    Clock,
    Person,
    Seen,
    a_merchant,
    colleague_in_browser,
    owner_in_browser,
    settings_with,
    staff_in_browser,
)
from tests.support.mailed import letters_to, mailed_link, plain_text_of
from tests.support.pages import serving

RECOVER = "/painel/recuperar"
TEAM = "/painel/pessoas"
FRESH = "uma senha bem nova"


class Environment(NamedTuple):
    pool: Pool
    clock: Clock
    settings: Settings
    address: str
    merchant: MerchantCreated

    async def link(self, email: str) -> str:
        return await mailed_link(self.pool, self.settings, email, now=self.clock.now())

    async def words(self, email: str) -> str:
        """The text of every mail sent to this address."""
        letters = await letters_to(self.pool, self.settings, email, now=self.clock.now())
        return " ".join(" ".join(f"{each['Subject']} {plain_text_of(each)}" for each in letters).split())

    def visitor(self, email: str = "", root: str = "/painel") -> Person:
        return Person(self.address, email, "", root)


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, clock: Clock) -> AsyncIterator[Environment]:
    settings = settings_with(STAFF_TOTP_REQUIRED="0")
    async with serving(pool, clock.now, settings) as address:
        yield Environment(pool, clock, settings, address, await a_merchant(pool))


async def request_link(person: Person, email: str | None = None) -> Seen:
    return await person.post(RECOVER, on=RECOVER, email=person.email if email is None else email)


async def choose_password(person: Person, link: str, password: str = FRESH, again: str | None = None) -> Seen:
    return await person.post(link, on=link, new=password, again=password if again is None else again)


# Recovery of a forgotten password


async def test_an_owner_who_forgot_the_password_recovers_access_without_help(env: Environment) -> None:
    async with (
        owner_in_browser(env.address, env.merchant) as elsewhere,
        owner_in_browser(env.address, env.merchant, signed_in=False) as owner,
    ):
        assert f'href="{RECOVER}"' in (await owner.opened(ENTRY)).html
        assert (await request_link(owner, owner.email.upper())).status == 200
        link = await env.link(owner.email)
        # Opening the link, as a mail scanner does, changes nothing.
        assert owner.email in (await owner.opened(link)).text
        assert (await elsewhere.get("/painel")).status == 200
        for odd in ("curta", "x" * 201, "Senha@2026"):
            assert (await choose_password(owner, link, odd)).status == 400
        assert (await choose_password(owner, link, FRESH, "outra senha longa")).status == 400
        done = await choose_password(owner, link)
        assert (done.status, done.where) == (303, f"{ENTRY}?senha=1")
        assert owner.cookie() == ""
        assert (await elsewhere.get("/painel")).status == 303
        assert (await owner.sign_in()).status == 403
        assert (await owner.sign_in(FRESH)).status == 303
        assert "Trocou a senha pelo link do e-mail" in (await owner.opened("/painel/auditoria")).text
    assert "Sua senha foi trocada" in await env.words(env.merchant.dashboard.email)


async def test_a_link_works_once_within_half_an_hour_and_using_it_ends_the_others(env: Environment) -> None:
    async with owner_in_browser(env.address, env.merchant, signed_in=False) as owner:
        await request_link(owner)
        first = await env.link(owner.email)
        env.clock.on(HOLDS + timedelta(seconds=1))
        for answer in (await owner.get(first), await owner.post(first, on=ENTRY, new=FRESH, again=FRESH)):
            assert (answer.status, "não vale mais" in answer.text) == (404, True)
        await request_link(owner)
        second = await env.link(owner.email)
        await request_link(owner)
        third = await env.link(owner.email)
        assert len({first, second, third}) == 3
        form = await owner.opened(third)
        answers = await asyncio.gather(
            *(owner.post(third, form=form, new=f"{FRESH} {n}", again=f"{FRESH} {n}") for n in range(3))
        )
        assert sorted(each.status for each in answers) == [303, 404, 404]
        assert (await owner.get(second)).status == 404
        for odd in ("x", "A" * 43, "-" * 43, "é" * 43, f"{third[-43:]}A"):
            assert (await owner.get(f"{RECOVER}/{odd}")).status == 404
        # Mailed again, as when the mail server's answer was lost, the used link stays unusable.
        await env.pool.execute("UPDATE mail SET state = 'waiting', due_at = now() WHERE kind = 'access'")
        await env.words(owner.email)
        assert (await owner.get(third)).status == 404


async def test_changing_the_password_while_signed_in_ends_pending_links(env: Environment) -> None:
    """Another person may have read the mail."""
    async with owner_in_browser(env.address, env.merchant) as owner:
        await request_link(owner)
        link = await env.link(owner.email)
        form, given = await owner.opened("/painel/acesso"), {"password": owner.password, "new": FRESH, "again": FRESH}
        assert (await owner.post("/painel/acesso/senha", form=form, **given)).status == 303
        assert (await owner.get(link)).status == 404


async def test_no_stored_row_contains_the_token_of_a_link(env: Environment) -> None:
    async with owner_in_browser(env.address, env.merchant, signed_in=False) as owner:
        await request_link(owner)
        link = await env.link(owner.email)
        token = link.rsplit("/", 1)[1]
        for table in ("access_link", "mail", "caught_mail", "sign_in_attempt"):
            rows = await env.pool.fetch(f"SELECT t::text AS said FROM {table} AS t")  # noqa: S608
            assert not any(token in row["said"] or owner.email in row["said"] for row in rows if table != "access_link")
            assert not any(token in row["said"] for row in rows)
            for row in await env.pool.fetch(f"SELECT * FROM {table}"):  # noqa: S608
                assert not any(isinstance(value, bytes) and token.encode() in value for value in row.values())


async def test_a_recovery_for_an_unknown_e_mail_gives_the_same_answer_and_does_the_same_work(env: Environment) -> None:
    async with (
        owner_in_browser(env.address, env.merchant, signed_in=False) as owner,
        staff_in_browser(env.pool, env.address, signed_in=False) as staff,
    ):
        nobody = f"nobody.{secrets.token_hex(4)}@example.com"
        pages, rows = [], []
        for email in (owner.email, nobody):
            before = await env.pool.fetchval("SELECT count(*) FROM mail")
            seen = await request_link(owner, email)
            pages.append(re.sub(r'value="[^"]*"', "", seen.html).replace(email, "E"))
            rows.append(await env.pool.fetchval("SELECT count(*) FROM mail") - before)
            assert seen.status == 200
        assert pages[0] == pages[1]
        assert rows == [1, 1]
        assert await letters_to(env.pool, env.settings, nobody, now=env.clock.now()) == []
        await env.link(owner.email)
        # No link is stored for the unknown e-mail.
        links = "SELECT count(*) FROM access_link WHERE email = $1"
        assert (await env.pool.fetchval(links, nobody), await env.pool.fetchval(links, owner.email)) == (0, 1)
        # Staff have no recovery page of their own.
        assert (await staff.get("/plataforma/recuperar")).status == 404


async def test_recovery_links_are_limited_silently_per_e_mail_and_with_429_per_address(env: Environment) -> None:
    async with owner_in_browser(env.address, env.merchant, signed_in=False) as owner:
        for _ in range(LINKS + 2):
            assert (await request_link(owner)).status == 200
        words = await env.words(owner.email)
        assert words.count("Escolha uma senha nova na Quita") == LINKS
        for number in range(LINK_ADDRESS - LINKS - 2):
            assert (await request_link(owner, f"{number}@example.com")).status == 200
        refused = await request_link(owner, "another@example.com")
        assert (refused.status, int(refused.headers["Retry-After"]) > 0) == (429, True)
        for odd in ("", "x", "a\u0000@example.com"):
            assert (await request_link(owner, odd)).status == 400


async def test_a_recovery_leaves_the_second_factor_on(env: Environment) -> None:
    async with owner_in_browser(env.address, env.merchant, signed_in=False) as owner:
        await env.pool.execute("UPDATE dashboard_user SET totp_sealed = 'x' WHERE email = $1", owner.email)
        await request_link(owner)
        assert (await choose_password(owner, await env.link(owner.email))).status == 303
        seen = await owner.sign_in(FRESH)
        assert (seen.status, "Código de acesso" in seen.text, owner.cookie()) == (200, True, "")


async def test_a_link_for_staff_works_in_the_staff_section_only(env: Environment) -> None:
    email = f"equipe.{secrets.token_hex(4)}@example.com"
    async with transaction(env.pool) as conn:
        await add_staff(conn, email, None, role="support", now=env.clock.now())
    visitor = env.visitor(email, "/plataforma")
    try:
        await request_link(visitor, email)  # on the merchants' page: whoever reads the mail is its addressee
        link = await env.link(email)
        assert link.startswith("/plataforma/recuperar/")
        assert (await visitor.get(link.replace("/plataforma", "/painel"))).status == 404
        assert (await choose_password(visitor, link)).where == "/plataforma/entrar?senha=1"
        assert (await visitor.sign_in(FRESH)).where == "/plataforma"
    finally:
        await visitor.http.close()


# Invitations


async def test_an_invited_person_chooses_a_password_and_gets_the_access_of_the_role(env: Environment) -> None:
    email = f"ana.{secrets.token_hex(4)}@example.com"
    ana = env.visitor(email)
    async with owner_in_browser(env.address, env.merchant) as owner:
        made = await owner.post(TEAM, on=TEAM, name="Ana Lima", email=email.upper(), role="finance")
        assert made.where == f"{TEAM}?feito=convite"
        page = await owner.opened(TEAM)
        assert f"Ana Lima {email} Financeiro" in page.text
        assert "Convidou uma pessoa " + email in (await owner.opened("/painel/auditoria")).text
        try:
            assert (await ana.sign_in(FRESH)).status == 403
            link = await env.link(email)
            shown = await ana.opened(link)
            for said in ("Ana Lima", email, env.merchant.name, "Financeiro"):
                assert said in shown.text
            assert (await choose_password(ana, link)).status == 303
            assert (await ana.sign_in(FRESH)).status == 303
            assert (await ana.get("/painel/extrato")).status == 200
            assert (await ana.get(TEAM)).status == 403
        finally:
            await ana.http.close()
        assert await env.pool.fetchval("SELECT count(*) FROM invitation WHERE email = $1", email) == 0
    told = await env.words(env.merchant.dashboard.email)
    for heading in ("Uma pessoa foi convidada para a sua conta", "Uma pessoa nova entra na sua conta"):
        assert heading in told
    assert f"Quem fez: {env.merchant.dashboard.email}" in told
    assert "Endereço de rede: 127.0.0.1" in told


async def test_inviting_an_e_mail_does_not_reveal_that_it_belongs_to_another_account(env: Environment) -> None:
    other = await a_merchant(env.pool, "Outra Loja")
    taken, free = other.dashboard.email, f"livre.{secrets.token_hex(4)}@example.com"
    async with owner_in_browser(env.address, env.merchant) as owner:
        answers = []
        for email in (taken, free):
            seen = await owner.post(TEAM, on=TEAM, name="Ana", email=email, role="owner")
            answers.append((seen.status, seen.where))
        assert answers[0] == answers[1] == (303, f"{TEAM}?feito=convite")
        page = (await owner.opened(TEAM)).html
        assert page.count(taken) == page.count(free)
    letters = await letters_to(env.pool, env.settings, taken, now=env.clock.now())
    said = plain_text_of(letters[-1])
    assert "já entra em outra conta" in " ".join(said.split())
    assert "/recuperar/" not in said
    assert await env.pool.fetchval("SELECT account_id FROM dashboard_user WHERE email = $1", taken) == other.account_id
    # A recovery for that e-mail does not admit its reader to the inviting account either.
    async with owner_in_browser(env.address, other, signed_in=False) as reader:
        await request_link(reader)
        assert "Outra Loja" in (await reader.opened(await env.link(taken))).text


async def test_an_expired_invitation_link_is_renewed_by_the_owner_or_by_the_invited_person(
    env: Environment,
) -> None:
    email = f"ana.{secrets.token_hex(4)}@example.com"
    ana = env.visitor(email)
    async with owner_in_browser(env.address, env.merchant) as owner:
        await owner.post(TEAM, on=TEAM, name="Ana", email=email, role="support")
        old = await env.link(email)
        env.clock.on(HOLDS + timedelta(seconds=1))
        owner.http.cookie_jar.clear()
        assert (await owner.sign_in()).status == 303
        try:
            assert (await ana.get(old)).status == 404
            assert (await owner.post(f"{TEAM}/convite", on=TEAM, email=email)).status == 303
            again = await env.link(email)
            env.clock.on(HOLDS + timedelta(seconds=1))
            await request_link(ana)
            own = await env.link(email)
            assert len({old, again, own}) == 3
            assert (await ana.get(own)).status == 200
            assert (await owner.post(f"{TEAM}/convite/retirar", on=TEAM, email=email)).status == 303
            assert (await ana.get(own)).status == 404
            owner.http.cookie_jar.clear()
            assert (await owner.sign_in()).status == 303
            assert (await owner.post(f"{TEAM}/convite", on=TEAM, email=email)).status == 404
        finally:
            await ana.http.close()


@pytest.mark.parametrize("how", ["remover", "perfil"])
async def test_removing_or_demoting_an_owner_withdraws_the_owners_pending_invitations(
    env: Environment, how: str
) -> None:
    """Otherwise a removed owner would come back under another e-mail address."""
    mine, theirs = (f"{name}.{secrets.token_hex(4)}@example.com" for name in ("eu", "ana"))
    other = env.visitor(mine)
    async with (
        owner_in_browser(env.address, env.merchant) as owner,
        colleague_in_browser(env.pool, env.address, env.merchant, "owner") as leaving,
    ):
        assert (await leaving.post(TEAM, on=TEAM, name="Eu", email=mine, role="owner")).status == 303
        assert (await owner.post(TEAM, on=TEAM, name="Ana", email=theirs, role="support")).status == 303
        link = await env.link(mine)
        try:
            form = await other.opened(link)
            gone = await owner.post(f"{TEAM}/{how}", on=TEAM, email=leaving.email, sure="yes", role="support")
            assert gone.status == 303
            page = (await owner.opened(TEAM)).text
            assert (mine in page, theirs in page) == (False, True)
            assert (await other.post(link, form=form, new=FRESH, again=FRESH)).status == 404
            await request_link(other)
            assert (await env.words(mine)).count("Escolher a senha") == 1
            said = {"remover": "até que alguém o troque em “Webhooks”", "perfil": "O perfil de uma pessoa mudou"}
            assert said[how] in await env.words(leaving.email)
        finally:
            await other.http.close()


async def test_an_invitation_ends_after_a_week(env: Environment) -> None:
    email = f"ana.{secrets.token_hex(4)}@example.com"
    ana = env.visitor(email)
    async with owner_in_browser(env.address, env.merchant) as owner:
        await owner.post(TEAM, on=TEAM, name="Ana", email=email, role="support")
    await env.link(email)
    env.clock.on(INVITED)
    try:
        await request_link(ana)
        assert (await env.words(email)).count("Escolha a sua senha Olá") == 1
        async with owner_in_browser(env.address, env.merchant) as owner:
            assert email not in (await owner.opened(TEAM)).text
    finally:
        await ana.http.close()


# Access restored by an owner or by the platform


async def test_an_owner_sends_a_colleague_an_access_link_without_seeing_a_password(env: Environment) -> None:
    path = f"{TEAM}/acesso"
    async with (
        owner_in_browser(env.address, env.merchant) as owner,
        colleague_in_browser(env.pool, env.address, env.merchant, "support") as person,
    ):
        assert (await owner.post(path, on=TEAM, email=person.email)).status == 400
        await env.pool.execute("UPDATE dashboard_user SET totp_sealed = 'x' WHERE email = $1", person.email)
        sent = await owner.post(path, on=TEAM, email=person.email, sure="yes")
        assert sent.where == f"{TEAM}?feito=link-enviado"
        # Until the link is used, the colleague's session and password stay valid.
        assert (await person.get("/painel")).status == 200
        assert (await choose_password(person, await env.link(person.email))).status == 303
        assert (await person.get("/painel")).status == 303
        kept = "SELECT totp_sealed IS NOT NULL FROM dashboard_user WHERE email = $1"
        assert await env.pool.fetchval(kept, person.email)
        assert (await owner.post(path, on=TEAM, email=person.email, sure="yes", factor="yes")).status == 303
        assert not await env.pool.fetchval(kept, person.email)
        told = await env.words(owner.email)
        assert "Um link de acesso foi enviado" in told
        assert "Os dois fatores de uma pessoa foram desligados" in told


async def test_the_platform_sends_an_owner_a_link_and_clears_the_second_factor_only_for_a_reason(
    env: Environment,
) -> None:
    seal, email, account_id = Seal(env.settings.secret_key), env.merchant.dashboard.email, env.merchant.account_id
    await env.pool.execute("UPDATE dashboard_user SET totp_sealed = 'x' WHERE email = $1", email)

    async def send(to: str, factor_lost: str | None = None) -> str:
        async with transaction(env.pool) as conn:
            return await send_access(
                conn, account_id, to, Origin("equipe@example.com", "terminal", "cli"), factor_lost=factor_lost,
                now=env.clock.now(), seal=seal,
            )  # fmt: skip

    for to, lost in (("nobody@example.com", None), (email, ""), (email, "x" * 501)):
        with pytest.raises(Refused, match="VALIDATION_ERROR"):
            await send(to, lost)
    kept = "SELECT totp_sealed IS NOT NULL FROM dashboard_user WHERE email = $1"
    assert await send(email) == "person.access_sent"
    assert await env.pool.fetchval(kept, email)
    assert await send(email, "telefone  roubado") == "person.factor_cleared"
    assert not await env.pool.fetchval(kept, email)
    visitor = env.visitor(email)
    try:
        assert (await choose_password(visitor, await env.link(email))).status == 303
        assert (await visitor.sign_in(FRESH)).status == 303
        log = (await visitor.opened("/painel/auditoria")).text
        assert f"Desligou os dois fatores de uma pessoa {account_id} pessoa: {email} motivo: telefone roubado" in log
        assert "Plataforma" in log
        assert "equipe@example.com" not in log
    finally:
        await visitor.http.close()


async def test_a_sign_in_from_an_unknown_browser_is_mailed_to_its_user_once(env: Environment) -> None:
    async with owner_in_browser(env.address, env.merchant, signed_in=False) as owner:
        page = await owner.get(ENTRY)
        fields = {"csrf": page.hidden()["csrf"], "email": owner.email, "password": owner.password}
        agent = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) http://evil.example Firefox/130.0"}
        assert (await owner.ask("POST", ENTRY, data=fields, headers=agent)).status == 303
        told = await env.words(owner.email)
        assert told.count("Entrada em um aparelho novo Entrada em um aparelho novo") == 1
        assert "Navegador: Firefox, Linux" in told
        assert "evil" not in told
        await owner.post("/painel/sair")
        assert (await owner.sign_in()).status == 303
        assert (await env.words(owner.email)).count("Entrada em um aparelho novo Entrada em um aparelho novo") == 1
