"""The dashboard in front of the whole system: the account of dev.json, slips at their bank, every API process."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import aiohttp
import pytest
import pytest_asyncio

from tests.dashboard import Person, person_of
from tests.merchant import Shop, books_of, new_shop
from tests.slip_shop import at_bank, issued
from tests.system import System
from tests.webhooks import receiving

STOPS_WITHIN_S = 5.0


class Desk(NamedTuple):
    shop: Shop
    owner: Person


@pytest_asyncio.fixture(loop_scope="session")
async def desk(system: System) -> AsyncIterator[Desk]:
    async with new_shop(system) as shop, person_of(system.app_url, shop.record) as owner:
        yield Desk(shop, owner)


async def test_the_password_of_dev_json_opens_the_dashboard_and_every_page_of_it(system: System) -> None:
    for merchant in system.merchants:
        person = Person(system.app_url, **merchant["dashboard"])
        try:
            assert (await person.sign_in()).status == 303
            for path in ("", "/cobrancas", "/pagamentos", "/extrato", "/tokens", "/webhooks", "/teste/cobrancas"):
                assert merchant["name"] in (await person.opened(f"/painel{path}")).text
        finally:
            await person.http.close()


@pytest.mark.parametrize("mode", ["sandbox", "production"])
async def test_a_slip_is_written_off_at_the_bank_and_then_cancelled(desk: Desk, system: System, mode: str) -> None:
    door = getattr(desk.shop, mode)
    slip = await issued(door)
    base = "/painel/teste" if mode == "sandbox" else "/painel"
    path = f"{base}/cobrancas/{slip['charge_id']}"
    page = await desk.owner.opened(path)
    assert slip["boleto"]["nosso_numero"] in page.text
    async with desk.owner.http.get(f"{system.app_url}/pagar/{slip['public_id']}/boleto.pdf") as pdf:
        assert pdf.content_type == "application/pdf"
    done = await desk.owner.post(f"{path}/cancelar", on=path, reason="cancelled")
    assert done.where == f"{path}?feito=cancelada", done.text[:300]
    assert (await door.charge(slip["charge_id"]))["status"] == "cancelled"
    async with books_of(system) as books:
        assert (await at_bank(books, slip["boleto"]["nosso_numero"]))["written_off_at"] is not None
    again = await desk.owner.post(f"{path}/cancelar", on=path, reason="cancelled")
    assert again.status == 409
    assert f"por {desk.owner.email}, no painel" in (await desk.owner.opened(path)).text


async def test_a_test_slip_is_paid_by_its_simulated_payer(desk: Desk) -> None:
    slip = await issued(desk.shop.sandbox)
    path = f"/painel/teste/cobrancas/{slip['charge_id']}"
    assert (await desk.owner.post(f"{path}/pagar", on=path)).where == f"{path}?feito=simulado"
    assert (await desk.shop.sandbox.charge(slip["charge_id"]))["status"] == "paid"


async def test_while_the_bank_is_silent_the_slip_stays_and_nothing_is_claimed(desk: Desk, system: System) -> None:
    slip = await issued(desk.shop.production)
    path = f"/painel/cobrancas/{slip['charge_id']}"
    system.json("bank", "fault", "down")
    try:
        refused = await desk.owner.post(f"{path}/cancelar", on=path, reason="cancelled")
    finally:
        system.json("bank", "fault", "up")
    assert (refused.status, "O banco não confirmou" in refused.text) == (502, True)
    assert (await desk.shop.production.charge(slip["charge_id"]))["status"] == "pending"


async def test_a_revoked_credential_stops_in_every_process_within_five_seconds(desk: Desk, system: System) -> None:
    assert len(system.pids("api")) > 1
    token = await desk.shop.production.token()

    async def refused() -> bool:
        # A connection each: every process is asked.
        connector = aiohttp.TCPConnector(force_close=True)
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(connector=connector, headers=headers) as http:

            async def status() -> int:
                async with http.get(f"{system.base_url}/v1/charges") as answer:
                    return answer.status

            return set(await asyncio.gather(*(status() for _ in range(12)))) == {401}

    assert not await refused()
    path = f"/painel/tokens/{desk.shop.record.production.client_id}"
    await desk.owner.post(f"{path}/revogar", on=path, sure="yes")
    began = time.monotonic()
    while not await refused():
        assert time.monotonic() - began < STOPS_WITHIN_S
        await asyncio.sleep(0.1)


async def test_a_test_event_reaches_the_receiver_and_its_charge_is_in_the_api(desk: Desk) -> None:
    async with receiving() as receiver:
        assert (await desk.owner.post("/painel/webhooks", on="/painel/webhooks", url=receiver.url)).status == 200
        await desk.owner.post("/painel/teste/webhooks/testar", on="/painel/webhooks")
        await receiver.reached(1)
        (event,) = await desk.shop.sandbox.events()
        assert event["event_id"] == receiver.requests[0].event_id
        assert (await desk.shop.sandbox.charge(event["charge_id"]))["status"] == "paid"
        assert await desk.shop.production.events() == []
