"""Orders about boletos, done by a worker at a bank that fails on purpose: what is left in both books."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec.structs import replace

from banks.banco_do_brasil.nosso_numero import parse_number
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
from tests.support.banking import BANK, due_now, make_account, utc_now, worker_context
from tests.support.boleto_bank import RunningBoletoBank, new_number, running_boleto_bank, today
from tests.support.boletos import AGREEMENT
from tests.support.orders import age_orders, ever
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
    async with worker_context(pool, servers.redis_url, bank.adapter(read_s=0.5, write_s=0.5)) as opened:
        yield opened


@pytest.fixture
def worker(context: Context) -> BoletoOrderWorker:
    return BoletoOrderWorker(context, Mode.PRODUCTION)


async def ordered(
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
    """An order to register a boleto, as the API writes it."""
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
    """Kind and state, oldest first."""
    rows = await pool.fetch(
        ever("SELECT kind, state FROM bank_order WHERE charge_id = $1 ORDER BY created_at, order_id"), order.charge_id
    )
    return [(row[0], row[1]) for row in rows]


async def status_of(pool: Pool, order: RegistrationOrder) -> str | None:
    found: str | None = await pool.fetchval("SELECT status FROM charge WHERE charge_id = $1", order.charge_id)
    return found


async def at_bank(bank: RunningBoletoBank, order: RegistrationOrder) -> int | None:
    """The bank's code of its state: 1 open, 6 settled, 7 written off."""
    booked = await bank.books.booked(number_of(order))
    return None if booked is None else booked.state


async def worked_through(
    context: Context, worker: BoletoOrderWorker, order: RegistrationOrder, rounds: int = 8
) -> None:
    """Time passes: whatever of this charge waits for its next try is done."""
    for _ in range(rounds):
        await due_now(context.pool, order.charge_id)
        if not await worker.drain():
            return


async def given_up(context: Context, order: RegistrationOrder) -> bool:
    """The API's deadline has come."""
    async with transaction(context.pool) as conn:
        return await give_up(conn, order.order_id, reconcile_id=new_id(), outcome=b"{}", now=utc_now())


@pytest.mark.parametrize("fault", ["lost_reply", "cut"])
async def test_a_boleto_whose_answer_was_lost_is_found_again_and_registered_once(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, fault: str
) -> None:
    order = await ordered(context, await make_account(pool), hybrid=True)
    bank.wire.fault = fault
    await worker.drain()
    bank.wire.fault = "up"
    await worked_through(context, worker, order)
    assert await status_of(pool, order) == "pending"
    assert await at_bank(bank, order) == 1
    doc = msgspec.json.decode(await pool.fetchval("SELECT doc FROM charge_view WHERE charge_id = $1", order.charge_id))
    assert doc["boleto"]["qr_code"].startswith("000201")


async def test_what_a_worker_registered_before_it_died_becomes_the_charge(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await ordered(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute(
        "UPDATE bank_order SET state = 'working', attempts = 1, lease_until = '-infinity' WHERE order_id = $1",
        order.order_id,
    )
    assert await release_orders(context) == 1
    await worker.drain()
    assert (await status_of(pool, order), await at_bank(bank, order)) == ("pending", 1)


async def test_a_creation_given_up_after_the_bank_was_asked_is_undone_there(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await ordered(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    assert await given_up(context, order)
    await worked_through(context, worker, order)
    assert (await status_of(pool, order), await at_bank(bank, order)) == (None, 7)
    assert await orders_of(pool, order) == [("boleto_register", "abandoned"), ("boleto_reconcile", "done")]


async def test_a_creation_given_up_before_anybody_asked_leaves_nothing_to_do(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await ordered(context, await make_account(pool))
    assert await given_up(context, order)
    assert not await given_up(context, order), "it has ended"
    await worked_through(context, worker, order)
    assert await orders_of(pool, order) == [("boleto_register", "abandoned")]
    assert await at_bank(bank, order) is None


async def test_a_yes_that_comes_after_the_creation_was_given_up_makes_no_charge(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await ordered(context, await make_account(pool))
    slow = context.banks.production[BANK].boletos.register_boleto

    async def register(boleto: Any) -> Any:
        done = await slow(boleto)
        assert await given_up(context, order), "the request gives up while the bank answers"
        return done

    context.banks.production[BANK].boletos.register_boleto = register  # type: ignore[method-assign]
    try:
        await worker.drain()
    finally:
        del context.banks.production[BANK].boletos.register_boleto
    await worked_through(context, worker, order)
    assert (await status_of(pool, order), await at_bank(bank, order)) == (None, 7)


@pytest.mark.parametrize("hidden", [False, True], ids=["shown", "not shown yet"])
async def test_a_refusal_after_a_lost_answer_is_not_taken_for_nothing_done(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, hidden: bool
) -> None:
    order = await ordered(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    bank.hidden |= {number_of(order)} if hidden else set()
    bank.wire.fault = "refuse"
    await worker.drain()
    bank.wire.fault = "up"
    bank.hidden.clear()
    await worked_through(context, worker, order)
    # Found again it became the charge; refused, it must have been written off. Never open without a charge.
    assert (await status_of(pool, order), await at_bank(bank, order)) in (("pending", 1), (None, 7))


async def test_a_strangers_boleto_under_our_number_is_not_touched(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await ordered(context, await make_account(pool), description="reconcile")  # a text is no flag of ours
    stranger = replace(boleto_to_register(context, order.request), amount_cents=99, seu_numero="OUTRO")
    await context.banks.production[BANK].boletos.register_boleto(stranger)
    await worker.drain()
    refused = await pool.fetchrow(ever("SELECT state, outcome FROM bank_order WHERE order_id = $1"), order.order_id)
    assert refused is not None
    assert (refused[0], msgspec.json.decode(refused[1])) == ("refused", {"refused": "NUMBER_TAKEN"})
    assert await orders_of(pool, order) == [("boleto_register", "refused")]

    other = await ordered(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(
        replace(boleto_to_register(context, other.request), amount_cents=99, seu_numero="OUTRO")
    )
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", other.order_id)
    assert await given_up(context, other)
    await worked_through(context, worker, other)
    for each in (order, other):
        assert (await status_of(pool, each), await at_bank(bank, each)) == (None, 1)


@pytest.mark.parametrize("differs", ["nothing", "amount", "due date"])
async def test_a_line_that_is_not_the_banks_blocks_alarms_and_is_written_off(
    servers: Any, pool: Pool, capsys: pytest.CaptureFixture[str], differs: str
) -> None:
    """Whatever else is on it: the bank said yes to it, so it is ours and nobody else's."""
    async with running_boleto_bank(pool) as wrong:
        wrong.boletos.quirks = frozenset({"wrong_line"})
        async with worker_context(pool, servers.redis_url, wrong.adapter()) as context:
            worker = BoletoOrderWorker(context, Mode.PRODUCTION)
            order = await ordered(context, await make_account(pool))
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
            await worked_through(context, worker, order)
            assert (await status_of(pool, order), await at_bank(wrong, order)) == (None, 7)
    assert "boleto_line_differs" in capsys.readouterr().out


async def test_a_boleto_paid_although_its_creation_was_given_up_becomes_a_paid_charge(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    """Payers see boletos in their bank before any merchant hands them out (DDA): money is never dropped."""
    account_id = await make_account(pool)
    order = await ordered(context, account_id)
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    assert await given_up(context, order)
    await bank.books.pay(number_of(order), rail="boleto")
    await bank.settled(number_of(order))
    await worked_through(context, worker, order)
    assert await status_of(pool, order) == "paid"
    balance = await pool.fetchval("SELECT balance_cents FROM account_clock WHERE account_id = $1", account_id)
    keys = await pool.fetchval("SELECT count(*) FROM idempotency WHERE account_id = $1", account_id)
    assert (balance, keys) == (5000, 0)


@pytest.mark.parametrize("settled", [False, True], ids=["open", "returned"])
async def test_money_in_suspense_of_a_boleto_whose_charge_is_made_after_all_counts_once(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, settled: bool
) -> None:
    """The bank's list showed it as paid before the reconciliation of the creation did: it fitted no charge then."""
    account_id = await make_account(pool)
    order = await ordered(context, account_id)
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    assert await given_up(context, order)
    number, paid_on = number_of(order), today()
    await bank.books.pay(number, rail="boleto")
    await bank.settled(number)
    listed = [PaidBoleto(number=number, amount_cents=5000, due_on=paid_on, paid_cents=5000, moved_on=paid_on)]
    await book_listed(context, BANK, listed)
    (suspense_id,) = await pool.fetch("SELECT suspense_id FROM suspense WHERE reference = $1", number)
    if settled:
        async with transaction(pool) as conn:
            await return_suspense(conn, suspense_id[0], reference="D1", by="ana", note=None, now=utc_now())
    await worked_through(context, worker, order)
    await book_listed(context, BANK, listed)  # as a list that was read before says it
    left = await pool.fetch("SELECT state FROM suspense WHERE reference = $1", number)
    balance = await pool.fetchval("SELECT balance_cents FROM account_clock WHERE account_id = $1", account_id)
    if settled:
        assert (await status_of(pool, order), balance, [row["state"] for row in left]) == (None, None, ["returned"])
    else:
        assert (await status_of(pool, order), balance, left) == ("paid", 5000, [])


async def assigned(context: Context, order: RegistrationOrder, cents: int = 5000) -> None:
    """A payer sent the money to the key, for no charge, and staff found out whose it is."""
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
    order = await ordered(context, await make_account(pool), hybrid=hybrid)
    await worker.drain()
    await assigned(context, order)
    await worked_through(context, worker, order)
    assert (await status_of(pool, order), await at_bank(bank, order)) == ("paid", 7)


@pytest.mark.parametrize("then", ["done", "given up", "given up before anybody asked"])
async def test_money_assigned_while_the_bank_is_at_a_change_leaves_no_open_boleto(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, then: str
) -> None:
    order = await ordered(context, await make_account(pool))
    await worker.drain()
    change_id = await changed(context, order, "boleto_write_off", WriteOff(reason="cancelled", actor="test"))
    await assigned(context, order)
    if then == "given up":
        await asked_before(context, change_id)
    if then != "done":
        async with transaction(pool) as conn:
            assert await give_up(conn, change_id, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    await worked_through(context, worker, order)
    assert (await status_of(pool, order), await at_bank(bank, order)) == ("paid", 7)


async def test_money_that_staff_have_begun_to_settle_is_theirs_to_the_end(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    """Paid twice, the second time with less, before its charge was made after all; what came second was assigned."""
    account_id = await make_account(pool)
    other = await ordered(context, account_id)
    await worker.drain()
    order = await ordered(context, account_id)
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    assert await given_up(context, order)
    number, paid_on = number_of(order), today()
    for cents, total in ((5000, 5000), (700, 5700)):
        await bank.books.pay(number, rail="boleto", amount_cents=cents, force=True)
        await bank.settled(number)
        listed = PaidBoleto(number=number, amount_cents=5000, due_on=paid_on, paid_cents=total, moved_on=paid_on)
        await book_listed(context, BANK, [listed])
    (second,) = await pool.fetch("SELECT suspense_id FROM suspense WHERE source = $1", f"{number}/5700")
    async with transaction(pool) as conn:
        await assign_suspense(
            conn, second[0], other.charge_id, by="ana", note=None, now=utc_now(), seal=context.seal, fees=NO_FEES
        )
    await worked_through(context, worker, order)
    open_cents = await pool.fetchval(
        "SELECT coalesce(sum(amount_cents), 0) FROM suspense WHERE reference = $1 AND state = 'open'", number
    )
    balance = await pool.fetchval("SELECT balance_cents FROM account_clock WHERE account_id = $1", account_id)
    assert open_cents + balance == 5700, "every cent that the bank has is somewhere"


@pytest.mark.parametrize("by_staff", [False, True], ids=["open", "assigned"])
async def test_money_in_suspense_of_a_boleto_whose_registration_was_not_heard_counts_once(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, by_staff: bool
) -> None:
    """The bank has it, its payer found it there and paid, and only then the registration is asked for again."""
    account_id = await make_account(pool)
    other = await ordered(context, await make_account(pool))
    await worker.drain()
    order = await ordered(context, account_id)
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    number, paid_on = number_of(order), today()
    await bank.books.pay(number, rail="boleto")
    await bank.settled(number)
    listed = [PaidBoleto(number=number, amount_cents=5000, due_on=paid_on, paid_cents=5000, moved_on=paid_on)]
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


async def test_a_boleto_known_by_now_is_not_put_into_suspense(context: Context, pool: Pool) -> None:
    """Read as unknown, and its charge made before its money was written down."""
    order = await ordered(context, await make_account(pool))
    await BoletoOrderWorker(context, Mode.PRODUCTION).drain()
    unknown = Unbooked(number=number_of(order), known=False, paid_cents=5000, moved_on=today())
    await suspend_unknown(context, BANK, [unknown])
    assert await pool.fetch("SELECT FROM suspense WHERE reference = $1", number_of(order)) == []


async def test_a_key_used_while_the_bank_was_asked_has_its_second_boleto_written_off(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    account_id = await make_account(pool)
    order = await ordered(context, account_id, key="uma-so")
    await pool.execute(
        "INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)"
        " VALUES ($1, false, 'uma-so', $2, 'charge', $3, now())", account_id, bytes(32), new_id(),
    )  # fmt: skip
    await worker.drain()
    await worked_through(context, worker, order)
    assert (await status_of(pool, order), await at_bank(bank, order)) == (None, 7)
    assert await orders_of(pool, order) == [("boleto_register", "done"), ("boleto_reconcile", "done")]


async def test_requests_of_one_key_at_once_are_one_order_without_any_lock(context: Context, pool: Pool) -> None:
    account_id = await make_account(pool)
    await ordered(context, account_id, key="gemeas")
    with pytest.raises(AssertionError):
        await ordered(context, account_id, key="gemeas")


async def test_a_cancel_that_only_the_bank_heard_is_finished_later(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await ordered(context, await make_account(pool))
    await worker.drain()
    change_id, now = new_id(), utc_now()
    async with session(pool) as conn:
        assert await place_change(
            conn, order_id=change_id, kind="boleto_write_off", charge_id=order.charge_id, account_id=order.account_id,
            test=False, request=msgspec.json.encode(WriteOff(reason="paid_externally", actor="test")), now=now,
            deadline=now + timedelta(seconds=10), reply_to="nobody",
        )  # fmt: skip
    await bank.books.write_off(number_of(order))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", change_id)
    async with transaction(pool) as conn:
        assert await give_up(conn, change_id, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    await worked_through(context, worker, order)
    assert await status_of(pool, order) == "cancelled"
    body = msgspec.json.decode(
        await pool.fetchval(
            "SELECT event_body FROM journal WHERE charge_id = $1 AND kind = 'charge.cancelled'", order.charge_id
        )
    )
    assert body["reason"] == "paid_externally"


async def test_the_undo_of_a_young_boleto_waits_for_its_moment_and_looks_in_between(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await ordered(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    await bank.rules(apply_30_minutes=True)
    try:
        assert await given_up(context, order)
        waits: list[float] = []
        for _ in range(3):
            await due_now(pool, order.charge_id)
            await worker.drain()
            due: datetime = await pool.fetchval(
                ever("SELECT due_at FROM bank_order WHERE charge_id = $1 AND kind = 'boleto_reconcile'"),
                order.charge_id,
            )
            waits.append((due - utc_now()).total_seconds())
        assert await at_bank(bank, order) == 1
    finally:
        await bank.rules(apply_30_minutes=False)
    assert waits[0] > 10
    assert waits == sorted(waits)
    await worked_through(context, worker, order)
    assert (await status_of(pool, order), await at_bank(bank, order)) == (None, 7)


@pytest.mark.parametrize("age", [timedelta(minutes=1), timedelta(hours=1), timedelta(days=30)], ids=str)
async def test_a_boleto_that_stays_in_between_is_asked_for_ever_more_seldom(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, table_owner: Pool, age: timedelta
) -> None:
    """At a notary, say, for weeks: no status that the bank shows then leads anywhere."""
    order = await ordered(context, await make_account(pool))
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await bank.rules(settle_after_s=3600)
    try:
        await bank.books.pay(number_of(order), rail="boleto", tell=False)
        await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
        assert await given_up(context, order)
        await watched_for(table_owner, order, age)
        await worked_through(context, worker, order, rounds=6)
    finally:
        await bank.rules(settle_after_s=0)
    assert (await orders_of(pool, order))[-1] == ("boleto_reconcile", "waiting")
    due: datetime = await pool.fetchval(
        ever("SELECT due_at FROM bank_order WHERE charge_id = $1 AND kind = 'boleto_reconcile'"), order.charge_id
    )
    wanted_s = {timedelta(minutes=1): 10, timedelta(hours=1): 360, timedelta(days=30): 900}[age]
    assert (due - utc_now()).total_seconds() == pytest.approx(wanted_s, rel=0.25)


async def test_not_found_is_no_answer_while_the_boleto_may_be_on_its_way(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await ordered(context, await make_account(pool))
    await pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", order.order_id)
    assert await given_up(context, order)
    await worked_through(context, worker, order, rounds=2)
    assert (await orders_of(pool, order))[-1] == ("boleto_reconcile", "waiting")
    # It arrives now, from a request that nobody waits for any more.
    await context.banks.production[BANK].boletos.register_boleto(boleto_to_register(context, order.request))
    await worked_through(context, worker, order)
    assert (await status_of(pool, order), await at_bank(bank, order)) == (None, 7)


async def placed(context: Context, order: RegistrationOrder, kind: str, request: Any) -> UUID | None:
    """An order to change the boleto, as the API writes it; None while another one is under way."""
    change_id, now = new_id(), utc_now()
    async with session(context.pool) as conn:
        made = await place_change(
            conn, order_id=change_id, kind=kind, charge_id=order.charge_id, account_id=order.account_id, test=False,
            request=msgspec.json.encode(request), now=now, deadline=now + timedelta(seconds=10), reply_to="nobody",
        )  # fmt: skip
    return None if made is None else change_id


async def changed(context: Context, order: RegistrationOrder, kind: str, request: Any) -> UUID:
    change_id = await placed(context, order, kind, request)
    assert change_id is not None
    return change_id


async def asked_before(context: Context, change_id: UUID) -> None:
    """The bank was asked once, and nothing was heard."""
    await context.pool.execute("UPDATE bank_order SET attempts = 1 WHERE order_id = $1", change_id)


async def dues(pool: Pool, bank: RunningBoletoBank, order: RegistrationOrder) -> tuple[Any, Any]:
    """The due date here, and at the bank."""
    booked = await bank.books.booked(number_of(order))
    assert booked is not None
    return await pool.fetchval("SELECT due_on FROM boleto WHERE charge_id = $1", order.charge_id), booked.due_on


async def watched_for(pool: Pool, order: RegistrationOrder, by: timedelta) -> None:
    """Time passes for what is watched."""
    await age_orders(pool, order.charge_id, by)


@pytest.mark.parametrize("kind", ["boleto_write_off", "boleto_redate"])
async def test_a_change_that_arrives_after_it_was_given_up_is_seen_and_order_reconciliation(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, table_owner: Pool, kind: str
) -> None:
    """A request may lie at the bank longer than anybody waits: that the boleto looks untouched says nothing yet."""
    order = await ordered(context, await make_account(pool))
    await worker.drain()
    ours, _ = await dues(pool, bank, order)
    later = ours + timedelta(days=7)
    wish: Any = WriteOff(reason="cancelled", actor="test")
    if kind == "boleto_redate":
        wish = Redate(due_date=later.isoformat(), actor="test")
    change_id = await changed(context, order, kind, wish)
    await asked_before(context, change_id)
    async with transaction(pool) as conn:
        assert await give_up(conn, change_id, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    await worked_through(context, worker, order, rounds=2)
    if kind == "boleto_redate":
        await bank.books.change(number_of(order), due_on=later)
    else:
        await bank.books.write_off(number_of(order))
    await worked_through(context, worker, order, rounds=2)
    if kind == "boleto_redate":
        assert (await status_of(pool, order), await dues(pool, bank, order)) == ("pending", (ours, ours))
    else:
        assert (await status_of(pool, order), await at_bank(bank, order)) == ("cancelled", 7)
    await watched_for(table_owner, order, timedelta(seconds=61))
    await worked_through(context, worker, order)
    assert (await orders_of(pool, order))[-1] == ("boleto_reconcile", "done"), "it is not watched for ever"


@pytest.mark.parametrize("kind", ["boleto_write_off", "boleto_redate"])
async def test_a_detail_that_is_older_than_the_change_is_not_believed(servers: Any, pool: Pool, kind: str) -> None:
    """The bank shows the answer of half a minute ago to whoever asks again (reference: Cobrancas, detail)."""
    async with (
        running_boleto_bank(pool) as old,
        worker_context(pool, servers.redis_url, old.adapter(detail_age_s=30.0)) as context,
    ):
        worker = BoletoOrderWorker(context, Mode.PRODUCTION)
        order = await ordered(context, await make_account(pool))
        await worker.drain()
        ours, _ = await dues(pool, old, order)
        wish: Any = WriteOff(reason="cancelled", actor="test")
        if kind == "boleto_redate":
            wish = Redate(due_date=(ours + timedelta(days=7)).isoformat(), actor="test")
        await old.rules(detail_cache_s=30)
        try:
            assert await context.banks.production[BANK].boletos.find_boleto(number_of(order))
            old.wire.fault = "lost_reply"
            change_id = await changed(context, order, kind, wish)
            await worked_through(context, worker, order, rounds=4)
            state = await pool.fetchval(ever("SELECT state FROM bank_order WHERE order_id = $1"), change_id)
            assert state == "abandoned", "nobody could know"
            old.wire.fault = "up"
            await worked_through(context, worker, order, rounds=2)
        finally:
            await old.rules(detail_cache_s=0)
        old.boletos._shown.clear()  # half a minute passes
        await worked_through(context, worker, order, rounds=2)
        if kind == "boleto_redate":
            assert (await status_of(pool, order), await dues(pool, old, order)) == ("pending", (ours, ours))
        else:
            assert (await status_of(pool, order), await at_bank(old, order)) == ("cancelled", 7)


async def test_a_write_off_refused_after_a_lost_answer_is_not_taken_for_nothing_done(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    order = await ordered(context, await make_account(pool))
    await worker.drain()
    change_id = await changed(context, order, "boleto_write_off", WriteOff(reason="paid_externally", actor="test"))
    await asked_before(context, change_id)
    bank.wire.fault = "refuse"
    await worker.drain()
    bank.wire.fault = "up"
    assert await pool.fetchval(ever("SELECT state FROM bank_order WHERE order_id = $1"), change_id) == "refused"
    assert await status_of(pool, order) == "pending"
    # What was asked first arrives now.
    await bank.books.write_off(number_of(order))
    await worked_through(context, worker, order, rounds=2)
    assert await status_of(pool, order) == "cancelled"


@pytest.mark.parametrize("kind", ["boleto_redate", "boleto_write_off"])
async def test_a_change_that_took_over_what_was_to_be_order_reconciliation_is_watched_on(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool, kind: str
) -> None:
    """The merchant was told no and asks for another day, or to cancel, which the bank refuses: what was asked first may
    still arrive. While somebody is looking for it, nothing else is asked."""
    order = await ordered(context, await make_account(pool))
    await worker.drain()
    ours, _ = await dues(pool, bank, order)
    first, second = ours + timedelta(days=7), ours + timedelta(days=14)
    given = await changed(context, order, "boleto_redate", Redate(due_date=first.isoformat(), actor="test"))
    await asked_before(context, given)
    async with transaction(pool) as conn:
        assert await give_up(conn, given, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    wish: Any = WriteOff(reason="cancelled", actor="test")
    if kind == "boleto_redate":
        wish = Redate(due_date=second.isoformat(), actor="test")
    leased = "UPDATE bank_order SET state = $2, lease_until = $3 WHERE charge_id = $1"
    await pool.execute(leased, order.charge_id, "working", utc_now() + timedelta(hours=1))
    assert await placed(context, order, kind, wish) is None
    await pool.execute(leased, order.charge_id, "waiting", None)
    await changed(context, order, kind, wish)
    bank.wire.fault = "up" if kind == "boleto_redate" else "refuse"
    await worker.drain()
    bank.wire.fault = "up"
    last = second if kind == "boleto_redate" else ours
    assert await dues(pool, bank, order) == (last, last)
    await bank.books.change(number_of(order), due_on=first)
    await worked_through(context, worker, order, rounds=2)
    assert await dues(pool, bank, order) == (last, last)


async def test_a_boleto_the_bank_did_not_find_when_it_was_cancelled_is_looked_for_again(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    """Cancelled here it must not be payable there, whatever the bank said in a bad minute."""
    order = await ordered(context, await make_account(pool))
    await worker.drain()
    bank.hidden.add(number_of(order))
    await changed(context, order, "boleto_write_off", WriteOff(reason="cancelled", actor="test"))
    await worked_through(context, worker, order, rounds=2)
    assert (await status_of(pool, order), await at_bank(bank, order)) == ("cancelled", 1)
    bank.hidden.clear()
    await worked_through(context, worker, order, rounds=2)
    assert await at_bank(bank, order) == 7


async def test_a_fine_that_was_left_on_another_day_is_put_right_with_the_due_date(
    context: Context, worker: BoletoOrderWorker, bank: RunningBoletoBank, pool: Pool
) -> None:
    """The due date was given back, and the bank fell silent before it had moved what counts from it."""
    terms = PaymentTerms(fine=Fine(percent_bps=200), payable_days=30)
    order = await ordered(context, await make_account(pool), terms=terms)
    await worker.drain()
    ours, _ = await dues(pool, bank, order)
    later = Redate(due_date=(ours + timedelta(days=7)).isoformat(), actor="test")
    change_id = await changed(context, order, "boleto_redate", later)
    await asked_before(context, change_id)
    async with transaction(pool) as conn:
        assert await give_up(conn, change_id, reconcile_id=new_id(), outcome=b"{}", now=utc_now())
    await bank.books.change(number_of(order), fine_from=fine_begins(ours + timedelta(days=7)), late_days=44)
    await worked_through(context, worker, order, rounds=2)
    booked = await bank.books.booked(number_of(order))
    assert booked is not None
    assert (booked.due_on, booked.fine_from, booked.last_day) == (ours, fine_begins(ours), last_day(terms, ours))
