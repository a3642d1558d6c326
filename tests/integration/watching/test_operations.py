"""Dashboard, alert rules and objectives use metrics that a running system has, and every alert has its section in the
runbook, with commands that exist."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml
from prometheus_client import REGISTRY, Gauge

from cli.run.child import CannotRun
from runtime.local.count_files import _KINDS
from runtime.metrics import exposition
from tests.support.receiving import receiving
from tests.support.system import ROOT, System, until

OPERATIONS = ROOT / "docs" / "operations"
# Metrics that Prometheus itself makes.
PROMETHEUS_OWN = {"up"}
# No rule of ours uses it; docs/production.md lists it among the metrics to raise an alarm on.
IN_PRODUCTION = {"money_suspended_total"}
# Shown only when something is wrong, or with a certificate, neither of which is so here: their registration is tested.
IN_TROUBLE = {"quita_pool_wait_seconds_total", "redis_skipped_total", "quita_bank_certificate_ends_timestamp_seconds"}
_WORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "bool"}


def rules() -> list[dict[str, Any]]:
    found = yaml.safe_load((OPERATIONS / "alerts.yaml").read_text(encoding="utf-8"))
    return [rule for group in found["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def panel_queries() -> list[str]:
    dashboard = json.loads((OPERATIONS / "grafana.json").read_text(encoding="utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def objective_queries() -> list[str]:
    return re.findall(r"```promql\n(.*?)```", (OPERATIONS / "slo.md").read_text(encoding="utf-8"), re.S)


def queries() -> list[str]:
    return [*(rule["expr"] for rule in rules()), *panel_queries(), *objective_queries()]


def names_in(query: str) -> set[str]:
    """The metrics that a query names: its words that are no functions, keywords or labels."""
    bare = re.sub(r'"[^"]*"', "", query)
    bare = re.sub(r"\{[^}]*\}", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"\[[^\]]*\]|\boffset \w+", "", bare)
    return {
        found[1]
        for found in re.finditer(r"([a-zA-Z_:][\w:]*)\s*(\()?", bare)
        if not found[2] and found[1] not in _WORDS
    }


def used_metrics() -> set[str]:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    return {name for query in queries() for name in names_in(query)} - recorded - PROMETHEUS_OWN


@pytest.fixture
def receiver() -> Iterator[str]:
    with receiving() as url:
        yield url


def _charge(system: System, merchant: dict[str, Any], mode: str) -> None:
    """Create a charge in this mode and, in test mode, pay it."""
    token = httpx.post(
        f"{system.base_url}/v1/oauth/token",
        data={"grant_type": "client_credentials", **merchant[mode]},
        timeout=30,
    ).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": str(uuid4())}
    body = {"account_id": merchant["account_id"], "amount": "7.30"}
    charge = httpx.post(f"{system.base_url}/v1/charges/pix", json=body, headers=headers, timeout=60)
    assert charge.status_code == 201, charge.text
    if mode == "test":
        path = f"/v1/charges/{charge.json()['charge_id']}/simulate-payment"
        assert httpx.post(system.base_url + path, headers=headers, timeout=30).status_code == 200


def test_every_metric_in_use_is_served_by_a_running_system(system: System, receiver: str) -> None:
    merchant = system.create_merchant()
    system.json("webhook", "set", merchant["account_id"], receiver)
    for mode in ("test", "production"):
        _charge(system, merchant, mode)
    system.json("readmodels", "verify")
    url = system.status()["metrics_url"]

    def missing() -> set[str]:
        said = httpx.get(url, timeout=30).text
        return (used_metrics() | IN_PRODUCTION) - IN_TROUBLE - set(re.findall(r"^([a-zA-Z_:][\w:]*)", said, re.M))

    until(lambda: not missing(), within_s=90, what=f"these metrics: {missing()}")


def test_every_metric_that_is_shown_only_in_trouble_is_registered() -> None:
    import api.app
    import workers.duties

    assert api.app, workers.duties
    registered = set(re.findall(r"^# TYPE (\S+) ", exposition().decode(), re.M))
    assert registered >= IN_TROUBLE
    assert used_metrics() >= IN_TROUBLE


def test_every_gauge_is_removed_with_its_process() -> None:
    """A gauge of another kind would show an ended worker's last value for ever, and leave a file for each worker."""
    import api.app
    import workers.duties

    assert api.app, workers.duties
    gauges = {each for each in REGISTRY._names_to_collectors.values() if isinstance(each, Gauge)}
    assert len(gauges) > 8
    assert {each._name for each in gauges if not each._multiprocess_mode.startswith("live")} == set()
    # A kind whose file has no reserved space would end each process with SIGBUS on a full disk.
    assert {f"gauge_{each._multiprocess_mode}" for each in gauges} <= set(_KINDS)


def test_every_label_used_in_a_query_exists_on_its_metric(system: System) -> None:
    said = httpx.get(system.status()["metrics_url"], timeout=30).text
    there: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^([a-zA-Z_:][\w:]*)\{([^}]*)\}", said, re.M):
        there.setdefault(name, set()).update(re.findall(r"(\w+)=", labels))
    for query in queries():
        for name, matchers in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", query):
            if name in there:
                assert set(re.findall(r"(\w+)=~?\"", matchers)) <= there[name], (name, matchers)


def test_every_queue_has_an_alert_rule(system: System) -> None:
    said = httpx.get(system.status()["metrics_url"], timeout=30).text
    queues = set(re.findall(r'^quita_queue_oldest_seconds\{.*queue="(\w+)"', said, re.M))
    assert len(queues) > 10
    looked_at = [
        each for rule in alerts() for each in re.findall(r'quita_queue_oldest_seconds\{queue=~?"([^"]+)"', rule["expr"])
    ]
    alone = {queue for queue in queues if not any(re.fullmatch(each, queue) for each in looked_at)}
    # Deliveries of failing receivers are the merchants' to solve; suspense has a rule of its own, by its amount.
    assert alone == {"webhooks_of_failing_receivers", "suspense"}


def test_every_alert_has_its_section_in_the_runbook_and_every_section_its_alert() -> None:
    text = (OPERATIONS / "runbook.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    assert sections.keys() == {rule["alert"] for rule in alerts()}
    for name, section in sections.items():
        assert all(f"**{part}.**" in section for part in ("Means", "Look at", "Do")), name
    for rule in alerts():
        assert rule["annotations"]["runbook"] == f"runbook.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_every_command_of_the_runbook_is_accepted_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from cli.main import main

    def understood(_: object) -> None:
        raise CannotRun("the command was understood, and that is all this test needs")

    monkeypatch.setattr("cli.main.choose.enter", understood)
    text = (OPERATIONS / "runbook.md").read_text(encoding="utf-8")
    commands = set(re.findall(r"`quita ([^`]+)`", text))
    assert len(commands) > 5
    for command in commands:
        assert main(shlex.split(command.replace("ACCOUNT_ID", str(uuid4())))) == 1, command


def test_every_log_event_named_in_the_runbook_is_logged_by_the_code() -> None:
    text = (OPERATIONS / "runbook.md").read_text(encoding="utf-8")
    code = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("workers", "api", "cli")
        for path in (ROOT / folder).rglob("*.py")
    )
    events = set(re.findall(r"`((?:duty|reconciler|bank|mail|money|sent|location|nightly)_[a-z_]+)`", text))
    queues_and_metrics = used_metrics() | set(re.findall(r"bank_orders_\w*|bank_hints|mail_writing", text))
    named = events - queues_and_metrics
    assert len(named) > 8
    assert {event for event in named if f'"{event}"' not in code} == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (of Debian's prometheus) is not there")
def test_promtool_accepts_every_rule_and_every_query(tmp_path: Path) -> None:
    file = tmp_path / "queries.yaml"
    asked = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate([*panel_queries(), *objective_queries()])
    ]
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": asked}]}))
    for rules_file in (OPERATIONS / "alerts.yaml", file):
        done = subprocess.run(
            ["promtool", "check", "rules", str(rules_file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
