"""Frequent counts and observations are collected and passed to prometheus_client together (runtime/metrics.py)."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from runtime.metrics import BufferedCounter, BulkHistogram

BUCKETS = (0.001, 0.0025, 0.01, 1)
TIMES = [0.0, 0.001, 0.0010001, 0.0025, 0.5, 1.0, 1.5, 9.0]


def exposed(registry: CollectorRegistry) -> list[bytes]:
    return [line for line in generate_latest(registry).splitlines() if b"_created" not in line]


def test_values_observed_together_give_the_metrics_of_values_observed_one_by_one() -> None:
    together, alone = CollectorRegistry(), CollectorRegistry()
    BulkHistogram("took_s", "Time.", ["route"], buckets=BUCKETS, registry=together).labels("a").observe_all(TIMES)
    one_by_one = Histogram("took_s", "Time.", ["route"], buckets=BUCKETS, registry=alone).labels("a")
    for value in TIMES:
        one_by_one.observe(value)
    assert exposed(together) == exposed(alone)


def test_a_buffered_count_is_added_to_its_counter_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BufferedCounter, "_all", [])
    registry = CollectorRegistry()
    often = BufferedCounter(Counter("made", "Made.", registry=registry))
    for _ in range(3):
        often.inc()
    for _ in range(2):
        BufferedCounter.flush_counts()
    assert b"made_total 3.0" in exposed(registry)
