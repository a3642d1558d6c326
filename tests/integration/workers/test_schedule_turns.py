"""When schedules of many accounts are due at once, the accounts take turns."""

from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import pytest

from banks.protocol import Location
from banks.simulated.bank import PRODUCTION, SimulatedBank
from commands.schedules import CLAIMED_MAX, NewSchedule, create_schedule
from domain.schedules.recurrence import Frequency, Recurrence, issue_at
from runtime.ids import new_id, new_token
from runtime.postgres import open_pool, session, transaction
from runtime.seal import SCHEDULE_PAYER, Seal
from tests.support.banking import SECRET_KEY, fill, make_account, utc_now, worker_context
from tests.support.database import own_database
from workers.context import Context
from workers.orders.boleto import claim as claim_boletos
from workers.orders.lease import LEASE
from workers.orders.pix import claim as claim_cobs
from workers.schedules import ORDERED_MAX, SCAN_MAX, WINDOW, ScheduleWorker

SEAL = Seal(bytes.fromhex(SECRET_KEY))
DUE = date(2031, 3, 20)
MORNING = issue_at(DUE, days_before=10)


class Morning:
    """A worker at six o'clock of a day on which the schedules of all accounts are due."""

    def __init__(self, context: Context) -> None:
        self.pool = context.pool
        self.context = context
        self.worker = ScheduleWorker(context)

    async def account(self, schedules: int, *, payment_method: str = "pix") -> UUID:
        account_id = await make_account(self.pool)
        async with transaction(self.pool) as conn:
            for _ in range(schedules):
                schedule_id = new_id()
                new = NewSchedule(
                    account_id=account_id, key=new_token(), fingerprint=bytes(32), schedule_id=schedule_id,
                    payment_method=payment_method, amount_cents=990,
                    recurrence=Recurrence(
                        frequency=Frequency.MONTHLY, first_due_date=DUE, end_date=None, max_charges=1
                    ),
                    issue_days_before=10, external_id=None, description=None, send_email=False,
                    payer_sealed=SEAL.seal(b"{}", SCHEDULE_PAYER, schedule_id), payer_document_hash=None,
                )  # fmt: skip
                assert await create_schedule(conn, new, now=MORNING - timedelta(days=1))
        return account_id

    async def issued(self, account_id: UUID) -> int:
        count = "SELECT count(*) FROM schedule_charge WHERE account_id = $1 AND state = 'issued'"
        return int(await self.pool.fetchval(count, account_id))


@pytest.fixture
async def morning(servers: Any) -> AsyncIterator[Morning]:
    async with own_database(servers, "schedule_turns") as url:
        pool = await open_pool(url, name="tests", size=8)
        bank = SimulatedBank(pool, SEAL, world=PRODUCTION, url="https://bank.example.com", now=utc_now)
        await fill(pool, False, [Location(n, f"bank.example.com/pix/v2/{new_token()}") for n in range(300)])
        try:
            async with worker_context(pool, servers.redis_url, bank) as context:
                context.now = lambda: MORNING
                yield Morning(context)
        finally:
            await pool.close()


async def test_a_thousand_due_schedules_of_one_account_do_not_delay_the_schedule_of_another(
    morning: Morning,
) -> None:
    loud = await morning.account(WINDOW + 800)
    quiet = await morning.account(1)
    await morning.worker.drain()
    assert await morning.issued(quiet) == 1
    assert 0 < await morning.issued(loud) <= CLAIMED_MAX, "the account with many schedules is served too"


async def test_all_accounts_are_served_before_an_account_with_many_schedules_gets_far_ahead(
    morning: Morning,
) -> None:
    loud = await morning.account(WINDOW + 100)
    many = [await morning.account(1) for _ in range(2 * CLAIMED_MAX)]
    for _ in range(4):
        await morning.worker.drain()
    assert [await morning.issued(each) for each in many] == [1] * len(many)
    assert await morning.issued(loud) <= 2 * CLAIMED_MAX


async def test_a_search_for_due_accounts_resumes_where_the_last_one_stopped(
    morning: Morning, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SCAN_MAX >= CLAIMED_MAX
    monkeypatch.setattr("workers.schedules.SCAN_MAX", 2)
    await morning.account(WINDOW + 400)
    others = [await morning.account(1) for _ in range(5)]
    for _ in range(4):
        await morning.worker.drain()
    assert [await morning.issued(each) for each in others] == [1] * 5


@pytest.mark.parametrize("payment_method", ["pix", "boleto"])
async def test_registrations_of_schedules_are_behind_those_of_requests(morning: Morning, payment_method: str) -> None:
    """They are taken up while nothing else is due."""
    await morning.account(5, payment_method=payment_method)
    address = b'{"street": "Rua A", "city": "Recife", "state": "PE", "zip_code": "50000000"}'
    await morning.pool.execute("UPDATE account SET address = $1", address)
    await morning.worker.drain()
    lane, claim = ("pix", claim_cobs) if payment_method == "pix" else ("boleto", claim_boletos)
    requested = await morning.pool.fetchval(
        "UPDATE bank_order SET due_at = created_at WHERE order_id ="
        " (SELECT order_id FROM bank_order ORDER BY order_id DESC LIMIT 1) RETURNING order_id"
    )
    async with session(morning.pool) as conn:
        for left in (1, 4):
            claimed = await claim(
                conn, lane=lane, test=False, since=None, now=morning.context.now(), limit=left, lease=LEASE
            )
            assert len(claimed) == left
            assert (requested in {each.order_id for each in claimed}) == (left == 1)


async def test_an_account_at_its_limit_of_boletos_under_way_orders_no_more_until_one_ends(morning: Morning) -> None:
    flood = await morning.account(3, payment_method="boleto")
    other = await morning.account(1)
    at_bank = await morning.account(ORDERED_MAX)
    # These belong to the flooding account; the bank has not answered them, and they are looked at again later.
    await morning.pool.execute(
        "UPDATE schedule SET ordered = true, account_id = $1, look_at = $3 WHERE account_id = $2",
        flood, at_bank, MORNING + timedelta(minutes=1),
    )  # fmt: skip
    await morning.worker.drain()
    assert await morning.issued(other) == 1
    waiting = "SELECT count(*) FROM schedule WHERE account_id = $1 AND NOT ordered AND look_at <= $2"
    assert await morning.pool.fetchval(waiting, flood, MORNING) == 3, "no schedule of the flooding account is claimed"
    await morning.pool.execute(
        "UPDATE schedule SET ordered = false, status = 'cancelled' WHERE schedule_id ="
        " (SELECT schedule_id FROM schedule WHERE account_id = $1 AND ordered LIMIT 1)",
        flood,
    )
    await morning.worker.drain()
    assert await morning.pool.fetchval(waiting, flood, MORNING) == 0, "they are claimed once there is room"
