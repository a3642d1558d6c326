"""The dashboard on the whole system: the accounts of dev.json, boletos at the simulated bank, and every API process."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
import pytest
import pytest_asyncio

from tests.support.boleto_merchant import at_bank, in_days, issue_boleto
from tests.support.dashboard import Person, Seen, owner_in_browser
from tests.support.dual_merchant import issue_dual_charge
from tests.support.merchant import ApiMerchant, database_of, new_merchant, until_answer
from tests.support.system import System
from tests.support.webhooks import receiving

STOPS_WITHIN_S = 5.0


class Environment(NamedTuple):
    merchant: ApiMerchant
    owner: Person


@pytest_asyncio.fixture(loop_scope="session")
async def env(system: System) -> AsyncIterator[Environment]:
    async with new_merchant(system) as merchant, owner_in_browser(system.app_url, merchant.record) as owner:
        yield Environment(merchant, owner)


async def test_the_password_of_dev_json_opens_the_dashboard_and_its_pages(system: System) -> None:
    for merchant in system.merchants:
        person = Person(system.app_url, **merchant["dashboard"])
        try:
            assert (await person.sign_in()).status == 303
            for path in ("", "/cobrancas", "/pagamentos", "/extrato", "/tokens", "/webhooks", "/teste/cobrancas"):
                assert merchant["name"] in (await person.opened(f"/painel{path}")).text
        finally:
            await person.http.close()


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_a_boleto_is_written_off_at_the_bank_and_then_cancelled(
    env: Environment, system: System, mode: str
) -> None:
    client = getattr(env.merchant, mode)
    boleto = await issue_boleto(client)
    base = "/painel/teste" if mode == "sandbox" else "/painel"
    path = f"{base}/cobrancas/{boleto['charge_id']}"
    page = await env.owner.opened(path)
    assert boleto["boleto"]["nosso_numero"] in page.text
    assert f'href="{path}/boleto.pdf"' in page.html
    done = await env.owner.post(f"{path}/cancelar", on=path, reason="cancelled", sure="yes")
    assert done.where == f"{path}?feito=cancelada", done.text[:300]
    assert (await client.charge(boleto["charge_id"]))["status"] == "cancelled"
    # The merchant keeps the PDF as a record; through the payer's link it is no longer there.
    async with env.owner.http.get(f"{system.app_url}{path}/boleto.pdf") as pdf:
        assert pdf.content_type == "application/pdf"
    async with env.owner.http.get(f"{system.app_url}/pagar/{boleto['public_id']}/boleto.pdf") as pdf:
        assert pdf.status == 404
    async with database_of(system) as books:
        assert (await at_bank(books, boleto["boleto"]["nosso_numero"]))["written_off_at"] is not None
    again = await env.owner.post(f"{path}/cancelar", on=path, reason="cancelled", sure="yes")
    assert again.status == 409
    assert f"por {env.owner.email}, no painel" in (await env.owner.opened(path)).text


async def test_a_test_boleto_is_paid_by_its_simulated_payer(env: Environment) -> None:
    boleto = await issue_boleto(env.merchant.sandbox)
    path = f"/painel/teste/cobrancas/{boleto['charge_id']}"
    assert (await env.owner.post(f"{path}/pagar", on=path)).where == f"{path}?feito=simulado"
    assert (await env.merchant.sandbox.charge(boleto["charge_id"]))["status"] == "paid"


async def test_a_cancellation_that_the_bank_does_not_confirm_leaves_the_boleto_pending(
    env: Environment, system: System
) -> None:
    boleto = await issue_boleto(env.merchant.production)
    path = f"/painel/cobrancas/{boleto['charge_id']}"
    system.json("bank", "fault", "down")
    try:
        refused = await env.owner.post(f"{path}/cancelar", on=path, reason="cancelled", sure="yes")
    finally:
        system.json("bank", "fault", "up")
    assert (refused.status, "O banco não confirmou" in refused.text) == (502, True)
    assert (await env.merchant.production.charge(boleto["charge_id"]))["status"] == "pending"


async def test_a_bulk_cancel_leaves_unconfirmed_boletos_pending_and_cancels_the_other_charges(
    env: Environment, system: System
) -> None:
    boletos = [await issue_boleto(env.merchant.production) for _ in range(3)]
    pix = await env.merchant.production.created("10.00")
    chosen = [each["charge_id"] for each in (*boletos, pix)]
    path = "/painel/cobrancas/cancelar"
    form = await env.owner.opened("/painel/cobrancas")
    system.json("bank", "fault", "down")
    began = time.monotonic()
    try:
        seen = await env.owner.post(path, form=form, charge=chosen, sure="yes")
    finally:
        system.json("bank", "fault", "up")
    assert time.monotonic() - began < 20, "the boletos wait for the bank concurrently"
    assert "1 de 4 cancelada" in seen.text
    assert seen.text.count("O banco não confirmou") == 3
    assert (await env.merchant.production.charge(boletos[0]["charge_id"]))["status"] == "pending"
    assert (await env.merchant.production.charge(pix["charge_id"]))["status"] == "cancelled"


async def test_a_sheet_sent_again_creates_the_boletos_that_the_bank_had_not_registered(
    env: Environment, system: System
) -> None:
    path = "/painel/cobrancas/importar"
    sheet = (
        "tipo;valor;vencimento;referencia;nome;documento;cep;rua;numero;cidade;estado\n"
        f"boleto;150,00;{in_days(9)};folha-1;Ana Lima;52998224725;01310-100;Avenida Paulista;1;São Paulo;SP\n"
        "pix;10,00;;folha-2;;;;;;;\n"
    )

    async def import_sheet() -> Seen:
        upload = aiohttp.FormData((await env.owner.opened(path)).hidden())
        upload.add_field("file", sheet.encode("cp1252"), filename="folha.csv")
        page = await env.owner.ask("POST", path, data=upload)
        carried = re.search(r'name="sheet" value="([^"]+)"', page.html)
        assert carried, page.text[:500]
        return await env.owner.post(path, form=page, sheet=carried[1], sure="yes")

    system.json("bank", "fault", "down")
    try:
        silent = await import_sheet()
    finally:
        system.json("bank", "fault", "up")
    assert "1 de 2 cobranças estão na lista" in silent.text, silent.text[:600]
    assert "O banco não confirmou" in silent.text
    done = await import_sheet()
    assert "2 de 2 cobranças estão na lista" in done.text, done.text[:600]
    assert (done.text.count("Já criada"), (await import_sheet()).text.count("Já criada")) == (1, 2)
    listed = await env.merchant.production.get("/v1/charges")
    assert sorted(each["external_id"] for each in listed.body["data"] if each["status"] == "pending") == [
        "folha-1", "folha-2",
    ]  # fmt: skip


async def test_a_revoked_credential_stops_working_in_every_api_process_within_five_seconds(
    env: Environment, system: System
) -> None:
    assert len(system.pids("api")) > 1
    token = await env.merchant.production.token()

    async def refused() -> bool:
        # A new connection for each request, so that every process answers some of them.
        connector = aiohttp.TCPConnector(force_close=True)
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as http:

            async def status() -> int:
                async with http.get(f"{system.base_url}/v1/charges") as answer:
                    return answer.status

            return set(await asyncio.gather(*(status() for _ in range(12)))) == {401}

    assert not await refused()
    path = f"/painel/tokens/{env.merchant.record.production.client_id}"
    await env.owner.post(f"{path}/revogar", on=path, sure="yes")
    began, asked_s = time.monotonic(), 0.0
    while not await refused():
        assert asked_s < STOPS_WITHIN_S
        await asyncio.sleep(0.1)
        asked_s = time.monotonic() - began


async def test_a_test_event_reaches_the_receiver_and_its_charge_is_in_the_api(env: Environment) -> None:
    async with receiving() as receiver:
        assert (await env.owner.post("/painel/webhooks", on="/painel/webhooks", url=receiver.url)).status == 200
        await env.owner.post("/painel/teste/webhooks/testar", on="/painel/webhooks")
        await receiver.reached(1)
        (event,) = await env.merchant.sandbox.events()
        assert event["event_id"] == receiver.requests[0].event_id
        assert (await env.merchant.sandbox.charge(event["charge_id"]))["status"] == "paid"
        assert await env.merchant.production.events() == []


NEW_BOLETO = {
    "forma": "boleto",
    "kind": "boleto_hibrido",
    "amount": "1.250,00",
    "payer_name": "João d'Ávila",
    "payer_document": "529.982.247-25",
    "zip_code": "01310-100",
    "street": "Avenida Paulista",
    "number": "1578",
    "city": "São Paulo",
    "state": "SP",
}


async def new_boleto(env: Environment, base: str, **more: Any) -> Seen:
    page = f"{base}/cobrancas/nova"
    fields = {**NEW_BOLETO, "due_date": in_days(10), **more}
    return await env.owner.post(page, on=f"{page}?forma=boleto", **fields)


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_a_boleto_issued_in_the_dashboard_is_at_the_bank_and_in_the_api_and_can_be_redated(
    env: Environment, system: System, mode: str
) -> None:
    client = getattr(env.merchant, mode)
    base = "/painel/teste" if mode == "sandbox" else "/painel"
    done = await new_boleto(env, base, external_id="fatura-9")
    assert done.status == 303, done.text[:400]
    path = done.where.partition("?")[0]
    charge = await client.charge(path.rpartition("/")[2])
    assert (charge["status"], charge["amount"], charge["external_id"]) == ("pending", "1250.00", "fatura-9")
    assert charge["boleto"]["qr_code"]
    async with database_of(system) as books:
        assert (await at_bank(books, charge["boleto"]["nosso_numero"]))["due_on"].isoformat() == in_days(10)
    moved = await env.owner.post(f"{path}/vencimento", on=path, due_date=in_days(15))
    assert moved.where == f"{path}?feito=vencimento", moved.text[:300]
    assert (await client.charge(charge["charge_id"]))["due_date"] == in_days(15)
    async with database_of(system) as books:
        assert (await at_bank(books, charge["boleto"]["nosso_numero"]))["due_on"].isoformat() == in_days(15)
    page = await env.owner.opened(path)
    assert f"por {env.owner.email}, no painel" in page.text
    same = await env.owner.post(f"{path}/vencimento", on=path, due_date=in_days(15))
    assert (same.status, "O vencimento já é este." in same.text) == (400, True)
    past = await env.owner.post(f"{path}/vencimento", on=path, due_date=in_days(-1))
    assert (past.status, "ou um dia depois" in past.text) == (400, True)


async def test_a_dual_charge_is_created_in_the_dashboard_and_repeated_as_a_dual_charge(
    env: Environment, system: System
) -> None:
    made = await new_boleto(env, "/painel", kind="boleto_pix", fine="2,00", fine_kind="percent")
    assert made.status == 303, made.text[:400]
    path = made.where.partition("?")[0]
    charge = await env.merchant.production.charge(path.rpartition("/")[2])
    assert (charge["payment_method"], charge["pix"] is not None, charge["fine"]) == (
        "boleto_pix", True, {"percent": "2.00"},
    )  # fmt: skip
    both = r"<dt>Pelo Pix</dt><dd>Em aberto</dd></div>\s*<div><dt>Pelo boleto</dt><dd>Em aberto</dd>"
    assert re.search(both, (await env.owner.opened(path)).html)
    shorter = await issue_dual_charge(env.merchant.production, expires_in=3_600)
    html = (await env.owner.opened(f"/painel/cobrancas/{shorter['charge_id']}")).html
    assert re.search(r"<dt>Pelo Pix</dt><dd>Em aberto <span class=.soft.>\(até <time ", html)
    again = await env.owner.opened(f"/painel/cobrancas/nova?de={charge['charge_id']}")
    (chosen,) = (each for each in again.html.split("<input ") if 'name="kind"' in each and "checked" in each)
    assert 'value="boleto_pix"' in chosen
    system.json("pix", "suspend")
    try:
        refused = await new_boleto(env, "/painel", kind="boleto_pix")
        assert (refused.status, "suspens" in refused.text) == (403, True), refused.text[:400]
        assert (await new_boleto(env, "/painel/teste", kind="boleto_pix")).status == 303, (
            "the suspension is of production only"
        )
    finally:
        system.json("pix", "resume")


async def test_a_boleto_form_sent_six_times_at_once_issues_one_boleto(env: Environment) -> None:
    page = "/painel/teste/cobrancas/nova"
    form = await env.owner.opened(f"{page}?forma=boleto")
    fields = {**NEW_BOLETO, "due_date": in_days(10), "external_id": "uma-vez"}
    sent = await asyncio.gather(*(env.owner.post(page, form=form, **fields) for _ in range(6)))
    # A form sent during the bank call is answered 409; one sent after it is redirected to the charge.
    assert {each.status for each in sent} <= {303, 409}
    assert len({each.where for each in sent if each.status == 303}) == 1
    again = await env.owner.post(page, form=form, **fields)
    assert again.where in {each.where for each in sent}
    found = await env.merchant.sandbox.get("/v1/charges", external_id="uma-vez")
    assert len(found.body["data"]) == 1


async def test_a_boleto_that_the_bank_does_not_register_is_not_created_and_the_form_keeps_its_values(
    env: Environment, system: System
) -> None:
    system.json("bank", "fault", "down")
    try:
        refused = await new_boleto(env, "/painel", external_id="nunca")
    finally:
        system.json("bank", "fault", "up")
    assert (refused.status, "O banco não confirmou" in refused.text) == (502, True)
    assert 'value="nunca"' in refused.html
    assert 'value="1.250,00"' in refused.html
    assert (await env.merchant.production.get("/v1/charges", external_id="nunca")).body["data"] == []
    # The page of the refusal has a new form: sent again, it is accepted.
    done = await env.owner.post(
        "/painel/cobrancas/nova", form=refused, **{**NEW_BOLETO, "due_date": in_days(10), "external_id": "nunca"}
    )
    assert done.status == 303, done.text[:300]


async def test_a_boleto_paid_by_its_line_is_refunded_to_the_pix_key_given(env: Environment) -> None:
    boleto = await issue_boleto(env.merchant.sandbox)
    path = f"/painel/teste/cobrancas/{boleto['charge_id']}"
    await env.owner.post(f"{path}/pagar", on=path)
    form = await env.owner.opened(f"{path}/devolver")
    found = re.search(r'name="payment_id" type="radio" value="([^"]+)"', form.html)
    assert found
    nowhere = await env.owner.post(f"{path}/devolver", form=form, sure="yes", payment_id=found[1])
    assert (nowhere.status, "informe a chave Pix" in nowhere.text) == (422, True)
    assert "Chave Pix CPF, CNPJ, telefone" in form.text  # not marked as optional
    assert "Em branco: o do pagador, ***." in form.text
    stranger = await env.owner.post(
        f"{path}/devolver",
        form=nowhere,
        sure="yes",
        payment_id=found[1],
        pix_key="a@example.com",
        document="11144477735",
    )
    assert (stranger.status, "precisa ter o documento do pagador" in stranger.text) == (400, True)
    done = await env.owner.post(
        f"{path}/devolver",
        form=stranger,
        sure="yes",
        payment_id=found[1],
        pix_key="529.982.247-25",
    )  # the document is the payer's
    assert done.status == 303, done.text[:300]

    async def succeeded() -> bool:
        return "chip-refund-succeeded" in (await env.owner.opened(path)).html

    await until_answer(succeeded)
    assert (await env.merchant.sandbox.charge(boleto["charge_id"]))["status"] == "refunded"


async def test_a_refund_to_a_key_asks_for_the_password_again(env: Environment, system: System) -> None:
    boleto = await issue_boleto(env.merchant.production)
    await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", boleto["charge_id"])
    path = f"/painel/cobrancas/{boleto['charge_id']}/devolver"

    async def refundable() -> tuple[Seen, str] | None:
        form = await env.owner.get(path)
        found = re.search(r'name="payment_id" type="radio" value="([^"]+)"', form.html)
        return (form, found[1]) if found else None

    form, payment_id = await until_answer(refundable)
    async with database_of(system) as books:
        await books.execute(
            "UPDATE dashboard_session SET proved_at = now() - interval '6 minutes' WHERE email = $1", env.owner.email
        )
    key = "529.982.247-25"
    asked = await env.owner.post(path, form=form, sure="yes", payment_id=payment_id, pix_key=key, document=key)
    assert (asked.status, "Confirme que é você" in asked.text) == (403, True)
    said = "(tudo o que resta do pagamento) Para a chave Pix 52998224725 CPF ou CNPJ do dono 529.982.247-25"
    assert said in asked.text, asked.text
    assert (await env.merchant.production.charge(boleto["charge_id"]))["status"] == "paid"


async def test_a_webhook_resent_from_the_dashboard_is_delivered_at_once(env: Environment) -> None:
    """The dashboard wakes the worker, so the delivery does not wait for the worker's next round."""
    async with receiving() as receiver:
        await env.owner.post("/painel/webhooks", on="/painel/webhooks", url=receiver.url)
        charge = await env.merchant.sandbox.created()
        path = f"/painel/teste/cobrancas/{charge['charge_id']}"
        await env.owner.post(f"{path}/pagar", on=path)
        await receiver.reached(1)
        page = await env.owner.opened(path)
        link = re.search(r'href="(/painel/teste/webhooks/entregas/[^"]+)"', page.html)
        assert link

        async def delivered() -> bool:  # a delivery that is being sent is not sent again
            return "Entregue" in (await env.owner.opened(link[1])).text

        await until_answer(delivered)
        await env.owner.post(f"{link[1]}/reenviar", on=link[1])
        await receiver.reached(2)
        assert receiver.requests[0].event_id == receiver.requests[1].event_id
        assert "Webhook: Pagamento recebido" in page.text
