"""POST /v1/portal/charges/{charge_id}/send-email and `send_email` on creation, against the running system. Its mails go
to the mail catcher of local work at /correio."""

import re
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio

from tests.support.boleto_merchant import PAGADOR, issue_boleto
from tests.support.merchant import Answer, ApiClient, ApiMerchant, new_merchant, until_answer
from tests.support.system import System


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merchant(system: System) -> AsyncIterator[ApiMerchant]:
    async with new_merchant(system) as made:
        yield made


def address() -> str:
    return f"{uuid4().hex}@example.com"


async def ask(client: ApiClient, charge_id: str, **body: Any) -> Answer:
    return await client.ask("POST", f"/v1/portal/charges/{charge_id}/send-email", json=body)


async def page(client: ApiClient, url: str, *, method: str = "GET", **more: Any) -> tuple[int, str]:
    async with client.http.request(method, url, **more) as answer:
        return answer.status, await answer.text()


async def mails_to(system: System, client: ApiClient, to: str) -> list[str]:
    """The page addresses of the caught mails to an address, newest first."""
    _, listed = await page(client, f"{system.app_url}/correio")
    items = re.findall(r'<li><a href="(/correio/[0-9a-f-]+)">.*?</li>', listed, re.S)
    texts = re.findall(r"<li>.*?</li>", listed, re.S)
    return [system.app_url + item for item, text in zip(items, texts, strict=True) if to in text]


async def caught(system: System, client: ApiClient, to: str) -> tuple[str, str]:
    """Wait for the only mail to an address. Returns its page's address and the page."""
    (url,) = await until_answer(lambda: mails_to(system, client, to))
    return url, (await page(client, url))[1]


async def test_a_requested_mail_is_queued_and_sent_with_the_charge_and_the_message(
    system: System, merchant: ApiMerchant
) -> None:
    to = address()
    charge = await merchant.production.created("42.50", description="Pedido 7")
    answer = await ask(merchant.production, charge["charge_id"], to=to, message="Obrigado <b>pela</b> compra!")
    assert answer.status == 202
    assert set(answer.body) == {"email_id", "charge_id", "to", "status"}
    assert (answer.body["charge_id"], answer.body["to"], answer.body["status"]) == (charge["charge_id"], to, "queued")
    url, shown = await caught(system, merchant.production, to)
    assert url.endswith(answer.body["email_id"])
    _, html = await page(merchant.production, f"{url}/html")
    assert "Obrigado &lt;b&gt;pela&lt;/b&gt; compra!" in html
    assert "42,50" in html
    assert charge["pix"]["qr_code"] in html
    assert f"{system.app_url}/pagar/{charge['public_id']}" in html
    assert "Pedido 7" in shown


async def test_a_mail_without_a_given_address_goes_to_the_payer(system: System, merchant: ApiMerchant) -> None:
    to = address()
    charge = await merchant.production.created(payer={"name": "Ana", "email": to})
    answer = await merchant.production.ask("POST", f"/v1/portal/charges/{charge['charge_id']}/send-email")
    assert (answer.status, answer.body["to"]) == (202, to)
    await caught(system, merchant.production, to)


async def test_a_mail_to_a_payer_without_an_address_is_payer_email_required(merchant: ApiMerchant) -> None:
    for payer in (None, {"name": "Ana"}, {"email": None}):
        charge = await merchant.production.created(payer=payer)
        assert (await ask(merchant.production, charge["charge_id"])).code == "PAYER_EMAIL_REQUIRED"


@pytest.mark.parametrize(
    "body",
    [
        {"to": "x"}, {"to": ""}, {"to": "a@b"}, {"to": "a b@example.com"}, {"to": "a@example.com\r\nBcc: b@x.com"},
        {"to": "a@example.com,b@example.com"}, {"to": "é@example.com"}, {"to": 1}, {"to": "a" * 65 + "@example.com"},
        {"message": 1}, {"message": "x" * 1001}, {"message": "\x00"},
        {"message": "Pague em https://golpe.example/x"}, {"message": "veja golpe.com.br"}, {"message": "WWW.golpe"},
        {"message": "escreva a ana@golpe.example"}, {"attach_pdf": "yes"},
    ],
    ids=str,
)  # fmt: skip
async def test_an_invalid_field_of_a_mail_request_is_refused_by_name(
    merchant: ApiMerchant, body: dict[str, Any]
) -> None:
    answer = await ask(merchant.production, str(uuid4()), **body)
    assert answer.code == "VALIDATION_ERROR"
    assert [field["field"] for field in answer.body["error"]["fields"]] == list(body)


async def test_an_unknown_charge_or_one_of_another_account_or_mode_is_not_found(
    system: System, merchant: ApiMerchant
) -> None:
    test_charge = await merchant.sandbox.created()
    async with new_merchant(system) as other:
        foreign = await other.production.created()
        for charge_id in (str(uuid4()), "x", test_charge["charge_id"], foreign["charge_id"]):
            assert (await ask(merchant.production, charge_id, to=address())).code == "CHARGE_NOT_FOUND"


async def test_a_test_credential_gets_sandbox_only_before_any_other_refusal(
    system: System, merchant: ApiMerchant
) -> None:
    client = merchant.sandbox
    headers = {"Authorization": f"Bearer {await client.token()}"}
    charge = await client.created(payer={"email": address()})
    json_type = {"Content-Type": "application/json"}
    bodies: list[tuple[bytes | None, dict[str, str]]] = [
        (None, {}), (b"{}", json_type), (b'{"to": 1}', json_type), (b"{", json_type),
    ]  # fmt: skip
    for charge_id in (charge["charge_id"], str(uuid4()), "x"):
        url = f"{system.base_url}/v1/portal/charges/{charge_id}/send-email"
        for data, more in bodies:
            async with client.http.post(url, data=data, headers={**headers, **more}) as answer:
                assert answer.status == 403
                assert (await answer.json())["error"]["code"] == "SANDBOX_ONLY"


async def test_a_cancelled_charge_is_not_mailed_and_a_paid_one_is_mailed_as_paid(
    system: System, merchant: ApiMerchant
) -> None:
    charge = await merchant.production.created()
    await merchant.production.cancel(charge["charge_id"])
    assert (await ask(merchant.production, charge["charge_id"], to=address())).code == "CHARGE_NOT_PENDING"
    paid = await merchant.production.created("31.00")
    system.json("bank", "pay", "--charge-id", paid["charge_id"])
    await until_answer(lambda: _is_paid(merchant.production, paid["charge_id"]))
    to = address()
    assert (await ask(merchant.production, paid["charge_id"], to=to)).status == 202
    _, shown = await caught(system, merchant.production, to)
    assert "Pagamento recebido" in shown
    assert paid["pix"]["qr_code"] not in shown


async def _is_paid(client: ApiClient, charge_id: str) -> bool:
    return bool((await client.charge(charge_id))["status"] == "paid")


async def test_the_boletos_pdf_is_attached_unless_attach_pdf_is_false(system: System, merchant: ApiMerchant) -> None:
    to, without = address(), address()
    charge = await issue_boleto(merchant.production, pagador={**PAGADOR, "email": to})
    assert (await ask(merchant.production, charge["charge_id"])).body["to"] == to
    assert (await ask(merchant.production, charge["charge_id"], to=without, attach_pdf=False)).status == 202
    url, shown = await caught(system, merchant.production, to)
    assert f"boleto-{charge['boleto']['nosso_numero']}.pdf" in shown
    async with merchant.production.http.get(f"{url}/anexos/0") as file:
        assert file.content_type == "application/pdf"
        assert (await file.read()).startswith(b"%PDF-")
    _, shown = await caught(system, merchant.production, without)
    assert "boleto-" not in shown


async def test_the_21st_mail_about_one_charge_in_an_hour_is_rate_limited(merchant: ApiMerchant) -> None:
    charge = await merchant.production.created()
    to = address()
    answers = [await ask(merchant.production, charge["charge_id"], to=to) for _ in range(21)]
    assert [answer.status for answer in answers] == [202] * 20 + [429]
    assert "20 about one charge in an hour" in answers[-1].body["error"]["message"], (
        "the message states the limit of mails"
    )
    assert int(answers[-1].headers["Retry-After"]) > 0


async def test_the_unsubscribe_link_stops_this_merchants_mails_to_this_address_only(
    system: System, merchant: ApiMerchant
) -> None:
    to = address()
    charge = await merchant.production.created()
    await ask(merchant.production, charge["charge_id"], to=to)
    _, shown = await caught(system, merchant.production, to)
    (link,) = re.findall(rf'href="({re.escape(system.app_url)}/correio/parar/[^"]+)"', shown)
    status, asked = await page(merchant.production, link)
    assert (status, merchant.record.name in asked, 'method="post"' in asked) == (200, True, True)
    # Opening the link does not unsubscribe: programs follow links.
    assert (await ask(merchant.production, charge["charge_id"], to=to)).body["status"] == "queued"
    for _ in range(2):
        status, done = await page(merchant.production, link, method="POST", data={"List-Unsubscribe": "One-Click"})
        assert (status, "Pronto" in done) == (200, True)
    stopped = await ask(merchant.production, charge["charge_id"], to=to.upper())
    assert (stopped.status, stopped.body["status"]) == (202, "stopped")
    async with new_merchant(system) as other:
        its = await other.production.created()
        assert (await ask(other.production, its["charge_id"], to=to)).body["status"] == "queued"
    for broken in (link[:-1], link[:-1] + ("A" if link[-1] != "A" else "B"), link.rpartition("/")[0] + "/x"):
        for method in ("GET", "POST"):
            assert (await page(merchant.production, broken, method=method))[0] == 404


@pytest.mark.parametrize("host", ["evil.example.com", "evil.example.com:80", ""])
async def test_the_mail_catcher_answers_404_to_another_host_name(
    system: System, merchant: ApiMerchant, host: str
) -> None:
    assert (await page(merchant.production, f"{system.app_url}/correio"))[0] == 200
    async with aiohttp.ClientSession() as http, http.get(f"{system.app_url}/correio", headers={"Host": host}) as answer:
        assert answer.status == 404


async def test_a_production_charge_with_send_email_is_mailed_after_its_creation(
    system: System, merchant: ApiMerchant
) -> None:
    to, of_boleto = address(), address()
    await merchant.production.created(send_email=True, payer={"email": to})
    await caught(system, merchant.production, to)
    await issue_boleto(merchant.production, send_email=True, pagador={**PAGADOR, "email": of_boleto})
    await caught(system, merchant.production, of_boleto)


async def test_a_test_charge_with_send_email_is_created_and_not_mailed(system: System, merchant: ApiMerchant) -> None:
    to, late = address(), address()
    assert (await merchant.sandbox.create(send_email=True)).status == 201
    await issue_boleto(merchant.sandbox, send_email=True, pagador={**PAGADOR, "email": to})
    charge = await merchant.sandbox.created(send_email=True, payer={"email": to})
    assert (await merchant.sandbox.pay(charge["charge_id"])).status == 200
    # A mail requested later has arrived, and none of the test charges' mails has.
    await merchant.production.created(send_email=True, payer={"email": late})
    await caught(system, merchant.production, late)
    assert await mails_to(system, merchant.production, to) == []


async def test_send_email_accepts_only_true_false_or_null(merchant: ApiMerchant) -> None:
    for good in (True, False, None):
        assert (await merchant.sandbox.create(send_email=good)).status == 201
    wrong: tuple[Any, ...] = ("true", 1, [], {})
    for bad in wrong:
        assert (await merchant.sandbox.create(send_email=bad)).code == "VALIDATION_ERROR"
    bad_payer = {**PAGADOR, "email": "x"}
    answer = await merchant.sandbox.ask(
        "POST", "/v1/charges/boleto", key=str(uuid4()),
        json={"tipo": "boleto", "valorCents": "1.00", "dataVencimento": "2030-01-02", "pagador": bad_payer},
    )  # fmt: skip
    assert [field["field"] for field in answer.body["error"]["fields"]] == ["pagador.email"]
