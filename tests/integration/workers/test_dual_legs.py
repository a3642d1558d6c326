"""The two legs of a production dual charge: once one is paid, the other is closed at the bank, also when the bank was
down, when a change of the boleto is under way, and when the payer pays both legs."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from banks.banco_do_brasil.nosso_numero import parse_number
from banks.boletos import BoletoPayer, BoletoState
from banks.protocol import Cob, Done, NotFound, Rejected, Unknown
from commands.bank_orders.boleto_orders import give_up, place_change
from commands.bank_orders.kinds import Redate, WriteOff
from commands.charges.create_boleto import BoletoRequest, RegistrationOrder, compose_boleto, order_boletos
from commands.charges.issuer import Issuer
from commands.charges.pay import Confirmation, confirm_payments
from commands.merchants.integrators import create_integrator
from domain.boleto.terms import expires_at
from domain.charge import Charge
from domain.instants import to_millisecond
from domain.merchants.fees import NO_FEES
from domain.mode import Mode
from runtime.ids import new_id, new_token
from runtime.postgres import Pool, session, transaction
from runtime.seal import CHARGE_PAYER
from tests.integration.workers.test_boleto_orders import pay_with_assigned_money
from tests.support.banking import BANK, make_account, make_orders_due, utc_now, worker_context
from tests.support.boleto_bank import RunningBoletoBank, new_number, running_boleto_bank, today
from tests.support.boleto_merchant import in_days, redate
from tests.support.boletos import AGREEMENT
from tests.support.dual_merchant import (
    boleto_at_bank,
    cob_at_bank,
    cob_status,
    issue_dual_charge,
    number_of,
    pay_at_bank,
    status_by_leg,
    until_bank_orders_are_done,
    until_status,
)
from tests.support.merchant import ApiClient, ApiMerchant, Books, assert_books_are_clean, new_merchant, until_answer
from tests.support.orders import age_orders, including_ended_orders
from tests.support.system import System
from workers.context import Context
from workers.incoming.boleto_payments import book_boletos
from workers.orders.boleto import BoletoOrderWorker
from workers.orders.pix import PixOrderWorker

_encode = msgspec.json.Encoder().encode
REMOVED = "REMOVIDA_PELO_USUARIO_RECEBEDOR"
OPEN, PAID, WRITTEN_OFF = 1, 6, 7  # the bank's codes of a boleto's state
PAYER = BoletoPayer(
    name="Fulana de Tal", document="52998224725", street="Rua Um", number="1", city="Recife", state="PE",
    zip_code="50000000",
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merchant(system: System) -> AsyncIterator[ApiMerchant]:
    async with new_merchant(system) as opened:
        yield opened


@pytest.fixture
def client(merchant: ApiMerchant) -> ApiClient:
    return merchant.production


@asynccontextmanager
async def fault(system: System, client: ApiClient, name: str) -> AsyncIterator[None]:
    async def set_fault(fault: str) -> None:
        async with client.http.post(f"{system.bank_url}/simulated/fault", json={"fault": fault}) as answer:
            assert answer.status == 200

    await set_fault(name)
    try:
        yield
    finally:
        await set_fault("up")


async def anomalies(client: ApiClient, charge: dict[str, Any]) -> Counter[str | None]:
    return Counter(item["anomaly"] for item in await client.all("/v1/payments", charge_id=charge["charge_id"]))


# --- The running system ----------------------------------------------------------------------------------------------


async def test_a_dual_charge_paid_by_pix_has_its_boleto_written_off_at_the_bank(
    system: System, client: ApiClient, books: Books
) -> None:
    partner = await create_integrator(books, name="Parceiro", account_id=None, now=datetime.now(UTC))
    charge = await issue_dual_charge(client, integrador_code=partner.integrador_code)
    assert await pay_at_bank(system, client, charge, "pix") == 200
    paid = await until_status(client, charge, "paid")
    assert (paid["payment"]["method"], status_by_leg(paid)) == ("pix", {"pix": "paid", "boleto": "cancelled"})
    await until_bank_orders_are_done(books, charge)
    assert (await boleto_at_bank(books, charge), await cob_status(books, charge)) == ("written_off", "CONCLUIDA")
    assert await pay_at_bank(system, client, charge, "boleto") == 409
    (item,) = await client.all("/v1/payments", charge_id=charge["charge_id"])
    assert (item["payment_method"], item["method"], item["txid"], item["integrador_code"], item["anomaly"]) == (
        "boleto_pix", "pix", charge["pix"]["txid"], partner.integrador_code, None,
    )  # fmt: skip
    assert [event["type"] for event in await client.events(charge_id=charge["charge_id"])] == ["payment.received"]


async def test_a_dual_charge_paid_by_boleto_has_its_cob_removed_at_the_bank(
    system: System, client: ApiClient, books: Books
) -> None:
    charge = await issue_dual_charge(client)
    await until_bank_orders_are_done(books, charge)
    assert await pay_at_bank(system, client, charge, "boleto") == 200
    paid = await until_status(client, charge, "paid")
    assert (paid["payment"]["method"], status_by_leg(paid)) == ("boleto", {"pix": "cancelled", "boleto": "paid"})
    await until_bank_orders_are_done(books, charge)
    assert (await boleto_at_bank(books, charge), await cob_status(books, charge)) == ("paid", REMOVED)
    assert await pay_at_bank(system, client, charge, "pix") == 409


@pytest.mark.parametrize("first", ["pix", "boleto"])
async def test_a_payment_of_the_other_leg_is_a_duplicate(
    system: System, client: ApiClient, books: Books, first: str
) -> None:
    charge = await issue_dual_charge(client)
    await until_bank_orders_are_done(books, charge)
    assert await pay_at_bank(system, client, charge, first) == 200
    await until_status(client, charge, "paid")
    await until_bank_orders_are_done(books, charge)
    second = "boleto" if first == "pix" else "pix"
    assert await pay_at_bank(system, client, charge, second, force=True) == 200

    async def both() -> bool:
        return sum((await anomalies(client, charge)).values()) == 2

    await until_answer(both)
    assert await anomalies(client, charge) == {None: 1, "duplicate": 1}
    assert (await client.charge(charge["charge_id"]))["payment"]["method"] == first


@pytest.mark.parametrize(("rail", "leg"), [("pix", "pix"), ("boleto", "boleto"), (None, "boleto")])
async def test_quita_bank_pay_pays_the_leg_of_the_named_rail_and_the_boleto_by_default(
    system: System, client: ApiClient, books: Books, rail: str | None, leg: str
) -> None:
    charge = await issue_dual_charge(client)
    await until_bank_orders_are_done(books, charge)
    named = () if rail is None else ("--rail", rail)
    await asyncio.to_thread(system.json, "bank", "pay", "--charge-id", charge["charge_id"], *named)
    paid = await until_status(client, charge, "paid")
    assert (paid["payment"]["method"], status_by_leg(paid)[leg]) == (leg, "paid")
    await until_bank_orders_are_done(books, charge)


async def test_both_legs_paid_at_once_settle_the_charge_once(system: System, client: ApiClient, books: Books) -> None:
    charges = [await issue_dual_charge(client) for _ in range(6)]
    for charge in charges:
        await until_bank_orders_are_done(books, charge)
    took = await asyncio.gather(
        *(pay_at_bank(system, client, charge, leg) for charge in charges for leg in ("pix", "boleto"))
    )
    # To the bank the legs are two separate debts: it took one payment or both.
    for place, charge in enumerate(charges):
        payments = took[2 * place : 2 * place + 2].count(200)
        assert payments >= 1
        paid = await until_status(client, charge, "paid")

        async def all_booked(charge: dict[str, Any] = charge, payments: int = payments) -> bool:
            return sum((await anomalies(client, charge)).values()) == payments

        await until_answer(all_booked)
        assert await anomalies(client, charge) == ({None: 1} if payments == 1 else {None: 1, "duplicate": 1})
        assert sorted(status_by_leg(paid).values()) == ["cancelled", "paid"]
        await until_bank_orders_are_done(books, charge)
        assert await boleto_at_bank(books, charge) in ("paid", "written_off")
        assert await cob_status(books, charge) in ("CONCLUIDA", REMOVED)


async def test_a_cancellation_ends_neither_leg_while_the_bank_is_down_and_both_afterwards(
    system: System, client: ApiClient, books: Books
) -> None:
    charge = await issue_dual_charge(client)
    await until_bank_orders_are_done(books, charge)
    async with fault(system, client, "down"):
        answer = await client.cancel(charge["charge_id"])
        assert (answer.status, answer.code) == (502, "BANK_UNAVAILABLE")
        assert status_by_leg(await client.charge(charge["charge_id"])) == {"pix": "pending", "boleto": "pending"}
    await until_bank_orders_are_done(books, charge)
    assert (await boleto_at_bank(books, charge), await cob_status(books, charge)) == ("open", "ATIVA")
    assert (await client.cancel(charge["charge_id"])).status == 200
    await until_bank_orders_are_done(books, charge)
    assert (await boleto_at_bank(books, charge), await cob_status(books, charge)) == ("written_off", REMOVED)


async def test_a_new_due_date_moves_both_legs_and_each_can_still_be_paid(
    system: System, client: ApiClient, books: Books
) -> None:
    for leg in ("pix", "boleto"):
        charge = await issue_dual_charge(client, due_date=in_days(2))
        moved = await redate(client, in_days(50), charge_id=charge["charge_id"])
        assert moved.status == 200, moved.raw
        await until_bank_orders_are_done(books, charge)
        cob = await cob_at_bank(books, charge)
        ends = cob["created_at"] + timedelta(seconds=cob["expires_in_s"])
        assert abs((ends - datetime.fromisoformat(moved.body["expires_at"])).total_seconds()) <= 1
        assert await pay_at_bank(system, client, charge, leg) == 200
        assert status_by_leg(await until_status(client, charge, "paid"))[leg] == "paid"
        await until_bank_orders_are_done(books, charge)


async def test_concurrent_pix_payments_and_cancellations_leave_each_charge_paid_or_cancelled(
    system: System, client: ApiClient, books: Books
) -> None:
    charges = [await issue_dual_charge(client) for _ in range(6)]
    for charge in charges:
        await until_bank_orders_are_done(books, charge)

    async def cancelled(charge: dict[str, Any], wait_s: float) -> int:
        await asyncio.sleep(wait_s)
        return (await client.cancel(charge["charge_id"])).status

    for place, charge in enumerate(charges):
        paid, cancel = await asyncio.gather(pay_at_bank(system, client, charge, "pix"), cancelled(charge, 0.03 * place))
        assert (paid, cancel) in ((200, 200), (200, 409), (409, 200))
        await until_bank_orders_are_done(books, charge)

        async def booked(charge: dict[str, Any] = charge, paid: int = paid) -> bool:
            return sum((await anomalies(client, charge)).values()) == (paid == 200)

        await until_answer(booked)
        now = await client.charge(charge["charge_id"])
        assert now["status"] == ("cancelled" if cancel == 200 else "paid")
        if paid == 200:
            assert await anomalies(client, charge) == {"paid_after_cancel" if cancel == 200 else None: 1}
        assert await boleto_at_bank(books, charge) == "written_off", number_of(charge)


# --- One worker, step by step: which order closes the boleto while another change is under way -----------------------


@pytest.fixture(scope="module")
async def bank(pool: Pool) -> AsyncIterator[RunningBoletoBank]:
    async with running_boleto_bank(pool) as running:
        yield running


@pytest.fixture
async def context(servers: Any, pool: Pool, bank: RunningBoletoBank) -> AsyncIterator[Context]:
    bank.wire.fault = "up"
    async with worker_context(pool, servers.redis_url, bank.adapter()) as opened:
        yield opened


@pytest.fixture
def worker(context: Context) -> BoletoOrderWorker:
    return BoletoOrderWorker(context, Mode.PRODUCTION)


async def create_dual_charge(
    context: Context, worker: BoletoOrderWorker, *, cents: int = 5000, cob: bool = True
) -> RegistrationOrder:
    """A production dual charge with both legs at the bank, or without `cob` the boleto alone."""
    account_id, number = await make_account(context.pool), new_number()
    answer = await context.banks.production[BANK].pix.create_locations(1)
    assert isinstance(answer, Done)
    (place,) = answer.value
    charge_id = new_id()
    request = BoletoRequest(
        charge_id=charge_id,
        issuer=Issuer(account_id=account_id, test=False, name="A", city="B", pix_key=str(account_id), actor="test"),
        key=new_token(), fingerprint=b"\xab" * 32, request_id="req_test", kind="boleto_pix", amount_cents=cents,
        due_on=today() + timedelta(days=10), payer_sealed=context.seal.seal(_encode(PAYER), CHARGE_PAYER, charge_id),
        payer_document_hash=None, external_id="PEDIDO 7", description=None,
    )  # fmt: skip
    now, (_, control) = to_millisecond(utc_now()), parse_number(number)
    order = compose_boleto(
        request, control, place, agreement=AGREEMENT, now=now, deadline=now + timedelta(seconds=10), reply_to="nobody"
    )
    async with session(context.pool) as conn:
        assert await order_boletos(conn, [order]) == {order.order_id}
    await worker.drain()
    if cob:
        await PixOrderWorker(context, Mode.PRODUCTION).drain()
    return order


async def assert_cob_ends_with_boleto(bank: RunningBoletoBank, order: RegistrationOrder, due_on: date) -> None:
    """The cob ends when a boleto due on `due_on` does."""
    cob = await bank.bank.booked(order.charge_id.hex)
    assert cob is not None
    assert abs((cob.created_at + timedelta(seconds=cob.expires_in_s) - expires_at(None, due_on)).total_seconds()) <= 1


async def boleto_state(bank: RunningBoletoBank, order: RegistrationOrder) -> int:
    booked = await bank.books.booked(str(order.request.payload.charge.nosso_numero))
    assert booked is not None
    return booked.state


async def place_boleto_change(context: Context, order: RegistrationOrder, kind: str, request: Any) -> UUID | None:
    """Store an order to change the boleto, as the API does; None while another change is under way."""
    now, order_id = utc_now(), new_id()
    async with session(context.pool) as conn:
        found = await place_change(
            conn, order_id=order_id, kind=kind, charge_id=order.charge_id, account_id=order.account_id, test=False,
            request=_encode(request), now=now, due_at=now, deadline=now + timedelta(seconds=10), reply_to="nobody",
        )  # fmt: skip
    return order_id if found is not None else None


async def book_pix_payment(context: Context, order: RegistrationOrder) -> None:
    """Book a payment of the cob, as when the bank confirms it."""
    received = Confirmation(
        charge_id=order.charge_id, end_to_end_id=f"E99999997{new_token()}", amount_cents=5000, paid_at=utc_now()
    )
    async with transaction(context.pool) as conn:
        (outcome,) = await confirm_payments(conn, [received], now=utc_now(), seal=context.seal, fees=NO_FEES)
    assert isinstance(outcome, Charge)
    assert outcome.status == "paid"


async def boleto_changes_of(pool: Pool, order: RegistrationOrder) -> list[tuple[str, str]]:
    rows = await pool.fetch(
        including_ended_orders("SELECT kind, state FROM bank_order WHERE charge_id = $1 AND kind LIKE 'boleto%'"
        " ORDER BY created_at, order_id"), order.charge_id,
    )  # fmt: skip
    return [(row[0], row[1]) for row in rows][1:]


async def work_until_idle(context: Context, worker: BoletoOrderWorker, order: RegistrationOrder) -> None:
    for _ in range(8):
        await make_orders_due(context.pool, order.charge_id)
        if not await worker.drain():
            return


async def test_a_dual_charge_paid_with_assigned_money_has_both_legs_closed_at_the_bank(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await create_dual_charge(context, worker)
    await pay_with_assigned_money(context, order)
    await work_until_idle(context, worker, order)
    await make_orders_due(pool, order.charge_id)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    cob = await bank.bank.booked(order.charge_id.hex)
    assert cob is not None
    assert (await boleto_state(bank, order), cob.status) == (WRITTEN_OFF, REMOVED)


async def test_the_write_off_of_the_boleto_is_retried_until_the_bank_confirms(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await create_dual_charge(context, worker)
    await book_pix_payment(context, order)
    assert await boleto_changes_of(pool, order) == [("boleto_reconcile", "waiting")]
    for name in ("down", "error500", "html", "lost_reply"):
        bank.wire.fault = name
        await make_orders_due(pool, order.charge_id)
        await worker.drain()
    bank.wire.fault = "up"
    await work_until_idle(context, worker, order)
    assert await boleto_changes_of(pool, order) == [("boleto_reconcile", "done")]
    assert await boleto_state(bank, order) == WRITTEN_OFF


async def test_the_removal_of_the_cob_is_retried_until_the_bank_confirms(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await create_dual_charge(context, worker)
    number = str(order.request.payload.charge.nosso_numero)
    assert await bank.books.pay(number, rail="boleto", tell=False)
    await bank.settled(number)
    state = await context.banks.production[BANK].boletos.find_boleto(number)
    assert isinstance(state, BoletoState)
    await book_boletos(context, BANK, [state])
    patient, context.banks.production[BANK] = context.banks.production[BANK], bank.adapter(write_s=0.3)
    for name in ("down", "error500", "html", "timeout_before", "lost_reply"):
        bank.wire.fault = name
        await make_orders_due(pool, order.charge_id)
        await PixOrderWorker(context, Mode.PRODUCTION).drain()
    bank.wire.fault, context.banks.production[BANK] = "up", patient
    await make_orders_due(pool, order.charge_id)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    found = including_ended_orders("SELECT state FROM bank_order WHERE charge_id = $1 AND kind = 'cob_remove'")
    assert [row[0] for row in await pool.fetch(found, order.charge_id)] == ["done"]
    cob = await bank.bank.booked(order.charge_id.hex)
    assert cob is not None
    assert cob.status == REMOVED


@pytest.mark.parametrize("kind", ["boleto_write_off", "boleto_redate"])
async def test_a_boleto_change_that_waits_when_the_pix_is_paid_is_refused_and_the_boleto_closed(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, kind: str
) -> None:
    order = await create_dual_charge(context, worker)
    request = (
        WriteOff(reason="cancelled", actor="x")
        if kind == "boleto_write_off"
        else Redate(due_date=in_days(30), actor="x")
    )
    assert await place_boleto_change(context, order, kind, request)
    await book_pix_payment(context, order)
    assert await boleto_changes_of(pool, order) == [(kind, "waiting")], "a boleto never has two open orders"
    await work_until_idle(context, worker, order)
    assert await boleto_changes_of(pool, order) == [(kind, "refused"), ("boleto_reconcile", "done")]
    assert await boleto_state(bank, order) == WRITTEN_OFF


@pytest.mark.parametrize("kind", ["boleto_write_off", "boleto_redate"])
async def test_a_pix_paid_during_a_boleto_change_leaves_no_open_boleto(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, kind: str
) -> None:
    """Also when the bank refuses to change a boleto so young: nothing changed there, and no caller waits any more."""
    order = await create_dual_charge(context, worker)
    request = (
        WriteOff(reason="cancelled", actor="x")
        if kind == "boleto_write_off"
        else Redate(due_date=in_days(30), actor="x")
    )
    assert await place_boleto_change(context, order, kind, request)
    at_bank = context.banks.production[BANK]
    name = "write_off_boleto" if kind == "boleto_write_off" else "redate_boleto"
    asking = getattr(at_bank.boletos, name)

    async def meanwhile(*given: Any, **more: Any) -> Any:
        await book_pix_payment(context, order)
        return await asking(*given, **more)

    await bank.rules(apply_30_minutes=True)
    setattr(at_bank.boletos, name, meanwhile)
    try:
        await worker.drain()
    finally:
        delattr(at_bank.boletos, name)
        await bank.rules(apply_30_minutes=False)
    # The change, refused because the boleto is too young, left it open at the bank.
    assert (await boleto_changes_of(pool, order))[0] == (kind, "refused")
    await work_until_idle(context, worker, order)
    assert (await boleto_changes_of(pool, order))[-1] == ("boleto_reconcile", "done")
    assert await boleto_state(bank, order) == WRITTEN_OFF


@pytest.mark.parametrize("last", [False, True])
async def test_a_pix_paid_during_a_lookup_of_the_reconciliation_leaves_no_open_boleto(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, table_owner: Pool, last: bool
) -> None:
    """Whether or not it was the last lookup of the reconciliation."""
    order = await create_dual_charge(context, worker)
    lost = await place_boleto_change(context, order, "boleto_redate", Redate(due_date=in_days(30), actor="x"))
    assert lost is not None
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", lost)
    async with transaction(pool) as conn:
        assert await give_up(conn, lost, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    if last:
        await age_orders(table_owner, order.charge_id, timedelta(seconds=61))
    at_bank = context.banks.production[BANK]
    asking = at_bank.boletos.find_boleto

    async def find(number: str) -> Any:
        found = await asking(number)
        del at_bank.boletos.find_boleto
        await book_pix_payment(context, order)
        return found

    at_bank.boletos.find_boleto = find  # type: ignore[method-assign]
    await worker.drain()
    await work_until_idle(context, worker, order)
    assert await boleto_changes_of(pool, order) == [
        ("boleto_redate", "abandoned"),
        *[("boleto_reconcile", "done")] * (1 + last),
    ]
    assert await boleto_state(bank, order) == WRITTEN_OFF


async def test_a_boleto_change_given_up_before_the_bank_was_called_does_not_keep_the_boleto_open(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await create_dual_charge(context, worker)
    waiting = await place_boleto_change(context, order, "boleto_write_off", WriteOff(reason="cancelled", actor="x"))
    assert waiting is not None
    await book_pix_payment(context, order)
    async with transaction(pool) as conn:
        assert await give_up(conn, waiting, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    await work_until_idle(context, worker, order)
    assert await boleto_state(bank, order) == WRITTEN_OFF


async def test_a_payment_booked_while_a_boleto_change_ends_leaves_one_order_to_close_the_boleto(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    """The booking locks the charge while the change ends, so the second of them sees what the first has left."""
    order = await create_dual_charge(context, worker)
    assert await place_boleto_change(context, order, "boleto_redate", Redate(due_date=in_days(30), actor="x"))
    received = Confirmation(
        charge_id=order.charge_id, end_to_end_id=f"E99999997{new_token()}", amount_cents=5000, paid_at=utc_now()
    )
    async with transaction(pool) as conn:
        await confirm_payments(conn, [received], now=utc_now(), seal=context.seal, fees=NO_FEES)
        ending = asyncio.create_task(worker.drain())
        await asyncio.sleep(0.5)
        assert not ending.done(), "the end of the change waits for the lock on the charge"
    await ending
    await work_until_idle(context, worker, order)
    assert await boleto_changes_of(pool, order) == [("boleto_redate", "refused"), ("boleto_reconcile", "done")]
    assert await boleto_state(bank, order) == WRITTEN_OFF


async def test_a_cob_the_bank_refuses_fails_the_charge_and_writes_its_boleto_off(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    at_bank = context.banks.production[BANK]

    async def put(cob: Any) -> Rejected:
        return Rejected("CobOperacaoInvalida", "no")

    at_bank.pix.put_cob = put  # type: ignore[method-assign]
    try:
        order = await create_dual_charge(context, worker)
    finally:
        del at_bank.pix.put_cob
    await work_until_idle(context, worker, order)
    assert await pool.fetchval("SELECT status FROM charge WHERE charge_id = $1", order.charge_id) == "failed"
    assert await boleto_state(bank, order) == WRITTEN_OFF


async def test_an_unanswered_revision_of_the_cob_is_repeated_until_it_ends_with_the_boleto(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await create_dual_charge(context, worker)
    due_on = today() + timedelta(days=40)
    assert await place_boleto_change(context, order, "boleto_redate", Redate(due_date=due_on.isoformat(), actor="x"))
    await worker.drain()
    patient, context.banks.production[BANK] = context.banks.production[BANK], bank.adapter(write_s=0.3)
    for name in ("down", "error500", "timeout_before"):
        bank.wire.fault = name
        await make_orders_due(pool, order.charge_id)
        await PixOrderWorker(context, Mode.PRODUCTION).drain()
    bank.wire.fault = "lost_reply"
    await make_orders_due(pool, order.charge_id)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    bank.wire.fault, context.banks.production[BANK] = "up", patient
    await make_orders_due(pool, order.charge_id)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    state = including_ended_orders("SELECT state FROM bank_order WHERE charge_id = $1 AND kind = 'cob_revise'")
    assert await pool.fetchval(state, order.charge_id) == "done"
    cob = await bank.bank.booked(order.charge_id.hex)
    assert cob is not None
    assert abs((cob.created_at + timedelta(seconds=cob.expires_in_s) - expires_at(None, due_on)).total_seconds()) <= 1


async def test_the_latest_due_date_wins_over_an_earlier_revision_that_arrives_late(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await create_dual_charge(context, worker)
    at_bank, due_on = context.banks.production[BANK], today() + timedelta(days=60)
    end = expires_at(None, due_on)
    assert await place_boleto_change(context, order, "boleto_redate", Redate(due_date=in_days(40), actor="x"))
    await worker.drain()
    asking = at_bank.pix.revise_cob

    async def late(txid: str, expires_at: datetime) -> Any:
        """The second re-dating is done, its revision included, before the bank receives the first revision."""
        del at_bank.pix.revise_cob
        assert await place_boleto_change(
            context, order, "boleto_redate", Redate(due_date=due_on.isoformat(), actor="x")
        )
        await worker.drain()
        assert await asking(txid, end) == Done(None)
        done = "DELETE FROM bank_order WHERE charge_id = $1 AND kind = 'cob_revise' AND state = 'waiting'"
        await pool.execute(done, order.charge_id)
        return await asking(txid, expires_at)

    at_bank.pix.revise_cob = late  # type: ignore[method-assign]
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    await make_orders_due(pool, order.charge_id)
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    await assert_cob_ends_with_boleto(bank, order, due_on)
    # The boleto, re-dated twice, is printed as its third version.
    redated = "SELECT (doc ->> 'redated')::integer FROM charge_view WHERE charge_id = $1"
    assert await pool.fetchval(redated, order.charge_id) == 2


async def test_the_revision_of_a_cob_waits_for_its_registration(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    """A cob revised before the bank has it would end with the boleto's first due date."""
    order, due_on = await create_dual_charge(context, worker, cob=False), today() + timedelta(days=40)
    assert await place_boleto_change(context, order, "boleto_redate", Redate(due_date=due_on.isoformat(), actor="x"))
    await worker.drain()
    leased = "UPDATE bank_order SET state = $2, lease_until = $3 WHERE charge_id = $1 AND kind = 'cob_register'"
    await pool.execute(leased, order.charge_id, "working", utc_now() + timedelta(hours=1))
    await PixOrderWorker(context, Mode.PRODUCTION).drain()
    await pool.execute(leased, order.charge_id, "waiting", None)
    for _ in range(2):
        await make_orders_due(pool, order.charge_id)
        await PixOrderWorker(context, Mode.PRODUCTION).drain()
    await assert_cob_ends_with_boleto(bank, order, due_on)


async def test_an_active_cob_is_revised_and_keeps_its_location(bank: RunningBoletoBank) -> None:
    adapter, end = bank.adapter(), utc_now() + timedelta(days=3)
    assert await adapter.pix.revise_cob(new_id().hex, end) == NotFound()
    answer = await adapter.pix.create_locations(1)
    assert isinstance(answer, Done)
    cob = Cob(
        txid=new_id().hex, amount_cents=500, created_at=utc_now(), expires_in_s=600,
        location_id=answer.value[0].location_id, pix_key="chave@example.com",
    )  # fmt: skip
    assert isinstance(await adapter.pix.put_cob(cob), Done)
    for _ in range(2):
        assert await adapter.pix.revise_cob(cob.txid, end) == Done(None)
    booked = await bank.bank.booked(cob.txid)
    assert booked is not None
    assert (booked.revisao, booked.location_id) == (1, cob.location_id)
    assert abs((booked.created_at + timedelta(seconds=booked.expires_in_s) - end).total_seconds()) <= 1
    bank.wire.fault = "error500"
    assert isinstance(await adapter.pix.revise_cob(cob.txid, end + timedelta(days=1)), Unknown)
    bank.wire.fault = "up"
    assert await adapter.pix.remove_cob(cob.txid) == Done(None)
    assert isinstance(await adapter.pix.revise_cob(cob.txid, end), Rejected)


async def test_the_books_are_clean_after_the_tests_of_this_file(system: System) -> None:
    assert_books_are_clean(system)
