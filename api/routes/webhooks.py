"""Webhook deliveries: look them up, list them, and send them again.

Reading needs the scopes that reading the feed needs. Sending again needs charges:create, the scope of an integration
that acts: a credential that only reads must not be able to trigger requests to a merchant.
"""

from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from api.answers import Answer, encode
from api.body.reading import convert_body
from api.context import ApiContext
from api.paging import PagedList, page_of
from api.route import Call, Route, routes_of
from commands.webhooks.redeliver import RANGE_MAX, redeliver, redeliver_range
from domain.errors import Code, required
from domain.identifiers import parse_id
from readmodels.filters import SEQUENCE_MAX
from readmodels.page import SequencePosition
from readmodels.webhooks.delivery_list import Delivery, DeliveryFilters, delivery, delivery_page
from runtime.coordination.lanes import WEBHOOKS
from runtime.postgres import session, transaction

DeliveryPage = page_of(Delivery, "DeliveryPage")


class EventRange(Struct, frozen=True):
    """A range of sequence numbers of the feed, both ends included: at most 10,000 numbers, and the first not after the
    last."""

    from_sequence: Annotated[int, Meta(ge=1, le=SEQUENCE_MAX)]
    to_sequence: Annotated[
        int, Meta(ge=1, le=SEQUENCE_MAX, description=f"Last number of the range; at most {RANGE_MAX} numbers.")
    ]


class RangeRedelivered(Struct, frozen=True):
    """Number of deliveries of the range that are waiting or being sent now, including those that already were; 0 when
    no endpoint is registered."""

    deliveries: Annotated[int, Meta(ge=0)]


async def list_deliveries(context: ApiContext, call: Call) -> Answer:
    return await DELIVERIES.read(context, call).page(delivery_page)


async def read_delivery(context: ApiContext, call: Call) -> Answer:
    return Answer(encode(await _find_delivery(context, call, _delivery_id(call))))


async def redeliver_one(context: ApiContext, call: Call) -> Answer:
    delivery_id = _delivery_id(call)
    async with transaction(context.pool) as conn:
        await redeliver(conn, call.caller.owner, delivery_id, now=call.at)
    context.jobs.wake(WEBHOOKS)
    return Answer(encode(await _find_delivery(context, call, delivery_id)), 202)


async def redeliver_events(context: ApiContext, call: Call) -> Answer:
    body = convert_body(call.body, EventRange)
    async with transaction(context.pool) as conn:
        count = await redeliver_range(conn, call.caller.owner, body.from_sequence, body.to_sequence, now=call.at)
    context.jobs.wake(WEBHOOKS)
    return Answer(encode(RangeRedelivered(count)), 202)


def _delivery_id(call: Call) -> UUID:
    return required(parse_id(call.path("delivery_id")), Code.DELIVERY_NOT_FOUND)


async def _find_delivery(context: ApiContext, call: Call, delivery_id: UUID) -> Delivery:
    async with session(context.pool) as conn:
        return required(await delivery(conn, call.caller.owner, delivery_id), Code.DELIVERY_NOT_FOUND)


DELIVERIES = PagedList("webhook-deliveries", SequencePosition, DeliveryFilters, {"created": "The event was recorded"})
_READ_SCOPES = ("payments:read", "charges:read")

ROUTES = routes_of(
    "Webhooks",
    Route(
        method="GET",
        path="/v1/webhook-deliveries",
        name="listWebhookDeliveries",
        summary="List webhook deliveries and their attempts, newest event first",
        handle=list_deliveries,
        scopes=_READ_SCOPES,
        query=DELIVERIES.parameters,
        answers={200: DeliveryPage},
        errors=DELIVERIES.errors,
    ),
    Route(
        method="GET",
        path="/v1/webhook-deliveries/{delivery_id:str}",
        name="getWebhookDelivery",
        summary="Look up a webhook delivery",
        handle=read_delivery,
        scopes=_READ_SCOPES,
        answers={200: Delivery},
        errors=(Code.DELIVERY_NOT_FOUND,),
    ),
    Route(
        method="POST",
        path="/v1/webhook-deliveries/{delivery_id:str}/redeliver",
        name="redeliverWebhook",
        summary="Send a delivery again at once, with a full new series of attempts",
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
        handle=redeliver_events,
        heavy=True,
        scopes=("charges:create",),
        body=EventRange,
        answers={202: RangeRedelivered},
    ),
)
