"""Promises of the command line: what it prints, its exit codes, and that `listen` delivers what a webhook delivers."""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID, uuid4

import asyncpg
import pytest
from standardwebhooks.webhooks import Webhook

from cli.answer import answer
from commands.people.audit import SEEN_BY_THE_ACCOUNT
from domain.merchants.staff import PLATFORM
from domain.webhooks.signature import sign
from runtime import VERSION
from runtime.local.ports import free_port
from tests.support.boleto_merchant import PAGADOR, boleto_body, issue_boleto
from tests.support.merchant import new_merchant
from tests.support.system import ROOT, System, until

COMMANDS = (
    ("merchant", "list"), ("merchant", "show"), ("merchant", "reset"), ("webhook", "list"),
    ("webhook", "rotate"), ("webhook", "test"),
    ("merchant", "access"), ("staff", "create"), ("staff", "access"), ("staff", "reset"),
    ("staff", "role"), ("staff", "list"), ("staff", "remove"),
    ("up",), ("serve",), ("status",), ("doctor",), ("migrate",), ("merchant", "create"), ("merchant", "approve"),
    ("merchant", "address"), ("merchant", "rate"), ("merchant", "fees"), ("merchant", "pix-key"),
    ("webhook", "set"), ("pix", "suspend"),
    ("integrator", "create"), ("pix", "resume"), ("payer", "erase"), ("payer", "export"),
    ("bank", "pay"), ("bank", "fault"), ("listen",), ("readmodels", "verify"), ("readmodels", "rebuild"),
    ("integrator", "set"), ("integrator", "list"), ("report", "receipts"), ("report", "aging"),
    ("report", "conversion"), ("report", "expiry"), ("report", "refunds"), ("report", "integrators"),
    ("report", "webhooks"), ("report", "settlement"), ("report", "grant-role"),
)  # fmt: skip


class Received(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: bytes


class Receiver(ThreadingHTTPServer):
    """A merchant's program on a real socket; it answers `status` to every POST."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Post)
        self.status = 200
        self.received: list[Received] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hooks?of=mine"


class _Post(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append(Received(self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def merchant(system: System) -> dict[str, Any]:
    return system.create_merchant()


def _request(system: System, path: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
    request = urllib.request.Request(system.base_url + path, body, dict(headers))
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def _create_charge(
    system: System, merchant: dict[str, Any], path: str, body: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """Creates a charge in test mode; returns it, and the token."""
    form = urlencode({"grant_type": "client_credentials", **merchant["test"]}).encode()
    token = _request(system, "/v1/oauth/token", form, {})["access_token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": str(uuid4())}
    return _request(system, path, json.dumps(body).encode(), headers), token


def _pay_new_charge(system: System, merchant: dict[str, Any], **more: Any) -> str:
    """Creates and pays a charge in test mode; returns its id."""
    body = {"account_id": merchant["account_id"], "amount": "7.30", **more}
    charge, token = _create_charge(system, merchant, "/v1/charges/pix", body)
    charge_id: str = charge["charge_id"]
    _request(system, f"/v1/charges/{charge_id}/simulate-payment", b"", {"Authorization": f"Bearer {token}"})
    return charge_id


@contextmanager
def _listening(system: System, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Starts `quita listen ... --json`; no line of its output is read yet."""
    command = [sys.executable, "-m", "cli.main", "listen", *arguments, "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, env=system.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as listening:
        try:
            yield listening
        finally:
            listening.kill()


def test_status_reports_what_runs_also_without_quita_up(system: System, tmp_path: Path) -> None:
    """The environment is that of a container, as in docs/operations/kubernetes.md."""
    env = system.env | {
        "QUITA_HOME": str(tmp_path), "DATABASE_URL": system.database_url, "BASE_URL": system.base_url,
    }  # fmt: skip
    command = [sys.executable, "-m", "cli.main", "status", "--json"]

    def said(**more: str) -> tuple[int, dict[str, Any], str]:
        done = subprocess.run(command, cwd=ROOT, env=env | more, capture_output=True, text=True, check=False)
        return done.returncode, json.loads(done.stdout), done.stderr

    # The command gives the API two seconds; a worker writes its first heartbeat some seconds after the API is ready.
    code, there, error = until(lambda: found if (found := said())[0] == 0 else None, within_s=60)
    assert (code, there["ready"], there["working"], error) == (0, True, True, "")
    assert any(each["well"] for each in there["workers"])
    code, away, error = said(BASE_URL="http://127.0.0.1:1")
    assert (code, away["ready"], away["working"], "at http://127.0.0.1:1\n" in error) == (1, False, False, True)
    assert any(each["well"] for each in away["workers"])


def _next_line(listening: "subprocess.Popen[str]") -> Any:
    assert listening.stdout is not None
    line = listening.stdout.readline()
    assert line, listening.stderr and listening.stderr.read()
    return json.loads(line)


def _credential(merchant: dict[str, Any], mode: str = "test") -> tuple[str, str, str, str]:
    return "--client-id", merchant[mode]["client_id"], "--client-secret", merchant[mode]["client_secret"]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_and_offers_json(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    from cli.main import main

    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [(), ("no-such",), ("bank",), ("integrator", "create"), ("bank", "fault", "sideways")]
)
def test_a_usage_error_exits_with_2(words: tuple[str, ...]) -> None:
    from cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2


def test_a_created_merchant_is_printed_with_the_fields_of_dev_json(system: System, merchant: dict[str, Any]) -> None:
    assert merchant.keys() == system.merchants[0].keys()
    assert merchant["test"].keys() == {"client_id", "client_secret"}
    said = system.quita("merchant", "create", "--name", "Loja\x07")
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith("quita: VALIDATION_ERROR: name: ")


_REAL = (
    "merchant", "create", "--name", "Padaria Aurora Ltda", "--document", "11.444.777/0001-61",
    "--payout-key", "financeiro@aurora.example",
    "--address", "Rua das Flores", "10", "Centro", "Olinda", "PE", "53010000",
)  # fmt: skip


def test_a_real_merchant_waits_for_approval_and_no_secret_is_printed(system: System) -> None:
    email = f"dona.{uuid4().hex[:8]}@example.com"
    made = system.json(*_REAL, "--email", email.upper())
    assert made.keys() == {"name", "account_id", "kyc", "email", "integrador_code"}
    assert (made["kyc"], made["email"]) == ("pending", email)
    again = system.quita(*_REAL, "--email", email)
    assert (again.returncode, "email" in again.stderr) == (1, True)
    sent = system.json("merchant", "access", made["account_id"], email)
    assert sent == {"account_id": made["account_id"], "email": email, "mailed": True}
    nobody = system.quita("merchant", "access", made["account_id"], "nobody@example.com")
    assert (nobody.returncode, "nobody's of this account" in nobody.stderr) == (1, True)


def test_the_operators_changes_to_a_merchant_are_in_the_audit_log(system: System) -> None:
    own = system.create_merchant()["account_id"]
    system.json("merchant", "block", own, "--reason", "chargebacks")
    system.json("merchant", "approve", own)
    system.json("merchant", "rate", own, "--per-second", "50")
    system.json(
        "merchant", "address", own, "--street", "Rua das Flores", "--number", "10", "--district", "Centro",
        "--city", "Olinda", "--state", "PE", "--zip-code", "53010000",
    )  # fmt: skip
    assert "keep" in system.json("merchant", "auto-withdraw", own, "--on", "--keep", "1.00")
    assert "keep" not in system.json("merchant", "auto-withdraw", own, "--off")
    assert asyncio.run(security_mails(system, own)) == 1  # to the one owner, of the switch to on
    daily = [("withdrawal.daily_set", {"keep": "1.00"}), ("withdrawal.daily_ended", {})]
    limits = ("merchant.rate_changed", {"per_second": 50, "burst": "padrão"})
    assert asyncio.run(operator_log(system, own, log=own, by=SEEN_BY_THE_ACCOUNT)) == [limits, *daily]
    assert asyncio.run(operator_log(system, own)) == [
        ("merchant.blocked", {"reason": "chargebacks"}),
        ("merchant.approved", {}),
        limits,
        ("merchant.address_changed", {}),
        *daily,
    ]


def test_the_operators_changes_to_the_platform_are_in_the_audit_log(system: System) -> None:
    registered = system.json(*_REAL, "--email", f"dona.{uuid4().hex[:8]}@example.com")
    facts = {"name": "Padaria Aurora Ltda", "cnpj": "11444777000161"}
    assert asyncio.run(operator_log(system, registered["account_id"])) == [("merchant.registered", facts)]
    name = f"Parceiro {uuid4()}"
    code = system.json("integrator", "create", name, "--share", "2")["integrador_code"]
    system.json("integrator", "set", code, "--share", "1.5", "--inactive")
    assert asyncio.run(operator_log(system, name)) == [("integrator.created", {"share": "2.00"})]
    assert asyncio.run(operator_log(system, code)) == [("integrator.changed", {"share": "1.50", "active": "não"})]
    system.json("pix", "suspend")
    system.json("pix", "resume")
    *_, suspended, resumed = asyncio.run(operator_log(system, str(PLATFORM)))
    assert (suspended, resumed) == (("pix.suspended", {}), ("pix.resumed", {}))


@pytest.mark.parametrize(
    "command",
    [
        ("merchant", "fees", "{id}"),
        ("payer", "export", "--account", "{id}", "--document", "529.982.247-25"),
        ("payer", "erase", "--account", "{id}", "--document", "529.982.247-25", "--yes"),
        ("readmodels", "verify", "--account", "{id}"),
        ("readmodels", "verify", "--account", "{id}", "--cell", "all"),
    ],
)
def test_commands_about_an_unknown_account_are_refused_instead_of_answered_as_empty(
    system: System, command: tuple[str, ...]
) -> None:
    """Otherwise a mistyped id would be answered that no data is held, and that the books are clean."""
    done = system.quita(*(each.format(id=uuid4()) for each in command))
    assert (done.returncode, done.stdout) == (1, "")
    assert "WALLET_ACCOUNT_NOT_FOUND" in done.stderr


def test_a_merchants_fees_can_be_shown_agreed_and_reset(system: System) -> None:
    own = system.create_merchant()
    account_id = own["account_id"]
    assert system.json("merchant", "fees", account_id)["fees"] == "default"
    agreed = system.json(
        "merchant", "fees", account_id, "--pix-percent", "0.99", "--pix", "0.10", "--pix-max", "5.00",
        "--boleto", "1.99", "--reason", "contract 12",
    )  # fmt: skip
    assert agreed == system.json("merchant", "fees", account_id)
    assert agreed["fees"] == {
        "pix_percent": "0.99", "pix": "0.10", "pix_min": "0.00", "pix_max": "5.00", "boleto": "1.99",
        "withdrawal": "0.00",
    }  # fmt: skip
    _pay_new_charge(system, own)
    form = urlencode({"grant_type": "client_credentials", **own["test"]}).encode()
    with urllib.request.urlopen(f"{system.base_url}/v1/oauth/token", data=form) as said:
        token = json.load(said)["access_token"]
    asked = urllib.request.Request(f"{system.base_url}/v1/payments", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked) as said:
        (payment,) = json.load(said)["data"]
    assert (payment["amount"], payment["fee"], payment["net_amount"]) == ("7.30", "0.17", "7.13")
    assert system.json("merchant", "fees", account_id, "--default", "--reason", "ended")["fees"] == "default"
    for wrong in (
        ("--boleto", "1.00"),
        ("--default",),
        ("--default", "--boleto", "1.00", "--reason", "x"),
        ("--pix-percent", "20.01", "--reason", "x"),
        ("--pix-min", "2.00", "--pix-max", "1.00", "--reason", "x"),
    ):
        assert system.quita("merchant", "fees", account_id, *wrong).returncode == 1, wrong


async def operator_log(
    system: System, subject: str, *, log: UUID | str = PLATFORM, by: str = "quita ("
) -> list[tuple[str, dict[str, Any]]]:
    """Returns what the operator did to `subject`, from the platform's audit log or the account's own."""
    conn = await asyncpg.connect(system.database_url)
    rows = await conn.fetch(
        "SELECT action, facts, email FROM audit WHERE subject = $1 AND account_id = $2 ORDER BY at, audit_id",
        subject, log,
    )  # fmt: skip
    await conn.close()
    assert all(row["email"].startswith(by) for row in rows)
    return [(row["action"], json.loads(row["facts"])) for row in rows]


async def change_payout_key(system: System, account_id: str, pix_key: str) -> None:
    conn = await asyncpg.connect(system.database_url)
    await conn.execute(
        "INSERT INTO payout_change (change_id, account_id, pix_key, document, asked_by, by_staff, asked_at,"
        " effective_at) VALUES (gen_random_uuid(), $1, $2, '12345678000195', 'owner', false, now(), now())",
        account_id, pix_key,
    )  # fmt: skip
    await conn.close()


async def security_mails(system: System, account_id: str) -> int:
    conn = await asyncpg.connect(system.database_url)
    count: int = await conn.fetchval(
        "SELECT count(*) FROM mail WHERE account_id = $1 AND kind = 'security'", account_id
    )
    await conn.close()
    return count


def test_merchants_and_staff_are_listed_and_shown_without_a_secret(system: System, merchant: dict[str, Any]) -> None:
    account_id = merchant["account_id"]
    person = merchant["dashboard"]["email"]
    for asked in (account_id, person, merchant["name"][:12]):
        found = system.json("merchant", "list", asked)
        assert account_id in [each["account_id"] for each in found], asked
    newest = system.json("merchant", "list", "--limit", "2")
    assert len(newest) == 2
    assert newest[0]["created_at"] >= newest[1]["created_at"]
    assert {each["kyc"] for each in system.json("merchant", "list", "--kyc", "pending")} == {"pending"}
    assert system.json("merchant", "list", "nobody@example.com") == []
    lines = system.quita("merchant", "list", account_id).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[account_id, "approved"]]
    shown = system.json("merchant", "show", account_id)
    assert (shown["name"], shown["kyc"], shown["balance"]) == (merchant["name"], "approved", "0.00")
    assert person in [each["email"] for each in shown["people"]]
    assert ("*" in shown["pix_key"], shown["receiving_key"]) == (True, None)
    asyncio.run(change_payout_key(system, account_id, "outra@loja.example.com"))
    assert system.json("merchant", "show", account_id)["pix_key"] == "o***@loja.example.com"
    system.json("merchant", "pix-key", account_id, "cobranca@loja.example.com")
    assert system.json("merchant", "show", account_id)["receiving_key"] == "c***@loja.example.com"
    nobody = system.quita("merchant", "show", str(uuid4()))
    assert (nobody.returncode, nobody.stderr.startswith("quita: WALLET_ACCOUNT_NOT_FOUND")) == (1, True)
    staff = system.json("staff", "list")
    assert system.dev["staff"]["email"] in [each["email"] for each in staff]
    assert system.dev["staff"]["email"] in system.quita("staff", "list").stdout


def test_a_reset_clears_the_second_factor_and_logs_the_reason(system: System) -> None:
    own = system.create_merchant()
    account_id, person = own["account_id"], own["dashboard"]["email"]
    without = system.quita("merchant", "reset", account_id, person)
    assert without.returncode == 2
    done = system.json("merchant", "reset", account_id, person, "--reason", "called from the number we have")
    assert done == {"account_id": account_id, "email": person, "mailed": True}
    wanted = ("person.factor_cleared", {"person": person, "reason": "called from the number we have"})
    assert wanted in asyncio.run(operator_log(system, account_id))


def test_an_endpoint_can_be_listed_rotated_and_tested(system: System, receiver: Receiver) -> None:
    account_id = system.create_merchant()["account_id"]
    first = system.json("webhook", "set", account_id, receiver.url)
    tried = system.json("webhook", "test", account_id)
    until(lambda: bool(receiver.received), within_s=30)
    assert json.loads(receiver.received[0].body)["charge_id"] == tried["charge_id"]
    rotated = system.json("webhook", "rotate", account_id)
    assert (rotated["endpoint_id"], rotated["secret"] != first["secret"]) == (first["endpoint_id"], True)
    shown = system.json("webhook", "list", account_id)
    assert (shown["url"], len(shown["old_secrets_until"])) == (receiver.url, 1)
    assert {lane["mode"]: lane["state"] for lane in shown["lanes"]} == {"production": "open", "test": "open"}
    assert first["secret"] not in json.dumps(shown)
    moved = system.json("webhook", "set", account_id, f"{receiver.url}?token=private", "--rotate")
    assert moved["secret"] not in (first["secret"], rotated["secret"])
    host = {"host": "http://127.0.0.1"}  # Path and query are not logged: they may hold a secret.
    assert asyncio.run(operator_log(system, account_id)) == [
        ("webhook.registered", host), ("webhook.tried", {}), ("webhook.rotated", {}),
        ("webhook.moved", host), ("webhook.rotated", {}),
    ]  # fmt: skip
    assert asyncio.run(security_mails(system, account_id)) == 4  # to the one owner, of all but the test
    other = system.json("merchant", "create", "--name", "Sem Webhook")["account_id"]
    for verb in ("list", "rotate", "test"):
        assert system.quita("webhook", verb, other).returncode == 1, verb


@pytest.mark.parametrize("limit", ["0", "-5", "1_0", "x"])
def test_a_limit_that_is_no_positive_integer_is_a_usage_error(system: System, limit: str) -> None:
    done = system.quita("merchant", "list", "--limit", limit)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--limit" in done.stderr


def test_the_version_is_printed(system: System) -> None:
    assert system.quita("--version").stdout == f"quita {VERSION}\n"


def test_the_heads_of_both_chains_are_shown_and_can_be_checked(system: System) -> None:
    """Rows are sealed within seconds. The operator keeps the heads on another machine and checks them later."""
    own = system.create_merchant()
    _pay_new_charge(system, own)
    system.json("merchant", "block", own["account_id"], "--reason", "chargebacks")

    def heads_of_both_chains() -> Any:
        done = system.quita("readmodels", "head", "--json")
        shown = json.loads(done.stdout) if done.returncode == 0 else {}
        return shown if shown.get("last_id") and shown.get("audit") else None

    shown = until(heads_of_both_chains, what="the seals of both chains")
    for named, seal in (("", shown), ("audit:", shown["audit"])):
        kept = f"{named}{seal['last_id']}:{seal['digest']}"
        assert system.json("readmodels", "head", "--check", kept)["same"] is True
        done = system.quita("readmodels", "head", "--check", f"{named}{seal['last_id']}:{'0' * 64}", "--json")
        assert (done.returncode, json.loads(done.stdout)["same"]) == (1, False)
    for wrong in ("7", "books:7:00", "audit:x:00", "audit:journal:7:00", ":7:00"):
        done = system.quita("readmodels", "head", "--check", wrong)
        assert done.returncode == 1
        assert "audit:ID:DIGEST" in done.stderr


def test_a_new_address_keeps_the_secret_unless_rotation_is_requested(
    system: System, merchant: dict[str, Any], receiver: Receiver
) -> None:
    own = system.create_merchant()["account_id"]
    first = system.json("webhook", "set", own, receiver.url)
    assert first.keys() == {"endpoint_id", "secret"}
    assert system.json("webhook", "set", own, receiver.url + "&again=1") == first
    renewed = system.json("webhook", "set", own, receiver.url, "--rotate")
    assert (renewed["endpoint_id"], renewed["secret"] == first["secret"]) == (first["endpoint_id"], False)


def test_local_work_invents_missing_data_of_a_demo_merchant(system: System) -> None:
    email = f"dona.{uuid4().hex[:8]}@example.com"
    made = system.json("merchant", "create", "--demo", "--name", "Loja", "--email", email)
    assert made.keys() == system.merchants[0].keys()
    assert made["dashboard"]["email"] == email


def test_production_invents_nothing_and_prints_no_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cli.main import main

    monkeypatch.setenv("QUITA_ENV", "production")
    for words, said in (
        (("--name", "Loja"), "--document, --email, --payout-key, --address"),
        (("--name", "Loja", "--demo"), "--demo is for local work"),
        ((*_REAL[2:], "--email", "a@example.com", "--demo"), "--demo is for local work"),
        ((*_REAL[2:], "--email", "a@example.com", "--kyc", "approved"), "--kyc is for local work"),
        ((*_REAL[2:], "--email", "a@example.com", "--no-address"), "--no-address is for local work"),
    ):
        assert main(["merchant", "create", *words]) == 1
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("WEBHOOK_NAMESERVERS", "10.0.0.2;10.0.0.3", ("webhook", "set", str(uuid4()), "https://loja.example.com/")),
        ("WEBHOOK_ALLOW_PRIVATE", "true", ("webhook", "set", str(uuid4()), "https://loja.example.com/")),
        ("CNPJ_WITH_LETTERS", "yes", (*_REAL, "--email", "a@example.com")),
    ],
)
def test_a_command_refuses_a_malformed_variable_as_the_service_does(
    name: str,
    value: str,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from cli.main import main

    monkeypatch.setenv("QUITA_HOME", str(tmp_path))
    monkeypatch.setenv(name, value)
    assert main(list(words)) == 1
    assert capsys.readouterr().err.startswith(f"quita: {name} must be ")


def test_an_incomplete_registration_is_approved_in_local_work_only(system: System) -> None:
    """In local work `merchant create` makes accounts without an address, which can be used as they are."""
    own = system.create_merchant(address=False, kyc="pending")["account_id"]
    production = {**system.env, "QUITA_ENV": "production"}
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "merchant", "approve", own],
        cwd=ROOT, env=production, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "quita: VALIDATION_ERROR: address: the account's address is not complete\n"
    assert system.json("merchant", "approve", own)["kyc"] == "approved"


def test_every_integrator_gets_a_different_code_which_a_boleto_can_carry(
    system: System, merchant: dict[str, Any]
) -> None:
    alone = system.json("integrator", "create", "--name", "Parceiro Um")
    at_home = system.json("integrator", "create", "--name", "Parceiro Um", "--account-id", merchant["account_id"])
    for made in (alone, at_home):
        assert re.fullmatch(r"INTG-[A-Z0-9]{6}", made["integrador_code"])
    assert alone["integrador_code"] != at_home["integrador_code"]
    assert (alone["account_id"], at_home["account_id"]) == (None, merchant["account_id"])
    told = system.quita("integrator", "list").stdout
    assert all(made["integrador_code"] in told for made in (alone, at_home))
    assert merchant["account_id"] in told
    # Not the payer whose data another test exports.
    body = boleto_body(integrador_code=alone["integrador_code"], pagador=PAGADOR | {"documento": "11144477735"})
    charge, token = _create_charge(system, merchant, "/v1/charges/boleto", body)
    carrying = f"/v1/charges?integrador_code={alone['integrador_code']}"
    listed = _request(system, carrying, None, {"Authorization": f"Bearer {token}"})["data"]
    assert [each["charge_id"] for each in listed] == [charge["charge_id"]]


def test_a_report_with_closed_output_ends_silently(system: System) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m cli.main report receipts --csv >&-', sys.executable],
        cwd=ROOT, env=system.env, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_an_integrator_with_an_unknown_account_or_without_a_name_is_refused(system: System) -> None:
    said = system.quita("integrator", "create", "--name", "Parceiro", "--account-id", str(uuid4()))
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith("quita: WALLET_ACCOUNT_NOT_FOUND")
    assert system.quita("integrator", "create", "--name", " ").returncode == 1


def test_a_payer_is_exported_and_erased(system: System, merchant: dict[str, Any]) -> None:
    payer = {"name": "Quitéria Bragança", "document": "52998224725"}
    charge_id = _pay_new_charge(system, merchant, payer=payer)
    of = ("--account", merchant["account_id"], "--document", "529.982.247-25", "--test")
    held = system.json("payer", "export", *of)
    assert [(each["charge_id"], each["payer"]["name"]) for each in held["charges"]] == [(charge_id, payer["name"])]
    unsure = system.quita("payer", "erase", *of)
    assert (unsure.returncode, unsure.stdout) == (1, "")
    assert system.json("payer", "erase", *of, "--yes")["charges"] == 1
    assert system.json("payer", "export", *of)["charges"] == []
    odd = system.quita("payer", "export", "--account", merchant["account_id"], "--document", "1234")
    assert odd.returncode == 1
    assert "CPF of 11 digits" in odd.stderr


def test_listen_forwards_new_events_signed_like_a_webhook(
    system: System, merchant: dict[str, Any], receiver: Receiver
) -> None:
    _pay_new_charge(system, merchant)  # Paid before `listen` starts, so not forwarded.
    with _listening(system, receiver.url, *_credential(merchant), "--once", "2") as listening:
        secret = _next_line(listening)["secret"]
        charges = [_pay_new_charge(system, merchant, external_id=f"pedido-ã-{number}") for number in range(2)]
        shown = [_next_line(listening) for _ in charges]
        assert listening.wait(30) == 0
    assert [json.loads(each.body)["charge_id"] for each in receiver.received] == charges
    assert [(each["type"], each["status"]) for each in shown] == [("payment.received", 200)] * 2
    assert shown[1]["sequence"] == shown[0]["sequence"] + 1
    for each in receiver.received:
        assert each.path == "/hooks?of=mine"
        stamp = each.headers["X-Service-Timestamp"]
        assert each.headers["X-Service-Signature"] == "sha256=" + sign(secret, int(stamp), each.body)
        lower = {name.lower(): value for name, value in each.headers.items()}
        assert Webhook(secret).verify(each.body.decode(), lower)["event_id"] == each.headers["webhook-id"]


def test_listen_sends_the_bytes_the_registered_endpoint_gets(system: System, receiver: Receiver) -> None:
    own = system.create_merchant()
    system.json("webhook", "set", own["account_id"], receiver.url)
    with _listening(system, receiver.url, *_credential(own), "--once", "1") as listening:
        _next_line(listening)
        _pay_new_charge(system, own, external_id="pedido-ã")
        assert listening.wait(30) == 0
    until(lambda: len(receiver.received) == 2)
    assert receiver.received[0].body == receiver.received[1].body


def test_listen_shows_an_answer_other_than_2xx_and_exits_with_1(
    system: System, merchant: dict[str, Any], receiver: Receiver
) -> None:
    receiver.status = 302
    with _listening(system, receiver.url, *_credential(merchant), "--once", "1") as listening:
        _next_line(listening)
        _pay_new_charge(system, merchant)
        assert _next_line(listening)["status"] == 302
        assert listening.wait(30) == 1
    assert len(receiver.received) == 1


def test_listen_continues_when_nothing_listens_at_the_address(system: System, merchant: dict[str, Any]) -> None:
    with _listening(system, f"http://127.0.0.1:{free_port()}/", *_credential(merchant), "--once", "2") as listening:
        _next_line(listening)
        for _ in range(2):
            _pay_new_charge(system, merchant)
            shown = _next_line(listening)
            assert (shown["status"], bool(shown["error"])) == (None, True)
        assert listening.wait(30) == 1


def test_listen_finds_the_credential_of_a_demo_merchant(system: System, receiver: Receiver) -> None:
    second = system.merchants[1]
    with _listening(system, receiver.url, "--account-id", second["account_id"], "--once", "1") as listening:
        _next_line(listening)
        charge_id = _pay_new_charge(system, second)
        assert listening.wait(30) == 0
    assert json.loads(receiver.received[0].body)["charge_id"] == charge_id


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("ftp://127.0.0.1/",), "http"),
        (("http://127.0.0.1:9/", "--type", "payment.sent"), "payment.sent"),
        (("http://127.0.0.1:9/", "--once", "0"), "--once"),
        (("http://127.0.0.1:9/", "--secret", "hunter2"), "--secret"),
        (("http://127.0.0.1:9/", "--client-id", "x"), "--client-secret"),
        (("http://127.0.0.1:9/", "--client-id", "x", "--client-secret", "y"), "invalid_client"),
        (("http://127.0.0.1:9/", "--account-id", str(uuid4())), "dev.json"),
    ],
)  # fmt: skip
def test_listen_refuses_wrong_arguments_in_one_line(system: System, arguments: tuple[str, ...], word: str) -> None:
    said = system.quita("listen", *arguments)
    assert (said.returncode, said.stdout) == (1, "")
    assert word in said.stderr
    assert len(said.stderr.splitlines()) == 1


@pytest.mark.parametrize("bound", [("--until", "9999-12-31"), ("--since", "0001-01-01")])
def test_a_verification_of_days_at_an_end_of_the_calendar_is_refused(system: System, bound: tuple[str, str]) -> None:
    """A verification needs the day after the last one and the first id of a day, which do not exist there."""
    done = system.quita("readmodels", "verify", *bound)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "days from 2000-01-01 to 9900-12-31" in done.stderr


def test_a_command_of_the_owner_run_as_the_application_names_the_setting_it_needs(system: System) -> None:
    urls = json.loads((system.home / "run.json").read_bytes())
    application = {**system.env, "DATABASE_URL": urls["database_url"]}
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "recover", "begin", "--restored-to", "2026-11-01T00:00:00Z"],
        cwd=ROOT, env=application, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("; this needs the owner of the tables (DATABASE_OWNER_URL)\n")


@pytest.mark.parametrize(
    "words", [("migrate",), ("readmodels", "verify"), ("readmodels", "rebuild"), ("pix", "suspend")]
)
def test_an_unreachable_database_is_reported_without_its_password(words: tuple[str, ...], tmp_path: Path) -> None:
    system = System(tmp_path, env={"DATABASE_URL": f"postgresql://u:pssst@127.0.0.1:{free_port()}/x"})
    said = system.quita(*words)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith("quita: PostgreSQL cannot be reached")
    assert "pssst" not in said.stderr


def test_nested_records_are_printed_one_field_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    record = {"payments": [{"amount": "1.00", "end_to_end_id": None}, {"amount": "2.00"}], "kinds": ["a", "b"],
              "none": [], "paid_at": None}  # fmt: skip
    assert answer(argparse.Namespace(json=False), record) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["payments.1.amount: 1.00", "payments.2.amount: 2.00", "kinds: a, b", "none: "]
    assert answer(argparse.Namespace(json=True), record) == 0
    assert json.loads(capsys.readouterr().out) == record


def test_listen_refuses_an_invalid_address_and_shows_a_valid_one(tmp_path: Path) -> None:
    said = System(tmp_path).quita("listen", "nothttp").stderr
    assert (said.count("\n"), "http://127.0.0.1:9999/" in said) == (1, True)


async def test_a_paid_boleto_is_shown_without_an_empty_end_to_end_id(system: System) -> None:
    async with new_merchant(system) as merchant:
        shown = []
        for more in ((), ("--json",)):
            charge = await issue_boleto(merchant.production)
            words = ("bank", "pay", "--charge-id", charge["charge_id"], *more)
            shown.append(await asyncio.to_thread(system.quita, *words))
    people, programs = shown
    assert (people.returncode, programs.returncode) == (0, 0)
    lines = people.stdout.splitlines()
    assert "payments.1.rail: boleto" in lines
    assert not [line for line in lines if line.endswith((":", ": "))]
    (payment,) = json.loads(programs.stdout)["payments"]
    assert payment["end_to_end_id"] is None


def test_the_simulated_bank_can_be_made_to_fail_and_to_work_again(system: System) -> None:
    assert system.quita("bank", "pay", "--charge-id", str(uuid4())).returncode == 1
    for fault in ("down", "up"):
        assert system.quita("bank", "fault", fault).returncode == 0


def test_the_read_tables_of_a_running_system_are_clean(system: System) -> None:
    assert system.json("readmodels", "verify") == {"clean": True, "differences": []}
