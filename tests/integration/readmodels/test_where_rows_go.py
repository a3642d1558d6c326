"""New charges are stored behind all others, on pages of their own, however many were paid before. A creation that
filled gaps of old pages would have each of these written to the WAL as a full image after a checkpoint."""

import random
from typing import Any
from uuid import UUID

from banks.protocol import Location
from commands.charges.pay import Confirmation, confirm_payments
from domain.merchants.fees import NO_FEES
from runtime.postgres import Pool, open_pool, transaction
from runtime.seal import Seal
from tests.support.banking import make_account, make_charges, utc_now
from tests.support.database import own_database, owner_of

TABLES = ("charge", "read_charge")
_BATCH = 100
_ROUNDS = 40
_CENTS = 1_000


async def create_charges(pool: Pool, account: UUID, count: int) -> list[UUID]:
    return await make_charges(pool, account, [Location(1, "bank.example/1")] * count, test=False, amount_cents=_CENTS)


async def pay_charges(pool: Pool, charge_ids: list[UUID]) -> None:
    now = utc_now()
    received = [
        Confirmation(charge_id=each, end_to_end_id=f"E{each.hex[:31]}", amount_cents=_CENTS, paid_at=now)
        for each in charge_ids
    ]
    async with transaction(pool) as conn:
        await confirm_payments(conn, received, now=now, seal=Seal(bytes(32)), fees=NO_FEES)


async def test_new_charges_go_to_new_pages_and_not_into_gaps_left_by_payments(servers: Any) -> None:
    chance = random.Random(20_261_124)
    async with own_database(servers, "places") as url:
        pool = await open_pool(owner_of(servers, url), name="test", size=2)
        try:
            account = await make_account(pool)
            waiting: list[UUID] = []
            for round_ in range(_ROUNDS):
                waiting += await create_charges(pool, account, _BATCH)
                if len(waiting) > 10 * _BATCH:  # Charges are paid some time later, in random order.
                    some = [waiting.pop(chance.randrange(len(waiting) - _BATCH)) for _ in range(_BATCH * 6 // 10)]
                    await pay_charges(pool, some)
                if round_ % 10 == 9:
                    for table in TABLES:
                        await pool.execute(f"VACUUM {table}")
            ends = {table: await pool.fetchval(f"SELECT pg_relation_size('{table}') / 8192") for table in TABLES}
            new = await create_charges(pool, account, 5 * _BATCH)
            for table in TABLES:
                old_pages = await pool.fetchval(
                    f"SELECT count(DISTINCT page) FROM {table}, LATERAL (SELECT (ctid::text::point)[0] AS page) at"  # noqa: S608
                    " WHERE charge_id = ANY($1) AND page < $2",
                    new, ends[table] - 1,
                )  # fmt: skip
                assert old_pages <= 5, table
        finally:
            await pool.close()
