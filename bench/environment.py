"""The environment of a bench: PostgreSQL with fsync on and Valkey in a temporary folder, the API as `quita serve` runs
it, and workers if wanted. All of it ends with the bench."""

import asyncio
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from api.app import PREPARE_AFTER_S
from banks.simulated.bank import LOCATIONS_MAX, PRODUCTION, SANDBOX, SimulatedBank
from cli.run.child import Child, Port
from cli.run.serve import is_ready
from commands.bank_orders.pix_locations import add_to_pool
from commands.merchants.merchants import create_merchant
from domain.mode import Mode
from runtime.local.embedded import EmbeddedPostgres, EmbeddedRedis
from runtime.local.ports import free_port
from runtime.postgres import Pool, open_pool, session
from runtime.seal import Seal
from runtime.settings import Settings, read_settings
from sql.migrate import migrate

_ROOT = Path(__file__).resolve().parent.parent
_READY_S_MAX = 60.0
_STOP_S_MAX = 20.0
_REST_S = 0.5
_REST_SHARE = 0.1  # of a core, for all processes together
# The rate limit is still checked, but with a bound that one credential's load does not reach.
_RATE_PER_S, _RATE_BURST = 1_000_000, 2_000_000
OWN_SETTINGS = (
    "DATABASE_URL", "DATABASE_OWNER_URL", "DATABASE_REPORT_URL", "DATABASE_READ_URL", "REDIS_URL",
    "SECRET_KEY", "BANK_URL", "BASE_URL", "APP_URL", "DOCS_URL", "HOST",
)  # fmt: skip
"""Settings of the machine that a bench replaces by its own."""


class Merchant(NamedTuple):
    account_id: str
    client_id: str
    token: str
    """The token of the test credential by default, because the sandbox's bank runs in the worker."""


class BenchEnvironment:
    """An environment made by `open_environment`: the servers run, the API does not yet."""

    def __init__(
        self, home: Path, env: dict[str, str], settings: Settings, owner_url: str, servers: dict[str, list[int]]
    ) -> None:
        self.home = home
        self.env = env
        self.settings = settings
        self.owner_url = owner_url
        self._processes = servers  # process ids by group

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds used so far by each group of processes: API, worker, PostgreSQL, Redis, and this client."""
        used = {group: sum(map(tree_cpu_s, pids)) for group, pids in self._processes.items()}
        return used | {"client": time.process_time()}

    @property
    def port(self) -> int:
        return self.settings.port

    @property
    def processes(self) -> int:
        return self.settings.api_processes

    @contextmanager
    def api(self) -> Iterator[None]:
        """Runs API_PROCESSES processes of the API, with the additional routes of bench.server."""
        port = Port(self.settings.host, self.port, self.processes)
        command = [sys.executable, "-m", "bench.server"]
        log = self.home / "api.log"
        children = [Child("api", command, env=self.env, log=log, port=port, index=n) for n in range(self.processes)]
        with running(children):
            _wait_until_ready(children, self.port, log)
            _wait_until_prepared(children)
            self._processes["API"] = [child.process.pid for child in children if child.process is not None]
            yield
            del self._processes["API"]
        port.close()

    @contextmanager
    def worker(self) -> Iterator[int]:
        """Runs a worker process; yields its process id."""
        child = Child("worker", [sys.executable, "-m", "workers"], env=self.env, log=self.home / "worker.log")
        with running([child]):
            assert child.process is not None
            self._processes["worker"] = [child.process.pid]
            yield child.process.pid
            del self._processes["worker"]

    @asynccontextmanager
    async def database(self) -> AsyncIterator[Pool]:
        """A pool of connections as the owner of the tables, so that benches can write data that commands would not."""
        pool = await open_pool(self.owner_url, name="bench", size=4)
        try:
            yield pool
        except BaseException:
            pool.terminate()  # tasks under way may still hold connections, so close() could wait for ever
            raise
        await pool.close()

    async def merchant(self, pool: Pool, mode: Mode = Mode.SANDBOX) -> Merchant:
        """A merchant whose credential of this mode has no effective rate limit."""
        now = datetime.now(UTC)
        async with session(pool) as conn:
            made = await create_merchant(conn, name="Padaria Aurora", address=True, kyc="approved", now=now)
            await conn.execute(
                "UPDATE account SET rate_per_s = $2, rate_burst = $3 WHERE account_id = $1",
                made.account_id, _RATE_PER_S, _RATE_BURST,
            )  # fmt: skip
            client_id = (made.test if mode.test else made.production).client_id
            return Merchant(str(made.account_id), client_id, await self._token(client_id, pool, now))

    async def _token(self, client_id: str, pool: Pool, now: datetime) -> str:
        token = secrets.token_urlsafe(32)
        async with session(pool) as conn:
            await conn.execute(
                "INSERT INTO access_token (token_hash, client_id, scopes, issued_at, expires_at)"
                " SELECT $1, client_id, scopes, $3, $4 FROM credential WHERE client_id = $2",
                hashlib.sha256(token.encode()).digest(), client_id, now, now + timedelta(hours=1),
            )  # fmt: skip
        return token

    async def fill_locations(self, pool: Pool, count: int, mode: Mode = Mode.SANDBOX) -> None:
        """Fills the pool to at least `count` PIX locations, which the simulated bank makes as for a worker."""
        seal, world = Seal(self.settings.secret_key), SANDBOX if mode.test else PRODUCTION
        bank = SimulatedBank(pool, seal, world=world, url=self.settings.bank_url, now=lambda: datetime.now(UTC))
        async with session(pool) as conn:
            available = await conn.fetchval(
                "SELECT coalesce(sum(count), 0)::bigint FROM pix_location WHERE test = $1", mode.test
            )
        while available < count:
            locations = (await bank.pix.create_locations(LOCATIONS_MAX)).value
            async with session(pool) as conn:
                await add_to_pool(conn, mode, self.settings.bank, locations)
            available += len(locations)


@contextmanager
def open_environment() -> Iterator[BenchEnvironment]:
    """Starts PostgreSQL (fsync on) and Valkey on free ports, and migrates."""
    folder = Path(tempfile.mkdtemp(prefix="quita-bench-"))
    folder.chmod(0o711)  # started by root, PostgreSQL runs as user nobody, who must be able to enter the folder
    home = folder / "home"
    postgres, redis = EmbeddedPostgres(), EmbeddedRedis()
    try:
        home.mkdir(mode=0o711)
        postgres.start(home)
        redis.start(home)
        env = {name: value for name, value in os.environ.items() if name not in OWN_SETTINGS} | {
            "QUITA_HOME": str(home),
            "PORT": str(free_port()),
            "DATABASE_URL": postgres.app_dsn,
            "DATABASE_REPORT_URL": postgres.report_dsn,
            "REDIS_URL": redis.dsn,
            "SECRET_KEY": secrets.token_hex(32),
            "BANK_URL": f"http://127.0.0.1:{free_port()}",
            "WEBHOOK_ALLOW_PRIVATE": "1",
            "PYTHONPATH": os.pathsep.join(part for part in (str(_ROOT), os.environ.get("PYTHONPATH")) if part),
        }
        settings = read_settings(env)
        asyncio.run(migrate(postgres.dsn, app_url=postgres.app_dsn, report_url=postgres.report_dsn))
        yield BenchEnvironment(home, env, settings, postgres.dsn, {"PostgreSQL": [postgres.pid], "Redis": [redis.pid]})
    finally:
        redis.stop()
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(children: list[Child]) -> Iterator[None]:
    try:
        for child in children:
            child.start()
        yield
    finally:
        for child in children:
            if child.process is not None:
                child.process.terminate()
        for child in children:
            if child.process is not None:
                try:
                    child.process.wait(_STOP_S_MAX)
                except subprocess.TimeoutExpired:
                    child.process.kill()


def tree_cpu_s(pid: int) -> float:
    """CPU seconds of a process and its descendants, including those that have ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return 0.0  # the process has ended meanwhile: its time is in its parent's count
    own_s = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return own_s + sum(tree_cpu_s(int(child)) for child in children)


def _wait_until_prepared(children: list[Child]) -> None:
    """Waits out the preparation of boletos: some seconds after its start an API process uses more than a second of CPU
    for it, which would distort a round."""
    time.sleep(PREPARE_AFTER_S)
    until_at_rest([child.process.pid for child in children if child.process is not None])


def until_at_rest(pids: Sequence[int]) -> None:
    """Waits until these processes are nearly idle."""
    deadline = time.monotonic() + _READY_S_MAX
    while time.monotonic() < deadline:
        before = sum(map(cpu_s, pids))
        time.sleep(_REST_S)
        if sum(map(cpu_s, pids)) - before < _REST_SHARE * _REST_S:
            return


def _wait_until_ready(children: list[Child], port: int, log: Path) -> None:
    deadline = time.monotonic() + _READY_S_MAX
    while not (all(child.listens() for child in children) and is_ready("127.0.0.1", port)):
        if time.monotonic() > deadline or not all(child.alive() for child in children):
            raise AssertionError(f"the API does not start: {log.read_text(encoding='utf-8')[-2000:]}")
        time.sleep(0.05)
