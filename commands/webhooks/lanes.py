"""The stored lanes of webhook endpoints: read under a lock, and written when they changed."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.mode import Mode
from domain.webhooks.breaker import Lane
from sql import Connection


class LaneKey(NamedTuple):
    """An endpoint's lane of one mode."""

    endpoint_id: UUID
    mode: Mode


class LaneRow(Struct, frozen=True):
    endpoint_id: UUID
    test: bool
    url: str
    state: str
    concurrency: int
    failures: int
    failing_since: datetime | None
    strained_by: list[UUID]
    blocked_until: datetime | None
    probes: int
    gone: int
    gone_since: datetime | None
    noticed: bool
    paused_at: datetime | None
    paused_reason: str | None
    holding: bool

    @property
    def key(self) -> LaneKey:
        return LaneKey(self.endpoint_id, Mode.of(self.test))

    def lane(self) -> Lane:
        return msgspec.convert(self, Lane, from_attributes=True)


lock_lanes = sql.many("webhook_lane.lock", LaneRow)
lanes_of = sql.many("webhook_lane.of_account", LaneRow)
store = sql.run("webhook_lane.store")


async def store_lanes(conn: Connection, lanes: Mapping[LaneKey, Lane]) -> None:
    """Write lanes that this transaction has locked."""
    if lanes:
        await store(
            conn,
            keys=list(lanes),
            lanes=list(lanes.values()),
            # One text each, because arrays of arrays must be rectangular.
            strained_bys=["{" + ",".join(map(str, lane.strained_by)) + "}" for lane in lanes.values()],
        )
