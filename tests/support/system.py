"""The whole system for tests: `quita up` as a child process, with its own home and ports."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.local.ports import free_port
from runtime.local.process import child_setup
from tests.support.log_search import leaks_in_files, remember_secret

ROOT = Path(__file__).resolve().parents[2]
START_S_MAX = 90.0
STOP_S_MAX = 60.0

# Attempts follow each other quickly, so that a test can see the last one.
QUICK_WEBHOOKS = {"WEBHOOK_DELAYS_S": "0.2,0.4,0.8,1.6", "WEBHOOK_JITTER": "0"}
# The default of `quita up`.
TWO_APIS = {"API_PROCESSES": "2"}
_MEMORY, _MEMINFO = Path("/dev/shm"), Path("/proc/meminfo")
_ROOM_BYTES = 4 << 30
# Names of homes contain the namespace of process ids: another container may share the same in-memory file system.
_PIDS = Path("/proc/self/ns/pid")
_HOME_PREFIX = f"quita-of-{_PIDS.stat().st_ino if _PIDS.exists() else 0}-"
_SETTINGS_REMOVED = (
    "DATABASE_URL",
    "DATABASE_OWNER_URL",
    "DATABASE_REPORT_URL",
    "DATABASE_READ_URL",
    "REDIS_URL",
    "SECRET_KEY",
    "BANK_URL",
    "BANK_PORT",
    "BASE_URL",
    "APP_URL",
    "DOCS_URL",
    "HOST",
)


class System:
    """A running system. `base_url`, `app_url`, `docs_url`, `bank_url` and `merchants` are those of dev.json."""

    def __init__(self, home: Path, *, env: Mapping[str, str] = {}) -> None:
        self.home = home
        port = env.get("PORT", "")
        self.port = int(port) if port.isdigit() else free_port()
        self.env = {name: value for name, value in os.environ.items() if name not in _SETTINGS_REMOVED}
        self.env |= {
            "QUITA_HOME": str(home),
            "PORT": str(self.port),
            "QUITA_FSYNC": "off",
            "PYTHONPATH": str(ROOT),
            # Production's stock of locations would take minutes of a core beside the tests, and the default minimum
            # stock 3 s of each start.
            "PIX_LOCATIONS_MIN": "500",
            "PIX_LOCATIONS_MAX": "500",
            "SANDBOX_LOCATIONS_MIN": "500",
            # A second process takes 3 s of a core; only tests of several processes need it.
            "API_PROCESSES": "1",
            **QUICK_WEBHOOKS,
            **env,
        }
        self.dev: dict[str, Any] = {}
        self.output = home.with_name(home.name + ".out")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "System":
        """Start, and wait until dev.json exists, which shows that the API answers."""
        self.spawn()
        deadline = time.monotonic() + START_S_MAX
        while not (self.home / "dev.json").exists():
            assert self.process.poll() is None, f"quita up ended with {self.process.returncode}:\n{self.said()}"
            assert time.monotonic() < deadline, f"quita up is not ready after {START_S_MAX:.0f} s:\n{self.said()}"
            time.sleep(0.05)
        self.dev = json.loads((self.home / "dev.json").read_text(encoding="utf-8"))
        for merchant in self.merchants:
            _remember_secrets(merchant)
        remember_secret(self.dev["staff"]["password"], self.secret_key.hex())
        return self

    def spawn(self) -> None:
        """Start without waiting; dev.json of an earlier run is removed before."""
        self.home.parent.mkdir(parents=True, exist_ok=True)
        (self.home / "dev.json").unlink(missing_ok=True)
        with self.output.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cli.main", "up"], cwd=ROOT, env=self.env, stdout=out, stderr=out,
                stdin=subprocess.DEVNULL, preexec_fn=child_setup(death_signal=signal.SIGTERM),
            )  # fmt: skip

    def stop(self) -> int:
        """Stop with SIGTERM; returns the exit code, which must be 0."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S_MAX)

    def kill(self) -> None:
        """Kill the supervisor with SIGKILL."""
        self.process.kill()
        self.process.wait(STOP_S_MAX)

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "the system was not started"
        return self._process

    @property
    def base_url(self) -> str:
        return str(self.dev["base_url"])

    @property
    def app_url(self) -> str:
        return str(self.dev["app_url"])

    @property
    def docs_url(self) -> str:
        return str(self.dev["docs_url"])

    @property
    def bank_url(self) -> str:
        return str(self.dev["bank_url"])

    @property
    def merchants(self) -> list[dict[str, Any]]:
        """Three merchants: two complete and approved, the third with an incomplete address and KYC pending."""
        found: list[dict[str, Any]] = self.dev["merchants"]
        return found

    @property
    def database_url(self) -> str:
        return str(self.run_json()["database_url"])

    @property
    def owner_url(self) -> str:
        """The database's URL for the owner of the tables, for operations that no process of the service may do."""
        return str(self.run_json()["database_owner_url"])

    @property
    def redis_url(self) -> str:
        return str(self.run_json()["redis_url"])

    @property
    def secret_key(self) -> bytes:
        return bytes.fromhex((self.home / "secret.key").read_text(encoding="ascii"))

    def run_json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "run.json").read_text(encoding="utf-8"))
        return found

    def pids(self, kind: str) -> list[int]:
        """The present process ids of a kind: supervisor, api, worker, bank, postgres, redis."""
        pids: list[int] = self.run_json()["pids"].get(kind, [])
        return pids

    def quita(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of `quita` against this system."""
        return subprocess.run(
            [sys.executable, "-m", "cli.main", *arguments], cwd=ROOT, env=self.env,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def json(self, *arguments: str) -> Any:
        """Run a command of `quita`, which must succeed; returns its JSON."""
        result = self.quita(*arguments, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def status(self) -> Any:
        """The JSON of `quita status`. It gives the API 2 s, which is too little on a machine that stalls, so it is
        tried again for a minute."""

        def ready() -> Any:
            result = self.quita("status", "--json")
            return json.loads(result.stdout) if result.returncode == 0 else None

        return until(ready, within_s=60)

    def create_merchant(self, name: str = "", *, address: bool = True, kyc: str = "approved") -> dict[str, Any]:
        """Create a merchant; returns a record as in dev.json."""
        more = () if address else ("--no-address",)
        name = name or f"Loja {secrets.token_hex(4)}"
        made: dict[str, Any] = self.json("merchant", "create", "--name", name, "--kyc", kyc, *more)
        _remember_secrets(made)
        return made

    def leaked(self) -> list[str]:
        """The secrets and personal data in the logs of all processes, as far as the logs are written."""
        return leaks_in_files(sorted((self.home / "logs").glob("*.log*")))

    def said(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace") if self.output.exists() else ""


def _remember_secrets(merchant: Mapping[str, Any]) -> None:
    remember_secret(
        merchant["test"]["client_secret"], merchant["production"]["client_secret"], merchant["dashboard"]["password"]
    )


def temporary_home(*, on_disk: bool = False) -> Path:
    """A home in a new folder, which the user `nobody`, under whom root's PostgreSQL runs, may pass through.

    It is in memory where there is room: a test's own database has a thousand files, and copying them on disk takes up
    to a second of a core. `on_disk` is for tests that measure a disk or execute files, which some systems forbid in
    memory."""
    in_memory = not on_disk and _has_room(_MEMORY)
    folder = Path(tempfile.mkdtemp(prefix=f"{_HOME_PREFIX}{os.getpid()}-", dir=_MEMORY if in_memory else None))
    folder.chmod(0o711)
    return folder / "home"


def _has_room(memory: Path) -> bool:
    """Whether this file system and the free memory have room for more homes, of up to half a gigabyte each, than tests
    have at a time."""
    try:
        _remove_homes_of_killed_runs(memory)
        left_kb = next(line.split()[1] for line in _MEMINFO.read_text("ascii").splitlines() if "MemAvailable" in line)
        return min(shutil.disk_usage(memory).free, int(left_kb) << 10) > _ROOM_BYTES
    except (OSError, StopIteration):
        return False


def _remove_homes_of_killed_runs(memory: Path) -> None:
    """Remove the homes that killed runs left in memory, which others need."""
    for folder in memory.glob(f"{_HOME_PREFIX}*"):
        if not Path("/proc", folder.name.removeprefix(_HOME_PREFIX).partition("-")[0]).exists():
            shutil.rmtree(folder, ignore_errors=True)


def remove_home(home: Path) -> None:
    shutil.rmtree(home.parent, ignore_errors=True)


def until(true: Any, *, within_s: float = 30.0, what: str = "") -> Any:
    """Call `true` until its result is truthy, and return the result; fails after `within_s`."""
    deadline = time.monotonic() + within_s
    while True:
        found = true()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {within_s} s: {what or true}"
        time.sleep(0.05)
