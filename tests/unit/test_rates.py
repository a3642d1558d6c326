"""A client above its rate is refused with the time to wait, and other clients are not affected."""

from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from domain.errors import Code, Refused
from runtime.limits import rates
from runtime.limits.rates import ClientRates, Rates, read_rates

ROOT = Path(__file__).parents[2]


def spend(limits: ClientRates, client: str, *, now_s: float, times: int = 1, what: str = "pdfs_per_min") -> int:
    """Returns how many of `times` requests are accepted."""
    accepted = 0
    for _ in range(times):
        try:
            limits.spend(what, client, now_s=now_s)
        except Refused:
            continue
        accepted += 1
    return accepted


def test_a_days_quota_of_test_charges_may_be_used_at_once_and_refills_over_the_day() -> None:
    limits = ClientRates(Rates(sandbox_charges_per_day=240))
    assert spend(limits, "a", now_s=100.0, times=300, what="sandbox_charges_per_day") == 240
    assert spend(limits, "b", now_s=100.0, what="sandbox_charges_per_day") == 1
    with pytest.raises(Refused) as refusal:
        limits.spend("sandbox_charges_per_day", "a", now_s=101.0)
    assert (refusal.value.code, refusal.value.retry_after_s) == (Code.RATE_LIMITED, 359)
    assert spend(limits, "a", now_s=100.0 + 3600, times=300, what="sandbox_charges_per_day") == 10


def test_a_burst_of_ten_seconds_is_accepted_and_then_the_rate() -> None:
    limits = ClientRates(Rates(pdfs_per_min=300))
    assert spend(limits, "a", now_s=100.0, times=80) == 50
    assert spend(limits, "b", now_s=100.0, times=80) == 50
    assert spend(limits, "a", now_s=101.0, times=80) == 5
    assert spend(limits, "a", now_s=200.0, times=80) == 50


def test_a_client_within_the_rate_is_never_refused() -> None:
    limits = ClientRates(Rates(pdfs_per_min=60))
    assert all(spend(limits, "a", now_s=float(second)) for second in range(1_000))


def test_a_refusal_says_how_long_to_wait_and_kinds_are_counted_separately() -> None:
    limits = ClientRates(Rates(files_per_min=1))
    for _ in range(10):
        limits.spend("files_per_min", "a", now_s=0.0)
    with pytest.raises(Refused) as refusal:
        limits.spend("files_per_min", "a", now_s=0.0)
    assert (refusal.value.code, refusal.value.retry_after_s) == (Code.RATE_LIMITED, 60)
    limits.spend("files_per_min", "a", now_s=60.0)
    limits.spend("pages_per_min", "a", now_s=0.0)
    counted = REGISTRY.get_sample_value("rate_limited_total", {"what": "files_per_min"})
    assert counted is not None
    assert counted >= 1
    assert spend(limits, "b", now_s=0.0, times=50) == 50
    with pytest.raises(Refused) as refusal:
        limits.spend("pdfs_per_min", "b", now_s=0.0)
    assert refusal.value.retry_after_s == 1, "a fifth of a second, rounded up"


def test_the_number_of_remembered_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_CLIENTS_MAX", 100)
    limits = ClientRates(Rates())
    assert spend(limits, "a", now_s=0.0, times=600, what="pages_per_min") == 500
    for number in range(1_000):
        limits.spend("pages_per_min", str(number), now_s=number / 1000)
    assert len(limits._paid_until["pages_per_min"]) <= 100
    assert spend(limits, "a", now_s=1.0, times=600, what="pages_per_min") == 50, "a client in debt is not forgotten"
    for number in range(100):
        limits.spend("logos_per_min", str(number), now_s=2.0)
    limits.spend("logos_per_min", "0", now_s=2.0)
    assert len(limits._paid_until["logos_per_min"]) == 100, "a known client displaces no other"
    limits.spend("logos_per_min", "100", now_s=2.0)
    assert len(limits._paid_until["logos_per_min"]) <= 100


def test_each_rate_is_set_by_an_environment_variable_and_documented() -> None:
    assert read_rates({}) == read_rates({"RATE_PDFS_PER_MIN": ""}) == Rates()
    set_to = {f"RATE_{field.upper()}": "7" for field in Rates.__struct_fields__}
    assert all(getattr(read_rates(set_to), field) == 7 for field in Rates.__struct_fields__)
    documentation = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in documentation for name in set_to)
    for wrong in ("0", "-1", "x", "1" * 9):
        with pytest.raises(ValueError, match="RATE_PDFS_PER_MIN must be a whole number"):
            read_rates({"RATE_PDFS_PER_MIN": wrong})
