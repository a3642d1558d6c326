"""Bank orders of refunds: sent once, looked up until their outcome is known, and booked to the cent."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio
from msgspec import structs

from banks.banco_do_brasil.adapter import BancoDoBrasil
from banks.protocol import Done, NotFound, Rejected, Unknown
from banks.simulated.bank import PayerPix, SimulatedBank
from banks.simulated.boletos import new_end_to_end_id
from banks.simulated.returns import ReturnRules
from banks.simulated.shown import shown_return
from banks.transfers import NO_TRANSFERS, PIX_UNKNOWN, Return, Sent, Transfer
from commands.bank_orders.kinds import OrderLane
from commands.charges.pay import BoletoPaymentFacts, Confirmation, confirm_payments
from commands.money.refund import NewRefund, TransferDestination, begin_refunds
from domain.instants import to_millisecond
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from domain.refund import FailureCode
from readmodels.money.refund import RefundProjection, refund_by_id
from readmodels.verify import verify
from runtime.ids import first_id, new_id
from runtime.postgres import Pool, session, transaction
from tests.support.banking import (
    BANK,
    SECRET_KEY,
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
from tests.support.boleto_merchant import issue_boleto_in_the_past, today
from tests.support.merchant import new_merchant, until_answer
from tests.support.system import System
from workers.context import Context
from workers.incoming.sent_transfers import reconcile_sent
from workers.incoming.statement import find_refunds_not_listed, find_transfers
from workers.orders.lease import LOST_CALL_WATCH, release_orders
from workers.orders.outgoing import ATTEMPTS_MIN, BACKOFF_S, SILENT_S, MoneyOutcome, money_backoff_s
from workers.orders.pix import PixOrderWorker
from workers.orders.refund import RefundOrderWorker

TO = TransferDestination(pix_key="maria@example.com", document="52998224725")
PLAIN = ReturnRules(settle_after_s=0, fails=False)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(pool: Pool, servers: Any) -> AsyncIterator[RunningBank]:
    before = await verify(servers.database_url)  # differences that other tests left do not count
    async with running_bank(pool) as running:
        yield running
    assert await verify(servers.database_url) == before


class Environment:
    """A refund worker and its bank, with the charges of one merchant."""

    def __init__(self, context: Context, account: UUID, bank: RunningBank, database_url: str) -> None:
        self.context = context
        self.account = account
        self.bank = bank
        self.pool = context.pool
        self.database_url = database_url

    def simulated(self, test: bool) -> SimulatedBank:
        return self.context.banks.sandbox if test else self.bank.bank

    async def paid(self, *, test: bool = False, cents: int = 1000, at_bank: bool = True) -> UUID:
        """A paid PIX charge; `at_bank`: the payment is in the bank's books too."""
        made = await self.simulated(test).pix.create_locations(1)
        (charge_id,) = await make_charges(self.pool, self.account, made.value, test=test, amount_cents=cents)
        now = to_millisecond(utc_now())
        paid = PayerPix(end_to_end_id=new_end_to_end_id(now), txid=charge_id.hex, amount_cents=cents, paid_at=now)
        if at_bank:
            await self.simulated(test).receive([paid], tell=False)
        await self._confirm(Confirmation(
            charge_id=charge_id, end_to_end_id=paid.end_to_end_id, amount_cents=cents, paid_at=now,
        ))  # fmt: skip
        return charge_id

    async def paid_boleto(self, *, test: bool = False, rail: str = "boleto", cents: int = 1000) -> UUID:
        """A boleto, paid at the bank by its line or by PIX."""
        simulated = self.simulated(test)
        system = SimpleNamespace(
            secret_key=bytes.fromhex(SECRET_KEY), database_url=self.database_url, bank_url=self.bank.url
        )
        client = SimpleNamespace(account_id=str(self.account))
        async with self.pool.acquire() as books:
            charge_id = UUID(
                await issue_boleto_in_the_past(
                    cast(Any, system), cast(Any, books), cast(Any, client), test=test,
                    due_on=today() + timedelta(days=5), amount_cents=cents,
                )
            )  # fmt: skip
        number = await self.pool.fetchval("SELECT number FROM boleto WHERE charge_id = $1", charge_id)
        if rail == "pix":  # the bank gave it a PIX side
            await self.pool.execute(
                "UPDATE simulated_boleto SET txid = 'BOLETO' || substr(number, 4) || 'DATA01012026'"
                " WHERE number = $1", number,
            )  # fmt: skip
        (payment,) = await simulated.boletos.pay(number, rail=cast(Any, rail), tell=False)
        of = BoletoPaymentFacts(source=f"{number}/{cents}", method=rail, nosso_numero=number, txid=None)
        await self._confirm(Confirmation(
            charge_id=charge_id, end_to_end_id=payment.end_to_end_id, amount_cents=cents, paid_at=utc_now(), boleto=of,
        ))  # fmt: skip
        return charge_id

    async def _confirm(self, confirmation: Confirmation) -> None:
        async with transaction(self.pool) as conn:
            await confirm_payments(conn, [confirmation], now=utc_now(), seal=self.context.seal, fees=NO_FEES)

    async def refund(
        self, charge_id: UUID, cents: int | None = None, *, test: bool = False, to: TransferDestination | None = None,
        scenario: str | None = None,
    ) -> UUID:  # fmt: skip
        asked = self.new_refund(charge_id, cents, test=test, to=to, scenario=scenario)
        async with transaction(self.pool) as conn:
            (begun,) = await begin_refunds(conn, [asked], now=to_millisecond(utc_now()), transfers_cents_max=500_000)
        assert isinstance(begun, RefundProjection), begun
        return asked.refund_id

    def new_refund(
        self, charge_id: UUID, cents: int | None = None, *, test: bool = False, to: TransferDestination | None = None,
        scenario: str | None = None,
    ) -> NewRefund:  # fmt: skip
        refund_id = new_id()
        return NewRefund(
            owner=Owner.of(self.account, test), key=secrets.token_hex(8), fingerprint=bytes(32), refund_id=refund_id,
            charge_id=charge_id, amount_cents=cents, payment_id=None, reason=None, description="Devolução nº 1",
            external_id=None, scenario=scenario, actor="test", request_id="test",
            destination=None if to is None else to.kept(refund_id, self.context.seal),
        )  # fmt: skip

    async def run_worker(self, charge_id: UUID, *, test: bool = False, rounds: int = 1) -> None:
        """In each round, make the charge's orders due and run the worker."""
        for _ in range(rounds):
            await make_orders_due(self.pool, charge_id)
            await RefundOrderWorker(self.context, Mode.of(test)).drain()

    async def found(self, refund_id: UUID, *, test: bool = False) -> RefundProjection:
        async with self.pool.acquire() as conn:
            found = await refund_by_id(conn, refund_id, Owner.of(self.account, test))
        assert found is not None
        return found

    async def status(self, refund_id: UUID, *, test: bool = False) -> tuple[str, str | None]:
        found = await self.found(refund_id, test=test)
        return found.status, found.failure_code

    async def sent(self, refund_id: UUID) -> list[int]:
        """The amounts the bank sent under this refund's id, in cents."""
        rows = await self.pool.fetch(
            "SELECT amount_cents FROM simulated_devolucao WHERE id = $1"
            " UNION ALL SELECT amount_cents FROM simulated_transfer WHERE id = $1", refund_id.hex,
        )  # fmt: skip
        return [row[0] for row in rows]

    async def balance(self, *, test: bool = False) -> int:
        found = await self.pool.fetchval(
            "SELECT balance_cents FROM account_clock WHERE account_id = $1 AND test = $2", self.account, test
        )
        return int(found)

    async def set_bank_rules(self, *, test: bool = False, **rules: Any) -> None:
        await self.simulated(test).transfers.set_rules(msgspec.structs.replace(PLAIN, **rules))

    async def order(self, charge_id: UUID) -> Any:
        return await order_of(self.pool, charge_id, "refund_return")

    async def events(self, charge_id: UUID) -> list[str]:
        rows = await self.pool.fetch("SELECT type FROM read_event WHERE charge_id = $1 ORDER BY sequence", charge_id)
        return [row["type"] for row in rows]

    async def settle_at_bank(self) -> None:
        """Settle now what is under way at the bank."""
        now = utc_now()
        await self.pool.execute("UPDATE simulated_devolucao SET settles_at = $1 WHERE settles_at > $1", now)
        await self.pool.execute("UPDATE simulated_transfer SET settles_at = $1 WHERE settles_at > $1", now)

    async def age_lost_calls(self, charge_id: UUID) -> None:
        """Age the charge's orders beyond the time that any call of ours may last."""
        await self.pool.execute(
            "UPDATE bank_order SET created_at = created_at - $2::interval, outcome = outcome || CASE"
            " WHEN outcome ? 'lost_at'"
            " THEN jsonb_build_object('lost_at', (outcome ->> 'lost_at')::timestamptz - $2::interval) ELSE '{}' END"
            " WHERE charge_id = $1", charge_id, LOST_CALL_WATCH,
        )  # fmt: skip


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, servers: Any, bank: RunningBank) -> AsyncIterator[Environment]:
    bank.wire.fault = "up"
    bank.requests.clear()
    production = bank.adapter(transfers_url=f"{bank.url}/transfers/v1")
    async with worker_context(pool, servers.redis_url, production) as context:
        made = Environment(context, await make_account(pool), bank, servers.database_url)
        for test in (True, False):
            await made.set_bank_rules(test=test)
        yield made
        await reset_bank_rules(made)


async def reset_bank_rules(env: Environment) -> None:
    await env.set_bank_rules(test=False)
    await env.set_bank_rules(test=True)


async def comparisons_missing(env: Environment, refund_id: UUID, *, listed: bool = False) -> list[str]:
    """The comparisons with the bank's lists that miss the refund if no list has it, or with `listed` if each does."""
    told = []
    async with session(env.pool) as conn:
        for of, transfers in (("return", False), ("transfer", True)):
            rows = await find_refunds_not_listed(
                conn, first_id=first_id(utc_now() - timedelta(days=1)), last_id=first_id(utc_now() + timedelta(days=1)),
                bank=BANK, transfers=transfers, listed=[refund_id] if listed else [], limit=10_000,
            )  # fmt: skip
            told += [of for row in rows if row.id == refund_id]
    return told


@pytest.mark.parametrize("test", [True, False], ids=["sandbox", "production"])
async def test_a_pix_is_refunded_in_both_modes(env: Environment, test: bool) -> None:
    charge_id = await env.paid(test=test)
    refund_id = await env.refund(charge_id, 400, test=test)
    await env.run_worker(charge_id, test=test)
    found = await env.found(refund_id, test=test)
    assert (found.status, found.amount, found.refundable_remaining) == ("succeeded", "4.00", "6.00")
    assert found.return_id is not None
    assert len(found.return_id) == 32
    assert await env.sent(refund_id) == [400]
    assert await comparisons_missing(env, refund_id) == ([] if test else ["return"])
    assert await comparisons_missing(env, refund_id, listed=True) == []
    assert await env.balance(test=test) == 600
    rest = await env.refund(charge_id, test=test)
    await env.run_worker(charge_id, test=test)
    assert await env.status(rest, test=test) == ("succeeded", None)
    assert await status_of(env.pool, charge_id) == "refunded"
    assert await env.events(charge_id) == [
        "payment.received", "refund.succeeded", "refund.succeeded", "charge.refunded",
    ]  # fmt: skip
    # The outcome is traced to the request that began the refund.
    caused_by = "SELECT DISTINCT request_id FROM journal WHERE charge_id = $1 AND kind = 'refund.succeeded'"
    assert await env.pool.fetchval(caused_by, charge_id) == "test"


async def test_concurrent_refunds_of_one_payment_are_decided_one_after_the_other(env: Environment) -> None:
    """The remaining amount is read after the charge is locked, so the second refund sees what the first one took."""
    charge_id = await env.paid()

    async def begin(conn: Any, cents: int | None) -> Any:
        (begun,) = await begin_refunds(
            conn, [env.new_refund(charge_id, cents)], now=to_millisecond(utc_now()), transfers_cents_max=500_000
        )
        return begun

    async def second() -> Any:
        async with transaction(env.pool) as conn:
            return await begin(conn, None)

    async with transaction(env.pool) as conn:
        assert isinstance(await begin(conn, 400), RefundProjection)
        waiting = asyncio.create_task(second())
        await asyncio.sleep(0.2)
        assert not waiting.done()
    rest = await waiting
    assert isinstance(rest, RefundProjection), rest
    assert (rest.amount, rest.refundable_remaining) == ("6.00", "0.00")


async def test_concurrent_refunds_with_the_same_idempotency_keys_do_not_deadlock(env: Environment) -> None:
    charge_id = await env.paid()
    first, second = [structs.replace(env.new_refund(charge_id, 100), key=f"{key} {charge_id}") for key in "ab"]

    async def begun(conn: Any, *asked: NewRefund) -> list[Any]:
        return await begin_refunds(conn, asked, now=to_millisecond(utc_now()), transfers_cents_max=500_000)

    async def twins() -> list[Any]:
        async with transaction(env.pool) as conn:
            return await begun(conn, *(structs.replace(each, refund_id=new_id()) for each in (second, first)))

    async with transaction(env.pool) as conn:
        await begun(conn, first)
        other = asyncio.create_task(twins())
        await asyncio.wait([other], timeout=0.3)
        await begun(conn, second)
    assert await other == [None, None]


@pytest.mark.parametrize("test", [True, False], ids=["sandbox", "production"])
async def test_a_boleto_paid_by_its_line_is_refunded_by_transfer_to_the_given_key(env: Environment, test: bool) -> None:
    charge_id = await env.paid_boleto(test=test)
    refund_id = await env.refund(charge_id, test=test, to=TO)
    await env.run_worker(charge_id, test=test)
    found = await env.found(refund_id, test=test)
    assert (found.status, found.return_id) == ("succeeded", None)
    sent = await env.pool.fetchrow("SELECT * FROM simulated_transfer WHERE id = $1", refund_id.hex)
    assert sent is not None
    assert (sent["pix_key"], sent["document"], sent["amount_cents"]) == (TO.pix_key, TO.document, 1000)
    assert found.end_to_end_id == sent["end_to_end_id"]
    assert await comparisons_missing(env, refund_id) == ([] if test else ["transfer"])
    assert await status_of(env.pool, charge_id) == "refunded"


async def test_a_boleto_paid_by_pix_is_refunded_as_a_devolucao(env: Environment) -> None:
    charge_id = await env.paid_boleto(rail="pix")
    refund_id = await env.refund(charge_id)
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ("succeeded", None)
    assert any("/devolucao/" in each for each in env.bank.requests)


@pytest.mark.parametrize("fault", ["down", "lost_reply", "timeout_before", "cut", "error500", "html"])
async def test_a_refund_is_sent_exactly_once_whatever_fault_the_bank_has(env: Environment, fault: str) -> None:
    charge_id = await env.paid()
    refund_id = await env.refund(charge_id)
    patient = env.context.banks.production[BANK]
    if fault == "timeout_before":
        env.context.banks.production[BANK] = env.bank.adapter(write_s=0.3)
    env.bank.wire.fault = fault
    await env.run_worker(charge_id, rounds=2)
    env.context.banks.production[BANK] = patient
    lost = fault in ("lost_reply", "cut")
    # A lost reply is looked up at once; an unknown outcome does not fail the refund.
    assert await env.status(refund_id) == ("succeeded" if lost else "pending", None)
    assert await env.balance() == 0
    env.bank.wire.fault = "up"
    await env.run_worker(charge_id, rounds=2)
    assert await env.status(refund_id) == ("succeeded", None)
    assert await env.sent(refund_id) == [1000]
    assert (await env.events(charge_id)).count("refund.succeeded") == 1


async def test_every_attempt_of_a_refund_uses_the_same_id(env: Environment) -> None:
    charge_id = await env.paid()
    refund_id = await env.refund(charge_id)
    env.bank.wire.fault = "error500"
    await env.run_worker(charge_id, rounds=3)
    env.bank.wire.fault = "up"
    await env.run_worker(charge_id)
    asked = {each.rpartition("/")[2] for each in env.bank.requests if "/devolucao/" in each}
    assert asked == {refund_id.hex}


async def test_an_unanswered_refund_order_waits_longer_after_each_attempt_up_to_a_limit(env: Environment) -> None:
    charge_id = await env.paid()
    await env.refund(charge_id)
    env.bank.wire.fault = "error500"
    for attempt in range(1, 9):
        before = utc_now()
        await env.run_worker(charge_id)
        order, after = await env.order(charge_id), utc_now()
        assert (order["state"], order["attempts"]) == ("waiting", attempt)
        wait = timedelta(seconds=min(BACKOFF_S[attempt - 1], SILENT_S))
        assert before + wait * 0.8 <= order["due_at"] <= after + wait * 1.2
    # A refund that the bank reports as under way is looked up ever less often.
    assert money_backoff_s(len(BACKOFF_S), silent=False) >= BACKOFF_S[-1] * 0.8


async def test_a_refund_the_bank_refuses_fails_and_is_credited_back_to_the_wallet(env: Environment) -> None:
    charge_id = await env.paid()
    refund_id = await env.refund(charge_id)
    assert await env.balance() == 0
    env.bank.wire.fault = "refuse"
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ("failed", "BANK_REFUSED")
    assert await comparisons_missing(env, refund_id) == []
    assert await env.balance() == 1000
    assert await status_of(env.pool, charge_id) == "paid"
    assert (await env.order(charge_id))["state"] == "refused"
    assert await env.events(charge_id) == ["payment.received", "refund.failed"]
    env.bank.wire.fault = "up"
    again = await env.refund(charge_id)
    await env.run_worker(charge_id)
    assert await env.status(again) == ("succeeded", None)


async def test_a_refusal_after_a_lost_reply_does_not_fail_the_refund_at_once(env: Environment) -> None:
    charge_id = await env.paid()
    refund_id = await env.refund(charge_id)
    env.bank.wire.fault = "error500"
    await env.run_worker(charge_id)
    env.bank.wire.fault = "refuse"
    await env.run_worker(charge_id, rounds=2)
    assert await env.status(refund_id) == ("pending", None)
    await env.age_lost_calls(charge_id)
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ("failed", "BANK_REFUSED")


async def test_a_refusal_right_after_a_late_lost_reply_does_not_fail_the_refund(env: Environment) -> None:
    charge_id = await env.paid()
    refund_id = await env.refund(charge_id)
    env.bank.wire.fault = "error500"
    await env.run_worker(charge_id)
    await env.age_lost_calls(charge_id)
    await env.run_worker(charge_id)
    env.bank.wire.fault = "refuse"
    await env.run_worker(charge_id, rounds=2)
    assert await env.status(refund_id) == ("pending", None)
    assert await env.balance() == 0
    await env.age_lost_calls(charge_id)
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ("failed", "BANK_REFUSED")


async def test_a_refund_under_way_at_the_bank_is_looked_up_until_it_settles(env: Environment) -> None:
    await env.set_bank_rules(settle_after_s=600)
    charge_id = await env.paid()
    refund_id = await env.refund(charge_id)
    await env.run_worker(charge_id, rounds=3)
    assert await env.status(refund_id) == ("pending", None)
    assert sum(each.startswith("PUT") and "/devolucao/" in each for each in env.bank.requests) == 1
    await env.settle_at_bank()
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ("succeeded", None)
    assert await status_of(env.pool, charge_id) == "refunded"


async def test_a_refund_that_does_not_settle_at_the_bank_is_credited_back_to_the_wallet(env: Environment) -> None:
    for pay in (env.paid, env.paid_boleto):
        await env.set_bank_rules(settle_after_s=600, fails=True)
        charge_id = await pay()
        refund_id = await env.refund(charge_id, to=TO if pay == env.paid_boleto else None)
        before = await env.balance()
        await env.run_worker(charge_id)
        assert await env.status(refund_id) == ("pending", None)
        await env.settle_at_bank()
        await env.run_worker(charge_id)
        assert await env.status(refund_id) == ("failed", "NOT_CARRIED_OUT")
        assert await env.balance() == before + 1000
        await env.set_bank_rules()
        again = await env.refund(charge_id, to=TO if pay == env.paid_boleto else None)
        await env.run_worker(charge_id)
        assert await env.status(again) == ("succeeded", None)


async def test_a_refund_is_sent_once_when_a_worker_dies_after_the_bank_accepted_it(env: Environment) -> None:
    charge_id = await env.paid()
    refund_id = await env.refund(charge_id)
    (order,) = await RefundOrderWorker(env.context, Mode.PRODUCTION)._claim(OrderLane.REFUND, 10)
    end_to_end_id = msgspec.json.decode(order.request)["end_to_end_id"]
    await env.context.banks.production[BANK].transfers.return_pix(
        Return(id=refund_id.hex, end_to_end_id=end_to_end_id, amount_cents=1000)
    )
    # The worker dies here. Its lease ends, and another worker takes over.
    assert await RefundOrderWorker(env.context, Mode.PRODUCTION).drain() == 0
    await env.pool.execute("UPDATE bank_order SET lease_until = '-infinity' WHERE order_id = $1", order.order_id)
    assert await release_orders(env.context) == 1
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ("succeeded", None)
    assert await env.sent(refund_id) == [1000]
    assert sum(each.startswith("PUT") and "/devolucao/" in each for each in env.bank.requests) == 1


async def test_a_slow_worker_does_not_change_a_refund_that_another_worker_ended(env: Environment) -> None:
    charge_id = await env.paid()
    refund_id = await env.refund(charge_id)
    slow = RefundOrderWorker(env.context, Mode.PRODUCTION)
    (order,) = await slow._claim(OrderLane.REFUND, 10)
    await env.pool.execute("UPDATE bank_order SET lease_until = '-infinity' WHERE order_id = $1", order.order_id)
    await release_orders(env.context)
    await env.run_worker(charge_id)
    balance, events = await env.balance(), await env.events(charge_id)
    await slow._store(order, MoneyOutcome(failure=FailureCode.BANK_REFUSED))
    assert await env.status(refund_id) == ("succeeded", None)
    assert (await env.balance(), await env.events(charge_id)) == (balance, events)
    assert (await env.order(charge_id))["state"] == "done"


async def test_a_refund_of_a_worker_stopped_during_its_bank_call_is_completed_by_the_next(env: Environment) -> None:
    charge_id = await env.paid()
    refund_id = await env.refund(charge_id)
    transfers, called = env.context.banks.production[BANK].transfers, asyncio.Queue[Return]()
    arrives = transfers.return_pix

    async def under_way(asked: Return) -> Any:
        await called.put(asked)
        await asyncio.Event().wait()

    transfers.return_pix = under_way  # type: ignore[method-assign]
    working = asyncio.create_task(RefundOrderWorker(env.context, Mode.PRODUCTION).drain())
    async with asyncio.timeout(30):
        asked = await called.get()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    del transfers.return_pix
    assert await env.status(refund_id) == ("pending", None)
    await env.pool.execute("UPDATE bank_order SET lease_until = '-infinity' WHERE charge_id = $1", charge_id)
    await release_orders(env.context)
    await env.run_worker(charge_id, rounds=2)
    assert isinstance(await arrives(asked), Done), "the bank carries out a call though nobody waits for its answer"
    assert await env.status(refund_id) == ("succeeded", None)
    assert await env.sent(refund_id) == [1000]


@pytest.mark.parametrize(
    ("said", "ended"), [("DEVOLVIDO", ("succeeded", None)), ("NAO_REALIZADO", ("failed", "NOT_CARRIED_OUT"))]
)
async def test_a_refund_ends_although_texts_of_the_banks_answer_cannot_be_stored(
    env: Environment, monkeypatch: pytest.MonkeyPatch, said: str, ended: tuple[str, str | None]
) -> None:
    odd = {"status": said, "rtrId": "D\0", "motivo": "N\0o"}
    monkeypatch.setattr("banks.simulated.return_wire.shown_return", lambda *of: shown_return(*of) | odd)
    charge_id = await env.paid()
    refund_id = await env.refund(charge_id)
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ended


async def test_a_refund_of_a_pix_the_bank_does_not_know_yet_is_retried(env: Environment) -> None:
    """In the sandbox, a worker tells the bank of a simulated payment a moment after the merchant learns of it."""
    for test in (True, False):
        charge_id = await env.paid(test=test, at_bank=False)
        refund_id = await env.refund(charge_id, test=test)
        await env.run_worker(charge_id, test=test, rounds=ATTEMPTS_MIN)
        assert await env.status(refund_id, test=test) == ("pending", None)
        end_to_end_id = msgspec.json.decode((await env.order(charge_id))["request"])["end_to_end_id"]
        paid = PayerPix(end_to_end_id=end_to_end_id, txid=charge_id.hex, amount_cents=1000, paid_at=utc_now())
        await env.simulated(test).receive([paid], tell=False)
        await env.run_worker(charge_id, test=test)
        assert await env.status(refund_id, test=test) == ("succeeded", None)


async def test_a_refund_of_a_pix_the_bank_never_knows_fails_in_the_end(env: Environment) -> None:
    charge_id = await env.paid(at_bank=False)
    refund_id = await env.refund(charge_id)
    await env.run_worker(charge_id)
    await env.age_lost_calls(charge_id)
    await env.run_worker(charge_id, rounds=ATTEMPTS_MIN - 2)
    assert await env.status(refund_id) == ("pending", None)
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ("failed", "BANK_REFUSED")


async def test_a_refund_by_transfer_fails_as_unavailable_at_a_bank_without_transfers(env: Environment) -> None:
    env.context.banks.production[BANK] = env.bank.adapter()
    charge_id = await env.paid_boleto()
    refund_id = await env.refund(charge_id, to=TO)
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ("failed", "TRANSFER_UNAVAILABLE")
    assert await env.balance() == 1000


async def test_a_failed_refund_that_the_bank_sent_after_all_is_debited_again(env: Environment) -> None:
    charge_id = await env.paid_boleto()
    refund_id = await env.refund(charge_id, 400, to=TO)
    env.bank.wire.fault = "refuse"
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ("failed", "BANK_REFUSED")
    assert await env.balance() == 1000
    env.bank.wire.fault = "up"
    await env.bank.bank.transfers.put_transfer(
        Transfer(id=refund_id.hex, pix_key=TO.pix_key, document=TO.document, amount_cents=400)
    )
    # The list also has a refund that succeeded here.
    other = await env.refund(charge_id, 150, to=TO)
    await env.run_worker(charge_id)
    assert await env.status(other) == ("succeeded", None)
    await env.pool.execute("DELETE FROM bank_reconciled WHERE method = 'transfer'")
    for day in (utc_now() + timedelta(days=days) for days in (2, 3)):
        env.context.now = partial(to_millisecond, day)
        while await reconcile_sent(env.context, BANK):
            pass
    assert await env.balance() == 450
    lines = "SELECT type, amount_cents FROM read_ledger WHERE account_id = $1 ORDER BY sequence"
    assert [tuple(row) for row in await env.pool.fetch(lines, env.account)] == [
        ("payment", 1000), ("refund", -400), ("refund_reversal", 400), ("refund", -150), ("adjustment", -400)
    ]  # fmt: skip
    env.context.now = utc_now
    async with session(env.pool) as conn:
        (compared,) = await find_transfers(conn, ids=[refund_id])
    assert (compared.here_cents, compared.account_id) == (400, env.account), (
        "the comparison with the bank's list finds the refund in our books"
    )
    rest = await env.refund(charge_id, to=TO)
    assert (await env.found(rest)).amount == "4.50", "money that was sent is not refunded again"


async def test_a_refund_that_may_have_been_sent_is_not_credited_back_when_transfers_are_switched_off(
    env: Environment,
) -> None:
    sends = env.context.banks.production[BANK]
    charge_id = await env.paid_boleto()
    refund_id = await env.refund(charge_id, to=TO)
    env.bank.wire.fault = "error500"
    await env.run_worker(charge_id)
    env.bank.wire.fault = "up"
    env.context.banks.production[BANK] = env.bank.adapter()
    await env.age_lost_calls(charge_id)
    await env.run_worker(charge_id, rounds=2)
    assert await env.status(refund_id) == ("pending", None)
    assert await env.balance() == 0
    env.context.banks.production[BANK] = sends
    await env.run_worker(charge_id)
    assert await env.status(refund_id) == ("succeeded", None)


@pytest.mark.parametrize(
    ("scenario", "pending_rounds", "ends"),
    [
        ("unavailable", 2, "succeeded"),
        ("lost_reply", 1, "succeeded"),
        ("slow", 0, "succeeded"),
        ("refuse", 0, "failed"),
    ],
)
async def test_the_sandbox_bank_plays_the_scenario_of_the_refund(
    env: Environment, monkeypatch: pytest.MonkeyPatch, scenario: str, pending_rounds: int, ends: str
) -> None:
    monkeypatch.setattr("banks.scenario.SLOW_S", 0.2)
    charge_id = await env.paid(test=True)
    refund_id = await env.refund(charge_id, test=True, scenario=scenario)
    for _ in range(pending_rounds):
        await env.run_worker(charge_id, test=True)
        assert (await env.status(refund_id, test=True))[0] == "pending"
    assert await env.sent(refund_id) == ([1000] if scenario == "lost_reply" else [])
    await env.run_worker(charge_id, test=True)
    assert (await env.status(refund_id, test=True))[0] == ends
    assert await env.balance(test=True) == (0 if ends == "succeeded" else 1000)


async def test_the_worker_of_pix_orders_does_not_execute_refund_orders(env: Environment) -> None:
    charge_id = await env.paid()
    await env.refund(charge_id)
    await PixOrderWorker(env.context, Mode.PRODUCTION).drain()
    order = await env.order(charge_id)
    assert (order["state"], order["attempts"]) == ("waiting", 0)
    await env.run_worker(charge_id)
    assert (await env.order(charge_id))["state"] == "done"


async def test_many_refunds_of_many_charges_succeed_in_one_run(env: Environment) -> None:
    charges = [await env.paid() for _ in range(20)]
    refunds = [await env.refund(charge_id, 500) for charge_id in charges for _ in range(2)]
    await RefundOrderWorker(env.context, Mode.PRODUCTION).drain()
    assert [await env.status(each) for each in refunds] == [("succeeded", None)] * 40
    assert [await status_of(env.pool, each) for each in charges] == ["refunded"] * 20
    assert await env.balance() == 0


@pytest.mark.parametrize("test", [True, False], ids=["sandbox", "production"])
async def test_the_running_system_completes_a_refund_by_itself(system: System, test: bool) -> None:
    async with new_merchant(system) as merchant:
        client = merchant.sandbox if test else merchant.production
        charge = await client.created("10.00")
        charge_id = charge["charge_id"]
        if test:
            await client.pay(charge_id)
        else:
            system.json("bank", "pay", "--charge-id", charge_id)

        async def is_(status: str) -> bool:
            return bool((await client.charge(charge_id))["status"] == status)

        await until_answer(lambda: is_("paid"))
        made = await client.ask("POST", f"/v1/charges/{charge_id}/refunds", json={}, key="whole")
        assert (made.status, made.body["status"]) == (201, "pending")
        await until_answer(lambda: is_("refunded"))
        assert await client.balance() == "0.00"
        (refund,) = (await client.get(f"/v1/charges/{charge_id}/refunds")).body["data"]
        assert (refund["status"], refund["refundable_remaining"]) == ("succeeded", "0.00")
        assert (await client.ask("POST", f"/v1/charges/{charge_id}/refunds", json={}, key="whole")).status == 200
        kinds = [event["type"] for event in await client.events()]
        assert kinds == ["payment.received", "refund.succeeded", "charge.refunded"]
        async with client.http.get(f"{system.app_url}/pagar/{charge['public_id']}") as page:
            assert "devolvido" in (await page.text()).lower()


# The simulated bank's books and wire


async def test_the_bank_returns_no_more_than_the_amount_of_the_pix(env: Environment) -> None:
    bank: BancoDoBrasil = env.bank.adapter()
    charge_id = await env.paid()
    await env.refund(charge_id)
    end_to_end_id = msgspec.json.decode((await env.order(charge_id))["request"])["end_to_end_id"]

    def ask(cents: int, id: str | None = None, of: str = end_to_end_id) -> Any:
        return bank.transfers.return_pix(Return(id=id or secrets.token_hex(16), end_to_end_id=of, amount_cents=cents))

    answers = await asyncio.gather(*(ask(100) for _ in range(15)))
    assert sum(isinstance(each, Done) for each in answers) == 10
    assert {each.code for each in answers if isinstance(each, Rejected)} == {"PixDevolucaoInvalida"}
    unknown = await ask(100, of=new_end_to_end_id(utc_now()))
    assert isinstance(unknown, Rejected)
    assert unknown.code == PIX_UNKNOWN
    assert await bank.transfers.find_return(end_to_end_id, "nobody") == NotFound()


async def test_a_repeated_id_gets_the_same_answer_and_sends_no_more_money(env: Environment) -> None:
    bank = env.bank.adapter(transfers_url=f"{env.bank.url}/transfers/v1")
    charge_id, id = await env.paid(), secrets.token_hex(16)
    await env.refund(charge_id)
    end_to_end_id = msgspec.json.decode((await env.order(charge_id))["request"])["end_to_end_id"]
    asked = Return(id=id, end_to_end_id=end_to_end_id, amount_cents=300, description="Olá, ção")
    first = await bank.transfers.return_pix(asked)
    assert isinstance(first, Done)
    assert await bank.transfers.return_pix(asked) == first
    assert isinstance(await bank.transfers.return_pix(msgspec.structs.replace(asked, amount_cents=301)), Unknown)
    to = Transfer(id=id, pix_key=TO.pix_key, document=TO.document, amount_cents=300)
    sent = await bank.transfers.send_pix(to)
    assert isinstance(sent, Done)
    assert await bank.transfers.send_pix(to) == sent
    assert await bank.transfers.find_transfer(id) == sent.value
    refused = await env.bank.adapter().transfers.send_pix(to)
    assert isinstance(refused, Rejected)
    assert refused.code == NO_TRANSFERS


async def test_a_confirmation_that_does_not_match_the_request_is_unknown(env: Environment) -> None:
    """A confirmation with another id, another amount or an unknown status confirms nothing."""
    bank = env.bank.adapter()
    said: dict[str, Any] = {}

    async def ask(*_: Any, **__: Any) -> Any:
        from banks.banco_do_brasil.transport import Heard

        return Heard(201, msgspec.json.encode(said))

    bank.transfers._transport.ask = ask  # type: ignore[method-assign]
    asked = Return(id="a1", end_to_end_id="E" * 32, amount_cents=100)
    good = {"id": "a1", "valor": "1.00", "status": "DEVOLVIDO", "rtrId": "D" * 32}
    for wrong in ({"id": "b"}, {"valor": "1.01"}, {"valor": "x"}, {"status": "?"}, {"status": None}):
        said.clear()
        said.update(good | wrong)
        assert isinstance(await bank.transfers.return_pix(asked), Unknown), wrong
    said.update(good)
    assert await bank.transfers.return_pix(asked) == Done(Sent(status="done", amount_cents=100, reference="D" * 32))


async def test_the_refund_rules_of_the_simulated_bank_are_set_over_its_control_interface(env: Environment) -> None:
    status, said = await env.bank.control("refund-rules", settle_after_s=2.5, fails=True)
    assert (status, said) == (200, {"settle_after_s": 2.5, "fails": True})
    for wrong in ({"settle_after_s": -1}, {"settle_after_s": "x"}, {"fails": 1}, {"settle_after_s": 1e9}):
        assert (await env.bank.control("refund-rules", **wrong))[0] == 400
    status, said = await env.bank.control("refund-rules", settle_after_s=0.0, fails=False)
    assert (status, said) == (200, {"settle_after_s": 0.0, "fails": False})


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, "valor"), ({"valor": "1"}, "valor"), ({"valor": 1}, "valor"), ({"valor": "0.00"}, "valor"),
        ({"valor": "1.00", "descricao": "x" * 141}, "descricao"), ({"valor": "1.00", "descricao": "é"}, "descricao"),
    ],
)  # fmt: skip
async def test_the_bank_refuses_a_devolucao_that_breaks_its_schema(
    env: Environment, body: dict[str, Any], kind: str
) -> None:
    from banks.banco_do_brasil.transport import Heard

    bank = env.bank.adapter()
    url = f"{env.bank.url}/pix/v2/pix/{new_end_to_end_id(datetime.now(utc_now().tzinfo))}/devolucao/a1"
    heard = await bank.transfers._transport.ask("PUT", url, ("pix.read", "pix.write"), body=body)
    assert isinstance(heard, Heard)
    said = msgspec.json.decode(heard.body)
    assert (heard.status, said["type"].rpartition("/")[2]) == (400, "PixDevolucaoInvalida")
    assert said["violacoes"][0]["propriedade"] == kind
