"""quita-cli as a merchant's engineer uses it: downloaded from the documentation, without this repository."""

import hmac
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from domain.events import EventKind
from domain.webhooks.signature import secret_text
from runtime.local.ports import free_port
from tests.support.merchant import ApiMerchant, new_merchant, until_answer
from tests.support.system import System, until

SECRET = secret_text(bytes([7]) * 32)
LINE_S_MAX = 60.0


class Terminal:
    """Runs quita-cli as a user with a configuration of their own."""

    def __init__(self, program: Path, home: Path, env: Mapping[str, str]) -> None:
        self.home = home
        self.env = {"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": str(home), **env}
        self._words = [sys.executable, "-I", "-W", "error", str(program)]

    def run(self, *words: str, stdin: str = "", **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._words, *words], env=self.env | env, input=stdin, capture_output=True, text=True, timeout=LINE_S_MAX,
            check=False,
        )  # fmt: skip

    def json_lines(self, *words: str, **env: str) -> list[dict[str, Any]]:
        """Runs a command with --json; asserts that it succeeds, and returns its lines."""
        done = self.run(*words, "--json", **env)
        assert (done.returncode, done.stderr) == (0, ""), (words, done.stdout, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def program(system: System, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "quita-cli.pyz"
    answer = httpx.get(f"{system.docs_url}/quita-cli.pyz", timeout=30)
    assert answer.status_code == 200
    path.write_bytes(answer.content)
    return path


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merchant(system: System) -> AsyncIterator[ApiMerchant]:
    async with new_merchant(system) as opened:
        yield opened


@pytest.fixture
def terminal(system: System, merchant: ApiMerchant, program: Path, tmp_path: Path) -> Terminal:
    return terminal_of(merchant, system, program, tmp_path)


def terminal_of(merchant: ApiMerchant, system: System, program: Path, tmp_path: Path) -> Terminal:
    credential = merchant.record.test
    keys = {"URL": system.base_url, "CLIENT_ID": credential.client_id, "CLIENT_SECRET": credential.client_secret}
    return Terminal(program, tmp_path, {f"QUITA_{name}": value for name, value in keys.items()})


def test_login_stores_the_secret_readable_by_its_user_only(terminal: Terminal, merchant: ApiMerchant) -> None:
    typed = "\n".join(terminal.env.pop(f"QUITA_{name}") for name in ("URL", "CLIENT_ID", "CLIENT_SECRET")) + "\n"
    (terminal.home / "quita").mkdir()
    (terminal.home / "quita" / "keys.new").write_text("left by a crash", encoding="utf-8")
    done = terminal.run("login", stdin=typed)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert merchant.record.test.client_secret not in done.stdout
    path = terminal.home / "quita" / "keys.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (who,) = terminal.json_lines("me")
    assert (who["account_id"], who["mode"]) == (merchant.sandbox.account_id, "test")
    other = terminal.run("me", "--profile", "shop-2")
    assert (other.returncode, other.stdout) == (1, "")
    assert "run `quita-cli login`" in other.stderr


def test_a_wrong_secret_is_not_stored_and_no_command_takes_a_secret_as_an_argument(terminal: Terminal) -> None:
    done = terminal.run("login", QUITA_CLIENT_SECRET="wrong")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "refuses the credential" in done.stderr
    assert not (terminal.home / "quita").exists()
    helps = [terminal.run(*words, "--help").stdout for words in ((), ("login",), ("listen",), ("certify",))]
    assert all(helps)
    assert not [each for each in helps if "--client-secret" in each or "--secret" in each]


def test_a_charge_is_created_looked_up_listed_paid_and_cancelled(terminal: Terminal) -> None:
    (made,) = terminal.json_lines(
        "charges", "create", "12.30", "--external-id", "cli-1", "--metadata", "store=recife-2", "--metadata", "a=b=c"
    )
    assert (made["amount"], made["metadata"]) == ("12.30", {"store": "recife-2", "a": "b=c"})
    assert terminal.json_lines("charges", "get", made["charge_id"]) == [made]
    assert [each["charge_id"] for each in terminal.json_lines("charges", "list", "--external-id", "cli-1")] == [
        made["charge_id"]
    ]
    (paid,) = terminal.json_lines("charges", "pay", made["charge_id"])
    assert paid["status"] == "paid"
    over = terminal.run("charges", "cancel", made["charge_id"])
    assert over.returncode == 1
    assert over.stderr.startswith("quita-cli: CHARGE_NOT_PENDING: The charge is no longer pending: it is paid.")
    assert "/errors/CHARGE_NOT_PENDING" in over.stderr
    people = terminal.run("charges", "get", made["charge_id"]).stdout.splitlines()
    assert people[0].split() == [made["charge_id"], "paid", "12.30", "pix", "cli-1"]
    assert people[1] == made["payment_url"]
    assert terminal.run("charges", "create", "12,30").stderr.splitlines()[1].startswith("  amount: must be a string")
    assert terminal.run("charges", "create").returncode == 2


@pytest.mark.parametrize("given", ["foo", "=bar", ""])
def test_malformed_metadata_is_a_usage_error_and_creates_no_charge(terminal: Terminal, given: str) -> None:
    words = ("charges", "create", "12.30", "--external-id", "cli-pair", "--metadata", "a=b", "--metadata", given)
    done = terminal.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith(f"argument --metadata: {given!r} is not of the form KEY=VALUE")
    assert terminal.json_lines("charges", "list", "--external-id", "cli-pair") == []


async def test_trigger_causes_each_kind_of_sandbox_event(terminal: Terminal, merchant: ApiMerchant) -> None:
    kinds = [kind for kind in EventKind if not kind.startswith("withdrawal.")]
    for kind in kinds:
        (told,) = terminal.json_lines("trigger", kind)

        def event_is_listed(kind: str = kind, charge_id: str = told["charge_id"]) -> bool:
            return any(each["type"] == kind for each in terminal.json_lines("events", "list", "--charge-id", charge_id))

        until(event_is_listed, within_s=30)
    refused = terminal.run("trigger", "withdrawal.succeeded")
    assert refused.returncode == 2
    assert "charge.expired" in refused.stderr


async def test_trigger_follows_the_sandbox_clock(system: System, program: Path, tmp_path: Path) -> None:
    async with new_merchant(system) as merchant:
        terminal = terminal_of(merchant, system, program, tmp_path)
        terminal.json_lines("clock", "advance", "P60D")
        (told,) = terminal.json_lines("trigger", "charge.due_date_changed")
        assert told["type"] == "charge.due_date_changed"


async def test_trigger_and_webhook_test_are_refused_and_create_no_charge_in_production(
    system: System, program: Path, tmp_path: Path
) -> None:
    async with new_merchant(system) as merchant:
        terminal = terminal_of(merchant, system, program, tmp_path)
        credential = merchant.record.production
        terminal.env |= {"QUITA_CLIENT_ID": credential.client_id, "QUITA_CLIENT_SECRET": credential.client_secret}
        for words in (("trigger", "charge.cancelled"), ("trigger", "charge.due_date_changed"), ("webhook", "test")):
            refused = terminal.run(*words)
            assert (refused.returncode, refused.stdout) == (1, ""), words
            assert refused.stderr.startswith("quita-cli: SANDBOX_ONLY: "), refused.stderr
        assert terminal.json_lines("charges", "list") == []


class Recording(ThreadingHTTPServer):
    """A receiver that records every request and answers 200, or what `status` returns."""

    daemon_threads = True

    def __init__(self, status: Callable[[Mapping[str, str], bytes], int] = lambda headers, body: 200) -> None:
        super().__init__(("127.0.0.1", 0), _Post)
        self.status = status
        self.received: list[tuple[Mapping[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hooks?shop=1"


class _Post(BaseHTTPRequestHandler):
    server: Recording

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = dict(self.headers)
        self.server.received.append((headers, body))
        self.send_response(self.server.status(headers, body))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def receiving(receiver: Recording) -> Iterator[Recording]:
    thread = threading.Thread(target=receiver.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        receiver.server_close()
        thread.join()


async def test_listen_forwards_the_signed_bodies_that_an_endpoint_would_receive(
    terminal: Terminal, merchant: ApiMerchant
) -> None:
    before = terminal.json_lines("events", "list", "--limit", "1")
    after = str(before[0]["sequence"] if before else 0)
    charge_id = (await merchant.sandbox.paid("10.00"))["charge_id"]
    with receiving(Recording()) as receiver:
        begun, item = terminal.json_lines(
            "listen", receiver.url, "--after-sequence", after, "--once", "1", QUITA_WEBHOOK_SECRET=SECRET
        )
    ((headers, body),) = receiver.received
    assert (begun["secret"], item["status"], item["type"]) == (SECRET, 200, "payment.received")
    signed = f"{headers['X-Service-Timestamp']}.".encode() + body
    assert headers["X-Service-Signature"] == "sha256=" + hmac.new(SECRET.encode(), signed, sha256).hexdigest()
    (event,) = await merchant.sandbox.events(charge_id=charge_id)
    assert json.loads(body) == {name: event[name] for name in event if name not in ("type", "sequence", "created_at")}


async def test_listen_first_shows_the_kinds_it_forwards_and_the_option_for_others(
    terminal: Terminal, merchant: ApiMerchant
) -> None:
    await merchant.sandbox.paid("10.00")
    for asked in ([], ["charge.refunded", "payment.received"]):
        types = [word for kind in asked for word in ("--type", kind)]
        kinds = asked or ["payment.received", "charge.cancelled"]
        with receiving(Recording()) as receiver:
            words = ("listen", receiver.url, *types, "--after-sequence", "0", "--once", "1")
            first = terminal.run(*words).stdout.splitlines()[0]
            (begun, _) = terminal.json_lines(*words)
        assert first.startswith(f"{', '.join(kinds)} after number 0 go to {receiver.url} ")
        assert "--type KIND" in first
        assert begun["types"] == kinds


async def test_an_event_can_be_sent_again_by_its_id_or_its_number(
    system: System, program: Path, tmp_path: Path
) -> None:
    async with new_merchant(system) as merchant:
        terminal = terminal_of(merchant, system, program, tmp_path)
        with receiving(Recording()) as receiver:
            system.json("webhook", "set", merchant.sandbox.account_id, receiver.url)
            await merchant.sandbox.paid("10.00")
            until(lambda: len(receiver.received) == 1, within_s=30)
            (event,) = terminal.json_lines("events", "list")
            for number, name in ((2, event["event_id"]), (3, str(event["sequence"])), (4, f"1-{event['sequence']}")):
                assert terminal.json_lines("events", "resend", name) == [{"deliveries": 1}]
                until(lambda number=number: len(receiver.received) == number, within_s=30)
        assert len({body for _, body in receiver.received}) == 1
        nobodys = terminal.run("events", "resend", "01a1fdc2-2be1-7deb-b4f8-5fa37a19dbc1")
        assert (nobodys.returncode, nobodys.stdout) == (
            1,
            "0 on their way: no endpoint was sent an event with this id\n",
        )
        beyond = terminal.run("events", "resend", str(event["sequence"] + 1))
        assert "0 on their way: no endpoint takes these events" in beyond.stdout


async def test_logs_show_requests_and_their_answers(terminal: Terminal, merchant: ApiMerchant) -> None:
    charge_id = (await merchant.sandbox.created("10.00"))["charge_id"]
    path = f"/v1/charges/{charge_id}"
    for change in ("cancel", "cancel"):
        await merchant.sandbox.post(f"{path}/{change}")
    until(lambda: len(terminal.json_lines("logs", "tail", "--path", path, "--once", "2")) == 2, within_s=30)
    rows = terminal.json_lines("logs", "tail", "--path", path, "--once", "2")
    assert [(row["method"], row["path"], row["status"], row["code"]) for row in rows] == [
        ("POST", f"{path}/cancel", 200, None), ("POST", f"{path}/cancel", 409, "CHARGE_NOT_PENDING"),
    ]  # fmt: skip
    (row,) = terminal.json_lines("logs", "tail", "--path", path, "--status", "4xx", "--once", "1")
    assert row == rows[1]
    assert row["client_id"] == merchant.record.test.client_id


async def test_the_registered_endpoint_can_be_tested_and_its_deliveries_listed(
    system: System, program: Path, tmp_path: Path
) -> None:
    async with new_merchant(system) as other:
        terminal = terminal_of(other, system, program, tmp_path)
        nobody = terminal.run("webhook", "test")
        assert (nobody.returncode, "no endpoint is registered" in nobody.stdout) == (1, True)
        with receiving(Recording()) as receiver:
            system.json("webhook", "set", other.sandbox.account_id, receiver.url)
            (delivery,) = terminal.json_lines("webhook", "test")
            assert (delivery["type"], delivery["state"]) == ("payment.received", "delivered")
            assert len(receiver.received) >= 1
        listed = terminal.json_lines("webhook", "list", "--state", "delivered")
        assert listed[0]["delivery_id"] == delivery["delivery_id"]
        line = terminal.run("webhook", "list").stdout.split()
        assert line[:4] == [delivery["delivery_id"], "delivered", "1", "200"]


def test_a_page_is_opened_and_its_address_printed(terminal: Terminal, system: System, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >> {opened}\n')
    browser.chmod(0o755)
    (made,) = terminal.json_lines("charges", "create", "1.00")
    pages = {"docs": system.docs_url, "dashboard": f"{system.base_url}/painel", made["charge_id"]: made["payment_url"]}
    for page, address in pages.items():
        assert terminal.json_lines("open", page, BROWSER=str(browser)) == [{"url": address}]
    assert opened.read_text().split() == list(pages.values())
    assert terminal.run("open", "nothing").returncode == 1


def test_every_example_of_the_help_is_understood_as_it_stands(terminal: Terminal) -> None:
    words = (
        "login", "charges create", "charges list", "events list", "events resend", "webhook list", "webhook test",
        "listen", "trigger", "logs tail", "clock advance", "certify", "open", "completion",
    )  # fmt: skip
    for each in words:
        told = terminal.run(*each.split(), "--help").stdout
        examples = re.findall(r"^  (?:eval \"\$\()?(quita-cli [^>)\n]*)", told.partition("examples:")[2], re.M)
        assert examples, each
        for example in examples:
            # Exit code 1: the example is understood, and refused because keys are missing. 2 would be a usage error.
            done = terminal.run(*example.split()[1:], QUITA_URL="", QUITA_CLIENT_ID="", QUITA_WEBHOOK_SECRET="")
            assert done.returncode == (0 if each == "completion" else 1), (example, done.stderr)
    assert terminal.run("--version").stdout == "quita-cli 1.0.0\n"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", {"charges", "listen", "open", "--version"}),
        ("char", {"charges"}),
        ("charges ", {"create", "get", "list", "pay", "cancel"}),
        ("charges create 10.50 --ex", {"--external-id", "--expires-in"}),
        ("trigger payment.", {"payment.received", "payment.anomaly"}),
        ("logs tail --status ", {"--path", "--new"}),
    ],
)
def test_the_shell_completes_what_the_parser_knows(terminal: Terminal, typed: str, offered: set[str]) -> None:
    if shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    script = terminal.run("completion", "bash").stdout
    words = ["quita-cli", *typed.split(), *([""] if typed.endswith(" ") or not typed else [])]
    asked = f"""
        {script}
        COMP_WORDS=({" ".join(f"'{each}'" for each in words)}); COMP_CWORD={len(words) - 1}
        _quita_cli; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    found = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=LINE_S_MAX, check=True)
    assert offered <= set(found.stdout.split()), found.stdout
    if typed.strip() and not typed.endswith(" "):
        assert all(each.startswith(words[-1]) for each in found.stdout.split())
    assert terminal.run("completion", "zsh").stdout.startswith("autoload -U +X bashcompinit")


async def test_requests_are_listed_for_their_own_account_and_mode_only(merchant: ApiMerchant, system: System) -> None:
    await merchant.sandbox.created("10.00")

    async def asked() -> bool:
        return bool((await merchant.sandbox.get("/v1/requests?path=/v1/charges/pix&limit=1")).body["data"])

    await until_answer(asked)
    assert (await merchant.production.get("/v1/requests?path=/v1/charges/pix")).body["data"] == []
    async with new_merchant(system) as other:
        assert (await other.sandbox.get("/v1/requests")).body["data"] == []
    for wrong in ({"status": "404"}, {"cursor": "x"}, {"since": "1"}):
        assert (await merchant.sandbox.get("/v1/requests", **wrong)).status == 400


async def test_the_sandbox_clock_can_be_advanced_by_a_duration_or_to_an_instant(
    system: System, program: Path, tmp_path: Path
) -> None:
    async with new_merchant(system) as merchant:
        terminal = terminal_of(merchant, system, program, tmp_path)
        assert terminal.json_lines("clock", "show")[0]["advanced_seconds"] == 0
        (there,) = terminal.json_lines("clock", "advance", "P3D")
        assert there["advanced_seconds"] == 3 * 86_400
        (further,) = terminal.json_lines("clock", "advance", re.sub(r"T.*", "T23:59:59Z", there["now"]))
        assert further["advanced_seconds"] >= there["advanced_seconds"]


RECEIVERS = {"receiver.py": sys.executable, "receiver.mjs": "node", "receiver.php": "php"}


@pytest.mark.parametrize("name", RECEIVERS)
def test_every_receiver_for_download_passes_the_certification(
    name: str, system: System, terminal: Terminal, tmp_path: Path
) -> None:
    runtime = shutil.which(RECEIVERS[name])
    if runtime is None:
        pytest.skip(f"{RECEIVERS[name]} is not installed here")
    path = tmp_path / name
    path.write_bytes(httpx.get(f"{system.docs_url}/receiver/{name}", timeout=30).content)
    port = free_port()
    words = [runtime, "-S", f"127.0.0.1:{port}", str(path)] if name.endswith(".php") else [runtime, str(path)]
    env = terminal.env | {"CLIENT_ID": "x", "CLIENT_SECRET": "x", "PORT": str(port), "WEBHOOK_SECRETS": SECRET,
                          "QUITA_URL": "http://127.0.0.1:9"}  # fmt: skip
    process = subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _refuses_unsigned(port), within_s=30)
        done = terminal.run("certify", f"http://127.0.0.1:{port}/", QUITA_WEBHOOK_SECRET=SECRET)
    finally:
        process.kill()
        process.wait(30)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "12 of 12 passed"


@pytest.mark.parametrize("name", RECEIVERS)
def test_a_receiver_without_its_environment_names_in_one_line_what_is_missing(
    name: str, system: System, tmp_path: Path
) -> None:
    runtime = shutil.which(RECEIVERS[name])
    if runtime is None:
        pytest.skip(f"{RECEIVERS[name]} is not installed here")
    path = tmp_path / name
    path.write_bytes(httpx.get(f"{system.docs_url}/receiver/{name}", timeout=30).content)
    needed = ["QUITA_URL", "CLIENT_ID", "CLIENT_SECRET", "WEBHOOK_SECRETS"]
    needed = needed if name.endswith(".py") else needed[-1:]
    for given in ([], needed[:-1]):
        # An empty variable counts as missing.
        env = {"PATH": os.environ["PATH"], "WEBHOOK_SECRETS": " "} | dict.fromkeys(given, "http://127.0.0.1:9")
        done = subprocess.run(
            [runtime, str(path)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LINE_S_MAX, check=False
        )
        missing = ", ".join(each for each in needed if each not in given)
        assert done.returncode == 1
        assert done.stderr.splitlines() == [f"{name}: set {missing}"], done
        assert list(tmp_path.iterdir()) == [path]


def _refuses_unsigned(port: int) -> bool:
    try:
        return httpx.post(f"http://127.0.0.1:{port}/", content=b"{}", timeout=5).status_code == 401
    except httpx.HTTPError:
        return False


class FaultyReceiver:
    """A receiver that is correct except for one `fault`, and remembers the events it has accepted."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.seen: set[str] = set()

    def status(self, headers: Mapping[str, str], body: bytes) -> int:
        timestamp = headers["X-Service-Timestamp"]
        key = SECRET.removeprefix("whsec_") if self.fault == "key" else SECRET
        signed = json.dumps(json.loads(body)).encode() if self.fault == "parsed" else body
        ours = "sha256=" + hmac.new(key.encode(), timestamp.encode() + b"." + signed, sha256).hexdigest()
        given = [headers.get("X-Service-Signature"), headers.get("X-Service-Signature-Previous")]
        if self.fault == "rotation":
            given.pop()
        if self.fault != "anybody" and ours not in given:
            return 400 if self.fault == "status" else 401
        if self.fault != "clock" and abs(time.time() - int(timestamp)) > 300:
            return 401
        event = json.loads(body)
        if self.fault == "duplicates" and event["event_id"] in self.seen:
            return 409
        if self.fault == "kinds" and event["event"] not in ("payment.received", "charge.cancelled"):
            return 422
        if self.fault == "size" and len(body) > 10_000:
            return 413
        if self.fault == "redirect":
            return 302
        self.seen.add(event["event_id"])
        return 204


FORGED = ["signed by somebody else", "not signed", "changed on its way"]
GOOD = ["genuine", "sent twice", "sent eight times at once", "secret rotated", "a kind you do not know", "out of order",
        "48 KiB, slowly"]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "failed"),
    [
        ("", []),
        ("anybody", FORGED),
        ("status", FORGED),
        ("clock", ["ten minutes old", "ten minutes ahead"]),
        ("rotation", ["secret rotated"]),
        ("duplicates", ["sent twice", "sent eight times at once"]),
        ("kinds", ["a kind you do not know", "out of order"]),
        ("size", ["48 KiB, slowly"]),
        ("key", GOOD),
        ("parsed", GOOD),
        ("redirect", GOOD),
    ],
)
def test_the_certification_names_the_faults_of_a_receiver(terminal: Terminal, fault: str, failed: list[str]) -> None:
    with receiving(Recording(FaultyReceiver(fault).status)) as receiver:
        done = terminal.run("certify", receiver.url, "--json", QUITA_WEBHOOK_SECRET=SECRET)
    *checks, total = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["check"] for each in checks if not each["passed"]] == failed
    assert all(bool(each["repair"]) is not each["passed"] for each in checks)
    assert (done.returncode, total) == (1 if failed else 0, {"checks": 12, "failed": len(failed)})


def test_the_certification_reports_an_address_that_does_not_answer(terminal: Terminal) -> None:
    done = terminal.run("certify", f"http://127.0.0.1:{free_port()}/", QUITA_WEBHOOK_SECRET=SECRET)
    assert done.returncode == 1
    assert done.stdout.count("no answer") == 12
    assert "begins with whsec_" in terminal.run("certify", "http://127.0.0.1/", QUITA_WEBHOOK_SECRET="x").stderr


@pytest.mark.parametrize("word", ["certify", "listen"])
@pytest.mark.parametrize(
    "url",
    ["shop.example.com", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:99999/", "http://127.0.0.1:port/", "http://[::1/",
     "http://exa mple/", "http://127.0.0.1:0/"],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused_in_one_line(terminal: Terminal, word: str, url: str) -> None:
    done = terminal.run(word, url, QUITA_WEBHOOK_SECRET=SECRET)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "is no address" in done.stderr


@pytest.mark.parametrize("secret", ["whsec_abc", "whsec_", "whsec_ãé", "whsec_not base64", f"{SECRET[:-2]}", "hunter2"])
def test_an_invalid_signing_secret_is_refused_in_one_line_that_does_not_show_it(
    terminal: Terminal, secret: str
) -> None:
    with receiving(Recording()) as receiver:
        for word in ("certify", "listen"):
            done = terminal.run(word, receiver.url, QUITA_WEBHOOK_SECRET=secret)
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
            assert done.stderr.startswith("quita-cli: QUITA_WEBHOOK_SECRET is not a signing secret: ")
            assert ("begins with whsec_" if secret == "hunter2" else "must be base64") in done.stderr
            assert secret not in done.stderr.replace("whsec_ ", "")
        typed = terminal.run("certify", receiver.url, stdin=f"{secret}\n")
        assert (typed.returncode, typed.stderr.count("\n")) == (1, 1)
        assert typed.stderr.startswith("quita-cli: what was typed is not a signing secret: ")
    assert receiver.received == []


def test_without_a_terminal_exactly_the_missing_variables_are_named(terminal: Terminal) -> None:
    def named(*words: str, stdin: str = "", **env: str) -> set[str]:
        done = terminal.run(*words, stdin=stdin, **env)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done
        return set(re.findall(r"QUITA_[A-Z_]+", done.stderr))

    assert named("certify", "http://127.0.0.1:9/") == {"QUITA_WEBHOOK_SECRET"}
    assert named("login", QUITA_CLIENT_SECRET="") == {"QUITA_CLIENT_SECRET"}
    assert named("login", QUITA_CLIENT_ID="") == {"QUITA_CLIENT_ID"}
    nothing = {f"QUITA_{name}": "" for name in ("URL", "CLIENT_ID", "CLIENT_SECRET")}
    assert named("login", **nothing) == set(nothing)
    assert named("login", "http://127.0.0.1:9", **nothing) == {"QUITA_CLIENT_ID", "QUITA_CLIENT_SECRET"}
    assert named("login", stdin="http://127.0.0.1:9\ntest_1\n", **nothing) == {"QUITA_CLIENT_SECRET"}
