"""Bank orders of withdrawals: sent once, looked up until their outcome is known, and our books and the bank's agree to
the cent. Daily withdrawals: one for each account and day, however many workers look."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID

import asyncpg
import msgspec
import pytest
import pytest_asyncio
from msgspec import structs

from banks.protocol import Done
from banks.simulated.returns import ReturnRules
from banks.transfers import SentTransfer, Transfer
from commands.bank_orders.kinds import SendOrder
from commands.merchants.kyc import Kyc, decide_kyc
from commands.money.withdraw import (
    NewWithdrawal,
    cancel_withdrawal,
    create_withdrawal,
    daily_withdrawal,
    end_daily,
    set_daily,
    start_sending,
)
from domain.errors import Refused
from domain.instants import SAO_PAULO, to_millisecond
from domain.merchants.fees import NO_FEES, FeeTerms
from domain.mode import Mode
from domain.money import PIX_CENTS_MAX
from domain.refund import FailureCode
from domain.withdrawal import NEXT, Withdrawal, WithdrawalStatus
from readmodels.dashboard.platform import queues
from readmodels.money.withdrawal import WithdrawalDoc, withdrawal_doc
from readmodels.verify import verify
from runtime.ids import first_id, new_id
from runtime.postgres import Pool, session, transaction
from tests.support.banking import BANK, RunningBank, make_account, running_bank, settings_for, utc_now, worker_context
from tests.support.merchant import (
    book_bank_payments,
    create_charge_in_the_past,
    database_of,
    new_merchant,
    until_answer,
)
from tests.support.orders import including_ended_orders
from tests.support.system import System
from tests.support.wallet import balance_of, credit_wallet
from workers.context import Context
from workers.incoming.sent_transfers import book_sent, reconcile_sent
from workers.incoming.statement import find_transfers, find_withdrawals_not_listed
from workers.orders import outgoing
from workers.orders.lease import LOST_CALL_WATCH, Later, do_order, drain_lanes, release_orders
from workers.orders.outgoing import BACKOFF_S, SILENT_S, MoneyOrder, MoneyOutcome
from workers.orders.pix import PixOrderWorker
from workers.orders.refund import RefundOrderWorker
from workers.orders.withdrawal import WithdrawalOrderWorker, withdraw_daily

PLAIN = ReturnRules(settle_after_s=0, fails=False)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(pool: Pool, servers: Any) -> AsyncIterator[RunningBank]:
    before = await verify(servers.database_url)  # differences that other tests left do not count
    async with running_bank(pool) as running:
        yield running
    assert await verify(servers.database_url) == before


def after(days: int) -> datetime:
    return utc_now() + timedelta(days=days)


class Environment:
    """A worker and its bank on a real socket, with one merchant's wallet."""

    def __init__(self, context: Context, account: UUID, bank: RunningBank) -> None:
        self.context = context
        self.account = account
        self.bank = bank
        self.pool = context.pool

    async def withdraw(
        self, cents: int = 1000, *, conn: Any = None, grace_s: float = 0, fees: FeeTerms = NO_FEES
    ) -> UUID:
        if conn is None:
            async with transaction(self.pool) as its_own:
                return await self.withdraw(cents, conn=its_own, grace_s=grace_s, fees=fees)
        withdrawal_id = new_id()
        asked = NewWithdrawal(
            account_id=self.account, key=secrets.token_hex(8), fingerprint=bytes(32), withdrawal_id=withdrawal_id,
            amount_cents=cents, description="Saque nº 1", external_id=None, actor="test", request_id="test",
        )  # fmt: skip
        assert (
            await create_withdrawal(conn, asked, now=to_millisecond(utc_now()), bank="001", grace_s=grace_s, fees=fees)
            is not None
        )
        return withdrawal_id

    async def run_worker(self, *, rounds: int = 1) -> None:
        """In each round, make the account's orders due and run the worker."""
        for _ in range(rounds):
            await self.pool.execute(
                "UPDATE bank_order SET due_at = 'epoch' WHERE account_id = $1 AND state = 'waiting'", self.account
            )
            await WithdrawalOrderWorker(self.context).drain()

    async def run_worker_without_database(self) -> None:
        """The database is unreachable after the order is claimed, until its result is stored."""
        await self.pool.execute("UPDATE bank_order SET due_at = 'epoch' WHERE account_id = $1", self.account)
        worker = WithdrawalOrderWorker(self.context)
        (order,) = await worker._claim(10)
        self.context.pool = cast(Pool, asyncpg.create_pool())  # never opened
        result = await worker._ask(order)
        self.context.pool = self.pool
        await worker._store(order, result)

    async def settle_at_bank(self) -> None:
        """Settle now what is under way at the bank."""
        await self.pool.execute("UPDATE simulated_transfer SET settles_at = $1 WHERE settles_at > $1", utc_now())

    async def end_lease(self, withdrawal_id: UUID) -> None:
        """End the lease on the withdrawal's order, as when its worker died."""
        await self.pool.execute("UPDATE bank_order SET lease_until = '-infinity' WHERE order_id = $1", withdrawal_id)
        assert await release_orders(self.context) == 1

    async def found(self, withdrawal_id: UUID) -> WithdrawalDoc:
        async with self.pool.acquire() as conn:
            found = await withdrawal_doc(conn, withdrawal_id, self.account)
        assert found is not None
        return found

    async def status(self, withdrawal_id: UUID) -> tuple[str, str | None]:
        found = await self.found(withdrawal_id)
        return found.status, found.failure_code

    async def order(self, withdrawal_id: UUID) -> Any:
        return await self.pool.fetchrow(
            including_ended_orders("SELECT * FROM bank_order WHERE order_id = $1"), withdrawal_id
        )

    async def sent(self, withdrawal_id: UUID) -> list[int]:
        """The amounts the bank sent under this withdrawal's id, in cents."""
        rows = await self.pool.fetch("SELECT amount_cents FROM simulated_transfer WHERE id = $1", withdrawal_id.hex)
        return [row[0] for row in rows]

    async def is_missed(self, withdrawal_id: UUID, *, listed: bool = False) -> bool:
        """Does the comparison with the bank's lists miss it if no list has it, or with `listed` if one does?"""
        async with session(self.pool) as conn:
            rows = await find_withdrawals_not_listed(
                conn, first_id=first_id(after(-1)), last_id=first_id(after(1)), limit=10_000,
                listed=[withdrawal_id] if listed else [],
            )  # fmt: skip
        return withdrawal_id in {row.id for row in rows}

    async def balance(self) -> int:
        return await balance_of(self.pool, self.account)

    async def events(self) -> list[str]:
        rows = await self.pool.fetch(
            "SELECT type FROM read_event WHERE account_id = $1 AND charge_id IS NULL ORDER BY sequence", self.account
        )
        return [row["type"] for row in rows]

    async def set_bank_rules(self, **rules: Any) -> None:
        await self.bank.bank.transfers.set_rules(msgspec.structs.replace(PLAIN, **rules))

    def transfer_requests(self) -> list[str]:
        return [each for each in self.bank.requests if each.startswith("PUT") and "/transferencia/" in each]

    async def assert_books_agree(self) -> None:
        """The amounts that left the wallet for good are those that left the bank."""
        ours = await self.pool.fetchval(
            "SELECT coalesce(-sum(amount_cents), 0)::bigint FROM read_ledger WHERE account_id = $1"
            " AND withdrawal_id IS NOT NULL", self.account,
        )  # fmt: skip
        theirs = await self.pool.fetchval(
            "SELECT coalesce(sum(t.amount_cents), 0)::bigint FROM simulated_transfer t"
            " WHERE t.pix_key = $1 AND NOT t.fails", str(self.account),
        )  # fmt: skip
        assert ours == theirs


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, servers: Any, bank: RunningBank) -> AsyncIterator[Environment]:
    bank.wire.fault = "up"
    bank.requests.clear()
    await pool.execute("DELETE FROM auto_withdrawal")
    production = bank.adapter(transfers_url=f"{bank.url}/transfers/v1")
    async with worker_context(pool, servers.redis_url, production) as context:
        made = Environment(context, await make_account(pool), bank)
        await credit_wallet(pool, made.account, 10_000)
        await made.set_bank_rules()
        yield made
        await made.set_bank_rules()


# Sending


def test_an_ended_withdrawal_keeps_its_status_unless_it_failed_and_was_sent() -> None:
    assert set(NEXT) == set(WithdrawalStatus)
    assert {status for status in NEXT if not NEXT[status]} == {"succeeded", "cancelled"}
    assert NEXT[WithdrawalStatus.FAILED] == {"succeeded"}, "a failed withdrawal succeeds if the bank sent it after all"


async def test_a_withdrawal_is_pending_until_its_order_is_due_and_is_then_sent(env: Environment) -> None:
    withdrawal_id = await env.withdraw(grace_s=3_600)
    assert await WithdrawalOrderWorker(env.context).drain() == 0
    assert await env.status(withdrawal_id) == ("pending", None)
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    await env.assert_books_agree()
    # The outcome is traced to the request that created the withdrawal.
    caused_by = "SELECT request_id FROM journal WHERE account_id = $1 AND kind = 'withdrawal.succeeded'"
    assert await env.pool.fetchval(caused_by, env.account) == "test"


@pytest.mark.parametrize("fault", ["down", "lost_reply", "timeout_before", "cut", "error500", "html"])
async def test_a_withdrawal_is_sent_exactly_once_whatever_fault_the_bank_has(env: Environment, fault: str) -> None:
    withdrawal_id = await env.withdraw()
    patient = env.context.banks.production[BANK]
    if fault == "timeout_before":
        hurried = env.bank.adapter(write_s=0.3, transfers_url=f"{env.bank.url}/transfers/v1")
        env.context.banks.production[BANK] = hurried
    env.bank.wire.fault = fault
    await env.run_worker(rounds=2)
    env.context.banks.production[BANK] = patient
    lost = fault in ("lost_reply", "cut")
    # A lost reply is looked up at once; an unknown outcome does not fail the withdrawal.
    assert await env.status(withdrawal_id) == ("succeeded" if lost else "processing", None)
    assert await env.balance() == 9_000
    env.bank.wire.fault = "up"
    await env.run_worker(rounds=2)
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    assert await env.events() == ["withdrawal.succeeded"]
    await env.assert_books_agree()


async def test_every_attempt_of_a_withdrawal_uses_the_same_id_and_waits_longer(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    for attempt in range(1, 9):
        before = utc_now()
        await env.run_worker()
        order = await env.order(withdrawal_id)
        assert (order["state"], order["attempts"]) == ("waiting", attempt)
        wait = timedelta(seconds=min(BACKOFF_S[attempt - 1], SILENT_S))
        assert before + wait * 0.8 <= order["due_at"] <= utc_now() + wait * 1.2
    env.bank.wire.fault = "up"
    await env.run_worker()
    asked = {each.rpartition("/")[2] for each in env.bank.requests if "/transferencia/" in each}
    assert asked == {withdrawal_id.hex}


async def test_a_withdrawal_the_bank_refuses_fails_and_is_credited_back_to_the_wallet(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    assert await env.balance() == 9_000
    env.bank.wire.fault = "refuse"
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await env.balance() == 10_000
    assert (await env.order(withdrawal_id))["state"] == "refused"
    assert await env.events() == ["withdrawal.failed"]
    await env.assert_books_agree()


async def test_a_refusal_after_a_lost_reply_does_not_fail_the_withdrawal_at_once(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    await env.run_worker()
    env.bank.wire.fault = "refuse"
    await env.run_worker(rounds=2)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000
    env.context.now = lambda: utc_now() + LOST_CALL_WATCH
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await env.balance() == 10_000


async def test_a_refusal_right_after_a_late_lost_reply_does_not_fail_the_withdrawal(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    await env.run_worker()
    env.context.now = lambda: utc_now() + 2 * LOST_CALL_WATCH
    await env.run_worker()
    env.bank.wire.fault = "refuse"
    await env.run_worker(rounds=2)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000
    env.context.now = lambda: utc_now() + 3 * LOST_CALL_WATCH
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await env.balance() == 10_000


async def test_a_refusal_right_after_a_call_given_up_late_does_not_fail_the_withdrawal(env: Environment) -> None:
    """A process that stalled gives its call up when it goes on, and the bank may receive the call only then."""
    withdrawal_id = await env.withdraw()
    worker = WithdrawalOrderWorker(env.context)
    (order,) = await worker._claim(10)
    env.bank.wire.fault = "error500"

    async def stands_still(order: MoneyOrder) -> MoneyOutcome | Later:
        await worker._ask(order)
        env.context.now = lambda: utc_now() + 2 * LOST_CALL_WATCH
        raise TimeoutError

    await do_order(env.context, order, stands_still, worker._store, until=float("inf"))
    env.bank.wire.fault = "refuse"
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000


async def test_a_refusal_does_not_credit_back_a_withdrawal_that_a_lost_worker_may_have_sent(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    await env.run_worker()
    await env.pool.execute("UPDATE bank_order SET due_at = 'epoch' WHERE order_id = $1", withdrawal_id)
    await WithdrawalOrderWorker(env.context)._claim(10)
    env.context.now = lambda: utc_now() + 2 * LOST_CALL_WATCH
    await env.end_lease(withdrawal_id)
    env.bank.wire.fault = "refuse"
    await env.run_worker(rounds=2)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000


async def test_a_withdrawal_that_may_have_been_sent_stays_debited_when_transfers_are_switched_off(
    env: Environment,
) -> None:
    withdrawal_id = await env.withdraw()
    sends = env.context.banks.production[BANK]
    env.bank.wire.fault = "error500"
    await env.run_worker()
    env.bank.wire.fault = "up"
    env.context.banks.production[BANK] = env.bank.adapter()
    env.context.now = lambda: utc_now() + 2 * LOST_CALL_WATCH
    await env.run_worker(rounds=2)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000
    env.context.banks.production[BANK] = sends
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    await env.assert_books_agree()


async def test_a_failed_withdrawal_that_the_bank_sent_after_all_is_found_and_debited_again(env: Environment) -> None:
    withdrawal_id = await env.withdraw(fees=FeeTerms(withdrawal_cents=50))
    env.bank.wire.fault = "refuse"
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await env.balance() == 10_000
    async with session(env.pool) as conn:
        (compared,) = await find_transfers(conn, ids=[withdrawal_id])
    assert compared.here_cents is None, "if the bank lists it as sent, it is reported as missing in our books"
    assert not await env.is_missed(withdrawal_id), "a failed withdrawal is not reported as missing at the bank"
    env.bank.wire.fault = "up"
    await env.bank.bank.transfers.put_transfer(
        Transfer(id=withdrawal_id.hex, pix_key=str(env.account), document="52998224725", amount_cents=1000)
    )
    listed = SentTransfer(id=withdrawal_id.hex, status="processing", amount_cents=1000, asked_at=utc_now())
    for not_sent in (listed, structs.replace(listed, status="done", amount_cents=999)):
        assert await book_sent(env.context, BANK, [not_sent]) == 0
    assert await env.balance() == 10_000
    await env.pool.execute("DELETE FROM bank_reconciled WHERE method = 'transfer'")
    for days in (0, 2, 3):
        env.context.now = partial(after, days)
        while await reconcile_sent(env.context, BANK):
            pass
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert (await env.found(withdrawal_id)).end_to_end_id is not None
    assert await env.balance() == 10_000 - 1000 - 50
    assert await book_sent(env.context, BANK, [structs.replace(listed, status="done")]) == 0, "it is booked by now"
    assert await env.events() == ["withdrawal.failed", "withdrawal.succeeded"]
    assert await env.is_missed(withdrawal_id)
    assert not await env.is_missed(withdrawal_id, listed=True)


async def test_a_bank_without_a_list_of_sent_transfers_is_called_once_for_each_day(env: Environment) -> None:
    env.context.banks.production[BANK] = env.bank.adapter(transfers_url=f"{env.bank.url}/elsewhere/v1")
    await env.pool.execute("DELETE FROM bank_reconciled WHERE method = 'transfer'")
    for _ in range(20):
        await reconcile_sent(env.context, BANK)
    asked = [each for each in env.bank.requests if each.startswith("GET")]
    assert len(asked) == 7, "one call for each day, and no more until tomorrow"


async def test_a_withdrawal_under_way_at_the_bank_is_looked_up_until_it_settles(env: Environment) -> None:
    await env.set_bank_rules(settle_after_s=600)
    withdrawal_id = await env.withdraw()
    await env.run_worker(rounds=3)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert len(env.transfer_requests()) == 1
    await env.settle_at_bank()
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    await env.assert_books_agree()


async def test_a_withdrawal_that_does_not_settle_at_the_bank_is_credited_back_to_the_wallet(env: Environment) -> None:
    await env.set_bank_rules(settle_after_s=600, fails=True)
    withdrawal_id = await env.withdraw()
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("processing", None)
    await env.settle_at_bank()
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("failed", "NOT_CARRIED_OUT")
    assert await env.balance() == 10_000
    await env.assert_books_agree()


async def test_a_refusal_after_the_bank_reported_a_withdrawal_under_way_does_not_fail_it(env: Environment) -> None:
    await env.set_bank_rules(settle_after_s=600)
    withdrawal_id = await env.withdraw()
    await env.run_worker()
    await env.pool.execute(
        "DELETE FROM simulated_transfer WHERE id = $1", withdrawal_id.hex
    )  # the bank shows an older state
    env.bank.wire.fault = "refuse"
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000


@pytest.mark.parametrize("cents", [999, 1001])
async def test_a_transfer_of_another_amount_under_the_same_id_does_not_end_the_withdrawal(
    env: Environment, cents: int
) -> None:
    await env.set_bank_rules(settle_after_s=600)
    withdrawal_id = await env.withdraw()
    await env.run_worker()
    change = "UPDATE simulated_transfer SET amount_cents = $2 WHERE id = $1"
    await env.pool.execute(change, withdrawal_id.hex, cents)
    await env.settle_at_bank()
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000
    await env.pool.execute(change, withdrawal_id.hex, 1000)
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("succeeded", None)


async def test_a_withdrawal_fails_as_unavailable_at_a_bank_without_transfers(env: Environment) -> None:
    env.context.banks.production[BANK] = env.bank.adapter()
    withdrawal_id = await env.withdraw()
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("failed", "TRANSFER_UNAVAILABLE")
    assert await env.balance() == 10_000


async def test_a_database_outage_before_the_bank_call_does_not_count_as_a_possible_transfer(
    env: Environment,
) -> None:
    env.context.banks.production[BANK] = env.bank.adapter()
    withdrawal_id = await env.withdraw()
    await env.run_worker_without_database()
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("failed", "TRANSFER_UNAVAILABLE")
    assert await env.balance() == 10_000


# Workers that are lost


async def test_a_withdrawal_is_sent_once_when_a_worker_dies_before_its_bank_call(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    (order,) = await WithdrawalOrderWorker(env.context)._claim(10)
    assert await WithdrawalOrderWorker(env.context).drain() == 0
    await env.end_lease(order.order_id)
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]


async def test_a_withdrawal_is_sent_once_when_a_worker_dies_after_the_bank_accepted_it(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    (order,) = await WithdrawalOrderWorker(env.context)._claim(10)
    async with transaction(env.pool) as conn:
        await start_sending(conn, withdrawal_id, env.account, now=to_millisecond(utc_now()))
    request = msgspec.json.decode(order.request, type=SendOrder)
    await env.context.banks.production[BANK].transfers.send_pix(
        Transfer(id=withdrawal_id.hex, pix_key=request.pix_key, document=request.document, amount_cents=1000)
    )
    # The worker dies here. Its lease ends, and another worker takes over.
    await env.end_lease(withdrawal_id)
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    assert len(env.transfer_requests()) == 1
    await env.assert_books_agree()


async def test_a_slow_worker_does_not_change_a_withdrawal_that_another_worker_ended(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    slow = WithdrawalOrderWorker(env.context)
    (order,) = await slow._claim(10)
    await env.end_lease(withdrawal_id)
    await env.run_worker()
    balance, events = await env.balance(), await env.events()
    await slow._store(order, MoneyOutcome(failure=FailureCode.BANK_REFUSED))
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert (await env.balance(), await env.events()) == (balance, events)
    assert (await env.order(withdrawal_id))["state"] == "done"


async def test_a_withdrawal_of_a_worker_stopped_during_its_bank_call_is_completed_by_the_next(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    transfers, called = env.context.banks.production[BANK].transfers, asyncio.Queue[Transfer]()
    arrives = transfers.send_pix

    async def under_way(asked: Transfer) -> Any:
        await called.put(asked)
        await asyncio.Event().wait()

    transfers.send_pix = under_way  # type: ignore[method-assign]
    working = asyncio.create_task(WithdrawalOrderWorker(env.context).drain())
    async with asyncio.timeout(30):
        asked = await called.get()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    del transfers.send_pix
    assert await env.status(withdrawal_id) == ("processing", None)
    await env.end_lease(withdrawal_id)
    await env.run_worker(rounds=2)
    assert isinstance(await arrives(asked), Done), "the bank carries out a call though nobody waits for its answer"
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    await env.assert_books_agree()


async def test_a_withdrawal_cancelled_after_a_worker_claimed_it_is_not_sent(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    worker = WithdrawalOrderWorker(env.context)
    (order,) = await worker._claim(10)
    async with transaction(env.pool) as conn:
        now = to_millisecond(utc_now())
        await cancel_withdrawal(conn, withdrawal_id, env.account, actor="test", request_id=None, now=now)
    await do_order(env.context, order, worker._ask, worker._store, until=float("inf"))
    assert await env.status(withdrawal_id) == ("cancelled", None)
    assert (await env.order(withdrawal_id))["state"] == "abandoned"
    assert env.transfer_requests() == []
    assert await env.balance() == 10_000


async def test_a_worker_that_stalled_past_its_time_for_calls_sends_no_withdrawal(env: Environment) -> None:
    """A refund, whose worker does not check again whether it has ended, would be sent when the process goes on."""
    withdrawal_id = await env.withdraw()
    worker = WithdrawalOrderWorker(env.context)

    async def claim(limit: int) -> Sequence[MoneyOrder]:
        claimed = await worker._claim(limit)
        time.sleep(0.3)  # longer than its time for bank calls
        return claimed

    assert await drain_lanes(env.context, claim, ask=worker._ask, store=worker._store, at_once=1, call_s=0.2) == 1
    assert (await env.status(withdrawal_id), env.transfer_requests()) == (("pending", None), [])
    await env.end_lease(withdrawal_id)
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]


async def test_the_workers_of_pix_and_refund_orders_do_not_execute_withdrawal_orders(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    await PixOrderWorker(env.context, Mode.PRODUCTION).drain()
    await RefundOrderWorker(env.context, Mode.PRODUCTION).drain()
    order = await env.order(withdrawal_id)
    assert (order["state"], order["attempts"]) == ("waiting", 0)
    await env.run_worker()
    assert (await env.order(withdrawal_id))["state"] == "done"


async def test_many_concurrent_withdrawals_all_succeed(env: Environment) -> None:
    made = await asyncio.gather(*(env.withdraw(100) for _ in range(40)))
    await env.run_worker()
    assert {await env.status(each) for each in made} == {("succeeded", None)}
    assert await env.balance() == 6_000
    await env.assert_books_agree()


# Accounts that are blocked


async def _decide(env: Environment, to: Kyc) -> None:
    async with transaction(env.pool) as conn:
        await decide_kyc(conn, env.account, to, "suspeita de fraude", now=to_millisecond(utc_now()))


async def test_a_withdrawal_of_a_blocked_account_is_held_until_the_account_is_approved(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    await _decide(env, Kyc.BLOCKED)
    await env.run_worker(rounds=2)
    assert await env.status(withdrawal_id) == ("pending", None)
    order = await env.order(withdrawal_id)
    assert (order["state"], order["attempts"]) == ("waiting", 0)
    assert (env.transfer_requests(), await env.sent(withdrawal_id), await env.balance()) == ([], [], 9_000)
    await _decide(env, Kyc.APPROVED)
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    await env.assert_books_agree()


async def test_held_withdrawals_do_not_count_as_waiting_for_workers(env: Environment) -> None:
    async def waiting() -> int:
        async with env.pool.acquire() as conn:
            return next(
                each.waiting for each in await queues(conn, now=datetime.now(UTC)) if each.name == "bank_withdrawals"
            )

    before = await waiting()
    await env.withdraw()
    assert await waiting() == before + 1
    await _decide(env, Kyc.BLOCKED)
    assert await waiting() == before


async def test_a_held_withdrawal_can_be_cancelled(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    await _decide(env, Kyc.BLOCKED)
    await env.run_worker()
    async with transaction(env.pool) as conn:
        now = to_millisecond(utc_now())
        await cancel_withdrawal(conn, withdrawal_id, env.account, actor="test", request_id=None, now=now)
    await _decide(env, Kyc.APPROVED)
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("cancelled", None)
    assert (env.transfer_requests(), await env.balance()) == ([], 10_000)


async def test_the_daily_withdrawal_of_a_blocked_account_is_held(env: Environment) -> None:
    await _switch_daily_on(env)
    assert await _run_daily(env, DAY) == 1
    env.context.now = utc_now
    await _decide(env, Kyc.BLOCKED)
    await env.run_worker()
    withdrawal_id = await env.pool.fetchval("SELECT withdrawal_id FROM withdrawal WHERE account_id = $1", env.account)
    assert (await env.status(withdrawal_id), env.transfer_requests()) == (("pending", None), [])


async def test_a_withdrawal_claimed_before_its_account_was_blocked_is_not_sent(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    worker = WithdrawalOrderWorker(env.context)
    (order,) = await worker._claim(10)
    await _decide(env, Kyc.BLOCKED)
    await do_order(env.context, order, worker._ask, worker._store, until=float("inf"))
    assert await env.status(withdrawal_id) == ("pending", None)
    assert env.transfer_requests() == []
    await _decide(env, Kyc.APPROVED)
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]


async def test_blocking_an_account_waits_for_a_worker_that_is_about_to_call_the_bank(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    async with transaction(env.pool) as conn:
        assert await start_sending(conn, withdrawal_id, env.account, now=to_millisecond(utc_now())) is not None
        blocking = asyncio.create_task(_decide(env, Kyc.BLOCKED))
        await asyncio.sleep(0.2)
        assert not blocking.done()
    await blocking


async def test_a_withdrawal_sent_before_its_account_was_blocked_is_reconciled(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "lost_reply"
    await env.run_worker()
    await _decide(env, Kyc.BLOCKED)
    env.bank.wire.fault = "up"
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    await env.assert_books_agree()


async def test_a_withdrawal_the_bank_never_received_is_not_repeated_while_the_account_is_blocked(
    env: Environment,
) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    await env.run_worker()
    await _decide(env, Kyc.BLOCKED)
    env.bank.wire.fault = "up"
    env.context.now = lambda: utc_now() + 2 * LOST_CALL_WATCH
    await env.run_worker(rounds=3)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert (len(env.transfer_requests()), await env.sent(withdrawal_id), await env.balance()) == (1, [], 9_000)
    await _decide(env, Kyc.APPROVED)
    env.bank.wire.fault = "refuse"
    await env.run_worker()
    # Rounds in which it was held are no attempts, so this refusal is final, as it would be without the block.
    assert await env.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await env.balance() == 10_000


@pytest.mark.parametrize("between", ["block", "database away"])
async def test_a_refusal_after_a_lost_reply_is_not_final_after_a_block_or_a_database_outage_either(
    env: Environment, between: str
) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    await env.run_worker()
    env.bank.wire.fault = "up"
    if between == "block":
        await _decide(env, Kyc.BLOCKED)
        await env.run_worker()
        await _decide(env, Kyc.APPROVED)
    else:
        await env.run_worker_without_database()
    env.bank.wire.fault = "refuse"
    await env.run_worker()
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000


async def test_a_blocked_account_does_not_hold_up_the_withdrawals_of_others(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(20):
        await env.withdraw(100)
    await _decide(env, Kyc.BLOCKED)
    await env.pool.execute("UPDATE bank_order SET due_at = 'epoch' WHERE account_id = $1", env.account)
    claim, looks = outgoing._claim, list[datetime | None]()

    async def looking(conn: Any, **asked: Any) -> Any:
        looks.append(asked["since"])
        return await claim(conn, **asked)

    worker = WithdrawalOrderWorker(env.context)
    with monkeypatch.context() as patched:
        patched.setattr(outgoing, "_claim", looking)
        for _ in range(3):
            assert await worker.drain() == 0
    assert looks[0] is None
    assert None not in looks[1:3], "a look each second does not walk all that are held"
    other = Environment(env.context, await make_account(env.pool), env.bank)
    await credit_wallet(env.pool, other.account, 10_000)
    withdrawal_id = await other.withdraw()
    await other.run_worker()
    assert await other.status(withdrawal_id) == ("succeeded", None)
    assert await env.balance() == 8_000


# Daily withdrawals


def at(day: date, hour: int) -> datetime:
    return datetime(day.year, day.month, day.day, hour, tzinfo=SAO_PAULO).astimezone(UTC)


# A day in the future, so that no instant of these tests is earlier than the wallet's entries.
DAY = utc_now().astimezone(SAO_PAULO).date() + timedelta(days=1)


async def _switch_daily_on(env: Environment, keep_cents: int = 0) -> None:
    async with transaction(env.pool) as conn:
        await set_daily(conn, env.account, keep_cents=keep_cents)


async def _withdrawals_made(env: Environment) -> list[tuple[int, str]]:
    rows = await env.pool.fetch(
        "SELECT amount_cents, automatic_on FROM withdrawal WHERE account_id = $1 ORDER BY created_at", env.account
    )
    return [(row["amount_cents"], str(row["automatic_on"])) for row in rows]


async def _run_daily(env: Environment, day: date, hour: int = 19) -> int:
    env.context.now = lambda: at(day, hour)
    return await withdraw_daily(env.context)


async def test_the_daily_withdrawal_sends_everything_above_the_amount_to_keep(env: Environment) -> None:
    await _switch_daily_on(env, keep_cents=2_500)
    assert await _run_daily(env, DAY, hour=18) == 0
    assert await _withdrawals_made(env) == []
    assert await _run_daily(env, DAY) == 1
    assert await _withdrawals_made(env) == [(7_500, str(DAY))]
    assert await env.balance() == 2_500
    due_at = await env.pool.fetchval("SELECT due_at FROM bank_order WHERE account_id = $1", env.account)
    assert due_at == at(DAY, 19) + timedelta(seconds=env.context.settings.withdrawal_grace_s), "it can be cancelled"
    await env.run_worker()
    found = await env.pool.fetchval("SELECT doc FROM read_withdrawal WHERE account_id = $1", env.account)
    doc = msgspec.json.decode(found, type=WithdrawalDoc)
    assert (doc.status, doc.automatic) == ("succeeded", True)
    await env.assert_books_agree()


async def test_an_account_has_one_daily_withdrawal_a_day_whatever_is_credited_later(env: Environment) -> None:
    await _switch_daily_on(env)
    await _run_daily(env, DAY)
    await credit_wallet(env.pool, env.account, 700, now=at(DAY, 20))
    assert await _run_daily(env, DAY, hour=21) == 0
    assert await _run_daily(env, DAY - timedelta(days=1)) == 0, (
        "none for an earlier day either, by a clock that was set back"
    )
    assert await _run_daily(env, DAY + timedelta(days=1), hour=3) == 0
    assert await _run_daily(env, DAY + timedelta(days=1)) == 1
    assert await _withdrawals_made(env) == [(10_000, str(DAY)), (700, str(DAY + timedelta(days=1)))]


async def test_the_daily_withdrawal_does_not_exceed_the_maximum_of_a_pix(env: Environment) -> None:
    await credit_wallet(env.pool, env.account, PIX_CENTS_MAX, now=at(DAY, 8))
    await _switch_daily_on(env)
    assert await _run_daily(env, DAY) == 1
    assert (await _withdrawals_made(env), await env.balance()) == ([(PIX_CENTS_MAX, str(DAY))], 10_000)


async def test_concurrent_workers_and_lost_progress_make_one_daily_withdrawal(env: Environment) -> None:
    await _switch_daily_on(env)
    env.context.now = lambda: at(DAY, 19)
    await asyncio.gather(*(withdraw_daily(env.context) for _ in range(6)))
    assert await _withdrawals_made(env) == [(10_000, str(DAY))]
    # Its progress is lost: by switching it off and on, or by restoring a backup that is a day old.
    await credit_wallet(env.pool, env.account, 700, now=at(DAY, 20))
    async with transaction(env.pool) as conn:
        await end_daily(conn, env.account)
    await _switch_daily_on(env)
    assert await _run_daily(env, DAY, hour=21) == 1
    assert await _withdrawals_made(env) == [(10_000, str(DAY))]
    assert await env.balance() == 700


async def test_the_daily_withdrawal_skips_an_account_that_another_worker_holds(env: Environment) -> None:
    await _switch_daily_on(env)
    async with transaction(env.pool) as conn:
        await conn.execute("SELECT FROM auto_withdrawal WHERE account_id = $1 FOR UPDATE", env.account)
        await _run_daily(env, DAY)
    assert await _withdrawals_made(env) == []
    await _run_daily(env, DAY)
    assert await _withdrawals_made(env) == [(10_000, str(DAY))]


async def test_a_daily_withdrawal_below_the_minimum_waits_for_another_day(env: Environment) -> None:
    await _switch_daily_on(env, keep_cents=9_901)
    assert await _run_daily(env, DAY) == 1
    assert await _withdrawals_made(env) == []
    await _switch_daily_on(env, keep_cents=9_900)
    assert await _run_daily(env, DAY) == 0
    assert await _run_daily(env, DAY + timedelta(days=1)) == 1
    assert await _withdrawals_made(env) == [(100, str(DAY + timedelta(days=1)))]


async def test_an_account_not_approved_or_switched_off_or_without_a_key_has_no_daily_withdrawal(
    env: Environment,
) -> None:
    await _switch_daily_on(env)
    await env.pool.execute("UPDATE account SET kyc = 'pending' WHERE account_id = $1", env.account)
    assert await _run_daily(env, DAY) == 0
    await env.pool.execute("UPDATE account SET kyc = 'approved' WHERE account_id = $1", env.account)
    async with transaction(env.pool) as conn:
        await end_daily(conn, env.account)
    assert await _run_daily(env, DAY) == 0
    assert await _withdrawals_made(env) == []
    await env.pool.execute("UPDATE account SET pix_key = '' WHERE account_id = $1", env.account)
    await _switch_daily_on(env)
    assert await _run_daily(env, DAY) == 1
    assert await _withdrawals_made(env) == []


async def test_a_sandbox_balance_has_no_daily_withdrawal(env: Environment, table_owner: Pool) -> None:
    account = await make_account(env.pool)
    await env.pool.execute(
        "INSERT INTO account_clock (account_id, test, balance_cents) VALUES ($1, true, 50000)", account
    )
    async with transaction(env.pool) as conn:
        await set_daily(conn, account, keep_cents=0)
    assert await _run_daily(env, DAY) == 1
    assert await env.pool.fetchval("SELECT count(*) FROM withdrawal WHERE account_id = $1", account) == 0
    await table_owner.execute("DELETE FROM account_clock WHERE account_id = $1", account)


async def test_a_daily_withdrawal_refused_because_the_balance_fell_is_made_by_the_next_run(env: Environment) -> None:
    await _switch_daily_on(env)
    now = to_millisecond(at(DAY, 19))

    async def look() -> Withdrawal | bool:
        async with transaction(env.pool) as conn:
            return await daily_withdrawal(conn, day=DAY, now=now, bank="001", grace_s=0, fees=NO_FEES)

    async with transaction(env.pool) as conn:
        # A withdrawal requested by hand is not committed yet when the daily one reads the balance.
        await env.withdraw(1000, conn=conn)
        looking = asyncio.create_task(look())
        await asyncio.sleep(0.2)
        assert not looking.done()
    with pytest.raises(Refused) as refused:
        await looking
    assert refused.value.code.name == "INSUFFICIENT_BALANCE"
    assert await _run_daily(env, DAY) == 1
    assert await _withdrawals_made(env) == [(1_000, "None"), (9_000, str(DAY))]


@pytest.mark.parametrize(
    ("given", "named"),
    [({"DAILY_WITHDRAWAL_HOUR": "24"}, "DAILY_WITHDRAWAL_HOUR"), ({"WITHDRAWAL_GRACE_S": "-1"}, "WITHDRAWAL_GRACE_S")],
)
def test_an_invalid_withdrawal_setting_is_refused_by_name(given: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        settings_for(**given)


# The running system


async def test_the_running_system_completes_a_withdrawal_by_itself(system: System) -> None:
    async with new_merchant(system) as merchant, database_of(system) as books:
        client = merchant.production
        charge_id = await create_charge_in_the_past(books, client, test=False, ago_s=60, lifetime_s=3600)
        await book_bank_payments(system, books, charge_id, 1000)
        reply = await client.ask("POST", "/v1/withdrawals", json={"amount": "6.00"}, key=secrets.token_hex(8))
        assert (reply.status, reply.body["status"]) == (201, "pending")
        stopped = await client.ask("POST", "/v1/withdrawals", json={"amount": "1.00"}, key=secrets.token_hex(8))
        assert (await client.post(f"/v1/withdrawals/{stopped.body['withdrawal_id']}/cancel")).status == 200

        async def paid_out() -> bool:
            found = await client.get(f"/v1/withdrawals/{reply.body['withdrawal_id']}")
            return bool(found.body["status"] == "succeeded")

        await until_answer(paid_out)
        assert await client.balance() == "4.00"
        assert [event["type"] for event in await client.events()] == ["payment.received", "withdrawal.succeeded"]
        turned = system.quita("merchant", "auto-withdraw", client.account_id, "--on", "--keep", "1.00", "--json")
        assert turned.returncode == 0, turned.stderr
        assert (
            await books.fetchval(
                "SELECT keep_cents FROM auto_withdrawal WHERE account_id = $1::text::uuid", client.account_id
            )
            == 100
        )
        turned = system.quita("merchant", "auto-withdraw", client.account_id, "--off", "--json")
        assert msgspec.json.decode(turned.stdout)["auto_withdraw"] is False
        assert system.quita("merchant", "auto-withdraw", str(new_id()), "--on").returncode == 1
