"""What an account's programs asked of the API in the last 30 days, newest first."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum

from msgspec import Struct

import sql
from domain.mode import Owner
from readmodels.page import SortOrder
from sql import Connection

LOOK = 5_000
"""Requests a page looks at before it leaves the search to the next one."""
_LONG_AGO, _FAR_OFF = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


class StatusClass(StrEnum):
    ALL = ""
    FINE = "2xx"
    REFUSED = "4xx"
    BROKEN = "5xx"


class RequestFilters(Struct, frozen=True):
    """`path` and `client_id` are beginnings. `from_at` and `to_at` bound the search: [from_at, to_at)."""

    status: StatusClass = StatusClass.ALL
    path: str = ""
    client_id: str = ""
    from_at: datetime | None = None
    to_at: datetime | None = None


class RequestPosition(Struct, frozen=True, array_like=True):
    at: datetime
    request_id: str


class RequestRow(Struct, frozen=True):
    at: datetime
    request_id: str
    client_id: str
    method: str
    path: str
    status: int
    code: str | None
    duration_us: int


class _Looked(Struct, frozen=True):
    at: datetime
    request_id: str
    client_id: str
    method: str
    path: str
    status: int
    code: str | None
    duration_us: int
    last: bool
    fits: bool


_ALL = {order: sql.many(f"request_log.all_{order.value}", _Looked) for order in SortOrder}
_REFUSED = {order: sql.many(f"request_log.refused_{order.value}", _Looked) for order in SortOrder}
_BROKEN = {order: sql.many(f"request_log.broken_{order.value}", _Looked) for order in SortOrder}
find_request = sql.maybe("request_log.one", RequestRow)
"""`request_id, account_id, test`."""


async def request_page(
    conn: Connection,
    owner: Owner,
    filters: RequestFilters,
    order: SortOrder,
    after: RequestPosition | None,
    limit: int,
) -> tuple[Sequence[RequestRow], RequestPosition | None]:
    """One page and where the next one begins; the page may be short, even empty, when LOOK requests held no more."""
    begins, ends = filters.from_at or _LONG_AGO, filters.to_at or _FAR_OFF
    given = {
        "account_id": owner.account_id,
        "test": owner.test,
        "path": filters.path,
        "client_id": filters.client_id,
        "look": LOOK,
        "most": limit + 2,  # one more than the page, and the last one looked at
    }
    if order is SortOrder.ASC:
        given |= {"at": after.at if after else begins, "id": after.request_id if after else "", "to_at": ends}
    else:
        given |= {"at": after.at if after else ends, "id": after.request_id if after else "", "from_at": begins}
    match filters.status:
        case StatusClass.REFUSED:
            looked = await _REFUSED[order](conn, **given)
        case StatusClass.BROKEN:
            looked = await _BROKEN[order](conn, **given)
        case StatusClass.FINE:
            looked = await _ALL[order](conn, **given, low=100, high=399)
        case StatusClass.ALL:
            looked = await _ALL[order](conn, **given, low=100, high=599)
    fitting = [each for each in looked if each.fits]
    rows = [
        RequestRow(
            each.at, each.request_id, each.client_id, each.method, each.path, each.status, each.code, each.duration_us
        )
        for each in fitting[:limit]
    ]
    if len(fitting) > limit:
        return rows, RequestPosition(rows[-1].at, rows[-1].request_id)
    ended = next((each for each in looked if each.last), None)
    return rows, None if ended is None else RequestPosition(ended.at, ended.request_id)
