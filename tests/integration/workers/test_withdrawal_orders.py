"""Orders about withdrawals: sent once, asked about until known, and our books and the bank's agree to the cent; and the
daily ones, once an account and day whoever looks."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID

import asyncpg
import msgspec
import pytest
import pytest_asyncio
from msgspec import structs

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
from tests.support.merchant import books_of, created_before, money_arrives, new_merchant, until_answer
from tests.support.orders import ever
from tests.support.system import System
from tests.support.wallet import balance_of, put_money
from workers.context import Context
from workers.incoming.sent_transfers import book_sent, reconcile_sent
from workers.incoming.statement import find_transfers, find_withdrawals_not_listed
from workers.orders.lease import LOST_CALL_WATCH, Later, do_order, drain_lane, release_orders
from workers.orders.outgoing import BACKOFF_S, SILENT_S, MoneyOrder, MoneyOutcome
from workers.orders.pix import drain_orders
from workers.orders.refund import RefundOrderWorker
from workers.orders.withdrawal import WithdrawalOrderWorker, withdraw_daily

PLAIN = ReturnRules(settle_after_s=0, fails=False)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(pool: Pool, servers: Any) -> AsyncIterator[RunningBank]:
    before = await verify(servers.database_url)  # what other tests have bent is not ours to judge
    async with running_bank(pool, slow_s=0.3) as running:
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

    async def withdraw(self, cents: int = 1000, *, conn: Any = None, fees: FeeTerms = NO_FEES) -> UUID:
        if conn is None:
            async with transaction(self.pool) as its_own:
                return await self.withdraw(cents, conn=its_own, fees=fees)
        withdrawal_id = new_id()
        asked = NewWithdrawal(
            account_id=self.account, key=secrets.token_hex(8), fingerprint=bytes(32), withdrawal_id=withdrawal_id,
            amount_cents=cents, description="Saque nº 1", external_id=None, actor="test", request_id="test",
        )  # fmt: skip
        assert (
            await create_withdrawal(conn, asked, now=to_millisecond(utc_now()), bank="001", grace_s=0, fees=fees)
            is not None
        )
        return withdrawal_id

    async def works(self, *, rounds: int = 1) -> None:
        """The worker does what is due; time passes before each round."""
        for _ in range(rounds):
            await self.pool.execute(
                "UPDATE bank_order SET due_at = '-infinity' WHERE account_id = $1 AND state = 'waiting'", self.account
            )
            await WithdrawalOrderWorker(self.context).drain()

    async def works_without_database(self) -> None:
        """It is away once the order is claimed, and back when what came of it is stored."""
        await self.pool.execute("UPDATE bank_order SET due_at = '-infinity' WHERE account_id = $1", self.account)
        worker = WithdrawalOrderWorker(self.context)
        (order,) = await worker._claim(10)
        self.context.pool = cast(Pool, asyncpg.create_pool())  # never opened
        result = await worker._ask(order)
        self.context.pool = self.pool
        await worker._store(order, result)

    async def arrives(self) -> None:
        """What is on its way at the bank is due by now."""
        await self.pool.execute("UPDATE simulated_transfer SET settles_at = $1 WHERE settles_at > $1", utc_now())

    async def lost(self, withdrawal_id: UUID) -> None:
        """Its worker's lease runs out."""
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
        return await self.pool.fetchrow(ever("SELECT * FROM bank_order WHERE order_id = $1"), withdrawal_id)

    async def sent(self, withdrawal_id: UUID) -> list[int]:
        """What the bank says went out under this withdrawal's id, cents."""
        rows = await self.pool.fetch("SELECT amount_cents FROM simulated_transfer WHERE id = $1", withdrawal_id.hex)
        return [row[0] for row in rows]

    async def missed(self, withdrawal_id: UUID, *, listed: bool = False) -> bool:
        """Whether a comparison with the bank's lists misses it when it is in none of them, or in one."""
        async with session(self.pool) as conn:
            rows = await find_withdrawals_not_listed(
                conn, first_id=first_id(after(-1)), last_id=first_id(after(1)), limit=10_000,
                listed=[withdrawal_id] if listed else [],
            )  # fmt: skip
        return withdrawal_id in {row.withdrawal_id for row in rows}

    async def balance(self) -> int:
        return await balance_of(self.pool, self.account)

    async def events(self) -> list[str]:
        rows = await self.pool.fetch(
            "SELECT type FROM read_event WHERE account_id = $1 AND charge_id IS NULL ORDER BY sequence", self.account
        )
        return [row["type"] for row in rows]

    async def rules(self, **rules: Any) -> None:
        await self.bank.bank.transfers.set_rules(msgspec.structs.replace(PLAIN, **rules))

    def puts(self) -> list[str]:
        return [each for each in self.bank.requests if each.startswith("PUT") and "/transferencia/" in each]

    async def assert_books_agree(self) -> None:
        """Every cent that left the wallet for good left the bank, and no other."""
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
        await put_money(pool, made.account, 10_000)
        await made.rules()
        yield made
        await made.rules()


# Sending


def test_what_has_ended_stays_as_it_is() -> None:
    assert set(NEXT) == set(WithdrawalStatus)
    assert {status for status in NEXT if not NEXT[status]} == {"succeeded", "cancelled"}
    assert NEXT[WithdrawalStatus.FAILED] == {"succeeded"}, "what the bank sent after all"


async def test_it_is_pending_until_its_moment_and_then_sent(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    await env.pool.execute(
        "UPDATE bank_order SET due_at = $2 WHERE order_id = $1", withdrawal_id, utc_now() + timedelta(seconds=60)
    )
    assert await WithdrawalOrderWorker(env.context).drain() == 0
    assert await env.status(withdrawal_id) == ("pending", None)
    await env.works()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    await env.assert_books_agree()
    # What became of it is traced to the request that asked for it.
    caused_by = "SELECT request_id FROM journal WHERE account_id = $1 AND kind = 'withdrawal.succeeded'"
    assert await env.pool.fetchval(caused_by, env.account) == "test"


@pytest.mark.parametrize("fault", ["down", "lost_reply", "timeout_before", "cut", "error500", "html"])
async def test_whatever_the_bank_does_the_money_goes_exactly_once(env: Environment, fault: str) -> None:
    withdrawal_id = await env.withdraw()
    adapter = env.bank.adapter(write_s=0.3, read_s=0.3, transfers_url=f"{env.bank.url}/transfers/v1")
    env.context.banks.production[BANK] = adapter
    env.bank.wire.fault = fault
    await env.works(rounds=2)
    lost = fault in ("lost_reply", "cut")
    # A lost answer is asked about at once; while nothing is known nothing is failed.
    assert await env.status(withdrawal_id) == ("succeeded" if lost else "processing", None)
    assert await env.balance() == 9_000
    env.bank.wire.fault = "up"
    await env.works(rounds=2)
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    assert await env.events() == ["withdrawal.succeeded"]
    await env.assert_books_agree()


async def test_each_attempt_names_the_same_id_and_waits_longer(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    for attempt in range(1, 9):
        before = utc_now()
        await env.works()
        order = await env.order(withdrawal_id)
        assert (order["state"], order["attempts"]) == ("waiting", attempt)
        wait = timedelta(seconds=min(BACKOFF_S[attempt - 1], SILENT_S))
        assert before + wait * 0.8 <= order["due_at"] <= utc_now() + wait * 1.2
    env.bank.wire.fault = "up"
    await env.works()
    asked = {each.rpartition("/")[2] for each in env.bank.requests if "/transferencia/" in each}
    assert asked == {withdrawal_id.hex}


async def test_a_refusal_fails_it_and_the_money_is_back_in_the_wallet(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    assert await env.balance() == 9_000
    env.bank.wire.fault = "refuse"
    await env.works()
    assert await env.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await env.balance() == 10_000
    assert (await env.order(withdrawal_id))["state"] == "refused"
    assert await env.events() == ["withdrawal.failed"]
    await env.assert_books_agree()


async def test_a_no_that_a_lost_yes_may_overtake_is_not_believed_at_once(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    await env.works()
    env.bank.wire.fault = "refuse"
    await env.works(rounds=2)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000
    env.context.now = lambda: utc_now() + LOST_CALL_WATCH
    await env.works()
    assert await env.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await env.balance() == 10_000


async def test_a_no_is_not_believed_however_late_the_lost_yes_was(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    await env.works()
    env.context.now = lambda: utc_now() + 2 * LOST_CALL_WATCH
    await env.works()
    env.bank.wire.fault = "refuse"
    await env.works(rounds=2)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000
    env.context.now = lambda: utc_now() + 3 * LOST_CALL_WATCH
    await env.works()
    assert await env.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await env.balance() == 10_000


async def test_a_no_is_not_believed_right_after_a_call_that_was_given_up_late(env: Environment) -> None:
    """A process that stood still gives it up when it goes on, and the bank may not have it before that."""
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
    await env.works()
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000


async def test_what_a_lost_worker_may_have_sent_is_not_given_back_for_a_no(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    await env.works()
    await env.pool.execute("UPDATE bank_order SET due_at = '-infinity' WHERE order_id = $1", withdrawal_id)
    await WithdrawalOrderWorker(env.context)._claim(10)
    env.context.now = lambda: utc_now() + 2 * LOST_CALL_WATCH
    await env.lost(withdrawal_id)
    env.bank.wire.fault = "refuse"
    await env.works(rounds=2)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000


async def test_a_way_to_send_that_was_taken_away_gives_nothing_back_that_may_be_gone(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    sends = env.context.banks.production[BANK]
    env.bank.wire.fault = "error500"
    await env.works()
    env.bank.wire.fault = "up"
    env.context.banks.production[BANK] = env.bank.adapter()
    env.context.now = lambda: utc_now() + 2 * LOST_CALL_WATCH
    await env.works(rounds=2)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000
    env.context.banks.production[BANK] = sends
    await env.works()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    await env.assert_books_agree()


async def test_what_failed_and_was_sent_after_all_is_found_and_debited_again(env: Environment) -> None:
    withdrawal_id = await env.withdraw(fees=FeeTerms(withdrawal_cents=50))
    env.bank.wire.fault = "refuse"
    await env.works()
    assert await env.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await env.balance() == 10_000
    async with session(env.pool) as conn:
        (compared,) = await find_transfers(conn, ids=[withdrawal_id])
    assert compared.here_cents is None, "listed as sent, it is told as missing here"
    assert not await env.missed(withdrawal_id), "nor is it told as missing at the bank"
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
    assert await env.events() == ["withdrawal.failed", "withdrawal.succeeded"]
    assert await env.missed(withdrawal_id)
    assert not await env.missed(withdrawal_id, listed=True)


async def test_a_bank_that_lists_nothing_of_what_it_sent_is_left_alone(env: Environment) -> None:
    env.context.banks.production[BANK] = env.bank.adapter(transfers_url=f"{env.bank.url}/elsewhere/v1")
    await env.pool.execute("DELETE FROM bank_reconciled WHERE method = 'transfer'")
    for _ in range(20):
        await reconcile_sent(env.context, BANK)
    asked = [each for each in env.bank.requests if each.startswith("GET")]
    assert len(asked) == 7, "a day at a time, and then tomorrow"


async def test_money_on_its_way_is_asked_about_until_it_arrives(env: Environment) -> None:
    await env.rules(settle_after_s=600)
    withdrawal_id = await env.withdraw()
    await env.works(rounds=3)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert len(env.puts()) == 1
    await env.arrives()
    await env.works()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    await env.assert_books_agree()


async def test_money_on_its_way_that_does_not_arrive_is_back_in_the_wallet(env: Environment) -> None:
    await env.rules(settle_after_s=600, fails=True)
    withdrawal_id = await env.withdraw()
    await env.works()
    assert await env.status(withdrawal_id) == ("processing", None)
    await env.arrives()
    await env.works()
    assert await env.status(withdrawal_id) == ("failed", "NOT_CARRIED_OUT")
    assert await env.balance() == 10_000
    await env.assert_books_agree()


async def test_a_no_is_not_believed_after_money_that_was_on_its_way(env: Environment) -> None:
    await env.rules(settle_after_s=600)
    withdrawal_id = await env.withdraw()
    await env.works()
    await env.pool.execute("DELETE FROM simulated_transfer WHERE id = $1", withdrawal_id.hex)  # shows what was before
    env.bank.wire.fault = "refuse"
    await env.works()
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000


@pytest.mark.parametrize("cents", [999, 1001])
async def test_another_amount_under_its_id_ends_nothing(env: Environment, cents: int) -> None:
    await env.rules(settle_after_s=600)
    withdrawal_id = await env.withdraw()
    await env.works()
    change = "UPDATE simulated_transfer SET amount_cents = $2 WHERE id = $1"
    await env.pool.execute(change, withdrawal_id.hex, cents)
    await env.arrives()
    await env.works()
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000
    await env.pool.execute(change, withdrawal_id.hex, 1000)
    await env.works()
    assert await env.status(withdrawal_id) == ("succeeded", None)


async def test_a_bank_that_sends_no_pix_fails_it_and_says_so(env: Environment) -> None:
    env.context.banks.production[BANK] = env.bank.adapter()
    withdrawal_id = await env.withdraw()
    await env.works()
    assert await env.status(withdrawal_id) == ("failed", "TRANSFER_UNAVAILABLE")
    assert await env.balance() == 10_000


async def test_a_database_that_was_away_before_the_bank_was_asked_leaves_nothing_that_may_be_gone(
    env: Environment,
) -> None:
    env.context.banks.production[BANK] = env.bank.adapter()
    withdrawal_id = await env.withdraw()
    await env.works_without_database()
    await env.works()
    assert await env.status(withdrawal_id) == ("failed", "TRANSFER_UNAVAILABLE")
    assert await env.balance() == 10_000


# Workers that are lost


async def test_a_worker_that_died_before_it_asked_loses_nothing(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    (order,) = await WithdrawalOrderWorker(env.context)._claim(10)
    assert await WithdrawalOrderWorker(env.context).drain() == 0
    await env.lost(order.order_id)
    await env.works()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]


async def test_a_worker_that_died_after_the_banks_yes_has_sent_the_money_once(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    (order,) = await WithdrawalOrderWorker(env.context)._claim(10)
    async with transaction(env.pool) as conn:
        await start_sending(conn, withdrawal_id, env.account, now=to_millisecond(utc_now()))
    request = msgspec.json.decode(order.request, type=SendOrder)
    await env.context.banks.production[BANK].transfers.send_pix(
        Transfer(id=withdrawal_id.hex, pix_key=request.pix_key, document=request.document, amount_cents=1000)
    )
    # Here it was killed. Its lease runs out, and another takes over.
    await env.lost(withdrawal_id)
    await env.works()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    assert len(env.puts()) == 1
    await env.assert_books_agree()


async def test_a_worker_that_was_slow_ends_nothing_another_has_ended(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    slow = WithdrawalOrderWorker(env.context)
    (order,) = await slow._claim(10)
    await env.lost(withdrawal_id)
    await env.works()
    balance, events = await env.balance(), await env.events()
    await slow._store(order, MoneyOutcome(failure=FailureCode.BANK_REFUSED))
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert (await env.balance(), await env.events()) == (balance, events)
    assert (await env.order(withdrawal_id))["state"] == "done"


async def test_a_worker_cut_short_in_the_middle_of_a_call_leaves_the_order_to_the_next(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "slow"  # done in the end, whoever still listens

    async def asked() -> bool:
        return bool(env.puts())

    working = asyncio.create_task(WithdrawalOrderWorker(env.context).drain())
    await until_answer(asked)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    env.bank.wire.fault = "up"
    assert await env.status(withdrawal_id) == ("processing", None)
    await env.lost(withdrawal_id)
    await env.works(rounds=2)
    await asyncio.sleep(0.5)
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    await env.assert_books_agree()


async def test_what_was_cancelled_after_a_worker_claimed_it_is_not_sent(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    worker = WithdrawalOrderWorker(env.context)
    (order,) = await worker._claim(10)
    async with transaction(env.pool) as conn:
        now = to_millisecond(utc_now())
        await cancel_withdrawal(conn, withdrawal_id, env.account, actor="test", request_id=None, now=now)
    await do_order(env.context, order, worker._ask, worker._store, until=float("inf"))
    assert await env.status(withdrawal_id) == ("cancelled", None)
    assert (await env.order(withdrawal_id))["state"] == "abandoned"
    assert env.puts() == []
    assert await env.balance() == 10_000


async def test_what_was_claimed_before_a_process_stood_still_is_left_to_whoever_has_it_by_now(env: Environment) -> None:
    """Of a refund, which has no look of its own whether it has ended, the money was sent when it went on."""
    withdrawal_id = await env.withdraw()
    worker = WithdrawalOrderWorker(env.context)

    async def claim(limit: int) -> list[MoneyOrder]:
        claimed = await worker._claim(limit)
        time.sleep(0.3)  # longer than it may ask the bank
        return claimed

    assert await drain_lane(env.context, claim, worker._ask, worker._store, at_once=1, call_s=0.2) == 1
    assert (await env.status(withdrawal_id), env.puts()) == (("pending", None), [])
    await env.lost(withdrawal_id)
    await env.works()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]


async def test_other_orders_and_withdrawals_leave_one_another_alone(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    await drain_orders(env.context, Mode.PRODUCTION)
    await RefundOrderWorker(env.context, Mode.PRODUCTION).drain()
    order = await env.order(withdrawal_id)
    assert (order["state"], order["attempts"]) == ("waiting", 0)
    await env.works()
    assert (await env.order(withdrawal_id))["state"] == "done"


async def test_many_at_once_end_well(env: Environment) -> None:
    made = await asyncio.gather(*(env.withdraw(100) for _ in range(40)))
    await env.works()
    assert {await env.status(each) for each in made} == {("succeeded", None)}
    assert await env.balance() == 6_000
    await env.assert_books_agree()


# Accounts that are blocked


async def _decide(env: Environment, to: Kyc) -> None:
    async with transaction(env.pool) as conn:
        await decide_kyc(conn, env.account, to, "suspeita de fraude", now=to_millisecond(utc_now()))


async def test_the_money_of_a_blocked_account_does_not_leave(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    await _decide(env, Kyc.BLOCKED)
    await env.works(rounds=2)
    assert await env.status(withdrawal_id) == ("pending", None)
    order = await env.order(withdrawal_id)
    assert (order["state"], order["attempts"]) == ("waiting", 0)
    assert (env.puts(), await env.sent(withdrawal_id), await env.balance()) == ([], [], 9_000)
    await _decide(env, Kyc.APPROVED)
    await env.works()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    await env.assert_books_agree()


async def test_what_is_held_is_no_lag_of_the_workers(env: Environment) -> None:
    async def waiting() -> int:
        async with env.pool.acquire() as conn:
            return next(each.waiting for each in await queues(conn) if each.name == "bank_withdrawals")

    before = await waiting()
    await env.withdraw()
    assert await waiting() == before + 1
    await _decide(env, Kyc.BLOCKED)
    assert await waiting() == before


async def test_what_is_held_can_be_cancelled(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    await _decide(env, Kyc.BLOCKED)
    await env.works()
    async with transaction(env.pool) as conn:
        now = to_millisecond(utc_now())
        await cancel_withdrawal(conn, withdrawal_id, env.account, actor="test", request_id=None, now=now)
    await _decide(env, Kyc.APPROVED)
    await env.works()
    assert await env.status(withdrawal_id) == ("cancelled", None)
    assert (env.puts(), await env.balance()) == ([], 10_000)


async def test_the_daily_one_is_held_as_well(env: Environment) -> None:
    await _daily(env)
    assert await _look(env, DAY) == 1
    env.context.now = utc_now
    await _decide(env, Kyc.BLOCKED)
    await env.works()
    withdrawal_id = await env.pool.fetchval("SELECT withdrawal_id FROM withdrawal WHERE account_id = $1", env.account)
    assert (await env.status(withdrawal_id), env.puts()) == (("pending", None), [])


async def test_what_was_claimed_before_the_block_is_not_sent_after_it(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    worker = WithdrawalOrderWorker(env.context)
    (order,) = await worker._claim(10)
    await _decide(env, Kyc.BLOCKED)
    await do_order(env.context, order, worker._ask, worker._store, until=float("inf"))
    assert await env.status(withdrawal_id) == ("pending", None)
    assert env.puts() == []
    await _decide(env, Kyc.APPROVED)
    await env.works()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]


async def test_a_block_waits_for_who_is_about_to_ask_the_bank(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    async with transaction(env.pool) as conn:
        assert await start_sending(conn, withdrawal_id, env.account, now=to_millisecond(utc_now())) is not None
        blocking = asyncio.create_task(_decide(env, Kyc.BLOCKED))
        await asyncio.sleep(0.2)
        assert not blocking.done()
    await blocking


async def test_what_the_bank_was_asked_about_before_the_block_is_followed_up(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "lost_reply"
    env.context.banks.production[BANK] = env.bank.adapter(read_s=0.3, transfers_url=f"{env.bank.url}/transfers/v1")
    await env.works()
    await _decide(env, Kyc.BLOCKED)
    env.bank.wire.fault = "up"
    await env.works()
    assert await env.status(withdrawal_id) == ("succeeded", None)
    assert await env.sent(withdrawal_id) == [1000]
    await env.assert_books_agree()


async def test_what_the_bank_never_got_is_not_sent_again_while_the_account_is_blocked(env: Environment) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    await env.works()
    await _decide(env, Kyc.BLOCKED)
    env.bank.wire.fault = "up"
    env.context.now = lambda: utc_now() + 2 * LOST_CALL_WATCH
    await env.works(rounds=3)
    assert await env.status(withdrawal_id) == ("processing", None)
    assert (len(env.puts()), await env.sent(withdrawal_id), await env.balance()) == (1, [], 9_000)
    await _decide(env, Kyc.APPROVED)
    env.bank.wire.fault = "refuse"
    await env.works()
    # What was held in between is no attempt: this no is believed as it would have been without the block.
    assert await env.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await env.balance() == 10_000


@pytest.mark.parametrize("between", ["block", "database away"])
async def test_what_comes_between_makes_no_no_believed(env: Environment, between: str) -> None:
    withdrawal_id = await env.withdraw()
    env.bank.wire.fault = "error500"
    await env.works()
    env.bank.wire.fault = "up"
    if between == "block":
        await _decide(env, Kyc.BLOCKED)
        await env.works()
        await _decide(env, Kyc.APPROVED)
    else:
        await env.works_without_database()
    env.bank.wire.fault = "refuse"
    await env.works()
    assert await env.status(withdrawal_id) == ("processing", None)
    assert await env.balance() == 9_000


async def test_one_blocked_account_holds_nobody_else_up(env: Environment) -> None:
    for _ in range(20):
        await env.withdraw(100)
    await _decide(env, Kyc.BLOCKED)
    await env.pool.execute("UPDATE bank_order SET due_at = '-infinity' WHERE account_id = $1", env.account)
    other = Environment(env.context, await make_account(env.pool), env.bank)
    await put_money(env.pool, other.account, 10_000)
    withdrawal_id = await other.withdraw()
    await other.works()
    assert await other.status(withdrawal_id) == ("succeeded", None)
    assert await env.balance() == 8_000


# The daily one


def at(day: date, hour: int) -> datetime:
    return datetime(day.year, day.month, day.day, hour, tzinfo=SAO_PAULO).astimezone(UTC)


# Days to come, so that no instant of these tests lies before what the wallet has seen.
DAY = utc_now().astimezone(SAO_PAULO).date() + timedelta(days=1)


async def _daily(env: Environment, keep_cents: int = 0) -> None:
    async with transaction(env.pool) as conn:
        await set_daily(conn, env.account, keep_cents=keep_cents)


async def _made(env: Environment) -> list[tuple[int, str]]:
    rows = await env.pool.fetch(
        "SELECT amount_cents, automatic_on FROM withdrawal WHERE account_id = $1 ORDER BY created_at", env.account
    )
    return [(row["amount_cents"], str(row["automatic_on"])) for row in rows]


async def _look(env: Environment, day: date, hour: int = 19) -> int:
    env.context.now = lambda: at(day, hour)
    return await withdraw_daily(env.context)


async def test_the_daily_one_sends_everything_above_what_is_to_stay(env: Environment) -> None:
    await _daily(env, keep_cents=2_500)
    assert await _look(env, DAY, hour=18) == 0
    assert await _made(env) == []
    assert await _look(env, DAY) == 1
    assert await _made(env) == [(7_500, str(DAY))]
    assert await env.balance() == 2_500
    await env.works()
    found = await env.pool.fetchval("SELECT doc FROM read_withdrawal WHERE account_id = $1", env.account)
    doc = msgspec.json.decode(found, type=WithdrawalDoc)
    assert (doc.status, doc.automatic) == ("succeeded", True)
    await env.assert_books_agree()


async def test_there_is_one_a_day_whatever_comes_in_afterwards(env: Environment) -> None:
    await _daily(env)
    await _look(env, DAY)
    await put_money(env.pool, env.account, 700, now=at(DAY, 20))
    assert await _look(env, DAY, hour=21) == 0
    assert await _look(env, DAY - timedelta(days=1)) == 0, "nor of a day before, by a clock that was set back"
    assert await _look(env, DAY + timedelta(days=1), hour=3) == 0
    assert await _look(env, DAY + timedelta(days=1)) == 1
    assert await _made(env) == [(10_000, str(DAY)), (700, str(DAY + timedelta(days=1)))]


async def test_the_daily_one_is_no_more_than_a_pix_may_be(env: Environment) -> None:
    await put_money(env.pool, env.account, PIX_CENTS_MAX, now=at(DAY, 8))
    await _daily(env)
    assert await _look(env, DAY) == 1
    assert (await _made(env), await env.balance()) == ([(PIX_CENTS_MAX, str(DAY))], 10_000)


async def test_two_workers_and_a_restart_make_one(env: Environment) -> None:
    await _daily(env)
    env.context.now = lambda: at(DAY, 19)
    await asyncio.gather(*(withdraw_daily(env.context) for _ in range(6)))
    assert await _made(env) == [(10_000, str(DAY))]
    # What was looked at is forgotten: switched off and on again, or a backup that is a day old.
    await put_money(env.pool, env.account, 700, now=at(DAY, 20))
    async with transaction(env.pool) as conn:
        await end_daily(conn, env.account)
    await _daily(env)
    assert await _look(env, DAY, hour=21) == 1
    assert await _made(env) == [(10_000, str(DAY))]
    assert await env.balance() == 700


async def test_an_account_that_another_worker_has_is_passed_over_and_not_waited_for(env: Environment) -> None:
    await _daily(env)
    async with transaction(env.pool) as conn:
        await conn.execute("SELECT FROM auto_withdrawal WHERE account_id = $1 FOR UPDATE", env.account)
        await _look(env, DAY)
    assert await _made(env) == []
    await _look(env, DAY)
    assert await _made(env) == [(10_000, str(DAY))]


async def test_less_than_the_minimum_above_it_waits_for_another_day(env: Environment) -> None:
    await _daily(env, keep_cents=9_901)
    assert await _look(env, DAY) == 1
    assert await _made(env) == []
    await _daily(env, keep_cents=9_900)
    assert await _look(env, DAY) == 0
    assert await _look(env, DAY + timedelta(days=1)) == 1
    assert await _made(env) == [(100, str(DAY + timedelta(days=1)))]


async def test_who_is_not_approved_or_has_switched_it_off_keeps_his_money(env: Environment) -> None:
    await _daily(env)
    await env.pool.execute("UPDATE account SET kyc = 'pending' WHERE account_id = $1", env.account)
    assert await _look(env, DAY) == 0
    await env.pool.execute("UPDATE account SET kyc = 'approved' WHERE account_id = $1", env.account)
    async with transaction(env.pool) as conn:
        await end_daily(conn, env.account)
    assert await _look(env, DAY) == 0
    assert await _made(env) == []
    await env.pool.execute("UPDATE account SET pix_key = '' WHERE account_id = $1", env.account)
    await _daily(env)
    assert await _look(env, DAY) == 1
    assert await _made(env) == []


async def test_the_sandboxs_money_is_sent_to_nobody(env: Environment, table_owner: Pool) -> None:
    account = await make_account(env.pool)
    await env.pool.execute(
        "INSERT INTO account_clock (account_id, test, balance_cents) VALUES ($1, true, 50000)", account
    )
    async with transaction(env.pool) as conn:
        await set_daily(conn, account, keep_cents=0)
    assert await _look(env, DAY) == 1
    assert await env.pool.fetchval("SELECT count(*) FROM withdrawal WHERE account_id = $1", account) == 0
    await table_owner.execute("DELETE FROM account_clock WHERE account_id = $1", account)


async def test_a_balance_that_falls_meanwhile_is_looked_at_again(env: Environment) -> None:
    await _daily(env)
    now = to_millisecond(at(DAY, 19))

    async def look() -> Withdrawal | bool:
        async with transaction(env.pool) as conn:
            return await daily_withdrawal(conn, day=DAY, now=now, bank="001", grace_s=0, fees=NO_FEES)

    async with transaction(env.pool) as conn:
        # Asked for by hand, and not committed while the daily one reads the balance.
        await env.withdraw(1000, conn=conn)
        looking = asyncio.create_task(look())
        await asyncio.sleep(0.2)
        assert not looking.done()
    with pytest.raises(Refused) as refused:
        await looking
    assert refused.value.code.name == "INSUFFICIENT_BALANCE"
    assert await _look(env, DAY) == 1
    assert await _made(env) == [(1_000, "None"), (9_000, str(DAY))]


@pytest.mark.parametrize(
    ("given", "named"),
    [({"DAILY_WITHDRAWAL_HOUR": "24"}, "DAILY_WITHDRAWAL_HOUR"), ({"WITHDRAWAL_GRACE_S": "-1"}, "WITHDRAWAL_GRACE_S")],
)
def test_a_setting_that_cannot_be_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        settings_for(**given)


# All together


async def test_the_whole_system_pays_out_by_itself(system: System) -> None:
    async with new_merchant(system) as merchant, books_of(system) as books:
        client = merchant.production
        charge_id = await created_before(books, client, test=False, ago_s=60, lifetime_s=3600)
        await money_arrives(system, books, charge_id, 1000)
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
