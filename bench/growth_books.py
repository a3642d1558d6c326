"""Makes the databases that `bench.growth` compares, each with a year of one busy merchant: the journal and the read
tables (bench/year.py), and the rows that commands write in other tables."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import asyncpg

from bench.environment import BenchEnvironment
from bench.year import MONTHS, ORDERED_ID, fold_all, write_year
from commands.merchants.merchants import create_merchant
from commands.webhooks.endpoint import set_endpoint
from runtime.postgres import Pool, open_pool, session
from runtime.seal import Seal
from sql.migrate import migrate

_FILL_S_MAX = 7_200  # of one statement
# The rows of other tables for the existing charges, each registered half a second after its creation.
_FILL_STATEMENTS = (
    "INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents, external_id,"
    " created_at, expires_at) SELECT account_id, charge_id, test, '001', payment_method, status, version, amount_cents,"
    " external_id, created_at, now() + interval '30 days' FROM read_charge",
    "INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)"
    " SELECT account_id, test, md5(charge_id::text), sha256('x'), 'charge', charge_id, created_at FROM read_charge",
    "INSERT INTO bank_order_done (order_id, account_id, charge_id, created_at, ended_at, attempts, test, bank, kind,"
    " state) SELECT pg_temp.ordered_id(created_at, 'order' || charge_id), account_id, charge_id, created_at,"
    " created_at + interval '0.5 seconds', 1, test, '001',"
    " CASE payment_method WHEN 'pix' THEN 'cob_register' ELSE 'boleto_register' END, 'done' FROM read_charge",
    "INSERT INTO payment (account_id, payment_id, test, charge_id, source, method, amount_cents, settles, paid_at,"
    " credited_at) SELECT account_id, payment_id, test, charge_id, payment_id::text, method, 100, true, paid_at,"
    " paid_at FROM read_payment",
)


class Books(NamedTuple):
    """One of the databases. Its merchant has `charges` charges, the last of which was created just now."""

    pool: Pool
    account_id: UUID
    seal: Seal
    charges: int


@asynccontextmanager
async def filled(environment: BenchEnvironment, charges: int) -> AsyncIterator[Books]:
    url = await _create_database(environment.owner_url, f"growth_{charges}")
    pool = await open_pool(url, name="bench", size=4)
    seal = Seal(environment.settings.secret_key)
    try:
        account_id = await _create_merchant(pool, seal)
        await write_year(pool, account_id, charges, folded=True)
        async with session(pool) as conn:
            await conn.execute("SET statement_timeout = 0")
            await conn.execute(ORDERED_ID)
            await conn.execute(MONTHS, "bank_order_done")
            for statement in _FILL_STATEMENTS:
                await conn.execute(statement, timeout=_FILL_S_MAX)
            # Each row must be in the partition of its month, as in a system that made the partitions in time.
            for table in ("bank_order_done_other", "read_event_production_other"):
                assert not await conn.fetchval(f"SELECT EXISTS (SELECT FROM {table})"), table  # noqa: S608
            await conn.execute("RESET statement_timeout")
        await fold_all(pool)
        async with session(pool) as conn:
            await conn.execute("SET statement_timeout = 0")
            await conn.execute("VACUUM ANALYZE", timeout=_FILL_S_MAX)
            await conn.execute("CHECKPOINT")
            await conn.execute("RESET statement_timeout")
        yield Books(pool, account_id, seal, charges)
    finally:
        async with asyncio.timeout(10):
            await pool.close()


async def _create_database(owner_url: str, name: str) -> str:
    admin = await asyncpg.connect(owner_url)
    await admin.execute(f'CREATE DATABASE "{name}"')
    await admin.close()
    url = urlunsplit(urlsplit(owner_url)._replace(path=f"/{name}"))
    await migrate(url)
    admin = await asyncpg.connect(url)
    await admin.execute("CREATE EXTENSION pg_stat_statements")
    await admin.close()
    return url


async def _create_merchant(pool: Pool, seal: Seal) -> UUID:
    """Creates the merchant with an endpoint, so that a payment writes a delivery, which no worker sends here."""
    now = datetime.now(UTC)
    async with session(pool) as conn:
        merchant = await create_merchant(conn, name="Padaria Aurora", address=True, kyc="approved", now=now)
        await set_endpoint(
            conn,
            merchant.account_id,
            "http://127.0.0.1:9/",
            allow_private=True,
            now=now,
            seal=seal,
            chance=os.urandom(32),
        )
    return merchant.account_id
