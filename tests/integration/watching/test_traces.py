"""With a collector set, a request, its bank orders and its webhooks are one trace; without one, nothing is traced."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import pytest

from runtime.tracing.ids import sampled
from runtime.tracing.settings import Tracing
from runtime.tracing.traces import Traces
from tests.support.collector import Collector, ReceivedSpan, trace_collector
from tests.support.log_search import leaks_in
from tests.support.system import ROOT, System, remove_home, temporary_home, until
from tests.support.webhook_headers import WebhookHeaders, header_receiver

_PAYER = {"name": "Benedita Rastreada", "document": "52998224725", "email": "benedita@rastreada.example"}


class Traced(NamedTuple):
    system: System
    collector: Collector
    hearing: WebhookHeaders


@pytest.fixture(scope="module")
def traced() -> Iterator[Traced]:
    with trace_collector() as collector, header_receiver() as heard:
        system = System(
            temporary_home(),
            env={
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
                "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20of-the-collector",
                "OTEL_BSP_SCHEDULE_DELAY": "200",
            },
        )
        try:
            system.start()
            yield Traced(system, collector, heard)
            assert system.stop() == 0
            assert system.leaked() == []
        finally:
            if system.running():
                system.kill()
            remove_home(system.home)


def ask(
    system: System, merchant: dict[str, Any], path: str, body: Any = None, *, traceparent: str = ""
) -> httpx.Response:
    token = httpx.post(
        f"{system.base_url}/v1/oauth/token",
        data={"grant_type": "client_credentials", **merchant["production"]},
        timeout=30,
    ).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": str(uuid4())}
    if traceparent:
        headers["traceparent"] = traceparent
    answer = httpx.post(system.base_url + path, json=body, headers=headers, timeout=60)
    assert answer.status_code < 300, answer.text
    return answer


def trace_of(request_id: str) -> str:
    """The trace id of a request, as docs/running.md defines it."""
    return sha256(request_id.encode()).hexdigest()[:32]


def complete_trace(traced: Traced, request_id: str, names: set[str]) -> dict[str, ReceivedSpan]:
    """The trace of a request, once its root and the spans `names` have arrived.

    The API and the worker export on timers of their own, so the worker's spans may arrive before their root."""
    of = trace_of(request_id)

    def arrived() -> bool:
        spans = traced.collector.of(of)
        return names <= set(spans) and any(span.parent_id == "" for span in spans.values())

    until(arrived, what=f"the root and spans {names}")
    return traced.collector.of(of)


def log_lines(system: System, process: str, request_id: str) -> list[dict[str, Any]]:
    text = (system.home / "logs" / f"{process}.log").read_text(encoding="utf-8", errors="replace")
    return [json.loads(line) for line in text.splitlines() if f'"{request_id}"' in line and line.endswith("}")]


def test_a_request_its_bank_call_and_its_webhook_are_one_trace(traced: Traced) -> None:
    system = traced.system
    merchant = system.create_merchant()
    system.json("webhook", "set", merchant["account_id"], f"{traced.hearing.url}token-in-the-address")
    body = {
        "account_id": merchant["account_id"],
        "amount": "7.30",
        "payer": _PAYER,
        "description": "segredo do cliente",
    }
    theirs = "4bf92f3577b34da6a3ce929d0e0e4736"
    created = ask(system, merchant, "/v1/charges/pix", body, traceparent=f"00-{theirs}-00f067aa0ba902b7-01")
    first = "POST /v1/charges/pix"
    spans = complete_trace(traced, created.headers["x-request-id"], {first, "order cob_register", "bank put_cob"})
    assert spans[first].parent_id == ""
    assert spans[first].links == [theirs], "the client's own trace is linked"
    assert spans[first].service == "quita-api"
    assert spans[first].attributes["http.response.status_code"] == 201
    assert spans["order cob_register"].parent_id == spans[first].span_id
    assert spans["order cob_register"].service == "quita-worker"
    assert spans["bank put_cob"].parent_id == spans["order cob_register"].span_id

    cancelled = ask(system, merchant, f"/v1/charges/{created.json()['charge_id']}/cancel").headers["x-request-id"]
    first, delivery = "POST /v1/charges/{charge_id}/cancel", "webhook charge.cancelled"
    spans = complete_trace(traced, cancelled, {first, "order cob_remove", "bank remove_cob", delivery})
    assert {span.name: span.parent_id for span in spans.values()} == {
        first: "",
        "order cob_remove": spans[first].span_id,
        "bank remove_cob": spans["order cob_remove"].span_id,
        delivery: spans[first].span_id,
    }
    assert all(span.began_ns <= span.ended_ns for span in spans.values())
    sent = traced.hearing.headers_of(merchant["account_id"])["traceparent"]
    assert sent == f"00-{trace_of(cancelled)}-{spans[delivery].span_id}-01", "the receiver can continue the trace"

    def lines() -> list[dict[str, Any]]:
        return log_lines(system, "api", cancelled) + log_lines(system, "worker", cancelled)

    events = {"request", "bank_order_asked", "webhook_sent"}
    until(lambda: events <= {line["event"] for line in lines()}, what=f"log lines {events}")
    assert {line["trace_id"] for line in lines()} == {trace_of(cancelled)}


def test_a_payment_is_one_trace_from_the_banks_callback_to_the_webhook(traced: Traced) -> None:
    system = traced.system
    merchant = system.create_merchant()
    system.json("webhook", "set", merchant["account_id"], traced.hearing.url)
    body = {"account_id": merchant["account_id"], "amount": "8.10"}
    charge_id = ask(system, merchant, "/v1/charges/pix", body).json()["charge_id"]
    system.json("bank", "pay", "--charge-id", charge_id)

    def delivery() -> ReceivedSpan | None:
        mine = traced.hearing.found_headers_of(merchant["account_id"])
        sent = (mine or {}).get("traceparent", "--").split("-")
        return next((span for span in traced.collector.spans if span.span_id == sent[2]), None)

    until(lambda: delivery() is not None, what="the delivery of the payment")
    sent = delivery()
    assert sent is not None
    request_id = sent.attributes["quita.request_id"]
    spans = complete_trace(traced, request_id, {"bank hint", "bank get_cob", "webhook payment.received"})
    (callback,) = [span for span in spans.values() if span.parent_id == ""]
    assert callback.name.startswith("POST /bank/{token}"), (
        "the span has the route's template, because the token is a secret"
    )
    assert spans["bank hint"].parent_id == callback.span_id
    assert spans["bank get_cob"].parent_id == spans["bank hint"].span_id
    assert spans["webhook payment.received"].parent_id == callback.span_id

    def told(process: str) -> set[str]:
        return {line["event"] for line in log_lines(system, process, request_id)}

    until(lambda: told("api") == {"request", "bank_callback"}, what="both lines of the API, which writes now and then")
    assert told("worker") >= {"bank_hint_asked", "webhook_sent"}


def test_no_exported_span_holds_a_secret_a_document_or_a_payload(traced: Traced) -> None:
    """Searches every byte that the two tests above exported."""
    assert traced.collector.bodies
    exported = b"\n".join(traced.collector.bodies)
    assert leaks_in(exported.decode("latin-1")) == []
    for told in (
        *_PAYER.values(),
        "7.30",
        "8.10",
        "segredo do cliente",
        "token-in-the-address",
        "whsec_",
        "/bank/local",
    ):
        assert told.encode() not in exported, told
    known = {
        "http.request.method", "http.route", "http.response.status_code", "quita.request_id", "quita.order_id",
        "quita.kind", "quita.bank", "quita.attempt", "quita.test", "quita.operation", "quita.outcome",
        "quita.delivery_id", "quita.event_id", "quita.endpoint_id",
    }  # fmt: skip
    assert {name for span in traced.collector.spans for name in span.attributes} <= known
    assert {each["authorization"] for each in traced.collector.headers} == {"Bearer of-the-collector"}


def test_without_a_collector_set_the_opentelemetry_sdk_is_not_imported() -> None:
    programs = (
        "import cli.run.asgi, workers.process, sys\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", programs], cwd=ROOT, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(ROOT), "DATABASE_URL": "postgresql://x@127.0.0.1/x", "REDIS_URL": "redis://127.0.0.1",
             "SECRET_KEY": "5e" * 32, "QUITA_ENV": "local"},
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


async def test_the_sampled_share_of_traces_is_exported_and_each_of_them_is_complete() -> None:
    request_ids = [f"req_{number}" for number in range(400)]
    with trace_collector() as collector:
        traces = Traces(Tracing(endpoint=collector.url, share=0.25), "quita-test")
        for each in request_ids:
            with traces.span("order x", request_id=each, own="", attributes={}), traces.call("bank y", {}):
                pass
            traces.add_request(each, "GET /", {}, began_ns=1, ended_ns=2, came_with=None)
        await traces.close()
    kept = {trace_of(each) for each in request_ids if sampled(each, 0.25) is not None}
    assert 60 <= len(kept) <= 140
    assert {span.trace_id for span in collector.spans} == kept
    assert len(collector.spans) == 3 * len(kept), "a trace is recorded whole or not at all"


@pytest.mark.parametrize(
    "came_with", ["", "nonsense", "ff-" + "1" * 32 + "-" + "2" * 16 + "-01", "00-" + "0" * 32 + "-" + "2" * 16 + "-01"]
)
async def test_an_invalid_traceparent_is_not_linked(came_with: str) -> None:
    with trace_collector() as collector:
        traces = Traces(Tracing(endpoint=collector.url), "quita-test")
        traces.add_request("req_x", "GET /", {}, began_ns=1, ended_ns=2, came_with=came_with)
        await traces.close()
    assert [span.links for span in collector.spans] == [[]]


async def test_an_unreachable_collector_loses_spans_and_delays_nothing() -> None:
    traces = Traces(Tracing(endpoint="http://127.0.0.1:9"), "quita-test")
    async with asyncio.timeout(30):
        for number in range(5_000):
            traces.add_request(f"req_{number}", "GET /", {}, began_ns=1, ended_ns=2, came_with=None)
        await asyncio.sleep(0)
        await traces.close()
