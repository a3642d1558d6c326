"""A worker's own port answers whether it is alive and ready and which duties fail, and serves its metrics."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime.coordination.leases import take_lease
from runtime.jobs import Jobs
from runtime.local.embedded import EmbeddedRedis
from runtime.local.ports import free_port
from runtime.postgres import connect
from runtime.readiness import ASK_S_MAX
from runtime.settings import read_settings
from tests.support.database import own_database, owner_of
from tests.support.hanging import hanging
from tests.support.in_process import open_api
from tests.support.merchant import until_answer
from tests.support.system import ROOT, System, remove_home, temporary_home, until
from workers.context import WORKER, Context, open_context
from workers.probes import serve_probes
from workers.settings import open_runner


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker soon takes a server that is slow for one that is away; on a busy machine it may only be slow."""
    monkeypatch.setattr("runtime.readiness.ASK_S_MAX", 30.0)
    monkeypatch.setattr("runtime.redis.COMMAND_S", 30.0)
    monkeypatch.setattr("workers.settings._LEAVE_S", 30.0)


def _env(servers: Any, port: int, **more: str) -> dict[str, str]:
    return {
        "DATABASE_URL": servers.database_url, "REDIS_URL": servers.redis_url, "SECRET_KEY": "5e" * 32,
        "BANK_URL": f"http://127.0.0.1:{free_port()}", "WORKER_PORT": str(port), **more,
    }  # fmt: skip


@asynccontextmanager
async def probed(env: dict[str, str], failing: list[str]) -> AsyncIterator[tuple[Context, httpx.AsyncClient]]:
    settings = read_settings(env)
    stopping = asyncio.Event()
    async with (
        open_context(settings, _NoJobs(), stopping) as context,
        serve_probes(context, lambda: failing),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{settings.watching.worker_port}", timeout=30) as client,
    ):
        yield context, client


class _NoJobs(Jobs):
    def __init__(self) -> None:
        pass

    def wake(self, name: str) -> None:
        pass


async def test_a_worker_with_a_failing_duty_is_not_ready_and_names_the_duty(servers: Any) -> None:
    failing: list[str] = []
    async with probed(_env(servers, free_port()), failing) as (context, client):
        reply = await client.get("/readyz")
        assert (reply.status_code, reply.json()) == (200, {"status": "ok", "postgres": True, "redis": True})
        failing.append("mail")
        reply = await client.get("/readyz")
        assert (reply.status_code, reply.json()["failing"]) == (503, ["mail"])
        failing.clear()
        context.stopping.set()
        reply = await client.get("/readyz")
        assert (reply.status_code, reply.json()) == (503, {"status": "draining"})
        assert (await client.get("/livez")).status_code == 200
        assert "http_server_requests" in (await client.get("/metrics")).text


async def test_a_worker_without_redis_is_degraded_and_still_ready(servers: Any) -> None:
    env = _env(servers, free_port(), REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")
    async with probed(env, []) as (_, client):
        reply = await client.get("/readyz")
        assert (reply.status_code, reply.json()["status"]) == (200, "degraded")


async def test_a_worker_without_postgresql_is_alive_and_not_ready(servers: Any) -> None:
    async with (
        own_database(servers, "probed") as url,
        probed(_env(servers, free_port(), DATABASE_URL=url), []) as (context, client),
    ):
        assert (await client.get("/readyz")).status_code == 200
        await _end_connections(servers.owner_url, url.rpartition("/")[2])
        reply = await client.get("/readyz")
        assert (reply.status_code, reply.json()["postgres"]) == (503, False)
        assert (await client.get("/livez")).status_code == 200
        context.pool.terminate()


async def test_with_a_read_only_postgresql_a_worker_is_not_ready_and_the_api_still_serves_reads(servers: Any) -> None:
    """As with a hosted PostgreSQL whose disk is nearly full, or a demoted server behind a proxy."""
    async with own_database(servers, "read_only") as url, open_api(url, servers.redis_url) as api:
        owner = await connect(owner_of(servers, url))
        try:
            name = url.rpartition("/")[2]
            await owner.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
            others = (
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()"
            )
            await owner.execute(others, name)
        finally:
            await owner.close()
        async with asyncio.timeout(30):
            while "writes" not in (reply := await api.get("/readyz", token=None)).json():
                pass  # answered on an old connection, or on one that is being ended
        degraded = {"status": "degraded", "postgres": True, "writes": False, "redis": True}
        assert (reply.status, reply.json()) == (200, degraded)
        async with probed(_env(servers, free_port(), DATABASE_URL=url), []) as (_, client):
            asked = await client.get("/readyz")
            unavailable = {"status": "unavailable", "postgres": True, "writes": False}
            assert (asked.status_code, asked.json()) == (503, unavailable)


async def test_with_a_redis_that_refuses_writes_a_worker_is_degraded_and_still_ready(servers: Any, home: Path) -> None:
    redis = EmbeddedRedis()
    redis.start(home)
    try:
        async with probed(_env(servers, free_port(), REDIS_URL=redis.dsn), []) as (context, client):
            assert (await client.get("/readyz")).json()["redis"] is True
            await context.redis.config_set("maxmemory", 1)
            reply = await client.get("/readyz")
            assert (reply.status_code, reply.json()["status"], reply.json()["redis"]) == (200, "degraded", False)
    finally:
        redis.stop()


async def test_a_probe_does_not_wait_for_a_postgresql_that_hangs(servers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prober gives up after a second or two, and then knows only that nothing answers."""
    async with (
        hanging(servers.database_url) as (url, hangs),
        probed(_env(servers, free_port(), DATABASE_URL=url), []) as (context, client),
    ):
        assert (await client.get("/readyz")).status_code == 200
        hangs.set()
        monkeypatch.setattr("runtime.readiness.ASK_S_MAX", ASK_S_MAX)
        replies = await asyncio.gather(*(client.get("/readyz") for _ in range(3)))
        assert [(reply.status_code, reply.json()["postgres"]) for reply in replies] == [(503, False)] * 3
        kept = context.pool.get_size() - context.pool.get_idle_size()
        assert kept == 1, "the probes share one statement, which is still being cancelled"
        context.pool.terminate()


async def test_a_worker_that_ends_in_order_leaves_no_lease_that_others_wait_for(servers: Any) -> None:
    """The reconciler's lease outlasts a slow page; after a deploy, payments without a callback waited for its end."""
    async with own_database(servers, "leaving") as url:
        settings = read_settings(_env(servers, free_port(), DATABASE_URL=url))
        leases = "SELECT array_agg(name ORDER BY name) FROM lease WHERE until > now()"
        owner = await connect(owner_of(servers, url))
        try:
            async with open_runner(settings):
                for name, holder in (("reconciler:pix:x", WORKER), ("reconciler:boleto:x", "another")):
                    assert await take_lease(owner, name=name, holder=holder, lease_s=120)
                await until_answer(lambda: owner.fetchval("SELECT EXISTS (SELECT FROM worker_heartbeat)"))
            assert await owner.fetchval(leases) == ["reconciler:boleto:x"]
            assert not await owner.fetchval("SELECT EXISTS (SELECT FROM worker_heartbeat)")
        finally:
            await owner.close()


async def test_each_worker_beats_and_keeps_its_leases_although_another_one_takes_every_cron(servers: Any) -> None:
    """A worker whose turn at a cron came once a minute was shown as not well, and reports waited for their holder."""
    async with own_database(servers, "beating") as url:
        owner = await connect(owner_of(servers, url))
        try:
            # Without arq no cron comes here.
            async with open_runner(read_settings(_env(servers, free_port(), DATABASE_URL=url))):
                follow = "SELECT as_of FROM report_position WHERE EXISTS (SELECT FROM worker_heartbeat)"
                seen: set[Any] = set()
                async with asyncio.timeout(30):
                    while len(seen - {None}) < 3:
                        seen.add(await owner.fetchval(follow))
                        await asyncio.sleep(0.05)
        finally:
            await owner.close()


async def _end_connections(admin: str, name: str) -> None:
    from runtime.postgres import connect

    conn = await connect(admin)
    try:
        await conn.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        await conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    finally:
        await conn.close()


def test_a_worker_process_answers_probes_until_it_exits(servers: Any, tmp_path: Path) -> None:
    port = free_port()
    env = _env(servers, port, QUITA_HOME=str(tmp_path), PATH="/usr/bin:/bin", PYTHONPATH=str(ROOT), QUITA_ENV="local")
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen([sys.executable, "-m", "workers"], cwd=ROOT, env=env, stderr=log)
    try:

        def ready() -> bool:
            try:
                return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=30).status_code == 200
            except httpx.TransportError:
                return False

        until(ready, within_s=60, what="the worker is ready")
        assert "duty_runs_total" in httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
        assert b"GET" not in (tmp_path / "worker.log").read_bytes(), "probes are not logged"
    finally:
        worker.kill()
        worker.wait()


def test_several_workers_of_one_machine_have_consecutive_ports() -> None:
    home = temporary_home()
    first = next(port for port in range(free_port(), 65_000) if _free(port) and _free(port + 1))
    system = System(home, env={"WORKER_PROCESSES": "2", "WORKER_PORT": str(first)})
    try:
        system.start()
        for port in (first, first + 1):
            until(lambda port=port: _lives(port), what=f"port {port}")
        assert system.stop() == 0
    finally:
        if system.running():
            system.kill()
        remove_home(home)


def _free(port: int) -> bool:
    from runtime.local.ports import port_is_free

    return port_is_free(port)


def _lives(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/livez", timeout=30).status_code == 200
    except httpx.TransportError:
        return False
