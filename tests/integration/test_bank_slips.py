"""The simulated bank's slips as production mode and the sandbox use them: payers, announcements, scenarios, wiring."""

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
from aiohttp import web

from banks.base import Done, NotFound, Refused, Unknown
from banks.choice import open_banks
from banks.scenario import acting
from banks.simulated.__main__ import opened_app
from banks.simulated.bank import SANDBOX, SimulatedBank
from banks.simulated.slips import Rules
from banks.slips import NOT_FOUND, NUMBER_TAKEN, PAID, WRITTEN_OFF, NotYet, Slip, SlipState, slip_codes
from domain.br_code import parse_br_code
from runtime.embedded import free_port
from runtime.postgres import Pool
from runtime.seal import Seal
from tests.banking import SECRET_KEY, settings_for, utc_now
from tests.slip_bank import Receiver, RunningSlipBank, new_number, new_slip, receiver, running_slip_bank, today
from web.app import make_app


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(pool: Pool) -> AsyncIterator[RunningSlipBank]:
    async with running_slip_bank(pool) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def told(bank: RunningSlipBank) -> AsyncIterator[Receiver]:
    """Our address, registered with the bank."""
    async with receiver() as receiving:
        status, _ = await bank.control("slip-webhook", url=receiving.url)
        assert status == 200
        yield receiving


@pytest.fixture
def sandbox(pool: Pool) -> SimulatedBank:
    return SimulatedBank(
        pool, Seal(bytes.fromhex(SECRET_KEY)), world=SANDBOX, url="http://app.example:8000", now=utc_now
    )


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def as_delivered(bank: RunningSlipBank, sandbox: SimulatedBank) -> None:
    bank.wire.fault = "up"
    await bank.books.set_rules(Rules(apply_30_minutes=False, detail_cache_s=0, settle_after_s=600))
    await sandbox.slips.set_rules(Rules(apply_30_minutes=False, detail_cache_s=0, settle_after_s=0))


async def registered(bank: Any, **fields: Any) -> Slip:
    slip = new_slip(**fields)
    assert isinstance(await bank.register_slip(slip), Done)
    return slip


async def state_of(bank: Any, slip: Slip) -> SlipState:
    state = await bank.find_slip(slip.number)
    assert isinstance(state, SlipState)
    return state


# Payers and announcements


async def test_a_payment_is_announced_first_and_settled_after_a_while(bank: RunningSlipBank, told: Receiver) -> None:
    adapter = bank.adapter()
    slip = await registered(adapter)
    status, paid = await bank.control("pay", number=slip.number)
    assert (status, paid["payments"][0]["amount"]) == (200, "123.45")
    assert (await state_of(adapter, slip)).status == "in_between"
    (item,) = await told.told(slip.number, 1)
    assert isinstance(told.bodies[0], list)
    assert item["codigoEstadoBaixaOperacional"] in (1, 2)
    assert item["dataVencimento"] == f"{slip.due_on:%d.%m.%Y}"
    time.strptime(item["dataLiquidacao"], "%d/%m/%Y %H:%M:%S")
    assert (item["valorPagoSacado"], item["canalLiquidacao"]) == (123.45, 3)
    await bank.settled(slip.number)
    state = await state_of(adapter, slip)
    assert (state.status, state.paid_cents, state.paid_on) == ("paid", 12345, today())
    assert len(told.items(slip.number)) == 1


async def test_an_announcement_is_repeated_until_it_is_heard(bank: RunningSlipBank, told: Receiver) -> None:
    told.answers = [500, 302, 200]
    slip = await registered(bank.adapter())
    await bank.control("pay", number=slip.number)
    items = await told.told(slip.number, 3)
    assert len(items) == 3
    assert items[0] == items[2]


async def test_a_payment_called_off_opens_the_slip_again(bank: RunningSlipBank, told: Receiver) -> None:
    adapter = bank.adapter()
    slip = await registered(adapter)
    await bank.control("pay", number=slip.number)
    await told.told(slip.number, 1)
    await bank.control("slip-call-off", number=slip.number)
    _, off = await told.told(slip.number, 2)
    assert off["codigoEstadoBaixaOperacional"] == 10
    assert (await state_of(adapter, slip)).status == "open"
    assert await bank.control("slip-call-off", number=slip.number) == (200, {"called_off": 0})
    status, _ = await bank.control("pay", number=slip.number)
    assert status == 200


@pytest.mark.parametrize(("first", "second"), [("boleto", "pix"), ("pix", "boleto")])
async def test_one_rail_closes_the_other_unless_the_money_was_on_its_way(
    bank: RunningSlipBank, told: Receiver, first: str, second: str
) -> None:
    adapter = bank.adapter()
    slip = await registered(adapter, hybrid=True)
    assert (await bank.control("pay", number=slip.number, rail=first))[0] == 200
    status, refused = await bank.control("pay", number=slip.number, rail=second)
    assert (status, refused["message"]) == (409, "the slip is being paid at the bank")
    await bank.settled(slip.number)
    assert (await bank.control("pay", number=slip.number, rail=second))[0] == 409
    assert (await state_of(adapter, slip)).paid_cents == 12345
    assert (await bank.control("pay", number=slip.number, rail=second, force=True))[0] == 200
    assert {item["canalLiquidacao"] for item in await told.told(slip.number, 2)} == {3, 4}
    await bank.settled(slip.number)
    state = await state_of(adapter, slip)
    assert (state.status, state.paid_cents, state.paid_by_pix) == ("paid", 24690, second == "pix")


async def test_money_for_a_slip_written_off_arrives_when_it_was_on_its_way(bank: RunningSlipBank) -> None:
    adapter = bank.adapter()
    slip = await registered(adapter)
    assert await adapter.write_off_slip(slip.number) == Done(None)
    status, refused = await bank.control("pay", number=slip.number)
    assert (status, refused["message"]) == (409, "the slip was written off at the bank")
    assert (await bank.control("pay", number=slip.number, force=True, amount="5.00"))[0] == 200
    await bank.settled(slip.number)
    state = await state_of(adapter, slip)
    assert (state.status, state.paid_cents) == ("paid", 500)
    paid = await adapter.slips_paid(today(), today())
    assert isinstance(paid, Done)
    assert [each.paid_cents for each in paid.value if each.number == slip.number] == [500]


async def test_a_payer_names_the_slip_as_he_sees_it(bank: RunningSlipBank) -> None:
    hybrid = [await registered(bank.adapter(), hybrid=True) for _ in range(3)]
    _, line = slip_codes(hybrid[0].number, due_on=hybrid[0].due_on, amount_cents=12345)
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
        # The test run's workers must name their tests alike.
        pytest.param({"number": new_number()}, 404, id="unknown number"), ({"rail": "pix"}, 409),
    ],
    ids=str,
)  # fmt: skip
async def test_what_cannot_be_paid_is_told(bank: RunningSlipBank, asked: dict[str, Any], status: int) -> None:
    slip = await registered(bank.adapter())
    said, body = await bank.control("pay", **({"number": slip.number} | asked))
    assert (said, list(body)) == (status, ["message"])


async def test_a_slip_past_its_time_and_an_old_line_are_not_paid(bank: RunningSlipBank, pool: Pool) -> None:
    adapter = bank.adapter()
    slip = await registered(adapter)
    _, old = slip_codes(slip.number, due_on=slip.due_on, amount_cents=12345)
    await adapter.redate_slip(slip.number, slip.due_on + timedelta(days=1))
    assert (await bank.control("pay", line=old))[0] == 409
    await pool.execute(
        "UPDATE simulated_bank.slip SET due_on = $2 WHERE number = $1", slip.number, today() - timedelta(days=9)
    )
    assert (await bank.control("pay", number=slip.number))[0] == 409


async def test_switches_refuse_what_makes_no_sense(bank: RunningSlipBank) -> None:
    for path, body in (
        ("slip-webhook", {"url": "ftp://x"}), ("slip-webhook", {}), ("slip-rules", {"settle_after_s": -1}),
        ("slip-rules", {"apply_30_minutes": "yes"}), ("slip-call-off", {}), ("fault", {"fault": "sulk"}),
    ):  # fmt: skip
        assert (await bank.control(path, **body))[0] == 400
    for fault in ("timeout_before", "cut", "error500", "html", "up"):
        assert (await bank.control("fault", fault=fault))[0] == 200


# The sandbox's own books


async def test_the_sandbox_registers_pays_and_tells_at_once(sandbox: SimulatedBank) -> None:
    slip = new_slip(hybrid=True)
    made = await sandbox.register_slip(slip)
    assert isinstance(made, Done)
    assert (made.value.barcode, made.value.line) == slip_codes(slip.number, due_on=slip.due_on, amount_cents=12345)
    assert made.value.qr_code is not None
    assert parse_br_code(made.value.qr_code)["26-25"].startswith("app.example:8000/pix/v2/cobv/")
    assert await sandbox.register_slip(slip) == made
    (payment,) = await sandbox.slips.pay(slip.number, rail="boleto", tell=False)
    assert payment.amount_cents == 12345
    state = await state_of(sandbox, slip)
    assert (state.status, state.paid_cents, state.paid_on, state.paid_by_pix) == ("paid", 12345, today(), False)
    paid = await sandbox.slips_paid(today(), today())
    assert isinstance(paid, Done)
    assert slip.number in {each.number for each in paid.value}
    for answer in (await sandbox.write_off_slip(slip.number), await sandbox.redate_slip(slip.number, slip.due_on)):
        assert isinstance(answer, Refused)
        assert answer.code == PAID


async def test_the_sandbox_says_no_as_the_bank_does(sandbox: SimulatedBank, pool: Pool) -> None:
    assert await sandbox.find_slip(new_number()) == NotFound()
    missing = await sandbox.write_off_slip(new_number())
    assert isinstance(missing, Refused)
    assert missing.code == NOT_FOUND
    slip = await registered(sandbox)
    taken = await sandbox.register_slip(new_slip(number=slip.number, amount_cents=1))
    assert isinstance(taken, Refused)
    assert taken.code == NUMBER_TAKEN
    later = slip.due_on + timedelta(days=2)
    await sandbox.slips.set_rules(Rules(apply_30_minutes=True, detail_cache_s=0, settle_after_s=0))
    young = await sandbox.write_off_slip(slip.number)
    assert isinstance(young, NotYet)
    assert young.retry_at is not None
    assert timedelta(minutes=29) < young.retry_at - utc_now() <= timedelta(minutes=30)
    assert isinstance(await sandbox.redate_slip(slip.number, later), NotYet)
    past = utc_now() - timedelta(minutes=31)
    await pool.execute("UPDATE simulated_bank.slip SET registered_at = $2 WHERE number = $1", slip.number, past)
    assert await sandbox.redate_slip(slip.number, later) == Done(None)
    assert (await state_of(sandbox, slip)).due_on == later
    assert await sandbox.write_off_slip(slip.number) == Done(None)
    assert await sandbox.write_off_slip(slip.number) == Done(None)
    redated = await sandbox.redate_slip(slip.number, later)
    assert isinstance(redated, Refused)
    assert redated.code == WRITTEN_OFF
    assert await sandbox.slips.pay(slip.number, rail="boleto") == []
    again = await sandbox.register_slip(new_slip(number=slip.number, due_on=later))
    assert isinstance(again, Refused)
    assert again.code == WRITTEN_OFF


async def test_the_worlds_do_not_see_each_other(bank: RunningSlipBank, sandbox: SimulatedBank) -> None:
    slip = await registered(sandbox)
    assert await bank.adapter().find_slip(slip.number) == NotFound()
    assert isinstance(await bank.adapter().register_slip(slip), Done)
    assert await sandbox.write_off_slip(slip.number) == Done(None)
    assert (await state_of(bank.adapter(), slip)).status == "open"


async def test_of_a_write_off_and_payments_at_once_one_wins(sandbox: SimulatedBank) -> None:
    outcomes = set()
    for _ in range(15):
        slip = await registered(sandbox)
        written, *paid = await asyncio.gather(
            sandbox.slips.write_off(slip.number),
            sandbox.slips.pay(slip.number, rail="boleto", tell=False),
            sandbox.slips.pay(slip.number, rail="boleto", tell=False),
        )
        assert (written == "done") + sum(map(len, paid)) == 1
        outcomes.add(written)
    assert outcomes <= {"done", "paid"}


# Scenarios of X-Sandbox-Bank


async def test_an_unavailable_bank_does_nothing_however_often_it_is_asked(sandbox: SimulatedBank) -> None:
    slip = new_slip()
    for attempt in range(1, 5):
        answer = await acting(sandbox, "unavailable", attempt=attempt).register_slip(slip)
        assert isinstance(answer, Unknown)
    assert await sandbox.find_slip(slip.number) == NotFound()


async def test_a_lost_reply_is_found_the_second_time(sandbox: SimulatedBank) -> None:
    slip = new_slip()
    assert isinstance(await acting(sandbox, "lost_reply", attempt=1).register_slip(slip), Unknown)
    assert (await state_of(sandbox, slip)).status == "open"
    assert isinstance(await acting(sandbox, "lost_reply", attempt=2).register_slip(slip), Done)
    assert isinstance(await acting(sandbox, "lost_reply", attempt=1).write_off_slip(slip.number), Unknown)
    assert await acting(sandbox, "lost_reply", attempt=2).write_off_slip(slip.number) == Done(None)


async def test_a_refusing_bank_changes_nothing(sandbox: SimulatedBank) -> None:
    slip = await registered(sandbox)
    refusing = acting(sandbox, "refuse", attempt=1)
    assert isinstance(await refusing.register_slip(new_slip()), Refused)
    assert isinstance(await refusing.redate_slip(slip.number, today()), Refused)
    assert isinstance(await refusing.write_off_slip(slip.number), Refused)
    state = await refusing.find_slip(slip.number)
    assert isinstance(state, SlipState)
    assert (state.status, state.due_on) == ("open", slip.due_on)


async def test_a_slow_bank_answers_in_the_end(sandbox: SimulatedBank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("banks.scenario.SLOW_S", 0.2)
    started = asyncio.get_running_loop().time()
    assert isinstance(await acting(sandbox, "slow", attempt=1).register_slip(new_slip()), Done)
    assert asyncio.get_running_loop().time() - started >= 0.2


# As it is put together


async def test_the_process_and_the_worker_are_wired_for_slips(pool: Pool) -> None:
    port = free_port()
    settings = settings_for(f"http://127.0.0.1:{port}")
    async with opened_app(settings, pool) as app, aiohttp.ClientSession() as http:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            banks = open_banks(settings, pool, http, Seal(settings.secret_key))
            for each in (True, False):
                slip = await registered(banks[each], hybrid=True)
                assert (await state_of(banks[each], slip)).status == "open"
            async with http.get(f"http://127.0.0.1:{port}/simulated/slip-rules") as answer:
                assert (await answer.json())["apply_30_minutes"] is False
        finally:
            await runner.cleanup()


async def test_a_sandbox_slips_code_leads_to_its_payload(pool: Pool) -> None:
    settings = settings_for()
    sandbox = SimulatedBank(pool, Seal(settings.secret_key), world=SANDBOX, url=settings.app_url, now=utc_now)
    made = await sandbox.register_slip(new_slip(hybrid=True, description="PARCELA"))
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
