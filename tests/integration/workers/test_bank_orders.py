"""Bank orders for PIX: a call is repeated with the same identifiers until the bank accepts or refuses it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import asyncpg
import msgspec
import pytest
import pytest_asyncio

from banks.choice import Banks
from banks.protocol import Bank, Cob, Done, Location, NotFound, Rejected, Unknown
from banks.simulated.bank import PayerPix, SimulatedBank
from commands.charges.cancel import cancellation
from commands.charges.change import change_charges
from commands.charges.pay import simulated_payment
from domain.charge import CancelReason
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from runtime.ids import new_id
from runtime.postgres import Pool, transaction
from tests.support.banking import (
    BANK,
    RunningBank,
    make_account,
    make_charges,
    make_orders_due,
    order_of,
    running_bank,
    status_of,
    utc_now,
    worker_context,
)
from tests.support.merchant import until_answer
from tests.support.orders import age_orders, end_orders, including_ended_orders
from workers.context import Context
from workers.orders.callback_keys import callback_url, register_keys
from workers.orders.lease import release_orders
from workers.orders.pix import PixOrderWorker
from workers.orders.pix_requests import read_cob


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(pool: Pool) -> AsyncIterator[RunningBank]:
    async with running_bank(pool) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def context(pool: Pool, servers: Any, bank: RunningBank) -> AsyncIterator[Context]:
    bank.wire.fault = "up"
    bank.requests.clear()
    async with worker_context(pool, servers.redis_url, bank.adapter()) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def account(pool: Pool) -> UUID:
    return await make_account(pool)


async def locations(context: Context, test: bool, count: int = 1) -> list[Location]:
    made = await context.banks.of(Mode.of(test), BANK).pix.create_locations(count)
    assert isinstance(made, Done)
    return made.value


async def charge(context: Context, account: UUID, *, test: bool, **more: Any) -> UUID:
    (charge_id,) = await make_charges(context.pool, account, await locations(context, test), test=test, **more)
    return charge_id


async def cancel(context: Context, account: UUID, charge_id: UUID, test: bool) -> None:
    change = cancellation(
        charge_id, Owner.of(account, test), reason=CancelReason.CANCELLED, actor="test", request_id=None
    )
    async with transaction(context.pool) as conn:
        await change_charges(conn, [change], now=utc_now())


async def cob_status(context: Context, charge_id: UUID, test: bool) -> Any:
    state = await context.banks.of(Mode.of(test), BANK).pix.get_cob(charge_id.hex)
    return state if isinstance(state, NotFound | Unknown) else state.status


async def events(pool: Pool, charge_id: UUID) -> list[str]:
    rows = await pool.fetch("SELECT type FROM read_event WHERE charge_id = $1 ORDER BY sequence", charge_id)
    return [row["type"] for row in rows]


async def test_a_pix_charge_is_registered_at_the_bank_in_both_modes(context: Context, account: UUID) -> None:
    for test in (True, False):
        charge_id = await charge(context, account, test=test, description="Pão")
        assert await PixOrderWorker(context, Mode.of(test)).drain() == 1
        assert (await order_of(context.pool, charge_id))["state"] == "done"
        assert await cob_status(context, charge_id, test) == "ATIVA"
        assert await PixOrderWorker(context, Mode.of(test)).drain() == 0


async def test_a_worker_that_stalled_past_its_time_for_calls_does_not_call_the_bank(
    context: Context, account: UUID, bank: RunningBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge_id = await charge(context, account, test=False)
    with monkeypatch.context() as late:
        late.setattr("workers.orders.pix.CALL_S", 0.0)  # the time for calls is over when the claim returns
        assert await PixOrderWorker(context, Mode.PRODUCTION).drain() == 1
    assert not [each for each in bank.requests if each.startswith("PUT /pix/v2/cob")]
    await context.pool.execute("UPDATE bank_order SET lease_until = '-infinity' WHERE charge_id = $1", charge_id)
    assert await release_orders(context) == 1
    assert await PixOrderWorker(context, Mode.PRODUCTION).drain() == 1
    assert await cob_status(context, charge_id, test=False) == "ATIVA"


async def test_an_unanswered_registration_is_repeated_with_the_same_txid(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    charge_id = await charge(context, account, test=False)
    bank.wire.fault = "down"
    for attempts in (1, 2, 3):
        await PixOrderWorker(context, Mode.PRODUCTION).drain()
        order = await order_of(context.pool, charge_id)
        assert (order["state"], order["attempts"]) == ("waiting", attempts)
        assert order["due_at"] > utc_now()
        await make_orders_due(context.pool, charge_id)
    assert await status_of(context.pool, charge_id) == "pending"
    bank.wire.fault = "lost_reply"
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    assert (await order_of(context.pool, charge_id))["state"] == "done"
    assert {each for each in bank.requests if each.startswith("PUT /pix/v2/cob")} == {
        f"PUT /pix/v2/cob/{charge_id.hex}"
    }


async def test_a_final_refusal_by_the_bank_fails_the_charge_once(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    charge_id = await charge(context, account, test=False)
    bank.wire.fault = "refuse"
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    assert (await order_of(context.pool, charge_id))["state"] == "refused"
    assert await status_of(context.pool, charge_id) == "failed"
    assert await events(context.pool, charge_id) == ["charge.failed"]
    doc = msgspec.json.decode(
        await context.pool.fetchval("SELECT doc FROM charge_view WHERE charge_id = $1", charge_id)
    )
    assert doc["failure"] == {
        "code": "BANK_REFUSED",
        "message": "The bank refused the charge: Recusada a pedido.",
    }


async def test_the_sandbox_bank_plays_the_scenario_of_the_charge(context: Context, account: UUID) -> None:
    pool = context.pool
    refused = await charge(context, account, test=True, scenario="refuse")
    away = await charge(context, account, test=True, scenario="unavailable")
    lost = await charge(context, account, test=True, scenario="lost_reply")
    plain = await charge(context, account, test=True)
    await PixOrderWorker(context, Mode.SANDBOX).drain()
    assert await status_of(pool, refused) == "failed"
    assert (await order_of(pool, plain))["state"] == "done"
    assert await cob_status(context, away, True) == NotFound()
    assert await cob_status(context, lost, True) == "ATIVA"  # registered, but the reply was lost
    assert (await order_of(pool, lost))["state"] == "waiting"
    for _ in range(2):
        await make_orders_due(pool, away)
        await make_orders_due(pool, lost)
        await PixOrderWorker(context, Mode.SANDBOX).drain()
    assert (await order_of(pool, lost))["state"] == (await order_of(pool, away))["state"] == "done"
    assert (await order_of(pool, away))["attempts"] == 3
    assert await cob_status(context, away, True) == "ATIVA"
    assert await pool.fetchval("SELECT count(*) FROM simulated_cob WHERE txid = $1", lost.hex) == 1


async def wait_for_order_state(context: Context, charge_id: UUID, state: str) -> None:
    async def has_become() -> bool:
        return bool((await order_of(context.pool, charge_id))["state"] == state)

    await until_answer(has_become)


async def test_a_slow_bank_answer_does_not_delay_other_orders(
    context: Context, account: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = asyncio.Event()
    monkeypatch.setattr("banks.scenario.asyncio", SimpleNamespace(sleep=lambda _s: over.wait()))
    slow = await charge(context, account, test=True, scenario="slow")
    draining = asyncio.create_task(PixOrderWorker(context, Mode.SANDBOX).drain())
    await wait_for_order_state(context, slow, "working")
    quick = await charge(context, account, test=True)
    await wait_for_order_state(context, quick, "done")
    assert (await order_of(context.pool, slow))["state"] == "working"
    over.set()
    await draining
    assert (await order_of(context.pool, slow))["state"] == "done"


async def test_a_broken_or_refused_order_does_not_affect_the_others_of_its_batch(
    context: Context, account: UUID
) -> None:
    good = [await charge(context, account, test=True) for _ in range(3)]
    (nowhere,) = await make_charges(context.pool, account, [Location(2**40, "x/y")], test=True)
    broken = await charge(context, account, test=True, location_id="seven")
    await PixOrderWorker(context, Mode.SANDBOX).drain()
    assert {(await order_of(context.pool, each))["state"] for each in good} == {"done"}
    assert (await order_of(context.pool, nowhere))["state"] == "refused"
    assert await status_of(context.pool, nowhere) == "failed"
    assert (await order_of(context.pool, broken))["state"] == "waiting"
    assert await status_of(context.pool, broken) == "pending"


async def test_a_cancelled_charge_is_not_registered_at_the_bank(context: Context, account: UUID) -> None:
    for test in (True, False):
        charge_id = await charge(context, account, test=test)
        await cancel(context, account, charge_id, test)
        for _ in range(2):
            await PixOrderWorker(context, Mode.of(test)).drain()
            await make_orders_due(context.pool, charge_id)
        assert await cob_status(context, charge_id, test) == NotFound()
        assert (await order_of(context.pool, charge_id))["state"] == "done"
        assert (await order_of(context.pool, charge_id, "cob_remove"))["state"] == "done"


@pytest.mark.parametrize("arrives", [True, False], ids=["the lost request arrives", "it never arrives"])
async def test_a_refusal_is_not_final_while_a_lost_request_may_still_register_the_charge(
    context: Context, account: UUID, bank: RunningBank, table_owner: Pool, *, arrives: bool
) -> None:
    charge_id = await charge(context, account, test=False)
    patient = context.banks.production[BANK]
    bank.wire.fault = "timeout_before"
    context.banks.production[BANK] = bank.adapter(write_s=0.2)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    context.banks.production[BANK] = patient
    bank.wire.fault = "refuse"
    for _ in range(2):
        await make_orders_due(context.pool, charge_id)
        await PixOrderWorker(context, Mode.PRODUCTION).drain()
    assert await status_of(context.pool, charge_id) == "pending"
    if arrives:
        found = await context.pool.fetchval("SELECT request FROM bank_order WHERE charge_id = $1", charge_id)
        asked = read_cob(found)
        await bank.bank.pix.put_cob(
            Cob(
                txid=charge_id.hex, amount_cents=asked.amount_cents, created_at=asked.created_at,
                expires_in_s=asked.expires_in_s, location_id=asked.location_id, pix_key=asked.pix_key,
            )
        )  # fmt: skip
    else:
        await age_orders(table_owner, charge_id, timedelta(seconds=61))
    await make_orders_due(context.pool, charge_id)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    assert await status_of(context.pool, charge_id) == ("pending" if arrives else "failed")
    assert (await order_of(context.pool, charge_id))["state"] == ("done" if arrives else "refused")


async def test_a_cancelled_charge_is_removed_at_the_bank_even_while_it_is_being_registered(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    charge_id = await charge(context, account, test=False)
    bank.wire.fault = "down"
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    # Another worker holds the registration when the removal becomes due.
    held = "UPDATE bank_order SET state = 'working', lease_until = now() + interval '1 minute' WHERE charge_id = $1"
    await context.pool.execute(held, charge_id)
    await cancel(context, account, charge_id, False)
    bank.wire.fault = "up"
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    assert (await order_of(context.pool, charge_id, "cob_remove"))["state"] == "waiting"
    request = msgspec.json.decode((await order_of(context.pool, charge_id))["request"])
    cob = Cob(
        txid=charge_id.hex, amount_cents=request["amount_cents"], created_at=utc_now(), expires_in_s=60,
        location_id=request["location_id"], pix_key=request["pix_key"],
    )  # fmt: skip
    assert isinstance(await context.banks.production[BANK].pix.put_cob(cob), Done)
    await end_orders(context.pool, [charge_id], "cob_register")
    await make_orders_due(context.pool, charge_id)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    assert (await order_of(context.pool, charge_id, "cob_remove"))["state"] == "done"
    assert await cob_status(context, charge_id, False) == "REMOVIDA_PELO_USUARIO_RECEBEDOR"


async def simulate_payment(context: Context, account: UUID, charge_id: UUID) -> str:
    """Pay the charge as simulate-payment does; return the endToEndId."""
    end_to_end_id = f"E99999999202611211200{new_id().hex[-11:]}"
    change = simulated_payment(
        charge_id,
        Owner(account, Mode.SANDBOX),
        end_to_end_id=end_to_end_id,
        seal=context.seal,
        actor="test",
        request_id=None,
        fees=NO_FEES,
    )
    async with transaction(context.pool) as conn:
        await change_charges(conn, [change], now=utc_now())
    return end_to_end_id


@pytest.mark.parametrize(
    ("paid", "more"),
    [
        ("before its cob is put", {}),
        ("before its cob is put", {"scenario": "slow"}),
        ("before its cob is put", {"scenario": "lost_reply"}),
        ("while its cob is put", {"scenario": "slow"}),
    ],
    ids=str,
)
async def test_a_test_charge_that_is_paid_at_once_is_concluded_at_the_simulated_bank(
    context: Context, account: UUID, monkeypatch: pytest.MonkeyPatch, paid: str, more: dict[str, Any]
) -> None:
    monkeypatch.setattr("banks.scenario.SLOW_S", 0.3)
    charge_id = await charge(context, account, test=True, **more)
    draining = None
    if paid == "while its cob is put":
        draining = asyncio.create_task(PixOrderWorker(context, Mode.SANDBOX).drain())
        await wait_for_order_state(context, charge_id, "working")
    end_to_end_id = await simulate_payment(context, account, charge_id)
    for _ in range(2):
        await PixOrderWorker(context, Mode.SANDBOX).drain()
        await make_orders_due(context.pool, charge_id)
    if draining is not None:
        await draining
    state: Any = await context.banks.sandbox.pix.get_cob(charge_id.hex)
    assert state.status == "CONCLUIDA"
    assert [pix.end_to_end_id for pix in state.received] == [end_to_end_id]
    states = "SELECT array_agg(DISTINCT state) FROM bank_order WHERE charge_id = $1"
    assert await context.pool.fetchval(including_ended_orders(states), charge_id) == ["done"]


async def test_a_cob_and_its_payment_written_at_the_same_moment_are_matched(context: Context, account: UUID) -> None:
    """Neither statement sees the other's uncommitted row."""
    sandbox = context.banks.sandbox
    for location in await locations(context, True, 40):
        txid, now = new_id().hex, utc_now()
        cob = Cob(
            txid=txid, amount_cents=1000, created_at=now, expires_in_s=3600, location_id=location.location_id,
            pix_key=str(account),
        )  # fmt: skip
        paid = PayerPix(end_to_end_id=f"E{txid[:31]}", txid=txid, amount_cents=1000, paid_at=now)
        await asyncio.gather(sandbox.put_cobs([cob]), sandbox.receive([paid], tell=False))
        state: Any = await sandbox.pix.get_cob(txid)
        assert state.status == "CONCLUIDA"


async def test_a_simulated_payment_is_in_the_sandbox_banks_books(context: Context, account: UUID) -> None:
    charge_id = await charge(context, account, test=True)
    await PixOrderWorker(context, Mode.SANDBOX).drain()
    end_to_end_id = await simulate_payment(context, account, charge_id)
    await PixOrderWorker(context, Mode.SANDBOX).drain()
    state: Any = await context.banks.sandbox.pix.get_cob(charge_id.hex)
    assert state.status == "CONCLUIDA"
    assert [pix.end_to_end_id for pix in state.received] == [end_to_end_id]
    assert isinstance(await context.banks.sandbox.pix.remove_cob(charge_id.hex), Rejected)


async def end_lease(context: Context, charge_id: UUID) -> None:
    await context.pool.execute("UPDATE bank_order SET lease_until = now() WHERE charge_id = $1", charge_id)


async def test_a_worker_whose_clock_is_ahead_does_not_take_an_order_another_worker_holds(
    context: Context, account: UUID
) -> None:
    charge_id = await charge(context, account, test=False)
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    draining = asyncio.create_task(PixOrderWorker(worker_cut_off(context, answer), Mode.PRODUCTION).drain())
    await wait_for_order_state(context, charge_id, "working")
    context.now = lambda: utc_now() + timedelta(hours=1)
    assert await release_orders(context) == 0
    assert await PixOrderWorker(context, Mode.PRODUCTION).drain() == 0
    answer.set_result(Rejected("X", "too late"))
    await draining


async def test_the_order_of_a_dead_worker_is_claimed_again_once_its_lease_ends(context: Context, account: UUID) -> None:
    charge_id = await charge(context, account, test=False)
    dead = worker_cut_off(context)
    draining = asyncio.create_task(PixOrderWorker(dead, Mode.PRODUCTION).drain())
    await wait_for_order_state(context, charge_id, "working")
    draining.cancel()
    await asyncio.gather(draining, return_exceptions=True)
    assert (await order_of(context.pool, charge_id))["state"] == "working"
    assert await PixOrderWorker(context, Mode.PRODUCTION).drain() == 0
    assert await release_orders(context) == 0  # the lease has not ended yet
    await end_lease(context, charge_id)
    assert await release_orders(context) == 1
    assert await PixOrderWorker(context, Mode.PRODUCTION).drain() == 1
    assert (await order_of(context.pool, charge_id))["state"] == "done"


async def test_a_bank_answer_that_comes_after_the_lease_ended_changes_nothing(context: Context, account: UUID) -> None:
    charge_id = await charge(context, account, test=False)
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    late = worker_cut_off(context, answer)
    draining = asyncio.create_task(PixOrderWorker(late, Mode.PRODUCTION).drain())
    await wait_for_order_state(context, charge_id, "working")
    late.stopping.set()  # else this worker may claim the order again itself
    await end_lease(context, charge_id)
    assert await release_orders(context) == 1
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    assert (await order_of(context.pool, charge_id))["state"] == "done"
    answer.set_result(Rejected("X", "too late"))
    await draining
    assert (await order_of(context.pool, charge_id))["state"] == "done"
    assert await status_of(context.pool, charge_id) == "pending"


@pytest.mark.parametrize("too_late", [Rejected("X", "too late"), Unknown("too late")], ids=["no", "unknown"])
async def test_a_bank_answer_that_comes_while_another_worker_holds_the_lease_changes_nothing(
    context: Context, account: UUID, too_late: Rejected | Unknown
) -> None:
    charge_id = await charge(context, account, test=False)
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    late, other = worker_cut_off(context, answer), worker_cut_off(context)
    draining = asyncio.create_task(PixOrderWorker(late, Mode.PRODUCTION).drain())
    await wait_for_order_state(context, charge_id, "working")
    late.stopping.set()  # else this worker may claim the order again itself
    await end_lease(context, charge_id)
    assert await release_orders(context) == 1
    taken_over = asyncio.create_task(PixOrderWorker(other, Mode.PRODUCTION).drain())
    await wait_for_order_state(context, charge_id, "working")
    answer.set_result(too_late)
    await draining
    order = await order_of(context.pool, charge_id)
    assert (order["state"], order["attempts"]) == ("working", 2)
    assert await status_of(context.pool, charge_id) == "pending"
    taken_over.cancel()
    await asyncio.gather(taken_over, return_exceptions=True)


def worker_cut_off(context: Context, answer: "asyncio.Future[Any] | None" = None) -> Context:
    """The context of another worker, whose bank gives `answer` once it is set, or never answers."""
    silent = answer or asyncio.get_running_loop().create_future()

    class Silent:
        @property
        def pix(self) -> Any:
            return self

        def ahead(self, ahead_s: int) -> Any:
            return self

        async def put_cob(self, cob: Any) -> Any:
            return await silent

        async def register_callback(self, pix_key: str, url: str) -> Any:
            return Unknown("silent")

    return Context(**{name: getattr(context, name) for name in context.__struct_fields__} | {
        "banks": Banks(cast(SimulatedBank, Silent()), {BANK: cast(Bank, Silent())}), "stopping": asyncio.Event()
    })  # fmt: skip


async def test_our_callback_address_is_registered_once_and_again_when_it_changes(
    context: Context, account: UUID, bank: RunningBank
) -> None:
    for _ in range(2):
        await charge(context, account, test=False)
        await PixOrderWorker(context, Mode.PRODUCTION).drain()
    url = f"{context.settings.base_url}/bank/{context.settings.bank_callback_token}"
    callback = await bank.bank.callback(str(account))
    assert callback is not None
    assert callback.url == url
    assert bank.requests.count(f"PUT /pix/v2/webhook/{account}") == 1
    context.settings = msgspec.structs.replace(context.settings, bank_callback_token="another")
    await charge(context, account, test=False)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    callback = await bank.bank.callback(str(account))
    assert callback is not None
    assert callback.url.endswith("/bank/another")


async def test_a_pix_key_the_bank_refuses_does_not_block_the_callbacks_of_other_keys(
    context: Context, account: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refused key comes first in every round. After a call without an answer the round ends. The bank is not asked
    about a refused key again for every charge."""
    asked, silent = list[str](), asyncio.Event()

    class Choosing:
        @property
        def pix(self) -> Any:
            return self

        async def register_callback(self, pix_key: str, url: str) -> Any:
            asked.append(pix_key)
            if silent.is_set():
                return Unknown("silent")
            return Done(None) if pix_key == "kept" else Rejected("gone", "no such key")

        async def put_cob(self, cob: Any) -> Any:
            return Done(None)

    choosing = Context(**{name: getattr(context, name) for name in context.__struct_fields__} | {
        "banks": Banks(context.banks.sandbox, {BANK: cast(Bank, Choosing())})
    })  # fmt: skip
    keys = ["gone", "kept"]
    elsewhere = "SELECT pix_key FROM bank_callback WHERE pix_key = ANY($1) AND url <> $2"
    for key in keys:
        await context.pool.execute("INSERT INTO bank_callback VALUES ($1, $2, 'http://before', now())", BANK, key)
    assert await register_keys(choosing, BANK, keys) == ["kept"]
    assert await context.pool.fetch(elsewhere, keys, callback_url(context)) == []
    asked.clear()
    silent.set()
    assert await register_keys(choosing, BANK, keys) == []
    assert asked == ["gone"]
    silent.clear()
    monkeypatch.setattr("workers.orders.callback_keys._KEY_RETRY_S", 600.0)  # longer than this test
    worker = PixOrderWorker(choosing, Mode.PRODUCTION)
    for _ in range(2):
        await charge(context, account, test=False)
        assert await worker.drain() == 1
    assert asked == ["gone", str(account)]


@pytest.mark.parametrize("description", ["ã" * 200, "", None], ids=["long", "empty", "none"])
async def test_the_statement_that_creates_a_test_charge_also_registers_it_at_the_simulated_bank(
    context: Context, account: UUID, description: str | None
) -> None:
    """The cob is the one the bank's port would write: a charge with a scenario goes through the port, and lost_reply
    changes nothing of the cob."""
    find = (
        "SELECT txid, status, revisao, amount_cents, pix_key, description, payer_sealed, expires_in_s"
        " FROM simulated_cob WHERE txid = ANY($1::text[])"
    )
    at_once = await charge(context, account, test=True, description=description, ordered=False)
    assert await cob_status(context, at_once, True) == "ATIVA"
    assert await order_of(context.pool, at_once) is None
    asked = await charge(context, account, test=True, description=description, scenario="lost_reply")
    for _ in range(2):
        await PixOrderWorker(context, Mode.SANDBOX).drain()
        await make_orders_due(context.pool, asked)
    cobs = {row["txid"]: dict(row) for row in await context.pool.fetch(find, [at_once.hex, asked.hex])}
    assert cobs[at_once.hex] | {"txid": ""} == cobs[asked.hex] | {"txid": ""}
    # A payment and a cancellation find the cob.
    paid, cancelled = [await charge(context, account, test=True, ordered=False) for _ in range(2)]
    await simulate_payment(context, account, paid)
    await cancel(context, account, cancelled, True)
    await PixOrderWorker(context, Mode.SANDBOX).drain()
    assert await cob_status(context, paid, True) == "CONCLUIDA"
    assert await cob_status(context, cancelled, True) == "REMOVIDA_PELO_USUARIO_RECEBEDOR"


async def test_no_production_charge_is_stored_without_its_bank_order(context: Context, account: UUID) -> None:
    with pytest.raises(asyncpg.NotNullViolationError):
        await charge(context, account, test=False, ordered=False)


async def test_two_workers_that_drain_at_once_register_each_test_charge_once(
    context: Context, account: UUID, servers: Any, bank: RunningBank
) -> None:
    async with worker_context(context.pool, servers.redis_url, bank.adapter()) as other:
        charge_ids = await make_charges(context.pool, account, await locations(context, True, 300), test=True)
        taken = await asyncio.gather(
            *(PixOrderWorker(each, Mode.SANDBOX).drain() for each in (context, other, context, other))
        )
    assert sum(taken) == len(charge_ids)
    rows = await context.pool.fetch(
        including_ended_orders("SELECT state, attempts FROM bank_order WHERE charge_id = ANY($1::uuid[])"), charge_ids
    )
    assert [tuple(row) for row in rows] == [("done", 1)] * len(charge_ids)


async def test_a_test_charge_expired_by_its_accounts_sandbox_clock_is_not_registered(
    context: Context, account: UUID
) -> None:
    now, later = [await charge(context, account, test=True) for _ in range(2)]
    await context.pool.execute(
        "INSERT INTO sandbox_clock (account_id, ahead_s, moved_at) VALUES ($1, $2, now())", account, 400 * 86_400
    )  # fmt: skip
    await context.pool.execute("UPDATE charge SET expires_at = now() + interval '800 days' WHERE charge_id = $1", later)
    await PixOrderWorker(context, Mode.SANDBOX).drain()
    assert await cob_status(context, now, True) == NotFound()
    assert await cob_status(context, later, True) == "ATIVA"
    assert {(await order_of(context.pool, each))["state"] for each in (now, later)} == {"done"}


async def test_a_second_cob_on_the_same_location_is_refused(context: Context, account: UUID) -> None:
    (place,) = await locations(context, True)
    first, second = await make_charges(context.pool, account, [place, place], test=True)
    await PixOrderWorker(context, Mode.SANDBOX).drain()
    states = {each: (await order_of(context.pool, each))["state"] for each in (first, second)}
    assert sorted(states.values()) == ["done", "refused"]
    (third,) = await make_charges(context.pool, account, [place], test=True)
    await PixOrderWorker(context, Mode.SANDBOX).drain()
    assert (await order_of(context.pool, third))["state"] == "refused"


async def test_a_thousand_sandbox_orders_are_executed_in_batches(context: Context, account: UUID) -> None:
    charge_ids = await make_charges(context.pool, account, await locations(context, True, 1000), test=True)
    pool, borrowed = context.pool, 0

    class Counted:
        def acquire(self, **options: Any) -> Any:
            nonlocal borrowed
            borrowed += 1
            return pool.acquire(**options)

    context.pool = Counted()  # type: ignore[assignment]
    while await PixOrderWorker(context, Mode.SANDBOX).drain():
        pass
    context.pool = pool
    done = await context.pool.fetchval(
        including_ended_orders("SELECT count(*) FROM bank_order WHERE charge_id = ANY($1::uuid[]) AND state = 'done'"),
        charge_ids,
    )
    assert done == 1000
    cobs = await context.pool.fetchval(
        "SELECT count(*) FROM simulated_cob WHERE txid = ANY($1::text[]) AND status = 'ATIVA'",
        [each.hex for each in charge_ids],
    )
    assert cobs == 1000
    assert 0 < borrowed < 100, "without batches each order would borrow a connection"
