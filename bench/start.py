"""The time from `quita up` until its API answers: in an empty home, and again in the same home."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.environment import OWN_SETTINGS, BenchEnvironment
from bench.report import Finding, within
from runtime.local.ports import free_port

_ROOT = Path(__file__).resolve().parent.parent
_READY_S_MAX = 120.0
_SETTLE_S = 3.0  # the other API processes start after the first answers; they get time to do so before the stop
_RESTARTS = 3


async def start(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Seconds from the command to dev.json, which is written when /readyz answers 200."""
    first_s, *again_s = await asyncio.to_thread(_measure_starts)
    median_s = sorted(again_s)[len(again_s) // 2]
    return [
        Finding("first start: PostgreSQL made, migrated, three merchants", first_s, "s"),
        Finding("second start", median_s, "s", spread=(min(again_s), max(again_s)), note=within(median_s, 5)),
    ]


def _measure_starts() -> list[float]:
    home = Path(tempfile.mkdtemp(prefix="quita-start-", dir="/var/tmp"))
    inherited = {name: value for name, value in os.environ.items() if name not in OWN_SETTINGS}
    env = inherited | {"QUITA_HOME": str(home / "home"), "PORT": str(free_port())}
    try:
        return [_measure_start(home / "home" / "dev.json", env) for _ in range(1 + _RESTARTS)]
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _measure_start(ready_file: Path, env: dict[str, str]) -> float:
    ready_file.unlink(missing_ok=True)
    began = time.perf_counter()
    command = [sys.executable, "-m", "cli.main", "up"]
    process = subprocess.Popen(command, cwd=_ROOT, env=env, stdout=subprocess.DEVNULL)
    try:
        while not ready_file.exists():
            if process.poll() is not None or time.perf_counter() - began > _READY_S_MAX:
                raise RuntimeError("quita up did not become ready")
            time.sleep(0.01)
        took_s = time.perf_counter() - began
        time.sleep(_SETTLE_S)
        return took_s
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
