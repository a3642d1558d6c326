"""A merchant for tests: an HTTP client of the running system, in either mode."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import aiohttp
import asyncpg
import msgspec

from commands.bank_orders.kinds import Payload
from commands.bank_orders.pix_locations import take_one
from commands.charges.create_pix import NewPix, create_pix
from commands.charges.pay import Confirmation, confirm_payments
from commands.merchants.merchants import MerchantCreated, create_merchant
from domain.charge import Charge
from domain.errors import Refused
from domain.instants import iso, to_millisecond
from domain.merchants.fees import NO_FEES
from domain.pix.br_code import dynamic_br_code
from readmodels.charges.charge import ChargeDoc
from runtime.ids import new_id, new_token
from runtime.postgres import connect
from runtime.seal import Seal
from tests.support.log_search import remember_secret
from tests.support.system import System, until

PAGES_MAX = 1_000
ANSWER_S_MAX = 40.0

Books = asyncpg.Connection


class Answer(NamedTuple):
    """An answer. `body` is the decoded JSON, `raw` its bytes; header names are case-insensitive."""

    status: int
    body: Any
    headers: Mapping[str, str]
    raw: bytes

    @property
    def code(self) -> str:
        """The error code; empty when the answer is no error."""
        return str(self.body["error"]["code"]) if self.status >= 400 else ""

    def but_for_the_request_id(self) -> tuple[int, bytes, str]:
        """Status, bytes and content type without the request id, so that two errors can be compared byte for byte."""
        request_id = self.headers["X-Request-Id"]
        assert self.body["error"]["request_id"] == request_id
        return self.status, self.raw.replace(request_id.encode(), b""), self.headers["Content-Type"]


class ApiClient:
    """A client with one credential. Concurrent requests have separate connections, so all API processes serve them."""

    def __init__(self, base_url: str, account_id: UUID, client_id: str, client_secret: str) -> None:
        self.base_url = base_url
        self.account_id = str(account_id)
        self._client = {"client_id": client_id, "client_secret": client_secret}
        self._token = ""
        self.http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=ANSWER_S_MAX)
        )

    async def token(self) -> str:
        if not self._token:
            async with self.http.post(
                f"{self.base_url}/v1/oauth/token", data={"grant_type": "client_credentials", **self._client}
            ) as answer:
                assert answer.status == 200, await answer.text()
                self._token = (await answer.json())["access_token"]
                remember_secret(self._token)
        return self._token

    async def ask(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        params: Any = None,
    ) -> Answer:
        sent = {"Authorization": f"Bearer {await self.token()}", **(headers or {})}
        if key is not None:
            sent["Idempotency-Key"] = key
        async with self.http.request(method, self.base_url + path, json=json, headers=sent, params=params) as answer:
            raw = await answer.read()
            return Answer(answer.status, msgspec.json.decode(raw), answer.headers, raw)

    async def get(self, path: str, **params: Any) -> Answer:
        """GET; a parameter whose value is a list is repeated."""
        return await self.ask("GET", path, params=_pairs(params))

    async def post(self, path: str, json: Any = None) -> Answer:
        return await self.ask("POST", path, json=json)

    def body(self, amount: str = "10.00", **more: Any) -> dict[str, Any]:
        return {"account_id": self.account_id, "amount": amount, **more}

    async def create(self, amount: str = "10.00", *, key: str | None = None, **more: Any) -> Answer:
        """Create a PIX charge, with a new key unless one is given. `headers` are those of the request, `more` fields of
        the body."""
        headers = more.pop("headers", None)
        return await self.ask(
            "POST", "/v1/charges/pix", json=self.body(amount, **more), key=key or str(uuid4()), headers=headers
        )

    async def created(self, amount: str = "10.00", **more: Any) -> dict[str, Any]:
        """Create a PIX charge, which must succeed; returns the charge."""
        answer = await self.create(amount, **more)
        assert answer.status == 201, answer.raw
        charge: dict[str, Any] = answer.body
        return charge

    async def pay(self, charge_id: str) -> Answer:
        return await self.post(f"/v1/charges/{charge_id}/simulate-payment")

    async def paid(self, amount: str = "10.00", **more: Any) -> dict[str, Any]:
        """Create a charge and pay it; returns the paid charge."""
        charge = await self.created(amount, **more)
        answer = await self.pay(charge["charge_id"])
        assert answer.status == 200, answer.raw
        return dict(answer.body)

    async def cancel(self, charge_id: str) -> Answer:
        return await self.post(f"/v1/charges/{charge_id}/cancel")

    async def charge(self, charge_id: str) -> dict[str, Any]:
        answer = await self.get(f"/v1/charges/{charge_id}")
        assert answer.status == 200, answer.raw
        return dict(answer.body)

    async def all(self, path: str, **params: Any) -> list[dict[str, Any]]:
        """All rows of a list, read page by page."""
        rows: list[dict[str, Any]] = []
        cursor: dict[str, Any] = {}
        for _ in range(PAGES_MAX):
            page = await self.get(path, **params, **cursor)
            assert page.status == 200, page.raw
            rows += page.body["data"]
            if page.body["next_cursor"] is None:
                return rows
            cursor = {"cursor": page.body["next_cursor"]}
        raise AssertionError(f"{path} has no end")

    async def events(self, **params: Any) -> list[dict[str, Any]]:
        """All events of the feed, oldest first."""
        return await self.all("/v1/events", after_sequence=0, limit=100, **params)

    async def ledger(self, **params: Any) -> list[dict[str, Any]]:
        """All ledger entries, oldest first."""
        return await self.all(f"/v1/accounts/{self.account_id}/ledger", order="asc", limit=100, **params)

    async def balance(self) -> str:
        answer = await self.get(f"/v1/accounts/{self.account_id}/balance")
        assert answer.status == 200, answer.raw
        return str(answer.body["balance"])


def _pairs(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, str(value))
        for name, given in params.items()
        for value in (given if isinstance(given, list) else [given])
    ]


class ApiMerchant(NamedTuple):
    """A new merchant for a test, with an API client for each mode."""

    record: MerchantCreated
    sandbox: ApiClient
    production: ApiClient


@asynccontextmanager
async def database_of(system: System) -> AsyncIterator[Books]:
    """A connection to the system's database."""
    conn = await connect(system.database_url)
    try:
        yield conn
    finally:
        await conn.close()


@asynccontextmanager
async def new_merchant(system: System, *, kyc: str = "approved") -> AsyncIterator[ApiMerchant]:
    async with database_of(system) as books:
        record = await create_merchant(
            books, name=f"Loja {new_token()[:8]}", address=True, kyc=kyc, now=datetime.now(UTC)
        )
    clients = [
        ApiClient(system.base_url, record.account_id, each.client_id, each.client_secret)
        for each in (record.test, record.production)
    ]
    try:
        yield ApiMerchant(record, *clients)
    finally:
        await asyncio.gather(*(client.http.close() for client in clients))


async def create_charge_in_the_past(
    books: Books,
    client: ApiClient,
    *,
    test: bool,
    ago_s: float,
    lifetime_s: float,
    amount_cents: int = 1000,
    external_id: str | None = None,
    key: str | None = None,
    fingerprint: bytes = bytes(32),
) -> str:
    """Create a charge at an earlier time, by the product's own command, so that a test need not wait."""
    now = to_millisecond(datetime.now(UTC))
    created_at = to_millisecond(now - timedelta(seconds=ago_s))
    expires_at = to_millisecond(created_at + timedelta(seconds=lifetime_s))
    charge_id = new_id()
    place = await until_answer(lambda: take_one(books, test=test, bank="001"))
    doc = ChargeDoc(
        account_id=client.account_id,
        charge_id=str(charge_id),
        test=test,
        public_id=new_token(),
        external_id=external_id,
        payment_method="pix",
        status="pending",
        version=1,
        amount_cents=amount_cents,
        txid=charge_id.hex,
        qr_code=dynamic_br_code(location=place.location, amount_cents=amount_cents, name="Loja", city="Olinda"),
        created_at=iso(created_at),
        expires_at=iso(expires_at),
    )
    order = {
        "amount_cents": amount_cents, "expires_in_s": max(int(lifetime_s), 1), "created_at": doc.created_at,
        "location_id": place.location_id, "pix_key": str(uuid4()),
    }  # fmt: skip
    async with books.transaction():
        made = await create_pix(
            books,
            [
                NewPix(
                    bank="001",
                    key=key or str(charge_id), fingerprint=fingerprint,
                    order_id=new_id(), location=place.location, actor="test", request_id="req_before",
                    payload=Payload(doc), order=msgspec.Raw(msgspec.json.encode(order)),
                )
            ],
        )  # fmt: skip
    assert made == {charge_id}
    return str(charge_id)


async def until_answer(ask: Any, *, within_s: float = 30.0) -> Any:
    """Call `ask` until its awaited result is truthy; returns the result."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not (found := await ask()):
        assert asyncio.get_running_loop().time() < deadline, f"not within {within_s} s"
        await asyncio.sleep(0.05)
    return found


async def book_bank_payments(
    system: System,
    books: Books,
    charge_id: str,
    *cents: int,
    paid_at: datetime | None = None,
    now: datetime | None = None,
    end_to_end_ids: list[str] | None = None,
) -> list[Charge | Refused]:
    """Book payments of these amounts, as a worker does when the bank confirms them."""
    now = now or datetime.now(UTC)
    sources = end_to_end_ids or [f"E99999997{new_token()}" for _ in cents]
    async with books.transaction():
        return await confirm_payments(
            books,
            [
                Confirmation(
                    charge_id=UUID(charge_id), end_to_end_id=source, amount_cents=each, paid_at=paid_at or now,
                    payer_name="Fulana de Tal", payer_document="12345678909",
                )
                for source, each in zip(sources, cents, strict=True)
            ],
            now=now,
            seal=Seal(system.secret_key),
            fees=NO_FEES,
        )  # fmt: skip


def assert_books_are_clean(system: System) -> None:
    """Assert that `quita readmodels verify` finds no difference in the whole database."""
    result = system.quita("readmodels", "verify", "--json")
    assert (result.returncode, msgspec.json.decode(result.stdout)) == (0, {"clean": True, "differences": []}), (
        result.stdout
    )


@contextmanager
def paused(system: System, kind: str) -> Iterator[None]:
    """Stop all processes of a kind with SIGSTOP during the block: they neither work nor close their connections."""
    pids = system.pids(kind)
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def kill_process(system: System, kind: str, index: int = 0) -> int:
    """Kill one process with SIGKILL; returns its process id."""
    pid = system.pids(kind)[index]
    os.kill(pid, signal.SIGKILL)
    return pid


def until_replaced(system: System, kind: str, pid: int) -> None:
    """Wait until another process has replaced this one."""
    until(lambda: system.pids(kind) and pid not in system.pids(kind), what=f"another {kind}")
