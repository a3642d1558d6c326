"""POST /v1/oauth/token works with standard OAuth clients and follows RFC 6749 (contract section 3)."""

import asyncio
import secrets
import time
import warnings
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote_plus, urlencode

import httpx
import msgspec
import pytest
from authlib.deprecate import AuthlibDeprecationWarning

from commands.merchants.merchants import ALL_SCOPES, MerchantCreated
from commands.people.credentials import CHANCE, rotate_credential
from tests.support.in_process import Api, Reply
from tests.support.system import System
from workers.duties import forget_tokens

with warnings.catch_warnings():
    # authlib's import warns that it prefers another HTTP client below it.
    warnings.simplefilter("ignore", AuthlibDeprecationWarning)
    from authlib.integrations.httpx_client import AsyncOAuth2Client, OAuth2Client

FORM = (b"content-type", b"application/x-www-form-urlencoded")
JSON = (b"content-type", b"application/json")


def basic(client_id: str, secret: str) -> tuple[bytes, bytes]:
    return b"authorization", b"Basic " + b64encode(f"{quote_plus(client_id)}:{quote_plus(secret)}".encode())


async def ask(api: Api, fields: dict[str, str], *headers: tuple[bytes, bytes]) -> Reply:
    return await api.ask("POST", "/v1/oauth/token", headers=[FORM, *headers], body=urlencode(fields).encode())


def client_fields(merchant: MerchantCreated, **more: str) -> dict[str, str]:
    credential = merchant.test
    return {
        "grant_type": "client_credentials",
        "client_id": credential.client_id,
        "client_secret": credential.client_secret,
        **more,
    }


def declined(reply: Reply, status: int, error: str) -> None:
    """Assert an error by RFC 6749 section 5.2, with `no-store`."""
    assert (reply.status, reply.json()["error"]) == (status, error), reply
    assert set(reply.json()) <= {"error", "error_description", "error_uri"}
    assert reply.header("content-type") == "application/json"
    assert reply.header("cache-control") == "no-store"
    assert reply.header("x-request-id")
    assert (reply.header("www-authenticate") is not None) == (status == 401)


@pytest.mark.parametrize("way", ["client_secret_basic", "client_secret_post"])
def test_a_standard_oauth_client_gets_a_token_and_uses_it(system: System, way: str) -> None:
    credential = system.merchants[0]["test"]
    with OAuth2Client(
        credential["client_id"], credential["client_secret"], token_endpoint_auth_method=way, base_url=system.base_url
    ) as client:
        token = client.fetch_token(f"{system.base_url}/v1/oauth/token", grant_type="client_credentials")
        assert token["token_type"] == "Bearer"
        assert client.get("/v1/charges").status_code == 200


@pytest.mark.parametrize("way", ["client_secret_basic", "client_secret_post"])
async def test_an_asynchronous_oauth_client_gets_a_token_and_uses_it(api: Api, way: str) -> None:
    credential = api.first.production
    async with AsyncOAuth2Client(
        credential.client_id,
        credential.client_secret,
        scope="charges:read",
        token_endpoint_auth_method=way,
        transport=httpx.ASGITransport(api.app),
        base_url="http://api.example.com",
    ) as client:
        token = await client.fetch_token("http://api.example.com/v1/oauth/token", grant_type="client_credentials")
        assert token["scope"] == "charges:read"
        assert (await client.get("/v1/charges")).status_code == 200
        assert (await client.get("/v1/payments")).json()["error"]["code"] == "INSUFFICIENT_SCOPE"


async def test_the_token_answer_has_the_fields_and_headers_of_the_contract(api: Api) -> None:
    reply = await ask(api, client_fields(api.first))
    assert reply.status == 200
    assert list(reply.json()) == ["access_token", "token_type", "expires_in", "scope"]
    assert reply.json()["token_type"] == "Bearer"
    assert reply.json()["expires_in"] == 3600
    assert reply.json()["scope"].split(" ") == list(ALL_SCOPES)
    assert len(reply.json()["access_token"]) >= 43, "256 bits"
    assert reply.header("cache-control") == "no-store"
    assert reply.header("pragma") == "no-cache"
    assert reply.header("x-request-id")


async def test_the_fields_of_a_token_request_may_be_json(api: Api) -> None:
    body = msgspec.json.encode(client_fields(api.first, scope="payments:read charges:read"))
    reply = await api.ask("POST", "/v1/oauth/token", headers=[JSON], body=body)
    assert (reply.status, reply.json()["scope"]) == (200, "charges:read payments:read")


async def test_a_json_grant_with_basic_client_authentication_is_accepted(api: Api) -> None:
    header = basic(api.first.test.client_id, api.first.test.client_secret)
    body = b'{"grant_type":"client_credentials"}'
    reply = await api.ask("POST", "/v1/oauth/token", headers=[JSON, header], body=body)
    assert reply.status == 200


async def test_a_content_type_with_a_charset_is_accepted(api: Api) -> None:
    kind = (b"content-type", b"Application/X-WWW-Form-Urlencoded; charset=UTF-8")
    reply = await api.ask("POST", "/v1/oauth/token", headers=[kind], body=urlencode(client_fields(api.first)).encode())
    assert reply.status == 200


async def test_two_tokens_of_one_client_are_both_valid(api: Api) -> None:
    one, two = [(await ask(api, client_fields(api.first))).json()["access_token"] for _ in range(2)]
    assert one != two
    assert [(await api.get("/v1/charges", token=token)).status for token in (one, two)] == [200, 200]


@pytest.mark.parametrize(
    "scope",
    [
        "charges:read charges:delete", "  ", "charges:read  payments:read", "charges:read,payments:read",
        "CHARGES:READ", "charges:read\x00",
    ],
)  # fmt: skip
async def test_a_scope_that_is_not_held_is_invalid_scope(api: Api, scope: str) -> None:
    reply = await ask(api, client_fields(api.first, scope=scope))
    declined(reply, 400, "invalid_request" if "\0" in scope else "invalid_scope")
    if "," in scope:
        assert "one blank stands between two" in reply.json()["error_description"]


async def test_an_empty_parameter_counts_as_left_out(api: Api) -> None:
    """RFC 6749 section 3.2: some clients send every field of their form."""
    whole = await ask(api, client_fields(api.first, scope=""))
    assert (whole.status, whole.json()["scope"].split(" ")) == (200, list(ALL_SCOPES))
    body = msgspec.json.encode(client_fields(api.first, scope=""))
    assert (await api.ask("POST", "/v1/oauth/token", headers=[JSON], body=body)).status == 200
    header = basic(api.first.test.client_id, api.first.test.client_secret)
    empty = {"grant_type": "client_credentials", "client_id": "", "client_secret": "", "scope": ""}
    assert (await ask(api, empty, header)).status == 200
    declined(await ask(api, client_fields(api.first, client_secret="")), 401, "invalid_client")
    declined(await ask(api, client_fields(api.first, grant_type="")), 400, "invalid_request")


async def test_a_narrowed_credential_cannot_request_further_scopes(api: Api, pool: Any) -> None:
    merchant = api.second
    await pool.execute(
        "UPDATE credential SET scopes = '{charges:read}' WHERE client_id = $1", merchant.production.client_id
    )
    credential = merchant.production
    mine = {"client_id": credential.client_id, "client_secret": credential.client_secret}
    whole = await ask(api, {"grant_type": "client_credentials", **mine})
    more = await ask(api, {"grant_type": "client_credentials", "scope": "charges:create", **mine})
    assert whole.json()["scope"] == "charges:read"
    declined(more, 400, "invalid_scope")


@pytest.mark.parametrize("grant_type", ["password", "authorization_code", "refresh_token", "CLIENT_CREDENTIALS", "x"])
async def test_another_grant_type_is_unsupported(api: Api, grant_type: str) -> None:
    declined(await ask(api, client_fields(api.first, grant_type=grant_type)), 400, "unsupported_grant_type")


async def test_a_missing_or_empty_grant_type_is_an_invalid_request(api: Api) -> None:
    without = client_fields(api.first)
    del without["grant_type"]
    declined(await ask(api, without), 400, "invalid_request")
    declined(await ask(api, client_fields(api.first, grant_type="")), 400, "invalid_request")


async def test_an_unknown_client_and_a_wrong_secret_get_the_same_answer(api: Api) -> None:
    wrong_secret = await ask(api, client_fields(api.first, client_secret="x"))
    unknown_client = await ask(api, client_fields(api.first, client_id="test_000000000000000000000000"))
    for reply in (wrong_secret, unknown_client):
        declined(reply, 401, "invalid_client")
    assert wrong_secret.body == unknown_client.body


async def test_a_request_without_client_or_secret_is_an_invalid_client(api: Api) -> None:
    declined(await ask(api, {"grant_type": "client_credentials"}), 401, "invalid_client")
    declined(
        await ask(api, {"grant_type": "client_credentials", "client_id": api.first.test.client_id}),
        401, "invalid_client",
    )  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [b"Basic", b"Basic !!!!", b"Basic " + b64encode(b"nocolon"), b"Basic /w==", b"Bearer x", b"Basic " + b"A" * 9000],
)
async def test_an_unreadable_authorization_header_is_an_invalid_client(api: Api, value: bytes) -> None:
    declined(await ask(api, {"grant_type": "client_credentials"}, (b"authorization", value)), 401, "invalid_client")


async def test_two_ways_of_client_authentication_at_once_are_an_invalid_request(api: Api) -> None:
    header = basic(api.first.test.client_id, api.first.test.client_secret)
    declined(await ask(api, client_fields(api.first), header), 400, "invalid_request")
    declined(await ask(api, {"grant_type": "client_credentials", "client_id": "other"}, header), 400, "invalid_request")
    same = {"grant_type": "client_credentials", "client_id": api.first.test.client_id}
    assert (await ask(api, same, header)).status == 200


async def test_a_repeated_parameter_is_an_invalid_request(api: Api) -> None:
    for more in ("&grant_type=client_credentials", "&scope=charges:read&scope=charges:read", "&client_id=x"):
        body = (urlencode(client_fields(api.first)) + more).encode()
        declined(await api.ask("POST", "/v1/oauth/token", headers=[FORM], body=body), 400, "invalid_request")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (b"application/json", b"{"),
        (b"application/json", b"[]"),
        (b"application/json", b'"grant_type"'),
        (b"application/json", b'{"grant_type":1}'),
        (b"application/json", b'{"grant_type":{"a":1}}'),
        (b"application/json", b'{"grant_type":"client_credentials","grant_type":"client_credentials"}'),
        (b"application/json", b"[" * 50_000),
        (b"application/json", b"\xff"),
        (b"application/json", b'{"grant_type":"\\ud800"}'),
        (b"application/x-www-form-urlencoded", b"\xff\xfe"),
        (b"application/x-www-form-urlencoded", b"grant_type=%ff"),
        (b"application/x-www-form-urlencoded", b"a&" * 1000),
        (b"application/x-www-form-urlencoded", b""),
        (b"text/plain", b"grant_type=client_credentials"),
        (b"multipart/form-data; boundary=x", b"--x--"),
        (b"", b"grant_type=client_credentials"),
    ],
)
async def test_a_body_that_cannot_be_read_is_an_invalid_request(api: Api, kind: bytes, body: bytes) -> None:
    declined(
        await api.ask("POST", "/v1/oauth/token", headers=[(b"content-type", kind)], body=body), 400, "invalid_request"
    )


async def test_a_token_request_of_300_kb_is_an_invalid_request(api: Api) -> None:
    reply = await api.ask("POST", "/v1/oauth/token", headers=[FORM], body=b"a=" + b"x" * 300_000)
    declined(reply, 400, "invalid_request")


async def test_the_previous_secret_of_a_rotation_is_valid_until_its_overlap_ends(api: Api, pool: Any) -> None:
    credential = api.third.test
    fields = client_fields(api.third)
    await pool.execute(
        "UPDATE credential SET previous_secret_hash = secret_hash, secret_hash = sha256($2), "
        "previous_until = now() + interval '1 hour' WHERE client_id = $1",
        credential.client_id, b"the new one",
    )  # fmt: skip
    assert (await ask(api, fields)).status == 200
    assert (await ask(api, {**fields, "client_secret": "the new one"})).status == 200
    await pool.execute(
        "UPDATE credential SET previous_until = now() - interval '1 second' WHERE client_id = $1", credential.client_id
    )
    declined(await ask(api, fields), 401, "invalid_client")
    assert (await ask(api, {**fields, "client_secret": "the new one"})).status == 200


async def test_a_secret_rotated_without_overlap_gives_no_token_during_the_rotation(api: Api, pool: Any) -> None:
    """A request with the old secret while the rotation commits gets no token that would outlive the secret."""
    credential = api.third.production
    fields = client_fields(api.third, client_id=credential.client_id, client_secret=credential.client_secret)
    assert (await ask(api, fields)).status == 200
    async with pool.acquire() as conn, conn.transaction():
        await rotate_credential(
            conn,
            api.third.account_id,
            credential.client_id,
            overlap=timedelta(0),
            by="somebody@example.com",
            now=datetime.now(UTC),
            chance=secrets.token_bytes(CHANCE),
        )
        asking = asyncio.create_task(ask(api, fields))
        await asyncio.wait({asking}, timeout=1)
    declined(await asking, 401, "invalid_client")


async def test_an_expired_token_is_refused_at_once_and_deleted_an_hour_later(api: Api, pool: Any) -> None:
    token, valid = [(await ask(api, client_fields(api.second))).json()["access_token"].encode() for _ in range(2)]
    expire = "UPDATE access_token SET expires_at = now() - $2::interval WHERE token_hash = sha256($1)"
    await pool.execute(expire, token, timedelta(seconds=1))
    reply = await api.get("/v1/charges", token=token.decode())
    assert reply.code() == "UNAUTHENTICATED"
    worker: Any = SimpleNamespace(pool=pool, now=lambda: datetime.now(UTC) + timedelta(days=1))  # its clock is ahead
    find = "SELECT token_hash FROM access_token WHERE token_hash IN (sha256($1), sha256($2))"
    for age, kept in ((timedelta(minutes=59), 2), (timedelta(minutes=61), 1)):
        await pool.execute(expire, token, age)
        while await forget_tokens(worker):
            pass
        assert len(await pool.fetch(find, token, valid)) == kept


async def test_a_revoked_credential_stops_working_within_five_seconds(api: Api, pool: Any) -> None:
    fields = client_fields(api.second)
    token = (await ask(api, fields)).json()["access_token"]
    assert (await api.get("/v1/charges", token=token)).status == 200
    await pool.execute("UPDATE credential SET revoked_at = now() WHERE client_id = $1", fields["client_id"])
    began, asked_s = time.monotonic(), 0.0
    while (reply := await api.get("/v1/charges", token=token)).status == 200:
        assert asked_s < 5
        await asyncio.sleep(0.1)
        asked_s = time.monotonic() - began
    assert reply.code() == "UNAUTHENTICATED"
    declined(await ask(api, fields), 401, "invalid_client")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic eDp4",
        b"bearer x",
        b"Bearer \xff\x00",
        b"Bearer " + b"x" * 100_000,
        b"Token x",
    ],
)
async def test_a_malformed_or_unknown_bearer_token_is_unauthenticated(api: Api, value: bytes) -> None:
    reply = await api.ask("GET", "/v1/charges", headers=[(b"authorization", value)])
    assert reply.code() == "UNAUTHENTICATED"


async def test_each_cause_of_a_401_has_its_own_sentence(api: Api, pool: Any) -> None:
    """By RFC 6750 section 3.1 a bad token is answered invalid_token; a missing one only names the scheme."""
    old = await api.token(scope="payments:read")
    await pool.execute(
        "UPDATE access_token SET expires_at = now() - interval '1 second' WHERE token_hash = sha256($1)", old.encode()
    )
    messages = {}
    for value, error in ((None, ""), (b"Basic eDp4", "invalid_token"), (b"Bearer nobody", "invalid_token"),
                         (b"Bearer " + old.encode(), "invalid_token")):  # fmt: skip
        reply = await api.ask("GET", "/v1/charges", headers=[(b"authorization", value)] if value else [])
        assert reply.code() == "UNAUTHENTICATED"
        assert str(reply.header("www-authenticate")) == 'Bearer realm="quita"' + (f', error="{error}"' if error else "")
        messages[value] = reply.json()["error"]["message"]
    assert len(set(messages.values())) == 4
    assert "expired" in messages[b"Bearer " + old.encode()]
    assert "no access token" in messages[None]


async def test_two_authorization_headers_are_unauthenticated(api: Api) -> None:
    good = (b"authorization", b"Bearer " + (await api.token()).encode())
    assert (await api.ask("GET", "/v1/charges", headers=[good, good])).code() == "UNAUTHENTICATED"


async def test_the_scheme_bearer_is_accepted_in_any_case(api: Api) -> None:
    token = (await api.token()).encode()
    for scheme in (b"Bearer ", b"bearer ", b"BEARER "):
        assert (await api.ask("GET", "/v1/charges", headers=[(b"authorization", scheme + token)])).status == 200


async def test_a_token_is_stored_as_its_hash_only(api: Api, pool: Any) -> None:
    token = await api.token()
    columns = await pool.fetchrow("SELECT * FROM access_token WHERE token_hash = sha256($1)", token.encode())
    assert columns is not None
    assert token not in str(dict(columns))
    assert secrets.compare_digest(columns["client_id"], api.first.test.client_id)
