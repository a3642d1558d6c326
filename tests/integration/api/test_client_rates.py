"""Requests without an access token are rate-limited per client: tokens, payer pages, boletos, sign-in, files,
callbacks. The limits work without Redis, and do not affect other addresses."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest

from runtime.local.ports import free_port
from tests.support.api_process import ApiProcess, api_process, prepared_merchants
from tests.support.dashboard import owner_in_browser

CALLBACK_TOKEN = "c" * 24
LOW = {
    f"RATE_{name}_PER_MIN": "1"
    for name in ("TOKENS", "CLIENT_TOKENS", "PAGES", "PDFS", "SIGN_INS", "FILES", "CALLBACKS")
}
"""A burst of ten, then one a minute: a test sends its requests within that minute, also on a busy machine."""
LOW["RATE_SANDBOX_CHARGES_PER_DAY"] = "5"
MANY = 16

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 exists on Linux only")


@pytest.fixture(scope="module")
async def merchant(servers: Any) -> AsyncIterator[Any]:
    async with prepared_merchants(servers, 1) as made:
        yield made[0]


@pytest.fixture(scope="module")
def server(servers: Any, tmp_path_factory: Any) -> Iterator[ApiProcess]:
    """An API process whose Redis is unreachable."""
    away = f"redis://127.0.0.1:{free_port()}/0"
    given = {**LOW, "REDIS_URL": away, "BANK_CALLBACK_TOKEN": CALLBACK_TOKEN}
    with api_process(servers, tmp_path_factory.mktemp("api"), **given) as made:
        yield made


async def send_many(server: ApiProcess, method: str, path: str, address: str, **more: Any) -> list[httpx.Response]:
    transport = httpx.AsyncHTTPTransport(local_address=address)
    async with httpx.AsyncClient(base_url=server.base_url, transport=transport, timeout=30) as client:
        return [await client.request(method, path, **more) for _ in range(MANY)]


def statuses(answers: list[httpx.Response]) -> list[int]:
    return [answer.status_code for answer in answers]


def assert_limited(answers: list[httpx.Response], *, usual: int) -> httpx.Response:
    """Asserts that the first ten were answered `usual` and that 429 follows; returns the first 429."""
    found = statuses(answers)
    assert found[:10] == [usual] * 10, found
    assert 429 in found[10:12], found
    last = answers[found.index(429)]
    assert 1 <= int(last.headers["retry-after"]) <= 60
    return last


async def test_token_requests_are_limited_by_address_and_by_client(server: ApiProcess, merchant: Any) -> None:
    form = {"grant_type": "client_credentials", "client_id": "nobody", "client_secret": "x"}
    refused = assert_limited(await send_many(server, "POST", "/v1/oauth/token", "127.0.0.2", data=form), usual=401)
    assert refused.json()["error"] == "temporarily_unavailable"
    own = form | {"client_id": merchant.test.client_id, "client_secret": merchant.test.client_secret}
    assert_limited(await send_many(server, "POST", "/v1/oauth/token", "127.0.0.3", data=own), usual=200)
    # The client's rate is used up from every address; another client's is not.
    assert set(statuses(await send_many(server, "POST", "/v1/oauth/token", "127.0.0.4", data=own))) == {429}
    other = own | {"client_id": merchant.production.client_id, "client_secret": merchant.production.client_secret}
    assert 200 in statuses(await send_many(server, "POST", "/v1/oauth/token", "127.0.0.5", data=other))


async def test_token_requests_with_a_wrong_secret_do_not_use_up_the_clients_rate(
    servers: Any, server: ApiProcess
) -> None:
    async with prepared_merchants(servers, 1) as (merchant,):
        right = {"grant_type": "client_credentials", **msgspec.structs.asdict(merchant.test)}
        wrong = right | {"client_secret": "x"}
        assert 401 in statuses(await send_many(server, "POST", "/v1/oauth/token", "127.0.1.2", data=wrong))
        assert statuses(await send_many(server, "POST", "/v1/oauth/token", "127.0.1.3", data=right))[0] == 200


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/pagar/x", "127.0.0.2"),
        ("/pagar/x/estado", "127.0.0.3"),
        ("/pagar/x/boleto.pdf", "127.0.0.4"),
        ("/pix/v2/x", "127.0.0.5"),
        ("/pix/v2/cobv/x", "127.0.0.6"),
    ],
)
async def test_payer_pages_and_boletos_are_limited_by_address_and_refused_in_portuguese(
    server: ApiProcess, path: str, address: str
) -> None:
    refused = assert_limited(await send_many(server, "GET", path, address), usual=404)
    assert "Muitos pedidos em pouco tempo" in refused.text
    assert statuses(await send_many(server, "GET", path, address.replace(".0.0.", ".0.1.")))[0] == 404
    assert (await send_many(server, "GET", "/healthz", address))[-1].status_code == 200


async def test_sign_in_attempts_are_limited_by_address(server: ApiProcess) -> None:
    refused = assert_limited(
        await send_many(server, "POST", "/painel/entrar", "127.0.0.2", data={"email": "a"}), usual=403
    )
    assert "Muitos pedidos em pouco tempo" in refused.text
    assert (await send_many(server, "GET", "/painel/entrar", "127.0.0.2"))[-1].status_code == 200


async def test_bank_callbacks_with_the_right_token_are_limited_by_address(server: ApiProcess) -> None:
    path = f"/bank/{CALLBACK_TOKEN}/pix"
    refused = assert_limited(await send_many(server, "POST", path, "127.0.0.2", json={"pix": []}), usual=200)
    assert refused.json()["error"]["code"] == "RATE_LIMITED"
    assert set(statuses(await send_many(server, "POST", "/bank/x/pix", "127.0.0.2", json={}))) == {404}
    assert statuses(await send_many(server, "POST", path, "127.0.0.3", json={"pix": []}))[0] == 200


async def test_file_downloads_are_limited_by_account(server: ApiProcess, merchant: Any) -> None:
    async with owner_in_browser(server.base_url, merchant) as person:
        seen = [await person.get("/painel/cobrancas.csv") for _ in range(MANY)]
        assert [each.status for each in seen[:10]] == [200] * 10
        assert {each.status for each in seen[10:]} == {429}
        assert (await person.get("/painel/cobrancas")).status == 200


async def test_event_streams_are_bounded_per_address(server: ApiProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    from web.live import Live, TooManyStreams

    monkeypatch.setattr("web.live.PAGES_AN_ADDRESS_MAX", 3)
    live = Live(None, lambda: datetime.now(UTC))  # type: ignore[arg-type]
    live._looking = asyncio.create_task(asyncio.sleep(0))
    opened = [live.page(f"charge-{number}", address="a") for number in range(3)]
    for each in opened:
        await each.__aenter__()
    with pytest.raises(TooManyStreams):
        await live.page("charge-4", address="a").__aenter__()
    async with live.page("charge-4", address="b"):
        pass
    await opened.pop().__aexit__(None, None, None)
    async with live.page("charge-4", address="a"):
        pass
    for each in opened:
        await each.__aexit__(None, None, None)
    await live._looking


async def test_test_charges_are_limited_per_account_and_day_and_real_charges_are_not(
    server: ApiProcess, servers: Any
) -> None:
    transport = httpx.AsyncHTTPTransport(local_address="127.0.0.9")
    async with (
        prepared_merchants(servers, 1) as (own,),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=30, transport=transport) as client,
    ):

        async def create(mode: str, count: int) -> list[httpx.Response]:
            credential = getattr(own, mode)
            answer = await client.post(
                "/v1/oauth/token",
                data={"grant_type": "client_credentials"},
                auth=(credential.client_id, credential.client_secret),
            )
            return [
                await client.post(
                    "/v1/charges/pix",
                    headers={
                        "authorization": f"Bearer {answer.json()['access_token']}",
                        "idempotency-key": f"quota {number}",
                    },
                    json={"account_id": str(own.account_id), "amount": "1.00"},
                )
                for number in range(count)
            ]

        made = await create("test", 7)
        assert [each.status_code for each in made] == [201] * 5 + [429] * 2
        error = made[-1].json()["error"]
        assert (error["code"], error["request_id"]) == ("RATE_LIMITED", made[-1].headers["x-request-id"])
        assert 17_000 < int(made[-1].headers["retry-after"]) <= 17_280, "at most a fifth of a day"
        assert [each.status_code for each in await create("production", 6)] == [201] * 6
