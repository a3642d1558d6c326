"""Webhooks for tests: a receiver on a real socket, events as commands write them, a worker in the test's process."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import UUID

import msgspec
from cryptography.exceptions import InvalidTag

from banks.choice import Banks
from banks.simulated.bank import SANDBOX, SimulatedBank
from commands.webhooks.endpoint import SetEndpoint, set_endpoint
from runtime.coordination.lanes import WEBHOOKS
from runtime.ids import new_id
from runtime.jobs import Jobs
from runtime.postgres import Pool, transaction
from runtime.redis import open_redis
from runtime.seal import WEBHOOK_SECRET, Seal
from runtime.settings import Settings, read_settings
from sql import Connection
from workers.context import Context
from workers.duties import Duty, Runner
from workers.process import keep_running
from workers.webhooks.dispatcher import WebhookDispatcher
from workers.webhooks.guarded_connection import ATTEMPT_S, guarded_session

ROOT = Path(__file__).parents[2]
KEY = "5e" * 32  # the key of every process that uses the database of all tests
SEAL = Seal(bytes.fromhex(KEY))
NOWHERE = "redis://127.0.0.1:1/0"
SHORT = (0.05,) * 12


# How long a test waits for an event: it costs nothing when all is well, and a machine may stall.
PATIENCE_S = 30.0
_SWEEP_S = 0.01

ODD = '"ação \u2028 / \\"x\\" 💸"'.encode()

Answers = Callable[[int], "int | str | None"]
"""The receiver's answer to its n-th request: a status, a whole raw answer, or None for no answer."""


class Request(msgspec.Struct):
    headers: dict[str, str]
    body: bytes
    at: float
    flying: int = 0
    """How many requests were in flight at the receiver, this one included."""

    @property
    def event_id(self) -> str:
        return self.headers["webhook-id"]


class Receiver:
    """A merchant's server that records the webhooks it receives."""

    def __init__(self, answers: Answers = lambda _: 200, delay_s: float = 0.0) -> None:
        self.requests: list[Request] = []
        self.flying = 0
        self.flying_max = 0
        self.url = ""
        self._answers = answers
        self.answering = asyncio.Event()
        """While it is not set, requests wait for their answers."""
        self.answering.set()
        self._more = asyncio.Condition()
        self._delay_s = delay_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(headers["Content-Length"]))
                self.flying += 1
                self.flying_max = max(self.flying_max, self.flying)
                async with self._more:
                    self.requests.append(Request(headers, body, time.monotonic(), self.flying))
                    number = len(self.requests)
                    self._more.notify_all()
                answer = self._answers(number)
                try:
                    await asyncio.sleep(3600 if answer is None else self._delay_s)
                    await self.answering.wait()
                finally:
                    self.flying -= 1
                if isinstance(answer, int):
                    answer = f"HTTP/1.1 {answer} X\r\nContent-Length: 2\r\n\r\nok"
                writer.write(str(answer).encode("latin-1"))
                if "Connection: close" in str(answer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def reached(self, count: int, *, within_s: float = PATIENCE_S) -> None:
        async with self._more, asyncio.timeout(within_s):
            await self._more.wait_for(lambda: len(self.requests) >= count)

    async def heard(self, event_ids: Collection[str], *, within_s: float = PATIENCE_S) -> None:
        async with self._more, asyncio.timeout(within_s):
            await self._more.wait_for(lambda: {each.event_id for each in self.requests} >= set(event_ids))


@asynccontextmanager
async def receiving(answers: Answers = lambda _: 200, delay_s: float = 0.0) -> AsyncIterator[Receiver]:
    receiver = Receiver(answers, delay_s)
    tasks: set[asyncio.Task[None]] = set()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(receiver.serve(reader, writer)))

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Merchant(msgspec.Struct):
    account_id: UUID
    endpoint: SetEndpoint
    events: Counter[bool] = msgspec.field(default_factory=Counter)


async def create_merchant_with_endpoint(pool: Pool, url: str) -> Merchant:
    account_id = await an_account(pool)
    async with transaction(pool) as conn:
        endpoint = await set_endpoint(
            conn,
            account_id,
            url,
            allow_private=True,
            now=datetime.now(UTC),
            seal=SEAL,
            chance=os.urandom(32),
        )
    return Merchant(account_id, endpoint)


async def an_account(pool: Pool) -> UUID:
    account_id = new_id()
    await pool.execute(
        "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
        " VALUES ($1, 'Loja', '00000000000191', 'Recife', 'approved', 'k', now())",
        account_id,
    )
    return account_id


async def record_events(
    pool: Pool, merchant: Merchant, count: int = 1, *, test: bool = False, kind: str = "payment.received"
) -> list[str]:
    """Write events as commands do: journal, feed and deliveries in one transaction. Returns the events' ids."""
    numbers = range(merchant.events[test] + 1, merchant.events[test] + count + 1)
    merchant.events[test] += count
    ids = [new_id() for _ in numbers]
    bodies = [b'{"event_id":"%b","external_id":%b}' % (str(each).encode(), ODD) for each in ids]
    async with transaction(pool) as conn:
        rows = await conn.fetch(
            "INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload,"
            " event_id, event_sequence, event_body)"
            " SELECT $1, $2, gen_random_uuid(), 1, $3, now(), 'test', '{}', i, n, b"
            " FROM unnest($4::uuid[], $5::bigint[], $6::bytea[]) AS g(i, n, b) RETURNING journal_id",
            merchant.account_id, test, kind, ids, list(numbers), bodies,
        )  # fmt: skip
        await conn.execute(
            "INSERT INTO read_event (account_id, test, sequence, event_id, type, charge_id, created_at, journal_id)"
            " SELECT account_id, test, event_sequence, event_id, kind, charge_id, recorded_at, journal_id"
            " FROM journal WHERE journal_id = ANY($1)",
            [row["journal_id"] for row in rows],
        )
        await enqueue(conn, journal_ids=[row["journal_id"] for row in rows], now=datetime.now(UTC))
    return [str(each) for each in ids]


def settings_of(redis_url: str, delays_s: tuple[float, ...], **more: str) -> Settings:
    """Settings of a worker that may send to addresses of this machine; `more` are environment variables."""
    return read_settings(
        {
            "DATABASE_URL": "unused",
            "REDIS_URL": redis_url,
            "SECRET_KEY": KEY,
            "WEBHOOK_ALLOW_PRIVATE": "1",
            "WEBHOOK_DELAYS_S": ",".join(map(str, delays_s)),
            **more,
        }
    )


class WebhookWorker(msgspec.Struct):
    jobs: Jobs
    dispatcher: WebhookDispatcher


async def _end_deliveries_of_other_keys(pool: Pool) -> None:
    """End the deliveries that other tests left: their secrets are sealed with other keys, so they cannot be sent."""
    rows = await pool.fetch(
        "SELECT e.endpoint_id, e.account_id, e.secret_sealed FROM webhook_endpoint e WHERE EXISTS ("
        " SELECT FROM webhook_delivery d WHERE d.endpoint_id = e.endpoint_id AND d.state IN ('pending', 'sending'))"
    )
    endpoint_ids = []
    for row in rows:
        try:
            SEAL.open(row["secret_sealed"], WEBHOOK_SECRET, row["account_id"])
        except InvalidTag:
            endpoint_ids.append(row["endpoint_id"])
    await pool.execute(
        "UPDATE webhook_delivery SET state = 'exhausted', lease_until = NULL"
        " WHERE endpoint_id = ANY($1::uuid[]) AND state IN ('pending', 'sending')",
        endpoint_ids,
    )


@asynccontextmanager
async def webhook_worker(
    pool: Pool,
    redis_url: str,
    *,
    delays_s: tuple[float, ...] = SHORT,
    lease_s: float = 30.0,
    every_s: float = 1.0,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    nameservers: Sequence[str] = (),
    attempt_s: float = ATTEMPT_S,
    **more: str,
) -> AsyncIterator[WebhookWorker]:
    """A worker that has only the webhook duties; `more` are environment variables."""
    settings = msgspec.structs.replace(settings_of(redis_url, delays_s, **more), webhook_lease_s=lease_s)
    await _end_deliveries_of_other_keys(pool)
    async with AsyncExitStack() as opened:
        redis = open_redis(redis_url, blocking=False)
        opened.push_async_callback(redis.aclose)
        jobs = Jobs(redis)
        opened.push_async_callback(jobs.stop)
        http = await opened.enter_async_context(
            guarded_session(allow_private=settings.webhook_allow_private, nameservers=nameservers, attempt_s=attempt_s)
        )
        runner = Runner()
        context = Context(
            settings=settings,
            pool=pool,
            redis=redis,
            jobs=runner,
            seal=SEAL,
            banks=Banks(SimulatedBank(pool, SEAL, world=SANDBOX, url="", now=now), {}),
            now=now,
            worker="test",
            stopping=runner.stopping,
        )
        dispatcher = WebhookDispatcher(context, http, wake=partial(runner.wake, WEBHOOKS))
        runner.add(
            [
                Duty(WEBHOOKS, dispatcher.drain, every_s),
                Duty("release_webhooks", dispatcher.release, min(every_s, 0.2)),
                Duty("webhook_lanes", dispatcher.tend, min(every_s, 0.2)),
            ]
        )
        async with running(runner, redis_url):
            try:
                yield WebhookWorker(jobs, dispatcher)
            finally:
                runner.stopping.set()
                await dispatcher.stop(0.2)


@asynccontextmanager
async def running(runner: Runner, redis_url: str) -> AsyncIterator[None]:
    """Lets arq run these duties when they are woken, and each at its interval, which may be shorter than a cron's."""

    async def sweep() -> None:
        while True:
            runner.sweep()
            await asyncio.sleep(_SWEEP_S)

    sweeping, arq = asyncio.create_task(sweep()), asyncio.create_task(keep_running(runner, redis_url))
    try:
        yield
    finally:
        runner.stopping.set()
        sweeping.cancel()
        await asyncio.gather(arq, runner.stop())
        await asyncio.gather(sweeping, return_exceptions=True)


async def rows_of(pool: Pool, merchant: Merchant) -> list[tuple[str, int, int]]:
    """(state, step, attempt) of each of the merchant's deliveries, in the order of their events."""
    records = await pool.fetch(
        "SELECT state, step, attempt FROM webhook_delivery WHERE account_id = $1 ORDER BY test, sequence",
        merchant.account_id,
    )
    return [(record["state"], record["step"], record["attempt"]) for record in records]


async def until(pool: Pool, merchant: Merchant, state: str) -> list[tuple[str, int, int]]:
    async with asyncio.timeout(PATIENCE_S):
        while {row[0] for row in await rows_of(pool, merchant)} != {state}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return await rows_of(pool, merchant)


async def attempts_of(pool: Pool, merchant: Merchant) -> list[tuple[int, str, int | None]]:
    records = await pool.fetch(
        "SELECT a.attempt, a.outcome, a.status"
        " FROM webhook_attempt a JOIN webhook_delivery USING (delivery_id)"
        " WHERE account_id = $1 ORDER BY sequence, a.attempt",
        merchant.account_id,
    )
    return [(record["attempt"], record["outcome"], record["status"]) for record in records]


def paths() -> str:
    return os.pathsep.join([*(each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each), str(ROOT)])


async def enqueue(conn: Connection, *, journal_ids: Sequence[int], now: datetime) -> None:
    """Create the deliveries of the events among these journal rows."""
    await conn.execute("SELECT enqueue_deliveries($1, $2)", journal_ids, now)
