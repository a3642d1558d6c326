"""Prometheus, given what a system in trouble shows, fires the rule that is about it."""

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


def fires(folder: Path, alert: str, shown: dict[str, str]) -> bool:
    """Whether `alert` fires 20 minutes after the beginning of these series, which have a value each 15 s."""
    series = [{"series": name, "values": values} for name, values in shown.items()]
    asked: dict[str, Any] = {"eval_time": "20m", "alertname": alert, "exp_alerts": []}
    file = folder / "test.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(RULES)],
                "tests": [{"interval": "15s", "input_series": series, "alert_rule_test": [asked]}],
            }
        )
    )
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "got:[" in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode != 0


MEASURED = "quita_measured_timestamp_seconds"


@pytest.mark.parametrize(
    ("shown", "fired"),
    [
        ({MEASURED + '{instance="a"}': "0+15x80", MEASURED + '{instance="b"}': "NaN+0x80"}, False),
        ({MEASURED + '{instance="a"}': "900+0x80", MEASURED + '{instance="b"}': "NaN+0x80"}, True),
        # Who measured is gone, and the workers that are left cannot: they show what they did as long as another did it.
        ({MEASURED + '{instance="b"}': "NaN+0x80"}, True),
        ({MEASURED + '{instance="b"}': "0+0x80"}, True),
        ({}, True),
    ],
)
def test_not_measured_fires_when_no_worker_measures(tmp_path: Path, shown: dict[str, str], fired: bool) -> None:
    assert fires(tmp_path, "NotMeasured", shown) is fired


@pytest.mark.parametrize(("counted", "fired"), [("0+0x60 1+0x20", True), ("0+0x80", False)])
def test_the_first_item_of_a_bank_that_cannot_be_read_fires(tmp_path: Path, counted: str, fired: bool) -> None:
    """Each item is counted once: of a series that began with it nothing would have grown (test_operations.py)."""
    shown = {'reconciler_unreadable_total{bank="001",method="pix"}': counted}
    assert fires(tmp_path, "BankItemUnreadable", shown) is fired


@pytest.mark.parametrize(("each_15_s", "fired"), [(7.5, True), (1.25, True), (0.25, False)])
def test_a_duty_that_fails_in_each_round_fires(tmp_path: Path, each_15_s: float, fired: bool) -> None:
    """Every two seconds; or every twelve, when each round waits ten for a statement that is given up."""
    shown = {'duty_runs_total{duty="expiry",result="failed"}': f"0+{each_15_s}x80"}
    assert fires(tmp_path, "DutyFailing", shown) is fired
