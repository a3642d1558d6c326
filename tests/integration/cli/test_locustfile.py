"""bench/locustfile.py, run as users of locust run it: against a running system, headless, by class, tag and shape."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.system import System

LOCUSTFILE = Path(__file__).resolve().parents[3] / "bench" / "locustfile.py"


def locust(folder: Path, home: Path, *args: str) -> tuple[int, dict[str, dict[str, str]], str]:
    """Runs locust headless; returns its exit code, the statistics by name of request, and its output."""
    done = subprocess.run(
        [
            sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--headless", "--only-summary", "--csv",
            str(folder / "out"), *args,
        ],
        env=os.environ | {"QUITA_HOME": str(home)}, cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    stats = folder / "out_stats.csv"
    rows = list(csv.DictReader(stats.read_text(encoding="utf-8").splitlines())) if stats.exists() else []
    return done.returncode, {row["Name"]: row for row in rows}, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "asked"),
    [
        ([], {"issue PIX", "issue boleto", "issue boleto_hibrido", "look up", "list charges", "feed", "token"}),
        pytest.param(
            ["PixMerchant", "--tags", "refund"],
            {"issue PIX", "simulate payment", "refund", "token"},
            marks=pytest.mark.heavy,
        ),
        pytest.param(
            ["--tags", "boleto", "--quita-shape", "spike"],
            {"issue boleto", "issue boleto_hibrido", "token"},
            marks=pytest.mark.heavy,
        ),
        (["Reader", "--processes", "2"], {"list charges", "look up", "list payments", "feed", "balance", "ledger"}),
    ],
    ids=["all-classes", "tag-refund", "tag-boleto-in-a-spike", "reader-in-two-processes"],
)  # fmt: skip
def test_the_locustfile_runs_without_a_failure_by_class_tag_and_shape(
    system: System, tmp_path: Path, args: list[str], asked: set[str]
) -> None:
    code, rows, said = locust(tmp_path, system.home, "-u", "12", "-r", "12", "-t", "8s", "--quita-per-user", "8", *args)
    assert code == 0, said[-2000:]
    assert asked <= rows.keys(), said[-2000:]
    assert rows["Aggregated"]["Failure Count"] == "0"


def test_the_locustfile_reaches_any_host_with_a_credential(system: System, tmp_path: Path) -> None:
    merchant = json.loads((system.home / "dev.json").read_text(encoding="utf-8"))["merchants"][0]
    named = {
        "--host": system.base_url,
        "--quita-client-id": merchant["test"]["client_id"],
        "--quita-client-secret": merchant["test"]["client_secret"],
        "--quita-account": merchant["account_id"],
    }
    pairs = [each for pair in named.items() for each in pair]
    # The requests are drawn at random; among two hundred some issue a charge.
    code, rows, said = locust(
        tmp_path, tmp_path, "-u", "8", "-r", "8", "-t", "6s", "--quita-per-user", "8", *pairs, "PixMerchant"
    )
    assert code == 0, said[-2000:]
    assert "issue PIX" in rows


def test_the_locustfile_says_what_to_start_when_no_system_runs(tmp_path: Path) -> None:
    code, _, said = locust(tmp_path, tmp_path, "-t", "1s")
    assert code != 0
    assert "make up" in said
    assert "Traceback" not in said
