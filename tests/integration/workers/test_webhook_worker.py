"""The worker process goes on through what breaks around it: exceptions, a lost Redis, a signal to stop."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from runtime.jobs import BANK_HINTS, QUEUE, WEBHOOKS, Jobs, arq_client
from runtime.log import AccessLog
from runtime.redis import open_redis
from tests.support.webhooks import PATIENCE_S
from workers.duties import Duty, Scheduler

ROOT = Path(__file__).parents[3]
NOWHERE = "redis://127.0.0.1:1/0"


async def test_a_duty_that_fails_is_tried_again_and_stops_nobody() -> None:
    runs = {"failing": 0, "working": 0}

    async def failing() -> int:
        runs["failing"] += 1
        raise RuntimeError("no")

    async def working() -> int:
        runs["working"] += 1
        return 0

    scheduler, listener = Scheduler(), open_redis(NOWHERE, blocking=True)
    running = asyncio.create_task(
        scheduler.run([Duty("failing", failing, 0.01), Duty("working", working, 0.01)], listener)
    )
    async with asyncio.timeout(PATIENCE_S):
        while runs["failing"] < 2 or runs["working"] < 10:  # noqa: ASYNC110 - each runs on its own clock
            await asyncio.sleep(0.01)
    scheduler.stop()
    await running
    await listener.aclose()


async def test_a_duty_works_until_nothing_is_left_and_then_rests_until_rung(servers: Any) -> None:
    left, rounds = [3], [0]
    rested = asyncio.Event()

    async def duty() -> int:
        rounds[0] += 1
        left[0] -= left[0] > 0
        if not left[0]:
            rested.set()
        return left[0]

    redis, listener = Redis.from_url(servers.redis_url), open_redis(servers.redis_url, blocking=True)
    await redis.flushall()
    scheduler, jobs = Scheduler(), Jobs(redis)
    running = asyncio.create_task(scheduler.run([Duty(WEBHOOKS, duty, 60.0)], listener))
    async with asyncio.timeout(PATIENCE_S):
        await rested.wait()
    await asyncio.sleep(0.1)
    assert rounds == [3]
    rested.clear()
    jobs.wake(WEBHOOKS)
    async with asyncio.timeout(PATIENCE_S):
        await rested.wait()
    scheduler.stop()
    await running
    await jobs.stop()
    await redis.aclose()
    await listener.aclose()


async def test_rings_that_meet_become_one_element_and_one_job(servers: Any) -> None:
    redis = Redis.from_url(servers.redis_url)
    await redis.flushall()
    before = await pushes(redis)
    jobs = Jobs(redis)
    for _ in range(1000):
        jobs.wake(BANK_HINTS)
    async with asyncio.timeout(PATIENCE_S):
        while not await redis.exists(f"wake:{BANK_HINTS}", f"bell:{BANK_HINTS}"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    await jobs.stop()
    assert await redis.llen(f"bell:{BANK_HINTS}") == 1
    (job,) = await arq_client(redis).queued_jobs(queue_name=QUEUE)
    assert (job.function, list(job.args), job.job_id) == ("wake", [BANK_HINTS], f"wake:{BANK_HINTS}")
    assert await pushes(redis) - before < 20
    await redis.aclose()


async def pushes(redis: Redis) -> int:
    stats = await redis.info("commandstats")
    return int(stats.get("cmdstat_lpush", {}).get("calls", 0))


async def test_ringing_without_redis_costs_nothing_and_raises_nothing() -> None:
    redis = open_redis(NOWHERE, blocking=False)
    jobs = Jobs(redis)
    began = time.thread_time()  # what it costs, whoever else has the machine
    for _ in range(1000):
        jobs.wake(WEBHOOKS)
    assert time.thread_time() - began < 0.1
    await asyncio.sleep(0.05)
    await jobs.stop()
    await redis.aclose()


async def test_the_access_log_writes_every_line_in_order_and_never_waits_for_its_reader() -> None:
    read_end, write_end = os.pipe()
    access = AccessLog(write_end)
    access.start()
    lines = [b'{"n":%d}' % n for n in range(2000)]
    for line in lines:
        access.write(line)
    await access.stop()
    os.close(write_end)
    with open(read_end, "rb") as reader:
        assert reader.read().splitlines() == lines


def test_an_event_is_one_line_of_json_without_the_rows_that_an_error_quotes() -> None:
    program = """
import asyncpg, structlog, logging
from runtime.log import setup
setup("probe")
log = structlog.get_logger()
log.info("started", count=3)
log.debug("unseen")
error = asyncpg.UniqueViolationError("duplicate key")
error.detail = "Key (document)=(12345678909) already exists."
try:
    raise error
except Exception:
    log.exception("failed")
logging.getLogger("aiohttp").warning("odd %s", "12345678909")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": paths()},
    )
    first, second, third = (json.loads(line) for line in done.stderr.splitlines())
    assert first | {"ts": ""} == {
        "ts": "",
        "level": "info",
        "process": "probe",
        "event": "started",
        "count": 3,
    }
    assert first["ts"].endswith("Z")
    assert len(first["ts"]) == 24
    assert (second["level"], second["error"], second["reason"]) == (
        "error",
        "UniqueViolationError",
        "duplicate key",
    )
    assert third["message"] == "odd %s"
    assert b"12345678909" not in done.stderr


@pytest.mark.parametrize("redis", ["there", "gone"])
async def test_a_worker_told_to_stop_leaves_with_0(servers: Any, tmp_path: Path, redis: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "workers",
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": paths(),
            "QUITA_HOME": str(tmp_path),
            "DATABASE_URL": servers.database_url,
            "REDIS_URL": servers.redis_url if redis == "there" else NOWHERE,
            "SECRET_KEY": "11" * 32,
            "BANK_URL": "http://127.0.0.1:1",
        },
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"worker_started" not in (line := await process.stderr.readline()):
                assert line, "the worker ended by itself"
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode()
    assert b"worker_stopped" in said


def paths() -> str:
    """The import path of a program started by a test: what this one has, and the checkout."""
    return os.pathsep.join([*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(ROOT)])
