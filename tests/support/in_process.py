"""The API in the test's own process: a test chooses every byte of a request, and sends thousands of them a minute.

It is built like the front of `quita serve`, with the real PostgreSQL and Redis. The pool of locations is filled here,
because no worker runs.
"""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import msgspec
import pytest
from msgspec import Struct

from api.app import make_api
from commands.bank_orders.pix_locations import add_to_pool
from commands.merchants.merchants import MerchantCreated, create_merchant
from domain.errors import Code
from domain.mode import Mode
from runtime.postgres import connect
from runtime.settings import Settings, read_settings
from tests.support.banking import BANK, new_locations

DOCS_URL = "https://docs.example.com"
_LOCATIONS = 4_000


class Reply(Struct):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of the header of this name, or None; fails when the header occurs twice."""
        found = [value.decode("latin-1") for key, value in self.headers if key.decode("latin-1").lower() == name]
        assert len(found) < 2, f"{name} is there {len(found)} times"
        return found[0] if found else None

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def code(self) -> str:
        """The error code; fails unless the answer is exactly the error envelope."""
        return str(envelope(self)["code"])


def envelope(reply: Reply) -> dict[str, Any]:
    """The error of an answer; fails unless the envelope has everything that the contract prescribes."""
    assert reply.status >= 400, reply
    assert reply.header("content-type") == "application/json", reply
    assert reply.header("content-length") in (None, str(len(reply.body))), reply
    whole = reply.json()
    assert list(whole) == ["error"], reply
    error: dict[str, Any] = whole["error"]
    assert set(error) - {"fields"} == {"code", "message", "request_id", "documentation_url"}, reply
    code = Code[error["code"]]
    assert reply.status == code.status, reply
    assert error["message"]
    assert error["request_id"] == reply.header("x-request-id"), reply
    assert error["documentation_url"].endswith(f"/errors/{code.name}"), reply
    for field in error.get("fields", []):
        assert set(field) == {"field", "message"}, reply
        assert all(isinstance(text, str) for text in field.values()), reply
    assert b"Traceback" not in reply.body
    assert (reply.header("www-authenticate") is not None) == (reply.status == 401), reply
    if code is Code.UNAUTHENTICATED:
        assert str(reply.header("www-authenticate")).startswith("Bearer"), reply
    return error


class Api:
    """The API with three merchants: `first` and `second` are approved, the KYC of `third` is pending."""

    def __init__(self, app: Any, settings: Settings, merchants: Sequence[MerchantCreated]) -> None:
        self.app = app
        self.settings = settings
        self.first, self.second, self.third = merchants
        self._tokens: dict[tuple[str, str | None], str] = {}

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: bytes = b"",
        headers: Sequence[tuple[bytes, bytes]] = (),
        body: bytes = b"",
    ) -> Reply:
        """One request as it arrives at a server: `path` is percent-encoded; names and values may be any bytes."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path, errors="replace"),
            "raw_path": path.encode("utf-8", "surrogatepass"),
            "query_string": query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
            "state": {},
        }
        sent = [{"type": "http.request", "body": body, "more_body": False}]
        answered: list[Any] = []

        async def receive() -> Any:
            return sent.pop(0) if sent else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            answered.append(message)

        await self.app(scope, receive, send)
        start, *rest = answered
        assert start["type"] == "http.response.start"
        assert rest
        assert not rest[-1].get("more_body")
        return Reply(start["status"], list(start["headers"]), b"".join(each.get("body", b"") for each in rest))

    async def post(
        self,
        path: str,
        given: Any,
        *,
        token: str | None,
        key: str | None = None,
        more: Sequence[tuple[bytes, bytes]] = (),
    ) -> Reply:
        """POST of JSON; when `given` is bytes, they are sent unchanged."""
        headers = [(b"content-type", b"application/json"), *bearer(token), *more]
        if key is not None:
            headers.append((b"idempotency-key", key.encode()))
        body = given if isinstance(given, bytes) else b"" if given is None else msgspec.json.encode(given)
        return await self.ask("POST", path, headers=headers, body=body)

    async def get(self, path: str, *, token: str | None) -> Reply:
        path, _, query = path.partition("?")
        return await self.ask("GET", path, query=query.encode(), headers=bearer(token))

    async def token(self, merchant: MerchantCreated | None = None, mode: str = "test", scope: str | None = None) -> str:
        """An access token; the same arguments give the same token."""
        credential = getattr(merchant or self.first, mode)
        name = (credential.client_id, scope)
        if name not in self._tokens:
            form = {"grant_type": "client_credentials", **({} if scope is None else {"scope": scope})}
            form |= {"client_id": credential.client_id, "client_secret": credential.client_secret}
            reply = await self.post("/v1/oauth/token", form, token=None)
            assert reply.status == 200, reply
            self._tokens[name] = reply.json()["access_token"]
        return self._tokens[name]

    def pix(self, amount: Any = "10.00", **more: Any) -> dict[str, Any]:
        return {"account_id": str(self.first.account_id), "amount": amount, **more}

    async def create(self, *, token: str | None = None, **more: Any) -> dict[str, Any]:
        """Create a PIX charge of the first merchant, in test mode unless another token is given."""
        reply = await self.post(
            "/v1/charges/pix", self.pix(**more), token=token or await self.token(), key=secrets.token_hex(8)
        )
        assert reply.status == 201, reply
        made: dict[str, Any] = reply.json()
        return made

    def client(self) -> httpx.AsyncClient:
        """An httpx client whose requests go to this API."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://api.example.com")


def bearer(token: str | None) -> list[tuple[bytes, bytes]]:
    return [] if token is None else [(b"authorization", b"Bearer " + token.encode())]


@asynccontextmanager
async def open_api(database_url: str, redis_url: str, **env: str) -> AsyncIterator[Api]:
    """The API with three new merchants."""
    settings = read_settings(
        {
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            "SECRET_KEY": "5e" * 32,
            "QUITA_HOME": str(Path(os.devnull).parent / "none"),
            "BASE_URL": "https://api.example.com",
            "DOCS_URL": DOCS_URL,
            "RATE_PER_S": "100000",
            "RATE_BURST": "200000",
            "RATE_TOKENS_PER_MIN": "10000000",
            "RATE_CLIENT_TOKENS_PER_MIN": "10000000",
            **env,
        }
    )
    conn = await connect(database_url)
    try:
        merchants = [
            await create_merchant(conn, name=name, address=True, kyc=kyc, now=datetime.now(UTC))
            for name, kyc in (("Loja Açaí & Cia", "approved"), ("Padaria São João", "approved"), ("Nova", "pending"))
        ]
        for test in (True, False):
            await add_to_pool(conn, Mode.of(test), BANK, new_locations(_LOCATIONS))
    finally:
        await conn.close()
    app = make_api(settings)
    # The framework's lifespan must end in the task in which it began, but a fixture's two halves run in two tasks.
    started, ended = asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with app.lifespan():
            started.set()
            await ended.wait()

    life = asyncio.create_task(live())
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait({life, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if life.done():
        life.result()
    yield Api(app, settings, merchants)
    ended.set()
    await life


@asynccontextmanager
async def open_patient_api(database_url: str, redis_url: str) -> AsyncIterator[Api]:
    """The API that waits for a busy Redis: after a timeout of it the limit would let every request pass."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runtime.redis.COMMAND_S", 30.0)
        async with open_api(database_url, redis_url) as opened:
            yield opened


async def in_one_moment(ask: Callable[[], Awaitable[list[Reply]]], *, less_s: float = 1.0) -> list[Reply]:
    """Repeat `ask` until all its answers come within `less_s`: in a longer time the bucket gets a token back."""
    for _ in range(20):
        began = time.monotonic()
        replies = await ask()
        if time.monotonic() - began < less_s:
            return replies
    raise AssertionError(f"no round of requests was answered within {less_s} s")
