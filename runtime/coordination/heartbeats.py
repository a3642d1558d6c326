"""Heartbeats in PostgreSQL: every few seconds each worker process says that it runs, and which of its duties fail.

A process can live and do nothing: a duty that fails in every round, an event loop that stands still. `quita status`
and the operators who watch the service see it here.
"""

from collections.abc import Sequence

from msgspec import Struct

import sql
from sql import Connection

STALE_S = 20.0
"""A worker that has been silent for so long does nothing: it speaks every 5 s."""


class Heartbeat(Struct, frozen=True):
    worker: str
    """Host, process number, and a suffix that tells processes apart that share both."""
    seconds_ago: float
    failing: list[str]
    """The duties whose latest rounds all failed."""

    @property
    def well(self) -> bool:
        return self.seconds_ago < STALE_S and not self.failing


_beat = sql.run("worker_heartbeat.beat")
_remove = sql.run("worker_heartbeat.leave")
_find_recent = sql.many("worker_heartbeat.heard", Heartbeat)


async def beat(conn: Connection, *, worker: str, failing: Sequence[str]) -> None:
    await _beat(conn, worker=worker, failing=list(failing))


async def leave(conn: Connection, *, worker: str) -> None:
    """Remove the heartbeat of a worker that ends in order, so that it is not missed."""
    await _remove(conn, worker=worker)


async def heard(conn: Connection) -> Sequence[Heartbeat]:
    """The heartbeats of the last minute."""
    return await _find_recent(conn)
