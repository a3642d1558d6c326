"""GET /v1/events: the feed."""

from msgspec import Raw, Struct
from msgspec.structs import replace

from api.answers import Answer
from api.context import ApiContext
from api.paging import PagedList, page_of
from api.query import Query
from api.route import Call, Route, routes_of
from domain.errors import Code, Refused
from readmodels.page import SequencePosition, SortOrder
from readmodels.webhooks.event_list import EventFilters, event_page


class EventItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of the webhook, unchanged, with type, sequence and created_at added. Each kind has fields of its own:
    events about withdrawals have a `withdrawal_id` and no `charge_id`."""

    event: str
    event_id: str
    charge_id: str | None = None
    withdrawal_id: str | None = None
    account_id: str
    status: str
    amount: str
    external_id: str | None = None
    test: bool
    paid_at: str | None = None
    type: str
    sequence: int
    created_at: str


EventPage = page_of(EventItem, "EventPage")


async def list_events(context: ApiContext, call: Call) -> Answer:
    request = EVENTS.read(context, call, _row_filters)
    await context.charges.expire_overdue(call.caller.owner)
    return await request.page(event_page, Raw)


def _row_filters(filters: EventFilters, query: Query) -> EventFilters:
    if filters.after_sequence is None:
        return filters
    if query.values("order") == ["desc"]:
        raise Refused(Code.VALIDATION_ERROR, fields={"order": "after_sequence implies asc"})
    return replace(filters, order=SortOrder.ASC)


EVENTS = PagedList(
    "events",
    SequencePosition,
    EventFilters,
    {
        "created": "Recorded",
        "after_sequence": "Only events with a larger `sequence`, oldest first. This is the cheapest way to poll for "
        "new events.",
    },
)

ROUTES = routes_of(
    "Events",
    Route(
        method="GET",
        path="/v1/events",
        name="listEvents",
        summary="Read the events feed",
        handle=list_events,
        scopes=("payments:read", "charges:read"),
        query=EVENTS.parameters,
        answers={200: EventPage},
        errors=EVENTS.errors,
    ),
)
