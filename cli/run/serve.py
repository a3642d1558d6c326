"""`quita serve` keeps API_PROCESSES processes of the API running, each a uvicorn server on an inherited socket.

Uvicorn's own supervisor is not used, because its death would leave its workers on the port. A process listens once its
application has started. On SIGHUP the supervisor replaces the processes one by one, each once its successor listens.
"""

import argparse
import asyncio
import contextlib
import fcntl
import http.client
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cli.answer import Commands
from cli.run.child import HAND_OVER, CannotRun, Child, Port
from cli.run.supervise import Supervisor, say

if TYPE_CHECKING:
    import uvicorn

    from cli.run.cells import CellRouter
    from cli.run.http_connection import Connections
    from runtime.settings import Settings

_BACKLOG = 4096
_REQUESTS_END_S = 15
_READY_S_MAX = 60.0
_LAST_ANSWERS_S = 2.0
"""How long a replaced process keeps its open connections; it closes each one with the next answer."""


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser("serve", help="serve the API (DATABASE_URL, REDIS_URL, SECRET_KEY, PORT)")
    parser.set_defaults(run=serve)


def serve(_: argparse.Namespace) -> int:
    from runtime.settings import read_settings

    try:
        settings = read_settings()
    except ValueError as error:
        raise CannotRun(str(error)) from None
    logs = settings.home / "logs"
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotRun(f"QUITA_HOME cannot be used: {error}") from None
    with locked(settings.home):
        return _run_supervised(settings, logs)


@contextlib.contextmanager
def locked(home: Path) -> Iterator[None]:
    """Locks the home: two supervisors would stop each other's PostgreSQL and delete each other's metrics. The lock ends
    with the process."""
    try:
        lock = (home / "up.lock").open("a+", encoding="ascii")
    except OSError as error:
        raise CannotRun(f"QUITA_HOME cannot be used: {error}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotRun(
                f"`quita up` or `quita serve` already runs in {home}; set QUITA_HOME and PORT for a second one"
            ) from None
        yield


def _run_supervised(settings: "Settings", logs: Path) -> int:
    supervisor = Supervisor(logs)
    supervisor.drain_s = settings.watching.drain_s
    supervisor.replace_on(signal.SIGHUP, "api")
    port = Port(settings.host, settings.port, settings.api_processes)
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": make_metrics_folder(settings.home)}
    serve_metrics(supervisor, settings)
    if settings.watching.metrics_port is None:
        say("METRICS_PORT is not set: metrics are served nowhere")
    else:
        say(f"metrics are on port {settings.watching.metrics_port}")
    for child in api_children(settings.api_processes, port, env, log=None):  # stdout is collected
        supervisor.add(child)
    try:
        supervisor.run(
            ready=lambda: is_ready(settings.host, settings.port),
            on_ready=lambda: say(f"the API answers on port {settings.port}"),
            ready_s_max=_READY_S_MAX,
        )
    finally:
        supervisor.stop()
    return 0


def api_children(processes: int, port: Port, env: Mapping[str, str], log: Path | None) -> list[Child]:
    command = [sys.executable, "-m", "cli.run.serve"]
    return [Child("api", command, env=env, log=log, port=port, index=index) for index in range(processes)]


def make_metrics_folder(home: Path) -> str:
    """The folder of the processes' shared metrics, without the files of earlier runs."""
    folder = home / "metrics"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise CannotRun(f"QUITA_HOME cannot be used: {error}") from None
    return str(folder)


def serve_metrics(supervisor: Supervisor, settings: "Settings") -> None:
    """Serves the metrics of the supervisor's children on METRICS_PORT, if it is set."""
    from cli.run.metrics_port import MetricsServer

    if (port := settings.watching.metrics_port) is not None:
        supervisor.on_end(MetricsServer(settings.home / "metrics", settings.host, port).ended)


def is_ready(host: str, port: int) -> bool:
    """Whether the API that listens on this address of this machine is ready; asked directly, without a proxy."""
    return _is_ready(http.client.HTTPConnection(reachable(host), port, timeout=2), "/readyz")


def is_ready_at(base_url: str) -> bool:
    """Whether the API at this BASE_URL is ready; False when the URL has no host."""
    parts = urlsplit(base_url)
    if not parts.hostname:
        return False
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return _is_ready(kind(parts.hostname, parts.port, timeout=2), f"{parts.path.rstrip('/')}/readyz")


def _is_ready(connection: http.client.HTTPConnection, path: str) -> bool:
    with contextlib.closing(connection) as conn:
        try:
            conn.request("GET", path)
            return conn.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


def reachable(host: str) -> str:
    """The address under which this machine reaches a server that listens on `host`."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def one_process(fd: int, started_fd: int | None = None) -> int:
    """Runs an API process on the inherited socket `fd`; writes to `started_fd` when it listens. On SIGTERM it reports
    not ready for DRAIN_S, finishes its requests and ends. On SIGUSR1, when another process listens on the same socket,
    it accepts no more connections, closes each open one with its next answer, and ends."""
    from runtime.limits.imports import import_lightly

    import_lightly()

    import uvicorn
    import uvloop

    from cli.run.asgi import app
    from cli.run.http_connection import Connections
    from runtime.limits.cycles import look_for_cycles_rarely
    from runtime.limits.http_bounds import raise_open_files
    from runtime.settings import read_settings

    settings = read_settings()
    bounds = settings.http.fitting(raise_open_files())
    connections = Connections(bounds, docs_url=settings.docs_url, proxies=settings.trusted_proxies)

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            # Uvicorn's own version raises the signal again at the end, so a clean stop would look like a crash.
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
            loop.add_signal_handler(HAND_OVER, self.hand_over)
            yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if started_fd is not None:
                if self.started:
                    os.write(started_fd, b"1")
                os.close(started_fd)

        def hand_over(self) -> None:
            # Connections that are not accepted yet stay in the socket's queue, for the successor.
            for each in self.servers:
                each.close()
            app.closing = True
            asyncio.get_running_loop().call_later(_LAST_ANSWERS_S, self.end)

        def stop(self) -> None:
            # First only /readyz answers 503, so that a load balancer sends no more; a second signal ends the wait.
            wait_s = 0 if app.draining else settings.watching.drain_s
            app.draining = True
            asyncio.get_running_loop().call_later(wait_s, self.end)

        def end(self) -> None:
            self.should_exit = True
            app.stopping()

    server = Server(_uvicorn_config(app, connections))
    look_for_cycles_rarely()
    uvloop.run(server.serve(sockets=[socket.socket(fileno=fd)]))
    return 0 if server.started else 1


def _uvicorn_config(app: "CellRouter", connections: "Connections") -> "uvicorn.Config":
    import uvicorn

    return uvicorn.Config(
        app,
        http=connections.protocol,  # type: ignore[arg-type]  # it calls what makes a protocol
        ws="none",
        interface="asgi3",  # uvicorn cannot detect it: our __call__ is no coroutine function but returns one
        lifespan="on",
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_REQUESTS_END_S,
        server_header=False,
        proxy_headers=False,
        access_log=False,  # the application logs requests, with their request ids
        log_config=None,
    )


if __name__ == "__main__":
    from runtime.local.count_files import reserve_count_files

    reserve_count_files()
    sys.exit(one_process(*map(int, sys.argv[1:3])))
