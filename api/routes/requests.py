"""GET /v1/requests: what the account's own programs asked of this API, and what they were answered."""

from functools import partial
from typing import Annotated, Final

from msgspec import Struct

from api.answers import Answer, Field
from api.context import ApiContext
from api.paging import PagedList, page_of
from api.route import Call, Route, routes_of
from domain.instants import iso
from readmodels.dashboard.request_log import (
    KEPT,
    RequestFilters,
    RequestPosition,
    RequestRow,
    StatusClass,
    request_page,
)
from readmodels.filters import OneOf
from readmodels.page import ListFilters

CLASSES: Final = tuple(each.value for each in StatusClass if each)


class AskedFilters(ListFilters, frozen=True, kw_only=True):
    """`path` and `client_id` are beginnings."""

    status: Annotated[str | None, OneOf(CLASSES)] = None
    path: str | None = None
    client_id: str | None = None


class RequestItem(Struct, frozen=True, kw_only=True):
    """A request and its answer. Neither a body nor a query is kept."""

    request_id: str
    at: str
    client_id: str
    method: str
    path: str
    status: int
    code: str | None
    message: str | None
    fields: list[Field] | None
    user_agent: str | None
    resource: str | None
    duration_ms: float


RequestPage = page_of(RequestItem, "RequestPage")


async def list_requests(context: ApiContext, call: Call) -> Answer:
    """A page may be short, even empty, and another one follow: a search looks at so many requests at a time."""
    asked = REQUESTS.read(context, call)
    given = asked.filters
    filters = RequestFilters(
        order=given.order,
        status=StatusClass(given.status or ""),
        path=given.path or "",
        client_id=given.client_id or "",
    )

    return await asked.page(partial(request_page, since=call.at - KEPT), _shown, filters=filters)


def _shown(row: RequestRow) -> RequestItem:
    refused = row.refused
    return RequestItem(
        request_id=row.request_id,
        at=iso(row.at),
        client_id=row.client_id,
        method=row.method,
        path=row.path,
        status=row.status,
        code=row.code,
        message=refused.message or None,
        fields=[Field(name, message) for name, message in refused.fields.items()] or None,
        user_agent=refused.agent,
        resource=row.made,
        duration_ms=row.duration_us / 1000,
    )


REQUESTS = PagedList(
    "requests",
    RequestPosition,
    AskedFilters,
    {
        "status": "Only answers of this class.",
        "path": "Only paths that begin so.",
        "client_id": "Only credentials that begin so.",
    },
)

ROUTES = routes_of(
    "Requests",
    Route(
        method="GET",
        path="/v1/requests",
        name="listRequests",
        summary="List the requests of the last 30 days, newest first",
        handle=list_requests,
        scopes=("charges:read",),
        query=REQUESTS.parameters,
        answers={200: RequestPage},
        errors=REQUESTS.errors,
    ),
)
