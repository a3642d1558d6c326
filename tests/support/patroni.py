"""Two PostgreSQL servers managed by Patroni, where it is installed, with its own consensus (raft) and a third voter."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from runtime.local.ports import free_port
from runtime.local.postgres_account import Account, postgres_account
from tests.support.standby import both
from tests.support.system import until

PROGRAM, VOTER = shutil.which("patroni"), shutil.which("patroni_raft_controller")
_UP_S = 120.0
_NODES = ("one", "two")


class Node:
    """A Patroni and its PostgreSQL."""

    def __init__(self, home: Path, name: str) -> None:
        self.name = name
        self.home = home / name
        self.home.mkdir(mode=0o755)
        self.account: Account = postgres_account(self.home)
        self.port, self.rest, self.raft = free_port(), free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def role(self) -> str:
        """The role that Patroni reports: primary (master before Patroni 4), replica, ...; empty without an answer."""
        try:
            return str(httpx.get(f"http://127.0.0.1:{self.rest}/patroni", timeout=2).json().get("role"))
        except (httpx.HTTPError, ValueError):
            return ""

    def said(self) -> str:
        return (self.home / "patroni.log").read_text(encoding="utf-8", errors="replace")[-4000:]


class Watched:
    """`nodes` are the primary and its synchronous standby, in any order."""

    def __init__(self, home: Path) -> None:
        home.mkdir(exist_ok=True)
        home.chmod(0o755)
        home.parent.chmod(0o755)
        self.nodes = [Node(home, name) for name in _NODES]
        self._voter_home = home / "voter"
        self._voter_home.mkdir(mode=0o755)
        self._voter: subprocess.Popen[bytes] | None = None
        self._password = secrets.token_hex(16)
        self.app_password = secrets.token_hex(16)

    def url(self, role: str, password: str) -> str:
        one, two = (f"postgresql://{role}:{password}@127.0.0.1:{node.port}/postgres" for node in self.nodes)
        return both(one, two)

    @property
    def owner_url(self) -> str:
        return self.url("postgres", self._password)

    def start(self) -> None:
        voter_port = free_port()
        rafts = [f"127.0.0.1:{node.raft}" for node in self.nodes] + [f"127.0.0.1:{voter_port}"]
        account = self.nodes[0].account
        self._voter = self._run(account, VOTER, self._voter_home, self._raft(self._voter_home, rafts[2], rafts))
        for node, raft in zip(self.nodes, rafts, strict=False):
            node.process = self._run(
                node.account, PROGRAM, node.home, self._raft(node.home, raft, rafts) | self._config(node)
            )
        try:
            until(self._settled, within_s=_UP_S, what="a primary and its synchronous standby")
        except AssertionError:
            raise AssertionError("\n".join(node.said() for node in self.nodes)) from None

    def _settled(self) -> bool:
        """Whether one node is the leader and the other its synchronous standby."""
        for node in self.nodes:
            with suppress(httpx.HTTPError, ValueError):
                members = httpx.get(f"http://127.0.0.1:{node.rest}/cluster", timeout=2).json()["members"]
                return {each["role"] for each in members} == {"leader", "sync_standby"}
        return False

    def _raft(self, home: Path, own: str, everyone: list[str]) -> dict[str, Any]:
        folder = home / "raft"
        folder.mkdir()
        self.nodes[0].account.own(folder)
        partners = [each for each in everyone if each != own]
        return {"raft": {"data_dir": str(folder), "self_addr": own, "partner_addrs": partners}}

    def _config(self, node: Node) -> dict[str, Any]:
        address = f"127.0.0.1:{node.port}"
        return {
            "scope": "quita",
            "name": node.name,
            "restapi": {"listen": f"127.0.0.1:{node.rest}", "connect_address": f"127.0.0.1:{node.rest}"},
            "bootstrap": {
                "dcs": {
                    "ttl": 20,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    "synchronous_mode": True,
                    "postgresql": {
                        "parameters": {
                            "synchronous_commit": "remote_apply",
                            "max_connections": 100,
                            "shared_buffers": "64MB",
                            "unix_socket_directories": "",
                            "timezone": "UTC",
                        }
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}],
            },
            "postgresql": {
                "listen": address,
                "connect_address": address,
                "data_dir": str(node.account.folder / "data"),
                "bin_dir": str(node.account._programs),
                "pgpass": str(node.account.folder / "pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres", "password": self._password},
                    "replication": {"username": "replicator", "password": self._password},
                },
                "pg_hba": [
                    "host replication replicator 127.0.0.1/32 scram-sha-256",
                    "host all all 127.0.0.1/32 scram-sha-256",
                ],
            },
        }

    def _run(
        self, account: Account, program: str | None, home: Path, config: dict[str, Any]
    ) -> "subprocess.Popen[bytes]":
        assert program is not None
        file = home / "patroni.json"  # JSON is valid YAML
        file.write_text(json.dumps(config), encoding="utf-8")
        file.chmod(0o600)
        account.own(file)
        with (home / "patroni.log").open("ab") as log:
            return account.spawn(program, str(file), log=log)

    def primary(self) -> Node:
        return next(node for node in self.nodes if node.role() in ("master", "primary"))

    def lose(self, node: Node) -> None:
        """Kill Patroni and PostgreSQL at once with all their children, as when a machine is lost."""
        assert node.process is not None
        lines = (node.account.folder / "data" / "postmaster.pid").read_text(encoding="ascii").splitlines()
        for pid in (node.process.pid, int(lines[0])):
            os.kill(pid, signal.SIGKILL)
        node.process.wait(20)
        until(lambda: not _answers(node.port), what="end of a killed PostgreSQL")

    def stop(self) -> None:
        running = [each for each in (*(node.process for node in self.nodes), self._voter) if each is not None]
        for process in running:
            if process.poll() is None:
                process.terminate()
        for process in running:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def watched(home: Path) -> Iterator[Watched]:
    made = Watched(home)
    try:
        made.start()
        yield made
    finally:
        made.stop()
