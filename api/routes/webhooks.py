"""What became of each webhook, and sending it again.

Reading takes what reading the feed takes. Sending again takes charges:create, the scope of an integration that acts:
a credential that only reads must not be able to make requests go out.
"""

from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from api.answers import Answer, encode
from api.body.reading import shaped
from api.context import ApiContext
from api.paging import page_of, paged
from api.query import CURSOR, LIMIT, ORDER, Query, day, identifier, one_of, path_id
from api.route import Call, Route
from commands.webhooks.redeliver import RANGE_MAX, redeliver, redeliver_range
from domain.errors import Code, Refused
from readmodels.page import SequencePosition
from readmodels.webhooks.delivery_list import KINDS, STATES, Delivery, DeliveryFilters, delivery, delivery_page
from runtime.jobs import WEBHOOKS
from runtime.postgres import session, transaction

_SEQUENCE_MAX = 2**62


DeliveryPage = page_of(Delivery, "DeliveryPage")


class EventRange(Struct, frozen=True):
    """Numbers of the feed, both included; at most 10,000 of them, and the first not behind the last."""

    from_sequence: Annotated[int, Meta(ge=1, le=_SEQUENCE_MAX)]
    to_sequence: Annotated[int, Meta(ge=1, le=_SEQUENCE_MAX, description=f"At most {RANGE_MAX} numbers.")]


class RangeRedelivered(Struct, frozen=True):
    """How many deliveries are on their way now, those that already were included; 0 without an endpoint."""

    deliveries: Annotated[int, Meta(ge=0)]


async def list_deliveries(context: ApiContext, call: Call) -> Answer:
    query = Query(call.scope["query_string"], DELIVERIES)
    created_from, created_to = query.days("created_from", "created_to")
    filters = DeliveryFilters(
        states=query.choices("state", STATES),
        types=query.choices("type", KINDS),
        event_id=query.uuid("event_id"),
        charge_id=query.uuid("charge_id"),
        created_from=created_from,
        created_to=created_to,
        order=query.order(),
    )
    return await paged(context, call, query, "webhook-deliveries", filters, SequencePosition, delivery_page)


async def read_delivery(context: ApiContext, call: Call) -> Answer:
    return Answer(encode(await _delivery(context, call, _delivery_id(call))))


async def redeliver_one(context: ApiContext, call: Call) -> Answer:
    delivery_id = _delivery_id(call)
    async with transaction(context.pool) as conn:
        await redeliver(conn, call.caller.owner, delivery_id, now=call.at)
    context.jobs.wake(WEBHOOKS)
    return Answer(encode(await _delivery(context, call, delivery_id)), 202)


async def redeliver_events(context: ApiContext, call: Call) -> Answer:
    asked = shaped(call.body, EventRange)
    async with transaction(context.pool) as conn:
        count = await redeliver_range(conn, call.caller.owner, asked.from_sequence, asked.to_sequence, now=call.at)
    context.jobs.wake(WEBHOOKS)
    return Answer(encode(RangeRedelivered(count)), 202)


def _delivery_id(call: Call) -> UUID:
    delivery_id = path_id(call.path("delivery_id"))
    if delivery_id is None:
        raise Refused(Code.DELIVERY_NOT_FOUND)
    return delivery_id


async def _delivery(context: ApiContext, call: Call, delivery_id: UUID) -> Delivery:
    async with session(context.pool) as conn:
        found = await delivery(conn, call.caller.owner, delivery_id)
    if found is None:
        raise Refused(Code.DELIVERY_NOT_FOUND)
    return found


DELIVERIES = (
    one_of("state", STATES, repeatable=True),
    one_of("type", KINDS, repeatable=True),
    identifier("event_id"),
    identifier("charge_id"),
    day("created_from", "The event was recorded on or after this day"),
    day("created_to", "The event was recorded on or before this day"),
    ORDER,
    LIMIT,
    CURSOR,
)
_READ = ("payments:read", "charges:read")

ROUTES = (
    Route(
        method="GET",
        path="/v1/webhook-deliveries",
        name="listWebhookDeliveries",
        summary="List webhook deliveries and their attempts, newest event first",
        tag="Webhooks",
        handle=list_deliveries,
        scopes=_READ,
        query=DELIVERIES,
        answers={200: DeliveryPage},
        errors=(Code.VALIDATION_ERROR, Code.DATE_RANGE_INVALID, Code.LIMIT_INVALID, Code.CURSOR_INVALID),
    ),
    Route(
        method="GET",
        path="/v1/webhook-deliveries/{delivery_id:str}",
        name="getWebhookDelivery",
        summary="Look a webhook delivery up",
        tag="Webhooks",
        handle=read_delivery,
        scopes=_READ,
        answers={200: Delivery},
        errors=(Code.DELIVERY_NOT_FOUND,),
    ),
    Route(
        method="POST",
        path="/v1/webhook-deliveries/{delivery_id:str}/redeliver",
        name="redeliverWebhook",
        summary="Send a delivery again, at once and from the schedule's beginning",
        tag="Webhooks",
        handle=redeliver_one,
        scopes=("charges:create",),
        answers={202: Delivery},
        errors=(Code.DELIVERY_NOT_FOUND,),
    ),
    Route(
        method="POST",
        path="/v1/events/redeliver",
        name="redeliverEvents",
        summary="Send every event of a range of the feed again, also those from before the endpoint was registered",
        tag="Webhooks",
        handle=redeliver_events,
        scopes=("charges:create",),
        body=EventRange,
        answers={202: RangeRedelivered},
    ),
)
