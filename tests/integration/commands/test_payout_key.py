"""The PIX key that withdrawals go to: whoever changes it, withdrawals go to the old key until a day has passed."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from uuid import UUID

import pytest
import pytest_asyncio

from commands.merchants.payout_key import (
    ask_payout_key,
    cancel_payout_key,
    confirm_payout_key,
    payout_change_of,
)
from commands.money.withdraw import NewWithdrawal, create_withdrawal, daily_withdrawal, set_daily
from domain.errors import Refused
from domain.instants import SAO_PAULO, to_millisecond
from domain.merchants.fees import NO_FEES
from domain.merchants.payout import WAIT, PayoutChange, PayoutKey
from domain.withdrawal import Withdrawal
from runtime.ids import new_id
from runtime.postgres import Pool, transaction
from tests.support.banking import make_account, utc_now
from tests.support.wallet import credit_wallet

NEW = PayoutKey("financeiro@loja.example.com", "11222333000181")
MOMENT = timedelta(milliseconds=1)


class Account:
    """An account with money, its changes of the key, and where its withdrawals go."""

    def __init__(self, pool: Pool, account_id: UUID) -> None:
        self.pool = pool
        self.id = account_id
        self.now = to_millisecond(utc_now())

    async def ask(self, to: PayoutKey = NEW, *, by: str = "dona@example.com", by_staff: bool = False) -> PayoutChange:
        async with transaction(self.pool) as conn:
            return await ask_payout_key(conn, self.id, to, by=by, by_staff=by_staff, now=self.now)

    async def confirm(self, change: PayoutChange, by: str) -> PayoutChange:
        async with transaction(self.pool) as conn:
            return await confirm_payout_key(conn, self.id, change.change_id, by=by, now=self.now)

    async def cancel(self, change: PayoutChange, by: str = "socia@example.com") -> None:
        async with transaction(self.pool) as conn:
            await cancel_payout_key(conn, self.id, change.change_id, by=by, now=self.now)

    async def goes_to(self, at: datetime) -> PayoutKey:
        """Creates a withdrawal at this instant; returns the key it goes to."""
        asked = NewWithdrawal(
            account_id=self.id, key=secrets.token_hex(8), fingerprint=bytes(32), withdrawal_id=new_id(),
            amount_cents=100, description=None, external_id=None, actor="test", request_id="test",
        )  # fmt: skip
        async with transaction(self.pool) as conn:
            assert await create_withdrawal(conn, asked, now=at, bank="001", grace_s=3600, fees=NO_FEES) is not None
        return await self.sent_to(asked.withdrawal_id)

    async def sent_to(self, withdrawal_id: UUID) -> PayoutKey:
        row = await self.pool.fetchrow(
            "SELECT request ->> 'pix_key', request ->> 'document' FROM bank_order WHERE order_id = $1", withdrawal_id
        )
        assert row is not None
        return PayoutKey(*row)


@pytest_asyncio.fixture(loop_scope="session")
async def account(pool: Pool) -> AsyncIterator[Account]:
    account_id = await make_account(pool)
    await credit_wallet(pool, account_id, 10_000)
    yield Account(pool, account_id)
    # Workers of other tests must not send these withdrawals.
    await pool.execute("DELETE FROM bank_order WHERE account_id = $1", account_id)
    await pool.execute("DELETE FROM auto_withdrawal WHERE account_id = $1", account_id)


async def test_withdrawals_go_to_the_old_key_for_a_day_and_then_to_the_new_one(account: Account) -> None:
    old = await account.goes_to(account.now)
    change = await account.ask()
    assert change.effective_at == account.now + WAIT
    assert await account.goes_to(account.now + WAIT - MOMENT) == old
    assert await account.goes_to(account.now + WAIT) == NEW
    # During the day of the next change this key, now in force, is the old one.
    account.now += WAIT
    await account.ask(PayoutKey("+5511987654321", "11222333000181"))
    assert await account.goes_to(account.now + WAIT - MOMENT) == NEW


async def test_the_daily_withdrawal_goes_to_the_key_in_force_too(account: Account) -> None:
    await account.ask()
    async with transaction(account.pool) as conn:
        await set_daily(conn, account.id, keep_cents=5_000)
    at = account.now + WAIT
    begun: Withdrawal | bool = True
    while begun is True or (
        isinstance(begun, Withdrawal) and begun.account_id != account.id
    ):  # Skips accounts of other tests.
        async with transaction(account.pool) as conn:
            begun = await daily_withdrawal(
                conn, day=at.astimezone(SAO_PAULO).date(), now=at, bank="001", grace_s=3600, fees=NO_FEES
            )
    assert isinstance(begun, Withdrawal)
    assert await account.sent_to(begun.withdrawal_id) == NEW


async def test_a_change_that_an_owner_cancels_never_comes_into_force(account: Account) -> None:
    old = await account.goes_to(account.now)
    await account.cancel(await account.ask())
    assert await account.goes_to(account.now + WAIT) == old
    # Now another change is possible; once in force it can no longer be cancelled.
    change = await account.ask()
    account.now += WAIT
    with pytest.raises(Refused, match="VALIDATION_ERROR"):
        await account.cancel(change)
    assert await account.goes_to(account.now) == NEW


async def test_a_change_by_staff_needs_a_second_person_and_its_day_begins_at_the_confirmation(account: Account) -> None:
    old = await account.goes_to(account.now)
    change = await account.ask(by="ana@plataforma.example.com", by_staff=True)
    assert change.effective_at is None
    assert await account.goes_to(account.now + 10 * WAIT) == old
    with pytest.raises(Refused, match="VALIDATION_ERROR"):
        await account.confirm(change, "ana@plataforma.example.com")
    account.now += WAIT
    confirmed = await account.confirm(change, "bia@plataforma.example.com")
    assert confirmed.effective_at == account.now + WAIT
    with pytest.raises(Refused, match="VALIDATION_ERROR"):
        await account.confirm(change, "caio@plataforma.example.com")
    assert await account.goes_to(account.now + WAIT - MOMENT) == old
    assert await account.goes_to(account.now + WAIT) == NEW


async def test_staff_cannot_confirm_a_change_that_an_owner_asked_for(account: Account) -> None:
    change = await account.ask()
    with pytest.raises(Refused, match="VALIDATION_ERROR"):
        await account.confirm(change, "bia@plataforma.example.com")


async def test_only_one_of_four_concurrent_changes_is_accepted(account: Account) -> None:
    answers = await asyncio.gather(*(account.ask() for _ in range(4)), return_exceptions=True)
    assert sum(isinstance(answer, PayoutChange) for answer in answers) == 1
    assert sum(isinstance(answer, Refused) and "change" in (answer.fields or {}) for answer in answers) == 3
    async with account.pool.acquire() as conn:
        assert await payout_change_of(conn, account.id, now=account.now) is not None


@pytest.mark.parametrize(
    ("to", "field"),
    [
        (PayoutKey("loja", NEW.document), "pix_key"),
        (PayoutKey("52998224724", "52998224724"), "pix_key"),
        (PayoutKey(NEW.pix_key, "11222333000182"), "document"),
        (PayoutKey(NEW.pix_key, ""), "document"),
        (PayoutKey("52998224725", NEW.document), "document"),
    ],
    ids=["no key", "check digits of the key", "check digits", "no document", "another document"],
)
async def test_a_malformed_key_or_document_is_refused_by_its_field(account: Account, to: PayoutKey, field: str) -> None:
    with pytest.raises(Refused) as refused:
        await account.ask(to)
    assert field in (refused.value.fields or {})


async def test_changing_the_key_of_an_unknown_account_is_refused(pool: Pool) -> None:
    with pytest.raises(Refused, match="WALLET_ACCOUNT_NOT_FOUND"):
        await Account(pool, new_id()).ask()
