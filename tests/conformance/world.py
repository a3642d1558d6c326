"""The setting of a conformance case: the API in this process, two merchants, and a worker for boletos.

The worker's own code calls the simulated bank. The bank can be made silent, with requests that wait for it only
0.15 s, so that a 502 does not take ten seconds.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID

import httpx
import msgspec

import api.idempotency.guard
import api.operations.boletos
from api.route import Route
from banks.simulated.bank import PRODUCTION, SimulatedBank
from commands.bank_orders.pix_locations import note_silence
from commands.charges.change import ChargeChange, ChargeCommand, change_charges
from commands.charges.pay import BoletoPaymentFacts, Confirmation, confirm_payments
from commands.journal import Entry
from commands.merchants.merchants import MerchantCreated, create_merchant
from commands.merchants.pix_suspension import resume_pix, suspend_pix
from commands.webhooks.endpoint import set_endpoint
from domain.charge import Charge
from domain.errors import Code
from domain.instants import SAO_PAULO
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from runtime.cells.number import cell_of, in_cell
from runtime.coordination.lanes import BOLETO_ORDERS
from runtime.postgres import Pool, transaction
from runtime.seal import Seal
from tests.support.banking import SECRET_KEY, worker_context
from tests.support.boleto_merchant import BOLETO, boleto_body, in_days
from tests.support.dual_merchant import DUAL, dual_body
from tests.support.in_process import Api, Reply, bearer, open_api
from web.app import make_app
from workers.orders.boleto import BoletoOrderWorker

PIX = "/v1/charges/pix"
SCHEDULES = "/v1/charge-schedules"
NOBODY = "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1"
DESTINATION = {"pix_key": "maria@example.com", "document": "52998224725"}
JSON = (b"content-type", b"application/json")
SILENT_S = 0.15
_SEAL = Seal(bytes.fromhex(SECRET_KEY))

Body = dict[str, Any]


class World:
    """`mine` is the merchant that asks, `theirs` another one; both are approved and complete. `limited` may make one
    request a second."""

    def __init__(self, at: Api, pool: Pool, limited: MerchantCreated) -> None:
        self.api = at
        self.pool = pool
        self.pools: dict[int, Pool] = {}
        """The pools of cells other than the first merchant's, by number."""
        self.mine, self.theirs, self.limited = at.first, at.second, limited
        self.awake = {mode: asyncio.Event() for mode in Mode}
        self.listens = True
        self.draining = {mode: asyncio.Lock() for mode in Mode}
        self.pages: dict[Code, tuple[int, str]] = {}
        self.document: dict[str, Any] = msgspec.json.decode(at.app.state.openapi)

    # Asking

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None,
        key: str | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> Reply:
        """Sends a request; a `body` of bytes is sent as it is, and None sends no body."""
        path, _, query = path.partition("?")
        sent = [*bearer(token), *headers]
        if body is not None and not any(name == b"content-type" for name, _ in headers):
            sent.append(JSON)
        if key is not None:
            sent.append((b"idempotency-key", key.encode()))
        raw = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
        return await self.api.ask(method, path, query=query.encode(), headers=sent, body=raw)

    async def test(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        """Sends a request with the test credential."""
        return await self.send(method, path, body, token=await self.token("test"), **more)

    async def production(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        return await self.send(method, path, body, token=await self.token("production"), **more)

    async def token(self, mode: str = "test", scope: str | None = None, of: MerchantCreated | None = None) -> str:
        return await self.api.token(of or self.mine, mode, scope)

    async def token_for(self, route: Route, of: MerchantCreated | None = None) -> str:
        """Returns a token with all scopes, in the route's mode."""
        return await self.token(mode_of(route), of=of)

    async def token_without_requests_left(self) -> str:
        """Returns a test token whose credential has no request left: it has one a second, which is used up here."""
        token = await self.token(of=self.limited)
        await self.send("GET", "/v1/charges", token=token)
        return token

    @staticmethod
    def new_key() -> str:
        return secrets.token_hex(8)

    async def merchant(self, *, address: bool = True, kyc: str = "approved") -> MerchantCreated:
        with in_cell(cell_of(self.mine.account_id)):
            async with self.pool.acquire() as conn:
                return await create_merchant(conn, name="Loja", address=address, kyc=kyc, now=datetime.now(UTC))

    def pool_of(self, id: UUID) -> Pool:
        """Returns the pool of the database that holds the rows of this account or charge."""
        return self.pools.get(cell_of(id), self.pool)

    # Resources that exist

    async def pix(self, mode: str = "test", of: MerchantCreated | None = None, **more: Any) -> str:
        """Creates a PIX charge and returns its id."""
        owner = of or self.mine
        body = {"account_id": str(owner.account_id), "amount": "10.00", **more}
        return await self._made(PIX, body, mode, owner)

    async def boleto(self, mode: str = "test", of: MerchantCreated | None = None, **more: Any) -> str:
        return await self._made(BOLETO, boleto_body(**more), mode, of or self.mine)

    async def dual(self, mode: str = "test", of: MerchantCreated | None = None, **more: Any) -> str:
        return await self._made(DUAL, dual_body(**more), mode, of or self.mine)

    async def _made(self, path: str, body: Body, mode: str, owner: MerchantCreated) -> str:
        token = await self.token(mode, of=owner)
        reply = await self.send("POST", path, body, token=token, key=self.new_key())
        assert reply.status == 201, reply
        charge_id: str = reply.json()["charge_id"]
        return charge_id

    async def in_state(self, state: str, make: Any = None, **more: Any) -> str:
        """Returns the id of a test charge that is paid, cancelled, expired or failed; `make` creates it, else `pix`."""
        charge_id: str = await (make or self.pix)(**more)
        how = {
            "paid": f"/v1/charges/{charge_id}/simulate-payment",
            "cancelled": f"/v1/charges/{charge_id}/cancel",
            "expired": f"/v1/sandbox/charges/{charge_id}/expire",
            "failed": f"/v1/sandbox/charges/{charge_id}/fail",
        }[state]
        reply = await self.test("POST", how)
        assert (reply.status, reply.json()["status"]) == (200, state), reply
        return charge_id

    async def paid(self, **more: Any) -> str:
        return await self.in_state("paid", **more)

    async def paid_boleto(self) -> str:
        """Returns the id of a test boleto that was paid by its line: there is no PIX to return by a devolucao."""
        charge_id = await self.boleto()
        number = await self.pool.fetchval(
            "SELECT doc->>'nosso_numero' FROM charge_view WHERE charge_id = $1", UUID(charge_id)
        )
        of = BoletoPaymentFacts(source=secrets.token_hex(10), method="boleto", nosso_numero=number, txid=None)
        await self._record_payment(charge_id, 15_000, days_ago=0, end_to_end_id=None, boleto=of)
        return charge_id

    async def paid_long_ago(self, days: int) -> str:
        """Returns the id of a PIX charge that was paid `days` days ago."""
        charge_id = await self.pix()
        await self._record_payment(charge_id, 1000, days_ago=days, end_to_end_id=_end_to_end_id(days))
        return charge_id

    async def _record_payment(self, charge_id: str, cents: int, *, days_ago: int, **more: Any) -> None:
        now = datetime.now(UTC)
        confirmation = Confirmation(
            charge_id=UUID(charge_id),
            amount_cents=cents,
            paid_at=now - timedelta(days=days_ago),
            payer_name="Maria",
            payer_document="52998224725",
            **more,
        )
        async with transaction(self.pool_of(confirmation.charge_id)) as conn:
            (outcome,) = await confirm_payments(conn, [confirmation], now=now, seal=_SEAL, fees=NO_FEES)
        assert isinstance(outcome, Charge), outcome

    async def empty_wallet(self) -> None:
        """Empties the test wallet by an adjustment, without a refund."""
        token = await self.token()
        found = await self.api.get(f"/v1/accounts/{self.mine.account_id}/balance", token=token)
        cents = int(found.json()["balance"].replace(".", ""))
        charge_id = UUID(await self.pix())

        def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
            return [
                ChargeChange(charge=charge, kind="wallet.adjusted", entry=Entry(type="adjustment", amount_cents=-cents))
            ]

        async with transaction(self.pool) as conn:
            command = ChargeCommand(charge_id=charge_id, owner=None, decide=decide, actor="test")
            await change_charges(conn, [command], now=datetime.now(UTC))

    async def refund(self, mode: str = "test", of: MerchantCreated | None = None) -> str:
        """Creates a refund and returns its id."""
        token = await self.token(mode, of=of)
        charge_id = await self.pix(mode, of)
        if mode == "test":
            await self.send("POST", f"/v1/charges/{charge_id}/simulate-payment", token=token)
        else:
            await self._record_payment(charge_id, 1000, days_ago=0, end_to_end_id=_end_to_end_id())
        reply = await self.send("POST", f"/v1/charges/{charge_id}/refunds", {}, token=token, key=self.new_key())
        assert reply.status == 201, reply
        refund_id: str = reply.json()["refund_id"]
        return refund_id

    async def fund(self, of: MerchantCreated) -> None:
        """Credits 1000.00 to the production wallet."""
        charge_id = await self.pix("production", of, amount="1000.00")
        await self._record_payment(charge_id, 100_000, days_ago=0, end_to_end_id=_end_to_end_id())

    async def withdrawal(self, of: MerchantCreated | None = None) -> str:
        """Creates a withdrawal and returns its id."""
        owner = of or self.mine
        await self.fund(owner)
        token = await self.token("production", of=owner)
        reply = await self.send("POST", "/v1/withdrawals", {"amount": "1.50"}, token=token, key=self.new_key())
        assert reply.status == 201, reply
        withdrawal_id: str = reply.json()["withdrawal_id"]
        return withdrawal_id

    async def schedule(self, of: MerchantCreated | None = None) -> str:
        """Creates a schedule and returns its id."""
        token = await self.token("production", of=of)
        reply = await self.send("POST", SCHEDULES, schedule_body(), token=token, key=self.new_key())
        assert reply.status == 201, reply
        schedule_id: str = reply.json()["schedule_id"]
        return schedule_id

    async def delivery(self, mode: str = "test", of: MerchantCreated | None = None) -> str:
        """Creates a webhook delivery and returns its id."""
        owner = of or self.mine
        async with transaction(self.pool_of(owner.account_id)) as conn:
            await set_endpoint(
                conn,
                owner.account_id,
                "http://127.0.0.1:9/hook",
                allow_private=True,
                now=datetime.now(UTC),
                seal=_SEAL,
                chance=secrets.token_bytes(32),
            )
        token = await self.token(mode, of=of)
        charge_id = await self.pix(mode, of)
        cancelled = await self.send("POST", f"/v1/charges/{charge_id}/cancel", token=token)
        assert cancelled.status == 200, cancelled
        page = await self.api.get(f"/v1/webhook-deliveries?charge_id={charge_id}", token=token)
        delivery_id: str = page.json()["data"][0]["delivery_id"]
        return delivery_id

    async def logged_request(self, mode: str = "test", of: MerchantCreated | None = None) -> str:
        """Writes a request to the request log and returns its id."""
        account_id, request_id = (of or self.mine).account_id, f"req_{secrets.token_hex(8)}"
        async with transaction(self.pool_of(account_id)) as conn:
            await conn.execute(
                "INSERT INTO request_log (account_id, test, at, request_id, client_id, method, path, status,"
                " duration_us) VALUES ($1, $2, now(), $3, 'a_client', 'GET', '/v1/me', 200, 900)",
                account_id, mode == "test", request_id,
            )  # fmt: skip
        return request_id

    # Circumstances

    @asynccontextmanager
    async def silent_bank(self) -> AsyncIterator[None]:
        """While it is open, no worker calls the bank, and requests wait SILENT_S for the bank."""
        self.listens = False
        for draining in self.draining.values():
            async with draining:
                pass  # a drain under way takes new orders until it ends, so it is waited for
        try:
            with patch.object(api.operations.boletos, "DEADLINE_S", SILENT_S):
                yield
        finally:
            self.listens = True
            # Workers settle the orders that requests have abandoned before the next case.
            for event in self.awake.values():
                event.set()

    @asynccontextmanager
    async def no_locations(self) -> AsyncIterator[None]:
        """While it is open, the bank makes no locations for production charges, and those kept ready are used up."""
        reserve = self.api.app.state.context.reserve
        waits = reserve._deadline_s
        reserve._held[Mode.PRODUCTION].clear()
        reserve._deadline_s = SILENT_S
        kept = await self.pool.fetch("DELETE FROM pix_location WHERE NOT test RETURNING *")
        async with self.pool.acquire() as conn:
            await note_silence(conn, test=False, bank=self.api.settings.bank)
        try:
            yield
        finally:
            reserve._deadline_s = waits
            await self.pool.executemany(
                "INSERT INTO pix_location (test, bank, location_ids, locations) VALUES ($1, $2, $3, $4)",
                [(row["test"], row["bank"], row["location_ids"], row["locations"]) for row in kept],
            )

    @asynccontextmanager
    async def pix_suspended(self) -> AsyncIterator[None]:
        async with self.pool.acquire() as conn:
            now = datetime.now(UTC)
            await suspend_pix(conn, now=now)
            try:
                yield
            finally:
                await resume_pix(conn)

    @asynccontextmanager
    async def key_in_progress(self, mode: str, key: str) -> AsyncIterator[None]:
        """While it is open, another request holds this idempotency key for longer than a second request waits."""
        locks = self.api.app.state.context.locks
        name = (Owner.of(self.mine.account_id, mode == "test"), key)
        _, token = await locks.take(name)
        try:
            with patch.object(api.idempotency.guard, "WAIT_S", SILENT_S):
                yield
        finally:
            await locks.release(name, token)


def _end_to_end_id(days_ago: int = 0) -> str:
    at = datetime.now(UTC) - timedelta(days=days_ago)
    return f"E99999994{at:%Y%m%d%H%M}{secrets.token_hex(6)[:11]}"


def mode_of(route: Route) -> str:
    return "production" if route.mode is Mode.PRODUCTION else "test"


def schedule_body(**more: Any) -> Body:
    """Returns the body of a schedule; a field given as None is left out."""
    body = {
        "payment_method": "pix", "amount": "99.90", "payer": {"name": "Ana", "document": "52998224725"},
        "frequency": "monthly", "first_due_date": in_days(40), **more,
    }  # fmt: skip
    return {name: value for name, value in body.items() if value is not None}


def yesterday() -> str:
    return (datetime.now(SAO_PAULO).date() - timedelta(days=1)).isoformat()


async def _pages_of_codes(at: Api, pool: Pool) -> dict[Code, tuple[int, str]]:
    """Returns status and text of the page that each code's documentation_url leads to."""
    web = make_app(at.settings, pool=pool)
    found = {}
    async with (
        web.lifespan(),
        httpx.AsyncClient(transport=httpx.ASGITransport(cast(Any, web)), base_url="http://docs.example.com") as client,
    ):
        for code in Code:
            page = await client.get(f"/docs/errors/{code.name}")
            found[code] = (page.status_code, page.text)
    return found


@asynccontextmanager
async def _opened(servers: Any, of_cells: Api | None) -> AsyncIterator[Api]:
    if of_cells is not None:
        yield of_cells
        return
    async with open_api(servers.database_url, servers.redis_url, SECRET_KEY=SECRET_KEY) as at:
        yield at


@asynccontextmanager
async def open_world(
    servers: Any, pool: Pool, of_cells: Api | None = None, others: Mapping[int, Pool] = MappingProxyType({})
) -> AsyncIterator[World]:
    """Opens a world with an API of its own, or with the API `of_cells` over several cells: `pool` is then the pool of
    the first merchant's cell, and `others` has the pools of the other cells with merchants."""
    async with AsyncExitStack() as stack:
        at = await stack.enter_async_context(_opened(servers, of_cells))
        async with pool.acquire() as conn:
            limited = await create_merchant(conn, name="Loja", address=True, kyc="approved", now=datetime.now(UTC))
            await conn.execute(
                "UPDATE account SET rate_per_s = 1, rate_burst = 1 WHERE account_id = $1", limited.account_id
            )
        world = World(at, pool, limited)
        world.pools.update(others)
        world.pages = await _pages_of_codes(at, pool)
        wake = at.app.state.context.jobs.wake

        def heard(name: str) -> None:
            wake(name)
            for mode, lane in BOLETO_ORDERS.items():
                if name == lane:
                    world.awake[mode].set()

        stack.enter_context(patch.object(at.app.state.context.jobs, "wake", heard))
        for number, its_pool in {cell_of(world.mine.account_id): pool, **others}.items():
            with in_cell(number):
                await stack.enter_async_context(_working(world, its_pool, servers.redis_url))
        yield world


@asynccontextmanager
async def _working(world: World, pool: Pool, redis_url: str) -> AsyncIterator[None]:
    """Runs workers for the boletos of this database."""
    bank = SimulatedBank(pool, _SEAL, world=PRODUCTION, url="https://bank.example.com", now=lambda: datetime.now(UTC))
    async with worker_context(pool, redis_url, bank) as context:

        async def work(mode: Mode) -> None:
            boletos = BoletoOrderWorker(context, mode)
            while True:
                # Orders that wait for their next attempt are found without a wake-up.
                with suppress(TimeoutError):
                    await asyncio.wait_for(world.awake[mode].wait(), 0.25)
                world.awake[mode].clear()
                async with world.draining[mode]:
                    if world.listens:
                        await boletos.drain()

        workers = [asyncio.create_task(work(mode)) for mode in Mode]
        try:
            yield
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
