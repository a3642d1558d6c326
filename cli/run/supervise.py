"""The supervisor of local processes: starts and restarts them, shows their errors, stops them in order.

It is one thread with one loop, woken by signals. A child that dies is started again after 0.1 s, with exponential
backoff when it keeps dying. The supervisor holds the API's port, so that no other program can take it while a process
is replaced.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from cli.run.child import BACKOFF_S_MAX, CannotRun, Child
from runtime.local.embedded import EmbeddedServer
from runtime.local.postgres_account import CannotStart

_TICK_S = 0.2
_STOP_S_MAX = 20.0  # after DRAIN_S: time for requests and deliveries under way to end
_LOG_BYTES_MAX = 16_000_000
_ECHO_LINES_MAX = 20  # per tick; further lines stay in the log


class Supervisor:
    """Keeps children and servers running. Children stop in the order of `add`, then servers in reverse order."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.stopping = False
        self.drain_s = 0
        self._children: list[Child] = []
        self._servers: list[EmbeddedServer] = []
        self._restart_at: dict[str, float] = {}
        self._kind_to_replace = ""  # the kind of process to replace
        self._to_replace: list[Child] = []
        self._read_offsets: dict[Path, int] = {}
        self._changed_callback: Callable[[], None] = lambda: None
        self._at_each_tick: Callable[[], None] = lambda: None
        self._ended_callback: Callable[[int], None] = lambda _: None
        self._wake_in, self._wake_out = os.pipe()
        for end in (self._wake_in, self._wake_out):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wake_out, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._request_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to wake the loop

    def log(self, kind: str) -> Path:
        """The log of a kind of process."""
        path = self.logs / f"{kind}.log"
        if path not in self._read_offsets:
            self._read_offsets[path] = path.stat().st_size if path.exists() else 0
        return path

    def add(self, child: Child) -> None:
        self._children.append(child)

    def add_server(self, server: EmbeddedServer) -> None:
        self._servers.append(server)

    def on_change(self, changed: Callable[[], None]) -> None:
        """`changed` is called whenever a process was started."""
        self._changed_callback = changed

    def on_tick(self, look: Callable[[], None]) -> None:
        """`look` is called several times a second once the API is ready; it may add children."""
        self._at_each_tick = look

    def on_end(self, ended: Callable[[int], None]) -> None:
        """`ended` is called with the process id of each child that ended before the supervisor stops."""
        self._ended_callback = ended

    def replace_on(self, number: signal.Signals, kind: str) -> None:
        """On this signal, replaces all processes of a kind one by one, each once its successor listens."""

        def request_replacement(_number: int, _frame: FrameType | None) -> None:
            self._kind_to_replace = kind

        signal.signal(number, request_replacement)

    def pids(self) -> dict[str, list[int]]:
        pids_by_kind: dict[str, list[int]] = {"supervisor": [os.getpid()]}
        for server in self._servers:
            pids_by_kind[server.kind] = [server.pid]
        for child in self._children:
            pids = pids_by_kind.setdefault(child.kind, [])
            if child.process is not None:
                pids.append(child.process.pid)
        return pids_by_kind

    def run(self, *, ready: Callable[[], bool], on_ready: Callable[[], None], ready_s_max: float) -> None:
        """Runs until a signal asks to stop. CannotRun when `ready` has not become true after `ready_s_max`."""
        deadline, is_ready = time.monotonic() + ready_s_max, False
        while not self.stopping:
            self.tend()
            self._echo_errors()
            self._bound_logs()
            if is_ready:
                self._at_each_tick()
            else:
                is_ready = ready()
                if is_ready:
                    on_ready()
                elif time.monotonic() > deadline:
                    listens = any(child.listens() for child in self._children if child.kind == "api")
                    state = "listens and is not ready" if listens else "does not listen"
                    raise CannotRun(f"the API {state} after {ready_s_max:.0f} s; see {self.log('api')}")
            self._sleep(_TICK_S if is_ready else 0.05)

    def stop(self) -> None:
        kinds = list(dict.fromkeys(child.kind for child in self._children))
        for kind in kinds:
            self._stop_children([child for child in self._children if child.kind == kind])
        for server in reversed(self._servers):
            with contextlib.suppress(ProcessLookupError):
                server.stop()
        self._echo_errors()

    def tend(self) -> None:
        """Starts the servers and children that are due, and carries on a replacement."""
        changed = False
        for server in self._servers:
            if not server.alive() and time.monotonic() >= self._restart_at.get(server.kind, 0.0):
                say(f"{server.kind} ended; starting it again")
                self._restart_at[server.kind] = time.monotonic() + BACKOFF_S_MAX
                try:
                    server.restart()
                except (CannotStart, OSError) as error:  # its port is taken, the disk is full: the others go on
                    say(str(error))
                changed = True
        changed |= self._continue_replacement()
        for child in self._children:
            if child.replaced is not None:
                continue
            if child.process is not None and child.process.poll() is not None:
                self._ended_callback(child.process.pid)
                others_listen = any(one.listens() for one in self._children if one.kind == child.kind)
                say(f"{child.kind} {child.died(others_listen=others_listen)}")
            if child.process is None and time.monotonic() >= child.due:
                try:
                    child.start()
                except OSError as error:  # no room for its log, no memory for a process
                    say(
                        f"{child.kind} cannot be started: {error.strerror}; trying again in {child.delay_start():.1f} s"
                    )
                changed = True
        if changed:
            self._changed_callback()

    def _continue_replacement(self) -> bool:
        """Carries on the replacement that was asked for; returns whether a process has started or ended."""
        if self._kind_to_replace and not self._to_replace:
            self._to_replace = [child for child in self._children if child.kind == self._kind_to_replace]
            self._kind_to_replace = ""
        if not self._to_replace:
            return False
        child = self._to_replace[0]
        if child.replaced is None:
            if not child.alive():  # it is restarted in any case
                del self._to_replace[0]
                return False
            try:
                child.start_successor()
            except OSError as error:
                say(f"{child.kind} cannot be replaced: {error.strerror}")
                self._to_replace.clear()
            return True
        old = child.replaced.pid
        outcome = child.continue_replacement()
        if outcome is None:
            return False
        say(f"{child.kind} {outcome}")
        if child.process is not None and child.process.pid == old:
            self._to_replace.clear()
        else:
            self._ended_callback(old)
            del self._to_replace[0]
        return True

    def _stop_children(self, children: list[Child]) -> None:
        processes = [(child.kind, process) for child in children for process in child.processes()]
        for _, process in processes:
            process.terminate()
        stop_s_max = self.drain_s + _STOP_S_MAX
        deadline = time.monotonic() + stop_s_max
        for kind, process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                say(f"{kind} did not stop in {stop_s_max:.0f} s; killed")
                process.kill()
                process.wait()

    def _sleep(self, timeout_s: float) -> None:
        due = [child.due - time.monotonic() for child in self._children if child.process is None]
        wait_s = max(0.0, min([timeout_s, *due]))
        if select.select([self._wake_in], [], [], wait_s)[0]:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_in, 4096)

    def _request_stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stopping = True

    def _echo_errors(self) -> None:
        for path, start in self._read_offsets.items():
            if not path.exists() or path.stat().st_size <= start:
                continue
            with path.open("rb") as file:
                file.seek(start)
                text = file.read(1_000_000)
            lines = text[: text.rfind(b"\n") + 1] or (text if len(text) == 1_000_000 else b"")
            self._read_offsets[path] = start + len(lines)
            errors = [error for line in lines.splitlines() if (error := _error_in(line))]
            for error in errors[:_ECHO_LINES_MAX]:
                say(f"{path.stem}: {error}")

    def _bound_logs(self) -> None:
        """Copies a large log and empties it, because its writers keep it open and append. Lines written between the two
        steps are lost. One copy is kept of each log; when the disk has no room for it, none."""
        for path in self.logs.glob("*.log"):
            with contextlib.suppress(OSError):
                if path.stat().st_size <= _LOG_BYTES_MAX:
                    continue
                copy = path.with_suffix(".log.1")
                copy.unlink(missing_ok=True)
                try:
                    shutil.copy(path, copy)
                except OSError:
                    copy.unlink(missing_ok=True)
                os.truncate(path, 0)
                if path in self._read_offsets:
                    self._read_offsets[path] = 0


def say(line: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone; that must not end the supervisor
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
    return ": ".join(str(record[name]) for name in ("event", "error", "reason") if record.get(name))[:300]
