"""schemathesis sends requests made from the OpenAPI document and looks for answers that contradict it: it finds none.

The first test runs all checks and phases against the running system. What is configured, and why:

* A 400 for a request that is valid by the schema is accepted where JSON Schema cannot state the rule. On the lists: a
  cursor belongs to its filters, a range must not end before it begins, and `after_sequence` excludes `order=desc`. On
  creation: 60.0 is an "integer" to JSON Schema, and EXPIRES_IN_INVALID to us; likewise 3.0 as the sandbox's `times`.
  Due dates must lie in the future. How far the sandbox's clock can be moved depends on the time it shows.
  test_openapi.py shows acceptance value by value instead. On every other operation the check applies unchanged.
* A 502 is an expected answer of operations with the header `X-Sandbox-Bank`: `unavailable` and `refuse` request it.
  A charge to cancel is named by exactly one of two fields, and what can be refunded depends on the charge.
* Half of the ids of accounts and charges are real ones: with random ids everything would end at 404.

In that run hundreds of inferred links use up the time of the stateful phase, and none of the document's own links is
followed. Separate runs follow those: each takes an operation that creates something and the operations on it, and the
test counts that each was called with an id created in that run. Dates, documents, amounts and other fields that depend
on each other are given: JSON Schema cannot state what they must be, and random ones create nothing.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.system import ROOT, System

_CONFIG = """
[dictionaries]
accounts = {{ values = ["{account_id}"] }}
charges = {{ values = {charge_ids} }}

[parameters]
account_id = {{ dictionary = "accounts", probability = 0.5 }}
"body.account_id" = {{ dictionary = "accounts", probability = 0.5 }}
charge_id = {{ dictionary = "charges", probability = 0.5 }}
"body.charge_id" = {{ dictionary = "charges", probability = 0.5 }}
"""
_OF_BANKS = 'checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "502"]'
_RELATED = (
    'checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "401", "403", "404", "409", "429", "502"]'
)
_REFUNDABLE = (
    'checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "502"]'
)
_REFUNDS = ("POST /v1/charges/{charge_id}/refunds",)
_WITH_RELATIONS = (
    "GET /v1/charges",
    "GET /v1/charges/summary",
    "GET /v1/payments",
    "GET /v1/events",
    "GET /v1/refunds",
    "GET /v1/charges/{charge_id}/refunds",
    "GET /v1/webhook-deliveries",
    "GET /v1/requests",
    "POST /v1/events/redeliver",
    "GET /v1/accounts/{account_id}/ledger",
    "POST /v1/charges/pix",
    "POST /v1/charges/boleto",
    "POST /v1/charges/dual",
    "POST /v1/charges/cancel",
    "POST /v1/charge-schedules",
    "GET /v1/charge-schedules",
    "GET /v1/charge-schedules/{schedule_id}/charges",
    "PATCH /v1/charges/due-date",
    "POST /v1/sandbox/charges/{charge_id}/pay",
    "POST /v1/sandbox/clock",
)
_S_MAX = 120 if os.environ.get("FAULT") == "full" else 15


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["test"])
def test_schemathesis_finds_no_answer_that_contradicts_the_openapi_document(
    system: System, tmp_path: Path, mode: str
) -> None:
    merchant = system.create_merchant()
    asked = ("--generation-deterministic", "--max-examples", "10", "--max-time", str(_S_MAX))
    config = _CONFIG.replace("{charge_ids}", json.dumps(_create_charges(system, merchant, mode)))
    said = _schemathesis(system, merchant, mode, tmp_path, config, *asked)
    assert "Tested: " in said


_CONFIG_FOR_LINKS = """
[phases.stateful.inference]
algorithms = []

[dictionaries]
accounts = {{ values = ["{account_id}"] }}
days = {{ values = ["{day}"] }}
ends = {{ values = ["2999-12-31"] }}
amounts = {{ values = ["10.00", "1.23"] }}
numbers = {{ values = [2, 30] }}
methods = {{ values = ["pix"] }}
names = {{ values = ["Maria da Silva"] }}
documents = {{ values = ["52998224725"] }}

[parameters]
"body.account_id" = {{ dictionary = "accounts", probability = 1.0 }}
"body.dataVencimento" = {{ dictionary = "days", probability = 1.0 }}
"body.first_due_date" = {{ dictionary = "days", probability = 1.0 }}
"body.end_date" = {{ dictionary = "ends", probability = 1.0 }}
"body.payer.name" = {{ dictionary = "names", probability = 1.0 }}
"body.payer.document" = {{ dictionary = "documents", probability = 1.0 }}
"body.amount" = {{ dictionary = "amounts", probability = 1.0 }}
"body.max_charges" = {{ dictionary = "numbers", probability = 1.0 }}
"body.issue_days_before" = {{ dictionary = "numbers", probability = 1.0 }}
"body.payment_method" = {{ dictionary = "methods", probability = 1.0 }}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "made", "followed"),
    [
        ("test", "createPixCharge", ("getCharge", "cancelCharge", "simulatePayment")),
        pytest.param("production", "createPixCharge", ("getCharge", "cancelCharge"), marks=pytest.mark.heavy),
        (
            "production",
            "createSchedule",
            ("getSchedule", "pauseSchedule", "cancelSchedule", "listChargesOfSchedule"),
        ),
    ],
)
def test_links_of_the_document_lead_to_the_created_charge_or_schedule(
    system: System, tmp_path: Path, mode: str, made: str, followed: tuple[str, ...]
) -> None:
    merchant = system.create_merchant()
    har, document = tmp_path / "exchanges.har", httpx.get(f"{system.base_url}/v1/openapi.json", timeout=30).json()
    reached: Counter[str] = Counter()
    # A run always uses all of its time, however far it gets: on a busy machine runs with further seeds go on.
    for seed in range(1, 20):
        _schemathesis(
            system, merchant, mode, tmp_path, _CONFIG_FOR_LINKS,
            "--phases", "stateful", "--mode", "positive", "--max-examples", "25", "--max-time", "8",
            "--seed", str(seed), "--report-har-path", str(har),
            *(part for name in (made, *followed) for part in ("--include-operation-id", name)),
        )  # fmt: skip
        reached += _reached(har, document, followed)
        if set(reached) == set(followed):
            break
    assert set(reached) == set(followed), reached


def _create_charges(system: System, merchant: dict[str, Any], mode: str) -> list[str]:
    """Create PIX charges: eight that are pending, and two that are paid."""
    with httpx.Client(base_url=system.base_url, headers=_authorization(system, merchant, mode), timeout=30) as client:
        made = []
        for number in range(10):
            body = {"account_id": merchant["account_id"], "amount": "10.00"}
            answer = client.post("/v1/charges/pix", json=body, headers={"Idempotency-Key": f"given-{number}"})
            made.append(answer.json()["charge_id"])
        for charge_id in made[:2]:
            assert client.post(f"/v1/charges/{charge_id}/simulate-payment").status_code == 200
    return made


def _authorization(system: System, merchant: dict[str, Any], mode: str) -> dict[str, str]:
    answer = httpx.post(
        f"{system.base_url}/v1/oauth/token",
        data={"grant_type": "client_credentials"},
        auth=(merchant[mode]["client_id"], merchant[mode]["client_secret"]),
        timeout=30,
    )
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


def _reached(har: Path, document: dict[str, Any], followed: tuple[str, ...]) -> Counter[str]:
    """How often each operation succeeded with an id that was created in this run."""
    places = {
        operation["operationId"]: (method.upper(), re.compile(re.sub(r"{\w+}", "([0-9a-f-]{36})", path)))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    created: set[str] = set()
    reached: Counter[str] = Counter()
    for each in json.loads(har.read_text(encoding="utf-8"))["log"]["entries"]:
        path, status = urlsplit(each["request"]["url"]).path, each["response"]["status"]
        if (each["request"]["method"], status) == ("POST", 201):
            body = json.loads(each["response"]["content"]["text"])
            created |= {value for name, value in body.items() if name in ("charge_id", "schedule_id")}
        for name in followed:
            method, place = places[name]
            found = place.fullmatch(path)
            if each["request"]["method"] == method and found and found[1] in created and status < 300:
                reached[name] += 1
    return reached


def _schemathesis(system: System, merchant: dict[str, Any], mode: str, folder: Path, config: str, *options: str) -> str:
    """Run schemathesis with all checks and return its output. It must find nothing."""
    authorization = _authorization(system, merchant, mode)["Authorization"]
    day = (datetime.now(UTC) + timedelta(days=20)).date().isoformat()
    config = config.format(account_id=merchant["account_id"], day=day)
    of_banks = _operations_of_banks(httpx.get(f"{system.base_url}/v1/openapi.json", timeout=30).json())
    rules_of = ((_OF_BANKS, of_banks), (_RELATED, _WITH_RELATIONS), (_REFUNDABLE, _REFUNDS))
    for name in sorted(of_banks.union(_WITH_RELATIONS, _REFUNDS)):
        rules = [rule for rule, names in rules_of if name in names]
        config += "\n".join(("", "[[operations]]", f'include-name = "{name}"', *rules, ""))
    (folder / "schemathesis.toml").write_text(config, encoding="utf-8")
    run = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "--config-file", str(folder / "schemathesis.toml"), "run",
            f"{system.base_url}/v1/openapi.json",
            "--header", f"Authorization: {authorization}",
            "--checks", "all", "--suppress-health-check", "all",
            "--request-timeout", "15", "--no-color", "--warnings", "off", *options,
        ],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=400,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert httpx.get(f"{system.base_url}/healthz", timeout=30).status_code == 200
    return run.stdout


def _operations_of_banks(document: dict[str, Any]) -> set[str]:
    """The operations that take the header `X-Sandbox-Bank`."""
    found = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "X-Sandbox-Bank" in {each.get("name") for each in operation.get("parameters", [])}
    }
    assert len(found) > 5
    return found
