"""GET /v1/events: the feed."""

from msgspec import Raw, Struct

from api.answers import Answer
from api.context import ApiContext
from api.paging import page_of, paged
from api.query import CURSOR, LIMIT, ORDER, SEQUENCE, Query, day, identifier, one_of, word
from api.route import Call, Parameter, Route
from domain.errors import Code, Refused
from domain.events import EventKind
from readmodels.page import SequencePosition, SortOrder
from readmodels.webhooks.event_list import EventFilters, event_page

KINDS = tuple(each.value for each in EventKind)


class EventItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The webhook payload word for word, plus type, sequence and created_at. Kinds add fields of their own: those of
    withdrawals have a `withdrawal_id` and no `charge_id`."""

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
    query = Query(call.scope["query_string"], EVENTS)
    created_from, created_to = query.days("created_from", "created_to")
    after_sequence = query.sequence("after_sequence")
    order = query.order()
    if after_sequence is not None:
        if query.choice("order", ("asc", "desc")) == "desc":
            raise Refused(Code.VALIDATION_ERROR, fields={"order": "after_sequence implies asc"})
        order = SortOrder.ASC
    filters = EventFilters(
        types=query.choices("type", KINDS),
        charge_id=query.uuid("charge_id"),
        external_id=query.text("external_id"),
        created_from=created_from,
        created_to=created_to,
        after_sequence=after_sequence,
        order=order,
    )
    await context.charges.expire_overdue(call.caller.owner)
    return await paged(context, call, query, "events", filters, SequencePosition, event_page, Raw)


EVENTS = (
    one_of("type", KINDS, repeatable=True),
    identifier("charge_id"),
    word("external_id"),
    day("created_from", "Recorded on or after this day"),
    day("created_to", "Recorded on or before this day"),
    Parameter(
        name="after_sequence",
        schema=SEQUENCE,
        description="Only events with a larger sequence, oldest first: the cheap way to poll.",
    ),
    ORDER,
    LIMIT,
    CURSOR,
)

ROUTES = (
    Route(
        method="GET",
        path="/v1/events",
        name="listEvents",
        summary="Read the events feed",
        tag="Events",
        handle=list_events,
        scopes=("payments:read", "charges:read"),
        query=EVENTS,
        answers={200: EventPage},
        errors=(Code.VALIDATION_ERROR, Code.DATE_RANGE_INVALID, Code.LIMIT_INVALID, Code.CURSOR_INVALID),
    ),
)
