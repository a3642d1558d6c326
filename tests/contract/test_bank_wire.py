"""The adapter of Banco do Brasil and the simulated bank agree on the wire format of the API Pix, over real HTTP."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jws
from joserfc.errors import BadSignatureError
from joserfc.jwk import ECKey, KeySet

from banks.banco_do_brasil.adapter import BancoDoBrasil
from banks.banco_do_brasil.text import safe_text
from banks.lists import TooWide
from banks.protocol import Cob, CobState, Done, Location, NotFound, Rejected, Unknown
from banks.simulated.bank import PlayedFault
from runtime.ids import new_id
from runtime.postgres import Pool
from tests.support.bank_lists import received
from tests.support.banking import CLIENT, RunningBank, adapter_at, running_bank, utc_now
from tests.support.br_code_reader import parse_br_code
from tests.support.listening import listening


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bank(pool: Pool) -> AsyncIterator[RunningBank]:
    async with running_bank(pool, slow_s=0.3) as running:
        yield running


@pytest.fixture(autouse=True)
def bank_is_up(bank: RunningBank) -> None:
    bank.wire.fault = "up"
    bank.requests.clear()


async def new_cob(bank: Any, **fields: Any) -> Cob:
    made = await bank.pix.create_locations(1)
    assert isinstance(made, Done)
    given: dict[str, Any] = {
        "txid": new_id().hex, "amount_cents": 12345, "created_at": utc_now(), "expires_in_s": 3600,
        "location_id": made.value[0].location_id, "pix_key": str(new_id()),
    }  # fmt: skip
    return Cob(**(given | fields))


async def cobs_of(pool: Pool, txid: str) -> int:
    return int(await pool.fetchval("SELECT count(*) FROM simulated_cob WHERE txid = $1", txid))


# Calls that the bank accepts


async def test_a_cob_is_put_read_paid_and_removed(bank: RunningBank) -> None:
    adapter = bank.adapter()
    cob = await new_cob(
        adapter, description="Café & pão – nº 7 €", payer_name="João da Silva", payer_document="11144477735"
    )
    assert await adapter.pix.put_cob(cob) == Done(None)
    booked = await bank.bank.booked(cob.txid)
    assert booked is not None
    assert (booked.status, booked.revisao, booked.amount_cents) == ("ATIVA", 0, 12345)
    assert booked.description == "Cafe & pao no 7"
    assert abs(booked.expires_in_s - 3600) <= 2
    payer = bank.bank.payer(booked)
    assert payer is not None
    assert (payer.name, payer.document) == ("Joao da Silva", "11144477735")

    assert await adapter.pix.put_cob(cob) == Done(None)
    again = await bank.bank.booked(cob.txid)
    assert again is not None
    assert (again.revisao, again.created_at) == (0, booked.created_at)  # putting it again leaves the charge unchanged

    status, paid = await bank.control("pay", txid=cob.txid)
    assert status == 200
    (payment,) = paid["payments"]
    state = await adapter.pix.get_cob(cob.txid)
    assert isinstance(state, CobState)
    assert state.status == "CONCLUIDA"
    (received,) = state.received
    assert (received.end_to_end_id, received.txid, received.amount_cents) == (
        payment["end_to_end_id"],
        cob.txid,
        12345,
    )
    assert len(received.end_to_end_id) == 32
    assert received.payer_document == "00000000191"
    assert received.paid_at == datetime.fromisoformat(payment["paid_at"])
    assert isinstance(await adapter.pix.remove_cob(cob.txid), Rejected)

    other = await new_cob(adapter)
    await adapter.pix.put_cob(other)
    assert await adapter.pix.remove_cob(other.txid) == Done(None)
    assert await adapter.pix.remove_cob(other.txid) == Done(None)
    assert isinstance(await adapter.pix.put_cob(other), Rejected)
    unknown_txid = new_id().hex
    assert await adapter.pix.remove_cob(unknown_txid) == NotFound()
    assert await adapter.pix.get_cob(unknown_txid) == NotFound()


async def test_the_simulated_bank_pays_only_a_cob_that_is_registered_active_and_not_expired(bank: RunningBank) -> None:
    adapter = bank.adapter()
    cob = await new_cob(adapter)
    paying = asyncio.create_task(bank.control("pay", txid=cob.txid, amount="1.50", times=3))
    await asyncio.sleep(0.2)  # not registered yet: the control call waits
    await adapter.pix.put_cob(cob)
    status, answer = await paying
    assert status == 200
    assert [each["amount"] for each in answer["payments"]] == ["1.50"] * 3
    assert len({each["end_to_end_id"] for each in answer["payments"]}) == 3
    status, answer = await bank.control("pay", txid=cob.txid)
    assert status == 409
    assert "CONCLUIDA" in answer["message"]
    assert (await bank.control("pay", txid=cob.txid, force=True))[0] == 200

    late = await new_cob(adapter, created_at=utc_now() - timedelta(hours=2))
    await adapter.pix.put_cob(late)  # one second is left
    await asyncio.sleep(1.1)
    assert (await bank.control("pay", txid=late.txid))[0] == 409
    assert (await bank.control("pay", txid=late.txid, force=True))[0] == 200
    for wrong in (
        {},
        {"txid": "x", "charge_id": str(new_id())},
        {"charge_id": "7"},
        {"txid": cob.txid, "times": 0},
    ):
        assert (await bank.control("pay", **wrong))[0] == 400


async def test_the_list_of_received_pix_is_complete_over_pages_and_windows(bank: RunningBank) -> None:
    adapter = bank.adapter()
    cob = await new_cob(adapter)
    await adapter.pix.put_cob(cob)
    since = utc_now() - timedelta(seconds=1)
    for _ in range(3):
        await bank.control("pay", txid=cob.txid, times=80, force=True)
    bank.requests.clear()
    answer = await received(adapter.pix, since - timedelta(days=7), utc_now() + timedelta(seconds=2))
    assert isinstance(answer, Done)
    assert len([pix for pix in answer.value if pix.txid == cob.txid]) == 240
    lists = [each for each in bank.requests if each == "GET /pix/v2/pix"]
    assert len(lists) >= 4  # seven days are two windows; the second has three pages or more
    empty = await received(adapter.pix, datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC))
    assert empty == Done([])


async def test_an_interval_with_too_many_pix_is_too_wide_and_a_failed_call_is_unknown(bank: RunningBank) -> None:
    adapter = bank.adapter()
    cob = await new_cob(adapter)
    await adapter.pix.put_cob(cob)
    for _ in range(2):
        await bank.control("pay", txid=cob.txid, times=80, force=True)
    interval = utc_now() - timedelta(minutes=5), utc_now() + timedelta(minutes=1)
    bank.wire.pages_max = 1
    try:
        assert isinstance(await adapter.pix.received_page(*interval), TooWide)
        bank.wire.fault = "error500"
        assert isinstance(await adapter.pix.received_page(*interval), Unknown)
    finally:
        bank.wire.fault, bank.wire.pages_max = "up", 1_000
    assert isinstance(await adapter.pix.received_page(*interval), Done)


@pytest.mark.parametrize("quirk", ["textoImagemQRcode", "put_200"])
async def test_known_quirks_of_the_real_bank_do_not_change_the_result(pool: Pool, quirk: str) -> None:
    async with running_bank(pool, quirks=frozenset({quirk})) as bank:
        adapter = bank.adapter()
        cob = await new_cob(adapter)
        assert isinstance(await adapter.pix.put_cob(cob), Done)


# Unknown is not a refusal


async def test_after_a_lost_reply_the_adapter_reads_the_cob_and_reports_done(bank: RunningBank, pool: Pool) -> None:
    adapter = bank.adapter()
    cob = await new_cob(adapter)
    bank.wire.fault = "lost_reply"
    bank.requests.clear()
    put = await adapter.pix.put_cob(cob)
    assert isinstance(put, Done)
    assert bank.requests[-1] == f"GET /pix/v2/cob/{cob.txid}"
    assert await cobs_of(pool, cob.txid) == 1
    assert await adapter.pix.remove_cob(cob.txid) == Done(None)


async def test_every_call_to_a_bank_that_is_down_is_unknown_and_the_same_txid_works_later(
    bank: RunningBank, pool: Pool
) -> None:
    adapter = bank.adapter()
    cob = await new_cob(adapter)
    assert (await bank.control("fault", fault="down")) == (200, {"fault": "down"})
    assert isinstance(await adapter.pix.put_cob(cob), Unknown)
    assert isinstance(await adapter.pix.get_cob(cob.txid), Unknown)
    assert isinstance(await adapter.pix.remove_cob(cob.txid), Unknown)
    assert isinstance(await adapter.pix.create_locations(2), Unknown)
    assert isinstance(await received(adapter.pix, utc_now() - timedelta(hours=1), utc_now()), Unknown)
    assert isinstance(await adapter.pix.register_callback("k", "http://x.example"), Unknown)
    assert (await bank.bank.fault()).fault == "down"  # stored in the bank's books: it survives a restart
    await bank.control("fault", fault="up")
    assert isinstance(await adapter.pix.put_cob(cob), Done)
    assert await cobs_of(pool, cob.txid) == 1
    assert (await bank.control("fault", fault="on fire"))[0] == 400


async def test_a_slow_simulated_bank_delays_each_answer_by_the_set_milliseconds(
    bank: RunningBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[int] = []  # how many requests had arrived whenever locations were made
    make = bank.bank.create_locations

    async def count_and_make(count: int) -> Done[list[Location]]:
        arrived.append(len(bank.requests))
        return await make(count)

    adapter = bank.adapter()
    await adapter.pix.create_locations(1)  # also fetches the token
    loop = asyncio.get_running_loop()
    try:
        assert await bank.control("fault", fault="slow", ms=200) == (200, {"fault": "slow", "ms": 200})
        assert await bank.bank.fault() == PlayedFault("slow", 200)
        monkeypatch.setattr(bank.bank, "create_locations", count_and_make)
        before, began = len(bank.requests), loop.time()
        made = await adapter.pix.create_locations(20)
        assert isinstance(made, Done)
        assert len({each.location for each in made.value}) == 20
        assert loop.time() - began >= 0.2
        assert arrived[0] > before + 1, "the calls run at once, not one after the other"
        for wrong in ({"fault": "down", "ms": 200}, {"fault": "slow", "ms": 0}, {"fault": "slow", "ms": "200"}):
            assert (await bank.control("fault", **wrong))[0] == 400
    finally:
        await bank.control("fault", fault="up")


async def test_cobs_put_concurrently_get_each_its_own_answer(bank: RunningBank, pool: Pool) -> None:
    adapter = bank.adapter()
    cobs = [await new_cob(adapter) for _ in range(10)]
    wrong = Cob(
        **{**{f: getattr(cobs[0], f) for f in Cob.__struct_fields__}, "txid": new_id().hex, "location_id": 2**60}
    )
    *answers, again, refused = await asyncio.gather(*(adapter.pix.put_cob(cob) for cob in [*cobs, cobs[0], wrong]))
    assert [*answers, again] == [Done(None)] * 11  # the adapter takes no answer about another cob
    assert isinstance(refused, Rejected)


async def test_an_answer_after_the_timeout_is_unknown_and_a_slow_answer_within_it_counts(bank: RunningBank) -> None:
    cob = await new_cob(bank.adapter())
    bank.wire.fault = "slow"
    assert isinstance(await bank.adapter(read_s=0.1, write_s=0.1).pix.put_cob(cob), Unknown)
    assert isinstance(await bank.adapter().pix.put_cob(cob), Done)


async def test_a_refusal_of_the_bank_is_rejected_with_its_code_and_reason(bank: RunningBank, pool: Pool) -> None:
    adapter = bank.adapter()
    cob = await new_cob(adapter)
    bank.wire.fault = "refuse"
    assert await adapter.pix.put_cob(cob) == Rejected("CobOperacaoInvalida", "Recusada a pedido.")
    bank.wire.fault = "up"
    assert isinstance(await adapter.pix.put_cob(await new_cob(adapter, amount_cents=0)), Rejected)
    taken = await new_cob(adapter)
    await adapter.pix.put_cob(taken)
    assert isinstance(await adapter.pix.put_cob(await new_cob(adapter, location_id=taken.location_id)), Rejected)
    assert await cobs_of(pool, cob.txid) == 0


async def test_wrong_credentials_of_ours_are_unknown_and_never_fail_a_charge(
    bank: RunningBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong application key or secret, or a scope we lack, is our fault, not the charge's: the call is retried once
    it is corrected."""
    cob = await new_cob(bank.adapter())
    assert isinstance(await bank.adapter(app_key="outra").pix.put_cob(cob), Unknown)
    assert isinstance(await bank.adapter(app_key_param="gw-app-key").pix.put_cob(cob), Unknown)
    assert isinstance(await bank.adapter(client_secret="errado").pix.put_cob(cob), Unknown)
    issue = bank.wire._issue
    with monkeypatch.context() as patched:
        patched.setattr(bank.wire, "_issue", lambda _, until: issue(["cob.read"], until))
        assert isinstance(await bank.adapter().pix.put_cob(cob), Unknown)
    monkeypatch.setattr("banks.simulated.wire.SCOPES", frozenset())
    assert await bank.adapter().pix.put_cob(cob) == Unknown("token: HTTP 400")


# Tokens


async def test_one_token_serves_many_calls_at_once_and_a_401_renews_it_once(bank: RunningBank) -> None:
    adapter = bank.adapter()
    cobs = [await new_cob(bank.bank) for _ in range(10)]
    await asyncio.gather(*(adapter.pix.put_cob(cob) for cob in cobs))
    assert bank.requests.count("POST /oauth/token") == 1
    bank.wire.forget_tokens()
    answers = await asyncio.gather(*(adapter.pix.get_cob(cob.txid) for cob in cobs))
    assert all(isinstance(answer, CobState) for answer in answers)
    assert bank.requests.count("POST /oauth/token") == 2


async def test_a_failed_token_renewal_fails_every_call_that_waits_for_it(bank: RunningBank) -> None:
    adapter = bank.adapter(client_secret="errado")
    for attempt in (1, 2):
        answers = await asyncio.gather(*(adapter.pix.get_cob("a" * 32) for _ in range(50)))
        assert set(answers) == {Unknown("token: HTTP 401")}
        assert bank.requests.count("POST /oauth/token") == attempt, "a later call requests a token again"


async def test_creating_many_locations_stops_after_one_failed_token_request(bank: RunningBank) -> None:
    assert await bank.adapter(client_secret="errado").pix.create_locations(200) == Unknown("token: HTTP 401")
    assert bank.requests.count("POST /oauth/token") == 1


async def test_a_short_lived_token_is_renewed_at_half_its_life(pool: Pool) -> None:
    async with running_bank(pool, token_life_s=2) as bank:
        adapter = bank.adapter()
        cob = await new_cob(bank.bank)
        await adapter.pix.put_cob(cob)
        await asyncio.sleep(1.1)
        assert isinstance(await adapter.pix.get_cob(cob.txid), CobState)
        assert bank.requests.count("POST /oauth/token") == 2
    async with running_bank(pool, token_life_s=0) as bank:
        # No token is ever valid: the adapter retries once, no more.
        assert isinstance(await bank.adapter().pix.get_cob(cob.txid), Unknown)
        assert bank.requests.count(f"GET /pix/v2/cob/{cob.txid}") == 2


async def test_the_simulated_bank_refuses_bad_requests_as_the_real_bank_does(bank: RunningBank) -> None:
    http = bank.http

    async def issue(scope: str, secret: str = CLIENT["client_secret"]) -> tuple[int, Any]:
        form = {"grant_type": "client_credentials", "scope": scope}
        headers = {"Authorization": aiohttp.encode_basic_auth("loja", secret)}
        async with http.post(f"{bank.url}/oauth/token", data=form, headers=headers) as answer:
            return answer.status, await answer.json()

    async def ask(path: str, bearer: str, **query: str) -> tuple[int, str, Any]:
        headers = {"Authorization": f"Bearer {bearer}"}
        async with http.get(f"{bank.url}/pix/v2{path}", headers=headers, params=query) as answer:
            return answer.status, answer.content_type, await answer.json(content_type=None)

    status, said = await issue("cob.read", "errado")
    assert (status, said["message"]) == (401, "Bad Credentials")
    for scope in ("", "cob.read cob.delete"):
        status, said = await issue(scope)
        assert (status, said["error"]) == (400, "invalid_scope")
    _, said = await issue("pix.read")
    bearer, key = said["access_token"], {"gw-dev-app-key": CLIENT["app_key"]}
    assert (await ask("/cob/x", "nothing", **key))[2]["statusCode"] == 401
    status, _, said = await ask("/cob/x", bearer)
    assert (status, set(said)) == (403, {"detail", "userHelp"})
    status, kind, said = await ask("/cob/x", bearer, **key)
    assert (status, kind) == (403, "application/problem+json")
    assert said["type"] == "https://pix.bcb.gov.br/api/v2/error/AcessoNegado"
    status, _, said = await ask("/pix", bearer, inicio="2026-01-01T00:00:00Z", fim="2026-01-06T00:00:01Z", **key)
    assert (status, said["violacoes"][0]["propriedade"]) == (400, "fim")
    assert (await ask("/pix/E0", bearer, **key))[2]["type"].endswith("/PixNaoEncontrado")


# Every shape of an error


@asynccontextmanager
async def bank_answering(status: int, body: str, kind: str = "application/json") -> AsyncIterator[BancoDoBrasil]:
    """A bank that issues tokens, finds nothing on GET /cob, and answers every other call with these bytes."""

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("/token"):
            return web.json_response({"access_token": "t", "expires_in": 600})
        if request.method == "GET":
            problem = {
                "type": "https://pix.bcb.gov.br/api/v2/error/CobNaoEncontrado",
                "title": "x",
                "status": 404,
            }
            return web.json_response(problem, status=404)
        return web.Response(text=body, status=status, content_type=kind)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with listening(app) as url, aiohttp.ClientSession() as http:
        yield adapter_at(http, url)


COB = Cob(
    txid="a" * 32, amount_cents=100, created_at=datetime(2026, 1, 1, tzinfo=UTC), expires_in_s=60, location_id=1,
    pix_key="k",
)  # fmt: skip
SHAPE_A = '{"erros":[{"codigo":"4678420","versao":"1","mensagem":"Campo invalido","ocorrencia":"-"}]}'
SHAPE_C = '{"statusCode":%d,"error":"x","message":"Bad Credentials","attributes":{"error":"Bad Credentials"}}'
SHAPE_G = (
    '{"type":"https://pix.bcb.gov.br/api/v2/error/CobOperacaoInvalida","title":"x","status":400,"detail":"d",'
    '"violacoes":[{"razao":"O valor é zero","propriedade":"cob.valor.original"}]}'
)
OK_OTHER = '{"txid":"%s","status":"ATIVA","valor":{"original":"%s"},"revisao":0}'


@pytest.mark.parametrize(
    ("status", "body", "kind", "wanted"),
    [
        (400, SHAPE_A, "application/json", Rejected("4678420", "Campo invalido")),
        (422, SHAPE_A, "application/json", Rejected("4678420", "Campo invalido")),
        (400, SHAPE_G, "application/problem+json", Rejected("CobOperacaoInvalida", "O valor é zero")),
        (401, SHAPE_C % 401, "application/json", Unknown),
        (404, SHAPE_C % 404, "application/json", Unknown),
        (400, '{"error":"invalid_scope","error_description":"x"}', "application/json", Unknown),
        (403, '{"detail":"AppKey invalida","userHelp":"x"}', "application/json", Unknown),
        (400, "<html><body>Pedido bloqueado</body></html>", "text/html", Unknown),
        (200, "<html><body>Em manutencao</body></html>", "text/html", Unknown),
        (429, SHAPE_A, "application/json", Unknown),
        (500, SHAPE_A, "application/json", Unknown),
        (503, SHAPE_G, "application/problem+json", Unknown),
        (400, '{"erros":[]}', "application/json", Unknown),
        (400, "[" * 100_000, "application/json", Unknown),
        (201, "", "application/json", Unknown),
        (201, OK_OTHER % ("b" * 32, "1.00"), "application/json", Unknown),
        (201, OK_OTHER % ("a" * 32, "1.01"), "application/json", Unknown),
        (201, OK_OTHER % ("a" * 32, "one"), "application/json", Unknown),
        (302, "", "text/html", Unknown),
    ],
)
async def test_only_a_well_formed_refusal_is_rejected_and_any_other_answer_is_unknown(
    status: int, body: str, kind: str, wanted: Any
) -> None:
    async with bank_answering(status, body, kind) as adapter:
        answer = await adapter.pix.put_cob(COB)
    if isinstance(wanted, Rejected):
        assert answer == wanted
    else:
        assert isinstance(answer, wanted)


async def test_a_refused_cob_that_is_registered_with_our_data_is_done(bank: RunningBank) -> None:
    """An earlier attempt, whose answer was lost, succeeded; the bank then refuses the txid because it exists."""
    adapter = bank.adapter()
    cob = await new_cob(adapter)
    await adapter.pix.put_cob(cob)
    bank.wire.fault = "refuse"
    assert isinstance(await adapter.pix.put_cob(cob), Done)


async def test_the_detail_of_an_unknown_answer_never_contains_the_application_key(bank: RunningBank) -> None:
    bank.wire.fault = "down"
    answer = await bank.adapter().pix.get_cob("a" * 32)
    assert isinstance(answer, Unknown)
    assert CLIENT["app_key"] not in answer.detail


# Locations


Fetch = Callable[[str], Awaitable[tuple[int, str, bytes]]]


@pytest.fixture
def fetch(bank: RunningBank) -> Fetch:
    async def get(url: str) -> tuple[int, str, bytes]:
        async with bank.http.get(url) as answer:
            return answer.status, answer.content_type, await answer.read()

    return get


async def test_a_location_answers_a_signed_payload_that_any_payers_bank_can_verify(
    bank: RunningBank, fetch: Fetch
) -> None:
    adapter = bank.adapter()
    made = await adapter.pix.create_locations(3)
    assert isinstance(made, Done)
    assert all(len(each.location) <= 77 and "://" not in each.location for each in made.value)
    location = made.value[0]
    status, kind, body = await fetch(f"http://{location.location}")
    assert (status, kind) == (404, "application/problem+json")
    assert json.loads(body)["type"].endswith("/CobPayloadNaoEncontrado")

    cob = await new_cob(adapter, location_id=location.location_id, description="Pedido 7")
    await adapter.pix.put_cob(cob)
    status, kind, token = await fetch(f"http://{location.location}")
    assert (status, kind) == (200, "application/jose")
    header = json.loads(base64.urlsafe_b64decode(token.split(b".")[0] + b"=="))
    assert header["alg"] == "ES256"
    _, kind, keys = await fetch(header["jku"])
    assert kind == "application/json"
    (key,) = (each for each in json.loads(keys)["keys"] if each["kid"] == header["kid"])

    verified = jws.deserialize_compact(token, KeySet.import_key_set(json.loads(keys)), algorithms=["ES256"])
    again = jws.deserialize_compact(token, public_key_of(key["x5c"][0]), algorithms=["ES256"])
    assert again.payload == verified.payload
    with pytest.raises(BadSignatureError):
        jws.deserialize_compact(token[:-4] + b"AAAA", public_key_of(key["x5c"][0]), algorithms=["ES256"])

    digest = hashlib.sha1(base64.b64decode(key["x5c"][0]), usedforsecurity=False).digest()
    assert header["x5t"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == key["x5t"]
    said = json.loads(verified.payload)
    assert (said["txid"], said["revisao"], said["status"], said["chave"]) == (
        cob.txid,
        0,
        "ATIVA",
        cob.pix_key,
    )
    assert said["valor"]["original"] == "123.45"
    assert set(said["calendario"]) == {"criacao", "apresentacao", "expiracao"}
    assert said["solicitacaoPagador"] == "Pedido 7"
    assert "devedor" not in said  # anyone who has the QR Code can read the payload


def public_key_of(certificate: str) -> ECKey:
    """The public key of a certificate in `x5c`."""
    key = x509.load_der_x509_certificate(base64.b64decode(certificate)).public_key()
    return ECKey.import_key(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


async def test_the_pix_copia_e_cola_of_the_simulated_bank_names_its_location(bank: RunningBank) -> None:
    adapter = bank.adapter()
    cob = await new_cob(adapter)
    assert await adapter.pix.put_cob(cob) == Done(None)
    booked = await bank.bank.booked(cob.txid)
    assert booked is not None
    shown = bank.wire.shown(booked)
    assert parse_br_code(shown["pixCopiaECola"])["26-25"] == booked.location


def test_texts_are_reduced_to_the_characters_and_length_the_bank_accepts() -> None:
    assert safe_text("Ação à vista: 50% já!", 140) == "Acao a vista 50 ja"
    assert safe_text("日本", 140) == ""
    assert len(safe_text("é" * 300, 140)) == 140
    assert safe_text("a" * 139 + " b", 140) == "a" * 139
