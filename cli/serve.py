"""Serve the API: `quita serve` keeps API_PROCESSES processes running, each one granian on a socket it is
handed.

A process is a whole server (granian's embedded form), so that there is no second supervisor whose
death would leave orphans on the port. It begins to listen when the application has started.
"""

import argparse
import asyncio
import gc
import os
import shutil
import signal
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.supervise import CannotRun, Child, Port, Supervisor, say

_BACKLOG = 4096
# Counts connections, not requests: more keep-alive clients than this would wait for each other.
_CONNECTIONS_MAX = 1024
_READY_S_MAX = 60.0


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("serve", help="serve the API (DATABASE_URL, REDIS_URL, SECRET_KEY, PORT)")
    parser.set_defaults(run=serve)


def serve(_: argparse.Namespace) -> int:
    from runtime.settings import read_settings

    try:
        settings = read_settings()
    except ValueError as error:
        raise CannotRun(str(error)) from None
    logs = settings.home / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    supervisor = Supervisor(logs)
    port = Port(settings.host, settings.port, settings.api_processes)
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": counters(settings.home)}
    for child in api_children(settings.api_processes, port, env, log=None):  # a collector reads our own output
        supervisor.add(child)
    try:
        supervisor.run(
            ready=lambda: answers(settings.port),
            on_ready=lambda: say(f"the API answers on port {settings.port}"),
            ready_s_max=_READY_S_MAX,
        )
    finally:
        supervisor.stop()
    return 0


def api_children(processes: int, port: Port, env: Mapping[str, str], log: Path | None) -> list[Child]:
    command = [sys.executable, "-m", "cli.serve"]
    return [Child("api", command, env=env, log=log, port=port, index=index) for index in range(processes)]


def counters(home: Path) -> str:
    """The folder where the processes' counters meet; what processes of an earlier run left there counts no more."""
    folder = home / "metrics"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return str(folder)


def answers(port: int) -> bool:
    """Does GET /readyz answer 200?"""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def one_process(fd: int) -> int:
    """Be one API process, listening on the inherited socket `fd`; ends on SIGTERM when its requests have
    ended.
    """
    import uvloop
    from granian._granian import SocketHolder
    from granian.constants import HTTPModes, Interfaces
    from granian.log import LogLevels
    from granian.server.embed import Server

    from cli.asgi import app

    class Handed(Server):
        def _init_shared_socket(self) -> None:
            # Granian's stubs do not know the arguments: a descriptor, not a path, how many may queue.
            holder: Any = SocketHolder
            self._ssp, self._shd = None, holder(fd, False, _BACKLOG)

    server = Handed(
        app,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        backlog=_BACKLOG,
        backpressure=_CONNECTIONS_MAX,
        log_level=LogLevels.error,  # access is logged by the application, with its request id
    )

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        await server.serve()

    gc.collect()
    gc.freeze()  # what was loaded stays: the collector need not look at it again
    uvloop.run(run())
    return 1 if server.interrupt_children else 0


if __name__ == "__main__":
    sys.exit(one_process(int(sys.argv[1])))
