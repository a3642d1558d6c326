"""Two PostgreSQL servers for a test: a primary and its synchronous standby, which it may stop, pause and promote."""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from runtime.local.embedded import EmbeddedPostgres
from runtime.local.postgres_account import postgres_account
from tests.support.system import until

NAME = "standby"
_SHARED = ("postgres.password", "postgres.app.password", "postgres.report.password")


class Pair:
    """`primary` and `standby` are named by their first roles. A commit is acknowledged when the standby has applied it
    (remote_apply)."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.primary, self.standby = EmbeddedPostgres(), EmbeddedPostgres()

    @property
    def url(self) -> str:
        """The URL for the application's role, with both hosts."""
        return both(self.primary.app_dsn, self.standby.app_dsn)

    @property
    def owner_url(self) -> str:
        return both(self.primary.dsn, self.standby.dsn)

    def start(self) -> None:
        self.primary.start(self.home / "one", fsync=False)
        _ = self.primary.app_dsn, self.primary.report_dsn  # reading these creates the roles' passwords
        two = self.home / "two"
        two.mkdir(mode=0o711, parents=True)
        for name in _SHARED:
            shutil.copy(self.home / "one" / name, two / name)
        self._copy(two)
        self.standby.start(two, fsync=False)

    def _copy(self, two: Path) -> None:
        account = postgres_account(two)
        parts = urlsplit(self.primary.dsn)
        source = f"host=127.0.0.1 port={parts.port} user=postgres password={parts.password} application_name={NAME}"
        with (two / "copy.log").open("ab") as log:
            copying = ("-D", str(account.folder / "data"), "-R", "-X", "stream", "-c", "fast", "--no-sync")
            code = account.run("pg_basebackup", "-d", source, *copying, log=log)
        assert code == 0, (two / "copy.log").read_text(encoding="utf-8")

    async def synchronous(self, *, on: bool = True) -> None:
        """Make commits wait for the standby. Only the primary's settings change: a promoted standby does not wait."""
        await self.set(self.primary, synchronous_standby_names=NAME if on else "", synchronous_commit="remote_apply")

    async def set(self, server: EmbeddedPostgres, **settings: str) -> None:
        await self.run(
            server,
            *(f"ALTER SYSTEM SET {name} = '{value}'" for name, value in settings.items()),
            "SELECT pg_reload_conf()",
        )

    async def run(self, server: EmbeddedPostgres, *statements: str) -> Any:
        """Run statements as the superuser, without waiting for a standby; returns the last one's value."""
        conn = await asyncpg.connect(server.dsn, server_settings={"synchronous_commit": "local"})
        try:
            for statement in statements:
                answer = await conn.fetchval(statement)
            return answer
        finally:
            await conn.close()

    async def promote(self) -> None:
        """Promote the standby; it accepts writes when this returns."""
        assert await self.run(self.standby, "SELECT pg_promote(true, 60)")

    def stop(self) -> None:
        self.standby.stop()
        self.primary.stop()


def both(first: str, second: str) -> str:
    """One URL with the hosts of both."""
    one, two = urlsplit(first), urlsplit(second)
    return urlunsplit(one._replace(netloc=f"{one.netloc},{two.netloc.rpartition('@')[2]}"))


def kill(server: EmbeddedPostgres) -> None:
    """Kill the server's main process with SIGKILL; the others end when they notice it."""
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not server.alive(), what="end of a killed PostgreSQL")


@contextmanager
def pair(home: Path) -> Iterator[Pair]:
    made = Pair(home)
    try:
        made.start()
        yield made
    finally:
        made.stop()
