"""Tasks of merchants, payers and their programs from end to end, in a real browser against the whole system."""

import asyncio
import io
import json
import os
import re
import signal
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote
from urllib.request import Request

import pytest

from tests.support.browser import Browser, Tab
from tests.support.merchant import ApiClient, ApiMerchant, new_merchant, until_answer, until_replaced
from tests.support.system import ROOT, System


@asynccontextmanager
async def signed_in(
    browser: Browser, system: System, merchant: ApiMerchant, *, where_to: str = ""
) -> AsyncIterator[Tab]:
    """A tab of the merchant's owner, just signed in with e-mail and password."""
    async with browser.tab() as tab:
        await tab.screen(1280)
        entry = f"{system.app_url}/painel/entrar" + (f"?para={quote(where_to)}" if where_to else "")
        await tab.sign_in(entry, merchant.record.dashboard.email, merchant.record.dashboard.password)
        yield tab
        # No request failed, and nothing violated our pages' content security policy.
        assert tab.complaints == []


async def value_of_field(tab: Tab, label: str) -> str:
    """The value of the read-only value_of_field with this label."""
    found = (
        f"[...document.querySelectorAll('label')].find((each) => each.textContent.trim() === {label!r})?.control.value"
    )
    return str(await tab.value(found))


async def test_an_owner_signs_in_creates_a_credential_and_sees_its_first_charge_paid(
    system: System, browser: Browser
) -> None:
    async with new_merchant(system) as merchant, signed_in(browser, system, merchant) as owner:
        await owner.until("location.pathname", "/painel")
        await owner.open(f"{system.app_url}/painel/teste/tokens")
        await owner.press("details.new summary")
        await owner.fill("#name-t", "Loja virtual")
        await owner.leaves("details.new button[type=submit]")
        assert await owner.text("h1") == "Credencial criada"
        client_id, secret = await value_of_field(owner, "client_id"), await value_of_field(owner, "client_secret")

        # A program of the merchant, with the secret that was shown once.
        program = ApiClient(system.base_url, merchant.record.account_id, client_id, secret)
        try:
            charge = await program.created("149.90", external_id="pedido-1")
            async with browser.tab() as payer:
                await payer.screen(390, scheme="dark")
                await payer.open(f"{system.app_url}/pagar/{charge['public_id']}")
                assert "TESTE - não pague" in await payer.text()
                await payer.until("document.querySelector('.countdown')?.innerText.startsWith('Expira em')")
                await payer.press("[data-copy=pix-code]")
                await payer.until("document.querySelector('[data-copy=pix-code]').innerText", "✓ Código copiado")
                await payer.value("window.stayed = true")

                assert (await program.pay(charge["charge_id"])).status == 200

                await payer.until("document.querySelector('h1').innerText", "Pagamento confirmado")
                assert await payer.value("window.stayed") is True
                assert "149,90" in await payer.text()
                assert payer.complaints == []
        finally:
            await program.http.close()

        await owner.open(f"{system.app_url}/painel/teste/cobrancas")
        assert "pedido-1" in await owner.text("main")
        await owner.leaves("main .row-link")
        assert "Paga" in await owner.text(".page-head")
        assert "149,90" in await owner.text("main")


async def test_an_owner_rotates_a_secret_with_an_overlap_and_then_without_one(system: System, browser: Browser) -> None:
    async with new_merchant(system) as merchant:
        given = merchant.record.test
        page = f"/painel/teste/tokens/{given.client_id}"
        async with signed_in(browser, system, merchant, where_to=page) as owner:
            await owner.until("location.pathname", page)
            secrets = [given.client_secret]
            for overlap in ("24h", "now"):
                await owner.open(system.app_url + page)
                await owner.press(f"label[for=overlap-{overlap}]")
                await owner.leaves("form[action$='/trocar'] button")
                assert await owner.text("h1") == "Segredo trocado"
                secrets.append(await value_of_field(owner, "client_secret"))
                # With an overlap the previous secrets still work; with "now" only the new one does.
                works = [await gets_a_token(merchant.sandbox, given.client_id, each) for each in secrets]
                assert works == [overlap == "24h"] * (len(secrets) - 1) + [True]


async def gets_a_token(client: ApiClient, client_id: str, secret: str) -> bool:
    """Whether the secret gets a token."""
    given = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
    async with client.http.post(f"{client.base_url}/v1/oauth/token", data=given) as answer:
        assert answer.status in (200, 401)
        return answer.status == 200


async def test_an_owner_finds_a_duplicate_payment_and_refunds_it(system: System, browser: Browser) -> None:
    async with new_merchant(system) as merchant:
        charge = await merchant.sandbox.created("25.00", external_id="pago-duas-vezes")
        answer = await merchant.sandbox.post(f"/v1/sandbox/charges/{charge['charge_id']}/pay", {"times": 2})
        assert answer.status == 200, answer.raw
        async with signed_in(browser, system, merchant) as owner:
            await owner.open(f"{system.app_url}/painel/teste/pagamentos")
            await owner.value("document.querySelector('#f-anomaly').value = 'duplicate'")
            await owner.leaves(".filter-foot button")
            assert (await owner.text("main")).count("pago-duas-vezes") >= 1
            await owner.leaves("main a[href*='/devolver']")
            assert "Devolver" in await owner.text("h1")
            await owner.fill("#i-reason", "pago duas vezes")
            await owner.press("label[for=sure]")
            await owner.leaves("form[action$='/devolver'] button[type=submit]")
            assert "/cobrancas/" in str(await owner.value("location.pathname"))
            assert "pago duas vezes" in await owner.text("main")

            async def refund_succeeded() -> bool:
                refunds = (await merchant.sandbox.get("/v1/refunds", charge_id=charge["charge_id"])).body["data"]
                return [(each["amount"], each["status"]) for each in refunds] == [("25.00", "succeeded")]

            await until_answer(refund_succeeded)
            (duplicate,) = await merchant.sandbox.all("/v1/payments", anomaly="duplicate")
            assert duplicate["refunded_amount"] == "25.00"
            # The payment that settled the charge is not refunded.
            assert (await merchant.sandbox.charge(charge["charge_id"]))["status"] == "paid"
            await owner.open(f"{system.app_url}/painel/teste/devolucoes")
            assert "25,00" in await owner.text("main")


async def test_an_api_process_that_stops_does_not_wait_for_open_event_streams(system: System) -> None:
    """Otherwise every deployment would wait for streams that last minutes, as long as a request may take at most."""
    async with new_merchant(system) as merchant:
        charges = [await merchant.sandbox.created() for _ in range(2)]
        addresses = [f"{system.app_url}/pagar/{charge['public_id']}/eventos" for charge in charges]
        streams = [await merchant.sandbox.http.get(address) for address in addresses for _ in range(12)]
        assert {stream.status for stream in streams} == {200}
        first, *_ = system.pids("api")
        os.kill(first, signal.SIGTERM)
        ends = [asyncio.create_task(stream.content.read()) for stream in streams]
        done, _ = await asyncio.wait(ends, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert done  # of 24 streams over two processes, the stopped one had some
        await asyncio.to_thread(until_replaced, system, "api", first)
        for end in ends:
            end.cancel()
        for stream in streams:
            stream.close()


def _reader_of_the_guide(base_url: str) -> Any:
    """The function `catch_up` of the program printed in the guide."""
    text = (ROOT / "docs" / "reconciliation.md").read_text(encoding="utf-8").replace("{base_url}", base_url)
    (program,) = re.findall(r"```python\n(.*?)```", text, re.S)
    printed: dict[str, Any] = {}
    exec(program, printed)  # noqa: S102 - our own text, as a reader would run it
    return printed["catch_up"]


def test_the_guides_feed_reader_starts_at_the_oldest_event_and_detects_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events leave the feed after 400 days: the first sequence number need not be 1, but no later number is missing."""

    def feed(numbers: list[int]) -> Any:
        def answer(request: Request, timeout: float) -> io.BytesIO:
            (after,) = re.findall(r"after_sequence=(\d+)", request.full_url)
            return io.BytesIO(json.dumps({"data": [{"sequence": n} for n in numbers if n > int(after)]}).encode())

        return answer

    catch_up = _reader_of_the_guide("https://api.example.com")
    monkeypatch.setattr(urllib.request, "urlopen", feed([41, 42, 43]))
    found: list[dict[str, Any]] = []
    assert catch_up("token", 0, found.append) == 43
    assert [each["sequence"] for each in found] == [41, 42, 43]
    monkeypatch.setattr(urllib.request, "urlopen", feed([41, 43]))
    with pytest.raises(RuntimeError, match="event 42 is missing"):
        catch_up("token", 0, found.append)


async def test_the_guides_feed_reader_finds_every_event(system: System) -> None:
    catch_up = _reader_of_the_guide(system.base_url)
    async with new_merchant(system) as merchant:
        for _ in range(3):
            await merchant.sandbox.paid()
        token = await merchant.sandbox.token()
        found: list[dict[str, Any]] = []
        assert await asyncio.to_thread(catch_up, token, 0, found.append) == 3
        assert found == await merchant.sandbox.events()
        assert await asyncio.to_thread(catch_up, token, 3, found.append) == 3
        assert len(found) == 3
