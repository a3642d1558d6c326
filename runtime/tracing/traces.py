"""Spans of one process, on their way to the collector (docs/decisions/0046-traces.md).

A span carries names, counts and ids that are in the log as well, and never a secret, a document, a body or the text of
an error. Export is a thread of the SDK: spans that it cannot send in time are dropped, and nobody waits for it.

The SDK is imported where the first `Traces` is made: a process without the setting does not load it.
"""

import asyncio
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from runtime.tracing.ids import TraceIds, sampled
from runtime.tracing.settings import Tracing

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, SpanKind

Attributes = Mapping[str, str | int | bool]

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_CLOSE_S: Final = 3.0


class Traces:
    """Made once for a process; `service` is its `service.name`."""

    def __init__(self, tracing: Tracing, service: str) -> None:
        from opentelemetry import context, trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        class GivenIds(RandomIdGenerator):
            """Random ids, except for a span that is begun with ids of its own."""

            trace_id: int | None = None
            span_id: int | None = None

            def generate_trace_id(self) -> int:
                return self.trace_id or super().generate_trace_id()

            def generate_span_id(self) -> int:
                return self.span_id or super().generate_span_id()

        self._share = tracing.share
        self._trace_api, self._context = trace, context
        self._given_ids = GivenIds()
        self._provider = TracerProvider(
            # `sampled` decides whether a trace is recorded, before its spans are begun.
            sampler=ALWAYS_ON,
            resource=Resource.create(
                {"service.name": service, "service.instance.id": f"{socket.gethostname()}:{os.getpid()}"}
            ),
            id_generator=self._given_ids,
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(endpoint=f"{tracing.endpoint}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("quita")

    def add_request(
        self, request_id: str, name: str, attributes: Attributes, *, began_ns: int, ended_ns: int, came_with: str | None
    ) -> None:
        """Add the first span of the trace of a request that has been answered. `came_with` is the request's
        traceparent: that trace is the client's, and only linked: a client decides neither our ids nor our records."""
        ids = sampled(request_id, self._share)
        if ids is None:
            return
        span = self._begin_root_span(
            ids,
            name,
            {**attributes, "quita.request_id": request_id},
            kind=self._trace_api.SpanKind.SERVER,
            began_ns=began_ns,
            links=self._links(came_with),
            span_id=ids.root_id,
        )
        span.end(ended_ns)

    @contextmanager
    def span(self, name: str, *, request_id: str | None, own: str, attributes: Attributes) -> "Iterator[Span | None]":
        """A span of work that a request caused, or the first span of the trace named by `own` when no request did; None
        when the trace is not recorded. Calls within are its children."""
        ids = sampled(request_id or own, self._share)
        span = None
        if ids is not None:
            span = self._begin_span(ids, name, request_id, attributes)
        # Also without a span: a span around this one is not the parent of spans within.
        token = self._context.attach(
            self._context.Context()
            if span is None
            else self._trace_api.set_span_in_context(span, self._context.Context())
        )
        try:
            yield span
        finally:
            self._context.detach(token)
            if span is not None:
                span.end()

    def add(
        self, name: str, *, request_id: str | None, own: str, attributes: Attributes, began_ns: int, ended_ns: int
    ) -> None:
        """As `span`, for work that has ended."""
        if (ids := sampled(request_id or own, self._share)) is not None:
            self._begin_span(ids, name, request_id, attributes, began_ns=began_ns).end(ended_ns)

    @contextmanager
    def call(self, name: str, attributes: Attributes) -> "Iterator[Span | None]":
        """A span of a call to another server, within the span that is under way; None where there is none."""
        if not self._trace_api.get_current_span().is_recording():
            yield None
            return
        span = self._tracer.start_span(name, kind=self._trace_api.SpanKind.CLIENT, attributes=attributes)
        try:
            yield span
        finally:
            span.end()

    async def close(self) -> None:
        """Send what is left, for _CLOSE_S at most."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.to_thread(self._provider.shutdown)
        except TimeoutError:
            pass

    def _begin_span(
        self, ids: TraceIds, name: str, request_id: str | None, attributes: Attributes, *, began_ns: int | None = None
    ) -> "Span":
        kind = self._trace_api.SpanKind.CONSUMER
        if request_id is None:
            return self._begin_root_span(ids, name, attributes, kind=kind, began_ns=began_ns)
        flags = self._trace_api.TraceFlags(self._trace_api.TraceFlags.SAMPLED)
        parent = self._trace_api.SpanContext(ids.trace_id, ids.root_id, is_remote=True, trace_flags=flags)
        return self._tracer.start_span(
            name,
            context=self._trace_api.set_span_in_context(
                self._trace_api.NonRecordingSpan(parent), self._context.Context()
            ),
            kind=kind,
            attributes={**attributes, "quita.request_id": request_id},
            start_time=began_ns,
        )

    def _begin_root_span(
        self,
        ids: TraceIds,
        name: str,
        attributes: Attributes,
        *,
        kind: "SpanKind",
        began_ns: int | None = None,
        links: "tuple[Link, ...]" = (),
        span_id: int | None = None,
    ) -> "Span":
        # No other span is begun between these lines: spans are begun on the event loop alone.
        self._given_ids.trace_id, self._given_ids.span_id = ids.trace_id, span_id
        try:
            return self._tracer.start_span(
                name,
                context=self._context.Context(),
                kind=kind,
                attributes=attributes,
                links=links,
                start_time=began_ns,
            )
        finally:
            self._given_ids.trace_id = self._given_ids.span_id = None

    def _links(self, came_with: str | None) -> "tuple[Link, ...]":
        match = None if came_with is None else _TRACEPARENT.fullmatch(came_with)
        if match is None or came_with is None or came_with.startswith("ff"):
            return ()
        context = self._trace_api.SpanContext(int(match[1], 16), int(match[2], 16), is_remote=True)
        return (self._trace_api.Link(context),) if context.is_valid else ()


def traceparent(span: "Span") -> str:
    """The header of a recorded span, as W3C Trace Context writes it."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
