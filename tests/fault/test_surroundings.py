"""A log that takes no line, a full disk, a proxy in the environment: the processes that run go on."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.boleto_merchant import issue
from tests.support.merchant import Answer, ApiMerchant, kill_process, new_merchant, until_answer, until_replaced
from tests.support.system import System, until

pytestmark = pytest.mark.heavy


@pytest.fixture
def system(home: Path) -> Iterator[System]:
    """A system for the test only, which the test starts."""
    made = System(home)
    yield made
    if made.running():
        assert made.stop() == 0, made.said()


async def _assert_works(system: System, merchant: ApiMerchant) -> None:
    """Asserts that the system works: a worker registers a boleto at the bank, a PIX charge of the sandbox is paid, and
    one of production, of which only the bank and a worker can tell."""

    async def boleto() -> Answer | None:
        answer = await issue(merchant.sandbox, key=str(uuid4()))
        return answer if answer.status == 201 else None

    async def pix() -> Answer | None:
        answer = await merchant.production.create()
        return answer if answer.status == 201 else None

    async def paid() -> bool:
        return bool((await merchant.production.charge(charge_id))["status"] == "paid")

    await until_answer(boleto, within_s=60)
    await merchant.sandbox.paid()
    charge_id = (await until_answer(pix, within_s=60)).body["charge_id"]
    system.json("bank", "pay", "--charge-id", charge_id)
    await until_answer(paid, within_s=60)


async def test_a_log_on_a_full_device_stops_neither_requests_nor_workers(system: System) -> None:
    logs = system.home / "logs"
    logs.mkdir(parents=True)
    for kind in ("api", "worker"):
        (logs / f"{kind}.log").symlink_to("/dev/full")
    system.start()
    async with new_merchant(system) as merchant:
        await _assert_works(system, merchant)
        # Now every process has something to log, and its log takes no line.
        postgres = system.pids("postgres")[0]
        os.kill(postgres, signal.SIGQUIT)
        answer = await merchant.sandbox.get("/v1/charges")
        assert answer.status in (200, 503)
        until(lambda: system.pids("postgres")[0] != postgres, what="PostgreSQL is started again")
        workers = system.pids("worker")
        await _assert_works(system, merchant)
        assert system.pids("worker") == workers
        status = until(lambda: _status(system)["working"], what="a worker that works")
        assert status


def test_large_logs_are_rotated_while_the_system_runs(system: System) -> None:
    system.start()
    logs = [system.home / "logs" / f"{kind}.log" for kind in ("worker", "postgres")]
    for log in logs:
        with log.open("ab") as file:
            file.write(b'{"level":"info"}\n' * 1_000_000)
    for log in logs:
        until(lambda log=log: log.stat().st_size < 1_000_000, what=f"{log} is emptied")
        copy = log.with_suffix(".log.1")
        assert copy.stat().st_size > 16_000_000
        assert copy.stat().st_mode & 0o077 == 0
    until_replaced(system, "worker", kill_process(system, "worker"))
    until(lambda: "worker_started" in logs[0].read_text(), what="the new worker's lines")


def test_the_status_shows_a_worker_that_hangs(system: System) -> None:
    system.start()
    (worker,) = until(lambda: [each for each in _status(system)["workers"] if each["well"]], what="a heartbeat")
    assert worker["failing"] == []
    # The worker lives and does nothing.
    os.kill(system.pids("worker")[0], signal.SIGSTOP)
    try:
        until(lambda: not _status(system)["working"], within_s=60, what="a worker that is missed")
        assert system.quita("status").returncode == 1
        assert _status(system)["ready"]
    finally:
        os.kill(system.pids("worker")[0], signal.SIGCONT)
    until(lambda: _status(system)["working"], what="a worker that works again")


def test_a_proxy_of_the_environment_is_not_used_for_local_addresses(home: Path) -> None:
    system = System(home, env=dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:9"))
    system.start()
    try:
        assert system.status()["ready"]
        system.json("bank", "fault", "up")
    finally:
        assert system.stop() == 0


def test_the_status_finds_an_api_that_listens_on_one_address_only(home: Path) -> None:
    system = System(home, env={"HOST": "127.0.0.2"})
    system.env["BASE_URL"] = f"http://127.0.0.2:{system.port}"
    system.start()
    try:
        assert system.status()["ready"]
    finally:
        assert system.stop() == 0


def test_a_home_that_cannot_be_written_stops_no_process(system: System) -> None:
    system.start()
    # As on a full disk: run.json cannot be written when a process is started again.
    fresh = system.home / f"run.json.{system.pids('supervisor')[0]}.new"
    (fresh / "in the way").mkdir(parents=True)
    pid = kill_process(system, "worker")
    until(lambda: "run.json cannot be written" in system.said(), what="a message about run.json")
    (fresh / "in the way").rmdir()
    fresh.rmdir()
    assert system.running()
    kill_process(system, "bank")
    until_replaced(system, "worker", pid)


def test_a_redis_that_cannot_be_restarted_stops_no_other_process(system: System) -> None:
    system.start()
    log = system.home / "logs" / "redis.log"
    log.unlink()
    log.mkdir()  # no log can be opened, so Valkey is not started
    kill_process(system, "redis")
    until(lambda: "Is a directory" in system.said(), what="a message about the log")
    assert json.loads(system.quita("status", "--json").stdout)["ready"]
    log.rmdir()
    until(lambda: log.exists(), what="Valkey is started again")


def _status(system: System) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(system.quita("status", "--json").stdout)
    return found


def test_local_work_refuses_the_bank_url_of_another_machine(home: Path) -> None:
    system = System(home, env={"BANK_URL": "https://bank.example.com"})
    system.env["BANK_URL"] = "https://bank.example.com"
    system.spawn()
    assert system.process.wait(60) == 1
    assert "docs/production.md" in system.said()


def test_production_refuses_to_start_with_the_settings_of_local_work(home: Path) -> None:
    system = System(home, env={"QUITA_ENV": "production"})
    system.spawn()
    assert system.process.wait(60) == 1
    said = system.said()
    assert said.count("\n") == 1
    doctor = system.quita("doctor")
    assert doctor.returncode == 1
    for fault in doctor.stdout.splitlines():
        name = fault.split()[0]
        # `quita up` creates its own key and database.
        assert name in said or name in ("SECRET_KEY", "DATABASE_URL"), fault
    assert json.loads(system.quita("doctor", "--json").stdout)["environment"] == "production"
