"""An account moves from one installation to another as a file: the target gives the same answers as the source, to the
byte, or takes nothing of it."""

import asyncio
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from commands.merchants.account_export import TABLES
from commands.merchants.account_file import READ
from commands.merchants.profile.logo import set_logo
from commands.merchants.profile.logo_pixels import read_logo
from readmodels.reports.fold import fold_up_to, wait_for_horizon
from readmodels.seals import extend_seals
from readmodels.verify import verify
from runtime.postgres import connect
from tests.support.api_process import ApiProcess, api_process
from tests.support.database import own_database, owner_of
from tests.support.pictures import draw_logo
from tests.support.receiving import receiving
from tests.support.system import ROOT, System, remove_home, temporary_home, until

SCHEMA = ROOT / "docs" / "schema.sql"
SLIP = {
    "tipo": "boleto", "dataVencimento": "2031-05-20",
    "pagador": {"nome": "Maria da Silva", "documento": "52998224725", "tipoPessoa": "PESSOA_FISICA", "cep": "01310100",
                "logradouro": "Av. Paulista", "numero": "1", "cidade": "Sao Paulo", "uf": "SP"},
}  # fmt: skip
LISTS = ("charges", "payments", "events", "refunds", "withdrawals", "webhook-deliveries", "charge-schedules")


class Client:
    def __init__(self, base_url: str, credential: dict[str, str]) -> None:
        answer = httpx.post(
            f"{base_url}/v1/oauth/token", data={"grant_type": "client_credentials", **credential}, timeout=30
        )
        self._base_url = base_url
        self._headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}

    def post(self, path: str, body: Any = None, *, key: str | None = None) -> httpx.Response:
        headers = {**self._headers, "Idempotency-Key": key or str(uuid4())}
        return httpx.post(self._base_url + path, json=body, headers=headers, timeout=60)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self._base_url + path, headers=self._headers, timeout=60)

    def made(self, path: str, body: Any = None, *, key: str | None = None) -> Any:
        answer = self.post(path, body, key=key)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def seen(self, account_id: str) -> dict[str, bytes]:
        """Returns the bytes of everything that can be looked up, by path."""
        lists = [f"/v1/{name}?limit=100" for name in LISTS]
        lists += [f"/v1/accounts/{account_id}/ledger?limit=100", f"/v1/accounts/{account_id}/balance", "/v1/me"]
        lists += ["/v1/charges/summary", "/v1/charges?payer_document=52998224725"]
        found = {}
        for path in lists:
            answer = self.get(path)
            if answer.status_code == 403 and answer.json()["error"]["code"] == "SANDBOX_ONLY":
                continue
            assert answer.status_code == 200, (path, answer.text)
            found[path] = answer.content
        for each in json.loads(found["/v1/charges?limit=100"])["data"]:
            path = f"/v1/charges/{each['charge_id']}"
            found[path] = self.get(path).content
        return found


class Target:
    """The installation that imports the account."""

    def __init__(self, url: str, owner_url: str, secret_key: str) -> None:
        self.url, self.owner_url, self.secret_key = url, owner_url, secret_key

    def quita(self, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "cli.main", *arguments, "--json"],
            cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "QUITA_HOME": "/nonexistent",
                 "DATABASE_URL": self.url, "DATABASE_OWNER_URL": self.owner_url, "SECRET_KEY": self.secret_key, **env},
        )  # fmt: skip

    async def rows(self) -> int:
        conn = await asyncpg.connect(self.owner_url)
        try:
            return int(await conn.fetchval("SELECT (SELECT count(*) FROM account) + (SELECT count(*) FROM journal)"))
        finally:
            await conn.close()


class Source:
    """A merchant with rows in every table, and the file that its account is exported to."""

    def __init__(self, system: System, merchant: dict[str, Any], file: Path) -> None:
        self.system, self.merchant, self.file = system, merchant, file
        self.account_id = str(merchant["account_id"])
        self.key = secrets.token_hex(8)
        self.seen: dict[str, dict[str, bytes]] = {}
        self.logo = read_logo(draw_logo())

    def client(self, mode: str) -> Client:
        return Client(self.system.base_url, self.merchant[mode])

    def do_business(self) -> None:
        """Makes charges of all kinds, paid, cancelled and refunded, in both modes, a withdrawal, and webhooks."""
        system, test, real = self.system, self.client("test"), self.client("production")
        body = {"account_id": self.account_id, "amount": "40.00", "external_id": "pedido-7", "metadata": {"a": "ç"}}
        first = test.made("/v1/charges/pix", body, key=self.key)
        test.made(f"/v1/charges/{first['charge_id']}/simulate-payment")
        test.made(f"/v1/charges/{first['charge_id']}/refunds", {"amount": "1.50"})
        test.made("/v1/charges/pix", body)
        slip = test.made("/v1/charges/boleto", {**SLIP, "valorCents": "12.34", "external_id": "b"})
        test.made(f"/v1/charges/{slip['charge_id']}/cancel")
        open_slip = real.made("/v1/charges/boleto", {**SLIP, "valorCents": "99.99"})
        assert open_slip["status"] == "pending"
        paid = real.made("/v1/charges/pix", body)
        system.json("bank", "pay", "--charge-id", paid["charge_id"])
        gone = real.made("/v1/charges/pix", body)
        real.made(f"/v1/charges/{gone['charge_id']}/cancel")
        until(lambda: b'"paid"' in real.seen(self.account_id)[f"/v1/charges/{paid['charge_id']}"], what="the payment")
        real.made(f"/v1/charges/{paid['charge_id']}/refunds", {"amount": "10.00"})
        real.made("/v1/withdrawals", {"amount": "5.00"})

    async def add_logo(self) -> None:
        """Stores the logo that payers see."""
        conn = await asyncpg.connect(self.system.owner_url)
        try:
            await set_logo(conn, UUID(self.account_id), self.logo, now=datetime.now(UTC))
        finally:
            await conn.close()

    def block_once(self, ended: Callable[[], bool]) -> None:
        until(ended, within_s=60, what="the end of all orders, refunds, deliveries and withdrawals")
        self.system.json("merchant", "block", self.account_id, "--reason", "moves")
        self.seen = {mode: self.client(mode).seen(self.account_id) for mode in ("test", "production")}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    system = System(temporary_home(), env={"WITHDRAWAL_GRACE_S": "0"})
    try:
        system.start()
        file = tmp_path_factory.mktemp("account") / "account.jsonl"
        source = Source(system, system.create_merchant("Loja que muda"), file)
        with receiving() as url:
            system.json("webhook", "set", source.account_id, url)
            source.do_business()
            asyncio.run(source.add_logo())
            early = system.quita("account", "export", source.account_id, str(file))
            assert early.returncode == 1
            assert "block it first" in early.stderr

            def ended() -> bool:
                done = asyncio.run(_under_way(system.owner_url, source.account_id))
                return done == 0

            source.block_once(ended)
        done = system.quita("account", "export", source.account_id, str(file), "--json")
        assert done.returncode == 0, done.stderr
        yield source
        assert system.stop() == 0
    finally:
        if system.running():
            system.kill()
        remove_home(system.home)


async def _under_way(owner_url: str, account_id: str) -> int:
    conn = await asyncpg.connect(owner_url)
    try:
        return int(await conn.fetchval(
            "SELECT (SELECT count(*) FROM bank_order WHERE account_id = $1::uuid)"
            " + (SELECT count(*) FROM refund WHERE account_id = $1::uuid AND status = 'pending')"
            " + (SELECT count(*) FROM webhook_delivery_open WHERE account_id = $1::uuid)"
            " + (SELECT count(*) FROM withdrawal WHERE account_id = $1::uuid AND status IN ('pending', 'processing'))",
            account_id,
        ))  # fmt: skip
    finally:
        await conn.close()


@pytest.fixture
async def target(servers: Any, source: Source) -> AsyncIterator[Target]:
    async with own_database(servers, "target") as url:
        yield Target(url, owner_of(servers, url), source.system.secret_key.hex())


async def test_an_imported_account_gives_the_same_answers_as_at_its_source_to_the_byte(
    source: Source, target: Target, servers: Any, tmp_path: Path
) -> None:
    done = target.quita("account", "import", str(source.file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert rows["charge"] == 6
    assert {
        "journal", "boleto", "payment", "refund", "withdrawal", "idempotency", "credential", "access_token",
        "dashboard_user", "account_clock", "webhook_endpoint", "webhook_delivery", "webhook_attempt", "bank_order_done",
    } <= rows.keys(), "rows of every kind"  # fmt: skip
    assert await verify(target.url) == [], "books and hash chain must be consistent"
    conn = await asyncpg.connect(target.owner_url)
    assert await conn.fetchval("SELECT image FROM merchant_logo") == source.logo.image
    await conn.close()
    await _fold(target.url)
    assert await verify(target.url) == [], "the totals computed from them must be consistent"
    with api_process(
        servers, tmp_path, DATABASE_URL=target.url, SECRET_KEY=target.secret_key, BASE_URL=source.system.base_url,
        APP_URL=source.system.app_url, DOCS_URL=source.system.docs_url, BANK_URL=source.system.bank_url,
    ) as api:  # fmt: skip
        for mode in ("test", "production"):
            there = Client(api.base_url, source.merchant[mode]).seen(source.account_id)
            assert there.keys() == source.seen[mode].keys()
            for path, seen in source.seen[mode].items():
                assert there[path] == seen, path
        _assert_promises_are_kept(api, source)
    assert await verify(target.url) == []


async def _fold(url: str) -> None:
    """Folds the totals and seals the hash chain, as a worker does every second."""
    conn = await connect(url)
    try:
        for _ in range(20):
            horizon = await wait_for_horizon(conn)
            assert horizon is not None
            async with conn.transaction():
                if not max(await fold_up_to(conn, horizon) or 0, await extend_seals(conn, horizon)):
                    break
        assert await conn.fetchval("SELECT count(*) FROM seal") > 0
        assert await conn.fetchval("SELECT sum(charges) FROM report_cohort") is not None
    finally:
        await conn.close()


def _assert_promises_are_kept(api: ApiProcess, source: Source) -> None:
    """Asserts that an idempotency key of the source replays at the target, and that the account arrives blocked."""
    client = Client(api.base_url, source.merchant["test"])
    again = client.post(
        "/v1/charges/pix",
        {"account_id": source.account_id, "amount": "40.00", "external_id": "pedido-7", "metadata": {"a": "ç"}},
        key=source.key,
    )
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (200, "true")
    refused = Client(api.base_url, source.merchant["production"]).post(
        "/v1/charges/pix", {"account_id": source.account_id, "amount": "1.00"}
    )
    assert refused.json()["error"]["code"] == "KYC_REQUIRED", (
        "the account must arrive blocked, so that it does not run in both places"
    )


async def test_an_account_that_exists_is_not_imported_again(source: Source, target: Target) -> None:
    assert target.quita("account", "import", str(source.file)).returncode == 0
    rows = await target.rows()
    again = target.quita("account", "import", str(source.file))
    assert again.returncode == 1
    assert "the account is there already" in again.stderr
    assert await target.rows() == rows


def _cut(lines: list[str]) -> list[str]:
    return lines[:-1]


def _another_amount(lines: list[str]) -> list[str]:
    return [line.replace('"amount_cents": 4000', '"amount_cents": 4001') for line in lines]


def _another_reference(lines: list[str]) -> list[str]:
    """Changes a text that no sum covers."""
    return [line.replace("pedido-7", "pedido-8") for line in lines]


def _without_a_payment(lines: list[str]) -> list[str]:
    at = next(number for number, line in enumerate(lines) if line.startswith('{"table":"payment"'))
    return lines[:at] + lines[at + 1 :]


@pytest.mark.parametrize("spoil", [_cut, _another_amount, _another_reference, _without_a_payment])
@pytest.mark.parametrize("sealed_again", [False, True], ids=["old digest", "matching digest"])
async def test_a_file_that_was_changed_imports_nothing(
    source: Source, target: Target, tmp_path: Path, spoil: Callable[[list[str]], list[str]], sealed_again: bool
) -> None:
    lines = spoil(source.file.read_text(encoding="utf-8").splitlines(keepends=True))
    if sealed_again:
        lines = _with_matching_digest(lines)
    spoilt = tmp_path / "spoilt.jsonl"
    spoilt.write_text("".join(lines), encoding="utf-8")
    done = target.quita("account", "import", str(spoilt))
    assert done.returncode == 1
    assert "nothing was changed" in done.stderr
    assert await target.rows() == 0


def _with_matching_digest(lines: list[str]) -> list[str]:
    """Replaces the digest and the row counts by matching ones, as a forger who knows the format would."""
    from collections import Counter
    from hashlib import sha256

    if not lines[-1].startswith('{"end"'):
        return lines
    body = "".join(lines[:-1])
    end = json.loads(lines[-1])
    end["end"]["sha256"] = sha256(body.encode()).hexdigest()
    end["end"]["rows"] = dict(Counter(json.loads(line)["table"] for line in lines[1:-1]))
    return [*lines[:-1], json.dumps(end) + "\n"]


async def test_an_import_without_the_secret_key_of_the_source_imports_nothing(source: Source, target: Target) -> None:
    for key in (secrets.token_hex(32), f"7:{target.secret_key}", f"1:{target.secret_key},2:{secrets.token_hex(32)}"):
        done = target.quita("account", "import", str(source.file), SECRET_KEY=key)
        assert done.returncode == 1
        assert "SECRET_KEY" in done.stderr
    assert await target.rows() == 0
    more = target.quita(
        "account", "import", str(source.file), SECRET_KEY=f"2:{secrets.token_hex(32)},1:{target.secret_key}"
    )
    assert more.returncode == 0, "an additional newer key must not matter"


def test_the_file_shows_no_secret_and_only_its_owner_can_read_it(source: Source) -> None:
    assert source.file.stat().st_mode & 0o777 == 0o600
    text = source.file.read_text(encoding="utf-8")
    for secret in ("Maria da Silva", "52998224725", source.merchant["test"]["client_secret"], "whsec_"):
        assert secret not in text, secret


def test_an_export_does_not_overwrite_an_existing_file(source: Source) -> None:
    before = source.file.read_bytes()
    done = source.system.quita("account", "export", source.account_id, str(source.file))
    assert done.returncode == 1
    assert "is there already" in done.stderr
    assert source.file.read_bytes() == before


def test_every_table_with_an_account_is_either_exported_derived_or_left_behind() -> None:
    blocks = re.findall(r"^CREATE TABLE (\w+) \((.*?)^\)", SCHEMA.read_text(encoding="utf-8"), re.S | re.M)
    of_an_account = {name for name, columns in blocks if re.search(r"^ +account_id uuid", columns, re.M)}
    derived = {"read_event", *READ, *(name for name in of_an_account if name.startswith(("report_", "span_")))}
    stays = {"access_link", "bank_order", "mail", "mail_request", "request_log"}
    assert of_an_account - derived - stays == set(TABLES) & of_an_account
