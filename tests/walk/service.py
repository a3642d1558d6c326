"""The whole service in the test's process, on a clock that the walk moves: API, worker, bank, receiver of webhooks.

Everything between them is real: PostgreSQL and Redis, a worker's duties with their wake-ups, the bank on a socket with
the real bank's wire format, its callbacks, and the merchants' webhooks. Only the clock is simulated: it jumps over
days, so that walks reach due dates, refund windows and retries. Each service has its own database.
"""

import asyncio
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import aiohttp
import msgspec
import structlog
from aiohttp import web

from banks.banco_do_brasil.adapter import agreement_of, open_bank
from banks.choice import Banks
from banks.simulated.bank import PRODUCTION, SANDBOX, SimulatedBank
from banks.simulated.boleto_control import BoletoControl
from banks.simulated.boleto_wire import BoletoWire
from banks.simulated.cobv_wire import CobvWire
from banks.simulated.control import ControlRoutes, Teller
from banks.simulated.return_wire import ReturnWire
from banks.simulated.returns import ReturnRules
from banks.simulated.signing import JWKS_PATH, open_signer
from banks.simulated.wire import Access, Wire, books_may_be_away
from commands.merchants.integrators import create_integrator, set_integrator
from commands.merchants.merchants import MerchantCreated, create_merchant
from commands.merchants.pix_suspension import resume_pix, suspend_pix
from commands.money.fees import set_fees
from commands.people.audit import Origin
from commands.webhooks.endpoint import set_endpoint
from domain.events import EventKind
from domain.merchants.fees import FeeTerms
from domain.mode import Mode, Owner
from runtime.local.ports import free_port
from runtime.postgres import Pool, open_pool
from runtime.redis import open_redis
from runtime.seal import Seal
from runtime.settings import Settings
from tests.support.database import own_database
from tests.support.in_process import Api, Reply, bearer, open_api
from tests.support.listening import listening
from tests.walk.model import Fees
from workers.context import Context
from workers.duties import Runner, duties
from workers.process import keep_running
from workers.webhooks.dispatcher import WebhookDispatcher
from workers.webhooks.guarded_connection import guarded_session

CLOCK_START: Final = datetime(2026, 11, 23, 15, 0, tzinfo=UTC)
"""A Monday at noon in Sao Paulo: every walk has the same days and holidays ahead."""
CLOCK_PACE: Final = 0.1
TOKEN_S: Final = 3000.0
"""The age at which a new token is requested, before the old one expires."""
RETURNS_SUCCEED: Final = ReturnRules(settle_after_s=0, fails=False)
QUIET_S_MAX: Final = 20.0
MONTHS_AHEAD: Final = timedelta(days=400)
SOON: Final = timedelta(seconds=90)
"""Retries due within this time are waited for, by moving the clock."""
REST_S_MAX: Final = 60.0
_POLL_S = 0.002
# Wake-ups usually arrive within this time; after it every duty is woken directly.
_WAKE_EVERY_S = 0.1
_RETRY = timedelta(seconds=0.6)
_MOVES_MAX = 200
# The reconcilers read the bank's lists in steps of hours: after a jump of the clock they would need many rounds, which
# walks do not test. Nothing was under way when the clock moved, so their progress is set to the present.
_SKIP_RECONCILIATION = "UPDATE bank_reconciled SET until = $1, goal = $1, window_until = NULL, after = NULL"

# Orders that are claimed or due, hints that are due, and when the next retry is due.
_UNDER_WAY = """
SELECT (SELECT count(*) FROM bank_order WHERE state = 'working' OR (state = 'waiting' AND due_at <= $1))
     + (SELECT count(*) FROM bank_hint WHERE due_at <= $1) AS now,
       (SELECT count(*) FROM webhook_delivery WHERE state = 'sending') AS told,
       EXISTS (SELECT FROM partner_share WHERE posted_at IS NULL) AS unshared,
       least((SELECT min(due_at) FROM bank_order WHERE state = 'waiting'
              AND ($2 OR (lane NOT IN ('refund', 'transfer', 'withdrawal')))),
             (SELECT min(due_at) FROM bank_hint)) AS next
"""
_UNDELIVERED = """
SELECT count(*) FROM webhook_delivery WHERE state <> 'delivered' AND account_id = ANY($1::uuid[])
"""
_BEING_SENT = """
SELECT type, attempt, due_at, lease_until, statement_timestamp() AS server_now FROM webhook_delivery
WHERE state = 'sending' LIMIT 20
"""
_RETRY_AT = """
SELECT min(due_at) FROM webhook_delivery WHERE account_id = ANY($1::uuid[]) AND state = 'pending'
HAVING NOT EXISTS (SELECT FROM webhook_delivery WHERE account_id = ANY($1::uuid[]) AND state = 'sending')
"""


class Clock:
    """Starts at CLOCK_START, jumps on request, and otherwise runs slowly, so that on a busy machine no charge expires
    between a request and its answer."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._jumped = timedelta()

    def now(self) -> datetime:
        return CLOCK_START + self._jumped + timedelta(seconds=(time.monotonic() - self._began) * CLOCK_PACE)

    def jump(self, by: timedelta) -> None:
        assert by >= timedelta()
        self._jumped += by

    def restart(self) -> None:
        self.__init__()  # type: ignore[misc]


class WalkMerchant:
    """A merchant of the walk, and the bodies that his webhook receiver got, by event id."""

    def __init__(self, record: MerchantCreated) -> None:
        self.record = record
        self.account_id = record.account_id
        self.received_bodies: dict[str, list[bytes]] = {}


class Service:
    def __init__(self, api: Api, clock: Clock, pool: Pool, banks: dict[Mode, SimulatedBank], wire: Wire) -> None:
        self.api = api
        self.clock = clock
        self.pool = pool
        self.banks = banks
        """The bank's books by mode."""
        self.wire = wire
        self.runner = Runner()
        self.bank_url = ""
        self.receiver_url = ""
        self.merchants: dict[str, WalkMerchant] = {}
        self.http: aiohttp.ClientSession
        self.errors: list[dict[str, Any]] = []
        """The errors of the service's own log."""
        self._tokens: dict[Owner, tuple[str, datetime]] = {}

    @property
    def settings(self) -> Settings:
        return self.api.settings

    # Requests of merchants

    async def ask(
        self,
        merchant: WalkMerchant,
        test: bool,
        method: str,
        path: str,
        *,
        json: Any = None,
        key: str | None = None,
        scenario: str | None = None,
    ) -> Reply:
        headers = bearer(await self._token(merchant, test))
        if key is not None:
            headers.append((b"idempotency-key", key.encode()))
        if scenario is not None:
            headers.append((b"x-sandbox-bank", scenario.encode()))
        path, _, query = path.partition("?")
        if json is not None:
            headers.append((b"content-type", b"application/json"))
        body = b"" if json is None else msgspec.json.encode(json)
        return await self.api.ask(method, path, query=query.encode(), headers=headers, body=body)

    async def all(self, merchant: WalkMerchant, test: bool, path: str) -> list[dict[str, Any]]:
        """All items of a list, over its pages."""
        rows: list[dict[str, Any]] = []
        cursor = ""
        for _ in range(1_000):
            reply = await self.ask(merchant, test, "GET", f"{path}{cursor}")
            assert reply.status == 200, reply
            page = reply.json()
            rows += page["data"]
            if page["next_cursor"] is None:
                return rows
            cursor = f"{'&' if '?' in path else '?'}cursor={page['next_cursor']}"
        raise AssertionError(f"{path} has more than 1,000 pages")

    async def _token(self, merchant: WalkMerchant, test: bool) -> str:
        held = self._tokens.get(Owner.of(merchant.account_id, test))
        now = self.clock.now()
        if held is not None and now < held[1]:
            return held[0]
        credential = merchant.record.test if test else merchant.record.production
        reply = await self.api.post(
            "/v1/oauth/token",
            {
                "grant_type": "client_credentials",
                "client_id": credential.client_id,
                "client_secret": credential.client_secret,
            },
            token=None,
        )
        assert reply.status == 200, reply
        token = str(reply.json()["access_token"])
        self._tokens[Owner.of(merchant.account_id, test)] = token, now + timedelta(seconds=TOKEN_S)
        return token

    # Acts of staff, partners, payers and the bank

    async def open_merchant(self, name: str) -> WalkMerchant:
        """Create a merchant whose webhook receiver is subscribed to every kind of event."""
        now = self.clock.now()
        async with self.pool.acquire() as conn, conn.transaction():
            record = await create_merchant(conn, name=name, address=True, kyc="approved", now=now)
            await set_endpoint(
                conn,
                record.account_id,
                f"{self.receiver_url}/{record.account_id}",
                allow_private=True,
                now=now,
                seal=Seal(self.settings.secret_key),
                chance=secrets.token_bytes(32),
            )
            await conn.execute(
                "UPDATE webhook_endpoint SET kinds = $2 WHERE account_id = $1",
                record.account_id, [str(kind) for kind in EventKind],
            )  # fmt: skip
        merchant = self.merchants[str(record.account_id)] = WalkMerchant(record)
        return merchant

    async def set_merchant_fees(self, merchant: WalkMerchant, fees: Fees) -> None:
        """Set a merchant's fees, as staff do at /plataforma/lojas."""
        terms = FeeTerms(
            pix_bps=fees.pix_bps,
            pix_cents=fees.pix_cents,
            pix_cents_min=fees.pix_min,
            boleto_cents=fees.boleto,
            withdrawal_cents=fees.withdrawal,
        )
        origin, seal = Origin("walk", "walk", "walk"), Seal(self.settings.secret_key)
        async with self.pool.acquire() as conn, conn.transaction():
            await set_fees(conn, merchant.account_id, terms, "walk", origin, now=self.clock.now(), seal=seal)

    async def create_partner(self, merchant: WalkMerchant) -> str:
        """Create a partner with this merchant's account and no share yet. Returns its integrador_code."""
        async with self.pool.acquire() as conn, conn.transaction():
            made = await create_integrator(
                conn, name="Parceira", account_id=merchant.account_id, now=self.clock.now(), share_bps=0
            )
        return made.integrador_code

    async def agree(self, code: str, *, share_bps: int, active: bool, now: datetime) -> None:
        """Set a partner's share, as `quita integrator set CODE --share` does, and whether boletos may have his code."""
        async with self.pool.acquire() as conn, conn.transaction():
            await set_integrator(conn, code, now=now, share_bps=share_bps, active=active)

    async def restart(self) -> None:
        """Restart the clock for a new walk. The walk before it has settled its work, and no account is shared."""
        self.clock.restart()
        self._tokens.clear()
        self.merchants.clear()
        self.errors.clear()
        await self.set_bank_behaviour()
        await self.pool.execute("DELETE FROM bank_order")
        await self.pool.execute("DELETE FROM bank_hint")
        await self.resume()
        await self.pool.execute(_SKIP_RECONCILIATION, self.clock.now())

    async def set_bank_behaviour(self, *, refuse: bool = False, returns: ReturnRules = RETURNS_SUCCEED) -> None:
        """Set how both banks answer from now on; `refuse` applies to production only."""
        self.wire.fault = "refuse" if refuse else "up"
        for bank in self.banks.values():
            await bank.transfers.set_rules(returns)

    async def suspend(self) -> None:
        async with self.pool.acquire() as conn, conn.transaction():
            await suspend_pix(conn, now=self.clock.now())

    async def resume(self) -> None:
        async with self.pool.acquire() as conn, conn.transaction():
            await resume_pix(conn)

    async def pay_at_bank(self, **asked: Any) -> int:
        """A payer pays at the production bank. Returns the status of its answer."""
        async with self.http.post(f"{self.bank_url}/simulated/pay", json=asked) as answer:
            return answer.status

    # Time

    async def wait_until_idle(self, *, sent: bool = False) -> None:
        """Wait until no order is claimed or due, no hint is due, no share is unposted, and no retry is due soon.

        With `sent` wait for refunds and withdrawals too, which are sent later and may be looked up for long.
        """
        until = time.monotonic() + QUIET_S_MAX
        wake_at = time.monotonic() + _WAKE_EVERY_S
        moves = 0
        while True:
            now = self.clock.now()
            row = await self.pool.fetchrow(_UNDER_WAY, now, sent)
            assert row is not None
            if row["unshared"]:
                self.runner.wake("partner_shares")
            elif row["now"] == 0:
                if row["next"] is None or row["next"] > now + (timedelta(days=3) if sent else SOON):
                    return
                if row["told"] == 0:  # deliveries being sent would lose their lease
                    moves += 1
                    assert moves <= _MOVES_MAX, await self.describe_work()
                    self.clock.jump(max(row["next"] - now, timedelta()) + timedelta(milliseconds=1))
                    wake_at = 0.0
            assert time.monotonic() < until, await self.describe_work()
            if time.monotonic() >= wake_at:
                self.wake()
                wake_at = time.monotonic() + _WAKE_EVERY_S
            await asyncio.sleep(_POLL_S)

    async def advance(self, by: timedelta) -> None:
        """Advance the clock, and wait until everything that became due is done."""
        await self.wait_until_delivered()
        self.clock.jump(by)
        await self.pool.execute(_SKIP_RECONCILIATION, self.clock.now())
        self.wake()
        await self.wait_until_idle()

    async def wait_until_at_rest(self) -> None:
        """Wait until all work is done, refunds and withdrawals included, and every webhook is delivered."""
        await self.wait_until_idle(sent=True)
        await self.wait_until_delivered()

    async def wait_until_delivered(self) -> None:
        """Wait until every webhook is delivered."""
        until = time.monotonic() + REST_S_MAX
        accounts = [UUID(each) for each in self.merchants]
        while await self.pool.fetchval(_UNDELIVERED, accounts):
            assert time.monotonic() < until, "webhooks were not delivered"
            # An attempt that failed on a busy machine is due again seconds later, by a clock that hardly moves.
            retry_at = await self.pool.fetchval(_RETRY_AT, accounts)
            if retry_at is not None and timedelta() < retry_at - self.clock.now() <= SOON:
                self.clock.jump(retry_at - self.clock.now())
            self.wake()
            await asyncio.sleep(_POLL_S)

    async def wait_until(self, true: Callable[[], Any], what: str) -> None:
        """Wait until the condition holds, with the help of reconcilers; fail with `what` when it does not."""
        until = time.monotonic() + QUIET_S_MAX
        wake_at = time.monotonic() + _WAKE_EVERY_S
        while not await true():
            assert time.monotonic() < until, f"{what}; {await self.describe_work()}"
            if time.monotonic() >= wake_at:
                self.clock.jump(_RETRY)
                self.wake()
                wake_at = time.monotonic() + _WAKE_EVERY_S
            await asyncio.sleep(_POLL_S)

    def wake(self) -> None:
        for duty in self.runner.duties.values():
            self.runner.wake(duty.name)

    async def describe_work(self) -> str:
        orders = await self.pool.fetch("SELECT kind, state, attempts, due_at, outcome FROM bank_order LIMIT 20")
        hints = await self.pool.fetch("SELECT about, due_at FROM bank_hint LIMIT 20")
        being_sent = await self.pool.fetch(_BEING_SENT)
        return f"under way at {self.clock.now()}: {orders}, {hints}, deliveries: {being_sent}"


@asynccontextmanager
async def running_service(servers: Any) -> AsyncIterator[Service]:
    """A service with its own database on this server."""
    async with own_database(servers, "walk") as own_url, _running(own_url, servers.redis_url) as service:
        yield service


@asynccontextmanager
async def _running(database_url: str, redis_url: str) -> AsyncIterator[Service]:
    clock = Clock()
    api_port, bank_port = free_port(), free_port()
    bank_url, own_url = f"http://127.0.0.1:{bank_port}", f"http://127.0.0.1:{api_port}"
    async with AsyncExitStack() as opened:
        api = await opened.enter_async_context(
            open_api(
                database_url,
                redis_url,
                BASE_URL=own_url,
                BANK_URL=bank_url,
                WEBHOOK_ALLOW_PRIVATE="1",
                WEBHOOK_JITTER="0",
            )
        )
        _move_clock(api, clock.now)
        pool = await open_pool(database_url, name="walk", size=8)
        opened.push_async_callback(pool.close)
        # This bank does not know the locations that the fixture of the API has stored.
        await pool.execute("DELETE FROM pix_location")
        await pool.execute("UPDATE simulated_boleto_rules SET settle_after_s = 0")
        # A worker creates partitions half a year ahead; here the clock may jump further between two of its runs.
        await pool.execute(
            "SELECT make_months('read_event_sandbox', $1, $2)", CLOCK_START.date(), (CLOCK_START + MONTHS_AHEAD).date()
        )
        seal = Seal(api.settings.secret_key)
        http = await opened.enter_async_context(
            aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), connector=aiohttp.TCPConnector(limit=0), trust_env=False
            )
        )
        books = {
            mode: SimulatedBank(pool, seal, world=SANDBOX if mode.test else PRODUCTION, url=bank_url, now=clock.now)
            for mode in Mode
        }
        wire = await opened.enter_async_context(
            _serving_bank(books[Mode.PRODUCTION], api.settings, seal, pool, http, bank_port)
        )
        service = Service(api, clock, pool, books, wire)
        service.http, service.bank_url, service.receiver_url = http, bank_url, f"{own_url}/receiver"
        await opened.enter_async_context(_serving_api(service, api_port))
        await books[Mode.PRODUCTION].boletos.set_webhook(f"{own_url}/bank/{api.settings.bank_callback_token}/boletos")
        await opened.enter_async_context(_working(service, seal))
        with _collected_errors(service.errors):
            yield service


@contextmanager
def _collected_errors(errors: list[dict[str, Any]]) -> Iterator[None]:
    """Collect what is logged as an error, and write no log."""

    def keep(logger: Any, method: str, event: Any) -> Any:
        if method in ("error", "exception", "critical"):
            errors.append(dict(event) | {"exc_info": repr(sys.exc_info()[1])})
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[keep], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)


def _move_clock(api: Api, now: Callable[[], datetime]) -> None:
    """Have the API, which was opened with the machine's clock, read this clock."""
    client = api.app.state.context
    client._now = now


@asynccontextmanager
async def _serving_bank(
    bank: SimulatedBank, settings: Settings, seal: Seal, pool: Pool, http: aiohttp.ClientSession, port: int
) -> AsyncIterator[Wire]:
    signer = await open_signer(pool, seal, jku=settings.bank_url + JWKS_PATH, now=bank.now())
    access = Access(
        client_id=settings.bank_client_id,
        client_secret=settings.bank_client_secret,
        app_key=settings.bank_app_key,
        token_key=b"k" * 32,
    )
    wire = Wire(bank, signer, access)
    agreement = agreement_of(settings)
    teller = Teller(bank, wire, http)
    telling = asyncio.create_task(teller.run())
    app = web.Application(middlewares=[books_may_be_away])
    app.add_routes([*ControlRoutes(bank, wire, teller).routes(), *BoletoControl(bank.boletos).routes()])
    app.add_routes([*CobvWire(wire).routes(), *BoletoWire(wire, bank.boletos, signer, agreement).routes()])
    app.add_routes([*ReturnWire(wire, bank.transfers).routes(), *wire.routes()])
    try:
        async with listening(app, port):
            yield wire
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


@asynccontextmanager
async def _serving_api(service: Service, port: int) -> AsyncIterator[None]:
    """Serve the API at an address for the bank's callbacks, and the merchants' webhook receivers beside it."""

    async def hear(request: web.Request) -> web.Response:
        merchant = service.merchants.get(request.match_info["account_id"])
        body = await request.read()
        if merchant is not None:
            merchant.received_bodies.setdefault(msgspec.json.decode(body)["event_id"], []).append(body)
        return web.Response(status=200)

    async def answer(request: web.Request) -> web.Response:
        headers = [(name.lower(), value) for name, value in request.raw_headers]
        reply = await service.api.ask(request.method, request.path, headers=headers, body=await request.read())
        return web.Response(status=reply.status, body=reply.body)

    app = web.Application()
    app.router.add_post("/receiver/{account_id}", hear)
    app.router.add_route("*", "/{path:.*}", answer)
    async with listening(app, port):
        yield


@asynccontextmanager
async def _working(service: Service, seal: Seal) -> AsyncIterator[None]:
    """Run a worker: every duty of the table, its wake-ups, its webhook dispatcher."""
    settings, now, runner = service.settings, service.clock.now, service.runner
    async with AsyncExitStack() as opened:
        redis = open_redis(settings.redis_url, blocking=False)
        opened.push_async_callback(redis.aclose, close_connection_pool=True)
        adapter = open_bank(settings, service.http, now, detail_age_s=0.0)
        context = Context(
            settings=settings,
            pool=service.pool,
            redis=redis,
            jobs=runner,
            seal=seal,
            banks=Banks(service.banks[Mode.SANDBOX], {settings.bank: adapter}),
            now=now,
            worker="walk",
            stopping=runner.stopping,
        )
        webhooks = await opened.enter_async_context(guarded_session(allow_private=True, nameservers=()))
        dispatcher = WebhookDispatcher(context, webhooks, wake=partial(runner.wake, "webhooks"))
        runner.add(duties(context, dispatcher, runner.failing))
        waking = asyncio.create_task(runner.wake_at_intervals())
        working = asyncio.create_task(keep_running(runner, settings.redis_url))
        try:
            yield
        finally:
            runner.stopping.set()
            waking.cancel()
            await asyncio.gather(waking, working, runner.stop(), dispatcher.stop(), return_exceptions=True)
