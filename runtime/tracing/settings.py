"""The collector of traces, and the share recorded: OpenTelemetry's own variables, read once (docs/settings.md).

Other variables (OTEL_EXPORTER_OTLP_HEADERS, _CERTIFICATE, _TIMEOUT, _COMPRESSION, OTEL_BSP_*,
OTEL_RESOURCE_ATTRIBUTES) are read by the SDK, so that a header with a password never stands in our settings.
"""

import re
from collections.abc import Mapping

from msgspec import Struct


class Tracing(Struct, frozen=True, kw_only=True):
    endpoint: str
    """OTEL_EXPORTER_OTLP_ENDPOINT: the collector, without /v1/traces."""
    share: float = 1.0
    """OTEL_TRACES_SAMPLER_ARG: the share of traces that are recorded, 0 to 1. The trace's id decides, so that every
    process decides the same."""


def read_tracing(env: Mapping[str, str]) -> Tracing | None:
    """None when no traces are asked for. ValueError names the variable that is wrong."""
    endpoint = env.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").rstrip("/")
    if not endpoint or env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", endpoint):
        raise ValueError("OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https address such as http://collector:4318")
    text = env.get("OTEL_TRACES_SAMPLER_ARG") or "1"
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?|\.[0-9]+", text) or float(text) > 1:
        raise ValueError(f"OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1, not {text!r}")
    return Tracing(endpoint=endpoint, share=float(text))
