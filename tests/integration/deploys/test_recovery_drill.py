"""A restore drill: a database is restored to an earlier instant, and its bank is not. What the bank received since is
booked once, what it sent since is reported, and no payout is sent before an operator confirms that this is settled."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import asyncpg
import pytest
from msgspec import structs

from banks.banco_do_brasil.nosso_numero import number_at_bank
from banks.protocol import Done
from banks.simulated.bank import PayerPix
from banks.simulated.boletos import new_end_to_end_id
from banks.transfers import NO_LIST, Return, Transfer
from domain.instants import to_millisecond
from readmodels.verify import verify
from runtime.backups.restore import RESTORED
from runtime.cells.number import in_cell
from runtime.ids import new_id
from runtime.postgres import Pool, open_pool
from tests.integration.deploys.test_recovery import Restored
from tests.support.banking import make_account, make_charges, utc_now, worker_context
from tests.support.boleto_bank import RunningBoletoBank, new_boleto, running_boleto_bank
from tests.support.boletos import AGREEMENT
from tests.support.database import own_database, owner_of
from tests.support.wallet import balance_of, credit_wallet
from workers.incoming.pix_payments import book_pix
from workers.incoming.statement import compare_statement
from workers.orders.withdrawal import WithdrawalOrderWorker


class Drill(Restored):
    """A restored database whose `bank` keeps its books in another database, which is not restored."""

    async def sent_by_us(self, id: str) -> bool:
        """Lets a worker execute all due withdrawals; returns whether the bank has sent this transfer."""
        await WithdrawalOrderWorker(self.context).drain()
        return await self.bank.bank.transfers.booked_transfer(id) is not None

    async def differences_of_last_hour(self, bank: Any) -> set[tuple[str, str, str]]:
        """Compares the last hour with what `bank` lists; returns the differences."""
        self.context.banks.production["001"] = bank
        until = utc_now() + timedelta(seconds=1)
        found = await compare_statement(
            self.context, since=until - timedelta(hours=1), until=until, progress=lambda bank, of: None
        )
        return {(each.of, each.what, each.reference) for each in found.differences}


async def pay_at_bank(bank: RunningBoletoBank, charge_id: UUID, cents: int) -> str:
    """A payer pays the charge, and only the bank knows; returns the endToEndId."""
    at = to_millisecond(utc_now())
    paid = PayerPix(end_to_end_id=new_end_to_end_id(at), txid=charge_id.hex, amount_cents=cents, paid_at=at)
    await bank.bank.receive([paid], tell=False)
    return paid.end_to_end_id


async def add_to_directory(cell: int, owner_url: str) -> None:
    """A cell, and the block of its boletos."""
    conn = await asyncpg.connect(owner_url)
    try:
        await conn.execute("INSERT INTO cell VALUES ($1, 'bela', '', NULL, NULL, now())", cell)
        await conn.execute("INSERT INTO number_block VALUES (9900000000, 9999999999, $1)", cell)
    finally:
        await conn.close()


async def move_money_of_cell(cell: int, bank: RunningBoletoBank) -> None:
    """A payer pays a charge and a boleto of the cell; the cell sends a refund and a withdrawal."""
    with in_cell(cell):
        charge_id, refund_id, withdrawal_id = new_id(), new_id(), new_id()
    paid = await pay_at_bank(bank, charge_id, 3000)
    issued = new_boleto(number=number_at_bank(AGREEMENT.convenio, 9_900_000_007))
    await bank.adapter().boletos.register_boleto(issued)
    await bank.books.pay(issued.number, rail="boleto", tell=False)
    await bank.settled(issued.number)
    await bank.bank.transfers.return_pix(Return(id=refund_id.hex, end_to_end_id=paid, amount_cents=500))
    payout = Transfer(id=withdrawal_id.hex, pix_key="bela@example.com", document="12345678000190", amount_cents=800)
    await bank.bank.transfers.send_pix(payout)


async def create_charges(pool: Pool, bank: RunningBoletoBank, account_id: UUID, count: int) -> list[UUID]:
    made = await bank.bank.pix.create_locations(count)
    return await make_charges(pool, account_id, made.value, test=False, amount_cents=2000)


@asynccontextmanager
async def open_drill(servers: Any, url: str, bank: RunningBoletoBank) -> AsyncIterator[Drill]:
    pool = await open_pool(url, name="tests", size=8)
    try:
        async with worker_context(pool, servers.redis_url, bank.adapter(transfers_url="")) as context:
            yield Drill(url, owner_of(servers, url), pool, context, bank, servers.redis_url)
    finally:
        await pool.close()


async def restore_earlier_state(servers: Any, before: str, url: str) -> None:
    """Replaces the database `url` by a copy of `before`, marked as restored to this instant."""
    names = [urlsplit(each).path.lstrip("/") for each in (before, url)]
    admin = await asyncpg.connect(servers.owner_url)
    try:
        await admin.execute(f'DROP DATABASE "{names[1]}" WITH (FORCE)')
        await admin.execute(f'CREATE DATABASE "{names[1]}" TEMPLATE "{names[0]}"')
        await admin.execute(f"ALTER DATABASE \"{names[1]}\" SET {RESTORED} = '{utc_now().isoformat()}'")
    finally:
        await admin.close()


@pytest.fixture
async def bank(servers: Any) -> AsyncIterator[RunningBoletoBank]:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(own_database(servers, "bank"))
        pool = await open_pool(url, name="bank", size=4)
        stack.push_async_callback(pool.close)
        yield await stack.enter_async_context(running_boleto_bank(pool))


async def test_what_only_the_bank_knows_is_booked_once_or_reported_before_payouts_are_released(
    servers: Any, bank: RunningBoletoBank
) -> None:
    async with own_database(servers, "before") as before_url, own_database(servers, "after") as url:
        async with open_drill(servers, before_url, bank) as before:
            account_id = await make_account(before.pool)
            early, late = await create_charges(before.pool, bank, account_id, 2)
            returned = await pay_at_bank(bank, early, 2000)
            await book_pix(before.context, "001", (await payments_at_bank(bank)))
        await restore_earlier_state(servers, before_url, url)

        # After the instant: a payer pays, a refund goes back, a withdrawal and a refund are sent.
        await pay_at_bank(bank, late, 2000)
        issued = new_boleto(amount_cents=900)
        await bank.adapter().boletos.register_boleto(issued)
        await bank.books.pay(issued.number, rail="boleto", tell=False)
        await bank.settled(issued.number)
        lost = Return(id=new_id().hex, end_to_end_id=returned, amount_cents=500)
        await bank.bank.transfers.return_pix(lost)
        gone = Transfer(id=new_id().hex, pix_key=str(account_id), document="12345678000190", amount_cents=700)
        await bank.bank.transfers.send_pix(gone)
        # Another one is listed as not carried out: no money has left.
        undone = structs.replace(gone, id=new_id().hex)
        await bank.bank.transfers.send_pix(undone)
        await bank.pool.execute("UPDATE simulated_transfer SET fails = true WHERE id = $1", undone.id)
        await move_money_of_cell(7, bank)

        async with open_drill(servers, url, bank) as restored:
            await add_to_directory(7, restored.owner_url)
            asked = await restored.withdraw(account_id)
            assert "not begun" in await restored.compare(code=1)
            restored.recover("begin")
            assert "quita recover compare" in restored.recover("release", "--compared-by", "Ana", code=1)
            assert await restored.sent_by_us(asked) is False

            found = await restored.compare(code=1)
            assert (found["booked"], found["booked_cents"]) == (3, 2000 + 500 + 900)
            assert [(each["of"], each["what"], each["reference"]) for each in found["differences"]] == [
                ("transfer", "missing_here", gone.id)
            ], "what moved in another cell is looked after there"
            (sent,) = found["differences"]
            assert (sent["bank_cents"], sent["account_id"]) == (700, str(account_id)), (
                "the account whose key the transfer went to"
            )
            assert await balance_of(restored.pool, account_id) == 2000 + 2000 - 500 - 1000
            (stray,) = await restored.pool.fetch("SELECT kind, reference, amount_cents FROM suspense")
            assert tuple(stray) == ("boleto_unknown", issued.number, 900), (
                "a payment of a boleto that the restore lost is in suspense"
            )
            again = await restored.compare(code=1)
            assert (again["booked"], again["differences"]) == (0, found["differences"]), (
                "a second comparison must book nothing"
            )
            assert await balance_of(restored.pool, account_id) == 2500
            assert await restored.sent_by_us(asked) is False, "a comparison must not release payouts"

            assert "--differences 1" in restored.recover("release", "--compared-by", "Ana", code=1)
            assert await restored.sent_by_us(asked) is False
            restored.recover("release", "--compared-by", "Ana", "--differences", "1")
            assert await restored.sent_by_us(asked) is True
            state = restored.recover("status")
            assert (state["booked"], state["differences"]) == (3, 1)

            # Sent transfers are compared only with a bank that lists its transfers.
            gone_there = ("transfer", "missing_here", gone.id)
            assert await restored.differences_of_last_hour(bank.adapter()) == {gone_there}
            unlisted = bank.adapter(transfers_url=f"{bank.url}/elsewhere/v1")
            assert await restored.differences_of_last_hour(unlisted) == {("transfer", "not_listed", NO_LIST)}
            await bank.pool.execute("DELETE FROM simulated_transfer WHERE id = $1", asked)
            assert await restored.differences_of_last_hour(bank.adapter()) == {
                gone_there,
                ("transfer", "missing_at_bank", asked),
            }
            assert await verify(url) == []


async def test_what_differs_from_the_banks_books_is_reported_and_not_changed(
    servers: Any, bank: RunningBoletoBank
) -> None:
    async with own_database(servers, "before") as before_url, own_database(servers, "after") as url:
        async with open_drill(servers, before_url, bank) as before:
            account_id = await make_account(before.pool)
            (charge_id,) = await create_charges(before.pool, bank, account_id, 1)
            await credit_wallet(before.pool, account_id, 3000)
            end_to_end_id = await pay_at_bank(bank, charge_id, 2000)
            await book_pix(before.context, "001", await payments_at_bank(bank))
            await bank.pool.execute("UPDATE simulated_pix SET amount_cents = 1900")
        await restore_earlier_state(servers, before_url, url)
        async with open_drill(servers, url, bank) as restored:
            restored.recover("begin")
            found = await restored.compare(code=1)
            assert found["booked"] == 0
            told = {(each["what"], each["reference"]): each for each in found["differences"]}
            assert set(told) == {("amount", end_to_end_id), *(key for key in told if key[0] == "missing_at_bank")}
            assert len(told) == 2
            assert (told["amount", end_to_end_id]["bank_cents"], told["amount", end_to_end_id]["here_cents"]) == (
                1900,
                2000,
            )
            assert await balance_of(restored.pool, account_id) == 5000
            assert await verify(url) == []


async def test_nothing_is_released_while_the_bank_does_not_answer(servers: Any, bank: RunningBoletoBank) -> None:
    async with own_database(servers, "before") as before_url, own_database(servers, "after") as url:
        await restore_earlier_state(servers, before_url, url)
        async with open_drill(servers, url, bank) as restored:
            restored.recover("begin")
            bank.wire.fault = "error500"
            assert "does not answer" in await restored.compare(code=1)
            assert "quita recover compare" in restored.recover("release", "--compared-by", "Ana", code=1)
            bank.wire.fault = "up"
            assert (await restored.compare())["differences"] == []
            restored.recover("release", "--compared-by", "Ana")
            assert restored.recover("status")["held"] is False


async def payments_at_bank(bank: RunningBoletoBank) -> Any:
    now = utc_now()
    page = await bank.adapter().pix.received_page(now - timedelta(hours=1), now + timedelta(seconds=1))
    assert isinstance(page, Done)
    return page.value.items
