"""kill -9 of the worker after staff released a held refund: its money is sent once, whenever the worker dies."""

import asyncio
import re
import resource
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from commands.money.held_refunds import release_refund
from domain.instants import to_millisecond
from tests.support.boleto_merchant import PAGADOR, issue_boleto
from tests.support.merchant import (
    ApiClient,
    Books,
    assert_books_are_clean,
    database_of,
    kill_process,
    new_merchant,
    paused,
    until_answer,
    until_replaced,
)
from tests.support.system import System, remove_home, temporary_home, until

OPEN_FILES = 512
SLOW_MS = 4_000


@pytest.fixture(scope="module")
def own_system(request: pytest.FixtureRequest) -> Iterator[System]:
    """A system for this file only, started with a low soft limit of open files, which each process must raise."""
    system = System(temporary_home())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))
        try:
            system.start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        yield system
        assert system.stop() == 0, system.said()[-4000:]
    finally:
        if system.running():
            system.kill()
        remove_home(system.home)


async def create_held_refund(own_system: System, client: ApiClient) -> UUID:
    """Creates a held refund: of a production boleto paid by its line, above the daily bound for refunds by transfer."""
    charge = await issue_boleto(client, "6000.00")
    body = {"number": charge["boleto"]["nosso_numero"]}
    async with client.http.post(f"{own_system.bank_url}/simulated/pay", json=body) as answer:
        assert answer.status == 200, await answer.text()

    async def paid() -> bool:
        return bool((await client.charge(charge["charge_id"]))["status"] == "paid")

    await until_answer(paid, within_s=60)
    asked = await client.ask(
        "POST",
        f"/v1/charges/{charge['charge_id']}/refunds",
        json={"destination": {"pix_key": "ana@example.com", "document": PAGADOR["documento"]}},
        key=str(uuid4()),
    )
    assert (asked.status, asked.body["status"]) == (201, "pending"), asked.raw
    return UUID(asked.body["refund_id"])


async def release(books: Books, refund_id: UUID) -> None:
    """Releases the refund as the staff's page does."""
    async with books.transaction():
        await release_refund(books, refund_id, by="ana", reason=None, now=to_millisecond(datetime.now(UTC)))


@pytest.mark.parametrize("moment", ["before the bank is asked", "while the bank is asked"])
async def test_a_released_refund_is_sent_once_though_the_worker_is_killed(own_system: System, moment: str) -> None:
    async with new_merchant(own_system) as merchant, database_of(own_system) as books:
        client = merchant.production
        refund_id = await create_held_refund(own_system, client)
        sent = "SELECT count(*) FROM simulated_transfer WHERE id = $1"
        if moment == "before the bank is asked":
            with paused(own_system, "worker"):
                await release(books, refund_id)
                assert await books.fetchval(sent, refund_id.hex) == 0
                dead = kill_process(own_system, "worker")
        else:
            await set_bank_fault(own_system, client, fault="slow", delay_ms=SLOW_MS)
            await release(books, refund_id)

            async def leased() -> Any:
                at_work = (
                    "SELECT count(*) FROM bank_order WHERE account_id = $1 AND lane = 'transfer' AND state = 'working'"
                )
                return await books.fetchval(at_work, UUID(client.account_id))

            await until_answer(leased)
            await asyncio.sleep(SLOW_MS / 2_000)
            dead = kill_process(own_system, "worker")
            await set_bank_fault(own_system, client, fault="up")
            # The dead worker's lease ends at once instead of after a minute.
            await books.execute("UPDATE bank_order SET lease_until = now() WHERE state = 'working'")
        await asyncio.to_thread(until_replaced, own_system, "worker", dead)

        async def succeeded() -> bool:
            await books.execute("UPDATE bank_order SET due_at = now() WHERE state = 'waiting' AND due_at > now()")
            return bool((await client.get(f"/v1/refunds/{refund_id}")).body["status"] == "succeeded")

        await until_answer(succeeded, within_s=60)
        assert await books.fetchval(sent, refund_id.hex) == 1
        balances = [entry["balance_after"] for entry in await client.ledger()]
        assert balances == ["6000.00", "0.00"], "the wallet is debited once and never credited back"
    assert_books_are_clean(own_system)


async def set_bank_fault(own_system: System, client: ApiClient, **said: Any) -> None:
    async with client.http.post(f"{own_system.bank_url}/simulated/fault", json=said) as answer:
        assert answer.status == 200, await answer.text()


@pytest.mark.parametrize("kind", ["api", "worker"])
async def test_each_process_raises_its_limit_of_open_files(own_system: System, kind: str) -> None:
    def raised(pid: int) -> bool:
        found = re.search(r"Max open files\s+(\d+)", Path(f"/proc/{pid}/limits").read_text())
        return found is not None and int(found[1]) > OPEN_FILES

    pids = own_system.pids(kind)
    if not Path(f"/proc/{pids[0]}/limits").exists():
        pytest.skip("no /proc with the limits of other processes")
    await asyncio.to_thread(until, lambda: all(raised(pid) for pid in pids), what=f"more open files of {kind}")
