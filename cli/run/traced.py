"""The root span of each request: its method, route and status.

The middleware wraps the whole application, so that pages and the API are traced alike. The span is added after the
answer: before that, a request costs two readings of the clock.
"""

import time
from collections.abc import Mapping
from typing import Any

from runtime.tracing.traces import Traces


class TracingMiddleware:
    """An ASGI middleware. Requests whose answer carries no request id are not traced."""

    def __init__(self, app: Any, traces: Traces) -> None:
        self._app = app
        self._traces = traces

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status, request_id, began_ns = 0, "", time.time_ns()

        async def send_and_note(message: Any) -> None:
            nonlocal status, request_id
            if message["type"] == "http.response.start":
                status = message["status"]
                request_id = _header(message["headers"], b"x-request-id")
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            if request_id:
                self._add_span(scope, status, request_id, began_ns)

    def _add_span(self, scope: Any, status: int, request_id: str, began_ns: int) -> None:
        # Only the template: a path may contain a merchant's key, or the token of a payer's page or of a bank callback.
        route = scope.get("path_template")
        attributes: dict[str, str | int | bool] = {
            "http.request.method": scope["method"],
            "http.response.status_code": status,
        }
        if route:
            attributes["http.route"] = route
        self._traces.add_request(
            request_id,
            f"{scope['method']} {route}" if route else scope["method"],
            attributes,
            began_ns=began_ns,
            ended_ns=time.time_ns(),
            came_with=_header(scope["headers"], b"traceparent") or None,
        )


def _header(headers: Any, name: bytes) -> str:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return next((value.decode("latin-1") for key, value in pairs if key.lower() == name), "")
