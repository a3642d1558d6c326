"""Every bench runs: the product's functions that a bench calls change, and no other test would show it. Each piece of
work that the bench `growth` compares does what its name says, and reads no more blocks of a larger database."""

import json
import os
import subprocess
import sys

import pytest

from bench.__main__ import SCENARIOS
from bench.growth_work import ROUNDS
from tests.support.system import ROOT

SECONDS = "1"
LONG = {"bank-standstill", "reports"}
"""These write a year or a quarter of a million payments, whatever time they are given."""

SMALL, LARGE = 3_000, 30_000
# With ten times as many rows no index is more than one level deeper (a block of an index points to some hundreds), so
# the shortest look-up, a root and a row, reads three blocks instead of two. Work that grows with the number of charges
# reads ten times as many.
BLOCKS_RATIO_MAX = 1.5
ITEMS = {
    "creation of 100, references at random": 100,
    "creation of 1": 1,
    "creation of 100": 100,
    "orders claimed and settled, 100": 100,
    "payment of 1": 1,
    "payment of 100": 100,
    "look-up of 1": 1,
    "look-up of 100": 100,
    "list, first page": 25,
    "list, 10,000th page or the last": 25,
    "list, days long ago": 25,
    "list by status": 25,
    "feed, the newest 100": 100,
    "feed, 100 from its middle": 100,
    "balance": 1,
    "totals folded": 1,
    "summary": 1,
}
"""How many items each piece of work creates, pays, finds or lists, each time."""


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(SCENARIOS.keys() - LONG - {"growth"}))
def test_every_bench_runs(name: str) -> None:
    assert f"({name})" in _output(name)


@pytest.mark.heavy
def test_no_operation_of_the_bench_growth_reads_more_blocks_of_a_larger_database() -> None:
    found = json.loads(_output("growth", "--json"))["found"]["growth"]
    heading, rows, ends = found[0], found[1:-2], found[-2:]
    assert heading["charges"] == [SMALL, LARGE]
    assert heading["pages"] == [SMALL // 25 - ROUNDS - 1, LARGE // 25 - ROUNDS - 1]
    assert {row["name"]: row["items"] for row in rows} == ITEMS
    grown = {row["name"]: row["blocks"]["ratio"] for row in rows if row["blocks"]["ratio"] > BLOCKS_RATIO_MAX}
    assert grown == {}
    payments = (ROUNDS + 1) * (ITEMS["payment of 1"] + ITEMS["payment of 100"])
    assert [(end["value"], end["note"]) for end in ends] == [(1.0, f"{payments:,} payments")] * 2


def _output(name: str, *options: str) -> str:
    env = {**os.environ, "BENCH_CHARGES": f"{SMALL},{LARGE}"}
    done = subprocess.run(
        [sys.executable, "-m", "bench", name, "--seconds", SECONDS, *options],
        cwd=ROOT, env=env, timeout=300, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
