"""What an account's programs asked of the API lately, newest first."""

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

KEPT: Final = timedelta(days=30)
"""How long a request is shown; a worker drops its day afterwards."""
ID_MAX: Final = 64
LOOK = 5_000
"""Requests a page looks at before it leaves the search to the next one."""


class StatusClass(StrEnum):
    ALL = ""
    FINE = "2xx"
    REFUSED = "4xx"
    BROKEN = "5xx"


class RequestFilters(ListFilters, frozen=True, kw_only=True):
    """`path` and `client_id` are beginnings. `from_at` and `to_at` bound the search: [from_at, to_at)."""

    status: StatusClass = StatusClass.ALL
    path: str = ""
    client_id: str = ""
    from_at: datetime | None = None
    to_at: datetime | None = None


class RequestPosition(Struct, frozen=True, array_like=True):
    at: datetime
    request_id: str


class LoggedRefusal(Struct, frozen=True):
    """What was answered to a request that was refused, and by which program it was sent. A field whose name looks like
    none is "?"."""

    message: str = ""
    fields: dict[str, str] = {}
    agent: str | None = None


class RequestRow(Struct, frozen=True):
    """`made`: the path of what it created."""

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
        """Empty for a request that was not."""
        return LoggedRefusal() if self.refusal is None else _read_refusal(self.refusal)


class RequestDetail(RequestRow, frozen=True):
    """`sent` and `answered`: JSON text of a write in the sandbox, redacted and cut, or how large it was
    (api/body/redaction.py); None of production, of reads, and of writes beyond a day's share."""

    sent: str | None
    answered: str | None


class _Looked(RequestRow, frozen=True):
    last: bool
    fits: bool


_read_refusal = msgspec.json.Decoder(LoggedRefusal).decode
_page = sql.list_of("request_log.page", _Looked)
find_request = sql.maybe("request_log.one", RequestDetail)
"""`request_id, account_id, test`."""


async def request_page(
    conn: Connection,
    owner: Owner,
    filters: RequestFilters,
    after: RequestPosition | None,
    limit: int,
    *,
    since: datetime = BEGINNING,
) -> tuple[Sequence[RequestRow], RequestPosition | None]:
    """One page and where the next one begins; the page may be short, even empty, when LOOK requests held no more.
    Without a `from_at` the search goes back to `since`."""
    begins, ends = filters.from_at or since, filters.to_at or END
    looked = await _page(
        conn,
        order=filters.order,
        account_id=owner.account_id,
        test=owner.test,
        at=after.at if after else begins if filters.order is SortOrder.ASC else ends,
        id=after.request_id if after else "",
        from_at=begins,
        to_at=ends,
        refused=filters.status is StatusClass.REFUSED or None,
        broken=filters.status is StatusClass.BROKEN or None,
        path=filters.path,
        client_id=filters.client_id,
        low=100,
        high=399 if filters.status is StatusClass.FINE else 599,
        look=LOOK,
        limit=limit + 2,  # one more than the page, and the last one looked at
    )
    fitting = [each for each in looked if each.fits]
    rows = fitting[:limit]
    if len(fitting) > limit:
        return rows, RequestPosition(rows[-1].at, rows[-1].request_id)
    ended = next((each for each in looked if each.last), None)
    return rows, None if ended is None else RequestPosition(ended.at, ended.request_id)
