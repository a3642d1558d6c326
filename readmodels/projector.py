"""Fill the read tables from journal rows. Live writes, rebuilds and verifications run the same functions."""

from collections.abc import Sequence
from enum import StrEnum

import sql
from sql import Connection


class Projection(StrEnum):
    """The parts of the SQL function `project` (sql/migrations/baseline/0015_projections.sql), in the order in which the
    function applies them to the rows it is given."""

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


_project_rows = sql.run("project.rows")


async def project(conn: Connection, journal_ids: Sequence[int], projections: Sequence[Projection]) -> None:
    """Apply these journal rows to the read tables; `projections` names those that concern them."""
    await _project_rows(conn, journal_ids=journal_ids, which=projections)
