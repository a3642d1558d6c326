"""A worker makes as many bank calls at once as its settings allow, and the next one as soon as an answer comes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from copy import copy
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from banks.banco_do_brasil.callbacks import pix_hints
from banks.choice import Banks
from banks.protocol import Cob, CobState, Done, Location, NotFound
from banks.received import ReceivedPix
from commands.bank_orders.callback import store_hints
from domain.mode import Mode
from runtime.coordination.due_times import DueTimes
from runtime.postgres import Pool, transaction
from tests.support.banking import BANK, make_account, make_charges, settings_for, status_of, utc_now, worker_context
from workers.context import Context
from workers.incoming.hints import drain_boleto_hints, drain_pix_hints
from workers.orders.boleto import BoletoOrderWorker
from workers.orders.lease import ClaimedOrder
from workers.orders.pix import PixOrderWorker
from workers.orders.refund import RefundOrderWorker

CALLS = 8


class Slow:
    """A bank that takes one cob per call and answers when the test lets it."""

    def __init__(self) -> None:
        self.asked: dict[str, asyncio.Event] = {}
        self.under_way = 0
        self.under_way_max = 0
        self.at_once = False
        self.calls = 0

    @property
    def pix(self) -> Any:
        return self

    async def _answer(self, txid: str) -> None:
        self.calls += 1
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        if not self.at_once:
            await self.asked.setdefault(txid, asyncio.Event()).wait()
        self.under_way -= 1

    def let(self, txid: str) -> None:
        self.asked.pop(txid).set()

    def let_all(self) -> None:
        self.at_once = True
        for event in self.asked.values():
            event.set()

    async def put_cob(self, cob: Cob) -> Done[None]:
        await self._answer(cob.txid)
        return Done(None)

    async def get_cob(self, txid: str) -> CobState | NotFound:
        await self._answer(txid)
        paid = ReceivedPix(
            end_to_end_id=f"E{txid[:31]}", txid=txid, amount_cents=1234, paid_at=utc_now(),
            payer_name="Maria", payer_document="52998224725",
        )  # fmt: skip
        return CobState(status="ATIVA", received=[paid])

    @property
    def boletos(self) -> Any:
        return self

    async def find_boleto(self, number: str) -> NotFound:
        await self._answer(number)
        return NotFound()

    async def remove_cob(self, txid: str) -> Done[None]:
        await self._answer(txid)
        return Done(None)

    async def register_callback(self, pix_key: str, url: str) -> Done[None]:
        return Done(None)


@pytest_asyncio.fixture(loop_scope="session")
async def bank() -> Slow:
    return Slow()


@pytest_asyncio.fixture(loop_scope="session")
async def context(pool: Pool, servers: Any, bank: Slow) -> AsyncIterator[Context]:
    async with worker_context(pool, servers.redis_url, bank) as made:
        slow = copy(made)
        calls = ("BANK_PIX_CALLS", "BANK_HINT_CALLS", "BANK_BOLETO_CALLS", "BANK_REFUND_CALLS")
        slow.settings = settings_for(**dict.fromkeys(calls, str(CALLS)))
        slow.banks = Banks(made.banks.sandbox, {BANK: bank})  # type: ignore[dict-item]
        yield slow


async def charges(pool: Pool, count: int, times: DueTimes | None = None) -> list[UUID]:
    account = await make_account(pool)
    places = [Location(number, f"x/{number}") for number in range(count)]
    return await make_charges(pool, account, places, test=False, due_times=times)


async def store_callbacks(pool: Pool, charge_ids: Sequence[UUID]) -> None:
    """Store a callback about a payment of each charge, and postpone the registrations for ever."""
    await pool.execute("UPDATE bank_order SET due_at = 'infinity' WHERE charge_id = ANY($1)", charge_ids)
    for charge_id in charge_ids:
        txid = charge_id.hex.encode()
        body = b'{"pix": [{"endToEndId": "E%b", "txid": "%b"}]}' % (txid[:31], txid)
        async with transaction(pool) as conn:
            await store_hints(conn, pix_hints(body), bank=BANK, now=utc_now())


async def wait_until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def assert_none_waits_for_the_slowest(bank: Slow, working: "asyncio.Task[int]", count: int) -> None:
    """While the slowest answer is awaited, all other calls are made, CALLS at a time."""
    await wait_until(lambda: len(bank.asked) == CALLS)
    slowest = next(iter(bank.asked))
    for number in range(1, count - CALLS + 1):
        bank.let(next(txid for txid in bank.asked if txid != slowest))
        await wait_until(lambda number=number: bank.calls == CALLS + number)  # type: ignore[misc]
    assert slowest in bank.asked
    assert bank.under_way_max == CALLS
    bank.let_all()
    assert await working == count


async def test_cobs_are_registered_concurrently_and_none_waits_for_the_slowest(
    context: Context, bank: Slow, pool: Pool
) -> None:
    charge_ids = await charges(pool, 3 * CALLS)
    await assert_none_waits_for_the_slowest(
        bank, asyncio.create_task(PixOrderWorker(context, Mode.PRODUCTION).drain()), len(charge_ids)
    )
    left = "SELECT count(*) FROM bank_order WHERE charge_id = ANY($1)"
    assert await pool.fetchval(left, charge_ids) == 0


async def test_cobs_that_the_bank_does_not_remove_keep_none_from_being_registered(
    context: Context, bank: Slow, pool: Pool
) -> None:
    cancelled = await charges(pool, CALLS)
    removal = "UPDATE bank_order SET kind = 'cob_remove', request = '{}' WHERE charge_id = ANY($1)"
    await pool.execute(removal, cancelled)
    working = asyncio.create_task(PixOrderWorker(context, Mode.PRODUCTION).drain())
    await wait_until(lambda: len(bank.asked) == CALLS)
    (other,) = await charges(pool, 1)
    await wait_until(lambda: other.hex in bank.asked)
    bank.let_all()
    assert await working == CALLS + 1


@pytest.mark.parametrize(
    ("worker_of", "hanging", "kind"),
    [
        (BoletoOrderWorker, ("boleto_reconcile", "boleto_write_off"), "boleto_register"),
        (RefundOrderWorker, ("refund_transfer",), "refund_return"),
    ],
)
async def test_calls_that_hang_keep_no_call_of_another_kind_waiting(
    context: Context, pool: Pool, worker_of: Any, hanging: tuple[str, ...], kind: str
) -> None:
    account = await make_account(pool)
    order = """
        INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at)
        SELECT gen_random_uuid(), $1, gen_random_uuid(), false, '001', $2, '{}', now(), now()
        FROM generate_series(1, $3)
    """
    worker, asked = worker_of(context, Mode.PRODUCTION), list[str]()

    async def ask(order: ClaimedOrder) -> None:
        asked.append(order.kind)
        await asyncio.Event().wait()

    worker._ask = ask
    for each in hanging:
        await pool.execute(order, account, each, 2 * CALLS)
    working = asyncio.create_task(worker.drain())
    try:
        await wait_until(lambda: len(asked) == CALLS * len(hanging))
        await pool.execute(order, account, kind, 1)
        await wait_until(lambda: kind in asked)
        assert {each: asked.count(each) for each in hanging} == dict.fromkeys(hanging, CALLS)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await pool.execute("DELETE FROM bank_order WHERE account_id = $1", account)


async def test_a_boleto_that_no_request_waits_for_any_more_keeps_no_other_from_the_bank(
    context: Context, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.orders.boleto.CALL_S", 120.0)  # longer than this test
    account, asked = await make_account(pool), list[str]()
    order = """
        INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at,
            deadline)
        SELECT gen_random_uuid(), $1, gen_random_uuid(), false, '001', 'boleto_register', '{}', now(), now(),
               now() + $2 * interval '1 second'
        FROM generate_series(1, $3)
    """

    async def ask(order: ClaimedOrder) -> None:
        asked.append(order.kind)
        await asyncio.Event().wait()

    worker = BoletoOrderWorker(context, Mode.PRODUCTION)
    monkeypatch.setattr(worker, "_ask", ask)
    await pool.execute(order, account, 2, CALLS)
    working = asyncio.create_task(worker.drain())
    try:
        await wait_until(lambda: asked.count("boleto_register") == CALLS)
        await pool.execute(order, account, 600, 1)
        await wait_until(lambda: asked.count("boleto_register") == CALLS + 1)
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await pool.execute("DELETE FROM bank_order WHERE account_id = $1", account)


@pytest.mark.parametrize("duty", ["cobs", "callbacks"])
async def test_two_workers_make_twice_as_many_bank_calls_at_once(
    context: Context, bank: Slow, pool: Pool, duty: str
) -> None:
    charge_ids = await charges(pool, 4 * CALLS)
    if duty == "callbacks":
        await store_callbacks(pool, charge_ids)
    cobs = duty == "cobs"
    drains = [PixOrderWorker(context, Mode.PRODUCTION).drain() if cobs else drain_pix_hints(context) for _ in range(2)]
    working = [asyncio.create_task(each) for each in drains]
    await wait_until(lambda: bank.under_way == 2 * CALLS)
    bank.let_all()
    assert sum(await asyncio.gather(*working)) == len(charge_ids)
    assert bank.under_way_max == 2 * CALLS


async def test_a_burst_of_one_account_delays_another_accounts_order_by_one_bank_answer_only(
    context: Context, bank: Slow, pool: Pool
) -> None:
    times = DueTimes(1)
    many = await charges(pool, 5 * CALLS, times)
    working = asyncio.create_task(PixOrderWorker(context, Mode.PRODUCTION).drain())
    await wait_until(lambda: len(bank.asked) == CALLS)
    (other,) = await charges(pool, 1, times)
    bank.let(next(iter(bank.asked)))
    await wait_until(lambda: bank.calls == CALLS + 1)
    assert other.hex in bank.asked
    bank.let_all()
    assert await working == len(many) + 1


async def test_callbacks_are_checked_concurrently_and_none_waits_for_the_slowest(
    context: Context, bank: Slow, pool: Pool
) -> None:
    charge_ids = await charges(pool, 3 * CALLS)
    await store_callbacks(pool, charge_ids)
    await assert_none_waits_for_the_slowest(bank, asyncio.create_task(drain_pix_hints(context)), len(charge_ids))
    assert {await status_of(pool, charge_id) for charge_id in charge_ids} == {"paid"}
    unchecked = "SELECT count(*) FROM bank_hint WHERE txid = ANY($1)"
    assert await pool.fetchval(unchecked, [charge_id.hex for charge_id in charge_ids]) == 0


async def test_boleto_lookups_without_an_answer_do_not_delay_pix_callbacks(
    context: Context, bank: Slow, pool: Pool
) -> None:
    """Boletos are looked up at another API of the bank, which may hang while the PIX API answers."""
    await pool.execute(
        "INSERT INTO bank_hint (bank, about, txid, received_at, due_at)"
        " SELECT $1, 'boleto:' || n, n::text, now(), now() FROM generate_series(1, $2) AS n",
        BANK, 2 * CALLS,
    )  # fmt: skip
    boletos = asyncio.create_task(drain_boleto_hints(context))
    await wait_until(lambda: len(bank.asked) == CALLS)
    (paid,) = await charges(pool, 1)
    await store_callbacks(pool, [paid])
    pix = asyncio.create_task(drain_pix_hints(context))
    await wait_until(lambda: paid.hex in bank.asked)
    bank.let(paid.hex)
    await pix
    assert await status_of(pool, paid) == "paid"
    bank.let_all()
    assert await boletos == 2 * CALLS


async def test_a_callback_whose_check_fails_does_not_affect_the_others(
    context: Context, bank: Slow, pool: Pool
) -> None:
    """Its check is due again when its lease ends; the others are booked."""
    bank.at_once = True
    good, bad = await charges(pool, 2)
    await pool.execute("UPDATE bank_order SET due_at = 'infinity' WHERE charge_id = ANY($1)", [good, bad])
    async with transaction(pool) as conn:
        for txid in (good.hex, bad.hex):
            await store_hints(conn, {f"E{txid[:31]}": txid}, bank=BANK, now=utc_now())
    answer = bank.get_cob

    async def get_cob(txid: str) -> CobState | NotFound:
        if txid == bad.hex:
            raise RuntimeError("unreadable here")
        return await answer(txid)

    bank.get_cob = get_cob  # type: ignore[method-assign]
    assert await drain_pix_hints(context) == 2
    assert (await status_of(pool, good), await status_of(pool, bad)) == ("paid", "pending")


async def test_a_hanging_registration_of_our_callback_address_does_not_delay_cobs(
    context: Context, bank: Slow, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated with each claim, hanging calls would soon fill every place for bank calls."""
    told = 0
    silent = asyncio.Event()

    async def register_callback(pix_key: str, url: str) -> Done[None]:
        nonlocal told
        told += 1
        await silent.wait()
        return Done(None)

    monkeypatch.setattr(bank, "register_callback", register_callback)
    # Longer than this test, so that no call times out.
    monkeypatch.setattr("workers.orders.callback_keys.CALL_S", 120.0)
    bank.at_once = True
    await charges(pool, 1)
    working = asyncio.create_task(PixOrderWorker(context, Mode.PRODUCTION).drain())
    await wait_until(lambda: told == 1)
    for count in range(2, 2 * CALLS):
        await charges(pool, 1)
        await wait_until(lambda count=count: bank.calls == count)  # type: ignore[misc]
    assert told == 1
    silent.set()
    await working
