"""Orders about withdrawals: sent once, asked about until known, and our books and the bank's agree to the cent; and the
daily ones, once an account and day whoever looks."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from banks.simulated.returns import ReturnRules
from banks.transfers import Transfer
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
from domain.mode import Mode
from domain.refund import FailureCode
from domain.withdrawal import NEXT, Withdrawal, WithdrawalStatus
from readmodels.dashboard.platform import queues
from readmodels.money.withdrawal import WithdrawalDoc, withdrawal_doc
from readmodels.verify import verify
from runtime.ids import new_id
from runtime.postgres import Pool, transaction
from tests.support.banking import BANK, RunningBank, make_account, running_bank, settings_for, utc_now, worker_context
from tests.support.merchant import books_of, created_before, money_arrives, new_shop, until_answer
from tests.support.system import System
from tests.support.wallet import balance_of, put_money
from workers.context import Context
from workers.orders.lease import do_order, release_orders
from workers.orders.outgoing import BACKOFF_S, SILENT_S, WATCH, Known
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


class Desk:
    """A worker and its bank on a real socket, with one merchant's wallet."""

    def __init__(self, context: Context, account: UUID, bank: RunningBank) -> None:
        self.context = context
        self.account = account
        self.bank = bank
        self.pool = context.pool

    async def withdraw(self, cents: int = 1000, *, conn: Any = None) -> UUID:
        if conn is None:
            async with transaction(self.pool) as its_own:
                return await self.withdraw(cents, conn=its_own)
        withdrawal_id = new_id()
        asked = NewWithdrawal(
            account_id=self.account, key=secrets.token_hex(8), fingerprint=bytes(32), withdrawal_id=withdrawal_id,
            amount_cents=cents, description="Saque nº 1", external_id=None, actor="test", request_id="test",
        )  # fmt: skip
        assert await create_withdrawal(conn, asked, now=to_millisecond(utc_now()), bank="001", grace_s=0) is not None
        return withdrawal_id

    async def works(self, *, rounds: int = 1) -> None:
        """The worker does what is due; time passes before each round."""
        for _ in range(rounds):
            await self.pool.execute(
                "UPDATE bank_order SET due_at = '-infinity' WHERE account_id = $1 AND state = 'waiting'", self.account
            )
            await WithdrawalOrderWorker(self.context).drain()

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
        return await self.pool.fetchrow("SELECT * FROM bank_order WHERE order_id = $1", withdrawal_id)

    async def sent(self, withdrawal_id: UUID) -> list[int]:
        """What the bank says went out under this withdrawal's id, cents."""
        rows = await self.pool.fetch("SELECT amount_cents FROM simulated_transfer WHERE id = $1", withdrawal_id.hex)
        return [row[0] for row in rows]

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
async def desk(pool: Pool, servers: Any, bank: RunningBank) -> AsyncIterator[Desk]:
    bank.wire.fault = "up"
    bank.requests.clear()
    await pool.execute("DELETE FROM auto_withdrawal")
    production = bank.adapter(transfers_url=f"{bank.url}/transfers/v1")
    async with worker_context(pool, servers.redis_url, production) as context:
        made = Desk(context, await make_account(pool), bank)
        await put_money(pool, made.account, 10_000)
        await made.rules()
        yield made
        await made.rules()


# Sending


def test_what_has_ended_stays_as_it_is() -> None:
    assert set(NEXT) == set(WithdrawalStatus)
    assert {status for status in NEXT if not NEXT[status]} == {"succeeded", "failed", "cancelled"}


async def test_it_is_pending_until_its_moment_and_then_sent(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    await desk.pool.execute(
        "UPDATE bank_order SET due_at = $2 WHERE order_id = $1", withdrawal_id, utc_now() + timedelta(seconds=60)
    )
    assert await WithdrawalOrderWorker(desk.context).drain() == 0
    assert await desk.status(withdrawal_id) == ("pending", None)
    await desk.works()
    assert await desk.status(withdrawal_id) == ("succeeded", None)
    assert await desk.sent(withdrawal_id) == [1000]
    await desk.assert_books_agree()


@pytest.mark.parametrize("fault", ["down", "lost_reply", "timeout_before", "cut", "error500", "html"])
async def test_whatever_the_bank_does_the_money_goes_exactly_once(desk: Desk, fault: str) -> None:
    withdrawal_id = await desk.withdraw()
    adapter = desk.bank.adapter(write_s=0.3, read_s=0.3, transfers_url=f"{desk.bank.url}/transfers/v1")
    desk.context.banks.production[BANK] = adapter
    desk.bank.wire.fault = fault
    await desk.works(rounds=2)
    lost = fault in ("lost_reply", "cut")
    # A lost answer is asked about at once; while nothing is known nothing is failed.
    assert await desk.status(withdrawal_id) == ("succeeded" if lost else "processing", None)
    assert await desk.balance() == 9_000
    desk.bank.wire.fault = "up"
    await desk.works(rounds=2)
    assert await desk.status(withdrawal_id) == ("succeeded", None)
    assert await desk.sent(withdrawal_id) == [1000]
    assert await desk.events() == ["withdrawal.succeeded"]
    await desk.assert_books_agree()


async def test_each_attempt_names_the_same_id_and_waits_longer(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    desk.bank.wire.fault = "error500"
    for attempt in range(1, 9):
        before = utc_now()
        await desk.works()
        order = await desk.order(withdrawal_id)
        assert (order["state"], order["attempts"]) == ("waiting", attempt)
        wait = timedelta(seconds=min(BACKOFF_S[attempt - 1], SILENT_S))
        assert before + wait * 0.8 <= order["due_at"] <= utc_now() + wait * 1.2
    desk.bank.wire.fault = "up"
    await desk.works()
    asked = {each.rpartition("/")[2] for each in desk.bank.requests if "/transferencia/" in each}
    assert asked == {withdrawal_id.hex}


async def test_a_refusal_fails_it_and_the_money_is_back_in_the_wallet(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    assert await desk.balance() == 9_000
    desk.bank.wire.fault = "refuse"
    await desk.works()
    assert await desk.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await desk.balance() == 10_000
    assert (await desk.order(withdrawal_id))["state"] == "refused"
    assert await desk.events() == ["withdrawal.failed"]
    await desk.assert_books_agree()


async def test_a_no_that_a_lost_yes_may_overtake_is_not_believed_at_once(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    desk.bank.wire.fault = "error500"
    await desk.works()
    desk.bank.wire.fault = "refuse"
    await desk.works(rounds=2)
    assert await desk.status(withdrawal_id) == ("processing", None)
    assert await desk.balance() == 9_000
    desk.context.now = lambda: utc_now() + WATCH
    await desk.works()
    assert await desk.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await desk.balance() == 10_000


async def test_a_no_is_not_believed_however_late_the_lost_yes_was(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    desk.bank.wire.fault = "error500"
    await desk.works()
    desk.context.now = lambda: utc_now() + 2 * WATCH
    await desk.works()
    desk.bank.wire.fault = "refuse"
    await desk.works(rounds=2)
    assert await desk.status(withdrawal_id) == ("processing", None)
    assert await desk.balance() == 9_000
    desk.context.now = lambda: utc_now() + 3 * WATCH
    await desk.works()
    assert await desk.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await desk.balance() == 10_000


async def test_what_a_lost_worker_may_have_sent_is_not_given_back_for_a_no(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    desk.bank.wire.fault = "error500"
    await desk.works()
    await desk.pool.execute("UPDATE bank_order SET due_at = '-infinity' WHERE order_id = $1", withdrawal_id)
    await WithdrawalOrderWorker(desk.context)._claim(10)
    desk.context.now = lambda: utc_now() + 2 * WATCH
    await desk.lost(withdrawal_id)
    desk.bank.wire.fault = "refuse"
    await desk.works(rounds=2)
    assert await desk.status(withdrawal_id) == ("processing", None)
    assert await desk.balance() == 9_000


async def test_a_way_to_send_that_was_taken_away_gives_nothing_back_that_may_be_gone(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    sends = desk.context.banks.production[BANK]
    desk.bank.wire.fault = "error500"
    await desk.works()
    desk.bank.wire.fault = "up"
    desk.context.banks.production[BANK] = desk.bank.adapter()
    desk.context.now = lambda: utc_now() + 2 * WATCH
    await desk.works(rounds=2)
    assert await desk.status(withdrawal_id) == ("processing", None)
    assert await desk.balance() == 9_000
    desk.context.banks.production[BANK] = sends
    await desk.works()
    assert await desk.status(withdrawal_id) == ("succeeded", None)
    assert await desk.sent(withdrawal_id) == [1000]
    await desk.assert_books_agree()


async def test_money_on_its_way_is_asked_about_until_it_arrives(desk: Desk) -> None:
    await desk.rules(settle_after_s=600)
    withdrawal_id = await desk.withdraw()
    await desk.works(rounds=3)
    assert await desk.status(withdrawal_id) == ("processing", None)
    assert len(desk.puts()) == 1
    await desk.arrives()
    await desk.works()
    assert await desk.status(withdrawal_id) == ("succeeded", None)
    await desk.assert_books_agree()


async def test_money_on_its_way_that_does_not_arrive_is_back_in_the_wallet(desk: Desk) -> None:
    await desk.rules(settle_after_s=600, fails=True)
    withdrawal_id = await desk.withdraw()
    await desk.works()
    assert await desk.status(withdrawal_id) == ("processing", None)
    await desk.arrives()
    await desk.works()
    assert await desk.status(withdrawal_id) == ("failed", "NOT_CARRIED_OUT")
    assert await desk.balance() == 10_000
    await desk.assert_books_agree()


async def test_a_bank_that_sends_no_pix_fails_it_and_says_so(desk: Desk) -> None:
    desk.context.banks.production[BANK] = desk.bank.adapter()
    withdrawal_id = await desk.withdraw()
    await desk.works()
    assert await desk.status(withdrawal_id) == ("failed", "TRANSFER_UNAVAILABLE")
    assert await desk.balance() == 10_000


# Workers that are lost


async def test_a_worker_that_died_before_it_asked_loses_nothing(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    (order,) = await WithdrawalOrderWorker(desk.context)._claim(10)
    assert await WithdrawalOrderWorker(desk.context).drain() == 0
    await desk.lost(order.order_id)
    await desk.works()
    assert await desk.status(withdrawal_id) == ("succeeded", None)
    assert await desk.sent(withdrawal_id) == [1000]


async def test_a_worker_that_died_after_the_banks_yes_has_sent_the_money_once(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    (order,) = await WithdrawalOrderWorker(desk.context)._claim(10)
    async with transaction(desk.pool) as conn:
        await start_sending(conn, withdrawal_id, desk.account, now=to_millisecond(utc_now()))
    request = msgspec.json.decode(order.request, type=SendOrder)
    await desk.context.banks.production[BANK].transfers.send_pix(
        Transfer(id=withdrawal_id.hex, pix_key=request.pix_key, document=request.document, amount_cents=1000)
    )
    # Here it was killed. Its lease runs out, and another takes over.
    await desk.lost(withdrawal_id)
    await desk.works()
    assert await desk.status(withdrawal_id) == ("succeeded", None)
    assert await desk.sent(withdrawal_id) == [1000]
    assert len(desk.puts()) == 1
    await desk.assert_books_agree()


async def test_a_worker_that_was_slow_ends_nothing_another_has_ended(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    slow = WithdrawalOrderWorker(desk.context)
    (order,) = await slow._claim(10)
    await desk.lost(withdrawal_id)
    await desk.works()
    balance, events = await desk.balance(), await desk.events()
    await slow._store(order, Known(failure=FailureCode.BANK_REFUSED))
    assert await desk.status(withdrawal_id) == ("succeeded", None)
    assert (await desk.balance(), await desk.events()) == (balance, events)
    assert (await desk.order(withdrawal_id))["state"] == "done"


async def test_a_worker_cut_short_in_the_middle_of_a_call_leaves_the_order_to_the_next(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    desk.bank.wire.fault = "slow"  # done in the end, whoever still listens

    async def asked() -> bool:
        return bool(desk.puts())

    working = asyncio.create_task(WithdrawalOrderWorker(desk.context).drain())
    await until_answer(asked)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    desk.bank.wire.fault = "up"
    assert await desk.status(withdrawal_id) == ("processing", None)
    await desk.lost(withdrawal_id)
    await desk.works(rounds=2)
    await asyncio.sleep(0.5)
    assert await desk.status(withdrawal_id) == ("succeeded", None)
    assert await desk.sent(withdrawal_id) == [1000]
    await desk.assert_books_agree()


async def test_what_was_cancelled_after_a_worker_claimed_it_is_not_sent(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    worker = WithdrawalOrderWorker(desk.context)
    (order,) = await worker._claim(10)
    async with transaction(desk.pool) as conn:
        now = to_millisecond(utc_now())
        await cancel_withdrawal(conn, withdrawal_id, desk.account, actor="test", request_id=None, now=now)
    await do_order(desk.context, order, worker._ask, worker._store)
    assert await desk.status(withdrawal_id) == ("cancelled", None)
    assert (await desk.order(withdrawal_id))["state"] == "abandoned"
    assert desk.puts() == []
    assert await desk.balance() == 10_000


async def test_other_orders_and_withdrawals_leave_one_another_alone(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    await drain_orders(desk.context, Mode.PRODUCTION)
    await RefundOrderWorker(desk.context, Mode.PRODUCTION).drain()
    order = await desk.order(withdrawal_id)
    assert (order["state"], order["attempts"]) == ("waiting", 0)
    await desk.works()
    assert (await desk.order(withdrawal_id))["state"] == "done"


async def test_many_at_once_end_well(desk: Desk) -> None:
    made = await asyncio.gather(*(desk.withdraw(100) for _ in range(40)))
    await desk.works()
    assert {await desk.status(each) for each in made} == {("succeeded", None)}
    assert await desk.balance() == 6_000
    await desk.assert_books_agree()


# Accounts that are blocked


async def _decide(desk: Desk, to: Kyc) -> None:
    async with transaction(desk.pool) as conn:
        await decide_kyc(conn, desk.account, to, "suspeita de fraude", now=to_millisecond(utc_now()))


async def test_the_money_of_a_blocked_account_does_not_leave(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    await _decide(desk, Kyc.BLOCKED)
    await desk.works(rounds=2)
    assert await desk.status(withdrawal_id) == ("pending", None)
    order = await desk.order(withdrawal_id)
    assert (order["state"], order["attempts"]) == ("waiting", 0)
    assert (desk.puts(), await desk.sent(withdrawal_id), await desk.balance()) == ([], [], 9_000)
    await _decide(desk, Kyc.APPROVED)
    await desk.works()
    assert await desk.status(withdrawal_id) == ("succeeded", None)
    assert await desk.sent(withdrawal_id) == [1000]
    await desk.assert_books_agree()


async def test_what_is_held_is_no_lag_of_the_workers(desk: Desk) -> None:
    async def waiting() -> int:
        async with desk.pool.acquire() as conn:
            return next(each.waiting for each in await queues(conn) if each.name == "bank_withdrawals")

    before = await waiting()
    await desk.withdraw()
    assert await waiting() == before + 1
    await _decide(desk, Kyc.BLOCKED)
    assert await waiting() == before


async def test_what_is_held_can_be_cancelled(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    await _decide(desk, Kyc.BLOCKED)
    await desk.works()
    async with transaction(desk.pool) as conn:
        now = to_millisecond(utc_now())
        await cancel_withdrawal(conn, withdrawal_id, desk.account, actor="test", request_id=None, now=now)
    await _decide(desk, Kyc.APPROVED)
    await desk.works()
    assert await desk.status(withdrawal_id) == ("cancelled", None)
    assert (desk.puts(), await desk.balance()) == ([], 10_000)


async def test_the_daily_one_is_held_as_well(desk: Desk) -> None:
    await _daily(desk)
    assert await _look(desk, DAY) == 1
    desk.context.now = utc_now
    await _decide(desk, Kyc.BLOCKED)
    await desk.works()
    withdrawal_id = await desk.pool.fetchval("SELECT withdrawal_id FROM withdrawal WHERE account_id = $1", desk.account)
    assert (await desk.status(withdrawal_id), desk.puts()) == (("pending", None), [])


async def test_what_was_claimed_before_the_block_is_not_sent_after_it(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    worker = WithdrawalOrderWorker(desk.context)
    (order,) = await worker._claim(10)
    await _decide(desk, Kyc.BLOCKED)
    await do_order(desk.context, order, worker._ask, worker._store)
    assert await desk.status(withdrawal_id) == ("pending", None)
    assert desk.puts() == []
    await _decide(desk, Kyc.APPROVED)
    await desk.works()
    assert await desk.status(withdrawal_id) == ("succeeded", None)
    assert await desk.sent(withdrawal_id) == [1000]


async def test_a_block_waits_for_who_is_about_to_ask_the_bank(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    async with transaction(desk.pool) as conn:
        assert await start_sending(conn, withdrawal_id, desk.account, now=to_millisecond(utc_now())) is not None
        blocking = asyncio.create_task(_decide(desk, Kyc.BLOCKED))
        await asyncio.sleep(0.2)
        assert not blocking.done()
    await blocking


async def test_what_the_bank_was_asked_about_before_the_block_is_followed_up(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    desk.bank.wire.fault = "lost_reply"
    desk.context.banks.production[BANK] = desk.bank.adapter(read_s=0.3, transfers_url=f"{desk.bank.url}/transfers/v1")
    await desk.works()
    await _decide(desk, Kyc.BLOCKED)
    desk.bank.wire.fault = "up"
    await desk.works()
    assert await desk.status(withdrawal_id) == ("succeeded", None)
    assert await desk.sent(withdrawal_id) == [1000]
    await desk.assert_books_agree()


async def test_what_the_bank_never_got_is_not_sent_again_while_the_account_is_blocked(desk: Desk) -> None:
    withdrawal_id = await desk.withdraw()
    desk.bank.wire.fault = "error500"
    await desk.works()
    await _decide(desk, Kyc.BLOCKED)
    desk.bank.wire.fault = "up"
    desk.context.now = lambda: utc_now() + 2 * WATCH
    await desk.works(rounds=3)
    assert await desk.status(withdrawal_id) == ("processing", None)
    assert (len(desk.puts()), await desk.sent(withdrawal_id), await desk.balance()) == (1, [], 9_000)
    await _decide(desk, Kyc.APPROVED)
    desk.bank.wire.fault = "refuse"
    await desk.works()
    # What was held in between is no attempt: this no is believed as it would have been without the block.
    assert await desk.status(withdrawal_id) == ("failed", "BANK_REFUSED")
    assert await desk.balance() == 10_000


async def test_one_blocked_account_holds_nobody_else_up(desk: Desk) -> None:
    for _ in range(20):
        await desk.withdraw(100)
    await _decide(desk, Kyc.BLOCKED)
    await desk.pool.execute("UPDATE bank_order SET due_at = '-infinity' WHERE account_id = $1", desk.account)
    other = Desk(desk.context, await make_account(desk.pool), desk.bank)
    await put_money(desk.pool, other.account, 10_000)
    withdrawal_id = await other.withdraw()
    await other.works()
    assert await other.status(withdrawal_id) == ("succeeded", None)
    assert await desk.balance() == 8_000


# The daily one


def at(day: date, hour: int) -> datetime:
    return datetime(day.year, day.month, day.day, hour, tzinfo=SAO_PAULO).astimezone(UTC)


# Days to come, so that no instant of these tests lies before what the wallet has seen.
DAY = utc_now().astimezone(SAO_PAULO).date() + timedelta(days=1)


async def _daily(desk: Desk, keep_cents: int = 0) -> None:
    async with transaction(desk.pool) as conn:
        await set_daily(conn, desk.account, keep_cents=keep_cents)


async def _made(desk: Desk) -> list[tuple[int, str]]:
    rows = await desk.pool.fetch(
        "SELECT amount_cents, automatic_on FROM withdrawal WHERE account_id = $1 ORDER BY created_at", desk.account
    )
    return [(row["amount_cents"], str(row["automatic_on"])) for row in rows]


async def _look(desk: Desk, day: date, hour: int = 19) -> int:
    desk.context.now = lambda: at(day, hour)
    return await withdraw_daily(desk.context)


async def test_the_daily_one_sends_everything_above_what_is_to_stay(desk: Desk) -> None:
    await _daily(desk, keep_cents=2_500)
    assert await _look(desk, DAY, hour=18) == 0
    assert await _made(desk) == []
    assert await _look(desk, DAY) == 1
    assert await _made(desk) == [(7_500, str(DAY))]
    assert await desk.balance() == 2_500
    await desk.works()
    found = await desk.pool.fetchval("SELECT doc FROM read_withdrawal WHERE account_id = $1", desk.account)
    doc = msgspec.json.decode(found, type=WithdrawalDoc)
    assert (doc.status, doc.automatic) == ("succeeded", True)
    await desk.assert_books_agree()


async def test_there_is_one_a_day_whatever_comes_in_afterwards(desk: Desk) -> None:
    await _daily(desk)
    await _look(desk, DAY)
    await put_money(desk.pool, desk.account, 700, now=at(DAY, 20))
    assert await _look(desk, DAY, hour=21) == 0
    assert await _look(desk, DAY + timedelta(days=1), hour=3) == 0
    assert await _look(desk, DAY + timedelta(days=1)) == 1
    assert await _made(desk) == [(10_000, str(DAY)), (700, str(DAY + timedelta(days=1)))]


async def test_two_workers_and_a_restart_make_one(desk: Desk) -> None:
    await _daily(desk)
    desk.context.now = lambda: at(DAY, 19)
    await asyncio.gather(*(withdraw_daily(desk.context) for _ in range(6)))
    assert await _made(desk) == [(10_000, str(DAY))]
    # What was looked at is forgotten: switched off and on again, or a backup that is a day old.
    await put_money(desk.pool, desk.account, 700, now=at(DAY, 20))
    async with transaction(desk.pool) as conn:
        await end_daily(conn, desk.account)
    await _daily(desk)
    assert await _look(desk, DAY, hour=21) == 1
    assert await _made(desk) == [(10_000, str(DAY))]
    assert await desk.balance() == 700


async def test_less_than_the_minimum_above_it_waits_for_another_day(desk: Desk) -> None:
    await _daily(desk, keep_cents=9_901)
    assert await _look(desk, DAY) == 1
    assert await _made(desk) == []
    await _daily(desk, keep_cents=9_900)
    assert await _look(desk, DAY) == 0
    assert await _look(desk, DAY + timedelta(days=1)) == 1
    assert await _made(desk) == [(100, str(DAY + timedelta(days=1)))]


async def test_who_is_not_approved_or_has_switched_it_off_keeps_his_money(desk: Desk) -> None:
    await _daily(desk)
    await desk.pool.execute("UPDATE account SET kyc = 'pending' WHERE account_id = $1", desk.account)
    assert await _look(desk, DAY) == 0
    await desk.pool.execute("UPDATE account SET kyc = 'approved' WHERE account_id = $1", desk.account)
    async with transaction(desk.pool) as conn:
        await end_daily(conn, desk.account)
    assert await _look(desk, DAY) == 0
    assert await _made(desk) == []
    await desk.pool.execute("UPDATE account SET pix_key = '' WHERE account_id = $1", desk.account)
    await _daily(desk)
    assert await _look(desk, DAY) == 1
    assert await _made(desk) == []


async def test_a_balance_that_falls_meanwhile_is_looked_at_again(desk: Desk) -> None:
    await _daily(desk)
    now = to_millisecond(at(DAY, 19))

    async def look() -> Withdrawal | bool:
        async with transaction(desk.pool) as conn:
            return await daily_withdrawal(conn, day=DAY, now=now, bank="001", grace_s=0)

    async with transaction(desk.pool) as conn:
        # Asked for by hand, and not committed while the daily one reads the balance.
        await desk.withdraw(1000, conn=conn)
        looking = asyncio.create_task(look())
        await asyncio.sleep(0.2)
        assert not looking.done()
    with pytest.raises(Refused) as refused:
        await looking
    assert refused.value.code.name == "INSUFFICIENT_BALANCE"
    assert await _look(desk, DAY) == 1
    assert await _made(desk) == [(1_000, "None"), (9_000, str(DAY))]


@pytest.mark.parametrize(
    ("given", "named"),
    [({"DAILY_WITHDRAWAL_HOUR": "24"}, "DAILY_WITHDRAWAL_HOUR"), ({"WITHDRAWAL_GRACE_S": "-1"}, "WITHDRAWAL_GRACE_S")],
)
def test_a_setting_that_cannot_be_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        settings_for(**given)


# All together


async def test_the_whole_system_pays_out_by_itself(system: System) -> None:
    async with new_shop(system) as shop, books_of(system) as books:
        door = shop.production
        charge_id = await created_before(books, door, test=False, ago_s=60, lifetime_s=3600)
        await money_arrives(system, books, charge_id, 1000)
        reply = await door.ask("POST", "/v1/withdrawals", json={"amount": "6.00"}, key=secrets.token_hex(8))
        assert (reply.status, reply.body["status"]) == (201, "pending")
        stopped = await door.ask("POST", "/v1/withdrawals", json={"amount": "1.00"}, key=secrets.token_hex(8))
        assert (await door.post(f"/v1/withdrawals/{stopped.body['withdrawal_id']}/cancel")).status == 200

        async def paid_out() -> bool:
            found = await door.get(f"/v1/withdrawals/{reply.body['withdrawal_id']}")
            return bool(found.body["status"] == "succeeded")

        await until_answer(paid_out)
        assert await door.balance() == "4.00"
        assert [event["type"] for event in await door.events()] == ["payment.received", "withdrawal.succeeded"]
        turned = system.quita("merchant", "auto-withdraw", door.account_id, "--on", "--keep", "1.00", "--json")
        assert turned.returncode == 0, turned.stderr
        assert (
            await books.fetchval(
                "SELECT keep_cents FROM auto_withdrawal WHERE account_id = $1::text::uuid", door.account_id
            )
            == 100
        )
        turned = system.quita("merchant", "auto-withdraw", door.account_id, "--off", "--json")
        assert msgspec.json.decode(turned.stdout)["auto_withdraw"] is False
        assert system.quita("merchant", "auto-withdraw", str(new_id()), "--on").returncode == 1
