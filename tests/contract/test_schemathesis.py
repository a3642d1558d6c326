"""schemathesis believes the OpenAPI document and looks for requests that prove it wrong: it must find none.

All its checks and phases, against the running system. What is configured, and why:

* A 400 for a request that is valid by the schema is let pass on the lists: that a cursor is of this walk, that a range
  does not end before it begins and that `after_sequence` excludes `order=desc` are relations between values, which JSON
  Schema cannot say; and on the creation: 60.0 is an "integer" to JSON Schema, and EXPIRES_IN_INVALID to us; and on
  due dates, which must be to come. Acceptance value by value is shown in test_openapi.py instead. On every other
  operation the check stands as it is.
  A whole number written as 3.0 is the same matter on the sandbox's `times`. How far the sandbox's clock goes depends on
  what it shows.
* Half of the account ids and charge ids are real ones: with random ids everything would end at 404.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.system import ROOT, System

_CONFIG = """
[dictionaries]
accounts = {{ values = ["{account_id}"] }}

[parameters]
account_id = {{ dictionary = "accounts", probability = 0.5 }}
"body.account_id" = {{ dictionary = "accounts", probability = 0.5 }}
"""
_RELATED = """
[[operations]]
include-name = "{name}"
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404", "409", "429", "502"]
"""
_WITH_RELATIONS = (
    "GET /v1/charges",
    "GET /v1/charges/summary",
    "GET /v1/payments",
    "GET /v1/events",
    "GET /v1/refunds",
    "GET /v1/charges/{charge_id}/refunds",
    "GET /v1/webhook-deliveries",
    "POST /v1/events/redeliver",
    "GET /v1/accounts/{account_id}/ledger",
    "POST /v1/charges/pix",
    "POST /v1/charges/boleto",
    "POST /v1/charges/dual",
    "PATCH /v1/charges/due-date",
    "POST /v1/sandbox/charges/{charge_id}/pay",
    "POST /v1/sandbox/clock",
)
_MOST_S = 60


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["test"])
def test_schemathesis_finds_nothing(system: System, tmp_path: Path, mode: str) -> None:
    merchant = system.create_merchant()
    answer = httpx.post(
        f"{system.base_url}/v1/oauth/token",
        data={"grant_type": "client_credentials"},
        auth=(merchant[mode]["client_id"], merchant[mode]["client_secret"]),
    )
    config = _CONFIG.format(account_id=merchant["account_id"])
    config += "".join(_RELATED.format(name=name) for name in _WITH_RELATIONS)
    (tmp_path / "schemathesis.toml").write_text(config, encoding="utf-8")
    began = time.monotonic()
    run = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "--config-file", str(tmp_path / "schemathesis.toml"), "run",
            f"{system.base_url}/v1/openapi.json",
            "--header", f"Authorization: Bearer {answer.json()['access_token']}",
            "--checks", "all", "--max-examples", "10", "--max-time", str(_MOST_S - 20), "--generation-deterministic",
            "--suppress-health-check", "all", "--request-timeout", "15", "--no-color", "--warnings", "off",
        ],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert "Tested: " in run.stdout
    assert time.monotonic() - began < _MOST_S
    assert httpx.get(f"{system.base_url}/healthz").status_code == 200
