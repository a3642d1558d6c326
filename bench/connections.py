"""The cost per request of the deadlines and bounds of connections: an ASGI application that answers `{}`, behind
uvicorn's own protocol and behind ours (cli/run/http_connection.py) in turn.

`BENCH_PROTOCOL=ours|uvicorn python -m bench.connections FD` runs one of the two servers.
"""

import os
import socket
import sys
import time
from contextlib import ExitStack
from typing import Any

import uvicorn
import uvloop

from bench.client import connect, http, status, window
from bench.creation import CONNECTIONS
from bench.environment import BenchEnvironment, cpu_s, running
from bench.report import Finding, rate, ratio
from cli.run.child import Child, Port
from cli.run.http_connection import Connections
from runtime.limits.http_bounds import HttpBounds
from runtime.local.ports import free_port

_ROUNDS = 12


async def connections(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    request = http("GET", "/v1/charges/0198c2a4-7b1e-7c3d-9f00-5a6b7c8d9e0f", token="t" * 43)
    kinds = ("ours", "uvicorn")
    with ExitStack() as stack:
        open_connections, pids = {}, {}
        for kind in kinds:
            port = Port("127.0.0.1", number := free_port(), 1)
            stack.callback(port.close)
            command = [sys.executable, "-m", "bench.connections"]
            child = _ServerChild(kind, command, environment, port)
            stack.enter_context(running([child]))
            while not child.listens():
                time.sleep(0.05)
            assert child.process is not None
            pids[kind] = child.process.pid
            open_connections[kind] = await connect(number, CONNECTIONS, processes=1)
        rates: dict[str, list[float]] = {kind: [] for kind in kinds}
        cpu_us: dict[str, list[float]] = {kind: [] for kind in kinds}
        for round_ in range(_ROUNDS + 1):
            for kind in kinds if round_ % 2 else reversed(kinds):
                before = cpu_s(pids[kind])
                result = await window(
                    open_connections[kind], lambda: request, status(200), seconds=seconds / _ROUNDS / 2
                )
                if round_:  # the first round warms up
                    rates[kind].append(result.per_s)
                    cpu_us[kind].append((cpu_s(pids[kind]) - before) / result.count * 1e6)
    return [
        ratio("requests: ours / uvicorn's", list(zip(rates["ours"], rates["uvicorn"], strict=True)), target=0.99),
        ratio("CPU of a request: uvicorn's / ours", list(zip(cpu_us["uvicorn"], cpu_us["ours"], strict=True))),
        *(rate(f"  {kind}", rates[kind]) for kind in kinds),
    ]


class _ServerChild(Child):
    def __init__(self, kind: str, command: list[str], environment: BenchEnvironment, port: Port) -> None:
        log = environment.home / f"{kind}.log"
        super().__init__(kind, command, env=environment.env | {"BENCH_PROTOCOL": kind}, log=log, port=port)


async def empty(scope: Any, receive: Any, send: Any) -> None:
    body = b"1" if scope["path"] == "/bench/process" else b"{}"
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve(fd: int, kind: str) -> None:
    ours: Any = Connections(HttpBounds(), docs_url="", proxies=()).protocol
    config = uvicorn.Config(
        empty, http=ours if kind == "ours" else "httptools", ws="none", lifespan="off", timeout_keep_alive=75,
        server_header=False, proxy_headers=False, access_log=False, log_config=None,
    )  # fmt: skip
    uvloop.run(uvicorn.Server(config).serve(sockets=[socket.socket(fileno=fd)]))


if __name__ == "__main__":
    serve(int(sys.argv[1]), os.environ["BENCH_PROTOCOL"])
