"""The embedded servers of local work: PostgreSQL's data and port survive a restart, its default settings are the safe
ones, and a password is required."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from redis.asyncio import Redis

from runtime.local.embedded import EmbeddedPostgres, EmbeddedRedis
from runtime.local.ports import free_port, remembered_port
from runtime.local.process import CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def _client(dsn: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(dsn)
    yield client
    await client.aclose(close_connection_pool=True)


async def _count_visits(dsn: str) -> int:
    conn = await asyncpg.connect(dsn)
    try:
        await conn.execute("CREATE TABLE IF NOT EXISTS visit (at timestamptz)")
        await conn.execute("INSERT INTO visit VALUES (now())")
        return int(await conn.fetchval("SELECT count(*) FROM visit"))
    finally:
        await conn.close()


async def test_postgres_keeps_data_and_port_over_a_restart(home: Path) -> None:
    seen = []
    for _ in range(2):
        postgres = EmbeddedPostgres()
        postgres.start(home, fsync=False)
        seen.append((await _count_visits(postgres.dsn), postgres.dsn))
        postgres.stop()
        postgres.stop()
    assert seen == [(1, seen[0][1]), (2, seen[0][1])]


async def test_postgresql_starts_with_its_data_after_sigkill(home: Path) -> None:
    postgres = EmbeddedPostgres()
    postgres.start(home, fsync=True)
    await _count_visits(postgres.dsn)
    os.kill(postgres.pid, signal.SIGKILL)
    postgres.stop()
    again = EmbeddedPostgres()
    again.start(home, fsync=True)
    try:
        assert await _count_visits(again.dsn) == 2
    finally:
        again.stop()


async def test_starting_a_copy_of_a_home_in_use_does_not_stop_the_original_server(home: Path) -> None:
    """The pid file in the copy names the original's server."""
    original, copied = EmbeddedPostgres(), EmbeddedPostgres()
    original.start(home / "original", fsync=False)
    try:
        assert await _count_visits(original.dsn) == 1
        subprocess.run(["cp", "-a", home / "original", home / "copy"], check=True)
        copied.start(home / "copy", fsync=False)
        assert await _count_visits(copied.dsn) == 2
        assert original.alive()
        assert await _count_visits(original.dsn) == 2
    finally:
        original.stop()
        copied.stop()


async def test_a_postgresql_server_left_running_is_stopped_before_a_new_one_starts(home: Path) -> None:
    left = EmbeddedPostgres()
    left.start(home, fsync=False)
    await _count_visits(left.dsn)
    again = EmbeddedPostgres()
    again.start(home, fsync=False)
    try:
        assert not left.alive()
        assert await _count_visits(again.dsn) == 2
    finally:
        again.stop()


async def test_a_stale_pid_file_that_names_another_process_does_not_prevent_the_start(home: Path) -> None:
    postgres = EmbeddedPostgres()
    postgres.start(home, fsync=False)
    postgres.stop()
    (home / "postgres" / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n", encoding="ascii")
    postgres.start(home, fsync=False)
    try:
        assert await _count_visits(postgres.dsn) == 1
    finally:
        postgres.stop()


async def test_the_default_settings_of_postgresql_are_the_safe_ones(home: Path) -> None:
    postgres = EmbeddedPostgres()
    postgres.start(home)
    try:
        conn = await asyncpg.connect(postgres.dsn)
        names = ("fsync", "synchronous_commit", "full_page_writes", "jit", "timezone", "max_connections")
        found = [await conn.fetchval("SELECT current_setting($1)", name) for name in names]
        await conn.execute("CREATE EXTENSION pg_stat_statements")
        await conn.close()
        assert found == ["on", "on", "on", "off", "UTC", "200"]
    finally:
        postgres.stop()


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/proc/self/status").exists(), reason="root on Linux only")
def test_postgresql_started_by_root_has_no_groups_ids_or_capabilities_of_root(home: Path) -> None:
    """With root's groups it could read files of theirs. Of root's capabilities it keeps only those to pass folders."""
    was = os.getgroups()
    postgres = EmbeddedPostgres()
    try:
        os.setgroups([0, 4, 27])
        postgres.start(home, fsync=False)
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{postgres.pid}/status").read_text(encoding="ascii").splitlines()
        )
        assert status["Groups"].split() == []
        assert "0" not in status["Uid"].split() + status["Gid"].split()
        passing = 1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(status[name], 16) & ~passing == 0, name
    finally:
        os.setgroups(was)
        postgres.stop()


async def test_postgresql_refuses_a_wrong_password(home: Path) -> None:
    postgres = EmbeddedPostgres()
    postgres.start(home, fsync=False)
    try:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(postgres.dsn, password="wrong")
    finally:
        postgres.stop()


async def test_redis_keeps_no_data_over_a_restart(home: Path) -> None:
    redis = EmbeddedRedis()
    redis.start(home)
    try:
        async with _client(redis.dsn) as client:
            await client.set("a", "1")
        redis.stop()
        redis.restart()
        async with _client(redis.dsn) as client:
            assert await client.get("a") is None
    finally:
        redis.stop()


def test_a_remembered_port_in_use_is_replaced_and_the_new_one_remembered(tmp_path: Path) -> None:
    file = tmp_path / "some.port"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        file.write_text(str(taken.getsockname()[1]), encoding="ascii")
        new = remembered_port(file)
        assert new != taken.getsockname()[1]
    assert remembered_port(file) == new


def test_free_ports_differ_and_are_below_the_range_of_outgoing_connections() -> None:
    """Otherwise an outgoing connection could occupy the port before the server it was chosen for listens."""
    chosen = [free_port() for _ in range(200)]
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as going_out,
    ):
        assert max(chosen) < going_out.getsockname()[1]
    assert len(set(chosen)) == 200


def test_processes_that_run_at_once_choose_different_ports() -> None:
    """None of the ports is bound yet while the other process chooses."""
    program = (
        "from runtime.local.ports import free_port; print(*(free_port() for _ in range(200)), flush=True); input()"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    chosen: list[list[bytes]] = []
    for process in processes:
        assert process.stdout is not None
        chosen.append(process.stdout.readline().split())
    for process in processes:
        process.communicate(b"\n", timeout=30)
    first, second = chosen
    assert len(first) == len(second) == 200
    assert set(first).isdisjoint(second)
