"""A collector of traces: receives OTLP over http/protobuf on a socket, and keeps the spans."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class ReceivedSpan(NamedTuple):
    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    links: list[str]
    """The trace ids of the linked spans."""
    began_ns: int
    ended_ns: int


class Collector:
    def __init__(self) -> None:
        self.url = ""
        self.spans: list[ReceivedSpan] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []

    def of(self, trace_id: str) -> dict[str, ReceivedSpan]:
        """The spans of a trace, by name."""
        return {span.name: span for span in self.spans if span.trace_id == trace_id}

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        self.bodies.append(body)
        self.headers.append(headers)
        for each in ExportTraceServiceRequest.FromString(body).resource_spans:
            of = {item.key: item.value.string_value for item in each.resource.attributes}
            for scope in each.scope_spans:
                self.spans += [_parsed(of["service.name"], span) for span in scope.spans]


def _parsed(service: str, span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes},
        [link.trace_id.hex() for link in span.links],
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


@contextmanager
def trace_collector() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            valid = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
            if valid:
                collector.take(body, dict(self.headers))
            self.send_response(200 if valid else 400)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        collector.url = f"http://127.0.0.1:{server.server_port}"
        yield collector
        server.shutdown()
