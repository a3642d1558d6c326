"""Fill the read tables from journal rows: the same functions live, in a rebuild and in a verification."""

from collections.abc import Sequence
from enum import StrEnum

import sql
from sql import Connection


class Projection(StrEnum):
    """The parts of the function `project` (sql/migrations/baseline/0015_projections.sql), in the order in which it
    runs them over the same rows."""

    CREATED = "created"
    CHANGED = "changed"
    PAYMENTS = "payments"
    FUNDS = "funds"
    REFUNDS = "refunds"
    REFUNDS_ENDED = "refunds_ended"
    WITHDRAWALS = "withdrawals"
    WITHDRAWALS_CHANGED = "withdrawals_changed"
    EVENTS = "events"
    ENTRIES = "entries"


_project = sql.run("project.rows")


async def project(conn: Connection, journal_ids: Sequence[int], which: Sequence[Projection]) -> None:
    """Lay these journal rows over the read tables; `which` names the projections that concern them."""
    await _project(conn, journal_ids=journal_ids, which=which)
