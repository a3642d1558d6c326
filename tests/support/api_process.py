"""One process of the API, as `quita serve` runs it, on its own port and with its own settings."""

import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from cli.run.serve import is_ready
from commands.bank_orders.pix_locations import add_to_pool
from commands.merchants.merchants import MerchantCreated, create_merchant
from domain.mode import Mode
from runtime.local.ports import free_port
from runtime.local.process import child_setup
from runtime.postgres import connect
from tests.support.banking import BANK, new_locations
from tests.support.system import ROOT

_START_S_MAX = 60.0
_LOCATIONS = 4_000


class ApiProcess:
    def __init__(self, port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.port = port
        self.pid = process.pid
        self.base_url = f"http://127.0.0.1:{port}"
        self._log = log
        self._process = process

    def running(self) -> bool:
        return self._process.poll() is None

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def token(self, merchant: MerchantCreated, mode: str = "test") -> str:
        credential = getattr(merchant, mode)
        answer = httpx.post(
            f"{self.base_url}/v1/oauth/token", data={"grant_type": "client_credentials"}, timeout=30,
            auth=(credential.client_id, credential.client_secret),
        )  # fmt: skip
        return str(answer.json()["access_token"])


@contextmanager
def api_process(servers: Any, folder: Path, **env: str) -> Iterator[ApiProcess]:
    port, log = free_port(), folder / f"api-{secrets.token_hex(4)}.log"
    settings = {
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
        "SECRET_KEY": "5e" * 32,
        "QUITA_HOME": str(folder),
        "QUITA_ENV": "local",
        "PORT": str(port),
        "BANK_URL": f"http://127.0.0.1:{free_port()}",
        "PYTHONPATH": str(ROOT),
        "PATH": "/usr/bin:/bin",
        **env,
    }
    with socket.socket() as listening, log.open("ab") as out:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("0.0.0.0", port))  # noqa: S104 - clients may use any loopback address
        process = subprocess.Popen(
            [sys.executable, "-m", "cli.run.serve", str(listening.fileno())],
            cwd=ROOT, env=settings, stdout=out, stderr=out, stdin=subprocess.DEVNULL, pass_fds=(listening.fileno(),),
            preexec_fn=child_setup(death_signal=signal.SIGTERM),
        )  # fmt: skip
        try:
            made = ApiProcess(port, process, log)
            deadline = time.monotonic() + _START_S_MAX
            while not is_ready("127.0.0.1", port):
                assert process.poll() is None, made.said()
                assert time.monotonic() < deadline, made.said()
                time.sleep(0.05)
            yield made
        finally:
            process.terminate()
            process.wait(30)


@asynccontextmanager
async def prepared_merchants(servers: Any, count: int) -> AsyncIterator[list[MerchantCreated]]:
    """Approved merchants, and PIX locations for both modes."""
    conn = await connect(servers.database_url)
    try:
        for mode in (Mode.SANDBOX, Mode.PRODUCTION):
            await add_to_pool(conn, mode, BANK, new_locations(_LOCATIONS))
        yield [
            await create_merchant(conn, name=f"Loja {number}", address=True, kyc="approved", now=datetime.now(UTC))
            for number in range(count)
        ]
    finally:
        await conn.close()
