"""New charges lie behind all others, on pages of their own, however many were paid before: a creation that fills gaps
of old pages has each of them written to the log whole after a checkpoint."""

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


async def created(pool: Pool, account: UUID, count: int) -> list[UUID]:
    return await make_charges(pool, account, [Location(1, "bank.example/1")] * count, test=False, amount_cents=_CENTS)


async def paid(pool: Pool, charge_ids: list[UUID]) -> None:
    now = utc_now()
    received = [
        Confirmation(charge_id=each, end_to_end_id=f"E{each.hex[:31]}", amount_cents=_CENTS, paid_at=now)
        for each in charge_ids
    ]
    async with transaction(pool) as conn:
        await confirm_payments(conn, received, now=now, seal=Seal(bytes(32)), fees=NO_FEES)


async def test_new_charges_fill_no_gaps_that_payments_left(servers: Any) -> None:
    chance = random.Random(20_261_124)
    async with own_database(servers, "places") as url:
        pool = await open_pool(owner_of(servers, url), name="test", size=2)
        try:
            account = await make_account(pool)
            waiting: list[UUID] = []
            for round_ in range(_ROUNDS):
                waiting += await created(pool, account, _BATCH)
                if len(waiting) > 10 * _BATCH:  # they are paid some time after, in an order of their own
                    some = [waiting.pop(chance.randrange(len(waiting) - _BATCH)) for _ in range(_BATCH * 6 // 10)]
                    await paid(pool, some)
                if round_ % 10 == 9:
                    for table in TABLES:
                        await pool.execute(f"VACUUM {table}")
            ends = {table: await pool.fetchval(f"SELECT pg_relation_size('{table}') / 8192") for table in TABLES}
            new = await created(pool, account, 5 * _BATCH)
            for table in TABLES:
                old_pages = await pool.fetchval(
                    f"SELECT count(DISTINCT page) FROM {table}, LATERAL (SELECT (ctid::text::point)[0] AS page) at"  # noqa: S608
                    " WHERE charge_id = ANY($1) AND page < $2",
                    new, ends[table] - 1,
                )  # fmt: skip
                assert old_pages <= 5, table
        finally:
            await pool.close()
