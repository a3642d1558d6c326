"""A simulated bank on a real socket, a worker's context, and charges as the API writes them."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import aiohttp
import msgspec
from aiohttp import web

from banks.banco_do_brasil.adapter import BancoDoBrasil, agreement_of
from banks.banco_do_brasil.cobrancas import Cobrancas
from banks.banco_do_brasil.cobv import ApiCobv
from banks.banco_do_brasil.pix import ApiPix
from banks.banco_do_brasil.transfers import PixTransfers
from banks.banco_do_brasil.transport import Transport
from banks.choice import Banks
from banks.protocol import Location
from banks.simulated.bank import PRODUCTION, SANDBOX, SimulatedBank
from banks.simulated.control import ControlRoutes, Teller
from banks.simulated.return_wire import ReturnWire
from banks.simulated.signing import JWKS_PATH, Signer, open_signer
from banks.simulated.wire import Access, Wire, books_may_be_away
from commands.bank_orders.kinds import Payload
from commands.bank_orders.pix_locations import add_to_pool
from commands.charges.create_pix import NewPix, create_pix
from domain.instants import iso, to_millisecond
from domain.mode import Mode
from domain.pix.br_code import dynamic_br_code
from readmodels.charges.charge import ChargeDoc
from runtime.coordination.due_times import DueTimes
from runtime.ids import new_id, new_token
from runtime.jobs import Jobs
from runtime.local.ports import free_port
from runtime.postgres import Pool, transaction
from runtime.redis import open_redis
from runtime.seal import Seal
from runtime.settings import Settings, read_settings
from tests.support.listening import listening
from tests.support.orders import including_ended_orders
from workers.context import Context

SECRET_KEY = "5e" * 32  # the key of every process that uses the database of all tests
BANK: Final = "001"
"""The COMPE code of the bank of all charges in tests."""
CLIENT = {"client_id": "loja", "client_secret": "segredo", "app_key": "chave-do-app"}


def utc_now() -> datetime:
    return datetime.now(UTC)


def settings_for(bank_url: str = "http://127.0.0.1:9", **env: str) -> Settings:
    given = {
        "DATABASE_URL": "unused",
        "REDIS_URL": "redis://127.0.0.1:9/0",
        "SECRET_KEY": SECRET_KEY,
        "BANK_URL": bank_url,
    }
    return read_settings(given | env)


def adapter_at(
    http: aiohttp.ClientSession,
    url: str,
    *,
    now: Callable[[], datetime] = utc_now,
    transfers_url: str | None = "",
    detail_age_s: float = 0.0,
    **options: Any,
) -> BancoDoBrasil:
    """The adapter of the bank at `url`; `options` are those of its transport. By default transfers go to `url` too.

    The transport's own time limits outlast a machine that stalls; where a bank is to hang, a test gives shorter ones,
    and only until the bank answers again: a call that is cut off for slowness is one of unknown outcome."""
    transport = Transport(http, **({"oauth_url": f"{url}/oauth/token"} | CLIENT | options))
    pix = ApiPix(transport, api_url=f"{url}/pix/v2", now=now)
    boletos = Cobrancas(
        transport,
        api_url=f"{url}/cobrancas/v2",
        agreement=AGREEMENT,
        pix_received=pix.received_of,
        now=now,
        detail_age_s=detail_age_s,
    )
    transfers_at = f"{url}/transfers/v1" if transfers_url == "" else transfers_url
    cobvs = ApiCobv(transport, api_url=f"{url}/pix/v2", now=now)
    return BancoDoBrasil(
        pix, cobvs, boletos, PixTransfers(transport, api_url=f"{url}/pix/v2", transfers_url=transfers_at)
    )


AGREEMENT: Final = agreement_of(settings_for())


class RunningBank:
    """The simulated bank of production at `url`; `wire.fault` sets a fault without a request."""

    def __init__(self, url: str, wire: Wire, http: aiohttp.ClientSession) -> None:
        self.url = url
        self.bank = wire.bank
        self.wire = wire
        self.http = http
        self.requests: list[str] = []
        self.hidden: set[str] = set()
        """Numbers of boletos that this bank has registered but answers 404 for."""

    def adapter(self, **options: Any) -> BancoDoBrasil:
        return adapter_at(self.http, self.url, **({"transfers_url": None} | options))

    async def control(self, path: str, **body: Any) -> tuple[int, Any]:
        async with self.http.post(f"{self.url}/simulated/{path}", json=body) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def running_bank(
    pool: Pool, *, quirks: frozenset[str] = frozenset(), token_life_s: int = 600, slow_s: float = 5.0
) -> AsyncIterator[RunningBank]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    wire, _ = await open_wire(pool, url, quirks=quirks, token_life_s=token_life_s, slow_s=slow_s)
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        running = RunningBank(url, wire, http)
        async with serving_bank(running, port):
            yield running


async def open_wire(pool: Pool, url: str, *, token_life_s: int = 600, **options: Any) -> tuple[Wire, Signer]:
    """The wire of a simulated bank of production that is to be served at `url`, and the bank's signer."""
    seal = Seal(bytes.fromhex(SECRET_KEY))
    bank = SimulatedBank(pool, seal, world=PRODUCTION, url=url, now=utc_now)
    signer = await open_signer(pool, seal, jku=url + JWKS_PATH, now=utc_now())
    return Wire(bank, signer, Access(**CLIENT, token_key=b"k" * 32, token_life_s=token_life_s), **options), signer


@asynccontextmanager
async def serving_bank(running: RunningBank, port: int, *routes: web.RouteDef) -> AsyncIterator[None]:
    """Serve this bank, and these `routes` beside those that every bank has."""

    @web.middleware
    async def record_request(request: web.Request, handler: Any) -> web.StreamResponse:
        running.requests.append(f"{request.method} {request.path}")
        if any(f"/boletos/{number}" in request.path for number in running.hidden):
            return web.Response(status=404)
        response: web.StreamResponse = await handler(request)
        return response

    bank, wire = running.bank, running.wire
    teller = Teller(bank, wire, running.http)
    teller_task = asyncio.create_task(teller.run())
    app = web.Application(middlewares=[record_request, books_may_be_away])
    app.add_routes([*ControlRoutes(bank, wire, teller).routes(), *routes])
    app.add_routes([*ReturnWire(wire, bank.transfers).routes(), *wire.routes()])
    try:
        async with listening(app, port):
            yield
    finally:
        teller_task.cancel()
        await asyncio.gather(teller_task, return_exceptions=True)


@asynccontextmanager
async def worker_context(pool: Pool, redis_url: str, production: Any) -> AsyncIterator[Context]:
    """The context of a worker's duties, with the simulated bank for the sandbox and `production` as the bank of
    production. All bank orders and hints are deleted before."""
    await pool.execute("DELETE FROM bank_order")
    await pool.execute("DELETE FROM bank_hint")
    redis = open_redis(redis_url, blocking=False)
    jobs = Jobs(redis)
    seal = Seal(bytes.fromhex(SECRET_KEY))
    settings = settings_for()
    sandbox = SimulatedBank(pool, seal, world=SANDBOX, url=settings.app_url, now=utc_now)
    yield Context(
        settings=settings,
        pool=pool,
        redis=redis,
        jobs=jobs,
        seal=seal,
        banks=Banks(sandbox, {BANK: production}),
        now=utc_now,
        worker="test",
    )
    for _ in range(2):  # a wake-up that ends during the first stop may have started a job
        await jobs.stop()
    await redis.aclose(close_connection_pool=True)


async def make_account(pool: Pool) -> UUID:
    account_id = new_id()
    await pool.execute(
        "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
        " VALUES ($1, 'Loja', '12345678000190', 'Sao Paulo', 'approved', $2, $3)",
        account_id, str(account_id), utc_now(),
    )  # fmt: skip
    return account_id


async def make_charges(
    pool: Pool,
    account_id: UUID,
    locations: list[Location],
    *,
    test: bool,
    amount_cents: int = 1234,
    lifetime_s: int = 3600,
    bank: str = BANK,
    ordered: bool = True,
    due_times: DueTimes | None = None,
    **order: Any,
) -> list[UUID]:
    """Create pending PIX charges as the API does, one for each location. `order` adds fields to the bank request.
    Without `ordered`, no bank order is queued, and test charges are registered in the simulated bank's books at once.
    Orders are due as `due_times` says, or at once."""
    now = to_millisecond(utc_now())
    news = []
    for location in locations:
        charge_id = new_id()
        doc = ChargeDoc(
            account_id=str(account_id), charge_id=str(charge_id), test=test, public_id=new_token(),
            payment_method="pix", status="pending", version=1, amount_cents=amount_cents, txid=charge_id.hex,
            qr_code=dynamic_br_code(location=location.location, amount_cents=amount_cents, name="Loja", city="SP"),
            created_at=iso(now), expires_at=iso(now + timedelta(seconds=lifetime_s)),
        )  # fmt: skip
        request = {
            "amount_cents": amount_cents, "expires_in_s": lifetime_s, "created_at": iso(now),
            "location_id": location.location_id, "pix_key": str(account_id), **order,
        }  # fmt: skip
        news.append(
            NewPix(
                bank=bank,
                key=str(charge_id), fingerprint=bytes(32),
                order_id=new_id() if ordered else None, location=location.location,
                actor="test", request_id="test", payload=Payload(doc),
                order=msgspec.Raw(msgspec.json.encode(request)),
                due_at=due_times.take(account_id, now) if due_times is not None else None,
            )
        )  # fmt: skip
    for start in range(0, len(news), 100):
        async with transaction(pool) as conn:
            await create_pix(conn, news[start : start + 100])
    return [new.charge_id for new in news]


def new_locations(count: int) -> list[Location]:
    """PIX locations that no bank has registered."""
    return [Location(secrets.randbits(60), f"bank.example.com/pix/v2/{new_token()}") for _ in range(count)]


async def fill(pool: Pool, test: bool, locations: list[Location]) -> None:
    async with transaction(pool) as conn:
        await add_to_pool(conn, Mode.of(test), BANK, locations)


async def status_of(pool: Pool, charge_id: UUID) -> str:
    return str(await pool.fetchval("SELECT status FROM charge WHERE charge_id = $1", charge_id))


async def order_of(pool: Pool, charge_id: UUID, kind: str = "cob_register") -> Any:
    return await pool.fetchrow(
        including_ended_orders("SELECT * FROM bank_order WHERE charge_id = $1 AND kind = $2"), charge_id, kind
    )


async def make_orders_due(pool: Pool, charge_id: UUID) -> None:
    """Make the charge's waiting bank orders due, as if time had passed."""
    past = "UPDATE bank_order SET due_at = now() WHERE charge_id = $1 AND state = 'waiting'"
    await pool.execute(past, charge_id)
