"""Partners over cells: one registry at home, and each share is settled once, in the partner's own cell."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
import pytest_asyncio
from msgspec.structs import replace
from structlog.testing import capture_logs

from commands.bank_orders.boleto_orders import find_terms
from commands.merchants.integrators import create_integrator, set_integrator
from commands.merchants.partner_copy import account_exists, copied_until
from commands.money.partner_shares import find_shares_to_send, receive_shares
from domain.errors import Code, Refused
from readmodels.money.crossed_shares import (
    CROSSED_SHARES_DIFFERENCE,
    ReceivedFrom,
    SentTo,
    compare_crossed_shares,
    find_received,
    find_sent,
)
from readmodels.reports.integrators import Integrator, find_integrator
from readmodels.verify import verify
from readmodels.verify_scope import Difference
from runtime.cells.number import HOME, in_cell
from runtime.ids import new_id
from runtime.postgres import Pool, connect, session, transaction
from tests.support.banking import worker_context
from tests.support.cells import Cells, open_cells, second_server
from tests.support.partners import paid, post_partner_shares, refunds
from workers.context import Context
from workers.housekeeping.partners import PartnerCopy, send_shares

ALA, BELA, CORA = 1, 2, 3
NUMBERS = (HOME, ALA, BELA, CORA)


class Partnered:
    """Cells with workers, merchants and partners. `pools` has a pool for each cell."""

    def __init__(self, cells: Cells, pools: dict[int, Pool], redis_url: str) -> None:
        self.cells = cells
        self.pools = pools
        self._redis_url = redis_url

    @asynccontextmanager
    async def worker(self, number: int, url: str | None = None) -> AsyncIterator[Context]:
        """The context of a worker of this cell; `url` is where it finds home."""
        with in_cell(number):
            async with worker_context(self.pools[number], self._redis_url, None) as context:
                await context.pool.execute("DELETE FROM lease")
                context.seal = self.cells.seal
                context.settings = replace(
                    context.settings,
                    cell=number,
                    database_url=self.cells.urls[number],
                    directory_url=url or self.cells.urls[HOME],
                )
                yield context

    async def partner(self, number: int, share_bps: int = 1_000) -> Integrator:
        """Creates a partner with an account in this cell, and copies it to all cells."""
        merchant = await self.cells.merchant(number)
        async with transaction(self.pools[HOME]) as conn:
            made = await create_integrator(
                conn, name="Ana", account_id=merchant.account_id, now=datetime.now(UTC), share_bps=share_bps
            )
        await self.copy_partners()
        return made

    async def copy_partners(self) -> None:
        for number in (ALA, BELA, CORA):
            async with self.worker(number) as context:
                copy = PartnerCopy(context)
                while await copy.follow():
                    pass
                await copy.close()

    async def paid(self, number: int, cents: int, code: str) -> tuple[UUID, UUID, UUID]:
        """Pays a new merchant of this cell; returns the ids of account, charge and payment."""
        merchant = await self.cells.merchant(number)
        with in_cell(number):
            return merchant.account_id, *await paid(self.pools[number], merchant.account_id, cents, code)

    async def send(self, number: int) -> int:
        async with self.worker(number) as context:
            sent = 0
            while more := await send_shares(context):
                sent += more
            return sent

    async def post_and_list_shares(self, number: int, partner: Integrator) -> list[int]:
        """Posts the shares that this cell holds; returns the amounts in the partner's ledger."""
        with in_cell(number):
            await post_partner_shares(self.pools[number])
        rows = await self.pools[number].fetch(
            "SELECT amount_cents FROM read_ledger WHERE account_id = $1 AND type = 'partner_share' ORDER BY sequence",
            partner.account_id,
        )
        return [row["amount_cents"] for row in rows]

    async def waiting(self, number: int) -> int:
        found = await self.pools[number].fetchval(
            "SELECT count(*) FROM partner_share WHERE sent_to IS NOT NULL AND posted_at IS NULL"
        )
        return int(found)

    async def assert_clean(self, *numbers: int) -> None:
        for number in numbers:
            with in_cell(number):
                found = await verify(self.cells.urls[number])
            assert [each for each in found if "partner" in each.what] == []


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def all_cells(servers: Any) -> AsyncIterator[Partnered]:
    with second_server() as second:
        async with AsyncExitStack() as stack:
            cells = await stack.enter_async_context(open_cells(servers, second))
            pools = {number: await stack.enter_async_context(cells.pool(number)) for number in NUMBERS}
            yield Partnered(cells, pools, servers.redis_url)


async def test_a_partner_code_is_copied_to_every_cell_with_its_changes(all_cells: Partnered) -> None:
    made = await all_cells.partner(BELA, 250)
    merchant = await all_cells.cells.merchant(CORA)

    async def active() -> bool | None:
        async with session(all_cells.pools[CORA]) as conn:
            terms = await find_terms(conn, account_id=merchant.account_id, integrador_code=made.integrador_code)
        assert terms is not None
        return terms.integrator_active

    assert await active() is True
    async with transaction(all_cells.pools[HOME]) as conn:
        await set_integrator(conn, made.integrador_code, share_bps=500, active=False, now=datetime.now(UTC))
    await all_cells.copy_partners()
    assert await active() is False
    async with session(all_cells.pools[HOME]) as home:
        at_home = await find_integrator(home, integrador_code=made.integrador_code)
    for number in (ALA, BELA, CORA):
        async with session(all_cells.pools[number]) as conn:
            assert await find_integrator(conn, integrador_code=made.integrador_code) == at_home
    assert at_home is not None
    assert (at_home.share_bps, at_home.active) == (500, False)


async def test_a_copy_misses_no_change_that_was_committed_late(all_cells: Partnered) -> None:
    """Versions follow the order of commits: a second writer waits for the first."""
    before = datetime.now(UTC)
    async with all_cells.pools[HOME].acquire() as one, all_cells.pools[HOME].acquire() as other:
        slow = one.transaction()
        await slow.start()
        first = await create_integrator(one, name="A", account_id=None, now=before)

        async def second() -> Integrator:
            async with other.transaction():
                return await create_integrator(other, name="B", account_id=None, now=before)

        waiting = asyncio.create_task(second())
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done
        await all_cells.copy_partners()
        await slow.commit()
        await waiting
    await all_cells.copy_partners()
    async with session(all_cells.pools[ALA]) as conn:
        assert await find_integrator(conn, integrador_code=first.integrador_code) is not None
        newest = await all_cells.pools[HOME].fetchval("SELECT max(version) FROM integrator")
        assert await copied_until(conn) == newest


async def test_a_partners_account_is_looked_up_in_its_own_cell(all_cells: Partnered) -> None:
    merchant = await all_cells.cells.merchant(CORA)
    with in_cell(CORA):
        nobody = new_id()
    with in_cell(77):
        no_cell = new_id()
    async with session(all_cells.pools[HOME]) as home:
        seal = all_cells.cells.seal
        assert await account_exists(home, merchant.account_id, seal=seal) is True
        assert await account_exists(home, all_cells.cells.merchants[HOME].account_id, seal=seal) is True
        assert await account_exists(home, nobody, seal=seal) is False
        assert await account_exists(home, no_cell, seal=seal) is False
        with pytest.raises(Refused) as refused:
            await create_integrator(home, name="A", account_id=new_id(), now=datetime.now(UTC))
    assert refused.value.code is Code.WALLET_ACCOUNT_NOT_FOUND


@pytest.mark.parametrize(("merchants", "partners"), [(ALA, BELA), (HOME, CORA), (CORA, HOME)])
async def test_a_share_is_settled_in_the_partners_cell(all_cells: Partnered, merchants: int, partners: int) -> None:
    partner = await all_cells.partner(partners)
    account_id, charge_id, payment_id = await all_cells.paid(merchants, 10_000, partner.integrador_code)
    assert await all_cells.post_and_list_shares(merchants, partner) == [], (
        "the share must not be posted in the merchant's cell"
    )
    assert await all_cells.send(merchants) == 1
    assert await all_cells.post_and_list_shares(partners, partner) == [1_000]
    with in_cell(merchants):
        await refunds(all_cells.pools[merchants], account_id, [(charge_id, payment_id, 3_333)])
    assert await all_cells.send(merchants) == 1
    assert await all_cells.post_and_list_shares(partners, partner) == [1_000, -334], (
        "the share that remains is rounded down to 666"
    )
    assert await all_cells.send(merchants) == 0
    await all_cells.assert_clean(merchants, partners)


async def test_a_share_and_its_reversal_arrive_in_order(all_cells: Partnered) -> None:
    partner = await all_cells.partner(BELA)
    account_id, charge_id, payment_id = await all_cells.paid(ALA, 1_000, partner.integrador_code)
    with in_cell(ALA):
        await refunds(all_cells.pools[ALA], account_id, [(charge_id, payment_id, 300)])
    assert await all_cells.send(ALA) == 2
    assert await all_cells.post_and_list_shares(BELA, partner) == [100, -30]
    earned = "SELECT earned_at FROM partner_share WHERE payment_id = $1 ORDER BY number"
    sent, received = [await all_cells.pools[number].fetch(earned, payment_id) for number in (ALA, BELA)]
    assert sent == received, "the time for which a share is held begins with its payment, not with its arrival"


_KILLED_SENDER = """
import asyncio, os, signal, sys
from workers.housekeeping import partners
from runtime.cells.number import in_cell
from runtime.postgres import open_pool
from runtime.seal import Seal
from tests.support.banking import SECRET_KEY, worker_context
from msgspec.structs import replace
from structlog.testing import capture_logs

async def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)

partners.mark_sent = die

async def main(cell, url, home, redis):
    with in_cell(int(cell)):
        pool = await open_pool(url, name="killed", size=2)
        async with worker_context(pool, redis, None) as context:
            context.seal = Seal(bytes.fromhex(SECRET_KEY))
            context.settings = replace(context.settings, cell=int(cell), database_url=url, directory_url=home)
            await partners.send_shares(context)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_share_is_settled_once_when_the_worker_is_killed_between_the_two_legs(
    all_cells: Partnered, servers: Any
) -> None:
    partner = await all_cells.partner(BELA)
    for _ in range(3):
        await all_cells.paid(ALA, 1_000, partner.integrador_code)
    await all_cells.pools[ALA].execute("DELETE FROM lease")
    urls = all_cells.cells.urls
    killed = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", _KILLED_SENDER, str(ALA), urls[ALA], urls[HOME], servers.redis_url],
        cwd=os.getcwd(), timeout=60, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert await all_cells.waiting(ALA) == 3, "the worker was killed before the second leg"
    assert await all_cells.post_and_list_shares(BELA, partner) == [100] * 3, "the first leg was executed"
    assert await all_cells.send(ALA) == 3
    assert await all_cells.waiting(ALA) == 0
    assert await all_cells.post_and_list_shares(BELA, partner) == [100] * 3
    await all_cells.assert_clean(ALA, BELA)


async def test_concurrent_senders_settle_each_share_once(all_cells: Partnered) -> None:
    partner = await all_cells.partner(CORA)
    for _ in range(12):
        await all_cells.paid(HOME, 1_000, partner.integrador_code)

    async def one() -> int:
        async with all_cells.worker(HOME) as context:  # No lease stops the other workers.
            return await send_shares(context)

    assert sum(await asyncio.gather(*(one() for _ in range(4)))) >= 12
    assert await all_cells.post_and_list_shares(CORA, partner) == [100] * 12
    held = "SELECT EXISTS (SELECT FROM lease WHERE name = 'shares_away')"
    assert not await all_cells.pools[HOME].fetchval(held), "the worker that has the next cron sends the next shares"


async def test_a_cell_takes_no_share_for_a_partner_of_another_cell(all_cells: Partnered) -> None:
    partner = await all_cells.partner(BELA)
    await all_cells.paid(ALA, 1_000, partner.integrador_code)
    async with session(all_cells.pools[ALA]) as conn:
        shares = await find_shares_to_send(conn, cell=BELA, limit=10)
    assert len(shares) == 1
    async with session(all_cells.pools[CORA]) as conn:
        # A share for a partner who is not in this cell is not taken, and keeps waiting.
        assert await receive_shares(conn, shares, sender=ALA, cell=CORA) == []
        await conn.execute(
            "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
            " VALUES ($1, 'A', '12345678000190', 'B', 'approved', 'x', now())",
            partner.account_id,
        )
        assert await receive_shares(conn, shares, sender=ALA, cell=BELA) == []
    assert await all_cells.send(ALA) == 1
    assert await all_cells.post_and_list_shares(BELA, partner) == [100]


async def test_shares_for_a_cell_that_refuses_or_is_away_wait_while_others_are_settled(servers: Any) -> None:
    with second_server() as second:
        async with AsyncExitStack() as stack:
            cells = await stack.enter_async_context(open_cells(servers, second))
            pools = {number: await stack.enter_async_context(cells.pool(number)) for number in NUMBERS}
            whole = Partnered(cells, pools, servers.redis_url)
            there, away = await whole.partner(HOME), await whole.partner(BELA)
            for partner in (there, away):
                await whole.paid(ALA, 1_000, partner.integrador_code)
            owner = await connect(second.dsn)
            role = urlsplit(cells.urls[BELA]).username
            await owner.execute(f'ALTER ROLE "{role}" NOLOGIN')
            with capture_logs() as said:
                assert await whole.send(ALA) == 1
            assert {each["cell"] for each in said if each["event"] == "shares_not_sent"} == {BELA}
            assert await whole.waiting(ALA) == 1
            assert await whole.post_and_list_shares(HOME, there) == [100]
            await owner.execute(f'ALTER ROLE "{role}" LOGIN')
            await owner.close()
            second.stop()
            assert await whole.send(ALA) == 0
            assert await whole.waiting(ALA) == 1
            second.restart()
            conn = await connect(cells.urls[BELA])
            await conn.close()
            assert await whole.send(ALA) == 1
            assert await whole.post_and_list_shares(BELA, away) == [100]


async def test_an_unreachable_home_stops_no_worker_of_another_cell(all_cells: Partnered) -> None:
    async with all_cells.worker(ALA, "postgresql://nobody@127.0.0.1:1/none") as context:
        assert await PartnerCopy(context).follow() == 0


# The comparison of shares that crossed from cell to cell


async def test_the_comparison_of_crossed_shares_finds_a_missing_or_altered_share(all_cells: Partnered) -> None:
    partner = await all_cells.partner(BELA)
    account_id, charge_id, payment_id = await all_cells.paid(ALA, 1_000, partner.integrador_code)
    with in_cell(ALA):
        await refunds(all_cells.pools[ALA], account_id, [(charge_id, payment_id, 300)])
    async with AsyncExitStack() as stack:
        conns = {number: await connect(all_cells.cells.owner_urls[number]) for number in NUMBERS}
        for conn in conns.values():
            stack.push_async_callback(conn.close)

        async def compared() -> dict[int, Difference]:
            sent = {number: await find_sent(conn) for number, conn in conns.items()}
            received = {number: await find_received(conn) for number, conn in conns.items()}
            return compare_crossed_shares(sent, received, sent)

        assert await compared() == {}, "the shares are in transit"
        assert await all_cells.send(ALA) == 2
        assert await compared() == {}
        for change in ("DELETE FROM partner_share", "UPDATE partner_share SET share_cents = share_cents - 1"):
            altering = conns[BELA].transaction()
            await altering.start()
            await conns[BELA].execute(f"{change} WHERE share_id = $1", payment_id)
            assert await compared() == {BELA: Difference("books", CROSSED_SHARES_DIFFERENCE, 1)}
            await altering.rollback()
        altering = conns[ALA].transaction()
        await altering.start()
        await conns[ALA].execute("DELETE FROM partner_share WHERE share_id = $1", payment_id)
        assert await compared() == {BELA: Difference("books", CROSSED_SHARES_DIFFERENCE, 1)}, (
            "a received share that was not sent must be found"
        )
        await altering.rollback()


def test_the_comparison_ignores_shares_in_transit_and_unreachable_cells() -> None:
    before, after = SentTo(BELA, 1, 100, 2, 200), SentTo(BELA, 2, 200, 3, 300)
    for shares, cents, differs in ((1, 100, False), (2, 200, False), (3, 300, False), (4, 400, True), (0, 0, True)):
        received = {BELA: [ReceivedFrom(ALA, shares, cents)]}
        found = compare_crossed_shares({ALA: [before], BELA: []}, received, {ALA: [after], BELA: []})
        assert bool(found) is differs, shares
        assert compare_crossed_shares({BELA: []}, received, {BELA: []}) == {}
        assert compare_crossed_shares({ALA: [before]}, {}, {ALA: [after]}) == {}
