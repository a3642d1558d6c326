"""A database that was restored to an earlier instant pays nothing out twice and hands out no boleto number twice."""

import asyncio
import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from cli import running
from cli.backups.recover import _since
from commands.bank_orders.kinds import OrderLane
from commands.charges.control_numbers import take_block
from commands.money.recovery import (
    DifferencesLeft,
    NotBegun,
    NotCompared,
    begin_recovery,
    note_comparison,
    recovery_state,
    release_payouts,
)
from commands.money.withdraw import NewWithdrawal, create_withdrawal
from domain.instants import to_millisecond
from domain.merchants.fees import NO_FEES
from domain.mode import Mode
from readmodels.verify import verify
from runtime.backups.restore import RESTORED
from runtime.ids import new_id
from runtime.postgres import open_pool, transaction
from tests.support.banking import CLIENT, SECRET_KEY, make_account, utc_now, worker_context
from tests.support.boleto_bank import RunningBoletoBank, running_boleto_bank
from tests.support.database import own_database, owner_of
from tests.support.system import ROOT
from tests.support.wallet import credit_wallet
from workers.context import Context
from workers.orders.outgoing import claim_money
from workers.orders.queue_head import QueueHead
from workers.orders.withdrawal import WithdrawalOrderWorker

INSTANT = utc_now().replace(microsecond=0).isoformat()


class Restored:
    """A restored database, a worker that starts on it at once, and the operator's commands."""

    def __init__(
        self, url: str, owner_url: str, pool: Any, context: Context, bank: RunningBoletoBank, redis_url: str
    ) -> None:
        self.url, self.owner_url, self.pool, self.context, self.bank = url, owner_url, pool, context, bank
        self.redis_url = redis_url

    def recover(self, *arguments: str, code: int = 0) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", "recover", *arguments, "--json"],
            cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "QUITA_HOME": "/nonexistent",
                 "DATABASE_URL": self.url, "DATABASE_OWNER_URL": self.owner_url},
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout else done.stderr

    async def compare(self, *, code: int = 0) -> Any:
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-m", "cli.main", "recover", "compare", "--json"],
            cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "QUITA_HOME": "/nonexistent",
                 "QUITA_ENV": "local", "DATABASE_URL": self.url, "DATABASE_OWNER_URL": self.owner_url,
                 "REDIS_URL": self.redis_url, "SECRET_KEY": SECRET_KEY, "BANK_URL": self.bank.url,
                 **{f"BANK_{name.upper()}": value for name, value in CLIENT.items()}},
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout else done.stderr

    async def withdraw(self, account_id: UUID) -> str:
        withdrawal_id = new_id()
        asked = NewWithdrawal(
            account_id=account_id, key=secrets.token_hex(8), fingerprint=bytes(32), withdrawal_id=withdrawal_id,
            amount_cents=1000, description=None, external_id=None, actor="test", request_id="test",
        )  # fmt: skip
        async with transaction(self.pool) as conn:
            assert await create_withdrawal(
                conn, asked, now=to_millisecond(utc_now()), bank="001", grace_s=0, fees=NO_FEES
            )
        return withdrawal_id.hex

    async def order_refund(self, account_id: UUID, kind: str, *, cents: int, test: bool = False) -> None:
        await self.pool.execute(
            "INSERT INTO bank_order (order_id, account_id, test, bank, kind, request, due_at, created_at)"
            " VALUES ($1, $2, $5, '001', $3, jsonb_build_object('amount_cents', $4::bigint), now(), now())",
            new_id(), account_id, kind, cents, test,
        )  # fmt: skip

    async def refunds_claimed(self) -> list[str]:
        return [
            order.kind
            for lane in (OrderLane.REFUND, OrderLane.TRANSFER)
            for order in await claim_money(self.context, lane, Mode.PRODUCTION, 10, QueueHead())
        ]

    async def sent(self) -> list[str]:
        """Lets a worker execute all due withdrawals; returns the ids of the transfers that the bank has sent."""
        await WithdrawalOrderWorker(self.context).drain()
        return [row["id"] for row in await self.pool.fetch("SELECT id FROM simulated_transfer")]


@pytest.fixture
async def restored(servers: Any) -> AsyncIterator[Restored]:
    async with own_database(servers, "restored") as url:
        owner_url = owner_of(servers, url)
        conn = await asyncpg.connect(owner_url)
        name = await conn.fetchval("SELECT current_database()")
        await conn.execute(f"ALTER DATABASE {name} SET {RESTORED} = '{INSTANT}'")
        await conn.close()
        pool = await open_pool(url, name="tests", size=8)
        try:
            async with running_boleto_bank(pool) as bank:
                production = bank.adapter(transfers_url=f"{bank.url}/transfers/v1")
                async with worker_context(pool, servers.redis_url, production) as context:
                    yield Restored(url, owner_url, pool, context, bank, servers.redis_url)
        finally:
            await pool.close()


async def test_payouts_of_a_restored_database_are_held_until_compared_with_the_bank_and_released(
    restored: Restored,
) -> None:
    account_id = await make_account(restored.pool)
    await credit_wallet(restored.pool, account_id, 10_000)
    asked = await restored.withdraw(account_id)
    await restored.order_refund(account_id, "refund_transfer", cents=500)
    await restored.order_refund(account_id, "refund_return", cents=70)
    await restored.order_refund(account_id, "refund_transfer", cents=9, test=True)
    assert await restored.sent() == []
    assert await restored.refunds_claimed() == ["refund_return"], (
        "a return of the original payment is idempotent at the bank, and is not held"
    )
    state = restored.recover("status", code=1)
    assert (state["held"], state["restored_to"], state["began_at"]) == (True, INSTANT, None)
    assert (state["orders"], state["cents"]) == (2, 1500)
    assert "not begun" in restored.recover("release", "--compared-by", "Ana", code=1)

    restored.recover("begin")
    assert await restored.sent() == [], "payouts stay held until they are released"
    assert "quita recover compare" in restored.recover("release", "--compared-by", "Ana", code=1)
    # The money in the wallet comes from the test and not from a payer, so the bank does not list it.
    assert [each["what"] for each in (await restored.compare(code=1))["differences"]] == ["missing_at_bank"]
    assert await restored.sent() == [], "a comparison must not release payouts"
    restored.recover("release", "--compared-by", "Ana", "--differences", "1")
    assert await restored.sent() == [asked]
    assert await restored.refunds_claimed() == ["refund_transfer"]
    state = restored.recover("status")
    assert state["held"] is False
    assert "compared by Ana" in state["released_by"]
    again = restored.recover("release", "--compared-by", "Ana", "--differences", "1", code=1)
    assert "released before" in again
    assert await verify(restored.url) == []


async def test_a_recovery_goes_on_until_every_restore_is_compared_and_released(restored: Restored) -> None:
    """The server is restored again before it was released, to an instant that still has the first recovery; and the
    operator names a wrong instant first."""
    now = utc_now().replace(microsecond=0)
    earlier = (now - timedelta(days=2)).isoformat()

    async def begin(instant: str) -> None:
        assert await begin_recovery(conn, instant, numbers=1, by="Ana", now=utc_now())

    async def compared(differences: int) -> None:
        await note_comparison(conn, since=now, booked=1, differences=differences, by="Ana", now=utc_now())

    async def release(differences: int, *, by: str = "Ana") -> None:
        await release_payouts(conn, differences=differences, by=by, now=utc_now())

    conn = await asyncpg.connect(restored.owner_url)
    try:
        await begin(earlier)
        state = await recovery_state(conn)
        assert (state.restored_to, state.began_at, state.open) == (INSTANT, None, [earlier])
        with pytest.raises(NotBegun):
            await release(0)
        await begin(INSTANT)
        state = await recovery_state(conn)
        assert _since(None, state.open) == datetime.fromisoformat(earlier) - timedelta(hours=1)
        await compared(1)
        with pytest.raises(DifferencesLeft):
            await release(0)
        await begin((now - timedelta(days=1)).isoformat())
        with pytest.raises(NotCompared):
            await release(1)
        assert await conn.fetchval("SELECT count(*) FROM recovery WHERE released_at IS NOT NULL") == 0
        await compared(1)
        await release(1)
        state = await recovery_state(conn)
        assert (state.held, state.open, state.released_by) == (False, [], "Ana")
        await begin((now - timedelta(days=3)).isoformat())
        await compared(0)
        await release(0, by="Bia")
        rows = await conn.fetch("SELECT booked, released_by FROM recovery ORDER BY began_at")
        assert [tuple(row) for row in rows] == [(2, "Ana"), (2, "Ana"), (1, "Ana"), (1, "Bia")], (
            "what all comparisons since each restore have booked, and who released its payouts"
        )
        with pytest.raises(NotBegun):
            await release(1)
        with pytest.raises(NotBegun):
            await compared(0)
    finally:
        await conn.close()


async def test_no_boleto_number_is_handed_out_again_after_a_restore(restored: Restored) -> None:
    """Numbers are raised once per restore, however often `begin` runs: the bank's field has only ten digits."""
    async with restored.pool.acquire() as conn:
        before = await take_block(conn)
        begun = restored.recover("begin", "--numbers", "1234")
        assert (begun["begun"], begun["boletos_to"]) == (True, before + 1250)
        after = await take_block(conn)
        assert after > before + 1234
        assert restored.recover("begin", "--numbers", "1234")["begun"] is False
        assert await take_block(conn) == after + 50


@pytest.mark.parametrize("given", ["yesterday", "31/01/2026 12:00", "2026-13-01T00:00:00Z", "2999-01-01T00:00:00Z"])
async def test_a_recovery_does_not_begin_with_an_invalid_or_a_future_instant(restored: Restored, given: str) -> None:
    """Otherwise it would hold payouts and raise numbers for a restore that cannot be compared with the bank, and then
    again for the right instant."""
    assert "--restored-to" in restored.recover("begin", "--restored-to", given, code=1)
    state = restored.recover("status", code=1)
    assert (state["restored_to"], state["began_at"], state["boletos_to"]) == (INSTANT, None, None)


async def test_the_application_role_cannot_release_held_payouts(restored: Restored) -> None:
    restored.recover("begin")
    async with restored.pool.acquire() as conn:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await conn.execute("UPDATE recovery SET released_at = now()")


async def test_a_database_that_was_never_restored_holds_no_payouts(pool: Any) -> None:
    assert await pool.fetchval("SELECT payouts_held()") is False


def test_a_command_in_production_reads_the_owners_url_beside_the_services_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {
        "QUITA_ENV": "production", "DATABASE_URL": "postgresql://app@db/quita", "REDIS_URL": "redis://redis",
        "DATABASE_OWNER_URL": "postgresql://owner@db/quita", "SECRET_KEY": secrets.token_hex(32),
        "QUITA_HOME": "/nonexistent",
        "BASE_URL": "https://api.example.com", "BANK_URL": "https://bank.example.com",
        "BANK_CLIENT_ID": "client-of-the-bank", "BANK_CLIENT_SECRET": "secret-of-the-bank",
        "BANK_APP_KEY": "app-key-of-the-bank",
        "BANK_CALLBACK_TOKEN": secrets.token_hex(16), "SMTP_URL": "smtps://mail.example.com",
        "MAIL_FROM": "cobrancas@example.com",
    }  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert running.settings().database_url == given["DATABASE_URL"]
    assert running.find().need("database_owner_url") == given["DATABASE_OWNER_URL"]
