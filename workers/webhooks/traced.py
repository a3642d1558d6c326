"""An attempt as a span of its event's trace. The header traceparent lets the receiver continue the trace."""

import aiohttp

from runtime.tracing.traces import Traces, traceparent
from workers.webhooks.attempt import ReceiverAnswer, post
from workers.webhooks.lanes import DueDelivery


async def post_traced(
    traces: Traces | None, http: aiohttp.ClientSession, due: DueDelivery, headers: dict[str, str]
) -> ReceiverAnswer:
    """As `post`, in a span. Of the receiver the span has only the endpoint's id and the answer's status: an address may
    hold a token.

    The receiver gets no traceparent of a trace that is not recorded here: its flag would make it record nothing.
    """
    if traces is None:
        return await post(http, due.url, due.body, headers)
    attributes: dict[str, str | int | bool] = {
        "quita.delivery_id": str(due.delivery_id),
        "quita.event_id": str(due.event_id),
        "quita.endpoint_id": str(due.endpoint_id),
        "quita.attempt": due.attempt,
        "quita.test": due.test,
    }
    with traces.span(
        f"webhook {due.type}", request_id=due.request_id, own=str(due.event_id), attributes=attributes
    ) as span:
        if span is not None:
            headers = {**headers, "traceparent": traceparent(span)}
        answer = await post(http, due.url, due.body, headers)
        if span is not None:
            span.set_attribute("quita.outcome", answer.outcome)
            if answer.status is not None:
                span.set_attribute("http.response.status_code", answer.status)
        return answer
