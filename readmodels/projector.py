"""Fill the read tables from journal rows: the same statements live, in a rebuild and in a verification."""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum

import sql
from sql import Connection


class Projection(Enum):
    """Each statement of sql/queries/journal/project.sql, in the order in which a rebuild runs them over the same
    rows."""

    CREATED = "project.created"
    CHANGED = "project.changed"
    PAYMENTS = "project.payments"
    FUNDS = "project.funds"
    REFUNDS = "project.refunds"
    REFUNDS_ENDED = "project.refunds_ended"
    WITHDRAWALS = "project.withdrawals"
    WITHDRAWALS_CHANGED = "project.withdrawals_changed"
    EVENTS = "project.events"
    ENTRIES = "project.entries"


_RUN: dict[Projection, Callable[..., Awaitable[str]]] = {each: sql.run(each.value) for each in Projection}


async def project(conn: Connection, journal_ids: Sequence[int], which: Sequence[Projection]) -> None:
    """Lay these journal rows over the read tables; `which` names the projections that concern them."""
    for each in which:
        await _RUN[each](conn, journal_ids=journal_ids)
