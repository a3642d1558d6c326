"""Given the metrics of a system in trouble, Prometheus fires the alert about that trouble."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.system import ROOT

RULES = ROOT / "docs" / "operations" / "alerts.yaml"

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (of Debian's prometheus) is not there"
)


def fires(folder: Path, alert: str, shown: dict[str, str], *, at: str = "20m", interval: str = "15s") -> bool:
    """Does `alert` fire at `at` after the start of these series, which have a value each `interval`?"""
    series = [{"series": name, "values": values} for name, values in shown.items()]
    asked: dict[str, Any] = {"eval_time": at, "alertname": alert, "exp_alerts": []}
    # Only this alert is kept: each rule is evaluated at every step until `at`, which can be days.
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in rules["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert", alert) == alert]
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules), encoding="utf-8")
    file = folder / "test.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "rule_files": ["rules.yaml"],
                "evaluation_interval": interval,
                "tests": [{"interval": interval, "input_series": series, "alert_rule_test": [asked]}],
            }
        )
    )
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "got:[" in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode != 0


MEASURED = "quita_measured_timestamp_seconds"
HOME = {f'{MEASURED}{{cell="0",instance="a"}}': "0+15x80", 'quita_cell_info{cell="0",instance="a"}': "1+0x80"}


@pytest.mark.parametrize(
    ("shown", "fired"),
    [
        (HOME, False),
        ({**HOME, f'{MEASURED}{{cell="0",instance="b"}}': "0+15x20 stale"}, False),  # another worker measured before
        ({f'{MEASURED}{{cell="0",instance="a"}}': "0+15x60 900+0x20"}, True),
        ({f'{MEASURED}{{cell="0",instance="a"}}': "0+15x20 stale"}, True),
        ({f'{MEASURED}{{cell="0",instance="b"}}': "0+0x80"}, True),
        ({}, True),
    ],
)
def test_not_measured_fires_when_no_worker_measures(tmp_path: Path, shown: dict[str, str], fired: bool) -> None:
    assert fires(tmp_path, "NotMeasured", shown) is fired


@pytest.mark.parametrize(
    ("shown", "fired"),
    [
        ({f'{MEASURED}{{cell="1",instance="b"}}': "0+15x80"}, False),
        ({f'{MEASURED}{{cell="1",instance="b"}}': "0+15x20 300+0x60"}, True),  # the worker hangs
        ({f'{MEASURED}{{cell="1",instance="b"}}': "0+15x20 stale"}, True),  # the worker is gone
        ({}, True),  # no worker was started
    ],
)
def test_not_measured_fires_for_a_cell_without_a_measuring_worker_although_home_has_one(
    tmp_path: Path, shown: dict[str, str], fired: bool
) -> None:
    known = {'quita_cell_info{cell="1",instance="a"}': "1+0x80"}
    assert fires(tmp_path, "NotMeasured", {**HOME, **known, **shown}) is fired


VERIFIED = "quita_verify_completed_timestamp_seconds"


@pytest.mark.parametrize(
    ("at", "shown", "fired"),
    [
        ("30h", {MEASURED: "0+300x360"}, False),  # a new installation: its first nightly verification may be a day away
        ("42h", {MEASURED: "0+300x600"}, True),
        ("42h", {MEASURED: "0+300x600", VERIFIED: "_x200 60000+0x400"}, False),
        ("72h", {MEASURED: "0+300x900", VERIFIED: "60000+0x900"}, True),
    ],
)
def test_books_not_verified_fires_when_no_nightly_verification_ran(
    tmp_path: Path, at: str, shown: dict[str, str], fired: bool
) -> None:
    home = {f'{name}{{cell="0"}}': values for name, values in shown.items()}
    assert fires(tmp_path, "BooksNotVerified", home, at=at, interval="5m") is fired
    # A cell whose books are verified does not hide the other.
    well = {f'{name}{{cell="1"}}': "0+300x900" for name in (MEASURED, VERIFIED)}
    assert fires(tmp_path, "BooksNotVerified", {**home, **well}, at=at, interval="5m") is fired


@pytest.mark.parametrize(("counted", "fired"), [("0+0x60 1+0x20", True), ("0+0x80", False)])
def test_bank_item_unreadable_fires_at_the_first_unreadable_item(tmp_path: Path, counted: str, fired: bool) -> None:
    """Each item is counted once: a series that began with it would show no increase (test_operations.py)."""
    shown = {'reconciler_unreadable_total{bank="001",method="pix"}': counted}
    assert fires(tmp_path, "BankItemUnreadable", shown) is fired


@pytest.mark.parametrize(("ends", "fired"), [(31 * 86_400, False), (29 * 86_400, True), (0, True), (None, False)])
def test_bank_certificate_ends_fires_within_a_month_of_the_end(tmp_path: Path, ends: int | None, fired: bool) -> None:
    shown = (
        {} if ends is None else {'quita_bank_certificate_ends_timestamp_seconds{bank="001"}': f"{ends + 7200}+0x150"}
    )
    assert fires(tmp_path, "BankCertificateEnds", shown, at="2h", interval="1m") is fired


@pytest.mark.parametrize(("each_15_s", "fired"), [(7.5, True), (1.25, True), (0.25, False)])
def test_duty_failing_fires_when_every_round_of_a_duty_fails(tmp_path: Path, each_15_s: float, fired: bool) -> None:
    """A round every 2 s, or every 12 s when each waits 10 s for a statement that is then cancelled."""
    shown = {'duty_runs_total{duty="expiry",result="failed"}': f"0+{each_15_s}x80"}
    assert fires(tmp_path, "DutyFailing", shown) is fired
