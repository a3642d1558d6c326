"""A version is rolled out under load: every process of the API and every worker is replaced, and no client notices."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from aiohttp import web

from cli.run.serve import is_ready
from commands.merchants.merchants import create_merchant
from runtime.local.ports import free_port
from runtime.postgres import connect
from tests.support.database import own_database
from tests.support.listening import listening
from tests.support.system import ROOT, until

pytestmark = pytest.mark.slow

_HOP_BY_HOP = {"host", "content-length", "transfer-encoding", "connection", "content-encoding"}
_START_S_MAX = 300.0


class _CountingProxy:
    """A proxy in front of the bank that counts the calls."""

    def __init__(self, http: aiohttp.ClientSession, bank_url: str) -> None:
        self._http, self._bank_url = http, bank_url
        self.calls: Counter[str] = Counter()

    async def pass_on(self, request: web.Request) -> web.Response:
        self.calls[f"{request.method} {request.path}"] += 1
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        async with self._http.request(
            request.method, self._bank_url + request.path_qs, headers=headers, data=await request.read()
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    def registrations(self) -> dict[str, int]:
        """Returns by txid how often the bank was asked to register it."""
        calls = list(self.calls.items())  # A copy: the event loop counts on while a thread reads.
        found = {re.fullmatch(r"PUT .*/cob/(\w+)", call): times for call, times in calls}
        return {match[1]: times for match, times in found.items() if match}


@contextlib.asynccontextmanager
async def _counting_proxy(bank_url: str) -> AsyncIterator[tuple[str, _CountingProxy]]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        counted = _CountingProxy(http, bank_url)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", counted.pass_on)
        async with listening(app) as url:
            yield url, counted


@contextlib.contextmanager
def _process(module: str, *arguments: str, env: dict[str, str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], cwd=ROOT, env=env, stdout=out, stderr=out,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


class _Merchants:
    """Programs that create charges continuously, some on a kept connection, some on a new connection each time."""

    def __init__(self, base_url: str, account_id: str, token: str) -> None:
        self._base_url, self._account_id, self._token = base_url, account_id, token
        self.made: list[str] = []
        self.failed: list[str] = []

    async def run(self, *, keep_alive: bool) -> None:
        headers = {"Authorization": f"Bearer {self._token}"}
        body = {"account_id": self._account_id, "amount": "3.20"}
        async with aiohttp.ClientSession(
            self._base_url, headers=headers, connector=aiohttp.TCPConnector(force_close=not keep_alive)
        ) as http:
            while True:
                try:
                    async with http.post(
                        "/v1/charges/pix", json=body, headers={"Idempotency-Key": str(uuid4())}
                    ) as answer:
                        said = await answer.json()
                except aiohttp.ClientError as error:
                    self.failed.append(repr(error))
                    continue
                if answer.status == 201:
                    self.made.append(said["pix"]["txid"])
                else:
                    self.failed.append(f"{answer.status} {said}")
                await asyncio.sleep(0.1)  # The registrations of all charges must reach the bank before the test ends.


def _children(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))


async def _token(base_url: str, client: Any) -> str:
    async with (
        aiohttp.ClientSession() as http,
        http.post(
            f"{base_url}/v1/oauth/token",
            data={
                "grant_type": "client_credentials",
                "client_id": client.client_id,
                "client_secret": client.client_secret,
            },
        ) as answer,
    ):
        return str((await answer.json())["access_token"])


async def test_replacing_every_process_under_load_fails_no_request_and_repeats_no_registration(
    servers: Any, home: Path
) -> None:
    home.mkdir()
    bank_port, port = free_port(), free_port()
    async with (
        own_database(servers, "rolling") as url,
        _counting_proxy(f"http://127.0.0.1:{bank_port}") as (wire, counted),
    ):
        env = {
            "DATABASE_URL": url, "REDIS_URL": servers.redis_url, "SECRET_KEY": "5e" * 32, "QUITA_ENV": "local",
            "QUITA_HOME": str(home), "PORT": str(port), "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"],
            "API_PROCESSES": "2", "BANK_URL": wire, "PIX_LOCATIONS_MIN": "2000", "SANDBOX_LOCATIONS_MIN": "100",
        }  # fmt: skip
        log = home / "log"
        with (
            _process("banks.simulated", env=env | {"BANK_PORT": str(bank_port)}, log=log),
            _process("cli.main", "serve", env=env, log=log) as serve,
            _process("workers", env=env | {"WORKER_PORT": str(free_port())}, log=log) as worker,
        ):
            await _until(lambda: is_ready("127.0.0.1", port), log)
            conn = await connect(url)
            account = await create_merchant(conn, name="Loja", address=True, kyc="approved", now=datetime.now(UTC))
            base_url = f"http://127.0.0.1:{port}"
            merchants = _Merchants(base_url, str(account.account_id), await _token(base_url, account.production))
            running = [asyncio.create_task(merchants.run(keep_alive=bool(number % 3))) for number in range(6)]
            try:
                await _until(lambda: len(merchants.made) > 50, log)
                assert merchants.failed == []
                before = _children(serve.pid)
                assert len(before) == 2
                serve.send_signal(signal.SIGHUP)
                await _until(lambda: len(now := _children(serve.pid)) == 2 and not now & before, log)
                made = len(merchants.made)
                await _until(lambda: len(merchants.made) > made + 20, log)
                next_port = free_port()
                with _process("workers", env=env | {"WORKER_PORT": str(next_port)}, log=log):
                    await _until(lambda: is_ready("127.0.0.1", next_port), log)
                    worker.terminate()
                    assert await asyncio.to_thread(worker.wait, 60) == 0
                    made = len(merchants.made)
                    await _until(lambda: len(merchants.made) > made + 20, log)
                    for each in running:
                        each.cancel()
                    await asyncio.wait(running)
                    await _until(lambda: set(merchants.made) <= counted.registrations().keys(), log)
            finally:
                for each in running:
                    each.cancel()
                await conn.close()
        assert merchants.failed == [], log.read_text(encoding="utf-8")[-2000:]
        assert {txid: times for txid, times in counted.registrations().items() if times > 1} == {}
        assert all(task.cancelled() for task in running)


async def test_a_process_whose_successor_does_not_start_keeps_serving(servers: Any, home: Path) -> None:
    home.mkdir()
    port, log = free_port(), home / "log"
    env = {
        "DATABASE_URL": servers.database_url, "REDIS_URL": servers.redis_url, "SECRET_KEY": "5e" * 32,
        "QUITA_ENV": "local", "QUITA_HOME": str(home), "PORT": str(port), "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT), "API_PROCESSES": "1", "BANK_URL": f"http://127.0.0.1:{free_port()}",
    }  # fmt: skip
    with _process("cli.main", "serve", env=env, log=log) as serve:
        await _until(lambda: is_ready("127.0.0.1", port), log)
        before = _children(serve.pid)
        # Without the folder for its metrics a new process ends at once.
        (home / "metrics").rename(home / "elsewhere")
        (home / "metrics").write_text("")
        serve.send_signal(signal.SIGHUP)
        await _until(lambda: "has no successor that starts" in log.read_text(encoding="utf-8"), log)
        assert _children(serve.pid) == before
        assert is_ready("127.0.0.1", port)


async def _until(true: Any, log: Path) -> None:
    try:
        await asyncio.to_thread(until, true, within_s=_START_S_MAX)
    except AssertionError:
        raise AssertionError(log.read_text(encoding="utf-8", errors="replace")[-4000:]) from None
