"""The supervisor of local processes: starts and restarts them, shows their errors, stops them in order.

One thread, one loop, woken by signals. A child that dies is started again after 0.1 s, with exponential backoff when it
keeps dying. The supervisor holds the API's port, so that no other program can take it while a process is replaced.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

from runtime.local.embedded import EmbeddedServer
from runtime.local.files import open_log
from runtime.local.postgres_account import CannotStart
from runtime.local.process import child_setup

_TICK_S = 0.2
_BACKOFF_S_MIN = 0.1
_BACKOFF_S_MAX = 5.0
_STEADY_S = 10.0  # a child that lived this long starts again without a longer wait
_STOP_S_MAX = 20.0  # beside DRAIN_S: requests and deliveries under way may end
_LOG_BYTES_MAX = 16_000_000
_ECHO_LINES_MAX = 20  # a tick; the rest stays in the log


class CannotRun(Exception):
    """The message is one line for the person at the terminal."""


class Port:
    """A TCP port and one socket for each process that will listen on it.

    On Linux each process has a socket of its own and the kernel spreads connections evenly over them
    (one shared socket sends sixteen keep-alive connections to a single process). Elsewhere all share one.
    """

    def __init__(self, host: str, port: int, processes: int) -> None:
        self._address = (host, port)
        self._own = sys.platform == "linux"
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._family = family
        # First without SO_REUSEPORT, with which binding would succeed beside another service of the same user.
        try:
            self._bound(reuse_port=False).close()
            count = processes if self._own else 1
            self._sockets = [self._bound(reuse_port=self._own) for _ in range(count)]
        except OSError as error:
            raise CannotRun(f"port {port} on {host} cannot be used ({error.strerror}); set PORT to another") from None

    def fileno(self, index: int) -> int:
        return self._sockets[index % len(self._sockets)].fileno()

    def listens(self, index: int) -> bool:
        """Whether the process of this socket has started and listens."""
        asked = self._sockets[index % len(self._sockets)]
        return asked.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1

    def renew(self, index: int) -> None:
        """Let the kernel send new connections to the other processes until this one listens again."""
        if self._own:
            fresh = self._bound(reuse_port=True)
            self._sockets[index].close()
            self._sockets[index] = fresh

    def close(self) -> None:
        for one in self._sockets:
            one.close()

    def _bound(self, *, reuse_port: bool) -> socket.socket:
        made = socket.socket(self._family)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.bind(self._address)  # bound, not listening: the process listens when it can answer
            made.setblocking(False)
        except OSError:
            made.close()
            raise
        return made


class Child:
    """A process to be kept running. `kind` groups equal processes. Without a log it has the supervisor's output."""

    def __init__(
        self,
        kind: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path | None,
        port: Port | None = None,
        index: int = 0,
    ) -> None:
        self.kind = kind
        self.process: subprocess.Popen[bytes] | None = None
        self.due = 0.0
        self._arguments = list(arguments)
        self._env = dict(env)
        self._log = log
        self._port = port
        self._index = index
        self._started = 0.0
        self._backoff_s = _BACKOFF_S_MIN

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def listens(self) -> bool:
        return self.alive() and self._port is not None and self._port.listens(self._index)

    def start(self) -> None:
        arguments, inherited = self._arguments, ()
        if self._port is not None:
            fd = self._port.fileno(self._index)
            arguments, inherited = [*arguments, str(fd)], (fd,)  # type: ignore[assignment]
        self._started = time.monotonic()
        with self._opened_log() as log:
            self.process = subprocess.Popen(  # noqa: S603
                arguments,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log and subprocess.STDOUT,
                pass_fds=inherited,
                # Ctrl-C reaches the supervisor alone, which stops its children in order.
                start_new_session=True,
                preexec_fn=child_setup(death_signal=signal.SIGTERM),
            )

    def _opened_log(self) -> contextlib.AbstractContextManager[IO[bytes] | None]:
        if self._log is None:
            return contextlib.nullcontext()
        return open_log(self._log)

    def died(self, *, others_listen: bool) -> str:
        """Plan the next start; answers how it ended and when it starts again."""
        assert self.process is not None, "only a started child dies"
        code, self.process = self.process.returncode, None
        if time.monotonic() - self._started > _STEADY_S:
            self._backoff_s = _BACKOFF_S_MIN
        if self._port is not None and others_listen:
            self._port.renew(self._index)
        return f"{ending(code)}; starting it again in {self.put_off():.1f} s"

    def put_off(self) -> float:
        """Plan the next start, each time later; answers in how many seconds."""
        wait_s = self._backoff_s
        self.due = time.monotonic() + wait_s
        self._backoff_s = min(wait_s * 2, _BACKOFF_S_MAX)
        return wait_s


class Supervisor:
    """Children stop in the order they were added, servers after them in reverse order."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.stopping = False
        self.drain_s = 0
        self._children: list[Child] = []
        self._servers: list[EmbeddedServer] = []
        self._restart_at: dict[str, float] = {}
        self._read: dict[Path, int] = {}
        self._changed: Callable[[], None] = lambda: None
        self._ended: Callable[[int], None] = lambda _: None
        self._wake_in, self._wake_out = os.pipe()
        for end in (self._wake_in, self._wake_out):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake_out, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._asked_to_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to wake the loop

    def log(self, kind: str) -> Path:
        """The log of a kind of process; a large one is renamed at start."""
        path = self.logs / f"{kind}.log"
        if path not in self._read:
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_size > _LOG_BYTES_MAX:
                    path.replace(path.with_suffix(".log.1"))
            self._read[path] = path.stat().st_size if path.exists() else 0
        return path

    def add(self, child: Child) -> None:
        self._children.append(child)

    def add_server(self, server: EmbeddedServer) -> None:
        self._servers.append(server)

    def on_change(self, changed: Callable[[], None]) -> None:
        """`changed` is called whenever a process was started."""
        self._changed = changed

    def on_end(self, ended: Callable[[int], None]) -> None:
        """`ended` is called with the number of each child process that ended by itself."""
        self._ended = ended

    def pids(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {"supervisor": [os.getpid()]}
        for server in self._servers:
            found[server.kind] = [server.pid]
        for child in self._children:
            pids = found.setdefault(child.kind, [])
            if child.process is not None:
                pids.append(child.process.pid)
        return found

    def run(self, *, ready: Callable[[], bool], on_ready: Callable[[], None], ready_s_max: float) -> None:
        """Until asked to stop. Raises CannotRun when `ready` has not become true after `ready_s_max`."""
        deadline, is_ready = time.monotonic() + ready_s_max, False
        while not self.stopping:
            self.tend()
            self._echo_errors()
            if not is_ready:
                is_ready = ready()
                if is_ready:
                    on_ready()
                elif time.monotonic() > deadline:
                    raise CannotRun(f"the API is not ready after {ready_s_max:.0f} s; see {self.log('api')}")
            self._sleep(_TICK_S if is_ready else 0.05)

    def stop(self) -> None:
        kinds = list(dict.fromkeys(child.kind for child in self._children))
        for kind in kinds:
            self._end([child for child in self._children if child.kind == kind])
        for server in reversed(self._servers):
            with contextlib.suppress(ProcessLookupError):
                server.stop()
        self._echo_errors()

    def tend(self) -> None:
        """Start what is due to start."""
        changed = False
        for server in self._servers:
            if not server.alive() and time.monotonic() >= self._restart_at.get(server.kind, 0.0):
                say(f"{server.kind} ended; starting it again")
                self._restart_at[server.kind] = time.monotonic() + _BACKOFF_S_MAX
                try:
                    server.restart()
                except (CannotStart, OSError) as error:  # its port was taken, its disk is full: what runs goes on
                    say(str(error))
                changed = True
        for child in self._children:
            if child.process is not None and child.process.poll() is not None:
                self._ended(child.process.pid)
                others = any(one.listens() for one in self._children if one.kind == child.kind)
                say(f"{child.kind} {child.died(others_listen=others)}")
            if child.process is None and time.monotonic() >= child.due:
                try:
                    child.start()
                except OSError as error:  # no room for its log, no memory for a process
                    say(f"{child.kind} cannot be started: {error.strerror}; trying again in {child.put_off():.1f} s")
                changed = True
        if changed:
            self._changed()

    def _end(self, children: list[Child]) -> None:
        for child in children:
            if child.process is not None:
                child.process.terminate()
        stop_s_max = self.drain_s + _STOP_S_MAX
        deadline = time.monotonic() + stop_s_max
        for child in children:
            if child.process is None:
                continue
            try:
                child.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                say(f"{child.kind} did not stop in {stop_s_max:.0f} s; killed")
                child.process.kill()
                child.process.wait()

    def _sleep(self, timeout_s: float) -> None:
        due = [child.due - time.monotonic() for child in self._children if child.process is None]
        wait_s = max(0.0, min([timeout_s, *due]))
        if select.select([self._wake_in], [], [], wait_s)[0]:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_in, 4096)

    def _asked_to_stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stopping = True

    def _echo_errors(self) -> None:
        for path, start in self._read.items():
            if not path.exists() or path.stat().st_size <= start:
                continue
            with path.open("rb") as file:
                file.seek(start)
                text = file.read(1_000_000)
            whole = text[: text.rfind(b"\n") + 1] or (text if len(text) == 1_000_000 else b"")
            self._read[path] = start + len(whole)
            errors = [said for line in whole.splitlines() if (said := _error_in(line))]
            for said in errors[:_ECHO_LINES_MAX]:
                say(f"{path.stem}: {said}")


def ending(code: int) -> str:
    """How a process ended, for people."""
    if code >= 0:
        return f"ended (exit {code})"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def say(line: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone; what runs goes on
        print(f"quita: {line}", flush=True)


def _error_in(line: bytes) -> str:
    """The short form of a structured log line of level error, else ''."""
    if b'"error"' not in line and b'"critical"' not in line:
        # The last line of a traceback is not indented and names the exception: "ValueError: ..."
        name = line.split(b":", 1)[0]
        bare = name.replace(b".", b"").isalnum() and name.endswith((b"Error", b"Exception"))
        return line.decode(errors="replace")[:300] if bare else ""
    try:
        record = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(record, dict) or record.get("level") not in ("error", "critical"):
        return ""
    exception = str(record.get("exception", "")).strip().rsplit("\n", 1)[-1]
    return " ".join(part for part in (str(record.get("event", "")), exception) if part)[:300]
