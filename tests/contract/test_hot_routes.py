"""The routes that bypass the framework answer exactly as the framework's handlers do."""

import re
import secrets
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
import pytest_asyncio

from tests.support.in_process import Api, Reply, bearer, open_api

PIX = "/v1/charges/pix"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def ways(servers: Any) -> AsyncIterator[tuple[Api, Api]]:
    """The API as it is, and the API with every route left to the framework, over the same database."""
    async with open_api(servers.database_url, servers.redis_url) as hot:
        with patch("api.app.answer_hot_routes_first", lambda asgi, *_: asgi):
            opened = open_api(servers.database_url, servers.redis_url)
            plain = await opened.__aenter__()
        plain.first = hot.first
        yield hot, plain
        await opened.__aexit__(None, None, None)


def comparable(reply: Reply) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """The parts of an answer that do not differ from one request to the next."""
    masked = re.compile(rb"req_[\w-]+|[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z")
    ever = {b"ratelimit-remaining", b"ratelimit-reset", b"content-length", b"date", b"location"}
    headers = sorted((name, masked.sub(b"*", value)) for name, value in reply.headers if name not in ever)
    body = re.sub(rb'"(public_id|payment_url|qr_code|qr_code_image)":"[^"]*"', rb'"\1":"*"', reply.body)
    return reply.status, headers, masked.sub(b"*", body)


JSON = (b"content-type", b"application/json")


def creation(api: Api, **more: Any) -> bytes:
    return msgspec.json.encode(api.pix(**more))


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([JSON], {"amount": "12.34", "external_id": "as-sent"}),
        ([JSON], {"amount": 12}),
        ([JSON], {"amount": "12.34", "account_id": "00000000-0000-0000-0000-000000000000"}),
        ([], {"amount": "12.34"}),
        ([JSON, (b"content-length", b"999999999")], {"amount": "12.34"}),
    ],
    ids=["created", "refused field", "another account", "no type", "too large"],
)
async def test_a_creation_is_answered_alike_with_and_without_the_framework(
    ways: tuple[Api, Api], headers: list[tuple[bytes, bytes]], body: dict[str, Any]
) -> None:
    answers = []
    for api in ways:
        given = [*bearer(await api.token()), (b"idempotency-key", secrets.token_hex(8).encode()), *headers]
        answers.append(comparable(await api.ask("POST", PIX, headers=given, body=creation(api, **body))))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
@pytest.mark.parametrize(
    "last", ["{charge_id}", "{upper}", "00000000-0000-0000-0000-000000000000", "summary", "x" * 36, "a/" + "b" * 34, ""]
)
async def test_a_lookup_by_anything_in_place_of_an_id_is_answered_alike_with_and_without_the_framework(
    ways: tuple[Api, Api], method: str, last: str
) -> None:
    charge_id = (await ways[0].create())["charge_id"]
    path = "/v1/charges/" + last.format(charge_id=charge_id, upper=charge_id.upper())
    answers = [comparable(await api.ask(method, path, headers=bearer(await api.token()))) for api in ways]
    assert answers[0] == answers[1]


async def test_a_missing_token_is_answered_alike_with_and_without_the_framework(ways: tuple[Api, Api]) -> None:
    for method, path in (("POST", PIX), ("GET", f"/v1/charges/{'0' * 36}")):
        answers = [comparable(await api.ask(method, path, headers=[JSON])) for api in ways]
        assert answers[0] == answers[1]
        assert answers[0][0] == 401


async def test_a_replay_is_answered_alike_with_and_without_the_framework(ways: tuple[Api, Api]) -> None:
    hot, plain = ways
    token, key = await hot.token(), secrets.token_hex(8)
    made = await hot.post(PIX, hot.pix(), token=token, key=key)
    again = [await api.post(PIX, hot.pix(), token=token, key=key) for api in (hot, plain)]
    assert [each.status for each in (made, *again)] == [201, 200, 200]
    assert comparable(again[0]) == comparable(again[1])
    assert again[0].json() == made.json()
