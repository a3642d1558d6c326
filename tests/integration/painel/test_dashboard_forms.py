"""The dashboard's forms for charges, refunds, schedules and mails: each acts once, and each refusal is explained.

Only the web application runs, with PostgreSQL and no Redis; test_dashboard_system.py tests boletos and their bank.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import msgspec
import pytest
import pytest_asyncio

from commands.bank_orders.pix_locations import add_to_pool
from commands.merchants.merchants import MerchantCreated
from commands.money.refund_end import Ending, end_refunds
from domain.brazilian import brl
from domain.instants import SAO_PAULO
from domain.mode import Mode, Owner
from readmodels.charges.charge import ChargeDoc, charges_by_id
from runtime.postgres import Pool, open_pool, transaction
from runtime.seal import CHARGE_PAYER, Seal
from tests.conftest import Servers
from tests.support.banking import BANK, new_locations
from tests.support.dashboard import (
    Books,
    Person,
    Seen,
    a_merchant,
    colleague_in_browser,
    owner_in_browser,
    settings_with,
)
from tests.support.orders import including_ended_orders
from tests.support.pages import serving
from web.painel.table import TABLE

SETTINGS = settings_with()
SEAL = Seal(SETTINGS.secret_key)
NEW, NEW_BOLETO = "/painel/cobrancas/nova", "/painel/cobrancas/nova?forma=boleto"
NEW_SCHEDULE = "/painel/programacoes/nova"
PIX: dict[str, Any] = {"forma": "pix", "amount": "12,34", "lifetime": "3600"}
PAYER: dict[str, Any] = {
    "payer_name": "João d'Ávila",
    "payer_document": "529.982.247-25",
    "zip_code": "01310-100",
    "street": "Avenida Paulista",
    "number": "1578",
    "city": "São Paulo",
    "state": "SP",
}


def in_days(days: int) -> str:
    return (datetime.now(UTC).astimezone(SAO_PAULO).date() + timedelta(days=days)).isoformat()


BOLETO: dict[str, Any] = {"forma": "boleto", "kind": "boleto", "amount": "150", "due_date": in_days(10), **PAYER}
SCHEDULE: dict[str, Any] = {
    "forma": "pix",
    "amount": "99,90",
    "frequency": "monthly",
    "first_due_date": in_days(20),
    "issue_days_before": "5",
    "max_charges": "12",
    "external_id": "assinatura-5",
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with pool.acquire() as conn:
        for test in (True, False):
            await add_to_pool(conn, Mode.of(test), BANK, new_locations(40))
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


class Environment(NamedTuple):
    merchant: MerchantCreated
    books: Books
    owner: Person

    async def charge(self, charge_id: str, *, test: bool = False) -> ChargeDoc:
        async with self.books.pool.acquire() as conn:
            (doc,) = await charges_by_id(conn, [(UUID(charge_id), Owner.of(self.merchant.account_id, test))])
        assert doc is not None
        return doc

    async def rows_of(self, table: str) -> int:
        found: int = await self.books.pool.fetchval(
            f"SELECT count(*) FROM {table} WHERE account_id = $1",  # noqa: S608
            self.merchant.account_id,
        )
        return found


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, address: str) -> AsyncIterator[Environment]:
    merchant = await a_merchant(pool)
    async with owner_in_browser(address, merchant) as owner:
        yield Environment(merchant, Books(pool, merchant.account_id, SEAL), owner)


def id_in(where: str) -> str:
    found = re.search(r"/(?:cobrancas|programacoes)/([0-9a-f-]{36})", where)
    assert found, where
    return found[1]


def faults(seen: Seen) -> dict[str, str]:
    """The message beside each faulty field."""
    return dict(re.findall(r'class="fault" id="w-([a-z_]+)" role="alert">([^<]*)<', seen.html))


@pytest.mark.parametrize(
    "came_from", ["{charge}", "{charge}/cancelar", "{charge}?feito=criada#x", "//evil.example/x", ""]
)
async def test_a_cancellation_refused_with_409_links_back_to_the_page_it_was_sent_from(
    env: Environment, came_from: str
) -> None:
    """From the first page the user would have to search for the charge again."""
    charge = f"/painel/cobrancas/{(await env.books.charge()).charge_id}"
    form = await env.owner.opened(charge)
    fields = {**form.hidden(), "reason": "cancelled", "sure": "yes"}
    assert (await env.owner.ask("POST", f"{charge}/cancelar", data=fields)).status == 303
    headers = {"Referer": env.owner.address + came_from.format(charge=charge)}
    for once in (fields["once"], str(uuid4())):  # the same form again, and a new form for a charge cancelled meanwhile
        told = await env.owner.ask("POST", f"{charge}/cancelar", data=fields | {"once": once}, headers=headers)
        assert told.status == 409
        assert "Voltar" in told.text
        back = charge if came_from.startswith("{charge}") else "/painel"
        assert f'<a class="small-button" href="{back}">Voltar</a>' in told.html


# New charges


@pytest.mark.parametrize("base", ["/painel", "/painel/teste"])
async def test_a_charge_created_in_the_dashboard_is_stored_and_registered_like_one_of_the_api(
    env: Environment, base: str
) -> None:
    test = base.endswith("teste")
    page = f"{base}/cobrancas/nova"
    told: dict[str, Any] = {"payer_name": "João", "payer_document": "529.982.247-25", "payer_email": "joao@example.com"}
    done = await env.owner.post(
        page, on=page, **{**PIX, "amount": "1.234,56"}, external_id="pedido-1", description="Bolo", **told
    )
    assert done.status == 303, done.text[:400]
    doc = await env.charge(id_in(done.where), test=test)
    assert (doc.amount_cents, doc.external_id, doc.description, doc.status) == (1_234_56, "pedido-1", "Bolo", "pending")
    assert doc.expires_at is not None
    lived = datetime.fromisoformat(doc.expires_at) - datetime.fromisoformat(doc.created_at)
    assert lived == timedelta(hours=1)
    by_document = "SELECT payer_document_hash FROM read_charge WHERE charge_id = $1"
    assert await env.books.pool.fetchval(by_document, UUID(doc.charge_id)) == SEAL.blind("52998224725")
    assert "5303986540" in (doc.qr_code or "")
    # In production a bank order waits for the worker; in test mode the simulated bank has the cob already.
    kinds = await env.books.pool.fetch(
        including_ended_orders("SELECT kind FROM bank_order WHERE charge_id = $1"), UUID(doc.charge_id)
    )
    at_bank = "SELECT count(*) FROM simulated_cob WHERE world = 'sandbox' AND status = 'ATIVA' AND txid = $1"
    assert [row["kind"] for row in kinds] == ([] if test else ["cob_register"])
    assert await env.books.pool.fetchval(at_bank, doc.txid) == int(test)
    assert "Cobrança criada." in (await env.owner.opened(done.where)).text


async def test_a_form_sent_eight_times_creates_one_charge_and_leads_to_it_each_time(env: Environment) -> None:
    form = await env.owner.opened(NEW)
    sent = await asyncio.gather(*(env.owner.post(NEW, form=form, **PIX) for _ in range(8)))
    assert {each.status for each in sent} == {303}
    assert len({each.where for each in sent}) == 1
    assert await env.rows_of("charge") == 1


@pytest.mark.parametrize(
    ("page", "fields", "table"),
    [(NEW, PIX, "charge"), (NEW_SCHEDULE, SCHEDULE, "schedule")],
    ids=["charge", "schedule"],
)
async def test_a_form_changed_after_it_was_sent_is_shown_again_and_not_reported_as_done(
    env: Environment, page: str, fields: dict[str, Any], table: str
) -> None:
    """A browser's back button may restore a sent form, which the user then changes: the form's key is the same."""
    form = await env.owner.opened(page)
    first = await env.owner.post(page, form=form, **fields)
    changed = await env.owner.post(page, form=form, **{**fields, "amount": "99", "external_id": "outra"})
    assert (changed.status, await env.rows_of(table)) == (400, 1), changed.where
    assert "O que ele pedia antes está feito; o que está abaixo ainda não." in changed.text
    assert 'value="99"' in changed.html
    assert 'value="outra"' in changed.html
    second = await env.owner.post(page, form=changed, **{**fields, "amount": "99", "external_id": "outra"})
    assert second.status == 303
    assert second.where != first.where
    assert await env.rows_of(table) == 2


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("amount", "", "Preencha este campo."),
        ("amount", "10.50", "Informe um valor como 10,50"),
        ("amount", "0", "Informe um valor como 10,50"),
        ("amount", "-5", "Informe um valor como 10,50"),
        ("amount", "1,234", "Informe um valor como 10,50"),
        ("lifetime", "61", "Escolha uma das opções."),
        ("payer_document", "111.111.111-11", "Este CPF ou CNPJ não existe."),
        ("payer_document", "123", "Informe um CPF"),
        ("payer_email", "joao", "Não é um endereço de e-mail."),
        ("external_id", "x" * 256, "Use até 255 caracteres."),
        ("description", "a\x07b", "Há caracteres"),
    ],
)
async def test_a_fault_is_explained_beside_its_field_and_typed_values_are_kept(
    env: Environment, field: str, value: str, said: str
) -> None:
    seen = await env.owner.post(NEW, on=NEW, **{**PIX, "payer_name": "Fulana <de> Tal", field: value})
    assert seen.status == 400
    assert faults(seen).get(field, "").startswith(said), faults(seen)
    assert list(faults(seen)) == [field]
    assert f'aria-describedby="w-{field}' in seen.html
    assert 'value="Fulana &lt;de&gt; Tal"' in seen.html
    assert await env.rows_of("charge") == 0


async def test_a_boleto_form_reports_every_faulty_field_at_once(env: Environment) -> None:
    given: dict[str, Any] = {
        "forma": "boleto",
        "kind": "dual",
        "amount": "100000000",
        "due_date": in_days(0),
        "zip_code": "123",
    }
    seen = await env.owner.post(NEW, on=NEW_BOLETO, **given)
    assert seen.status == 400
    assert set(faults(seen)) == {
        "kind", "amount", "due_date", "payer_name", "payer_document", "zip_code", "street", "city", "state",
    }  # fmt: skip
    assert 'value="100000000"' in seen.html
    unknown = await env.owner.post(NEW, on=NEW_BOLETO, **BOLETO, integrador_code="INTG-ZZZZZZ")
    assert faults(unknown) == {"integrador_code": "O código não existe ou não está ativo."}
    assert await env.rows_of("bank_order") == 0


async def test_an_account_that_is_not_approved_creates_test_charges_only(pool: Pool, address: str) -> None:
    merchant = await a_merchant(pool, kyc="pending")
    async with owner_in_browser(address, merchant) as owner:
        assert "Cadastro em análise" in (await owner.opened(NEW)).text
        seen = await owner.post(NEW, **PIX)
        assert (seen.status, "ainda não podem ser criadas" in seen.text) == (403, True)
        test = "/painel/teste/cobrancas/nova"
        assert (await owner.post(test, on=test, **PIX)).status == 303
        for kyc, told in (("rejected", "Cadastro recusado. Cobranças de produção não podem ser criadas."),
                          ("blocked", "Cadastro bloqueado. Cobranças de produção não podem ser criadas.")):  # fmt: skip
            await pool.execute("UPDATE account SET kyc = $2 WHERE account_id = $1", merchant.account_id, kyc)
            assert told in (await owner.opened(NEW)).text


async def test_while_pix_is_suspended_the_form_says_so_and_keeps_the_typed_values(env: Environment, pool: Pool) -> None:
    await pool.execute("INSERT INTO pix_suspension (suspended_at) VALUES (now())")
    try:
        seen = await env.owner.post(NEW, on=NEW, **PIX)
        test = "/painel/teste/cobrancas/nova"
        assert (await env.owner.post(test, on=test, **PIX)).status == 303
    finally:
        await pool.execute("DELETE FROM pix_suspension")
    assert (seen.status, "Pix sem boleto está suspenso" in seen.text) == (403, True)
    assert 'value="12,34"' in seen.html
    # The same form may be sent again: it created no charge.
    assert (await env.owner.post(NEW, form=seen, **PIX)).status == 303


# Refunds


async def paid_charge(env: Environment, *cents: int, test: bool = False) -> ChargeDoc:
    doc = await env.books.charge(cents[0] if cents else 100_00, test=test)
    await env.books.paid(doc, *cents)
    return doc


async def request_refund(env: Environment, doc: ChargeDoc, number: int = 0, **fields: Any) -> Seen:
    """Request a refund of the charge's payments[number], newest first, through its form."""
    path = f"/painel/cobrancas/{doc.charge_id}/devolver"
    form = await env.owner.opened(path)
    found = re.findall(r'name="payment_id" type="radio" value="([^"]+)"', form.html)
    return await env.owner.post(path, form=form, payment_id=found[number], **{"sure": "yes", **fields})


async def test_a_payment_is_refunded_in_parts_until_nothing_is_left(env: Environment) -> None:
    doc = await paid_charge(env, 100_00)
    done = await request_refund(env, doc, amount="30,50", reason="Desistiu")
    assert done.where == f"/painel/cobrancas/{doc.charge_id}?feito=devolucao", done.text[:300]
    page = await env.owner.opened(done.where)
    assert f"{brl(0)} e {brl(30_50)} em andamento" in page.text
    assert "Em andamento" in page.text
    assert f"por {env.owner.email}, no painel" in page.text
    too_much = await request_refund(env, doc, amount="69,51")
    assert (too_much.status, list(faults(too_much))) == (422, ["amount"])
    assert 'value="69,51"' in too_much.html
    # Without an amount, all that remains is refunded.
    assert (await request_refund(env, doc)).status == 303
    over = await env.owner.opened(f"/painel/cobrancas/{doc.charge_id}/devolver")
    assert "Tudo o que foi pago já voltou" in over.text
    assert f"Saldo {brl(0)}" in (await env.owner.opened("/painel/extrato")).text


async def test_a_duplicate_payment_chosen_in_the_form_is_the_one_refunded(env: Environment) -> None:
    doc = await paid_charge(env, 40_00, 40_00)
    odd = await env.owner.opened("/painel/pagamentos?anomaly=duplicate")
    link = re.search(r'href="(/painel/cobrancas/[^"]*/devolver\?payment_id=[^"]*)"', odd.html)
    assert link
    form = await env.owner.opened(link[1])
    chosen = re.search(r'value="([^"]+)" required checked', form.html)
    assert chosen
    assert chosen[1] == link[1].rpartition("=")[2]
    path = f"/painel/cobrancas/{doc.charge_id}/devolver"
    assert (await env.owner.post(path, form=form, payment_id=chosen[1], sure="yes")).status == 303
    row = await env.books.pool.fetchrow(
        "SELECT payment_id, amount_cents FROM refund WHERE charge_id = $1", UUID(doc.charge_id)
    )
    assert row is not None
    assert (str(row["payment_id"]), row["amount_cents"]) == (chosen[1], 40_00)


async def test_cancelling_and_refunding_require_the_confirmation_box(env: Environment) -> None:
    """The server checks the box too, for browsers that ignore `required`."""
    charge, doc = await env.books.charge(), await paid_charge(env, 10_00)
    path = f"/painel/cobrancas/{charge.charge_id}"
    seen = await env.owner.post(f"{path}/cancelar", on=path, reason="paid_externally")
    assert (seen.status, "Confirme que quer cancelar" in seen.text) == (400, True)
    assert '<option value="paid_externally" selected>' in seen.html
    assert "Em aberto" in (await env.owner.opened(path)).text
    seen = await request_refund(env, doc, amount="10", sure="")
    assert (seen.status, "Confirme que quer devolver" in seen.text) == (400, True)
    assert "Devoluções" not in re.findall(
        "<h2>(.*?)</h2>", (await env.owner.opened(f"/painel/cobrancas/{doc.charge_id}")).html
    )


async def test_a_refund_form_sent_six_times_refunds_once(env: Environment) -> None:
    doc = await paid_charge(env, 50_00)
    path = f"/painel/cobrancas/{doc.charge_id}/devolver"
    form = await env.owner.opened(path)
    payment_id = re.findall(r'name="payment_id" type="radio" value="([^"]+)"', form.html)[0]
    sent = await asyncio.gather(
        *(env.owner.post(path, form=form, payment_id=payment_id, amount="10", sure="yes") for _ in range(6))
    )
    assert sorted(each.status for each in sent) == [303, 409, 409, 409, 409, 409]
    assert await env.rows_of("refund") == 1


async def test_every_refused_refund_is_explained_and_debits_nothing(env: Environment, pool: Pool) -> None:
    doc = await paid_charge(env, 50_00)
    other = await paid_charge(env, 10_00)
    accepted = (await request_refund(env, doc, amount="1")).status
    assert accepted == 303
    path = f"/painel/cobrancas/{doc.charge_id}/devolver"
    form = await env.owner.opened(path)
    foreign = await pool.fetchval("SELECT payment_id FROM payment WHERE charge_id = $1", UUID(other.charge_id))
    assert list(faults(await env.owner.post(path, form=form, payment_id=str(foreign), sure="yes"))) == ["payment_id"]
    for amount in ("0", "abc", "1e3"):
        assert list(faults(await request_refund(env, doc, amount=amount))) == ["amount"]
    # The wallet was emptied meanwhile.
    await pool.execute(
        "UPDATE account_clock SET balance_cents = 0 WHERE account_id = $1 AND NOT test", env.merchant.account_id
    )
    poor = await request_refund(env, doc, amount="5")
    assert (poor.status, "saldo da conta não cobre" in poor.text) == (422, True)
    unpaid = await env.books.charge(10_00)
    assert "Nada foi pago" in (await env.owner.opened(f"/painel/cobrancas/{unpaid.charge_id}/devolver")).text
    assert await env.rows_of("refund") == 1


async def test_refunds_are_listed_with_their_status_and_the_reference_of_their_charge(env: Environment) -> None:
    doc = await env.books.charge(50_00, external_id="pedido-9")
    await env.books.paid(doc)
    for amount in ("10", "20"):
        await request_refund(env, doc, amount=amount, reason=f"r{amount}")
    async with transaction(env.books.pool) as conn:
        done = await conn.fetchval(
            "SELECT refund_id FROM refund WHERE amount_cents = 1000 AND charge_id = $1", UUID(doc.charge_id)
        )
        await end_refunds(
            conn,
            [Ending(charge_id=UUID(doc.charge_id), refund_id=done, return_id="D123")],
            now=datetime.now(UTC),
        )
    page = await env.owner.opened("/painel/devolucoes")
    assert re.search(r"r20 .*Em andamento.*r10 .*Concluída", page.text), page.text
    # Each row shows the merchant's external_id, because the charge's id says nothing to a merchant.
    assert re.findall(r'class="row-link" href="[^"]+">([^<]+)<', page.html) == ["pedido-9", "pedido-9"]
    assert "r20" not in (await env.owner.opened("/painel/devolucoes?status=succeeded")).text
    assert "r10" in (await env.owner.opened(f"/painel/devolucoes?charge_id={doc.charge_id}")).text
    assert "Nenhuma devolução ainda" in (await env.owner.opened("/painel/teste/devolucoes")).text


# Mail


async def test_a_charge_is_mailed_to_its_payer_or_another_address_and_its_page_lists_the_mails(
    env: Environment,
) -> None:
    doc = await env.books.charge(payer={"name": "João", "email": "joao@example.com"})
    path = f"/painel/cobrancas/{doc.charge_id}"
    assert (await env.owner.post(f"{path}/email", on=path, to="", message="Obrigado!")).where == f"{path}?feito=email"
    assert (await env.owner.post(f"{path}/email", on=path, to="contador@example.com")).status == 303
    page = await env.owner.opened(path)
    assert re.search(r"E-mail enviado a pedido Na fila .* para joao@example.com", page.text)
    assert "para contador@example.com" in page.text
    linked = await env.owner.post(f"{path}/email", on=path, to="", message="veja golpe.example")
    assert "sem links" in faults(linked)["message"]
    wrong = await env.owner.post(f"{path}/email", on=path, to="joao@")
    assert (wrong.status, faults(wrong)) == (400, {"to": "Não é um endereço de e-mail."})
    nobody = await env.books.charge()
    path = f"/painel/cobrancas/{nobody.charge_id}"
    assert "não tem o e-mail do pagador" in faults(await env.owner.post(f"{path}/email", on=path, to=""))["to"]
    trial = await env.books.charge(test=True)
    assert (await env.owner.post(f"/painel/teste/cobrancas/{trial.charge_id}/email")).status == 404
    assert "Enviar e-mail" not in (await env.owner.opened(f"/painel/teste/cobrancas/{trial.charge_id}")).text


async def test_a_pix_charge_has_no_due_date_to_change(env: Environment) -> None:
    doc = await env.books.charge()
    path = f"/painel/cobrancas/{doc.charge_id}"
    assert "Mudar o vencimento" not in (await env.owner.opened(path)).text
    assert (await env.owner.post(f"{path}/vencimento", on=path, due_date=in_days(3))).status == 404


# Schedules


async def test_a_schedule_is_created_paused_resumed_and_cancelled_in_the_dashboard(env: Environment) -> None:
    form = await env.owner.opened(NEW_SCHEDULE)
    # The date as typed in a browser without date fields.
    first = f"{date.fromisoformat(SCHEDULE['first_due_date']):%d/%m/%Y}"
    asked = {**SCHEDULE, "first_due_date": first, "payer_name": "Maria da Silva"}
    made = await asyncio.gather(*(env.owner.post(NEW_SCHEDULE, form=form, **asked) for _ in range(4)))
    assert {each.status for each in made} == {303}, made[0].text[:300]
    assert len({each.where for each in made}) == 1
    assert await env.rows_of("schedule") == 1
    path = f"/painel/programacoes/{id_in(made[0].where)}"
    page = await env.owner.opened(path)
    assert f"{brl(99_90)}, todo mês" in page.text
    assert "depois de 12 cobranças" in page.text
    assert f"Primeiro vencimento {first}" in page.text
    for shown in (page, await env.owner.opened("/painel/programacoes")):
        assert "Maria da Silva" in shown.text, "both pages name the payer"
    await env.books.pool.execute(
        "UPDATE schedule SET failure_code = 'MERCHANT_ADDRESS_REQUIRED', failed_at = now() WHERE schedule_id = $1",
        UUID(id_in(made[0].where)),
    )
    page = await env.owner.opened(path)
    assert "ainda não saiu. Motivo: Falta o endereço da empresa (em" in page.text
    assert "MERCHANT_ADDRESS_REQUIRED" not in page.text
    assert (await env.owner.post(f"{path}/pausar", on=path)).where == f"{path}?feito=pausada"
    assert "Pausada" in (await env.owner.opened("/painel/programacoes?status=paused")).text
    assert (await env.owner.post(f"{path}/retomar", on=path)).where == f"{path}?feito=continuada"
    assert (await env.owner.post(f"{path}/cancelar", on=path, sure="yes")).where == f"{path}?feito=encerrada"
    late = await env.owner.post(f"{path}/retomar", on=path)
    assert (late.status, "já terminou" in late.text) == (409, True)
    assert "assinatura-5" in (await env.owner.opened("/painel/programacoes")).text
    audit = await env.owner.opened("/painel/auditoria")
    assert re.search(r"Cancelou uma programação.*Retomou uma.*Pausou uma.*Programou cobranças", audit.text)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"end_date": in_days(90)}, {"max_charges"}),
        ({"first_due_date": in_days(0)}, {"first_due_date"}),
        ({"max_charges": "1001"}, {"max_charges"}),
        ({"max_charges": "", "end_date": in_days(1)}, {"end_date"}),
        ({"frequency": "daily", "issue_days_before": "31"}, {"frequency", "issue_days_before"}),
        ({"forma": "boleto"}, {"payer_name", "payer_document", "zip_code", "street", "city", "state"}),
    ],
)
async def test_an_invalid_schedule_is_refused_field_by_field(
    env: Environment, changed: dict[str, Any], wrong: set[str]
) -> None:
    seen = await env.owner.post(NEW_SCHEDULE, on=NEW_SCHEDULE, **{**SCHEDULE, **changed})
    assert (seen.status, set(faults(seen))) == (400, wrong)
    assert 'value="assinatura-5"' in seen.html
    assert await env.rows_of("schedule") == 0


async def test_a_schedule_of_another_account_answers_like_an_unknown_one(
    env: Environment, pool: Pool, address: str
) -> None:
    done = await env.owner.post(NEW_SCHEDULE, on=NEW_SCHEDULE, **SCHEDULE)
    path = f"/painel/programacoes/{id_in(done.where)}"
    async with owner_in_browser(address, await a_merchant(pool)) as stranger:
        unknown = await stranger.get(f"/painel/programacoes/{uuid4()}")
        assert (unknown.status, (await stranger.get(path)).html) == (404, unknown.html)
        for word in ("pausar", "retomar", "cancelar"):
            assert (await stranger.post(f"{path}/{word}")).status == 404
        assert "assinatura-5" not in (await stranger.opened("/painel/programacoes")).text
    assert "Ativa" in (await env.owner.opened(path)).text


# Closings


async def test_daily_closings_show_the_opening_balance_credits_debits_and_the_closing_balance(
    env: Environment, pool: Pool
) -> None:
    today = datetime.now(UTC).astimezone(SAO_PAULO).date()
    first = today.replace(day=1)
    last_month = first - timedelta(days=1)
    noon = timedelta(hours=15)

    def at(day: date) -> datetime:
        return datetime(day.year, day.month, day.day, tzinfo=UTC) + noon

    await env.books.paid(await env.books.charge(100_00, at=at(last_month)), at=at(last_month))
    account_id = env.merchant.account_id
    for number, (kind, amount, after) in enumerate(
        (("payment", 50_00, 150_00), ("refund", -30_00, 120_00), ("refund_reversal", 5_00, 125_00)), 2
    ):
        await pool.execute(
            "INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents, balance_after_cents,"
            " created_at) VALUES ($1, false, $2, $3, $4, $5, $6, now())",
            account_id, number, uuid4(), kind, amount, after,
        )  # fmt: skip
    page = await env.owner.opened("/painel/extrato/dias")
    rows = re.findall(
        r'created_from=([0-9-]+)&amp;.*?</a>.*?<td class="number wide">(\d+)</td>(.*?)</tr>', page.html, re.S
    )
    assert [row[0] for row in rows] == [first.replace(day=day).isoformat() for day in range(today.day, 0, -1)]
    assert rows[0][1] == "3"
    wide = re.sub(r'<span class="narrow.*?</span>', "", rows[0][2])  # without the texts for narrow screens
    assert re.findall(r"R\$\xa0[\d.]+,\d\d", wide) == [brl(100_00), brl(55_00), brl(30_00), brl(125_00)]
    assert f"entrou {brl(55_00)}, saiu {brl(30_00)}" in page.text
    before = await env.owner.opened(f"/painel/extrato/dias?mes={last_month:%Y-%m}")
    assert f"entrou {brl(100_00)}, saiu {brl(0)}" in before.text
    assert re.findall(r"created_from=([0-9-]+)&amp;", before.html) == [last_month.isoformat()], (
        "no day before the first entry is listed"
    )
    assert 'rel="prev"' not in before.html
    lines = (await env.owner.opened(f"/painel/extrato/dias.csv?mes={last_month:%Y-%m}")).html.splitlines()
    assert lines[1:] == [f"{last_month};1;0,00;100,00;0,00;100,00;1;100,00;0,00;100,00"]
    for odd in ("2026-13", "x", "9999-12", "2019-01", "%00"):
        assert (await env.owner.get(f"/painel/extrato/dias?mes={odd}")).where == "/painel/extrato/dias", odd


# Roles


async def test_each_role_opens_and_sends_only_the_forms_it_is_allowed(env: Environment, address: str) -> None:
    doc = await paid_charge(env, 50_00)
    refund = f"/painel/cobrancas/{doc.charge_id}/devolver"
    wanted = {
        "finance": {NEW: 200, refund: 200, NEW_SCHEDULE: 200, "/painel/programacoes": 200, "/painel/extrato/dias": 200},
        "support": {NEW: 200, refund: 403, NEW_SCHEDULE: 403, "/painel/programacoes": 200, "/painel/extrato/dias": 403},
        "developer": {
            NEW: 403,
            refund: 403,
            NEW_SCHEDULE: 403,
            "/painel/programacoes": 403,
            "/painel/extrato.csv": 403,
        },
    }
    for role, pages in wanted.items():
        async with colleague_in_browser(env.books.pool, address, env.merchant, role) as person:
            for path, status in pages.items():
                assert (await person.get(path)).status == status, (role, path)
            page = await person.opened(f"/painel/cobrancas/{doc.charge_id}")
            assert ("Devolver" in page.text) == (role == "finance"), role
            if role != "finance":
                assert (await person.post(refund, payment_id=str(uuid4()))).status == 403, role
    assert await env.rows_of("refund") == 0


# Statements per page

_LENGTH_MAX = {
    "/painel": 14,
    "/painel/cobrancas": 6,
    "/painel/pagamentos": 3,
    "/painel/devolucoes": 2,
    "/painel/extrato": 5,
    "/painel/extrato/dias": 2,
    "/painel/programacoes": 2,
    "/painel/cobrancas/nova": 0,
    "/painel/programacoes/nova": 0,
}


@contextmanager
def record_statements(pool: Pool) -> Iterator[list[str]]:
    """Record the statements of the pool's one connection."""
    said: list[str] = []
    connection: Any = pool._holders[0]._con  # type: ignore[attr-defined]
    connection.add_query_logger(lambda record: said.append(record.query))
    try:
        yield said
    finally:
        connection._query_loggers.clear()


async def test_a_page_costs_a_bounded_number_of_statements_however_long_its_list_is(
    env: Environment, servers: Servers
) -> None:
    for _ in range(30):
        await env.books.paid(await env.books.charge())
    pool_of_one = await open_pool(servers.database_url, name="counted", size=1)
    try:
        async with (
            serving(pool_of_one, lambda: datetime.now(UTC), SETTINGS) as served_at,
            owner_in_browser(served_at, env.merchant) as owner,
        ):
            for path, length_max in _LENGTH_MAX.items():
                await owner.opened(path)
                with record_statements(pool_of_one) as said:
                    await owner.opened(path)
                # Without the session's statements, which read the session and record its use.
                own = [each for each in said if "dashboard_session" not in each]
                assert len(own) <= length_max, (path, [each[:80] for each in own])
    finally:
        await pool_of_one.close()


# Odd input

_ODD = ("", "\u202e", "💸" * 20, "'; DROP TABLE charge; --", "<b>", "9" * 40, "\x7f", "٣", "1e9")
_FIELDS = (
    "forma", "kind", "amount", "lifetime", "due_date", "external_id", "description", "integrador_code", "payer_name",
    "payer_document", "zip_code", "street", "number", "city", "state", "payer_email", "payer_phone", "send_email",
    "payment_id", "pix_key", "document", "reason", "to", "message", "attach_pdf", "frequency", "first_due_date",
    "end_date", "max_charges", "issue_days_before", "fine", "fine_kind", "interest", "interest_kind", "payable_days",
    "discount_kind", "discount_first", "discount_first_until", "discount_second", "discount_third_until",
    "discount_first_days", "discount_second_days", "second_copy",
)  # fmt: skip


async def test_no_input_breaks_a_form(env: Environment) -> None:
    doc = await paid_charge(env, 10_00, test=True)
    live = await paid_charge(env, 10_00)
    token = (await env.owner.opened("/painel/acesso")).hidden()["csrf"]
    mine = ("/cobrancas/nova", "/vencimento", "/email", "/devolver", "/programacoes/nova")
    for page in TABLE:
        if page.method != "POST" or not page.path.endswith(mine):
            continue
        path = page.whole_path.replace("{charge_id:str}", doc.charge_id if page.mode.test else live.charge_id)
        for odd in _ODD:
            for forma in ("pix", "boleto", odd):
                fields = {**dict.fromkeys(_FIELDS, odd), "forma": forma}
                sent = {"csrf": token, "once": str(uuid4()), **fields}
                seen = await env.owner.ask("POST", path, data=sent)
                assert seen.status in (303, 400, 403, 404, 409), (path, odd, seen.status, seen.text[:300])
                assert "<b>" not in seen.html.replace("</b>", "")
    assert await env.rows_of("refund") == 0


async def test_the_payers_data_is_sealed_as_the_api_seals_it(env: Environment) -> None:
    told_of: dict[str, Any] = {"payer_name": "João", "payer_document": "52998224725", "payer_phone": "+5511999990000"}
    done = await env.owner.post(NEW, on=NEW, **PIX, **told_of)
    charge_id = UUID(id_in(done.where))
    sealed = await env.books.pool.fetchval("SELECT payer_sealed FROM charge WHERE charge_id = $1", charge_id)
    assert msgspec.json.decode(SEAL.open(sealed, CHARGE_PAYER, charge_id)) == {
        "name": "João", "document": "52998224725", "phone": "+5511999990000",
    }  # fmt: skip
    log = await env.books.pool.fetch("SELECT facts::text FROM audit WHERE account_id = $1", env.merchant.account_id)
    assert "52998224725" not in str(log)
