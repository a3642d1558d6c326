"""Every bench runs: what it calls of the product changes, and nothing else would tell."""

import os
import subprocess
import sys

import pytest

from bench.__main__ import SCENARIOS
from tests.support.system import ROOT

SECONDS = "1"
LONG = {"bank-standstill", "reports"}
"""They write a year or a quarter of a million payments, whatever time they are given."""


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(SCENARIOS.keys() - LONG))
def test_every_bench_runs(name: str) -> None:
    env = {**os.environ, "BENCH_CHARGES": "10000,11000"}
    done = subprocess.run(
        [sys.executable, "-m", "bench", name, "--seconds", SECONDS],
        cwd=ROOT, env=env, timeout=300, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"({name})" in done.stdout
