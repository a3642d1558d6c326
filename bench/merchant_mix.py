"""Runs bench/locustfile.py against a whole system: one started here as by `quita up`, or one that runs already."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
# Few enough that two cores can also run the system itself, enough that connections spread over its processes.
_USERS = 60
_OVERHEAD_S_MAX = 120.0
# Settings that the tests' System switches off or makes smaller.
_AS_IN_PRODUCTION = {
    "QUITA_FSYNC": "on", "PIX_LOCATIONS_MIN": "2000", "PIX_LOCATIONS_MAX": "300000", "SANDBOX_LOCATIONS_MIN": "20000",
}  # fmt: skip


def run(base_url: str | None, *, seconds: float, rate: int, as_json: bool) -> int:
    """Returns 1 when a request failed, else 0. With `base_url`, the merchants come from QUITA_HOME's dev.json."""
    from tests.support.system import System, remove_home, temporary_home

    if base_url is not None:
        home = Path(os.environ.get("QUITA_HOME") or ".quita")
        return _run_locust(
            base_url, json.loads((home / "dev.json").read_text(encoding="utf-8")), seconds, rate, as_json
        )
    system = System(temporary_home(on_disk=True), env=_AS_IN_PRODUCTION)
    try:
        system.start()
        return _run_locust(system.base_url, system.dev, seconds, rate, as_json)
    finally:
        if system.running():
            system.stop()
        remove_home(system.home)


def _run_locust(base_url: str, dev: dict[str, Any], seconds: float, rate: int, as_json: bool) -> int:
    folder = Path(tempfile.mkdtemp(prefix="quita-locust-"))
    try:
        merchants = folder / "dev.json"
        merchants.write_text(json.dumps(dev), encoding="utf-8")
        command = [
            sys.executable, "-m", "locust", "-f", str(_ROOT / "bench" / "locustfile.py"), "--headless",
            "--host", base_url, "--quita-dev", str(merchants), "--quita-per-user", str(rate / _USERS),
            "-u", str(_USERS), "-r", str(_USERS), "-t", f"{seconds:.0f}s", "--stop-timeout", "10",
            "--reset-stats", "--only-summary", "--csv", str(folder / "out"), "--loglevel", "WARNING", "MixedMerchant",
        ]  # fmt: skip
        completed = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + _OVERHEAD_S_MAX, check=False
        )
        rows = list(csv.DictReader((folder / "out_stats.csv").open(encoding="utf-8")))
        failures = list(csv.DictReader((folder / "out_failures.csv").open(encoding="utf-8")))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    failed = sum(int(row["Failure Count"]) for row in rows if row["Name"] == "Aggregated")
    if as_json:
        print(json.dumps({"wanted_per_s": rate, "requests": rows, "failures": failures}, indent=2))
    else:
        _print_report(rows, failures, failed, rate)
    if not rows or (completed.returncode != 0 and not failed):
        print(completed.stderr[-2000:], file=sys.stderr)
    return 1 if failed or completed.returncode != 0 else 0


def _print_report(rows: list[dict[str, str]], failures: list[dict[str, str]], failed: int, rate: int) -> None:
    print(f"A merchant's mix, {rate}/s wanted from {_USERS} users")
    print(f"  {'':<28}{'per s':>9}{'p50 ms':>9}{'p99 ms':>9}{'failures':>10}")
    for row in rows:
        print(
            f"  {row['Name']:<28}{float(row['Requests/s']):>9.1f}{row['50%']:>9}{row['99%']:>9}"
            f"{row['Failure Count']:>10}"
        )
    for failure in failures[:10]:
        print(f"  {failure['Occurrences']} x {failure['Name']}: {failure['Error'][:200]}")
    print(f"FAILURES: {failed}")
