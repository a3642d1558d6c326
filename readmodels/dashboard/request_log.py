"""The log of an account's recent API requests, newest first."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

import sql
from domain.mode import Owner
from readmodels.page import BEGINNING, END, ListFilters, SortOrder
from sql import Connection

REQUESTS_KEPT: Final = timedelta(days=30)
"""How long a request is shown; afterwards a worker drops the partition of its day."""
_ID_MAX: Final = 64
SCANNED_MAX = 5_000
"""Requests that one page scans before the search continues on the next page."""


class StatusClass(StrEnum):
    ALL = ""
    FINE = "2xx"
    REFUSED = "4xx"
    BROKEN = "5xx"


class RequestFilters(ListFilters, frozen=True, kw_only=True):
    """The filters of the log. `path` and `client_id` match as prefixes. The search covers [from_at, to_at)."""

    status: StatusClass = StatusClass.ALL
    path: str = ""
    client_id: str = ""
    from_at: datetime | None = None
    to_at: datetime | None = None


class RequestPosition(Struct, frozen=True, array_like=True):
    at: datetime
    request_id: str


class LoggedRefusal(Struct, frozen=True):
    """The answer to a refused request, and the program (user agent) that sent it. A field name that does not look like
    one is shown as "?"."""

    message: str = ""
    fields: dict[str, str] = {}
    agent: str | None = None


class RequestRow(Struct, frozen=True):
    """A request in the log; `made` is the path of the resource it created."""

    at: datetime
    request_id: str
    client_id: str
    method: str
    path: str
    status: int
    code: str | None
    duration_us: int
    made: str | None
    refusal: str | None

    @property
    def refused(self) -> LoggedRefusal:
        """The refusal; empty if the request was not refused."""
        return LoggedRefusal() if self.refusal is None else _read_refusal(self.refusal)


class RequestDetail(RequestRow, frozen=True):
    """A request with its bodies. `sent` and `answered`: the JSON of a write in the sandbox, redacted and cut, or its
    size (api/body/redaction.py); None in production, for reads, and for writes beyond the daily allowance."""

    sent: str | None
    answered: str | None


class _ScannedRow(RequestRow, frozen=True):
    last: bool
    fits: bool


_read_refusal = msgspec.json.Decoder(LoggedRefusal).decode
_page = sql.list_of("request_log.page", _ScannedRow)
_find_request = sql.maybe("request_log.one", RequestDetail)


async def find_request(conn: Connection, owner: Owner, request_id: str) -> RequestDetail | None:
    if len(request_id) > _ID_MAX or not (request_id.isascii() and request_id.isprintable()):
        return None
    return await _find_request(conn, request_id=request_id, account_id=owner.account_id, test=owner.test)


async def request_page(
    conn: Connection,
    owner: Owner,
    filters: RequestFilters,
    after: RequestPosition | None,
    limit: int,
    *,
    since: datetime = BEGINNING,
) -> tuple[Sequence[RequestRow], RequestPosition | None]:
    """One page and the position after which the next page begins. The page may be short, even empty, when SCANNED_MAX
    requests held no more matches. Without a `from_at` the search goes back to `since`."""
    begins_at, ends_at = filters.from_at or since, filters.to_at or END
    scanned = await _page(
        conn,
        order=filters.order,
        account_id=owner.account_id,
        test=owner.test,
        at=after.at if after else begins_at if filters.order is SortOrder.ASC else ends_at,
        id=after.request_id if after else "",
        from_at=begins_at,
        to_at=ends_at,
        refused=filters.status is StatusClass.REFUSED or None,
        broken=filters.status is StatusClass.BROKEN or None,
        path=filters.path,
        client_id=filters.client_id,
        low=100,
        high=399 if filters.status is StatusClass.FINE else 599,
        look=SCANNED_MAX,
        limit=limit + 2,  # the page, one more match, and the last request scanned
    )
    matches = [each for each in scanned if each.fits]
    rows = matches[:limit]
    if len(matches) > limit:
        return rows, RequestPosition(rows[-1].at, rows[-1].request_id)
    last_scanned = next((each for each in scanned if each.last), None)
    return rows, None if last_scanned is None else RequestPosition(last_scanned.at, last_scanned.request_id)
