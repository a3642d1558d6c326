"""Bank orders about boletos, executed at a bank with injected faults: what our books and the bank's hold afterwards."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec.structs import replace

from banks.banco_do_brasil.cobrancas import REQUEST
from banks.banco_do_brasil.nosso_numero import parse_number
from banks.banco_do_brasil.transport import PAUSE_S_MAX
from banks.boletos import BoletoPayer, NewBoleto, PaidBoleto
from commands.bank_orders.boleto_orders import give_up, place_change
from commands.bank_orders.kinds import Redate, WriteOff
from commands.charges.create_boleto import BoletoRequest, RegistrationOrder, compose_boleto, order_boletos
from commands.charges.issuer import Issuer
from commands.money.suspense import SuspendedMoney, assign_suspense, return_suspense, suspend_money
from domain.boleto.terms import Fine, PaymentTerms, fine_begins, last_day
from domain.instants import to_millisecond
from domain.merchants.fees import NO_FEES
from domain.mode import Mode
from runtime.ids import new_id, new_token
from runtime.postgres import Pool, session, transaction
from runtime.seal import CHARGE_PAYER
from tests.support.banking import BANK, make_account, make_orders_due, utc_now, worker_context
from tests.support.boleto_bank import RunningBoletoBank, new_number, running_boleto_bank, today
from tests.support.boletos import AGREEMENT
from tests.support.orders import age_orders, including_ended_orders
from workers.context import Context
from workers.incoming.boleto_payments import Unbooked, book_listed, suspend_unknown
from workers.orders.boleto import BoletoOrderWorker
from workers.orders.boleto_changes import boleto_to_register
from workers.orders.lease import release_orders

PAYER = BoletoPayer(
    name="Fulana de Tal", document="52998224725", street="Rua Um", number="1", city="Recife", state="PE",
    zip_code="50000000",
)  # fmt: skip


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


async def order_registration(
    context: Context,
    account_id: UUID,
    *,
    number: str = "",
    key: str = "",
    hybrid: bool = False,
    cents: int = 5000,
    terms: PaymentTerms | None = None,
    description: str | None = None,
) -> RegistrationOrder:
    """Store an order to register a boleto, as the API does."""
    charge_id = new_id()
    request = BoletoRequest(
        charge_id=charge_id,
        issuer=Issuer(account_id=account_id, test=False, name="", city="", pix_key="", actor="test"),
        key=key or new_token(), fingerprint=b"\xab" * 32, request_id="req_test",
        kind="boleto_hibrido" if hybrid else "boleto", amount_cents=cents, due_on=today() + timedelta(days=10),
        terms=terms,
        payer_sealed=context.seal.seal(msgspec.json.encode(PAYER), CHARGE_PAYER, charge_id), payer_document_hash=None,
        external_id="PEDIDO 7", description=description,
    )  # fmt: skip
    now, (_, control) = to_millisecond(utc_now()), parse_number(number or new_number())
    order = compose_boleto(
        request, control, agreement=AGREEMENT, now=now, deadline=now + timedelta(seconds=10), reply_to="nobody"
    )
    async with session(context.pool) as conn:
        assert await order_boletos(conn, [order]) == {order.order_id}
    return order


def number_of(order: RegistrationOrder) -> str:
    number = order.request.payload.charge.nosso_numero
    assert number is not None
    return number


async def orders_of(pool: Pool, order: RegistrationOrder) -> list[tuple[str, str]]:
    """Kind and state of the charge's bank orders, oldest first."""
    rows = await pool.fetch(
        including_ended_orders("SELECT kind, state FROM bank_order WHERE charge_id = $1 ORDER BY created_at, order_id"),
        order.charge_id,
    )
    return [(row[0], row[1]) for row in rows]


async def status_of(pool: Pool, order: RegistrationOrder) -> str | None:
    found: str | None = await pool.fetchval("SELECT status FROM charge WHERE charge_id = $1", order.charge_id)
    return found


async def bank_state(bank: RunningBoletoBank, order: RegistrationOrder) -> int | None:
    """The bank's state code of the boleto: 1 open, 6 settled, 7 written off; None if the bank does not have it."""
    booked = await bank.books.booked(number_of(order))
    return None if booked is None else booked.state


async def work_until_idle(
    context: Context, worker: BoletoOrderWorker, order: RegistrationOrder, rounds: int = 8
) -> None:
    """Make the charge's waiting orders due and execute them, until none is left or `rounds` are over."""
    for _ in range(rounds):
        await make_orders_due(context.pool, order.charge_id)
        if not await worker.drain():
            return


async def give_up_creation(context: Context, order: RegistrationOrder) -> bool:
    """Give the creation up, as the API does at its deadline; False if it had ended already."""
    async with transaction(context.pool) as conn:
        return await give_up(conn, order.order_id, reconcile_id=new_id(), outcome=b"{}", now=utc_now())


@pytest.mark.parametrize("fault", ["lost_reply", "cut"])
async def test_a_boleto_whose_registration_reply_was_lost_is_found_and_registered_once(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, fault: str
) -> None:
    order = await order_registration(context, await make_account(pool), hybrid=True)
    bank.wire.fault = fault
    await worker.drain()
    bank.wire.fault = "up"
    await work_until_idle(context, worker, order)
    assert await status_of(pool, order) == "pending"
    assert await bank_state(bank, order) == 1
    doc = msgspec.json.decode(await pool.fetchval("SELECT doc FROM charge_view WHERE charge_id = $1", order.charge_id))
    assert doc["boleto"]["qr_code"].startswith("000201")


async def test_a_boleto_registered_by_a_worker_that_died_becomes_a_charge(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await order_registration(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute(
        "UPDATE bank_order SET state = 'working', attempts = 1, lease_until = '-infinity' WHERE order_id = $1",
        order.order_id,
    )
    assert await release_orders(context) == 1
    await worker.drain()
    assert (await status_of(pool, order), await bank_state(bank, order)) == ("pending", 1)


async def test_a_creation_given_up_after_the_bank_was_called_is_undone_at_the_bank(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await order_registration(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    assert await give_up_creation(context, order)
    await work_until_idle(context, worker, order)
    assert (await status_of(pool, order), await bank_state(bank, order)) == (None, 7)
    assert await orders_of(pool, order) == [("boleto_register", "abandoned"), ("boleto_reconcile", "done")]


async def test_a_creation_given_up_before_the_bank_was_called_leaves_nothing_to_undo(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await order_registration(context, await make_account(pool))
    assert await give_up_creation(context, order)
    assert not await give_up_creation(context, order), "a creation is given up once"
    await work_until_idle(context, worker, order)
    assert await orders_of(pool, order) == [("boleto_register", "abandoned")]
    assert await bank_state(bank, order) is None


async def test_a_boleto_is_refused_at_once_and_not_looked_for_while_the_bank_wants_no_calls(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await order_registration(context, await make_account(pool))
    transport: Any = context.banks.production[BANK].boletos._transport  # type: ignore[attr-defined]
    transport._retry_at[REQUEST] = asyncio.get_running_loop().time() + 2 * PAUSE_S_MAX
    bank.requests.clear()
    try:
        await worker.drain()
    finally:
        transport._retry_at.clear()
    assert bank.requests == []
    assert await orders_of(pool, order) == [("boleto_register", "abandoned")], "nothing is to be undone"


async def test_a_registration_confirmed_after_the_creation_was_given_up_makes_no_charge(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await order_registration(context, await make_account(pool))
    slow = context.banks.production[BANK].boletos.register_boleto

    async def register(boleto: Any) -> Any:
        done = await slow(boleto)
        assert await give_up_creation(context, order), "the request gives up while the bank answers"
        return done

    context.banks.production[BANK].boletos.register_boleto = register  # type: ignore[method-assign]
    try:
        await worker.drain()
    finally:
        del context.banks.production[BANK].boletos.register_boleto
    await work_until_idle(context, worker, order)
    assert (await status_of(pool, order), await bank_state(bank, order)) == (None, 7)


@pytest.mark.parametrize("hidden", [False, True], ids=["shown", "not shown yet"])
async def test_a_refusal_after_a_lost_reply_leaves_no_open_boleto_without_a_charge(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, hidden: bool
) -> None:
    order = await order_registration(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    bank.hidden |= {number_of(order)} if hidden else set()
    bank.wire.fault = "refuse"
    await worker.drain()
    bank.wire.fault = "up"
    bank.hidden.clear()
    await work_until_idle(context, worker, order)
    # Either the boleto was found and became the charge, or it was written off: never open without a charge.
    assert (await status_of(pool, order), await bank_state(bank, order)) in (("pending", 1), (None, 7))


async def test_a_foreign_boleto_under_our_nosso_numero_is_not_touched(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await order_registration(
        context, await make_account(pool), description="reconcile"
    )  # the merchant's text is not read as a flag
    stranger = replace(boleto_to_register(context, order.request), amount_cents=99, seu_numero="OUTRO")
    await context.banks.production[BANK].boletos.register_boleto(stranger)
    await worker.drain()
    refused = await pool.fetchrow(
        including_ended_orders("SELECT state, outcome FROM bank_order WHERE order_id = $1"), order.order_id
    )
    assert refused is not None
    assert (refused[0], msgspec.json.decode(refused[1])) == ("refused", {"refused": "NUMBER_TAKEN"})
    assert await orders_of(pool, order) == [("boleto_register", "refused")]

    other = await order_registration(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(
        replace(boleto_to_register(context, other.request), amount_cents=99, seu_numero="OUTRO")
    )
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", other.order_id)
    assert await give_up_creation(context, other)
    await work_until_idle(context, worker, other)
    for each in (order, other):
        assert (await status_of(pool, each), await bank_state(bank, each)) == (None, 1)


@pytest.mark.parametrize("differs", ["nothing", "amount", "due date"])
async def test_a_boleto_whose_line_differs_from_the_banks_raises_an_alarm_and_is_written_off(
    servers: Any, pool: Pool, capsys: pytest.CaptureFixture[str], differs: str
) -> None:
    """Whatever else differs: the bank accepted the registration, so the boleto is ours."""
    async with running_boleto_bank(pool) as wrong:
        wrong.boletos.quirks = frozenset({"wrong_line"})
        async with worker_context(pool, servers.redis_url, wrong.adapter()) as context:
            worker = BoletoOrderWorker(context, Mode.PRODUCTION)
            order = await order_registration(context, await make_account(pool))
            register = context.banks.production[BANK].boletos.register_boleto

            async def misunderstood(boleto: NewBoleto) -> Any:
                answer = await register(boleto)
                update = "UPDATE simulated_boleto SET amount_cents = $2, due_on = $3 WHERE number = $1"
                amount_cents = boleto.amount_cents + 100 * (differs == "amount")
                await pool.execute(
                    update, boleto.number, amount_cents, boleto.due_on + timedelta(days=differs == "due date")
                )
                return answer

            context.banks.production[BANK].boletos.register_boleto = misunderstood  # type: ignore[method-assign]
            await worker.drain()
            wrong.boletos.quirks = frozenset()
            await work_until_idle(context, worker, order)
            assert (await status_of(pool, order), await bank_state(wrong, order)) == (None, 7)
    assert "boleto_line_differs" in capsys.readouterr().out


async def test_a_boleto_paid_although_its_creation_was_given_up_becomes_a_paid_charge(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    """Payers see boletos in their bank before the merchant sends them (DDA). Money that arrived is never dropped."""
    account_id = await make_account(pool)
    order = await order_registration(context, account_id)
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    assert await give_up_creation(context, order)
    await bank.books.pay(number_of(order), rail="boleto")
    await bank.settled(number_of(order))
    await work_until_idle(context, worker, order)
    assert await status_of(pool, order) == "paid"
    balance = await pool.fetchval("SELECT balance_cents FROM account_clock WHERE account_id = $1", account_id)
    keys = await pool.fetchval("SELECT count(*) FROM idempotency WHERE account_id = $1", account_id)
    assert (balance, keys) == (5000, 0)


@pytest.mark.parametrize("settled", [False, True], ids=["open", "returned"])
async def test_suspended_money_of_a_boleto_whose_charge_is_created_later_is_counted_once(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, settled: bool
) -> None:
    """The bank's list shows the boleto as paid before its creation is reconciled: the money fits no charge then."""
    account_id = await make_account(pool)
    order = await order_registration(context, account_id)
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    assert await give_up_creation(context, order)
    number, paid_on = number_of(order), today()
    await bank.books.pay(number, rail="boleto")
    await bank.settled(number)
    listed = [PaidBoleto(number=number, paid_cents=5000, moved_on=paid_on)]
    await book_listed(context, BANK, listed)
    (suspense_id,) = await pool.fetch("SELECT suspense_id FROM suspense WHERE reference = $1", number)
    if settled:
        async with transaction(pool) as conn:
            await return_suspense(conn, suspense_id[0], reference="D1", by="ana", note=None, now=utc_now())
    await work_until_idle(context, worker, order)
    await book_listed(context, BANK, listed)  # once more, as a list read before the charge existed would
    left = await pool.fetch("SELECT state FROM suspense WHERE reference = $1", number)
    balance = await pool.fetchval("SELECT balance_cents FROM account_clock WHERE account_id = $1", account_id)
    if settled:
        assert (await status_of(pool, order), balance, [row["state"] for row in left]) == (None, None, ["returned"])
    else:
        assert (await status_of(pool, order), balance, left) == ("paid", 5000, [])


async def pay_with_assigned_money(context: Context, order: RegistrationOrder, cents: int = 5000) -> None:
    """Suspend money that a payer sent to the key without a txid, and assign it to the charge, as staff do."""
    found = SuspendedMoney(
        suspense_id=new_id(), kind="pix_without_txid", source=f"E{new_id().hex[1:]}", reference=None,
        amount_cents=cents, received_at=utc_now(), payer_sealed=None,
    )  # fmt: skip
    async with transaction(context.pool) as conn:
        await suspend_money(conn, [found], bank=BANK, now=utc_now())
    async with transaction(context.pool) as conn:
        await assign_suspense(
            conn,
            found.suspense_id,
            order.charge_id,
            by="ana",
            note=None,
            now=utc_now(),
            seal=context.seal,
            fees=NO_FEES,
        )


@pytest.mark.parametrize("hybrid", [False, True])
async def test_a_boleto_whose_charge_was_paid_with_assigned_money_is_written_off_at_the_bank(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, hybrid: bool
) -> None:
    order = await order_registration(context, await make_account(pool), hybrid=hybrid)
    await worker.drain()
    await pay_with_assigned_money(context, order)
    await work_until_idle(context, worker, order)
    assert (await status_of(pool, order), await bank_state(bank, order)) == ("paid", 7)


@pytest.mark.parametrize("then", ["done", "given up", "given up before anybody asked"])
async def test_money_assigned_while_a_boleto_change_is_under_way_leaves_no_open_boleto(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, then: str
) -> None:
    order = await order_registration(context, await make_account(pool))
    await worker.drain()
    change_id = await order_boleto_change(
        context, order, "boleto_write_off", WriteOff(reason="cancelled", actor="test")
    )
    await pay_with_assigned_money(context, order)
    if then == "given up":
        await mark_bank_called(context, change_id)
    if then != "done":
        async with transaction(pool) as conn:
            assert await give_up(conn, change_id, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    await work_until_idle(context, worker, order)
    assert (await status_of(pool, order), await bank_state(bank, order)) == ("paid", 7)


async def test_no_money_is_lost_when_staff_assigned_part_of_it_before_the_charge_was_created(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    """The boleto is paid twice before its charge is created, the second time with less; staff assigned that payment."""
    account_id = await make_account(pool)
    other = await order_registration(context, account_id)
    await worker.drain()
    order = await order_registration(context, account_id)
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    assert await give_up_creation(context, order)
    number, paid_on = number_of(order), today()
    for cents, total in ((5000, 5000), (700, 5700)):
        await bank.books.pay(number, rail="boleto", amount_cents=cents, force=True)
        await bank.settled(number)
        listed = PaidBoleto(number=number, paid_cents=total, moved_on=paid_on)
        await book_listed(context, BANK, [listed])
    (second,) = await pool.fetch("SELECT suspense_id FROM suspense WHERE source = $1", f"{number}/5700")
    async with transaction(pool) as conn:
        await assign_suspense(
            conn, second[0], other.charge_id, by="ana", note=None, now=utc_now(), seal=context.seal, fees=NO_FEES
        )
    await work_until_idle(context, worker, order)
    open_cents = await pool.fetchval(
        "SELECT coalesce(sum(amount_cents), 0) FROM suspense WHERE reference = $1 AND state = 'open'", number
    )
    balance = await pool.fetchval("SELECT balance_cents FROM account_clock WHERE account_id = $1", account_id)
    assert open_cents + balance == 5700, "every cent the bank received is in the balance or in suspense"


@pytest.mark.parametrize("by_staff", [False, True], ids=["open", "assigned"])
async def test_suspended_money_of_a_boleto_whose_registration_reply_was_lost_is_counted_once(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, by_staff: bool
) -> None:
    """The bank has the boleto, its payer finds it there and pays, and only then the registration is repeated."""
    account_id = await make_account(pool)
    other = await order_registration(context, await make_account(pool))
    await worker.drain()
    order = await order_registration(context, account_id)
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    number, paid_on = number_of(order), today()
    await bank.books.pay(number, rail="boleto")
    await bank.settled(number)
    listed = [PaidBoleto(number=number, paid_cents=5000, moved_on=paid_on)]
    await book_listed(context, BANK, listed)
    (suspense_id,) = await pool.fetch("SELECT suspense_id FROM suspense WHERE reference = $1", number)
    if by_staff:
        async with transaction(pool) as conn:
            await assign_suspense(
                conn, suspense_id[0], other.charge_id, by="ana", note=None, now=utc_now(), seal=context.seal,
                fees=NO_FEES,
            )  # fmt: skip
    await worker.drain()
    assert await status_of(pool, order) == "pending"
    await book_listed(context, BANK, listed)
    left = await pool.fetch("SELECT state FROM suspense WHERE reference = $1", number)
    (paid,) = await pool.fetch("SELECT charge_id FROM payment WHERE source = $1", f"{number}/5000")
    assert paid["charge_id"] == (other if by_staff else order).charge_id
    assert [row["state"] for row in left] == (["assigned"] if by_staff else [])


async def test_money_of_a_boleto_whose_charge_exists_by_now_is_not_suspended(context: Context, pool: Pool) -> None:
    """The boleto was read as unknown, and its charge was created before the money was written to suspense."""
    order = await order_registration(context, await make_account(pool))
    await BoletoOrderWorker(context, Mode.PRODUCTION).drain()
    unknown = Unbooked(number=number_of(order), known=False, paid_cents=5000, moved_on=today())
    await suspend_unknown(context, BANK, [unknown])
    assert await pool.fetch("SELECT FROM suspense WHERE reference = $1", number_of(order)) == []


async def test_a_boleto_whose_idempotency_key_was_used_during_its_registration_is_written_off(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    account_id = await make_account(pool)
    order = await order_registration(context, account_id, key="uma-so")
    await pool.execute(
        "INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)"
        " VALUES ($1, false, 'uma-so', $2, 'charge', $3, now())", account_id, bytes(32), new_id(),
    )  # fmt: skip
    await worker.drain()
    await work_until_idle(context, worker, order)
    assert (await status_of(pool, order), await bank_state(bank, order)) == (None, 7)
    assert await orders_of(pool, order) == [("boleto_register", "done"), ("boleto_reconcile", "done")]


async def test_a_second_registration_order_with_the_same_idempotency_key_is_not_stored(
    context: Context, pool: Pool
) -> None:
    account_id = await make_account(pool)
    first = await order_registration(context, account_id, key="gemeas")
    second = replace(first, order_id=new_id(), charge_id=new_id())
    async with session(pool) as conn:
        assert await order_boletos(conn, [second]) == set()
    stored = await pool.fetch("SELECT order_id FROM bank_order WHERE account_id = $1", account_id)
    assert [row["order_id"] for row in stored] == [first.order_id]


async def test_a_cancellation_that_only_the_bank_recorded_is_completed_later(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await order_registration(context, await make_account(pool))
    await worker.drain()
    change_id, now = new_id(), utc_now()
    async with session(pool) as conn:
        assert await place_change(
            conn, order_id=change_id, kind="boleto_write_off", charge_id=order.charge_id, account_id=order.account_id,
            test=False, request=msgspec.json.encode(WriteOff(reason="paid_externally", actor="test")), now=now,
            due_at=now, deadline=now + timedelta(seconds=10), reply_to="nobody",
        )  # fmt: skip
    await bank.books.write_off(number_of(order))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", change_id)
    async with transaction(pool) as conn:
        assert await give_up(conn, change_id, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    await work_until_idle(context, worker, order)
    assert await status_of(pool, order) == "cancelled"
    body = msgspec.json.decode(
        await pool.fetchval(
            "SELECT event_body FROM journal WHERE charge_id = $1 AND kind = 'charge.cancelled'", order.charge_id
        )
    )
    assert body["reason"] == "paid_externally"


async def test_the_write_off_of_a_boleto_younger_than_30_minutes_is_retried_with_growing_delays(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await order_registration(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    await bank.rules(apply_30_minutes=True)
    try:
        assert await give_up_creation(context, order)
        waits: list[float] = []
        for _ in range(3):
            await make_orders_due(pool, order.charge_id)
            await worker.drain()
            due: datetime = await pool.fetchval(
                including_ended_orders(
                    "SELECT due_at FROM bank_order WHERE charge_id = $1 AND kind = 'boleto_reconcile'"
                ),
                order.charge_id,
            )
            waits.append((due - utc_now()).total_seconds())
        assert await bank_state(bank, order) == 1
    finally:
        await bank.rules(apply_30_minutes=False)
    assert waits[0] > 10
    assert waits == sorted(waits)
    await work_until_idle(context, worker, order)
    assert (await status_of(pool, order), await bank_state(bank, order)) == (None, 7)


@pytest.mark.parametrize("age", [timedelta(minutes=1), timedelta(hours=1), timedelta(days=30)], ids=str)
async def test_a_boleto_in_an_undecided_state_is_looked_up_ever_less_often(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, table_owner: Pool, age: timedelta
) -> None:
    """A boleto may be at a notary for weeks: the states the bank shows meanwhile settle nothing."""
    order = await order_registration(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await bank.rules(settle_after_s=3600)
    try:
        await bank.books.pay(number_of(order), rail="boleto", tell=False)
        await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
        assert await give_up_creation(context, order)
        await age_orders_of(table_owner, order, age)
        await work_until_idle(context, worker, order, rounds=6)
    finally:
        await bank.rules(settle_after_s=0)
    assert (await orders_of(pool, order))[-1] == ("boleto_reconcile", "waiting")
    due: datetime = await pool.fetchval(
        including_ended_orders("SELECT due_at FROM bank_order WHERE charge_id = $1 AND kind = 'boleto_reconcile'"),
        order.charge_id,
    )
    wanted_s = {timedelta(minutes=1): 10, timedelta(hours=1): 360, timedelta(days=30): 900}[age]
    assert (due - utc_now()).total_seconds() == pytest.approx(wanted_s, rel=0.25)


async def test_not_found_is_not_final_while_the_registration_may_still_arrive(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await order_registration(context, await make_account(pool))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    assert await give_up_creation(context, order)
    await work_until_idle(context, worker, order, rounds=2)
    assert (await orders_of(pool, order))[-1] == ("boleto_reconcile", "waiting")
    # The abandoned request reaches the bank now.
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await work_until_idle(context, worker, order)
    assert (await status_of(pool, order), await bank_state(bank, order)) == (None, 7)


async def place_boleto_change(context: Context, order: RegistrationOrder, kind: str, request: Any) -> UUID | None:
    """Store an order to change the boleto, as the API does; None while another change is under way."""
    change_id, now = new_id(), utc_now()
    async with session(context.pool) as conn:
        made = await place_change(
            conn, order_id=change_id, kind=kind, charge_id=order.charge_id, account_id=order.account_id, test=False,
            request=msgspec.json.encode(request), now=now, due_at=now, deadline=now + timedelta(seconds=10),
            reply_to="nobody",
        )  # fmt: skip
    return None if made is None else change_id


async def order_boleto_change(context: Context, order: RegistrationOrder, kind: str, request: Any) -> UUID:
    change_id = await place_boleto_change(context, order, kind, request)
    assert change_id is not None
    return change_id


async def mark_bank_called(context: Context, change_id: UUID) -> None:
    """As if the bank had been called once, without an answer."""
    await context.pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", change_id)


async def due_dates(pool: Pool, bank: RunningBoletoBank, order: RegistrationOrder) -> tuple[Any, Any]:
    """The due date in our books, and at the bank."""
    booked = await bank.books.booked(number_of(order))
    assert booked is not None
    return await pool.fetchval("SELECT due_on FROM boleto WHERE charge_id = $1", order.charge_id), booked.due_on


async def age_orders_of(pool: Pool, order: RegistrationOrder, by: timedelta) -> None:
    """Make the charge's orders older by `by`."""
    await age_orders(pool, order.charge_id, by)


@pytest.mark.parametrize("kind", ["boleto_write_off", "boleto_redate"])
async def test_a_boleto_change_that_reaches_the_bank_after_it_was_given_up_is_reconciled(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, table_owner: Pool, kind: str
) -> None:
    """A request may be under way longer than its caller waits: an unchanged boleto proves nothing yet."""
    order = await order_registration(context, await make_account(pool))
    await worker.drain()
    ours, _ = await due_dates(pool, bank, order)
    later = ours + timedelta(days=7)
    change: Any = WriteOff(reason="cancelled", actor="test")
    if kind == "boleto_redate":
        change = Redate(due_date=later.isoformat(), actor="test")
    change_id = await order_boleto_change(context, order, kind, change)
    await mark_bank_called(context, change_id)
    async with transaction(pool) as conn:
        assert await give_up(conn, change_id, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    await work_until_idle(context, worker, order, rounds=2)
    if kind == "boleto_redate":
        await bank.books.change(number_of(order), due_on=later)
    else:
        await bank.books.write_off(number_of(order))
    await work_until_idle(context, worker, order, rounds=2)
    if kind == "boleto_redate":
        assert (await status_of(pool, order), await due_dates(pool, bank, order)) == ("pending", (ours, ours))
    else:
        assert (await status_of(pool, order), await bank_state(bank, order)) == ("cancelled", 7)
    await age_orders_of(table_owner, order, timedelta(seconds=61))
    await work_until_idle(context, worker, order)
    assert (await orders_of(pool, order))[-1] == ("boleto_reconcile", "done"), "the reconciliation ends"


@pytest.mark.parametrize("kind", ["boleto_write_off", "boleto_redate"])
async def test_a_boleto_detail_older_than_the_change_is_not_trusted(servers: Any, pool: Pool, kind: str) -> None:
    """The bank repeats its answer of up to half a minute ago when queried again (reference: Cobrancas, detail)."""
    async with (
        running_boleto_bank(pool) as old,
        worker_context(pool, servers.redis_url, old.adapter(detail_age_s=30.0)) as context,
    ):
        worker = BoletoOrderWorker(context, Mode.PRODUCTION)
        order = await order_registration(context, await make_account(pool))
        await worker.drain()
        ours, _ = await due_dates(pool, old, order)
        change: Any = WriteOff(reason="cancelled", actor="test")
        if kind == "boleto_redate":
            change = Redate(due_date=(ours + timedelta(days=7)).isoformat(), actor="test")
        await old.rules(detail_cache_s=30)
        try:
            assert await context.banks.production[BANK].boletos.find_boleto(number_of(order))
            old.wire.fault = "lost_reply"
            change_id = await order_boleto_change(context, order, kind, change)
            await work_until_idle(context, worker, order, rounds=4)
            state = await pool.fetchval(
                including_ended_orders("SELECT state FROM bank_order WHERE order_id = $1"), change_id
            )
            assert state == "abandoned", "the outcome cannot be known from an old detail"
            old.wire.fault = "up"
            await work_until_idle(context, worker, order, rounds=2)
        finally:
            await old.rules(detail_cache_s=0)
        old.boletos._shown.clear()  # half a minute passes
        await work_until_idle(context, worker, order, rounds=2)
        if kind == "boleto_redate":
            assert (await status_of(pool, order), await due_dates(pool, old, order)) == ("pending", (ours, ours))
        else:
            assert (await status_of(pool, order), await bank_state(old, order)) == ("cancelled", 7)


async def test_a_write_off_refused_after_a_lost_reply_is_still_reconciled(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await order_registration(context, await make_account(pool))
    await worker.drain()
    change_id = await order_boleto_change(
        context, order, "boleto_write_off", WriteOff(reason="paid_externally", actor="test")
    )
    await mark_bank_called(context, change_id)
    bank.wire.fault = "refuse"
    await worker.drain()
    bank.wire.fault = "up"
    assert (
        await pool.fetchval(including_ended_orders("SELECT state FROM bank_order WHERE order_id = $1"), change_id)
        == "refused"
    )
    assert await status_of(pool, order) == "pending"
    # The first request reaches the bank now.
    await bank.books.write_off(number_of(order))
    await work_until_idle(context, worker, order, rounds=2)
    assert await status_of(pool, order) == "cancelled"


@pytest.mark.parametrize("kind", ["boleto_redate", "boleto_write_off"])
async def test_a_boleto_change_that_replaces_a_reconciliation_is_itself_reconciled(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, kind: str
) -> None:
    """The first change was answered as failed; the merchant asks for another due date, or to cancel, which the bank
    refuses. The first request may still arrive. While a worker is reconciling it, no other change is accepted."""
    order = await order_registration(context, await make_account(pool))
    await worker.drain()
    ours, _ = await due_dates(pool, bank, order)
    first, second = ours + timedelta(days=7), ours + timedelta(days=14)
    given = await order_boleto_change(context, order, "boleto_redate", Redate(due_date=first.isoformat(), actor="test"))
    await mark_bank_called(context, given)
    async with transaction(pool) as conn:
        assert await give_up(conn, given, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    change: Any = WriteOff(reason="cancelled", actor="test")
    if kind == "boleto_redate":
        change = Redate(due_date=second.isoformat(), actor="test")
    leased = "UPDATE bank_order SET state = $2, lease_until = $3 WHERE charge_id = $1"
    await pool.execute(leased, order.charge_id, "working", utc_now() + timedelta(hours=1))
    assert await place_boleto_change(context, order, kind, change) is None
    await pool.execute(leased, order.charge_id, "waiting", None)
    await order_boleto_change(context, order, kind, change)
    bank.wire.fault = "up" if kind == "boleto_redate" else "refuse"
    await worker.drain()
    bank.wire.fault = "up"
    last = second if kind == "boleto_redate" else ours
    assert await due_dates(pool, bank, order) == (last, last)
    await bank.books.change(number_of(order), due_on=first)
    await work_until_idle(context, worker, order, rounds=2)
    assert await due_dates(pool, bank, order) == (last, last)


async def test_a_cancelled_boleto_the_bank_did_not_find_is_written_off_once_it_is_found(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    """A boleto cancelled here must not stay payable at the bank, even if the bank once answered not found."""
    order = await order_registration(context, await make_account(pool))
    await worker.drain()
    bank.hidden.add(number_of(order))
    await order_boleto_change(context, order, "boleto_write_off", WriteOff(reason="cancelled", actor="test"))
    await work_until_idle(context, worker, order, rounds=2)
    assert (await status_of(pool, order), await bank_state(bank, order)) == ("cancelled", 1)
    bank.hidden.clear()
    await work_until_idle(context, worker, order, rounds=2)
    assert await bank_state(bank, order) == 7


async def test_a_fine_left_at_the_wrong_date_is_corrected_with_the_due_date(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    """The due date was restored, and the bank stopped answering before the dates derived from it were."""
    terms = PaymentTerms(fine=Fine(percent_bps=200), payable_days=30)
    order = await order_registration(context, await make_account(pool), terms=terms)
    await worker.drain()
    ours, _ = await due_dates(pool, bank, order)
    later = Redate(due_date=(ours + timedelta(days=7)).isoformat(), actor="test")
    change_id = await order_boleto_change(context, order, "boleto_redate", later)
    await mark_bank_called(context, change_id)
    async with transaction(pool) as conn:
        assert await give_up(conn, change_id, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    await bank.books.change(number_of(order), fine_from=fine_begins(ours + timedelta(days=7)), late_days=44)
    await work_until_idle(context, worker, order, rounds=2)
    booked = await bank.books.booked(number_of(order))
    assert booked is not None
    assert (booked.due_on, booked.fine_from, booked.last_day) == (ours, fine_begins(ours), last_day(terms, ours))
