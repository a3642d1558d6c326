"""The same work on a small database and on larger ones, in turn: its cost must not follow how much there is.

Databases of one server, each with a year of one busy merchant. BENCH_CHARGES sets their sizes (10000,200000), the
small one first; a million charges are six gigabytes and take some minutes to write. Beside the time of each piece of
work stand the blocks that PostgreSQL touched for it and the WAL it wrote, which no other program of the machine
changes.
"""

import asyncio
import os
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID, uuid4

import asyncpg

from bench.environment import BenchEnvironment
from bench.hot_account import pix_charge
from bench.report import Finding
from bench.year import fold_all, write_year
from commands.charges.create_pix import create_pix
from commands.charges.pay import Confirmation, confirm_payments
from commands.merchants.merchants import create_merchant
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from readmodels.charges.charge import charges_by_id
from readmodels.charges.charge_list import ChargeFilters, charge_page, charge_summary
from readmodels.money.ledger import balance
from readmodels.page import TimePosition
from readmodels.webhooks.event_list import EventFilters, event_page
from runtime.postgres import Pool, open_pool, session, transaction
from runtime.seal import Seal
from sql.migrate import migrate
from workers.orders.lease import LEASE, settle
from workers.orders.pix import claim

_SIZES = os.environ.get("BENCH_CHARGES", "10000,200000")
_ROUNDS = 15
_BATCH = 100
_DEEP = 9_000  # charges before the page that is far down; the small database has no more
_LONG_AGO = timedelta(days=300)
_AIM = 1.2
_FILL_S_MAX = 7_200  # of one statement
# What creation and payment write beside journal and read tables, of the charges that are there already.
_WRITTEN = (
    "INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents, external_id,"
    " created_at, expires_at) SELECT account_id, charge_id, test, '001', payment_method, status, version, amount_cents,"
    " external_id, created_at, now() + interval '30 days' FROM read_charge",
    "INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)"
    " SELECT account_id, test, md5(charge_id::text), sha256('x'), 'charge', charge_id, created_at FROM read_charge",
    "INSERT INTO payment (account_id, payment_id, test, charge_id, source, method, amount_cents, settles, paid_at,"
    " credited_at) SELECT account_id, payment_id, test, charge_id, payment_id::text, method, 100, true, paid_at,"
    " paid_at FROM read_payment",
)

_COST = """
SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint AS blocks,
  coalesce(sum(wal_bytes), 0)::bigint AS wal
FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

Work = Callable[[], Awaitable[object]]


class _Cost(NamedTuple):
    ms: float
    blocks: int
    """Touched, in the cache or not."""
    wal: int
    """Bytes, of whole pages too."""


async def growth(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """`seconds` is not used: every piece of work is done a number of times in each database."""
    sizes = [int(size) for size in _SIZES.split(",")]
    took: dict[str, list[list[_Cost]]] = {}
    async with AsyncExitStack() as opened:
        books = [await opened.enter_async_context(_filled(environment, size)) for size in sizes]
        for round_ in range(_ROUNDS + 1):
            for at, each in enumerate(books):
                for name, work in each.works():
                    cost = await each.cost_of(work)
                    if round_:  # the first one makes the plans
                        took.setdefault(name, [[] for _ in sizes])[at].append(cost)
    found = []
    for name, of_sizes in took.items():
        few, *more = map(_medians, of_sizes)
        for size, many in zip(sizes[1:], more, strict=True):
            note = f"{few.ms:.2f} ms, {many.ms:.2f} ms; aim <= {_AIM}: {'ok' if many.ms <= few.ms * _AIM else 'MISSED'}"
            note += f"; blocks {few.blocks:,} and {many.blocks:,}, WAL {few.wal:,} and {many.wal:,} bytes"
            found.append(Finding(f"{name}: {size:,} charges to {sizes[0]:,}", many.ms / few.ms, "x", note=note))
    return found


def _medians(rounds: Sequence[_Cost]) -> _Cost:
    ms, blocks, wal = zip(*rounds, strict=True)
    return _Cost(statistics.median(ms), round(statistics.median(blocks)), round(statistics.median(wal)))


class _Books:
    """One of the databases, and what is done in it; a round creates, registers and pays what it creates."""

    def __init__(self, pool: Pool, account_id: UUID, seal: Seal) -> None:
        self._pool = pool
        self._owner = Owner(account_id, Mode.PRODUCTION)
        self._seal = seal
        self._made: list[UUID] = []
        self._numbers = count(1_000_000_000)
        self._deep: TimePosition | None = None
        self._old = datetime.now(UTC) - _LONG_AGO

    def works(self) -> list[tuple[str, Work]]:
        return [
            ("creation of 100, references at random", lambda: self._create_of([None] * _BATCH)),
            ("creation of 1", lambda: self._create(1)),
            ("creation of 100", lambda: self._create(_BATCH)),
            ("orders claimed and settled, 100", self._register),
            ("payment of 1", lambda: self._pay(1)),
            ("payment of 100", lambda: self._pay(_BATCH)),
            ("look-up of 100", self._look_up),
            ("list, first page", lambda: self._page(ChargeFilters(), None)),
            ("list, far down", lambda: self._page(ChargeFilters(), self._deep)),
            ("list, days long ago", lambda: self._page(ChargeFilters(created_to=self._old), None)),
            ("list by status", lambda: self._page(ChargeFilters(statuses=("pending",)), None)),
            ("feed, its end", self._feed),
            ("balance", self._balance),
            ("totals folded", lambda: fold_all(self._pool)),
            ("summary", self._summary),
        ]

    async def cost_of(self, work: Work) -> _Cost:
        async with session(self._pool) as conn:
            before = await conn.fetchrow(_COST)
        began = time.perf_counter()
        await work()
        ms = (time.perf_counter() - began) * 1_000
        async with session(self._pool) as conn:
            after = await conn.fetchrow(_COST)
        assert before is not None
        assert after is not None
        return _Cost(ms, after["blocks"] - before["blocks"], after["wal"] - before["wal"])

    async def look_down(self) -> None:
        async with session(self._pool) as conn:
            row = await conn.fetchrow(
                "SELECT created_at, charge_id FROM read_charge WHERE account_id = $1 AND NOT test"
                " ORDER BY created_at DESC, charge_id DESC OFFSET $2 LIMIT 1",
                self._owner.account_id, _DEEP,
            )  # fmt: skip
        assert row is not None
        self._deep = TimePosition(row["created_at"], row["charge_id"])

    async def _create(self, many: int) -> None:
        await self._create_of([f"order-{next(self._numbers)}" for _ in range(many)])

    async def _create_of(self, references: Sequence[str | None]) -> None:
        now, account = datetime.now(UTC), str(self._owner.account_id)
        news = [pix_charge(account, "bench", now, test=False, external_id=each) for each in references]
        async with session(self._pool) as conn:
            self._made = sorted(await create_pix(conn, news))

    async def _register(self) -> None:
        now = datetime.now(UTC)
        async with session(self._pool) as conn:
            orders = await claim(conn, test=False, now=now, limit=_BATCH, lease=LEASE)
            assert len(await settle(conn, [(order, "done", None) for order in orders], now=now)) == _BATCH

    async def _pay(self, count: int) -> None:
        now = datetime.now(UTC)
        received = [
            Confirmation(charge_id=each, end_to_end_id=_end_to_end_id(now), amount_cents=14_990, paid_at=now)
            for each in [self._made.pop() for _ in range(min(count, len(self._made)))]
        ]
        async with transaction(self._pool) as conn:
            await confirm_payments(conn, received, now=now, seal=self._seal, fees=NO_FEES)

    async def _look_up(self) -> None:
        async with session(self._pool) as conn:
            rows = await conn.fetch(
                # One random id: compared with another for each row, more rows are read the more there are.
                "SELECT charge_id FROM read_charge WHERE charge_id > $2 ORDER BY charge_id LIMIT $1",
                _BATCH,
                uuid4(),
            )
            await charges_by_id(conn, [(row["charge_id"], self._owner) for row in rows])

    async def _page(self, filters: ChargeFilters, after: TimePosition | None) -> None:
        async with session(self._pool) as conn:
            await charge_page(conn, self._owner, filters, after, 25)

    async def _feed(self) -> None:
        async with session(self._pool) as conn:
            await event_page(conn, self._owner, EventFilters(), None, 100)

    async def _balance(self) -> None:
        async with session(self._pool) as conn:
            await balance(conn, self._owner)

    async def _summary(self) -> None:
        async with session(self._pool) as conn:
            await charge_summary(conn, self._owner, ChargeFilters())


def _end_to_end_id(now: datetime) -> str:
    """As a bank makes it: its own number, the minute, eleven characters."""
    return f"E99999997{now:%Y%m%d%H%M}{secrets.token_hex(6)[:11]}"


@asynccontextmanager
async def _filled(environment: BenchEnvironment, charges: int) -> AsyncIterator[_Books]:
    name = f"growth_{charges}"
    admin = await asyncpg.connect(environment.owner_url)
    await admin.execute(f'CREATE DATABASE "{name}"')
    await admin.close()
    url = urlunsplit(urlsplit(environment.owner_url)._replace(path=f"/{name}"))
    await migrate(url)
    admin = await asyncpg.connect(url)
    await admin.execute("CREATE EXTENSION pg_stat_statements")
    await admin.close()
    pool = await open_pool(url, name="bench", size=4)
    try:
        async with session(pool) as conn:
            made = await create_merchant(
                conn, name="Padaria Aurora", address=True, kyc="approved", now=datetime.now(UTC)
            )
        await write_year(pool, made.account_id, charges, folded=True)
        async with session(pool) as conn:
            await conn.execute("SET statement_timeout = 0")
            for statement in _WRITTEN:
                await conn.execute(statement, timeout=_FILL_S_MAX)
            await conn.execute("RESET statement_timeout")
        books = _Books(pool, made.account_id, Seal(environment.settings.secret_key))
        await fold_all(pool)
        await books.look_down()
        async with session(pool) as conn:
            await conn.execute("SET statement_timeout = 0")
            await conn.execute("VACUUM ANALYZE", timeout=_FILL_S_MAX)
            await conn.execute("CHECKPOINT")
            await conn.execute("RESET statement_timeout")
        yield books
    finally:
        async with asyncio.timeout(10):
            await pool.close()
