"""A process that cannot start logs the reason in one line that an operator can act on, and quotes no secret."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.run.supervise import _error_in
from runtime.local.ports import free_port
from tests.support.system import ROOT, until

CLOSED = 1
"""A port on which nothing listens."""


def environment(home: Path, database_url: str) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url, "REDIS_URL": f"redis://127.0.0.1:{CLOSED}/0", "SECRET_KEY": "5e" * 32,
        "QUITA_HOME": str(home), "PORT": str(free_port()), "API_PROCESSES": "1", "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("address", "error", "reason"),
    [
        (f"postgresql://quita:hunter2@127.0.0.1:{CLOSED}/quita", "ConnectionRefusedError", ""),
        ("postgresql://quita:hun/ter2@127.0.0.1/quita", "ClientConfigurationError", "%2F"),
    ],
)
def test_an_api_process_that_cannot_reach_postgresql_logs_why(
    home: Path, tmp_path: Path, address: str, error: str, reason: str
) -> None:
    out = tmp_path / "serve.out"
    with out.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", "serve"],
            cwd=ROOT, env=environment(home, address), stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        until(lambda: '"not_started"' in out.read_text(), within_s=60, what="the line that states the reason")
    finally:
        process.terminate()
        process.wait(60)
    said = out.read_text()
    line = next(json.loads(each) for each in said.splitlines() if '"not_started"' in each)
    assert line["error"] == error
    assert reason in line["reason"]
    assert "hun" not in said


@pytest.mark.parametrize(
    ("changed", "error", "reason"),
    [
        ({"DATABASE_URL": ""}, "ValueError", "DATABASE_URL is not set"),
        ({"DATABASE_URL": "postgresql://quita:hun/ter2@127.0.0.1/quita"}, "ClientConfigurationError", "%2F"),
        ({"REDIS_URL": "localhost:6379"}, "ValueError", "REDIS_URL must be"),
        ({"REDIS_URL": "redis://quita:hun/ter2@127.0.0.1:6379/0"}, "ValueError", "REDIS_URL must be"),
        ({}, "ConnectionRefusedError", ""),
        ({"CELL": "1"}, "ConnectionRefusedError", ""),
    ],
)
def test_a_worker_that_cannot_start_says_why_in_one_line_of_its_log(
    home: Path, changed: dict[str, str], error: str, reason: str
) -> None:
    env = environment(home, f"postgresql://quita:hunter2@127.0.0.1:{CLOSED}/quita") | changed
    done = subprocess.run(
        [sys.executable, "-m", "workers"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    said = json.loads(line)
    assert (said["level"], said["process"], said["event"], said["error"]) == ("error", "worker", "worker_failed", error)
    assert reason in said["reason"]
    # `quita up` shows the same in its terminal.
    assert _error_in(line.encode()) == f"worker_failed: {error}: {said['reason']}"[:300]
    assert "hun" not in done.stdout + done.stderr


def test_a_command_with_an_unreadable_database_address_says_so_and_does_not_quote_it(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "migrate"],
        cwd=ROOT, env=environment(home, "postgresql://quita:hun/ter2@127.0.0.1/quita"), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("quita: the address of PostgreSQL must be such as postgresql://")
    assert len(done.stderr.splitlines()) == 1
    assert "hun" not in done.stdout + done.stderr
