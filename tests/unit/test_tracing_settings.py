"""Tracing is off unless a collector is set; an invalid setting of tracing prevents the start."""

import pytest

from runtime.tracing.ids import sampled
from runtime.tracing.settings import Tracing, read_tracing
from tests.support.system import ROOT

_AT = "http://collector:4318"


@pytest.mark.parametrize("env", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, {"OTEL_TRACES_SAMPLER_ARG": "0.1"}])
def test_tracing_is_off_unless_a_collector_is_set(env: dict[str, str]) -> None:
    assert read_tracing(env) is None


def test_opentelemetrys_own_switch_turns_tracing_off() -> None:
    assert read_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": _AT, "OTEL_SDK_DISABLED": "true"}) is None


def test_all_traces_are_recorded_unless_a_share_is_set() -> None:
    assert read_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": f"{_AT}/"}) == Tracing(endpoint=_AT, share=1.0)
    share = read_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": _AT, "OTEL_TRACES_SAMPLER_ARG": "0.05"})
    assert share == Tracing(endpoint=_AT, share=0.05)


@pytest.mark.parametrize(
    "env",
    [
        *({"OTEL_EXPORTER_OTLP_ENDPOINT": each} for each in ("collector:4318", "http://a:secret@b:1", "grpc://x:1")),
        *(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": _AT, "OTEL_TRACES_SAMPLER_ARG": each}
            for each in ("1.5", "-1", "all", "nan", "1e9")
        ),
    ],
)
def test_the_error_for_an_invalid_setting_names_it(env: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=list(env)[-1]):
        read_tracing(env)


def test_sampling_depends_only_on_the_trace_id_and_the_share() -> None:
    ids = [f"req_{number}" for number in range(4_000)]
    few = {each for each in ids if sampled(each, 0.05)}
    assert 140 <= len(few) <= 260
    assert few <= {each for each in ids if sampled(each, 0.2)}, "a smaller share is a subset of a larger one"
    assert all(sampled(each, 1.0) for each in ids)
    assert not any(sampled(each, 0.0) for each in ids)


def test_every_setting_of_tracing_is_documented() -> None:
    documentation = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER_ARG", "OTEL_EXPORTER_OTLP_HEADERS"):
        assert f"`{name}`" in documentation
