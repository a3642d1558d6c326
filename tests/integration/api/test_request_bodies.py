"""The request log keeps the bodies of sandbox writes redacted: their shape, for debugging, without payer data."""

import json
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import msgspec
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

import api.request_log as request_log
from api.body.reading import read_object
from api.body.redaction import REDACTABLE_BYTES_MAX, REDACTED_BYTES_MAX, redacted_answer, redacted_body
from api.request_log import BODIES_MAX, LoggedRequest, RequestLog
from commands.payers.erase import erase_payer
from commands.people.audit import Origin
from domain.errors import Code, Refused
from domain.mode import Mode, Owner
from runtime.ids import new_id
from runtime.postgres import Pool
from tests.integration.api.test_request_log import LIST, _asked, _caller, _write_log, written_when_asked
from tests.support.counting import calls_made
from tests.support.dashboard import Person, colleague_in_browser, owner_in_browser, settings_with
from tests.support.in_process import Api
from tests.support.pages import serving

__all__ = ["written_when_asked"]

TEST = "/painel/teste/requisicoes"
PAYER = {
    "nome": "Maria Aparecida Guimarães", "documento": "529.982.247-25", "tipoPessoa": "PESSOA_FISICA",
    "cep": "01310100", "logradouro": "Avenida Paulista", "numero": "1578", "cidade": "São Paulo", "uf": "SP",
    "email": "maria.guimaraes@example.com", "telefone": "+5511987654321", "Nome completo": "Maria Guimarães",
    "529.982.247-25": "Maria", "documnto": 52998224725, "apelidos": ["Cida", {"x": "Guimarães"}],
}  # fmt: skip
PAYER_WORDS = (
    "Maria", "Aparecida", "Guimar", "Cida", "52998224725", "529.982", "01310100", "Paulista", "Avenida", "1578",
    "Paulo", "SP", "maria.guimaraes", "example.com", "98765",
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), settings_with()) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def owner(address: str, api: Api) -> AsyncIterator[Person]:
    async with owner_in_browser(address, api.first) as person:
        yield person


def boleto(**more: Any) -> dict[str, Any]:
    due = (datetime.now(UTC) + timedelta(days=9)).date().isoformat()
    return {"tipo": "boleto", "valorCents": "150.00", "dataVencimento": due, "pagador": PAYER, **more}


async def bodies(pool: Pool, request_id: str | None) -> tuple[str | None, str | None]:
    row = await pool.fetchrow("SELECT sent, answered FROM request_log WHERE request_id = $1", request_id)
    assert row is not None
    return row["sent"], row["answered"]


async def test_a_refused_sandbox_request_is_logged_with_redacted_bodies_without_payer_data(
    api: Api, owner: Person, pool: Pool
) -> None:
    token = await api.token()
    reply = await api.post("/v1/charges/boleto", boleto(external_id="nf-77"), token=token, key=secrets.token_hex(4))
    assert reply.status == 400, "a document with dots is refused"
    await _write_log(api)
    sent, answered = await bodies(pool, reply.header("x-request-id"))
    assert sent is not None
    assert answered is not None
    request_id = str(reply.header("x-request-id"))
    for word in PAYER_WORDS:
        assert word not in sent, word
        assert word not in answered.replace("https://docs.example.com", "").replace(request_id, ""), word
    told = json.loads(sent)
    assert {name: told[name] for name in ("tipo", "valorCents", "external_id")} == {
        "tipo": "boleto", "valorCents": "150.00", "external_id": "nf-77",
    }  # fmt: skip
    assert told["pagador"]["documento"] == "999.999.999-99", "the dots, which caused the refusal, must stay visible"
    assert told["pagador"]["tipoPessoa"] == "PESSOA_FISICA"
    assert told["pagador"]["nome"] == "Aaaaa Aaaaaaaaa Aaaaaaaaa"
    error = json.loads(answered)["error"]
    assert error["code"] == "VALIDATION_ERROR"
    assert "pagador.documento" in [each["field"] for each in error["fields"]]
    page = await owner.opened(f"{TEST}/{request_id}")
    assert '"documento": "999.999.999-99"' in page.text
    assert "pagador.documento" in page.text
    html = page.html
    for chance in (request_id, api.first.test.client_id, *page.hidden().values()):  # may hold SP or 1578
        html = html.replace(chance, "")
    for word in PAYER_WORDS[:12]:
        assert word not in html, word


async def test_a_successful_sandbox_request_is_logged_too_and_the_api_serves_its_bodies_by_id(
    api: Api, pool: Pool
) -> None:
    token = await api.token()
    body = api.pix(payer={"name": "Ana Prado", "document": "52998224725"}, metadata={"cart": "c-1"})
    made = await api.post("/v1/charges/pix", body, token=token, key=secrets.token_hex(4))
    paid = await api.post(f"/v1/charges/{made.json()['charge_id']}/simulate-payment", None, token=token)
    await _write_log(api)
    one = (await api.get(f"/v1/requests/{made.header('x-request-id')}", token=token)).json()
    sent, answered = json.loads(one["request_body"]), json.loads(one["response_body"])
    assert sent["payer"] == {"name": "Aaa Aaaaa", "document": "99999999999"}
    assert sent["metadata"] == {"cart": "a-9"}
    assert (answered["charge_id"], answered["status"]) == (made.json()["charge_id"], "pending")
    assert made.json()["public_id"] not in one["response_body"], (
        "public_id opens the payer's page and must not be logged"
    )
    assert made.json()["pix"]["qr_code"] not in one["response_body"]
    done = (await api.get(f"/v1/requests/{paid.header('x-request-id')}", token=token)).json()
    assert done["request_body"] == "(0 bytes)"
    assert json.loads(done["response_body"])["status"] == "paid"
    assert one.keys() - (await api.get("/v1/requests?limit=1", token=token)).json()["data"][0].keys() == {
        "request_body", "response_body",
    }, "lists must not carry the bodies"  # fmt: skip


async def test_production_bodies_are_neither_logged_nor_redacted(
    api: Api, owner: Person, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> str:
        raise AssertionError("production is never redacted")

    token = await api.token(mode="production")
    monkeypatch.setattr(request_log, "redacted_body", refuse)
    monkeypatch.setattr(request_log, "redacted_answer", refuse)
    made = await api.post("/v1/charges/pix", api.pix(), token=token, key=secrets.token_hex(4))
    wrong = await api.post("/v1/charges/boleto", boleto(), token=token, key=secrets.token_hex(4))
    assert (made.status, wrong.status) == (201, 400)
    await _write_log(api)
    for reply in (made, wrong):
        assert await bodies(pool, reply.header("x-request-id")) == (None, None)
        assert "O que foi enviado" not in (await owner.opened(f"{LIST}/{reply.header('x-request-id')}")).text
        one = (await api.get(f"/v1/requests/{reply.header('x-request-id')}", token=token)).json()
        assert (one["request_body"], one["response_body"]) == (None, None)


async def test_the_database_refuses_bodies_of_production_requests(table_owner: Pool) -> None:
    insert = (
        "INSERT INTO request_log (account_id, test, at, request_id, client_id, method, path, status, duration_us, sent)"
        " VALUES ($1, false, now(), 'req_x', 'c', 'POST', '/', 200, 1, '{}')"
    )
    with pytest.raises(asyncpg.CheckViolationError):
        await table_owner.execute(insert, new_id())


async def test_logging_a_production_request_costs_no_more_calls_than_logging_a_read(pool: Pool) -> None:
    """Production does not take the branch that keeps bodies."""
    log, caller, sandbox = RequestLog(pool), _caller(new_id()), _caller(new_id(), test=True)
    log.add(_asked(caller))  # The first row starts the task that writes.
    plain = [_asked(caller) for _ in range(100)]
    kept = [_asked(sandbox) for _ in range(100)]

    def note(requests: list[LoggedRequest], *bodies: Any) -> int:
        def add() -> None:
            for each in requests:
                log.add(each, *bodies)

        return calls_made(add)

    reads = [_asked(sandbox) for _ in range(100)]
    production, read, test = note(plain), note(reads), note(kept, {}, b"{}")
    log._rows.clear()
    await log.close()
    assert production == read < test


async def test_an_unreadable_or_long_body_is_logged_as_its_size(api: Api, pool: Pool) -> None:
    token, long = await api.token(), boleto(descricao="x" * REDACTABLE_BYTES_MAX)
    broken = await api.post("/v1/charges/pix", b'{"documento": 52998224725,', token=token, key="k")
    large = await api.post("/v1/charges/boleto", long, token=token, key="k")
    looked = await api.get("/v1/charges?limit=1", token=token)
    await _write_log(api)
    assert (await bodies(pool, broken.header("x-request-id")))[0] == "(26 bytes)"
    told = (await bodies(pool, large.header("x-request-id")))[0]
    assert told is not None
    assert told.endswith(" bytes)")
    assert await bodies(pool, looked.header("x-request-id")) == (None, None), "a read has no bodies in the log"


async def test_a_flood_keeps_only_the_first_bodies_and_refusals_have_a_share_of_their_own(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "BODIES_MAX", 30)
    monkeypatch.setattr(request_log, "BODIES_WAITING_MAX", 50)
    log, caller = RequestLog(pool), _caller(new_id(), test=True)
    refused = Refused(Code.VALIDATION_ERROR)

    def add(count: int, **more: Any) -> int:
        rows = len(log._rows)
        for _ in range(count):
            log.add(_asked(caller)._replace(**more), {"amount": "1"}, b"{}")
        return sum(each.sent is not None for each in log._rows[rows:])

    assert add(100) == 30
    assert add(100, refused=refused) == 20, "no more bodies may wait in memory"
    await log._write()
    assert add(100, refused=refused) == 10
    await log.close()
    kept = "SELECT count(*) FROM request_log WHERE account_id = $1 AND sent IS NOT NULL"
    assert await pool.fetchval(kept, caller.account_id) == 60
    assert await pool.fetchval("SELECT count(*) FROM request_log WHERE account_id = $1", caller.account_id) == 300
    assert BODIES_MAX >= 1_000


async def test_only_owner_and_developer_read_logged_bodies(api: Api, address: str, pool: Pool) -> None:
    reply = await api.post("/v1/charges/pix", {}, token=await api.token(), key="k")
    await _write_log(api)
    path = f"{TEST}/{reply.header('x-request-id')}"
    for role, status in (("developer", 200), ("finance", 403), ("support", 403)):
        async with colleague_in_browser(pool, address, api.first, role) as colleague:
            seen = await colleague.get(path)
            assert (seen.status, "O que foi enviado" in seen.text) == (status, status == 200), role
    other = await api.get(f"/v1/requests/{reply.header('x-request-id')}", token=await api.token(api.second))
    assert (other.status, other.code()) == (404, "REQUEST_NOT_FOUND")


async def test_after_an_erasure_the_log_holds_no_value_of_the_payer(api: Api, pool: Pool) -> None:
    token, context = await api.token(), api.app.state.context
    name, document = f"Zuleica {secrets.token_hex(4)}", "11144477735"
    given = {
        "name": name,
        "document": document,
        "email": f"{secrets.token_hex(6)}@mail.example",
        "phone": "+5511912345678",
    }
    replies = [
        await api.post("/v1/charges/pix", api.pix(payer=given, amount=amount), token=token, key=secrets.token_hex(4))
        for amount in ("10.00", "0")
    ]
    assert [reply.status for reply in replies] == [201, 400]
    paid = await api.post(f"/v1/charges/{replies[0].json()['charge_id']}/simulate-payment", None, token=token)
    assert paid.status == 200
    await _write_log(api)
    async with pool.acquire() as conn:
        erased = await erase_payer(
            conn, Owner(api.first.account_id, Mode.SANDBOX), context.seal.blind(document), "asked",
            Origin("equipe@example.com", "", "req_x"), now=datetime.now(UTC),
        )  # fmt: skip
    assert erased.charges == 1
    lines = "SELECT count(*) FROM request_log t WHERE request_id = ANY($1)"
    ids = [reply.header("x-request-id") for reply in (*replies, paid)]
    assert await pool.fetchval(f"{lines} AND sent IS NOT NULL", ids) == 3
    for value in (*given.values(), name.partition(" ")[2], "Zuleica"):
        assert await pool.fetchval(f"{lines} AND t::text LIKE '%' || $2 || '%'", ids, value) == 0, value


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=30,
).filter(lambda each: isinstance(each, dict)))  # fmt: skip
def test_every_readable_body_is_redacted_to_bounded_storable_text(body: Any) -> None:
    raw = json.dumps(body, ensure_ascii=True).encode()
    try:
        read = read_object(raw)
    except Refused:
        return
    for told in (redacted_body(read), redacted_answer(msgspec.json.encode({"error": {"code": "X"}}))):
        assert len(told) <= REDACTED_BYTES_MAX
        assert "\0" not in told
        told.encode("utf-8")


def test_redaction_costs_a_constant_number_of_calls_per_unknown_name() -> None:
    """The event loop answers nobody while a batch of bodies is redacted."""
    few, many = (calls_made(partial(redacted_body, {str(name): 1 for name in range(count)})) for count in (100, 1_000))
    assert many < 11 * few


def test_deep_wide_and_long_bodies_are_cut_and_leak_no_name() -> None:
    deep: Any = "Maria"
    for _ in range(100):
        deep = {"pagador": deep}
    wide = {f"campo_{number}": "Maria" for number in range(3_000)}
    for body in (
        deep,
        wide,
        {"pagador": ["Maria"] * 3_000},
        {"amount": "9" * 100_000},
        {"amount": 10**300},
        {"x": 10**5_000},
    ):
        told = redacted_body(body)
        assert len(told) <= REDACTED_BYTES_MAX
        assert "Maria" not in told
