"""Admins of the platform invite people, change roles and remove people; all admins are mailed, and it is audited."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from commands.merchants.integrators import create_integrator
from commands.merchants.payout_key import ask_payout_key
from commands.merchants.share_proposals import propose_share
from commands.people.staff import add_staff, change_staff_role, expel_staff, remove_staff
from commands.people.tell import mail_admins
from domain.errors import Refused
from domain.merchants.payout import PayoutKey
from domain.merchants.staff import NEWCOMER, ROLES
from runtime.ids import new_id
from runtime.passwords import hash_password
from runtime.postgres import Pool, open_pool, transaction
from runtime.settings import Settings
from tests.support.dashboard import Clock, Person, Seen, a_merchant, settings_with, staff_in_browser
from tests.support.database import own_database
from tests.support.mailed import letters_to, mailed_link, plain_text_of
from tests.support.pages import serving
from tests.support.wallet import SEAL

TEAM = "/plataforma/equipe"
FRESH = "uma senha bem nova"
KEY: dict[str, Any] = {"pix_key": "11144477735", "document": "11144477735"}
WAITS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%dashboard_user%'
"""
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Environment(NamedTuple):
    pool: Pool
    clock: Clock
    settings: Settings
    address: str
    admin: Person

    async def words(self, email: str) -> str:
        letters = await letters_to(self.pool, self.settings, email, now=self.clock.now())
        return " ".join(" ".join(f"{each['Subject']} {plain_text_of(each)}" for each in letters).split())

    async def expect_letter(self, *said: str) -> None:
        """Assert that the newest letter to the admin contains all of these texts."""
        letters = await letters_to(self.pool, self.settings, self.admin.email, now=self.clock.now())
        words = " ".join(f"{letters[-1]['Subject']} {plain_text_of(letters[-1])}".split())
        for each in said:
            assert each in words, (each, words)

    async def row(self, email: str) -> Any:
        return await self.pool.fetchrow("SELECT * FROM dashboard_user WHERE email = $1", email)

    async def invite(self, email: str, role: str) -> Person:
        """Invite a person as the admin; return the person, signed in."""
        made = await self.admin.post(TEAM, on=TEAM, name="Ana Lima", email=email.upper(), role=role)
        assert made.where == f"{TEAM}?feito=convite", made.text[:400]
        person = Person(self.address, email, FRESH, "/plataforma")
        link = await mailed_link(self.pool, self.settings, email, now=self.clock.now())
        assert (await person.post(link, on=link, new=FRESH, again=FRESH)).status == 303
        assert (await person.sign_in()).status == 303
        return person


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool) -> AsyncIterator[Environment]:
    settings, clock = settings_with(STAFF_TOTP_REQUIRED="0"), Clock()
    # Staff left by other tests are deleted, so that there are fewer admins than the most that are mailed.
    await pool.execute("DELETE FROM dashboard_user WHERE account_id IS NULL")
    async with serving(pool, clock.now, settings) as address, staff_in_browser(pool, address) as admin:
        yield Environment(pool, clock, settings, address, admin)


def an_email() -> str:
    return f"ana.{secrets.token_hex(4)}@example.com"


async def log_of(env: Environment, email: str) -> list[tuple[str, str]]:
    rows = await env.pool.fetch("SELECT action, email FROM audit WHERE subject = $1 ORDER BY number", email)
    return [(row["action"], row["email"]) for row in rows]


async def test_an_invited_member_of_staff_chooses_a_password_and_gets_the_access_of_the_role(env: Environment) -> None:
    email = an_email()
    ana = await env.invite(email, "finance")
    try:
        page = await env.admin.opened(TEAM)
        assert f"Ana Lima {email} Financeiro" in page.text
        assert (await ana.get("/plataforma/devolucoes")).status == 200
        refused = await ana.get(TEAM)
        assert (refused.status, "Quem administra a equipe pode mudá-lo" in refused.text) == (403, True)
        menu = (await ana.opened("/plataforma")).html
        assert 'href="/plataforma/parceiros"' in menu
        assert f'href="{TEAM}"' not in menu
    finally:
        await ana.http.close()
    said = await env.words(email)
    for each in ("Seu acesso à plataforma da Quita", "Olá, Ana Lima", "Financeiro", "quem administra a equipe"):
        assert each in said, each
    assert "Esqueceu a senha" not in said
    told = await env.words(env.admin.email)
    for each in ("Uma pessoa foi convidada para a equipe", "Uma pessoa nova entra na equipe", email, "127.0.0.1"):
        assert each in told, each
    assert await log_of(env, email) == [("staff.invited", env.admin.email)]


async def test_a_changed_role_takes_effect_with_the_next_page(env: Environment) -> None:
    ana = await env.invite(an_email(), "support")
    try:
        assert (await ana.get("/plataforma/devolucoes")).status == 403
        changed = await env.admin.post(f"{TEAM}/perfil", on=TEAM, email=ana.email, role="finance")
        assert changed.where == f"{TEAM}?feito=perfil"
        await env.expect_letter("O perfil de uma pessoa da equipe mudou", ana.email, "Financeiro", env.admin.email)
        assert (await ana.get("/plataforma/devolucoes")).status == 200
        assert (await env.admin.post(f"{TEAM}/perfil", on=TEAM, email=ana.email, role="support")).status == 303
        assert (await ana.get("/plataforma/devolucoes")).status == 403
    finally:
        await ana.http.close()


async def test_a_removed_member_of_staff_loses_access_with_the_next_page(env: Environment) -> None:
    ana = await env.invite(an_email(), "admin")
    try:
        unsure = await env.admin.post(f"{TEAM}/remover", on=TEAM, email=ana.email)
        assert (unsure.status, "Confirme que quer remover" in unsure.text) == (400, True)
        gone = await env.admin.post(f"{TEAM}/remover", on=TEAM, email=ana.email, sure="yes")
        assert gone.where == f"{TEAM}?feito=pessoa-removida"
        assert (await ana.get("/plataforma")).status == 303
        assert (await ana.sign_in()).status == 403
    finally:
        await ana.http.close()
    await env.expect_letter("Uma pessoa saiu da equipe", ana.email)
    # A removed admin is mailed as well.
    assert "Uma pessoa saiu da equipe" in await env.words(ana.email)
    assert [action for action, _ in await log_of(env, ana.email)] == ["staff.invited", "staff.removed"]


async def test_an_admin_restores_access_by_mail_after_a_lost_password_and_telephone(env: Environment) -> None:
    ana = await env.invite(an_email(), "operations")
    try:
        await env.pool.execute("UPDATE dashboard_user SET totp_sealed = 'x' WHERE email = $1", ana.email)
        own = await env.admin.post(f"{TEAM}/acesso", on=TEAM, email=env.admin.email, sure="yes", factor="yes")
        assert (own.status, "O seu próprio acesso" in own.text) == (400, True)
        sent = await env.admin.post(f"{TEAM}/acesso", on=TEAM, email=ana.email, sure="yes")
        assert sent.where == f"{TEAM}?feito=link-enviado"
        assert (await env.row(ana.email))["totp_sealed"] is not None
        await env.expect_letter("Um link de acesso foi enviado a uma pessoa da equipe", ana.email)
        sent = await env.admin.post(f"{TEAM}/acesso", on=TEAM, email=ana.email, sure="yes", factor="yes")
        assert sent.status == 303
        assert (await env.row(ana.email))["totp_sealed"] is None
        assert (await ana.get("/plataforma")).status == 303, "clearing the factor ends all sessions"
        await env.expect_letter("Os dois fatores de uma pessoa da equipe foram desligados", ana.email)
        again = await mailed_link(env.pool, env.settings, ana.email, now=env.clock.now())
        assert (await ana.post(again, on=again, new="outra senha nova", again="outra senha nova")).status == 303
        assert (await ana.sign_in("outra senha nova")).status == 303
    finally:
        await ana.http.close()


async def test_every_form_of_the_team_asks_for_the_password_again(env: Environment) -> None:
    email, other = an_email(), an_email()
    async with transaction(env.pool) as conn:
        await add_staff(conn, other, "x", role="support", now=NOW)
    env.clock.on(timedelta(minutes=6))
    sent: tuple[tuple[str, dict[str, Any]], ...] = (
        (TEAM, {"name": "Ana", "email": email, "role": "admin"}),
        (f"{TEAM}/perfil", {"email": other, "role": "admin"}),
        (f"{TEAM}/acesso", {"email": other, "sure": "yes"}),
        (f"{TEAM}/remover", {"email": other, "sure": "yes"}),
    )
    for path, fields in sent:
        seen = await env.admin.post(path, on=TEAM, **fields)
        # The page says whom the form is about, because another person may have filled it in.
        assert (seen.status, f"E-mail {fields['email']}" in seen.text) == (403, True), path
    assert await env.row(email) is None
    assert (await env.row(other))["role"] == "support"
    done = await env.admin.post(
        f"{TEAM}/perfil", on=TEAM, email=other, role="finance", step_up_password=env.admin.password
    )
    assert done.status == 303


async def test_the_step_up_page_says_what_is_confirmed(env: Environment) -> None:
    merchant, key = await a_merchant(env.pool), KEY["pix_key"]
    page, partners = f"/plataforma/lojas/{merchant.account_id}", "/plataforma/parceiros"
    async with transaction(env.pool) as conn:
        partner = await create_integrator(conn, name="Parceira", account_id=None, now=NOW)
        await propose_share(conn, partner.integrador_code, 3_000, by="bia@example.com", now=NOW)
        await ask_payout_key(
            conn, merchant.account_id, PayoutKey(key, key), by="bia@example.com", by_staff=True, now=env.clock.now()
        )
    code = partner.integrador_code
    env.clock.on(timedelta(minutes=6))
    sent: tuple[tuple[str, str, dict[str, Any], str], ...] = (
        (f"{page}/chave", page, KEY, f"Chave nova {key}"),
        (f"{page}/chave/confirmar", page, {"change_id": str(new_id())}, "Chave nova ***.444.777-**"),
        (f"{page}/acesso", page, {"email": "ana@example.com", "factor": "yes"}, "Dois fatores serão desligados"),
        (f"{page}/pagador/arquivo", f"{page}/pagador", {"document": key}, f"Documento {key}"),
        (f"{page}/pagador/apagar", f"{page}/pagador", {"document": key}, f"Documento {key}"),
        ("/plataforma/lojas/nova", "/plataforma/lojas/nova", {"payout_key": key}, f"Chave dos saques {key}"),
        (partners, partners, {"name": "Outra", "share": "30,5"}, "Participação (%) 30,5"),
        (f"{partners}/{code}", partners, {"share": "31"}, f"Código {code} Participação (%) 31"),
        (f"{partners}/{code}/confirmar", partners, {"proposal_id": str(new_id())}, "Participação (%) 30,00 Proposta"),
    )
    for path, on, fields, said in sent:
        seen = await env.admin.post(path, on=on, **fields)
        assert (seen.status, said in seen.text) == (403, True), (path, seen.text[-600:])


async def test_an_invalid_invitation_is_refused_beside_its_field(env: Environment) -> None:
    taken = (await a_merchant(env.pool)).dashboard.email
    good: dict[str, Any] = {"name": "Ana", "email": "livre@example.com", "role": "support"}
    for field, value in (
        ("email", ""), ("email", "ana"), ("email", taken), ("email", env.admin.email), ("role", "owner"), ("role", ""),
        ("name", ""), ("name", "x" * 101), ("name", "veja golpe.example"),
    ):  # fmt: skip
        seen = await env.admin.post(TEAM, on=TEAM, **{**good, field: value})
        assert (seen.status, f'id="w-{field}"' in seen.html) == (400, True), (field, value)
    assert await env.row("livre@example.com") is None
    for path in ("perfil", "acesso", "remover"):
        for nobody in ("ninguem@example.com", taken):
            seen = await env.admin.post(f"{TEAM}/{path}", on=TEAM, email=nobody, role="support", sure="yes")
            assert seen.status == 404, (path, nobody)


async def test_the_last_admin_with_a_password_can_be_neither_removed_nor_demoted(env: Environment) -> None:
    fresh = an_email()
    assert (await env.admin.post(TEAM, on=TEAM, name="Ana", email=fresh, role="admin")).status == 303
    for path in ("remover", "perfil"):
        seen = await env.admin.post(f"{TEAM}/{path}", on=TEAM, email=env.admin.email, role="support", sure="yes")
        assert (seen.status, "já com senha, precisa ficar" in seen.text) == (400, True), path
    assert (await env.row(env.admin.email))["role"] == "admin"
    # An admin without a password may be removed; with a second admin who has one, the first may step down.
    assert (await env.admin.post(f"{TEAM}/remover", on=TEAM, email=fresh, sure="yes")).status == 303
    ana = await env.invite(an_email(), "admin")
    try:
        left = await env.admin.post(f"{TEAM}/perfil", on=TEAM, email=env.admin.email, role="support")
        assert left.where == "/plataforma?feito=perfil"
        # A demoted admin is mailed as well.
        await env.expect_letter("O perfil de uma pessoa da equipe mudou", env.admin.email, "Atendimento")
        assert (await env.admin.get(TEAM)).status == 403
    finally:
        await ana.http.close()


async def test_of_two_admins_who_remove_each_other_one_stays(servers: Any) -> None:
    async with own_database(servers, "staff") as url:
        pool = await open_pool(url, name="staff", size=4)
        try:
            async with transaction(pool) as conn:
                for each in ("ana", "bia"):
                    await add_staff(conn, f"{each}@example.com", "x", role="admin", now=NOW)

            async def remove(email: str) -> bool | str:
                try:
                    async with transaction(pool) as conn:
                        return await remove_staff(conn, email)
                except Refused as refused:
                    return next(iter(refused.fields or {}))

            async with transaction(pool) as conn:
                assert await remove_staff(conn, "ana@example.com")
                other = asyncio.create_task(remove("bia@example.com"))
                async with asyncio.timeout(30):
                    while not other.done() and not await pool.fetchval(WAITS):  # noqa: ASYNC110 - nobody is told
                        await asyncio.sleep(0.01)
            assert await other == "role"
            assert await pool.fetchval("SELECT count(*) FROM dashboard_user WHERE role = 'admin'") == 1
            # The operator, who may have to be quick, need not wait until the new admin has chosen a password.
            (last,) = [row[0] for row in await pool.fetch("SELECT email FROM dashboard_user")]
            async with transaction(pool) as conn:
                with pytest.raises(Refused):
                    await expel_staff(conn, last)
                await add_staff(conn, "caio@example.com", None, role="admin", now=NOW)
                assert await expel_staff(conn, last)
        finally:
            await pool.close()


async def test_roles_of_merchants_and_roles_of_staff_give_no_access_to_the_other_side(env: Environment) -> None:
    """Roles with the same name open nothing of the other side, whatever a query finds."""
    async with AsyncExitStack() as opened:
        for role in ROLES:
            person = await opened.enter_async_context(staff_in_browser(env.pool, env.address, role=role))
            person.http.cookie_jar.update_cookies({"painel": person.cookie()})
            assert (await person.get("/painel")).where.startswith("/painel/entrar"), role
    merchant = await a_merchant(env.pool)
    for role in ("admin", "operations"):
        with pytest.raises(Exception, match="dashboard_user_role_check"):
            await env.pool.execute(
                "UPDATE dashboard_user SET role = $2 WHERE email = $1", merchant.dashboard.email, role
            )
    for role in ("owner", "developer", "staff"):
        with pytest.raises(Exception, match="dashboard_user_role_check"):
            await env.pool.execute("UPDATE dashboard_user SET role = $2 WHERE email = $1", env.admin.email, role)


# Decisions that need two members of staff


async def propose_high_share(person: Person, name: str) -> Seen:
    return await person.post("/plataforma/parceiros", on="/plataforma/parceiros", name=name, share="30,00")


async def test_a_newcomer_is_neither_of_the_two_members_of_staff_that_a_decision_needs(env: Environment) -> None:
    """Not even the first: otherwise an admin could confirm what the admin's own second account proposes."""
    name = f"Parceira {secrets.token_hex(4)}"
    ana = await env.invite(an_email(), "admin")
    account = (await a_merchant(env.pool)).account_id
    page = f"/plataforma/lojas/{account}"
    try:
        for seen in (await propose_high_share(ana, name), await ana.post(f"{page}/chave", on=page, **KEY)):
            assert (seen.status, "o seu perfil é novo" in seen.text) == (403, True)
        assert (await env.admin.post(f"{page}/chave", on=page, **KEY)).status == 303
        change = await env.pool.fetchval("SELECT change_id FROM payout_change WHERE account_id = $1", account)
        seen = await ana.post(f"{page}/chave/confirmar", on=page, change_id=str(change))
        assert (seen.status, "o seu perfil é novo" in seen.text) == (403, True)
        await env.pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", account)
        money = f"/plataforma/a-identificar/{new_id()}/atribuir"
        for seen in (await ana.post(f"{page}/cadastro", on=page, kyc="approved"), await ana.post(money, on=page)):
            assert (seen.status, "o seu perfil é novo" in seen.text) == (403, True)
        # Actions that need one member of staff are open to a newcomer.
        assert (await ana.post(f"{page}/observacoes", on=page, note="ligou hoje")).status == 303
        env.clock.on(NEWCOMER)
        await ana.sign_in()
        done = await ana.post(f"{page}/chave/confirmar", on=page, change_id=str(change))
        assert done.where == f"{page}?feito=chave-confirmada", done.text[:300]
        assert (await propose_high_share(ana, name)).where.endswith("feito=parceiro-proposto")
        # Another role begins the newcomer's day anew; the same role given again does not.
        await env.admin.sign_in()
        await env.admin.post(f"{TEAM}/perfil", on=TEAM, email=ana.email, role="admin")
        assert (await propose_high_share(ana, f"{name} 2")).status == 303
        await env.admin.post(f"{TEAM}/perfil", on=TEAM, email=ana.email, role="finance")
        assert (await propose_high_share(ana, f"{name} 3")).status == 403
    finally:
        await ana.http.close()


async def test_the_second_member_of_staff_needs_a_role_that_may_decide(env: Environment) -> None:
    account = (await a_merchant(env.pool)).account_id
    page = f"/plataforma/lojas/{account}"
    assert (await env.admin.post(f"{page}/chave", on=page, **KEY)).status == 303
    change = await env.pool.fetchval("SELECT change_id FROM payout_change WHERE account_id = $1", account)
    for role, status in (("support", 403), ("operations", 403), ("finance", 303)):
        async with staff_in_browser(env.pool, env.address, role=role) as second:
            seen = await second.post(f"{page}/chave/confirmar", on=page, change_id=str(change))
            assert seen.status == status, role


async def test_all_admins_and_no_other_staff_are_mailed_about_an_invitation(env: Environment) -> None:
    async with AsyncExitStack() as opened:
        others = [
            await opened.enter_async_context(staff_in_browser(env.pool, env.address, role=role)) for role in ROLES
        ]
        email = an_email()
        await env.admin.post(TEAM, on=TEAM, name="Ana", email=email, role="support")
        told = {each.email: "foi convidada para a equipe" in await env.words(each.email) for each in others}
        assert told == {each.email: role == "admin" for each, role in zip(others, ROLES, strict=True)}


async def test_admins_are_mailed_however_many_they_are(pool: Pool) -> None:
    async with pool.acquire() as conn:
        adding = conn.transaction()
        await adding.start()
        for _ in range(60):
            await add_staff(conn, an_email(), None, role="admin", now=NOW)
        admins = await conn.fetchval("SELECT count(*) FROM dashboard_user WHERE account_id IS NULL AND role = 'admin'")
        await conn.execute("DELETE FROM mail")
        await mail_admins(conn, "staff.invited", {"person": an_email()}, now=NOW, seal=SEAL)
        assert await conn.fetchval("SELECT count(*) FROM mail") == admins
        await adding.rollback()


async def test_a_role_given_by_the_operator_makes_no_newcomer(pool: Pool) -> None:
    email = an_email()
    async with transaction(pool) as conn:
        await add_staff(conn, email, hash_password("uma senha qualquer"), role="finance", now=NOW)
        assert await change_staff_role(conn, email, "admin")
    found = await pool.fetchrow("SELECT role, role_given_at FROM dashboard_user WHERE email = $1", email)
    assert tuple(found or ()) == ("admin", None)
