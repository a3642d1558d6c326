"""The receiver kit: every snippet of docs/webhooks.md accepts genuine deliveries and rejects forged ones, in each
language that is installed here, and the whole receiver credits an invoice once, whatever arrives and however often."""

import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio

from domain.webhooks.signature import delivery_headers, secret_text
from runtime.local.ports import free_port
from tests.support.merchant import ApiMerchant, new_merchant, until_answer
from tests.support.system import System, until

ROOT = Path(__file__).resolve().parents[3]
KIT = ROOT / "docs" / "receiver"
TEXT = (ROOT / "docs" / "webhooks.md").read_text(encoding="utf-8")
SNIPPETS = {"python": "verify.py", "javascript": "verify.mjs", "php": "verify.php"}

SECRET, OLD, OTHER = (secret_text(bytes([n]) * 32) for n in (1, 2, 3))
BODY = '{"event":"payment.received","event_id":"%s","external_id":"ação \u2028 / \\"x\\" 💸"}'
NOW = int(time.time())  # the clock of the vectors


def wait_until(true: Any) -> Any:
    return until(true, within_s=60)


def delivery(
    body: bytes,
    *,
    secret: str = SECRET,
    previous: Sequence[str] = (),
    timestamp: int | None = None,
    event_id: Any = None,
) -> dict[str, str]:
    """The headers our sender makes, now unless a timestamp is given."""
    return delivery_headers(
        event="payment.received", event_id=event_id or uuid4(), delivery_id=uuid4(), attempt=1,
        timestamp=int(time.time()) if timestamp is None else timestamp,
        body=body, secret=secret, old_secrets=previous,
    )  # fmt: skip


def vectors() -> list[dict[str, Any]]:
    """The cases for each `verify`: body (hex), headers, secrets, now, and the result it must return."""
    body = (BODY % uuid4()).encode()
    good = delivery(body, timestamp=NOW)
    rotated = delivery(body, timestamp=NOW, previous=[OLD])
    twice = delivery(body, timestamp=NOW, previous=[OTHER, OLD])

    def case(
        says: bool, headers: dict[str, str], *, given: bytes = body, secrets: Any = (SECRET,), now: int = NOW
    ) -> Any:
        return {"body": given.hex(), "headers": headers, "secrets": list(secrets), "now": now, "says": says}

    def good_with(name: str, value: str | None) -> dict[str, str]:
        return {key: each for key, each in {**good, name: value}.items() if each is not None}

    signature = good["X-Service-Signature"]
    return [
        case(True, good),
        case(True, good, now=NOW + 300),
        case(True, good, now=NOW - 300),
        case(True, good, secrets=(OTHER, SECRET)),
        case(True, rotated),  # a receiver that has the new secret
        case(True, rotated, secrets=(OLD,)),  # one that still has the old one
        case(True, twice, secrets=(OTHER,)),
        case(True, twice, secrets=(OLD,)),  # two rotations within a day
        case(True, delivery(b"", timestamp=NOW), given=b""),
        case(True, delivery(b"\xff\x00\n", timestamp=NOW), given=b"\xff\x00\n"),
        case(False, good, now=NOW + 301),
        case(False, good, now=NOW - 301),
        case(False, good, secrets=(OTHER,)),
        case(False, good, secrets=()),
        case(False, good, given=body + b" "),
        case(False, good, given=body.replace(b"event_id", b"event_iD")),
        case(False, rotated, secrets=(OTHER,)),
        case(False, good_with("X-Service-Timestamp", str(NOW + 1))),
        case(False, good_with("X-Service-Timestamp", None)),
        case(False, good_with("X-Service-Timestamp", "")),
        case(False, good_with("X-Service-Timestamp", f"{NOW}.0")),
        case(False, good_with("X-Service-Timestamp", f" {NOW}")),
        case(False, good_with("X-Service-Timestamp", f"{NOW}\n")),
        case(False, good_with("X-Service-Timestamp", f"+{NOW}")),
        case(False, good_with("X-Service-Timestamp", "٣" * 10)),
        case(False, good_with("X-Service-Timestamp", "9" * 5000)),
        case(False, good_with("X-Service-Timestamp", "NaN")),
        case(False, good_with("X-Service-Signature", None)),
        case(False, good_with("X-Service-Signature", "")),
        case(False, good_with("X-Service-Signature", "sha256=")),
        case(False, good_with("X-Service-Signature", signature.removeprefix("sha256="))),
        case(False, good_with("X-Service-Signature", signature[:-1])),
        case(False, good_with("X-Service-Signature", signature + "0")),
        case(False, good_with("X-Service-Signature", signature.upper())),
        case(False, good_with("X-Service-Signature", "é" * 71)),
    ]


# Each reads the vectors from stdin and prints the results of its `verify` as a JSON array.
_PYTHON = """
import json, sys
from verify import verify
vectors = json.load(sys.stdin)
print(json.dumps([verify(bytes.fromhex(v["body"]), v["headers"], v["secrets"], v["now"]) for v in vectors]))
"""
_NODE = """
import { readFileSync } from "node:fs";
import { verify } from "%s";
const lower = (headers) => Object.fromEntries(Object.entries(headers).map(([k, v]) => [k.toLowerCase(), v]));
const vectors = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(vectors.map((v) => verify(Buffer.from(v.body, "hex"), lower(v.headers), v.secrets, v.now))));
"""
_PHP = """<?php
require '%s';
$vectors = json_decode(file_get_contents('php://stdin'), true, 512, JSON_THROW_ON_ERROR);
echo json_encode(array_map(fn ($v) => verify(hex2bin($v['body']), $v['headers'], $v['secrets'], $v['now']), $vectors));
"""
# Each serves `receive` on a port and stores each event that it is told to remember as a file in a folder.
_PYTHON_SERVER = """
import os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from verify import receive

class Door(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(receive(body, self.headers, sys.argv[3:], remember))
        self.end_headers()
    def log_message(self, *args):
        pass

def remember(event_id, body):
    try:
        open(os.path.join(sys.argv[2], event_id), "xb").write(body)
    except FileExistsError:
        pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Door).serve_forever()
"""
_NODE_SERVER = """
import { writeFileSync } from "node:fs";
import { receiver } from "%s";
const [port, folder, ...secrets] = process.argv.slice(2);
const remember = (id, body) => {
  try {
    writeFileSync(`${folder}/${id}`, body, { flag: "wx" });
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  }
};
receiver(secrets, remember).listen(Number(port), "127.0.0.1");
"""
_PHP_SERVER = """<?php
require '%s';
$remember = function (string $id, string $body): void {
    $file = @fopen(getenv('FOLDER') . '/' . $id, 'xb');
    if ($file !== false) { fwrite($file, $body); }
};
$status = receive(file_get_contents('php://input'), getallheaders(), explode(' ', getenv('SECRETS')), $remember);
http_response_code($status);
"""


def runtime(language: str) -> str:
    """The program that runs this language; skips the test where it is not installed."""
    if language == "python":
        return sys.executable
    name = {"javascript": "node", "php": "php"}[language]
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


def driver(language: str, tmp_path: Path, sources: dict[str, str]) -> Path:
    """The test's own program around the snippet."""
    path = tmp_path / {"python": "driver.py", "javascript": "driver.mjs", "php": "driver.php"}[language]
    source = sources[language]
    path.write_text(source % (KIT / SNIPPETS[language]) if language != "python" else source, encoding="utf-8")
    return path


@pytest.mark.parametrize("language", SNIPPETS)
def test_the_printed_snippet_is_the_tested_file(language: str) -> None:
    (printed,) = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)
    assert printed == (KIT / SNIPPETS[language]).read_text(encoding="utf-8")


@pytest.mark.parametrize("language", SNIPPETS)
def test_a_snippet_accepts_genuine_deliveries_and_rejects_forged_ones(language: str, tmp_path: Path) -> None:
    program = runtime(language)
    asked = vectors()
    run = subprocess.run(
        [program, str(driver(language, tmp_path, {"python": _PYTHON, "javascript": _NODE, "php": _PHP}))],
        input=json.dumps(asked), env=os.environ | {"PYTHONPATH": str(KIT)}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    wrong = [(each, said) for each, said in zip(asked, json.loads(run.stdout), strict=True) if said is not each["says"]]
    assert not wrong


@pytest.mark.parametrize("language", SNIPPETS)
async def test_a_snippet_remembers_an_event_once_and_answers_duplicates_alike(language: str, tmp_path: Path) -> None:
    program = runtime(language)
    path = driver(language, tmp_path, {"python": _PYTHON_SERVER, "javascript": _NODE_SERVER, "php": _PHP_SERVER})
    folder = tmp_path / "seen"
    folder.mkdir()
    port = free_port()
    words = [program, str(path), str(port), str(folder), SECRET]
    if language == "php":
        words = [program, "-S", f"127.0.0.1:{port}", str(path)]
    env = os.environ | {"PYTHONPATH": str(KIT), "FOLDER": str(folder), "SECRETS": SECRET}
    with running(words, env):
        url = f"http://127.0.0.1:{port}/"
        await until_listening(url)
        events = [uuid4() for _ in range(3)]
        bodies = [(BODY % event).encode() for event in events]
        async with aiohttp.ClientSession() as http:

            async def post(body: bytes, headers: dict[str, str]) -> int:
                async with http.post(url, data=body, headers=headers) as answer:
                    return answer.status

            answers = await asyncio.gather(*(post(body, delivery(body)) for body in bodies * 5))
            assert set(answers) == {204}
            assert await post(bodies[0], delivery(bodies[0], timestamp=NOW - 400)) == 401
            assert await post(bodies[0] + b" ", delivery(bodies[0])) == 401
            forged = (BODY % uuid4()).encode()
            assert await post(forged, delivery(forged, secret=OTHER)) == 401
        assert sorted(each.name for each in folder.iterdir()) == sorted(map(str, events))
        assert {each.read_bytes() for each in folder.iterdir()} == set(bodies)


async def test_the_documentation_shows_every_snippet_whole(system: System) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"{system.docs_url}/webhooks") as answer:
        assert answer.status == 200
        html = await answer.text()
    shown = [unescape(each) for each in re.findall(r"<pre tabindex=\"0\"><code>(.*?)</code></pre>", html, re.S)]
    for name in SNIPPETS.values():
        assert (KIT / name).read_text(encoding="utf-8").rstrip("\n") in shown
    assert "{base_url}" not in html
    assert f"{system.base_url}/v1/events/redeliver" in html
    assert 'href="#the-feed"' in html
    assert 'id="the-feed"' in html
    assert "**" not in re.sub(r"<pre.*?</pre>", "", html, flags=re.S)


@contextmanager
def running(words: list[str], env: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)


async def until_listening(url: str) -> None:
    """Wait until a server answers at all."""
    async with aiohttp.ClientSession() as http:
        for _ in range(600):
            try:
                async with http.post(url, data=b"{}") as answer:
                    assert answer.status == 401
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)
    raise AssertionError(f"no server answers at {url}")


class Billing:
    """A hosting company that runs the whole receiver: its invoices, and how to start it."""

    def __init__(self, system: System, merchant: ApiMerchant, folder: Path) -> None:
        self.merchant = merchant
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/webhooks"
        self.secret = ""
        self.database = folder / "receiver.sqlite3"
        self.env = {
            "PATH": os.environ["PATH"], "QUITA_URL": system.base_url, "CLIENT_ID": merchant.record.test.client_id,
            "CLIENT_SECRET": merchant.record.test.client_secret, "DATABASE": str(self.database), "POLL_S": "3600",
            "ACCEPT_TEST": "1",
        }  # fmt: skip

    def register(self, system: System) -> None:
        self.secret = system.json("webhook", "set", self.merchant.sandbox.account_id, self.url)["secret"]

    @contextmanager
    def running(self, **env: str) -> Iterator["subprocess.Popen[bytes]"]:
        words = [sys.executable, "-W", "error", str(KIT / "receiver.py")]
        given = {**self.env, "PORT": str(self.port), "WEBHOOK_SECRETS": f"{OTHER} {self.secret or SECRET}", **env}
        with running(words, given) as process:
            yield process

    def run_sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database, timeout=30)) as db, db:
            return db.execute(query, values).fetchall()

    def invoice(self, number: str, cents: int) -> None:
        self.run_sql("INSERT INTO invoice (number, amount_cents) VALUES (?, ?)", number, cents)

    def paid_cents(self, number: str) -> int:
        ((cents,),) = self.run_sql("SELECT paid_cents FROM invoice WHERE number = ?", number)
        return int(cents)

    def outcomes(self) -> list[str]:
        return sorted(outcome or "open" for (outcome,) in self.run_sql("SELECT outcome FROM inbox"))


@pytest_asyncio.fixture(loop_scope="session")
async def billing(system: System, tmp_path: Path) -> Any:
    async with new_merchant(system) as merchant:
        yield Billing(system, merchant, tmp_path)


async def test_a_paid_charge_credits_its_invoice_once_however_often_it_is_delivered(
    system: System, billing: Billing
) -> None:
    billing.register(system)
    client = billing.merchant.sandbox
    with billing.running():
        await until_listening(billing.url)
        billing.invoice("fatura-ã-1", 4990)
        await client.paid("49.90", external_id="fatura-ã-1")
        await asyncio.to_thread(wait_until, lambda: billing.paid_cents("fatura-ã-1") == 4990)
        (item,) = (await client.get("/v1/webhook-deliveries")).body["data"]
        path = f"/v1/webhook-deliveries/{item['delivery_id']}"

        async def statuses_of(attempts: int) -> list[int] | None:
            found = (await client.get(path)).body["attempts"]
            return [each["status"] for each in found] if len(found) == attempts else None

        for attempts in (1, 2, 3):
            assert await until_answer(partial(statuses_of, attempts)) == [204] * attempts
            assert attempts == 3 or (await client.post(f"{path}/redeliver")).status == 202
        assert billing.outcomes() == ["credited"]
        assert billing.paid_cents("fatura-ã-1") == 4990


async def test_two_receivers_and_many_deliveries_at_once_credit_once(system: System, billing: Billing) -> None:
    """Also when two different events report the same charge: a credit belongs to the charge."""
    client = billing.merchant.sandbox
    second = free_port()
    with billing.running(), billing.running(PORT=str(second)):
        urls = [billing.url, f"http://127.0.0.1:{second}/"]
        for url in urls:
            await until_listening(url)
        # The invoice is inserted first, because the receivers poll the feed on their own.
        billing.invoice("fatura-2", 1000)
        charge = await client.paid("10.00", external_id="fatura-2")
        (event,) = await client.events()
        bodies = []
        for event_id in (event["event_id"], str(uuid4())):
            body = {name: event[name] for name in event if name not in ("type", "sequence", "created_at")}
            bodies.append(json.dumps(body | {"event_id": event_id}).encode())
        async with aiohttp.ClientSession() as http:

            async def post(number: int) -> int:
                body = bodies[number % 2]
                async with http.post(urls[number // 2 % 2], data=body, headers=delivery(body)) as answer:
                    return answer.status

            assert set(await asyncio.gather(*(post(number) for number in range(40)))) == {204}
        await asyncio.to_thread(wait_until, lambda: billing.outcomes() == ["credited", "credited before"])
        assert billing.paid_cents("fatura-2") == 1000
        assert billing.run_sql("SELECT charge_id, amount_cents FROM credit") == [(charge["charge_id"], 1000)]


async def test_a_signed_delivery_that_the_api_does_not_confirm_is_not_credited(
    system: System, billing: Billing
) -> None:
    """Correctly signed: about a pending charge, an unknown charge, another kind of event, an unknown invoice."""
    client = billing.merchant.sandbox
    pending = await client.created("10.00", external_id="fatura-3")
    stray = await client.paid("10.00", external_id="fatura-4")
    about = {"event": "payment.received", "test": True, "amount": "10.00", "status": "paid"}
    told = [
        about | {"charge_id": pending["charge_id"], "external_id": "fatura-3"},
        about | {"charge_id": str(uuid4()), "external_id": "fatura-3"},
        about | {"charge_id": pending["charge_id"], "event": "charge.cancelled"},
        about | {"charge_id": stray["charge_id"], "external_id": "fatura-3"},  # the API has another external_id for it
        {"event": "payment.received", "test": True},
    ]
    with billing.running():
        await until_listening(billing.url)
        billing.invoice("fatura-3", 1000)
        async with aiohttp.ClientSession() as http:
            for each in told:
                body = json.dumps(each | {"event_id": str(uuid4())}).encode()
                async with http.post(billing.url, data=body, headers=delivery(body)) as answer:
                    assert answer.status == 204
            body = json.dumps(about | {"event_id": str(uuid4())}).encode()
            for headers in (delivery(body, secret=OLD), delivery(body, timestamp=int(time.time()) - 400), {}):
                async with http.post(billing.url, data=body, headers=headers) as answer:
                    assert answer.status == 401
            async with http.post(billing.url, data=b"x" * 70_000, headers=delivery(b"x")) as answer:
                assert answer.status == 413
        # The last outcome is of the stray payment itself, read from the feed: it has no invoice.
        outcomes = [
            "no such invoice", "not a charge of ours", "not paid: pending", "not understood: KeyError('charge_id')",
            "nothing to do", "no such invoice",
        ]  # fmt: skip
        await asyncio.to_thread(wait_until, lambda: billing.outcomes() == sorted(outcomes))
        assert billing.paid_cents("fatura-3") == 0
        assert billing.run_sql("SELECT * FROM credit") == []


async def test_sandbox_events_credit_nothing_unless_test_events_are_accepted(system: System, billing: Billing) -> None:
    charge = await billing.merchant.sandbox.paid("10.00", external_id="fatura-5")
    (event,) = await billing.merchant.sandbox.events()
    body = json.dumps(event).encode()
    with billing.running(ACCEPT_TEST="0"):
        await until_listening(billing.url)
        billing.invoice("fatura-5", 1000)
        async with aiohttp.ClientSession() as http, http.post(billing.url, data=body, headers=delivery(body)) as answer:
            assert answer.status == 204
        await asyncio.to_thread(wait_until, lambda: billing.outcomes() == ["a sandbox event"])
        assert billing.paid_cents("fatura-5") == 0
    assert charge["test"] is True


async def test_an_event_answered_2xx_is_credited_later_despite_an_absent_api_and_a_crash(
    system: System, billing: Billing
) -> None:
    charge = await billing.merchant.sandbox.paid("10.00", external_id="fatura-6")
    (event,) = await billing.merchant.sandbox.events()
    body = json.dumps(event).encode()
    with billing.running(QUITA_URL=f"http://127.0.0.1:{free_port()}") as process:
        await until_listening(billing.url)
        billing.invoice("fatura-6", 1000)
        async with aiohttp.ClientSession() as http, http.post(billing.url, data=body, headers=delivery(body)) as answer:
            assert answer.status == 204
        assert billing.outcomes() == ["open"]
        process.kill()
    with billing.running():
        await asyncio.to_thread(wait_until, lambda: billing.outcomes() == ["credited"])
    assert billing.paid_cents("fatura-6") == 1000
    assert billing.run_sql("SELECT charge_id FROM credit") == [(charge["charge_id"],)]


async def test_events_that_no_webhook_delivered_are_taken_from_the_feed(system: System, billing: Billing) -> None:
    with billing.running(POLL_S="0.2"):
        await until_listening(billing.url)
        for number in range(3):
            billing.invoice(f"fatura-7-{number}", 1000)
            await billing.merchant.sandbox.paid("10.00", external_id=f"fatura-7-{number}")
        await asyncio.to_thread(wait_until, lambda: billing.outcomes() == ["credited"] * 3)
        assert [billing.paid_cents(f"fatura-7-{number}") for number in range(3)] == [1000] * 3
    assert billing.run_sql("SELECT after_sequence FROM feed") == [(3,)]
