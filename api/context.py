"""The connections and shared objects of an API process, opened once and given to every handler."""

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from litestar.types import Scope

from api.callers import Caller, Callers
from api.idempotency.guard import IdempotencyGuard
from api.idempotency.lock import IdempotencyLocks
from api.idempotency.used_keys import UsedKeys
from api.operations.boletos import Boletos
from api.operations.charges import Charges
from api.operations.money import Refunds, Withdrawals
from api.operations.pix import PixCreations
from api.rate import Buckets
from api.request_log import RequestLog
from commands.bank_orders.pix_locations import LocationReserve
from commands.merchants.pix_suspension import pix_suspended
from domain.instants import to_millisecond
from readmodels.cursor import Cursors
from readmodels.documents.boleto_pdf import BoletoPrinter
from runtime.cells.directory import check_cell
from runtime.coordination.due_times import DueTimes
from runtime.jobs import Jobs
from runtime.limits.addresses import client_key
from runtime.limits.rates import ClientRates
from runtime.limits.shares import Shares
from runtime.postgres import Pool, open_pool, session
from runtime.readiness import Readiness
from runtime.redis import open_redis
from runtime.replies import Replies
from runtime.seal import Seal
from runtime.servers.standby import Reads
from runtime.settings import Settings


class ApiContext:
    def __init__(self, settings: Settings, pool: Pool, reads: Reads, *, now: Callable[[], datetime]) -> None:
        self.settings = settings
        self.pool = pool
        self.reads = reads
        self.readiness = Readiness(pool)
        self.shares = Shares(settings.pace.account_at_once)
        self.rates = ClientRates(settings.rates)
        self.other_cells: Callable[[], Mapping[int, ApiContext | None]] = dict
        """In the context of the home cell: the other cells that this process serves, by number; None for a cell that is
        unavailable."""
        self._now = now
        self.redis = open_redis(settings.redis_url, blocking=False)
        self.jobs = Jobs(self.redis)
        self.seal = Seal(settings.secret_key)
        self.cursors = Cursors(self.seal.keys("cursor"))
        self.callers = Callers(pool)
        self.buckets = Buckets(self.redis)
        self.request_log = RequestLog(pool)
        self.printer = BoletoPrinter()
        self.replies = Replies(open_redis(settings.redis_url, blocking=True), pool, self.seal)
        self.reserve = LocationReserve(settings.bank, pool, self.jobs)
        self.keys = UsedKeys(pool)
        self.locks = IdempotencyLocks(self.redis)
        self.guard = IdempotencyGuard(self.keys, self.locks)
        self.charges = Charges(pool, self.jobs, self.now)
        self.pix = PixCreations(
            pool,
            self.jobs,
            self.reserve,
            self.keys,
            self.now,
            self.pix_suspended,
            due_times=DueTimes(settings.pace.bank_share_per_s),
            traced=settings.watching.tracing is not None,
            batch_max=settings.pace.creations_written,
        )
        self.boletos = Boletos(settings, pool, self.jobs, self.replies, self.reserve, self.charges, self.now)
        self.refunds = Refunds(pool, self.jobs, self.now, transfers_cents_max=settings.refund_transfers_cents_max)
        self.withdrawals = Withdrawals(
            pool, self.now, bank=settings.bank, grace_s=settings.withdrawal_grace_s, fees=settings.fees
        )

    def now(self) -> datetime:
        """The real instant, to the millisecond."""
        return to_millisecond(self._now())

    def spend(self, what: str, scope: Scope) -> None:
        """Counts a request without a token against the rate of its client address; Refused(RATE_LIMITED)."""
        self.rates.spend(what, client_key(scope, self.settings), now_s=time.monotonic())

    def spend_test_charge(self, caller: Caller) -> None:
        """Counts a creation in the sandbox against its account's limit of a day; Refused(RATE_LIMITED)."""
        if caller.test:
            self.rates.spend("sandbox_charges_per_day", str(caller.account_id), now_s=time.monotonic())

    def rate_of(self, caller: Caller) -> tuple[int, int]:
        """The rate of the caller's credential in requests per second, and its burst."""
        rate = caller.rate_per_s or self.settings.rate_per_s
        return rate, caller.rate_burst or self.settings.rate_burst

    async def pix_suspended(self) -> bool:
        async with session(self.pool) as conn:
            return await pix_suspended(conn)


async def open_context(settings: Settings) -> ApiContext:
    """Opens the connections of a process. PostgreSQL must be reachable; Redis may come later."""
    pace = settings.pace
    statements_kept = settings.statements_kept
    pool = await open_pool(settings.database_url, name="api", size=pace.api_pool_size, statements_kept=statements_kept)
    try:
        await check_cell(pool, settings.cell)
        list_pool = await open_pool(
            settings.database_url,
            name="api lists",
            size=pace.list_pool_size,
            statement_s=pace.list_statement_s,
            statements_kept=statements_kept,
        )
    except BaseException:
        pool.terminate()  # a cell is tried again each second: each try would leave a connection at its server
        raise
    standby = None
    if settings.database_read_url:
        standby = await open_pool(
            settings.database_read_url,
            name="api reads",
            size=pace.list_pool_size,
            size_min=0,
            statement_s=pace.list_statement_s,
            statements_kept=statements_kept,
            target="any",
        )
    context = ApiContext(settings, pool, Reads(list_pool, standby), now=lambda: datetime.now(UTC))
    await context.replies.start()
    return context


async def close_context(context: ApiContext) -> None:
    """Called after the last request: flushes the batches that were accepted, then closes all connections."""
    await asyncio.gather(context.pix.close(), context.boletos.close(), context.refunds.close())
    await context.charges.close()
    await context.request_log.close()
    await context.reserve.close()
    await context.jobs.stop()
    await context.replies.stop()
    await context.redis.aclose(close_connection_pool=True)
    await context.reads.close()
    await asyncio.gather(context.reads.primary.close(), context.pool.close())
