"""The worker process survives what breaks around it, exceptions and a lost Redis, and ends cleanly on a signal."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from commands.webhooks.endpoint import remove_endpoint
from runtime.cells.number import HOME, current_cell, in_cell
from runtime.coordination.lanes import PIX_HINTS, WEBHOOKS
from runtime.jobs import QUEUE, Jobs, QueueRedis
from runtime.local.embedded import EmbeddedRedis
from runtime.log import AccessLog
from runtime.postgres import Pool
from runtime.redis import open_redis
from tests.support.counting import calls_made
from tests.support.system import remove_home, temporary_home
from tests.support.webhooks import KEY, PATIENCE_S, create_merchant_with_endpoint, receiving, record_events
from workers.duties import JOB_S, Duty, Runner
from workers.process import keep_running
from workers.settings import WorkerSettings, _queue_client

ROOT = Path(__file__).parents[3]
NOWHERE = "redis://127.0.0.1:1/0"
NO_SENTINEL = "redis+sentinel://127.0.0.1:1/quita/0"


class Counted:
    """A duty that counts its rounds; `round` is set when one begins, and none ends before `go` is set."""

    def __init__(self) -> None:
        self.rounds = 0
        self.round, self.go = asyncio.Event(), asyncio.Event()
        self.go.set()

    async def run(self) -> int:
        self.rounds += 1
        self.round.set()
        await self.go.wait()
        return 0

    async def wait_for_round(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.round.wait()
        self.round.clear()


@asynccontextmanager
async def arq_with(redis_url: str, *duties: Duty) -> AsyncIterator[Jobs]:
    """Run arq as a worker does, with these duties alone; yields the Jobs with which the API enqueues."""
    runner, redis = Runner(), open_redis(redis_url, blocking=False)
    runner.add(duties)
    jobs, arq = Jobs(redis), asyncio.create_task(keep_running(runner, redis_url))
    try:
        yield jobs
    finally:
        runner.stopping.set()
        await asyncio.gather(arq, runner.stop(), jobs.stop())
        await redis.aclose(close_connection_pool=True)


@pytest.fixture
def own_redis() -> Iterator[EmbeddedRedis]:
    """A Redis of the test's own, which it may stop."""
    home = temporary_home()
    home.mkdir(mode=0o711)
    server = EmbeddedRedis()
    try:
        server.start(home)
        yield server
    finally:
        server.stop()
        remove_home(home)


async def test_a_redis_that_refuses_writes_stops_no_duty_and_is_logged_ever_less_often(
    own_redis: EmbeddedRedis,
) -> None:
    """As when its memory is full: arq can read its queue, but cannot put a cron into it."""
    swept = Counted()
    redis = open_redis(own_redis.dsn, blocking=False)
    await redis.config_set("maxmemory", 1)
    with capture_logs() as said:
        async with arq_with(own_redis.dsn, Duty("swept", swept.run, 1)):
            for _ in range(6):
                await swept.wait_for_round()
    await redis.aclose(close_connection_pool=True)
    restarts = [each["failures"] for each in said if each["event"] == "arq_restarts"]
    assert restarts == [1, 2, 4][: len(restarts)]
    assert len(restarts) >= 2


async def test_a_failing_duty_is_tried_again_and_does_not_stop_the_others() -> None:
    failures, working = 0, Counted()

    async def failing() -> int:
        nonlocal failures
        failures += 1
        raise RuntimeError("no")

    runner = Runner()
    runner.add([Duty("failing", failing, 60), Duty("working", working.run, 0.01)])
    async with asyncio.timeout(PATIENCE_S):
        while failures < 2 or working.rounds < 10:
            runner.sweep()
            await asyncio.sleep(0.01)
    await runner.stop()


async def test_a_duty_runs_in_the_cell_of_its_worker_whoever_wakes_it() -> None:
    """In home's, a cell's worker would make ids of home, and take the money of other cells for money of nobody."""
    ran_in: list[int] = []

    async def look() -> int:
        ran_in.append(current_cell())
        return 0

    with in_cell(3):
        runner = Runner()
    runner.add([Duty("look", look, 60)])
    for cell in (HOME, 7):
        with in_cell(cell):
            await runner.run("look")
    assert ran_in == [3, 3]
    await runner.stop()


async def test_a_duty_that_works_again_is_no_longer_failing_before_its_round_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under load a round lasts for hours, and a worker that does all its work would not be ready for so long."""
    monkeypatch.setattr("workers.duties._PAST_S", 0.1)
    monkeypatch.setattr("workers.duties._BACKOFF_S_MAX", 0.1)
    away, goes_on = True, asyncio.Event()

    async def orders() -> int:
        if away:
            raise ConnectionError
        await goes_on.wait()
        return 0

    runner = Runner()
    runner.add([Duty("orders", orders, 60)])
    runner.wake("orders")
    async with asyncio.timeout(PATIENCE_S):
        while runner.failing() != ["orders"]:  # noqa: ASYNC110 - what is asked has no event
            await asyncio.sleep(0.01)
        away = False
        while runner.failing():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    goes_on.set()
    await runner.run("orders")
    assert runner.failing() == [], "the failures are cleared, not merely too old to count"
    await runner.stop()


async def test_a_lane_runs_until_nothing_is_left_and_then_rests_until_woken(servers: Any) -> None:
    left, rounds, rested = 3, 0, asyncio.Event()

    async def run() -> int:
        nonlocal left, rounds
        rounds += 1
        left -= left > 0
        if not left:
            rested.set()
        return left

    async with arq_with(servers.redis_url, Duty(WEBHOOKS, run, 59)) as jobs:
        for expected in (3, 4):
            jobs.wake(WEBHOOKS)
            async with asyncio.timeout(PATIENCE_S):
                await rested.wait()
            rested.clear()
            await asyncio.sleep(0.1)
            assert rounds == expected


@pytest.mark.parametrize("rounds_s", [0.0, JOB_S + 0.5], ids=["short", "longer than its job"])
async def test_a_lane_that_is_woken_while_it_runs_runs_once_more(servers: Any, rounds_s: float) -> None:
    lane = Counted()
    async with arq_with(servers.redis_url, Duty(WEBHOOKS, lane.run, 59)) as jobs:
        lane.go.clear()
        jobs.wake(WEBHOOKS)
        await lane.wait_for_round()
        await asyncio.sleep(rounds_s)
        for _ in range(3):  # several wake-ups become one
            jobs.wake(WEBHOOKS)
        await asyncio.sleep(0.1)
        assert lane.rounds == 1, "a lane runs once at a time in a worker"
        lane.go.set()
        await lane.wait_for_round()
        assert lane.rounds >= 2


async def test_a_job_runs_its_lane_although_the_pushed_name_was_lost_with_a_worker(servers: Any) -> None:
    lane, queue = Counted(), QueueRedis(servers.redis_url)
    async with arq_with(servers.redis_url, Duty(WEBHOOKS, lane.run, 59)):
        await queue.enqueue_job(WEBHOOKS, _job_id=WEBHOOKS)  # as arq does, without pushing the lane's name
        await lane.wait_for_round()
    await queue.aclose(close_connection_pool=True)


async def test_a_job_does_not_rerun_a_lane_that_began_after_the_job_was_enqueued(servers: Any) -> None:
    lane, redis = Counted(), Redis.from_url(servers.redis_url)
    async with arq_with(servers.redis_url, Duty(WEBHOOKS, lane.run, 59)) as jobs:
        jobs.wake(WEBHOOKS)
        await lane.wait_for_round()
        async with asyncio.timeout(PATIENCE_S):
            while await redis.zscore(QUEUE, WEBHOOKS) is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert lane.rounds == 1
    await redis.aclose()


async def test_the_cron_runs_a_lane_whose_job_was_lost_in_a_flush_of_redis(servers: Any) -> None:
    redis, lane = Redis.from_url(servers.redis_url), Counted()
    async with arq_with(servers.redis_url, Duty(WEBHOOKS, lane.run, 1)) as jobs:
        await lane.wait_for_round()
        await jobs.enqueue(WEBHOOKS)
        await redis.flushall()
        lane.round.clear()
        await lane.wait_for_round()
        await lane.wait_for_round()
    await redis.aclose()


async def test_a_stopped_redis_stops_no_duty_and_arq_goes_on_once_it_is_back(own_redis: EmbeddedRedis) -> None:
    each_second, lane = Counted(), Counted()
    duties = Duty("each_second", each_second.run, 1), Duty(WEBHOOKS, lane.run, 59)
    async with arq_with(own_redis.dsn, *duties) as jobs:
        jobs.wake(WEBHOOKS)
        await lane.wait_for_round()
        await asyncio.to_thread(own_redis.stop)
        for _ in range(3):
            each_second.round.clear()
            await each_second.wait_for_round()
        await asyncio.to_thread(own_redis.restart)
        rounds = lane.rounds
        async with asyncio.timeout(PATIENCE_S):
            while lane.rounds == rounds:
                jobs.wake(WEBHOOKS)
                await asyncio.sleep(0.05)


async def test_a_clock_that_is_set_back_stops_no_duty(servers: Any) -> None:
    """arq alone would then wait an hour for the next run of each cron, as here."""
    each_second = Counted()
    async with arq_with(servers.redis_url, Duty("each_second", each_second.run, 1)):
        await each_second.wait_for_round()
        for each in WorkerSettings.cron_jobs:
            async with asyncio.timeout(PATIENCE_S):
                # None for a moment after a late run, as on a busy machine, until the next run is scheduled.
                while each.next_run is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            each.next_run += timedelta(hours=1)
        for _ in range(5):
            await each_second.wait_for_round()


async def test_simultaneous_wake_ups_become_one_job(servers: Any) -> None:
    redis = Redis.from_url(servers.redis_url)
    await redis.flushall()
    before = await calls(redis, "evalsha")
    jobs = Jobs(redis)
    for _ in range(1000):
        jobs.wake(PIX_HINTS)
    async with asyncio.timeout(PATIENCE_S):
        while not await redis.zcard(QUEUE):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    await jobs.stop()
    reader = QueueRedis(servers.redis_url)
    (job,) = await reader.queued_jobs()
    assert (job.function, list(job.args), job.job_id) == (PIX_HINTS, [], PIX_HINTS)
    assert await calls(redis, "evalsha") - before < 20
    await reader.aclose(close_connection_pool=True)
    await redis.aclose()


async def test_an_idle_worker_sends_few_commands_to_redis(own_redis: EmbeddedRedis) -> None:
    redis, lane = Redis.from_url(own_redis.dsn), Counted()
    async with arq_with(own_redis.dsn, Duty(WEBHOOKS, lane.run, 1)):
        await lane.wait_for_round()
        await asyncio.sleep(1.0)
        per_s = [await commands_per_s(redis)]
        while per_s[-1] >= 80 and len(per_s) < 6:  # on a busy machine a cron may be due twice
            per_s.append(await commands_per_s(redis))
    await redis.aclose()
    # About 40 are usual.
    assert per_s[-1] < 80, (
        f"two readings of the queue and one cron a second; a poll each 10 ms has 100 readings: {per_s}"
    )


async def commands_per_s(redis: Redis) -> float:
    """The commands that Redis processes per second, measured over 3 s."""
    before, began = int((await redis.info("stats"))["total_commands_processed"]), time.monotonic()
    await asyncio.sleep(3.0)
    return (int((await redis.info("stats"))["total_commands_processed"]) - before) / (time.monotonic() - began)


async def calls(redis: Redis, command: str) -> int:
    stats = await redis.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))


async def test_waking_without_redis_costs_nothing_and_raises_nothing() -> None:
    redis = open_redis(NOWHERE, blocking=False)
    jobs = Jobs(redis)
    jobs.wake(WEBHOOKS)  # starts the task that sends wake-ups

    def wake() -> None:
        for _ in range(1000):
            jobs.wake(WEBHOOKS)

    assert calls_made(wake) / 1000 < 3, "a wake-up notes a name and uses no socket"
    await asyncio.sleep(0.05)
    await jobs.stop()
    await redis.aclose()


async def test_the_access_log_writes_every_line_in_order_and_never_waits_for_its_reader() -> None:
    read_end, write_end = os.pipe()
    access = AccessLog(write_end)
    lines = [b'{"n":%d}' % n for n in range(2000)]
    for part in (lines[:1000], lines[1000:]):  # an application that could not open is opened again, with its log
        access.start()
        await asyncio.sleep(0)
        for line in part:
            access.write(line)
        await access.stop()
    os.close(write_end)
    with open(read_end, "rb") as reader:
        assert reader.read().splitlines() == lines


async def test_the_access_log_tells_how_many_lines_a_stalled_reader_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AccessLog, "_BYTES_MAX", 1000)
    read_end, write_end = os.pipe()
    access = AccessLog(write_end)
    access.start()
    line = b"x" * 100_000  # more than a pipe holds
    access.write(line)
    async with asyncio.timeout(30):
        while access._lines:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    for _ in range(5):
        access.write(line)  # the first is kept
    with open(read_end, "rb") as reader:
        reading = asyncio.create_task(asyncio.to_thread(reader.read))
        await access.stop()
        os.close(write_end)
        *lines, notice = (await reading).splitlines()
    assert lines == [line] * 2
    assert json.loads(notice) == {"level": "error", "event": "log_lines_lost", "lines": 4}


def test_a_process_ends_while_the_reader_of_its_access_log_stalls() -> None:
    """The log is written in a thread, which a process waits for when it ends: it had to be killed."""
    program = """
import asyncio, os
from runtime.log import AccessLog
async def main():
    read_end, write_end = os.pipe()
    log = AccessLog(write_end)
    log.start()
    log.write(b"x" * 100_000)
    await log.stop()
asyncio.run(main())
"""
    env = {**os.environ, "PYTHONPATH": paths()}
    assert subprocess.run([sys.executable, "-c", program], env=env, timeout=60, check=False).returncode == 0


async def test_the_access_log_tells_how_many_lines_a_full_disk_cost() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    access = AccessLog(full)
    read_end, write_end = os.pipe()
    for part in range(2):
        access.start()
        access.write(b"1")
        access.write(b"2")
        await access.stop()
        if part == 0:
            os.dup2(write_end, full)
    os.close(write_end)
    os.close(full)
    with open(read_end, "rb") as reader:
        *lines, notice = reader.read().splitlines()
    assert lines == [b"1", b"2"]
    assert json.loads(notice)["lines"] == 2


def test_a_log_event_is_one_line_of_json_without_the_row_data_that_an_error_quotes() -> None:
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


def test_arq_reads_the_queue_of_the_cell_that_it_works_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In home's, workers of two cells would take each other's jobs, and half of the rounds of every duty."""
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:9/0")
    databases = []
    for cell in ("", "3"):
        monkeypatch.setenv("CELL", cell)
        client = _queue_client()
        assert client is not None
        databases.append(client.connection_pool.connection_kwargs["db"])
    assert databases == [0, 3]


WORKERS_COMMAND = ("workers",)
ARQ_COMMAND = ("arq", "workers.settings.WorkerSettings")


@asynccontextmanager
async def process(
    servers: Any, home: Path, command: Sequence[str], *, redis_url: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process that has started; killed at the end if it still runs."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *command,
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": paths(),
            "QUITA_HOME": str(home),
            "DATABASE_URL": servers.database_url,
            "REDIS_URL": redis_url,
            "SECRET_KEY": KEY,
            "BANK_URL": "http://127.0.0.1:1",
            "WEBHOOK_ALLOW_PRIVATE": "1",
        },
    )
    assert worker.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"worker_started" not in (line := await worker.stderr.readline()):
                assert line, "the worker ended by itself"
        yield worker
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()


@pytest.mark.parametrize(
    ("command", "redis"),
    [(WORKERS_COMMAND, "there"), (WORKERS_COMMAND, NOWHERE), (WORKERS_COMMAND, NO_SENTINEL), (ARQ_COMMAND, "there")],
    ids=["workers", "workers without Redis", "workers without a Sentinel", "arq"],
)
async def test_a_worker_exits_with_0_on_sigterm(
    servers: Any, tmp_path: Path, command: Sequence[str], redis: str
) -> None:
    redis_url = servers.redis_url if redis == "there" else redis
    async with process(servers, tmp_path, command, redis_url=redis_url) as worker:
        worker.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            _, said = await worker.communicate()
    assert worker.returncode == 0, said.decode()
    assert b"worker_stopped" in said


async def test_arq_started_by_its_own_command_delivers_webhooks_and_deletes_removed_endpoints(
    pool: Pool, servers: Any, tmp_path: Path
) -> None:
    """A job delivers the webhook, a cron deletes the endpoint."""
    redis = open_redis(servers.redis_url, blocking=False)
    jobs = Jobs(redis)
    async with receiving() as receiver, process(servers, tmp_path, ARQ_COMMAND, redis_url=servers.redis_url):
        merchant = await create_merchant_with_endpoint(pool, receiver.url)
        await record_events(pool, merchant)
        jobs.wake(WEBHOOKS)
        await receiver.reached(1)
        async with pool.acquire() as conn:
            await remove_endpoint(conn, merchant.account_id)
        left = "SELECT count(*) FROM webhook_endpoint WHERE endpoint_id = $1"
        async with asyncio.timeout(60):
            while await pool.fetchval(left, merchant.endpoint.endpoint_id):  # noqa: ASYNC110 - a row has no event
                await asyncio.sleep(0.1)
    await jobs.stop()
    await redis.aclose()


def paths() -> str:
    """The import path of a program started by a test: what this one has, and the checkout."""
    return os.pathsep.join([*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(ROOT)])
