"""Lanes as PostgreSQL keeps them: read under a lock, and written when they changed."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.mode import Mode
from domain.webhooks.breaker import Lane, LaneState, PausedReason
from sql import Connection

LaneKey = tuple[UUID, Mode]
"""An endpoint's lane of one mode."""


class LaneRow(Struct, frozen=True):
    endpoint_id: UUID
    test: bool
    state: str
    room: int
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
        return self.endpoint_id, Mode.of(self.test)

    def lane(self) -> Lane:
        return Lane(
            state=LaneState(self.state),
            room=self.room,
            failures=self.failures,
            failing_since=self.failing_since,
            strained_by=tuple(self.strained_by),
            blocked_until=self.blocked_until,
            probes=self.probes,
            gone=self.gone,
            gone_since=self.gone_since,
            noticed=self.noticed,
            paused_at=self.paused_at,
            paused_reason=None if self.paused_reason is None else PausedReason(self.paused_reason),
            holding=self.holding,
        )


lock_lanes = sql.many("webhook_lane.lock", LaneRow)
lanes_of = sql.many("webhook_lane.of_account", LaneRow)
store = sql.run("webhook_lane.store")


async def store_lanes(conn: Connection, lanes: Mapping[LaneKey, Lane]) -> None:
    """Write lanes that this transaction has locked."""
    if not lanes:
        return
    values = list(lanes.values())
    await store(
        conn,
        endpoint_ids=[endpoint_id for endpoint_id, _ in lanes],
        tests=[mode.test for _, mode in lanes],
        states=[lane.state.value for lane in values],
        rooms=[lane.room for lane in values],
        failures=[lane.failures for lane in values],
        failing_sinces=[lane.failing_since for lane in values],
        strained_bys=["{" + ",".join(map(str, lane.strained_by)) + "}" for lane in values],
        blocked_untils=[lane.blocked_until for lane in values],
        probes=[lane.probes for lane in values],
        gones=[lane.gone for lane in values],
        gone_sinces=[lane.gone_since for lane in values],
        noticed=[lane.noticed for lane in values],
        paused_ats=[lane.paused_at for lane in values],
        paused_reasons=[None if lane.paused_reason is None else lane.paused_reason.value for lane in values],
        holdings=[lane.holding for lane in values],
    )
