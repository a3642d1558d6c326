"""/v1/requests: the requests that the account's own programs made to this API, with their answers."""

from functools import partial
from typing import Annotated, Any, Final

from msgspec import Struct

from api.answers import Answer, Field, encode
from api.context import ApiContext
from api.paging import PagedList, page_of
from api.query import Query
from api.route import Call, Route, routes_of
from domain.errors import Code, required
from domain.instants import iso
from readmodels.dashboard.request_log import (
    REQUESTS_KEPT,
    RequestFilters,
    RequestPosition,
    RequestRow,
    StatusClass,
    find_request,
    request_page,
)
from readmodels.filters import OneOf
from readmodels.page import ListFilters
from runtime.postgres import session

CLASSES: Final = tuple(each.value for each in StatusClass if each)


class AskedFilters(ListFilters, frozen=True, kw_only=True):
    """The filters of the list; `path` and `client_id` match as prefixes."""

    status: Annotated[str | None, OneOf(CLASSES)] = None
    path: str | None = None
    client_id: str | None = None


class RequestItem(Struct, frozen=True, kw_only=True):
    """A request and its answer. The query string is not kept."""

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


class RequestWithBodies(RequestItem, frozen=True, kw_only=True):
    """A request and its answer, with both bodies if it was a write in the sandbox (docs/sandbox.md). Values that may
    identify a payer are masked."""

    request_body: str | None
    response_body: str | None


RequestPage = page_of(RequestItem, "RequestPage")


async def list_requests(context: ApiContext, call: Call) -> Answer:
    """Answers a page. A page may be short or empty although another follows: a search reads a bounded number of
    requests for each page."""
    request = REQUESTS.read(context, call, _row_filters)
    return await request.page(partial(request_page, since=call.at - REQUESTS_KEPT), _item)


def _row_filters(query: AskedFilters, _: Query) -> RequestFilters:
    return RequestFilters(
        order=query.order,
        status=StatusClass(query.status or ""),
        path=query.path or "",
        client_id=query.client_id or "",
    )


async def look_up(context: ApiContext, call: Call) -> Answer:
    async with session(context.pool) as conn:
        found = await find_request(conn, call.caller.owner, call.path("request_id"))
    row = required(found, Code.REQUEST_NOT_FOUND)
    return Answer(encode(RequestWithBodies(**_item_fields(row), request_body=row.sent, response_body=row.answered)))


def _item(row: RequestRow) -> RequestItem:
    return RequestItem(**_item_fields(row))


def _item_fields(row: RequestRow) -> dict[str, Any]:
    """The fields of a RequestItem."""
    refused = row.refused
    return {
        "request_id": row.request_id,
        "at": iso(row.at),
        "client_id": row.client_id,
        "method": row.method,
        "path": row.path,
        "status": row.status,
        "code": row.code,
        "message": refused.message or None,
        "fields": [Field(name, message) for name, message in refused.fields.items()] or None,
        "user_agent": refused.agent,
        "resource": row.made,
        "duration_ms": row.duration_us / 1000,
    }


REQUESTS = PagedList(
    "requests",
    RequestPosition,
    AskedFilters,
    {
        "status": "Only requests answered with a status of this class.",
        "path": "Only requests whose path begins with this text.",
        "client_id": "Only requests of credentials whose id begins with this text.",
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
    Route(
        method="GET",
        path="/v1/requests/{request_id:str}",
        name="getRequest",
        summary="Look up a request, with its bodies in the sandbox",
        handle=look_up,
        scopes=("charges:read",),
        answers={200: RequestWithBodies},
        errors=(Code.REQUEST_NOT_FOUND,),
    ),
)
