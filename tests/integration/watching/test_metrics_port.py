"""All processes share one metrics port; a process that ended leaves its counts there, but not its gauges."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.run.metrics_port import MetricsServer
from runtime.local.ports import free_port
from runtime.postgres import open_pool
from runtime.readiness import Readiness
from tests.support.database import own_database, owner_of
from tests.support.in_process import open_api
from tests.support.system import ROOT, System, until

_COUNTS = """
import os, sys
from runtime.local.count_files import reserve_count_files
reserve_count_files()
from prometheus_client import Counter, Gauge, Histogram
told = Counter("told", "Said.", ["what"])
told.labels("x").inc(float(sys.argv[1]))
Histogram("took", "Took.", buckets=(1, 2)).observe(1.5)
Gauge("held", "Held.", multiprocess_mode="livesum").set(7)
sys.stdout.write("ready\\n"); sys.stdout.flush()
if sys.stdin.readline():
    for n in range(300):
        told.labels(f"n{n}").inc()
    print("counted", flush=True)
"""


def metrics_at(port: int) -> str:
    return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text


@contextmanager
def counting(folder: Path, by: int) -> Iterator["subprocess.Popen[bytes]"]:
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    with subprocess.Popen(
        [sys.executable, "-c", _COUNTS, str(by)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def test_a_process_that_ended_keeps_its_counts_and_loses_its_gauges(tmp_path: Path) -> None:
    port = free_port()
    server = MetricsServer(tmp_path, "127.0.0.1", port)
    try:
        with counting(tmp_path, 2) as first, counting(tmp_path, 3):
            assert 'told_total{what="x"} 5.0' in metrics_at(port)
            assert "held 14.0" in metrics_at(port)
            first.kill()
            first.wait()
            server.ended(first.pid)
            after = metrics_at(port)
            assert 'told_total{what="x"} 5.0' in after
            assert 'took_bucket{le="2.0"} 2.0' in after
            assert "held 7.0" in after
            with counting(tmp_path, 4) as third:
                third.kill()
                third.wait()
                server.ended(third.pid)
                assert 'told_total{what="x"} 9.0' in metrics_at(port)
        assert len(list(tmp_path.glob("counter_*"))) == 2, "the processes that ended share one file"
    finally:
        server.stop()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 12 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no disk can be mounted here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill_disk(disk: Path) -> Path:
    file = disk / "full"
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as full:
        while True:
            full.write(bytes(4096))
    return file


def test_a_full_disk_neither_ends_a_counting_process_nor_loses_its_counts(small_disk: Path) -> None:
    port = free_port()
    folder = small_disk / "metrics"
    folder.mkdir()
    server = MetricsServer(folder, "127.0.0.1", port)
    try:
        with counting(folder, 2) as first:
            full = fill_disk(small_disk)
            assert first.communicate(b"full\n", timeout=30)[0].split() == [b"counted"]
            assert first.returncode == 0
            assert metrics_at(port).count('told_total{what="n') == 300
            with counting(folder, 5) as second:  # it keeps its counts to itself
                second.kill()
                second.wait()
            full.unlink()
            server.ended(first.pid)
            assert metrics_at(port).count('told_total{what="n') == 300
    finally:
        server.stop()


def test_a_process_without_room_for_its_counts_logs_it_and_leaves_no_file(tmp_path: Path) -> None:
    setup = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, 65_536))\n" + _COUNTS
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", setup, "1"], env=env, input=b"", capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"ready\n")
    assert json.loads(done.stderr)["event"] == "counts_not_shared"
    assert list(tmp_path.iterdir()) == []


def test_a_system_serves_the_metrics_of_all_its_processes_on_a_separate_port(system: System) -> None:
    told = system.status()["metrics_url"]
    assert told == f"http://127.0.0.1:{system.run_json()['metrics_port']}/metrics"
    assert "metrics_port" not in (system.home / "dev.json").read_text()

    def both() -> bool:
        text = httpx.get(told, timeout=30).text
        return 'http_route="/readyz"' in text and "duty_runs_total{" in text

    until(both, what="API and worker in one answer")
    public = httpx.get(f"{system.base_url}/metrics", timeout=30)
    assert (public.status_code, public.json()["error"]["code"]) == (404, "ROUTE_NOT_FOUND")


@contextmanager
def serving(servers: Any, folder: Path, **env: str) -> Iterator[tuple[int, Any, "subprocess.Popen[bytes]"]]:
    """Run `quita serve`; yields its port, a function that reads its output, and its process."""
    port, out = free_port(), folder / "serve.out"
    given = {
        "DATABASE_URL": servers.database_url, "REDIS_URL": servers.redis_url, "SECRET_KEY": "5e" * 32,
        "QUITA_HOME": str(folder / "home"), "PORT": str(port), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **env,
    }  # fmt: skip
    with out.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-m", "cli.main", "serve"], cwd=ROOT, env=given, stdout=file)
    try:
        until(lambda: "the API answers" in out.read_text(), within_s=60, what="the API answers")
        yield port, out.read_text, process
    finally:
        process.terminate()
        process.wait(60)


def test_without_metrics_port_no_metrics_are_served_and_the_output_says_so(servers: Any, tmp_path: Path) -> None:
    with serving(servers, tmp_path, API_PROCESSES="1") as (port, out, _):
        assert "METRICS_PORT is not set" in out()
        assert httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).status_code == 404


def test_a_stopping_api_process_is_not_ready_before_it_stops_accepting_connections(
    servers: Any, tmp_path: Path
) -> None:
    drain_s = 15  # longer than a busy machine takes for the requests below, which are refused afterwards
    env = {"API_PROCESSES": "1", "METRICS_PORT": str(metrics_port := free_port()), "DRAIN_S": str(drain_s)}
    with serving(servers, tmp_path, **env) as (port, _, own):
        ready = f"http://127.0.0.1:{port}/readyz"
        assert httpx.get(ready, timeout=30).json()["status"] == "ok"
        until(lambda: 'http_route="/readyz"' in metrics_at(metrics_port))
        own.send_signal(signal.SIGTERM)
        asked = time.monotonic()
        until(lambda: httpx.get(ready, timeout=30).status_code == 503, within_s=drain_s)
        assert httpx.get(ready, timeout=30).json() == {"status": "draining"}
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=30).status_code == 200, (
            "new connections are still answered"
        )
        assert own.wait(60) == 0
        assert time.monotonic() - asked >= drain_s


def test_a_second_quita_serve_in_the_same_home_is_refused_and_removes_no_counts(servers: Any, tmp_path: Path) -> None:
    metrics_port = free_port()
    with serving(servers, tmp_path, API_PROCESSES="1", METRICS_PORT=str(metrics_port)) as (_port, _, own):
        until(lambda: 'http_route="/readyz"' in metrics_at(metrics_port))
        environment = Path(f"/proc/{own.pid}/environ").read_bytes().decode().rstrip("\0").split("\0")
        env = dict(each.split("=", 1) for each in environment) | {"PORT": str(free_port())}
        del env["METRICS_PORT"]
        second = subprocess.run(
            [sys.executable, "-m", "cli.main", "serve"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert "already runs in" in second.stderr
        assert len(second.stderr.splitlines()) == 1
        assert 'http_route="/readyz"' in metrics_at(metrics_port)


async def test_a_process_is_not_ready_while_the_schema_is_older_than_its_version(
    servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.readiness.ASK_S_MAX", 30.0)  # a PostgreSQL that is slow is not away
    async with own_database(servers, "older_schema") as url:
        owner = await open_pool(owner_of(servers, url), name="tests as owner", size=1)
        async with open_api(url, servers.redis_url) as api:
            await owner.execute("DELETE FROM migration WHERE name = (SELECT max(name) FROM migration)")
            reply = await api.get("/readyz", token=None)
            assert (reply.status, reply.json()) == (503, {"status": "unavailable", "postgres": True, "schema": False})
        pool = await open_pool(url, name="tests", size=1)
        try:
            await owner.execute("INSERT INTO migration (name) VALUES ('0016_later')")
            looking = Readiness(pool)
            assert await looking.database() == "outdated"
            for name in looking._names:
                await owner.execute("INSERT INTO migration (name) VALUES ($1) ON CONFLICT DO NOTHING", name)
            assert await looking.database() == "ready", "migrations that a later version added do not matter"
            known, contract = looking._names[-1], "INSERT INTO migration (name, needs) VALUES ($1, $2)"
            await owner.execute(contract, "0018_contract", known)
            assert await looking.database() == "ready", "this version no longer uses what was removed"
            await owner.execute(contract, "0019_contract", "0016_later")
            assert await looking.database() == "outgrown", "a version without 0016_later still uses it"
        finally:
            await pool.close()
            await owner.close()


@pytest.mark.parametrize("name", ["METRICS_PORT", "WORKER_PORT"])
def test_an_invalid_metrics_or_worker_port_is_refused_at_start(name: str) -> None:
    from runtime.watching import read_watching

    for given in ("0", "65536", "http"):
        with pytest.raises(ValueError, match=name):
            read_watching({name: given})
