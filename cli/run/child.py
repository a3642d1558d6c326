"""A process that the supervisor keeps running, and the socket it inherits.

A replacement leaves no moment in which no process listens: the successor starts on the same socket, and the old process
gets HAND_OVER only once the successor reports that it listens.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from runtime.local.files import open_log
from runtime.local.process import child_setup

_BACKOFF_S_MIN = 0.1
BACKOFF_S_MAX = 5.0
_STEADY_S = 10.0  # a child that lived this long restarts with the shortest wait again
_SUCCESSOR_S_MAX = 120.0  # a successor that does not listen by then is killed, and the old process goes on
_HANDED_OVER_S_MAX = 30.0  # time for the old process' requests to end
HAND_OVER = signal.SIGUSR1
"""Tells a process that its successor listens on the same socket."""


class CannotRun(Exception):
    """The message is one line for the person at the terminal."""


class Port:
    """A TCP port and the sockets for the processes that will listen on it.

    On Linux each process has its own socket and the kernel spreads connections evenly over them (with one shared
    socket, all of sixteen keep-alive connections went to a single process). Elsewhere all processes share one socket.
    """

    def __init__(self, host: str, port: int, processes: int) -> None:
        self._address = (host, port)
        self._has_own_sockets = sys.platform == "linux"
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._family = family
        # A first bind without SO_REUSEPORT: with it, bind would succeed beside another service of the same user.
        try:
            self._bound_socket(reuse_port=False).close()
            count = processes if self._has_own_sockets else 1
            self._sockets = [self._bound_socket(reuse_port=self._has_own_sockets) for _ in range(count)]
        except OSError as error:
            raise CannotRun(f"port {port} on {host} cannot be used ({error.strerror}); set PORT to another") from None

    def fileno(self, index: int) -> int:
        return self._sockets[index % len(self._sockets)].fileno()

    def listens(self, index: int) -> bool:
        """Whether the process of this socket has started and listens."""
        listener = self._sockets[index % len(self._sockets)]
        return listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1

    def renew(self, index: int) -> None:
        """Replaces the socket of a process that died, so that the kernel sends new connections to the other processes
        until this one listens again."""
        if self._has_own_sockets:
            fresh = self._bound_socket(reuse_port=True)
            self._sockets[index].close()
            self._sockets[index] = fresh

    def close(self) -> None:
        for one in self._sockets:
            one.close()

    def _bound_socket(self, *, reuse_port: bool) -> socket.socket:
        bound = socket.socket(self._family)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            bound.bind(self._address)  # bound but not listening: the process listens once it can answer
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
        return bound


class Child:
    """A process to keep running. `kind` groups equal processes. Without a log it inherits the supervisor's output."""

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
        self._started_at = 0.0
        self._backoff_s = _BACKOFF_S_MIN
        self._report_fd: int | None = None
        """The reading end of the pipe in which the latest process reports that it listens."""
        self.replaced: subprocess.Popen[bytes] | None = None
        """The process whose place `process` takes, until it has ended."""
        self._handed_over_at = 0.0

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def listens(self) -> bool:
        return self.alive() and self._port is not None and self._port.listens(self._index)

    def start(self) -> None:
        arguments: list[str] = self._arguments
        inherited: tuple[int, ...] = ()
        write_fd = None
        if self._port is not None:
            self._close_report_fd()
            self._report_fd, write_fd = os.pipe()
            os.set_blocking(self._report_fd, False)
            inherited = (self._port.fileno(self._index), write_fd)
            arguments = [*arguments, *map(str, inherited)]
        self._started_at = time.monotonic()
        with self._opened_log() as log, closing_fd(write_fd):
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

    def start_successor(self) -> None:
        """Starts a successor on the same socket, beside the running process."""
        assert self.process is not None, "only a process that runs is replaced"
        self.replaced, self.process = self.process, None
        try:
            self.start()
        except OSError:
            self.process, self.replaced = self.replaced, None
            raise

    def continue_replacement(self) -> str | None:
        """Carries a replacement on. Returns None while it lasts, else its outcome, for people."""
        assert self.replaced is not None, "a replacement was begun"
        if self._handed_over_at:
            if self.replaced.poll() is None and time.monotonic() < self._handed_over_at + _HANDED_OVER_S_MAX:
                return None
            self._end_replaced()
            return "was replaced"
        failed = self.process is None or self.process.poll() is not None
        if not failed and self._reports_listening():
            self._handed_over_at = time.monotonic()
            self.replaced.send_signal(HAND_OVER)
            return None
        if not failed and time.monotonic() < self._started_at + _SUCCESSOR_S_MAX:
            return None
        if self.process is not None and not failed:
            self.process.kill()
            self.process.wait()
        self.process, self.replaced = self.replaced, None
        return "has no successor that starts; it goes on, and the others are not replaced"

    def processes(self) -> "list[subprocess.Popen[bytes]]":
        """The running processes, including one that is being replaced."""
        return [each for each in (self.process, self.replaced) if each is not None]

    def _end_replaced(self) -> None:
        assert self.replaced is not None
        if self.replaced.poll() is None:
            self.replaced.kill()
            self.replaced.wait()
        self.replaced, self._handed_over_at = None, 0.0

    def _reports_listening(self) -> bool:
        assert self._report_fd is not None, "it has a port"
        with contextlib.suppress(BlockingIOError):
            return os.read(self._report_fd, 1) == b"1"
        return False

    def _close_report_fd(self) -> None:
        if self._report_fd is not None:
            os.close(self._report_fd)
            self._report_fd = None

    def _opened_log(self) -> contextlib.AbstractContextManager[IO[bytes] | None]:
        if self._log is None:
            return contextlib.nullcontext()
        return open_log(self._log)

    def died(self, *, others_listen: bool) -> str:
        """Plans the next start; returns how the process ended and when it starts again, for people."""
        assert self.process is not None, "only a started child dies"
        code, self.process = self.process.returncode, None
        if time.monotonic() - self._started_at > _STEADY_S:
            self._backoff_s = _BACKOFF_S_MIN
        if self._port is not None and others_listen:
            self._port.renew(self._index)
        return f"{describe_exit(code)}; starting it again in {self.delay_start():.1f} s"

    def delay_start(self) -> float:
        """Plans the next start with exponential backoff; returns the seconds until then."""
        wait_s = self._backoff_s
        self.due = time.monotonic() + wait_s
        self._backoff_s = min(wait_s * 2, BACKOFF_S_MAX)
        return wait_s


@contextlib.contextmanager
def closing_fd(fd: int | None) -> Iterator[None]:
    """Closes the descriptor at the end: the child process has inherited its own copy."""
    try:
        yield
    finally:
        if fd is not None:
            os.close(fd)


def describe_exit(code: int) -> str:
    """How a process ended, for people."""
    if code >= 0:
        return f"ended (exit {code})"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
