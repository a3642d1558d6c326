"""A merchant's registration: staff create it, its owner completes it, staff approve it, and each sees its state."""

import secrets
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest_asyncio

from runtime.postgres import Pool
from runtime.settings import Settings
from tests.support.dashboard import (
    Clock,
    Person,
    a_merchant,
    colleague_in_browser,
    owner_in_browser,
    settings_with,
    staff_in_browser,
)
from tests.support.mailed import letters_to, mailed_link, plain_text_of
from tests.support.pages import serving

NEW = "/plataforma/lojas/nova"
FRESH = "uma senha bem nova"
FORM: dict[str, Any] = {
    "name": "Padaria Aurora Ltda", "document": "11.444.777/0001-61", "payout_key": "financeiro@aurora.example",
    "street": "Rua das Flores", "number": "10", "district": "Centro", "city": "Olinda", "state": "PE",
    "zip_code": "53010-000",
}  # fmt: skip
ADDRESS: dict[str, Any] = {name: FORM[name] for name in ("street", "number", "district", "city", "state", "zip_code")}


class Environment(NamedTuple):
    pool: Pool
    clock: Clock
    settings: Settings
    address: str
    staff: Person

    async def register(self, **more: str) -> tuple[str, str]:
        """Register a merchant; return its account_id and its owner's e-mail."""
        email = f"dona.{secrets.token_hex(4)}@example.com"
        made = await self.staff.post(NEW, on=NEW, email=email.upper(), **{**FORM, **more})
        assert made.status == 303, made.text[:500]
        return made.where.split("?")[0].rsplit("/", 1)[1], email


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool) -> AsyncIterator[Environment]:
    clock, settings = Clock(), settings_with(STAFF_TOTP_REQUIRED="0", SUPPORT_CONTACT="ajuda@quita.example")
    async with serving(pool, clock.now, settings) as address, staff_in_browser(pool, address) as staff:
        yield Environment(pool, clock, settings, address, staff)


async def test_a_merchant_is_registered_signs_in_and_is_approved(env: Environment) -> None:
    account_id, email = await env.register()
    page = f"/plataforma/lojas/{account_id}"
    shown = (await env.staff.opened(page)).text
    for said in ("Em análise", "11.444.777/0001-61", "Rua das Flores, 10", "CEP 53010-000", "Um proprietário que já"):
        assert said in shown, said
    owner = Person(env.address, email, FRESH)
    try:
        link = await mailed_link(env.pool, env.settings, email, now=env.clock.now())
        assert (await owner.post(link, on=link, new=FRESH, again=FRESH, name="Veja https://x")).status == 400
        assert (await owner.post(link, on=link, new=FRESH, again=FRESH, name=" Dona  Aurora ")).status == 303
        assert (await owner.sign_in()).status == 303
        assert f"Dona Aurora {email}" in (await owner.opened("/painel/pessoas")).text
        company = await owner.opened("/painel/empresa")
        for said in (
            "Em análise", "Padaria Aurora Ltda", "11.444.777/0001-61", "Rua das Flores, 10", "Olinda/PE", account_id,
            "Nada da sua parte", "ajuda@quita.example", "1.000 por segundo",
        ):  # fmt: skip
            assert said in company.text, said
        # The payout key is not shown whole.
        assert "financeiro@aurora.example" not in company.html
        assert "Um proprietário que já" not in (await env.staff.opened(page)).text
        assert "nenhuma" in (await owner.opened("/painel/tokens")).text.lower()
        decided = await env.staff.post(f"{page}/cadastro", on=page, kyc="approved")
        assert decided.status == 303
        company = await owner.opened("/painel/empresa")
        assert "Nada: o cadastro está completo e aprovado." in company.text
        assert 'action="/painel/empresa/endereco"' not in company.html
        log = await env.staff.audit_log()
        assert f"Cadastrou uma loja {account_id} CNPJ: 11444777000161 nome: Padaria Aurora Ltda" in log
    finally:
        await owner.http.close()


async def test_an_invalid_registration_is_refused_beside_its_field_and_keeps_the_typed_values(env: Environment) -> None:
    taken = (await a_merchant(env.pool)).dashboard.email
    for field, value in (
        ("document", "11.444.777/0001-62"), ("document", "390.533.447-05"), ("name", ""), ("payout_key", "x"),
        ("street", ""), ("number", ""), ("district", ""), ("city", ""), ("state", ""), ("zip_code", "123"),
        ("email", "x"), ("email", taken),
    ):  # fmt: skip
        given = {**FORM, "email": "livre@example.com", field: value}
        seen = await env.staff.post(NEW, on=NEW, **given)
        assert seen.status == 400, field
        assert f'id="w-{field}"' in seen.html, field
        for name, typed in given.items():
            assert f'name="{name}"' in seen.html
            assert name == "state" or f'value="{typed}"' in seen.html, name
    assert await env.pool.fetchval("SELECT count(*) FROM dashboard_user WHERE email = 'livre@example.com'") == 0


async def test_an_incomplete_registration_is_not_approved_and_the_page_names_what_is_missing(env: Environment) -> None:
    account_id, _ = await env.register()
    page = f"/plataforma/lojas/{account_id}"
    await env.pool.execute("UPDATE account SET address = NULL WHERE account_id = $1::text::uuid", account_id)
    decided = await env.staff.post(f"{page}/cadastro", on=page, kyc="approved")
    assert decided.status == 400
    assert "Falta para aprovar: Endereço completo" in decided.text
    changed: dict[str, Any] = {**ADDRESS, "name": "Padaria Aurora Ltda", "document": "11.444.777/0001-61"}
    assert (await env.staff.post(f"{page}/dados", on=f"{page}/dados", **changed)).status == 303
    assert (await env.staff.post(f"{page}/cadastro", on=page, kyc="approved")).status == 303


async def test_a_registration_can_be_corrected_until_approval_and_then_only_its_address(env: Environment) -> None:
    account_id, _ = await env.register()
    page, edit = f"/plataforma/lojas/{account_id}", f"/plataforma/lojas/{account_id}/dados"
    assert 'value="Padaria Aurora Ltda"' in (await env.staff.opened(edit)).html
    changed: dict[str, Any] = {**ADDRESS, "name": "Padaria Alba", "document": "16.727.230/0001-97", "city": "Recife"}
    assert (await env.staff.post(edit, on=edit, **{**changed, "document": "1"})).status == 400
    assert (await env.staff.post(edit, on=edit, **changed)).where == f"{page}?feito=dados"
    shown = (await env.staff.opened(page)).text
    assert "Corrigiu um cadastro CNPJ: 16727230000197 nome: Padaria Alba" in shown
    assert "Recife/PE" in shown
    await env.staff.post(f"{page}/cadastro", on=page, kyc="approved")
    changed |= {"name": "Outra", "number": "99"}
    assert (await env.staff.post(edit, on=edit, **changed)).status == 303
    shown = (await env.staff.opened(page)).text
    assert "Padaria Alba" in shown
    assert "Rua das Flores, 99" in shown
    await env.staff.post(f"{page}/cadastro", on=page, kyc="blocked", reason="suspeita de fraude")
    assert (await env.staff.post(edit, on=edit, **{**changed, "number": "100"})).status == 303
    shown = (await env.staff.opened(page)).text
    assert ("Padaria Alba" in shown, "Rua das Flores, 100" in shown) == (True, True)


async def test_rate_limits_of_an_account_can_be_set_and_reset(env: Environment) -> None:
    account_id, _ = await env.register()
    page = f"/plataforma/lojas/{account_id}"
    row = "SELECT rate_per_s, rate_burst FROM account WHERE account_id = $1"
    for odd in ("0", "-1", "x", "1000001"):
        refused = await env.staff.post(f"{page}/limites", on=page, per_second=odd, burst="80")
        assert refused.status == 400, odd
        assert "Informe um número inteiro de 1 a 1.000.000." in refused.text
        assert [f'name="{name}" type="text" value="{typed}"' in refused.html
                for name, typed in (("per_second", odd), ("burst", "80"))] == [True, True], odd  # fmt: skip
    assert (await env.staff.post(f"{page}/limites", on=page, per_second="50", burst="80")).status == 303
    assert tuple(await env.pool.fetchrow(row, account_id) or ()) == (50, 80)
    assert "Mudou os limites de uma loja" in (await env.staff.opened(page)).text
    assert (await env.staff.post(f"{page}/limites", on=page, per_second="", burst="")).status == 303
    assert tuple(await env.pool.fetchrow(row, account_id) or ()) == (None, None)


async def test_staff_send_an_owner_an_access_link_and_need_a_reason_to_clear_a_lost_factor(env: Environment) -> None:
    merchant = await a_merchant(env.pool)
    email, page = merchant.dashboard.email, f"/plataforma/lojas/{merchant.account_id}"
    await env.pool.execute("UPDATE dashboard_user SET totp_sealed = 'x', totp_since = now() WHERE email = $1", email)
    kept = "SELECT totp_sealed IS NOT NULL FROM dashboard_user WHERE email = $1"
    for nobody in ("nobody@example.com", (await a_merchant(env.pool)).dashboard.email, env.staff.email):
        assert (await env.staff.post(f"{page}/acesso", on=page, email=nobody)).status == 404
    sent = await env.staff.post(f"{page}/acesso", on=page, email=email)
    assert sent.where == f"{page}?feito=link-enviado"
    assert await env.pool.fetchval(kept, email)
    assert (await env.staff.post(f"{page}/acesso", on=page, email=email, factor="yes", reason=" ")).status == 400
    assert await env.pool.fetchval(kept, email)
    done = await env.staff.post(f"{page}/acesso", on=page, email=email, factor="yes", reason="telefone roubado")
    assert done.status == 303
    assert not await env.pool.fetchval(kept, email)
    assert "telefone roubado" in (await env.staff.opened(page)).text
    letters = await letters_to(env.pool, env.settings, email, now=env.clock.now())
    said = " ".join(" ".join(plain_text_of(each) for each in letters).split())
    assert "Motivo: telefone roubado" in said
    assert env.staff.email not in said


async def test_the_first_page_says_what_works_in_each_state_of_the_registration(env: Environment) -> None:
    merchant = await a_merchant(env.pool, kyc="pending")
    async with owner_in_browser(env.address, merchant) as owner:
        first = (await owner.opened("/painel")).text
        assert "Cadastro em análise." in first
        assert "O ambiente de teste funciona por inteiro." in first
        await env.pool.execute("UPDATE account SET address = NULL WHERE account_id = $1", merchant.account_id)
        first = (await owner.opened("/painel")).text
        assert "por inteiro" not in first
        assert "sem ele não há boletos, nem no teste. No teste, todo o resto funciona." in first
        company = await owner.opened("/painel/empresa")
        assert '<a href="#address">Endereço completo' in company.html, "the notice links to its form"
        async with colleague_in_browser(env.pool, env.address, merchant, "finance") as finance:
            assert 'action="/painel/empresa/endereco"' not in (await finance.opened("/painel/empresa")).html
            assert (await finance.post("/painel/empresa/endereco", on="/painel/empresa", **ADDRESS)).status == 403
        path = "/painel/empresa/endereco"
        refused = await owner.post(path, on="/painel/empresa", **{**ADDRESS, "zip_code": "1"})
        assert (refused.status, 'id="w-zip_code"' in refused.html) == (400, True)
        assert (await owner.post(path, on="/painel/empresa", **ADDRESS)).status == 303
        assert "O ambiente de teste funciona por inteiro." in (await owner.opened("/painel")).text
        for kyc, said in (("rejected", "Cadastro recusado: falta um papel."), ("blocked", "Cadastro bloqueado.")):
            await env.pool.execute(
                "UPDATE account SET kyc = $2, kyc_reason = 'falta um papel' WHERE account_id = $1",
                merchant.account_id, kyc,
            )  # fmt: skip
            first = (await owner.opened("/painel")).text
            assert said in first
            # The merchant sees the reason of a rejection, and not the reason of a block.
            assert ("falta um papel" in first) == (kyc == "rejected")
        await env.pool.execute("UPDATE account SET kyc = 'approved' WHERE account_id = $1", merchant.account_id)
        assert 'class="notice"' not in (await owner.opened("/painel")).html
        assert (await owner.post(path, on="/painel/empresa", **ADDRESS)).status == 404
