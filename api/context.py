"""What a process of the API works with, opened once; handlers are given it, nothing is looked up from thin air."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

from msgspec import Struct

import sql
from api.callers import Callers
from api.idempotency.lock import IdempotencyLocks, KeyName
from api.rate import Buckets
from api.request_log import RequestLog
from commands.bank_orders.pix_locations import LocationReserve
from commands.charges.change import WISHES_MAX, ChargeCommand, Outcome, change_charges
from commands.charges.expire import expire_account
from domain.errors import Code, Refused
from domain.instants import to_millisecond
from readmodels.charges.charge import ChargeDoc, CurrentCharge, current_charges
from readmodels.cursor import Cursors
from readmodels.documents.boleto_pdf import BoletoPrinter
from runtime.batching import Batcher
from runtime.bell import BANK_ORDERS, WEBHOOKS, Bell
from runtime.postgres import DB_UNAVAILABLE, Pool, open_pool, session, transaction
from runtime.redis import open_redis
from runtime.replies import Replies
from runtime.seal import Seal
from runtime.settings import Settings

if TYPE_CHECKING:
    from api.boletos import Boletos
    from api.creation import Creations
    from api.refunds import Refunds
    from api.withdrawals import Withdrawals

POOL_SIZE = 12
LOOKUPS_MAX = 200


class UsedKey(Struct, frozen=True, gc=False):
    """A row of `idempotency`: what a key made."""

    account_id: UUID
    test: bool
    key: str
    fingerprint: bytes
    resource_type: str
    resource_id: UUID
    first_used_at: datetime
    replay_count: int


class _Suspension(Struct, frozen=True):
    suspended: bool


find_suspension = sql.one("account.pix_suspended", _Suspension)
find_keys = sql.many("idempotency.find", UsedKey)
count_replays = sql.run("idempotency.count_replays")

ChargeLookup = tuple[UUID, UUID, bool]
"""(charge_id, account_id, test)."""


class ApiContext:
    creations: "Creations"
    """Set by who opens the door: creations know the door they stand behind."""
    boletos: "Boletos"
    """As creations."""
    refunds: "Refunds"
    """As creations."""
    withdrawals: "Withdrawals"
    """As creations."""

    def __init__(self, settings: Settings, pool: Pool, *, now: Callable[[], datetime]) -> None:
        self.settings = settings
        self.pool = pool
        self.redis = open_redis(settings.redis_url, blocking=False)
        self.bell = Bell(self.redis)
        self.seal = Seal(settings.secret_key)
        self.cursors = Cursors(self.seal.key("cursor"))
        self.callers = Callers(pool)
        self.buckets = Buckets(self.redis)
        self.locks = IdempotencyLocks(self.redis)
        self.replies = Replies(open_redis(settings.redis_url, blocking=True), pool)
        self.reserve = LocationReserve(pool, self.bell, self.replies, now)
        self.charges: Batcher[ChargeLookup, CurrentCharge | None] = Batcher(
            self._find_charges, lanes=1, most=LOOKUPS_MAX
        )
        self.keys: Batcher[KeyName, UsedKey | None] = Batcher(self._find_keys, lanes=1, most=LOOKUPS_MAX)
        self.replays: Batcher[KeyName, None] = Batcher(self._count_replays, lanes=1, most=LOOKUPS_MAX)
        self.changes: Batcher[ChargeCommand, Outcome] = Batcher(self._change, lanes=2, most=WISHES_MAX)
        self.printer = BoletoPrinter()
        self.request_log = RequestLog(pool)
        self._now = now

    def now(self) -> datetime:
        """The real instant, to the millisecond."""
        return to_millisecond(self._now())

    async def charge(self, charge_id: UUID, owner: tuple[UUID, bool]) -> ChargeDoc:
        """The owner's charge as it is this moment, expired first if its time has passed; Refused(CHARGE_NOT_FOUND)."""
        found = await self.charges.submit((charge_id, *owner))
        if found is None:
            raise Refused(Code.CHARGE_NOT_FOUND)
        if found.overdue(self.now()):
            command = ChargeCommand(charge_id=charge_id, owner=owner, decide=lambda charge, at: [], actor="read")
            await self.changes.submit(command)
            found = await self.charges.submit((charge_id, *owner))
            assert found is not None, "charges are never deleted"
        return found.doc

    async def settle(self, owner: tuple[UUID, bool]) -> None:
        """Before a list of an account is read: expire what is overdue, so that status, feed and filters agree."""
        if await expire_account(self.pool, *owner, now=self.now()):
            self.bell.ring(WEBHOOKS)

    async def pix_suspended(self) -> bool:
        """For refusals only: a creation's own statement looks itself, in the same snapshot as it writes."""
        async with session(self.pool) as conn:
            return (await find_suspension(conn)).suspended

    async def change(self, command: ChargeCommand) -> None:
        """Have a wish granted, or raise its refusal; wake those who tell banks and merchants."""
        outcome = await self.changes.submit(command)
        if isinstance(outcome, Refused):
            raise outcome

    async def _find_charges(self, asked: Sequence[ChargeLookup]) -> list[CurrentCharge | None]:
        async with session(self.pool) as conn:
            return await current_charges(conn, asked)

    async def _find_keys(self, names: Sequence[KeyName]) -> list[UsedKey | None]:
        distinct = sorted(set(names))
        async with session(self.pool) as conn:
            rows = await find_keys(
                conn,
                account_ids=[name[0] for name in distinct],
                tests=[name[1] for name in distinct],
                keys=[name[2] for name in distinct],
            )
        found = {(row.account_id, row.test, row.key): row for row in rows}
        return [found.get(name) for name in names]

    async def _count_replays(self, names: Sequence[KeyName]) -> list[None]:
        distinct = sorted(set(names))
        async with session(self.pool) as conn:
            await count_replays(
                conn,
                account_ids=[name[0] for name in distinct],
                tests=[name[1] for name in distinct],
                keys=[name[2] for name in distinct],
                times=[list(names).count(name) for name in distinct],
            )
        return [None] * len(names)

    async def _change(self, charge_commands: Sequence[ChargeCommand]) -> Sequence[Outcome]:
        try:
            async with transaction(self.pool) as conn:
                outcomes = await change_charges(conn, charge_commands, now=self.now())
        except DB_UNAVAILABLE:
            # Whether it was done is not known; the state of the charge tells whoever asks again.
            return [Refused(Code.SERVICE_UNAVAILABLE, retry_after_s=1)] * len(charge_commands)
        self.bell.ring(WEBHOOKS)
        for test in {outcome.test for outcome in outcomes if not isinstance(outcome, Refused)}:
            self.bell.ring(BANK_ORDERS[test])
        return outcomes


async def open_context(settings: Settings) -> ApiContext:
    """Open what a process needs; PostgreSQL must be there, Redis may come later."""
    pool = await open_pool(settings.database_url, name="api", size=POOL_SIZE)
    context = ApiContext(settings, pool, now=lambda: datetime.now(UTC))
    await context.replies.start()
    return context


async def close_context(context: ApiContext) -> None:
    """After the last request: let what was accepted be flushed, then let go."""
    await context.changes.close()
    await context.request_log.close()
    await context.bell.stop()
    await context.replies.stop()
    await context.redis.aclose(close_connection_pool=True)
    await context.pool.close()
