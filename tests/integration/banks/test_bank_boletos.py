"""Boletos at the simulated bank, as production mode and the sandbox use them: payments, announcements, scenarios,
wiring."""

import asyncio
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import httpx
import msgspec
import pytest
import pytest_asyncio

from banks.banco_do_brasil.agreement import boleto_codes
from banks.boletos import NOT_FOUND, NUMBER_TAKEN, PAID, WRITTEN_OFF, BoletoState, NewBoleto, NotYet
from banks.choice import open_banks
from banks.protocol import Done, NotFound, Rejected, Unknown
from banks.scenario import acting
from banks.simulated.__main__ import opened_app
from banks.simulated.bank import SANDBOX, SimulatedBank
from banks.simulated.boletos import BoletoRules
from domain.mode import Mode
from runtime.local.ports import free_port
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.support.bank_lists import boletos_paid
from tests.support.banking import SECRET_KEY, settings_for, utc_now
from tests.support.boleto_bank import (
    Receiver,
    RunningBoletoBank,
    new_boleto,
    new_number,
    receiver,
    running_boleto_bank,
    today,
)
from tests.support.br_code_reader import parse_br_code
from tests.support.listening import listening
from web.app import make_app


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(pool: Pool) -> AsyncIterator[RunningBoletoBank]:
    async with running_boleto_bank(pool) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def announcements(bank: RunningBoletoBank) -> AsyncIterator[Receiver]:
    """A receiver of the bank's announcements, registered with the bank."""
    async with receiver() as receiving:
        status, _ = await bank.control("boleto-webhook", url=receiving.url)
        assert status == 200
        yield receiving


@pytest.fixture
def sandbox(pool: Pool) -> SimulatedBank:
    return SimulatedBank(
        pool, Seal(bytes.fromhex(SECRET_KEY)), world=SANDBOX, url="http://app.example:8000", now=utc_now
    )


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def reset_bank_rules(bank: RunningBoletoBank, sandbox: SimulatedBank) -> None:
    bank.wire.fault = "up"
    await bank.books.set_rules(BoletoRules(apply_30_minutes=False, detail_cache_s=0, settle_after_s=600))
    await sandbox.boletos.set_rules(BoletoRules(apply_30_minutes=False, detail_cache_s=0, settle_after_s=0))


async def register_boleto(bank: Any, **fields: Any) -> NewBoleto:
    boleto = new_boleto(**fields)
    assert isinstance(await bank.boletos.register_boleto(boleto), Done)
    return boleto


async def state_of(bank: Any, boleto: NewBoleto) -> BoletoState:
    state = await bank.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    return state


# Payers and announcements


async def test_a_payment_is_announced_first_and_settles_later(bank: RunningBoletoBank, announcements: Receiver) -> None:
    adapter = bank.adapter()
    boleto = await register_boleto(adapter)
    status, paid = await bank.control("pay", number=boleto.number)
    assert (status, paid["payments"][0]["amount"]) == (200, "123.45")
    assert (await state_of(adapter, boleto)).status == "in_between"
    (item,) = await announcements.told(boleto.number, 1)
    assert isinstance(announcements.bodies[0], list)
    assert item["codigoEstadoBaixaOperacional"] in (1, 2)
    assert item["dataVencimento"] == f"{boleto.due_on:%d.%m.%Y}"
    time.strptime(item["dataLiquidacao"], "%d/%m/%Y %H:%M:%S")
    assert (item["valorPagoSacado"], item["canalLiquidacao"]) == (123.45, 3)
    await bank.settled(boleto.number)
    state = await state_of(adapter, boleto)
    assert (state.status, state.paid_cents, state.paid_on) == ("paid", 12345, today())
    assert len(announcements.items(boleto.number)) == 1


async def test_an_announcement_is_repeated_until_it_is_accepted(
    bank: RunningBoletoBank, announcements: Receiver
) -> None:
    announcements.answers = [500, 302, 200]
    boleto = await register_boleto(bank.adapter())
    await bank.control("pay", number=boleto.number)
    items = await announcements.told(boleto.number, 3)
    assert len(items) == 3
    assert items[0] == items[2]


async def test_a_payment_that_is_called_off_reopens_the_boleto(
    bank: RunningBoletoBank, announcements: Receiver
) -> None:
    adapter = bank.adapter()
    boleto = await register_boleto(adapter)
    await bank.control("pay", number=boleto.number)
    await announcements.told(boleto.number, 1)
    await bank.control("boleto-call-off", number=boleto.number)
    _, off = await announcements.told(boleto.number, 2)
    assert off["codigoEstadoBaixaOperacional"] == 10
    assert (await state_of(adapter, boleto)).status == "open"
    assert await bank.control("boleto-call-off", number=boleto.number) == (200, {"called_off": 0})
    status, _ = await bank.control("pay", number=boleto.number)
    assert status == 200


@pytest.mark.parametrize(("first", "second"), [("boleto", "pix"), ("pix", "boleto")])
async def test_a_payment_on_one_rail_closes_the_other_except_for_money_already_under_way(
    bank: RunningBoletoBank, announcements: Receiver, first: str, second: str
) -> None:
    adapter = bank.adapter()
    boleto = await register_boleto(adapter, hybrid=True)
    assert (await bank.control("pay", number=boleto.number, rail=first))[0] == 200
    status, refused = await bank.control("pay", number=boleto.number, rail=second)
    assert (status, refused["message"]) == (409, "the boleto is being paid at the bank")
    await bank.settled(boleto.number)
    assert (await bank.control("pay", number=boleto.number, rail=second))[0] == 409
    assert (await state_of(adapter, boleto)).paid_cents == 12345
    assert (await bank.control("pay", number=boleto.number, rail=second, force=True))[0] == 200
    assert {item["canalLiquidacao"] for item in await announcements.told(boleto.number, 2)} == {3, 4}
    await bank.settled(boleto.number)
    state = await state_of(adapter, boleto)
    assert (state.status, state.paid_cents, state.paid_by_pix) == ("paid", 24690, second == "pix")


async def test_a_boleto_written_off_still_receives_money_that_was_already_under_way(bank: RunningBoletoBank) -> None:
    adapter = bank.adapter()
    boleto = await register_boleto(adapter)
    assert await adapter.boletos.write_off_boleto(boleto.number) == Done(None)
    status, refused = await bank.control("pay", number=boleto.number)
    assert (status, refused["message"]) == (409, "the boleto was written off at the bank")
    assert (await bank.control("pay", number=boleto.number, force=True, amount="5.00"))[0] == 200
    await bank.settled(boleto.number)
    state = await state_of(adapter, boleto)
    assert (state.status, state.paid_cents) == ("paid", 500)
    paid = await boletos_paid(adapter.boletos, today(), today())
    assert isinstance(paid, Done)
    assert [each.paid_cents for each in paid.value if each.number == boleto.number] == [500]


async def test_a_payment_names_the_boleto_by_line_txid_or_number(bank: RunningBoletoBank) -> None:
    hybrid = [await register_boleto(bank.adapter(), hybrid=True) for _ in range(3)]
    _, line = boleto_codes(hybrid[0].number, due_on=hybrid[0].due_on, amount_cents=12345)
    assert (await bank.control("pay", line=line))[0] == 200
    booked = await bank.books.booked(hybrid[1].number)
    assert booked is not None
    _, paid = await bank.control("pay", txid=booked.txid)
    assert paid["payments"][0]["rail"] == "pix"
    named = {"charge_id": "0194d6cc-0000-7000-8000-000000000000", "number": hybrid[2].number}
    assert (await bank.control("pay", **named))[0] == 200


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"line": "1" * 47}, 400), ({"number": "12"}, 400), ({"number": 12}, 400), ({"rail": "ted"}, 400),
        ({"times": 0}, 400), ({"times": 101}, 400), ({"amount": "1,00"}, 400), ({"amount": 1}, 400),
        # With a fixed id, all processes of the test run give this test the same name.
        pytest.param({"number": new_number()}, 404, id="unknown number"), ({"rail": "pix"}, 409),
    ],
    ids=str,
)  # fmt: skip
async def test_a_payment_that_is_impossible_is_refused_with_a_message(
    bank: RunningBoletoBank, asked: dict[str, Any], status: int
) -> None:
    boleto = await register_boleto(bank.adapter())
    said, body = await bank.control("pay", **({"number": boleto.number} | asked))
    assert (said, list(body)) == (status, ["message"])


async def test_an_expired_boleto_and_a_line_from_before_a_redating_cannot_be_paid(
    bank: RunningBoletoBank, pool: Pool
) -> None:
    adapter = bank.adapter()
    boleto = await register_boleto(adapter)
    _, old = boleto_codes(boleto.number, due_on=boleto.due_on, amount_cents=12345)
    await adapter.boletos.redate_boleto(boleto.number, boleto.due_on + timedelta(days=1))
    assert (await bank.control("pay", line=old))[0] == 409
    await pool.execute(
        "UPDATE simulated_boleto SET due_on = $2 WHERE number = $1", boleto.number, today() - timedelta(days=9)
    )
    assert (await bank.control("pay", number=boleto.number))[0] == 409


async def test_the_control_interface_refuses_invalid_rules_and_faults(bank: RunningBoletoBank) -> None:
    for path, body in (
        ("boleto-webhook", {"url": "ftp://x"}), ("boleto-webhook", {}), ("boleto-rules", {"settle_after_s": -1}),
        ("boleto-rules", {"apply_30_minutes": "yes"}), ("boleto-call-off", {}), ("fault", {"fault": "sulk"}),
    ):  # fmt: skip
        assert (await bank.control(path, **body))[0] == 400
    for fault in ("timeout_before", "cut", "error500", "html", "up"):
        assert (await bank.control("fault", fault=fault))[0] == 200


# The sandbox's own books


async def test_the_sandbox_registers_pays_and_shows_a_boleto_at_once(sandbox: SimulatedBank) -> None:
    boleto = new_boleto(hybrid=True)
    made = await sandbox.boletos.register_boleto(boleto)
    assert isinstance(made, Done)
    assert made.value.qr_code is not None
    assert parse_br_code(made.value.qr_code)["26-25"].startswith("app.example:8000/pix/v2/cobv/")
    assert await sandbox.boletos.register_boleto(boleto) == made
    (payment,) = await sandbox.boletos.pay(boleto.number, rail="boleto", tell=False)
    assert payment.amount_cents == 12345
    state = await state_of(sandbox, boleto)
    assert (state.status, state.paid_cents, state.paid_on, state.paid_by_pix) == ("paid", 12345, today(), False)
    paid = await boletos_paid(sandbox.boletos, today(), today())
    assert isinstance(paid, Done)
    assert boleto.number in {each.number for each in paid.value}
    for answer in (
        await sandbox.boletos.write_off_boleto(boleto.number),
        await sandbox.boletos.redate_boleto(boleto.number, boleto.due_on),
    ):
        assert isinstance(answer, Rejected)
        assert answer.code == PAID


async def test_the_sandbox_refuses_with_the_codes_of_the_bank(sandbox: SimulatedBank, pool: Pool) -> None:
    assert await sandbox.boletos.find_boleto(new_number()) == NotFound()
    missing = await sandbox.boletos.write_off_boleto(new_number())
    assert isinstance(missing, Rejected)
    assert missing.code == NOT_FOUND
    boleto = await register_boleto(sandbox)
    taken = await sandbox.boletos.register_boleto(new_boleto(number=boleto.number, amount_cents=1))
    assert isinstance(taken, Rejected)
    assert taken.code == NUMBER_TAKEN
    later = boleto.due_on + timedelta(days=2)
    await sandbox.boletos.set_rules(BoletoRules(apply_30_minutes=True, detail_cache_s=0, settle_after_s=0))
    young = await sandbox.boletos.write_off_boleto(boleto.number)
    assert isinstance(young, NotYet)
    assert young.retry_at is not None
    assert timedelta(minutes=29) < young.retry_at - utc_now() <= timedelta(minutes=30)
    assert isinstance(await sandbox.boletos.redate_boleto(boleto.number, later), NotYet)
    past = utc_now() - timedelta(minutes=31)
    await pool.execute("UPDATE simulated_boleto SET registered_at = $2 WHERE number = $1", boleto.number, past)
    assert await sandbox.boletos.redate_boleto(boleto.number, later) == Done(None)
    assert (await state_of(sandbox, boleto)).due_on == later
    assert await sandbox.boletos.write_off_boleto(boleto.number) == Done(None)
    assert await sandbox.boletos.write_off_boleto(boleto.number) == Done(None)
    redated = await sandbox.boletos.redate_boleto(boleto.number, later)
    assert isinstance(redated, Rejected)
    assert redated.code == WRITTEN_OFF
    assert await sandbox.boletos.pay(boleto.number, rail="boleto") == []
    again = await sandbox.boletos.register_boleto(new_boleto(number=boleto.number, due_on=later))
    assert isinstance(again, Rejected)
    assert again.code == WRITTEN_OFF


async def test_the_sandbox_and_the_production_bank_do_not_share_boletos(
    bank: RunningBoletoBank, sandbox: SimulatedBank
) -> None:
    boleto = await register_boleto(sandbox)
    assert await bank.adapter().boletos.find_boleto(boleto.number) == NotFound()
    assert isinstance(await bank.adapter().boletos.register_boleto(boleto), Done)
    assert await sandbox.boletos.write_off_boleto(boleto.number) == Done(None)
    assert (await state_of(bank.adapter(), boleto)).status == "open"


async def test_of_a_write_off_and_two_payments_at_once_exactly_one_succeeds(sandbox: SimulatedBank) -> None:
    outcomes = set()
    for _ in range(15):
        boleto = await register_boleto(sandbox)
        written, *paid = await asyncio.gather(
            sandbox.boletos.write_off(boleto.number),
            sandbox.boletos.pay(boleto.number, rail="boleto", tell=False),
            sandbox.boletos.pay(boleto.number, rail="boleto", tell=False),
        )
        assert (written == "done") + sum(map(len, paid)) == 1
        outcomes.add(written)
    assert outcomes <= {"done", "paid"}


# Scenarios of X-Sandbox-Bank


async def test_an_unavailable_bank_does_nothing_however_often_it_is_called(sandbox: SimulatedBank) -> None:
    boleto = new_boleto()
    for attempt in range(1, 5):
        answer = await acting(sandbox, "unavailable", attempt=attempt).boletos.register_boleto(boleto)
        assert isinstance(answer, Unknown)
    assert await sandbox.boletos.find_boleto(boleto.number) == NotFound()


async def test_a_boleto_whose_reply_was_lost_is_found_at_the_second_attempt(sandbox: SimulatedBank) -> None:
    boleto = new_boleto()
    assert isinstance(await acting(sandbox, "lost_reply", attempt=1).boletos.register_boleto(boleto), Unknown)
    assert (await state_of(sandbox, boleto)).status == "open"
    assert isinstance(await acting(sandbox, "lost_reply", attempt=2).boletos.register_boleto(boleto), Done)
    assert isinstance(await acting(sandbox, "lost_reply", attempt=1).boletos.write_off_boleto(boleto.number), Unknown)
    assert await acting(sandbox, "lost_reply", attempt=2).boletos.write_off_boleto(boleto.number) == Done(None)


async def test_a_refusing_bank_changes_nothing(sandbox: SimulatedBank) -> None:
    boleto = await register_boleto(sandbox)
    refusing = acting(sandbox, "refuse", attempt=1)
    assert isinstance(await refusing.boletos.register_boleto(new_boleto()), Rejected)
    assert isinstance(await refusing.boletos.redate_boleto(boleto.number, today()), Rejected)
    assert isinstance(await refusing.boletos.write_off_boleto(boleto.number), Rejected)
    state = await refusing.boletos.find_boleto(boleto.number)
    assert isinstance(state, BoletoState)
    assert (state.status, state.due_on) == ("open", boleto.due_on)


async def test_a_slow_bank_answers_in_the_end(sandbox: SimulatedBank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banks.scenario.SLOW_S", 0.2)
    started = asyncio.get_running_loop().time()
    assert isinstance(await acting(sandbox, "slow", attempt=1).boletos.register_boleto(new_boleto()), Done)
    assert asyncio.get_running_loop().time() - started >= 0.2


# Wiring


async def test_boletos_work_between_the_workers_banks_and_the_process_of_the_simulated_bank(pool: Pool) -> None:
    port = free_port()
    settings = settings_for(f"http://127.0.0.1:{port}")
    async with opened_app(settings, pool) as app, listening(app, port) as url, aiohttp.ClientSession() as http:
        banks = open_banks(settings, pool, http, Seal(settings.secret_key))
        for each in Mode:
            boleto = await register_boleto(banks.of(each, settings.bank), hybrid=True)
            assert (await state_of(banks.of(each, settings.bank), boleto)).status == "open"
        async with http.get(f"{url}/simulated/boleto-rules") as answer:
            assert (await answer.json())["apply_30_minutes"] is False


async def test_the_qr_code_of_a_sandbox_boleto_leads_to_its_payload(pool: Pool) -> None:
    settings = settings_for()
    sandbox = SimulatedBank(pool, Seal(settings.secret_key), world=SANDBOX, url=settings.app_url, now=utc_now)
    made = await sandbox.boletos.register_boleto(new_boleto(hybrid=True, description="PARCELA"))
    assert isinstance(made, Done)
    assert made.value.qr_code is not None
    path = "/" + parse_br_code(made.value.qr_code)["26-25"].partition("/")[2]
    app = make_app(settings, pool=pool)
    transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]  # Litestar types its scopes more closely
    async with app.lifespan(), httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "application/jose")
        said = msgspec.json.decode(urlsafe_b64decode(answer.text.split(".")[1] + "=="))
        assert (said["status"], said["solicitacaoPagador"]) == ("ATIVA", "PARCELA")
        assert (await client.get(path[:-1] + "~")).status_code == 404
