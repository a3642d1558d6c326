"""Charges as they are at an instant of their account's clock: page by page, and their count and amount per status.

A read records the expiry of overdue charges (commands/charges/expire.py), but only of a bounded number. Here an overdue
charge counts as expired whether or not that is recorded yet, so lists, filters and sums are right however many there
are.
"""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

import sql
from domain.charge import Status
from domain.instants import iso
from domain.mode import Owner
from domain.money import reais
from readmodels.charges.charge import ChargeDoc
from readmodels.charges.charge_list import (
    STATUSES,
    ChargeFilters,
    StatusCents,
    StatusSummary,
    charge_filter_parameters,
    charge_page,
    charge_sums,
)
from readmodels.page import TimePosition
from sql import Connection

_PENDING, _EXPIRED = str(Status.PENDING), str(Status.EXPIRED)


class _OverdueSum(Struct, frozen=True):
    count: int
    amount_cents: int


first_overdue = sql.maybe("read_charge.first_overdue", UUID)
overdue_sum = sql.list_of("read_charge.overdue_sum", _OverdueSum)


async def current_page(
    conn: Connection, owner: Owner, filters: ChargeFilters, after: TimePosition | None, limit: int, *, now: datetime
) -> tuple[list[ChargeDoc], TimePosition | None]:
    """As charge_page. While overdue charges exist whose expiry is not recorded, a page filtered by status may hold
    fewer than `limit` charges although more follow."""
    statuses = filters.statuses
    if _EXPIRED in statuses and _PENDING not in statuses and await any_overdue(conn, owner, now):
        filters = replace(filters, statuses=(*statuses, _PENDING))
    docs, last = await charge_page(conn, owner, filters, after, limit)
    current = [doc.at(iso(now)) for doc in docs]
    return [doc for doc in current if doc.status in (statuses or STATUSES)], last


async def current_summary(
    conn: Connection, owner: Owner, filters: ChargeFilters, *, now: datetime
) -> list[StatusSummary]:
    sums = await current_sums(conn, owner, filters, now=now)
    return [StatusSummary(status, each.count, reais(each.cents)) for status, each in sums.items()]


async def current_sums(
    conn: Connection, owner: Owner, filters: ChargeFilters, *, now: datetime, overdue: bool | None = None
) -> Mapping[str, StatusCents]:
    """As charge_sums. Each overdue charge whose expiry is not recorded costs a look-up. `overdue` says whether there
    are any, if the caller already knows."""
    if not (await any_overdue(conn, owner, now) if overdue is None else overdue):
        return await charge_sums(conn, owner, filters)
    # One snapshot for all statements: a charge whose expiry is recorded in between would count under the wrong status.
    async with conn.transaction(isolation="repeatable_read", readonly=True):
        sums = await charge_sums(conn, owner, filters)
        (lapsed,) = await overdue_sum(conn, **charge_filter_parameters(owner, filters), now=now)
    wanted = filters.statuses or STATUSES
    for status, sign in ((_PENDING, -1), (_EXPIRED, 1)):
        if status in wanted:
            stored = sums[status]
            sums[status] = StatusCents(stored.count + sign * lapsed.count, stored.cents + sign * lapsed.amount_cents)
    return sums


async def any_overdue(conn: Connection, owner: Owner, now: datetime) -> bool:
    return await first_overdue(conn, account_id=owner.account_id, test=owner.test, now=now) is not None
