"""The order of refusals when several apply (contract section 1), and every fault of `amount` and `expires_in`.

size and content type -> bearer -> rate limit -> mode gate -> scope -> Idempotency-Key -> shape -> idempotency lookup
-> KYC, suspension -> resource and state -> bank
"""

import secrets
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from commands.bank_orders.pix_locations import note_silence
from commands.merchants.pix_suspension import resume_pix, suspend_pix
from domain.mode import Mode
from tests.support.in_process import Api, Reply, bearer, envelope, in_one_moment, open_api, open_patient_api

JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain")
PIX = "/v1/charges/pix"


@pytest.fixture(scope="module")
async def api(servers: Any) -> AsyncIterator[Api]:
    async with open_patient_api(servers.database_url, servers.redis_url) as opened:
        yield opened


# An invalid key, which shows when the key is checked too early.
BAD_KEY = (b"idempotency-key", b"\x01")


async def test_payload_too_large_comes_before_every_other_refusal(api: Api) -> None:
    reply = await api.ask("POST", PIX, headers=[TEXT, BAD_KEY], body=b"x" * (256 * 1024 + 1))
    assert reply.code() == "PAYLOAD_TOO_LARGE"


@pytest.mark.parametrize("path", [PIX, "/v1/charges/cancel"])
@pytest.mark.parametrize("kind", [[TEXT], [], [JSON, JSON], [(b"content-type", b"application/json+x")]])
async def test_a_wrong_content_type_comes_before_the_token(
    api: Api, path: str, kind: list[tuple[bytes, bytes]]
) -> None:
    assert (await api.ask("POST", path, headers=[*kind, BAD_KEY], body=b"{")).code() == "UNSUPPORTED_MEDIA_TYPE"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", PIX),
        ("POST", "/v1/charges/cancel"),
        ("POST", "/v1/charges/no-id/cancel"),
        ("POST", "/v1/charges/no-id/simulate-payment"),
        ("GET", "/v1/charges/no-id"),
        ("GET", "/v1/charges"),
        ("GET", "/v1/charges/summary"),
        ("GET", "/v1/payments"),
        ("GET", "/v1/events"),
        ("GET", "/v1/accounts/no-id/balance"),
        ("GET", "/v1/accounts/no-id/ledger"),
        ("GET", "/v1/idempotency-keys/%00"),
    ],
)
async def test_unauthenticated_comes_before_faults_of_query_key_and_body(api: Api, method: str, path: str) -> None:
    for authorization in ([], bearer("nobody"), bearer("a") * 2):
        reply = await api.ask(
            method, path, query=b"limit=x&nope=1&cursor=", headers=[JSON, BAD_KEY, *authorization], body=b"{"
        )
        assert reply.code() == "UNAUTHENTICATED"


async def test_the_rate_limit_comes_before_mode_scope_key_and_body(api: Api, pool: Any) -> None:
    rate = "UPDATE account SET rate_per_s = $2, rate_burst = $2 WHERE account_id = $1"
    await pool.execute(rate, api.second.account_id, 1)
    token = await api.token(api.second, scope="payments:read")

    async def three() -> list[Reply]:
        while (await api.get("/v1/charges", token=token)).status != 429:
            pass
        return [
            await api.ask("POST", path, headers=[JSON, BAD_KEY, *bearer(token)], body=b"{")
            for path in (PIX, "/v1/charges/cancel", "/v1/charges/no-id/simulate-payment")
        ]

    assert [reply.code() for reply in await in_one_moment(three)] == ["RATE_LIMITED"] * 3
    await pool.execute(rate, api.second.account_id, None)


async def test_sandbox_only_comes_before_scope_ids_and_content_type(api: Api) -> None:
    charge = await api.create()
    for scope in (None, "payments:read"):
        token = await api.token(mode="production", scope=scope)
        for charge_id in ("no-id", str(uuid4()), charge["charge_id"], "%00"):
            reply = await api.ask(
                "POST", f"/v1/charges/{charge_id}/simulate-payment", headers=[TEXT, *bearer(token)], body=b"{"
            )
            assert reply.code() == "SANDBOX_ONLY"


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", PIX, "charges:read"),
        ("POST", "/v1/charges/cancel", "charges:read"),
        ("POST", "/v1/charges/no-id/cancel", "payments:read"),
        ("POST", "/v1/charges/no-id/simulate-payment", "charges:read"),
        ("GET", "/v1/charges/no-id", "charges:create"),
        ("GET", "/v1/charges", "payments:read"),
        ("GET", "/v1/charges/summary", "payments:read"),
        ("GET", "/v1/payments", "charges:read"),
        ("GET", "/v1/events", "charges:create"),
        ("GET", "/v1/accounts/no-id/balance", "charges:read"),
        ("GET", "/v1/accounts/no-id/ledger", "charges:read"),
        ("GET", "/v1/idempotency-keys/%00", "payments:read"),
    ],
)
async def test_insufficient_scope_comes_before_key_body_and_query(api: Api, method: str, path: str, scope: str) -> None:
    token = await api.token(scope=scope)
    reply = await api.ask(method, path, query=b"limit=x", headers=[JSON, BAD_KEY, *bearer(token)], body=b"{")
    assert reply.code() == "INSUFFICIENT_SCOPE"


@pytest.mark.parametrize("scope", ["charges:read", "payments:read"])
async def test_the_feed_is_readable_with_charges_read_or_payments_read(api: Api, scope: str) -> None:
    assert (await api.get("/v1/events", token=await api.token(scope=scope))).status == 200


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([], "IDEMPOTENCY_KEY_REQUIRED"),
        ([b""], "IDEMPOTENCY_KEY_REQUIRED"),
        ([b"\x01"], "IDEMPOTENCY_KEY_INVALID"),
        ([b"k\x00"], "IDEMPOTENCY_KEY_INVALID"),
        ([b"k\x7f"], "IDEMPOTENCY_KEY_INVALID"),
        ([b"\xc3\xa9"], "IDEMPOTENCY_KEY_INVALID"),
        ([b"k\n"], "IDEMPOTENCY_KEY_INVALID"),
        ([b"k" * 256], "IDEMPOTENCY_KEY_INVALID"),
        ([b"k", b"k"], "IDEMPOTENCY_KEY_INVALID"),
    ],
)
async def test_a_missing_or_invalid_key_comes_before_faults_of_the_body(
    api: Api, values: list[bytes], code: str
) -> None:
    headers = [JSON, *bearer(await api.token()), *((b"idempotency-key", value) for value in values)]
    for body in (b"{", b"\xff", b"[]", b'{"amount":1}', msgspec.json.encode(api.pix())):
        assert (await api.ask("POST", PIX, headers=headers, body=body)).code() == code


async def test_a_key_of_255_characters_is_accepted(api: Api) -> None:
    reply = await api.post(PIX, api.pix(), token=await api.token(), key=secrets.token_hex(4) + "~ " * 123 + "k")
    assert reply.status == 201


async def test_the_shape_of_the_body_comes_before_the_lookup_of_the_key(api: Api) -> None:
    token, used = await api.token(), secrets.token_hex(8)
    assert (await api.post(PIX, api.pix(), token=token, key=used)).status == 201
    for body, code in (
        (b"{", "MALFORMED_JSON"),
        (b"[]", "VALIDATION_ERROR"),
        (api.pix(amount=1), "AMOUNT_INVALID"),
        (api.pix(expires_in=1), "EXPIRES_IN_INVALID"),
        (api.pix(external_id=1), "VALIDATION_ERROR"),
    ):
        assert (await api.post(PIX, body, token=token, key=used)).code() == code
    assert (await api.post(PIX, api.pix("10.01"), token=token, key=used)).code() == "IDEMPOTENCY_KEY_REUSED"


@pytest.mark.parametrize(
    ("method", "path", "query", "header", "body", "code"),
    [
        ("GET", "/v1/accounts/{id}/ledger", b"limit=x", b"", None, "LIMIT_INVALID"),
        ("GET", "/v1/charges/{id}/refunds", b"limit=x", b"", None, "LIMIT_INVALID"),
        ("POST", "/v1/charges/{id}/cancel", b"", b"nope", None, "VALIDATION_ERROR"),
        ("POST", "/v1/charges/{id}/simulate-payment", b"", b"nope", None, "VALIDATION_ERROR"),
        ("POST", "/v1/charges/cancel", b"", b"nope", {"external_id": "nobody's"}, "VALIDATION_ERROR"),
    ],
)
@pytest.mark.parametrize("of", ["no-id", "00000000-0000-4000-8000-000000000000"])
async def test_faults_of_query_and_headers_come_before_an_unknown_charge_or_account(
    api: Api, method: str, path: str, query: bytes, header: bytes, body: Any, code: str, of: str
) -> None:
    headers = [JSON, (b"x-sandbox-bank", header), *bearer(await api.token())]
    sent = b"" if body is None else msgspec.json.encode(body)
    assert (await api.ask(method, path.format(id=of), query=query, headers=headers, body=sent)).code() == code


@pytest.mark.parametrize(
    "path",
    ["/v1/accounts/{id}/ledger", "/v1/charges/{id}/refunds", "/v1/charge-schedules/{id}/charges"],
)
async def test_a_cursor_is_read_before_the_resource_of_the_list_is_looked_up(api: Api, path: str) -> None:
    token = await api.token(mode="production")
    reply = await api.get(path.format(id="00000000-0000-4000-8000-000000000000") + "?cursor=x", token=token)
    assert reply.code() == "CURSOR_INVALID"


async def test_the_idempotency_lookup_comes_before_kyc(api: Api, pool: Any) -> None:
    token, used = await api.token(mode="production"), secrets.token_hex(8)
    assert (await api.post(PIX, api.pix(), token=token, key=used)).status == 201
    await pool.execute("UPDATE account SET kyc = 'rejected' WHERE account_id = $1", api.first.account_id)
    try:
        fresh = await api.post(
            "/v1/oauth/token",
            {
                "grant_type": "client_credentials",
                "client_id": api.first.production.client_id,
                "client_secret": api.first.production.client_secret,
            },
            token=None,
        )
        late = fresh.json()["access_token"]
        again = await api.post(PIX, api.pix(), token=late, key=used)
        other = await api.post(PIX, api.pix("1.00"), token=late, key=used)
        new = await api.post(PIX, api.pix(), token=late, key=secrets.token_hex(8))
        foreign = await api.post(PIX, api.pix(account_id=str(uuid4())), token=late, key=secrets.token_hex(8))
    finally:
        await pool.execute("UPDATE account SET kyc = 'approved' WHERE account_id = $1", api.first.account_id)
    assert (again.status, again.header("idempotent-replayed")) == (200, "true")
    assert [other.code(), new.code()] == ["IDEMPOTENCY_KEY_REUSED", "KYC_REQUIRED"]
    assert foreign.code() == "KYC_REQUIRED", "KYC is checked before the account id"


async def test_an_account_with_pending_kyc_can_use_the_sandbox_and_read(api: Api) -> None:
    body = {"account_id": str(api.third.account_id), "amount": "1.00"}
    for mode, status in (("test", 201), ("production", 403)):
        token = await api.token(api.third, mode)
        assert (await api.post(PIX, body, token=token, key=secrets.token_hex(8))).status == status
        assert (await api.get("/v1/charges", token=token)).status == 200


async def test_idempotency_lookup_then_suspension_then_account_id_are_checked(api: Api, pool: Any) -> None:
    token, used = await api.token(mode="production"), secrets.token_hex(8)
    assert (await api.post(PIX, api.pix(), token=token, key=used)).status == 201
    async with pool.acquire() as conn:
        now = await conn.fetchval("SELECT now()")
        await suspend_pix(conn, now=now)
        try:
            again = await api.post(PIX, api.pix(), token=token, key=used)
            other = await api.post(PIX, api.pix("1.00"), token=token, key=used)
            new = await api.post(PIX, api.pix(), token=token, key=secrets.token_hex(8))
            foreign = await api.post(PIX, api.pix(account_id=str(uuid4())), token=token, key=secrets.token_hex(8))
            sandbox = await api.post(PIX, api.pix(), token=await api.token(), key=secrets.token_hex(8))
            malformed = await api.post(PIX, api.pix(amount="0"), token=token, key=secrets.token_hex(8))
        finally:
            await resume_pix(conn)
    assert (again.status, sandbox.status) == (200, 201)
    assert other.code() == "IDEMPOTENCY_KEY_REUSED"
    assert new.code() == foreign.code() == "PIX_AVULSO_SUSPENDED"
    assert malformed.code() == "AMOUNT_INVALID"


async def test_a_replay_and_a_suspension_are_answered_without_the_bank(servers: Any, pool: Any) -> None:
    """The pool of locations is empty and the bank silent: only a new creation, which needs the bank, is 502."""
    async with open_api(servers.database_url, servers.redis_url) as api:
        token, used = await api.token(mode="production"), secrets.token_hex(8)
        assert (await api.post(PIX, api.pix(), token=token, key=used)).status == 201
        client = api.app.state.context
        client.reserve._held[Mode.PRODUCTION].clear()
        client.reserve._deadline_s = 0.3
        # The first call's Redis lock expires after a while: from then on the row in PostgreSQL answers.
        await client.redis.flushdb()
        async with pool.acquire() as conn:
            kept = await conn.fetch("DELETE FROM pix_location WHERE NOT test RETURNING *")
            await note_silence(conn, test=False, bank=api.settings.bank)
            now = await conn.fetchval("SELECT now()")
            try:
                again = await api.post(PIX, api.pix(), token=token, key=used)
                new = await api.post(PIX, api.pix(), token=token, key=secrets.token_hex(8))
                await suspend_pix(conn, now=now)
                refused = await api.post(PIX, api.pix(), token=token, key=secrets.token_hex(8))
            finally:
                await resume_pix(conn)
                await conn.executemany(
                    "INSERT INTO pix_location (test, bank, location_ids, locations) VALUES ($1, $2, $3, $4)",
                    [(row["test"], row["bank"], row["location_ids"], row["locations"]) for row in kept],
                )
    assert (again.status, again.header("idempotent-replayed")) == (200, "true"), again
    assert new.code() == "BANK_UNAVAILABLE"
    assert refused.code() == "PIX_AVULSO_SUSPENDED"


async def test_an_unknown_account_and_one_of_another_merchant_get_the_same_refusal(api: Api) -> None:
    token = await api.token()
    replies = [
        await api.post(PIX, api.pix(account_id=str(account)), token=token, key=secrets.token_hex(8))
        for account in (uuid4(), api.second.account_id)
    ]
    assert [reply.code() for reply in replies] == ["CHARGE_NOT_FOUND"] * 2
    # The answers are equal word for word: they do not reveal that another merchant's account exists.
    unknown_account, another = ({**envelope(reply), "request_id": ""} for reply in replies)
    assert unknown_account == another
    assert unknown_account["fields"] == [{"field": "account_id", "message": "is not this token's account"}]


async def test_a_refused_creation_does_not_use_up_its_key(api: Api) -> None:
    token, one = await api.token(), secrets.token_hex(8)
    assert (await api.post(PIX, api.pix("0"), token=token, key=one)).code() == "AMOUNT_INVALID"
    assert (await api.post(PIX, api.pix(account_id=str(uuid4())), token=token, key=one)).code() == "CHARGE_NOT_FOUND"
    assert (await api.post(PIX, api.pix(), token=token, key=one)).status == 201


# --- amount and expires_in -------------------------------------------------------------------------------------------

MISSING = b"missing"
BAD_AMOUNTS: list[Any] = [
    MISSING, None, 10, 10.5, -1, 0, True, False, {}, {"value": "1.00"}, [], ["1.00"], "", " ", "0", "0.00", "0.0", "00",
    "-1", "-0.01", "+1", "1e5", "1E2", "1_000", " 1", "1 ", "1\n", "\n1", "1.", ".5", "1.000", "1.234", "1,00", "1.0.0",
    "١٢", "１２.００", "1٫5", "NaN", "Infinity", "0x10", "12345678901", "99999999999.99", "R$ 10", "1.0a", "1\x00", "𝟙",
    "9" * 5000, b"1e400", b"-0", b"1E-2", b"9" * 4000, b"0.1e1",
]  # fmt: skip


def body_with(api: Api, name: str, value: Any, **more: Any) -> bytes:
    """A creation with this value of a field; bytes are inserted as raw JSON."""
    given: dict[str, Any] = api.pix(**more)
    given.pop(name, None)
    if value is not MISSING:
        given[name] = msgspec.Raw(value) if isinstance(value, bytes) else value
    return msgspec.json.encode(given)


@pytest.mark.parametrize("amount", BAD_AMOUNTS, ids=lambda value: repr(value)[:20])
async def test_any_fault_of_the_amount_is_amount_invalid_whatever_else_is_wrong(api: Api, amount: Any) -> None:
    token = await api.token()
    for more in ({}, {"expires_in": "soon", "external_id": 5, "payer": [], "account_id": None, "description": "\0"}):
        body = body_with(api, "amount", amount, **more)
        reply = await api.post(PIX, body, token=token, key=secrets.token_hex(8))
        assert reply.code() == "AMOUNT_INVALID"
        assert [field["field"] for field in reply.json()["error"]["fields"]] == ["amount"]


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0.01", "0.01"), ("0.1", "0.10"), ("1", "1.00"), ("007", "7.00"), ("12.3", "12.30"), ("0000000001", "1.00"),
        ("9999999999", "9999999999.00"), ("9999999999.99", "9999999999.99"),
    ],
)  # fmt: skip
async def test_an_amount_is_returned_with_two_decimals(api: Api, amount: str, shown: str) -> None:
    assert (await api.create(amount=amount))["amount"] == shown


@pytest.mark.parametrize(
    "lifetime",
    [
        59, 0, -1, -60, 2592001, 2**63, 10**30, "3600", "", 60.0, 60.5, True, False, [], {}, [60], b"1e400", b"-1e400",
        b"1e3", b"6e1", b"9" * 4000,
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
async def test_any_fault_of_expires_in_is_expires_in_invalid(api: Api, lifetime: Any) -> None:
    token = await api.token()
    for more in ({}, {"external_id": 5, "payer": "x", "account_id": None}):
        body = body_with(api, "expires_in", lifetime, **more)
        assert (await api.post(PIX, body, token=token, key=secrets.token_hex(8))).code() == "EXPIRES_IN_INVALID"


@pytest.mark.parametrize("lifetime", [60, 2592000, None])
async def test_expires_in_within_its_bounds_is_accepted(api: Api, lifetime: int | None) -> None:
    made = await api.create(expires_in=lifetime)
    created, expires = (msgspec.convert(made[name], type=datetime) for name in ("created_at", "expires_at"))
    assert (expires - created).total_seconds() == (lifetime or 86400)


# --- cancel ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {}, {"reason": "cancelled"}, {"charge_id": None, "external_id": None}, {"charge_id": "a", "external_id": "b"},
        {"charge_id": 1, "external_id": 2}, {"charge_id": "a", "external_id": 2, "reason": 5},
    ],
)  # fmt: skip
async def test_neither_or_both_references_are_refused_before_their_shape(api: Api, given: dict[str, Any]) -> None:
    assert (await api.post("/v1/charges/cancel", given, token=await api.token())).code() == "CANCEL_REFERENCE_REQUIRED"


@pytest.mark.parametrize(
    "given",
    [
        {"charge_id": 1}, {"charge_id": []}, {"external_id": 1}, {"external_id": {}}, {"external_id": "x" * 256},
        {"external_id": "a\0"}, {"charge_id": str(uuid4()), "reason": "paid"}, {"external_id": "x", "reason": 1},
        {"external_id": "x", "reason": []}, {"external_id": "x", "reason": True}, {"external_id": "x", "reason": ""},
    ],
)  # fmt: skip
async def test_faults_of_a_cancellations_body_come_before_an_unknown_charge(api: Api, given: dict[str, Any]) -> None:
    assert (await api.post("/v1/charges/cancel", given, token=await api.token())).code() == "VALIDATION_ERROR"


async def test_an_unknown_charge_is_refused_before_a_charge_that_is_not_pending(api: Api) -> None:
    token, foreign = await api.token(), await api.token(api.second)
    charge = await api.create(external_id=(name := secrets.token_hex(8)))
    assert (await api.post(f"/v1/charges/{charge['charge_id']}/cancel", None, token=token)).status == 200
    for asked, code in ((token, "CHARGE_NOT_PENDING"), (foreign, "CHARGE_NOT_FOUND")):
        reply = await api.post(f"/v1/charges/{charge['charge_id']}/cancel", None, token=asked)
        assert reply.code() == code
    assert (await api.post("/v1/charges/cancel", {"external_id": name}, token=token)).code() == "CHARGE_NOT_FOUND"
    assert (
        await api.post("/v1/charges/cancel", {"charge_id": charge["charge_id"]}, token=token)
    ).code() == "CHARGE_NOT_PENDING"


async def test_a_charge_of_another_account_or_mode_is_answered_like_an_unknown_id(api: Api) -> None:
    charge = await api.create()
    tokens = [await api.token(api.second), await api.token(mode="production"), await api.token()]
    ids = [charge["charge_id"], charge["charge_id"], str(uuid4())]
    replies: list[Reply] = [
        await api.get(f"/v1/charges/{spelt}", token=token)
        for token, charge_id in zip(tokens, ids, strict=True)
        for spelt in (charge_id, charge_id.upper(), charge_id + "x")
    ]
    errors = [{**reply.json()["error"], "request_id": ""} for reply in replies]
    assert all(error == errors[0] for error in errors), errors
    assert errors[0]["code"] == "CHARGE_NOT_FOUND"
