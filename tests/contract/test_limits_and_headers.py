"""The rate limit (contract section 14), and the RateLimit headers on every answer to an authenticated caller."""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from api.admission import BYTES_MAX
from api.rate import Buckets
from commands.merchants.merchants import set_rate
from domain.errors import Refused
from runtime.local.ports import free_port
from runtime.metrics import exposition
from tests.support.in_process import Api, Reply, bearer, in_one_moment, open_api, open_patient_api

PIX = "/v1/charges/pix"
LIMITS = ("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset")


@pytest.fixture(scope="module")
async def api(servers: Any) -> AsyncIterator[Api]:
    async with open_patient_api(servers.database_url, servers.redis_url) as opened:
        yield opened


async def token_with_limit(api: Api, pool: Any, mode: str, *, rate_per_s: int, burst: int) -> str:
    """A new token of the second merchant. Gives its account this limit and fills its bucket."""
    await pool.execute(
        "UPDATE account SET rate_per_s = $2, rate_burst = $3 WHERE account_id = $1",
        api.second.account_id, rate_per_s, burst,
    )  # fmt: skip
    credential = getattr(api.second, mode)
    await api.app.state.context.redis.delete(f"rate:{credential.client_id}")
    api.app.state.context.buckets._leases.clear()
    asked = {"client_id": credential.client_id, "client_secret": credential.client_secret}
    reply = await api.post("/v1/oauth/token", {"grant_type": "client_credentials", **asked}, token=None)
    return str(reply.json()["access_token"])


def limits_of(reply: Reply) -> tuple[int, int, int]:
    """Limit, remaining and reset of the answer's headers."""
    limit, remaining, reset = (reply.header(name) for name in LIMITS)
    assert limit is not None, reply
    assert remaining is not None, reply
    assert reset is not None, reply
    return int(limit), int(remaining), int(reset)


async def test_a_burst_passes_and_the_next_request_is_429(api: Api, pool: Any) -> None:
    async def seven() -> list[Reply]:
        token = await token_with_limit(api, pool, "test", rate_per_s=1, burst=5)
        return [await api.get("/v1/charges", token=token) for _ in range(7)]

    replies = await in_one_moment(seven)
    assert [reply.status for reply in replies] == [200] * 5 + [429] * 2
    assert [limits_of(reply)[0] for reply in replies] == [5] * 7
    assert [limits_of(reply)[1] for reply in replies] == [4, 3, 2, 1, 0, 0, 0]
    last = replies[-1]
    assert last.code() == "RATE_LIMITED"
    assert str(last.header("retry-after")) == "1"


async def test_a_request_after_retry_after_passes_again(api: Api, pool: Any) -> None:
    token = await token_with_limit(api, pool, "test", rate_per_s=2, burst=2)
    while (reply := await api.get("/v1/charges", token=token)).status == 200:
        pass
    await asyncio.sleep(int(str(reply.header("retry-after"))))
    assert (await api.get("/v1/charges", token=token)).status == 200


async def test_ratelimit_reset_is_the_seconds_until_the_bucket_is_full_again(api: Api, pool: Any) -> None:
    async def six() -> list[Reply]:
        token = await token_with_limit(api, pool, "test", rate_per_s=2, burst=10)
        return [await api.get("/v1/charges", token=token) for _ in range(6)]

    first, *_, last = await in_one_moment(six, less_s=0.5)
    assert limits_of(first) == (10, 9, 1)
    limit, remaining, reset = limits_of(last)
    assert (limit, remaining) == (10, 4)
    assert reset == 3


async def test_after_a_lowered_limit_remaining_never_exceeds_the_limit(api: Api, pool: Any) -> None:
    """Tokens that a process leased before are spent within a second; meanwhile the headers do not show them."""
    lower = "UPDATE account SET rate_per_s = 1, rate_burst = 1 WHERE account_id = $1"

    async def two() -> list[Reply]:
        token = await token_with_limit(api, pool, "test", rate_per_s=1_000, burst=10_000)
        before = await api.get("/v1/charges", token=token)
        await pool.execute(lower, api.second.account_id)
        api.app.state.context.callers._known.clear()  # callers are cached for three seconds
        return [before, await api.get("/v1/charges", token=token)]

    before, after = await in_one_moment(two)
    assert (before.status, limits_of(before)[0]) == (200, 10_000)
    limit, remaining, reset = limits_of(after)
    assert (limit, reset) == (1, 0)
    assert remaining <= limit


async def test_a_busy_credential_leases_tokens_ahead_and_waits_for_no_refill(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease takes 50 tokens; the next lease begins when half of them are left."""
    buckets = Buckets(api.app.state.context.redis)
    take, taken = buckets._take, 0

    async def counted(**given: Any) -> Any:
        nonlocal taken
        taken += 1
        return await take(**given)

    monkeypatch.setattr(buckets, "_take", counted)
    client_id = f"busy-{uuid4().hex}"

    async def spend(times: int) -> None:
        for _ in range(times):
            await buckets.spend(client_id, rate_per_s=1, burst=2_000)

    async with asyncio.timeout(30):
        await spend(25)
        assert taken == 1
        await spend(1)
        await asyncio.gather(*buckets._ahead.values())
        assert taken == 2
        monkeypatch.setattr(buckets, "_take", None)  # no lease is requested while more than half is left
        left = [await buckets.spend(client_id, rate_per_s=1, burst=2_000) for _ in range(40)]
    assert [each for each, _ in left] == [2_000 - 26 - number for number in range(1, 41)]


async def test_the_limiter_keeps_no_entry_for_requests_that_waited(api: Api) -> None:
    buckets = Buckets(api.app.state.context.redis)
    for _ in range(20):
        client_id = f"once-{uuid4().hex}"
        await asyncio.gather(*(buckets.spend(client_id, rate_per_s=10, burst=20) for _ in range(3)))
    assert buckets._waiting == {}


async def test_a_rate_limited_request_is_refused_before_it_creates_anything(api: Api, pool: Any) -> None:
    body = {"account_id": str(api.second.account_id), "amount": "1.00"}
    charges = "SELECT count(*) FROM charge WHERE account_id = $1"
    key, before = "", 0

    async def three() -> list[Reply]:
        nonlocal key, before
        token = await token_with_limit(api, pool, "production", rate_per_s=1, burst=1)
        key, before = secrets.token_hex(8), await pool.fetchval(charges, api.second.account_id)
        return [
            await api.get("/v1/charges", token=token),
            await api.post(PIX, body, token=token, key=key),
            await api.post(PIX, {"amount": 1}, token=token),
        ]

    let_through, *refused = await in_one_moment(three)
    assert let_through.status == 200
    assert [reply.code() for reply in refused] == ["RATE_LIMITED"] * 2
    assert await pool.fetchval(charges, api.second.account_id) == before
    assert await pool.fetchval("SELECT count(*) FROM idempotency WHERE key = $1", key) == 0


async def test_each_credential_has_its_own_bucket(api: Api, pool: Any) -> None:
    async def three() -> list[Reply]:
        spent = await token_with_limit(api, pool, "test", rate_per_s=1, burst=1)
        other = await token_with_limit(api, pool, "production", rate_per_s=1, burst=1)
        return [await api.get("/v1/charges", token=token) for token in (spent, spent, other)]

    assert [reply.status for reply in await in_one_moment(three)] == [200, 429, 200]
    assert (await api.get("/v1/charges", token=await api.token())).status == 200


async def test_two_tokens_of_a_credential_share_its_bucket(api: Api, pool: Any) -> None:
    credential = api.second.test
    asked = {"client_id": credential.client_id, "client_secret": credential.client_secret}

    async def three() -> list[Reply]:
        one = await token_with_limit(api, pool, "test", rate_per_s=1, burst=2)
        two = (await api.post("/v1/oauth/token", {"grant_type": "client_credentials", **asked}, token=None)).json()
        return [await api.get("/v1/charges", token=token) for token in (one, two["access_token"], one)]

    assert [reply.status for reply in await in_one_moment(three)] == [200, 200, 429]


async def test_concurrent_requests_get_no_more_than_the_burst(api: Api, pool: Any) -> None:
    token = await token_with_limit(api, pool, "test", rate_per_s=1, burst=50)
    began = time.monotonic()
    replies = await asyncio.gather(*(api.get("/v1/charges", token=token) for _ in range(120)))
    took_s = time.monotonic() - began
    granted = sum(reply.status == 200 for reply in replies)
    assert 50 <= granted <= 51 + took_s, "the burst, and the tokens refilled meanwhile"
    assert all(reply.code() == "RATE_LIMITED" for reply in replies if reply.status != 200)


async def test_two_processes_share_one_bucket(api: Api, pool: Any, servers: Any) -> None:
    async with open_api(servers.database_url, servers.redis_url) as twin:
        token = await token_with_limit(api, pool, "test", rate_per_s=1, burst=10)
        began = time.monotonic()
        replies = [await each.get("/v1/charges", token=token) for _ in range(12) for each in (api, twin)]
        took_s = time.monotonic() - began
    assert 10 <= sum(reply.status == 200 for reply in replies) <= 11 + took_s


async def test_every_answer_to_an_authenticated_caller_has_the_ratelimit_headers(api: Api) -> None:
    token, narrow = await api.token(), await api.token(scope="refunds:create")
    made = await api.create()
    replies = [
        await api.get("/v1/charges", token=token),
        await api.get("/v1/charges?limit=0", token=token),
        await api.get("/v1/charges", token=narrow),
        await api.get(f"/v1/charges/{made['charge_id']}", token=token),
        await api.get("/v1/charges/x", token=token),
        await api.post(PIX, api.pix(), token=token, key=(key := secrets.token_hex(8))),
        await api.post(PIX, api.pix(), token=token, key=key),
        await api.post(PIX, api.pix("1"), token=token, key=key),
        await api.post(PIX, b"{", token=token, key=key),
        await api.post(PIX, api.pix(), token=token),
        await api.post(f"/v1/charges/{made['charge_id']}/simulate-payment", None, token=token),
        await api.post("/v1/charges/x/simulate-payment", None, token=await api.token(mode="production")),
        await api.ask("POST", PIX, headers=[*bearer(token), (b"content-type", b"text/plain")], body=b"{}"),
        await api.post(PIX, b"x" * (BYTES_MAX + 1), token=token),
        await api.get("/v1/events", token=token),
        await api.get(f"/v1/accounts/{api.first.account_id}/balance", token=token),
    ]
    for reply in replies:
        limit, remaining, reset = limits_of(reply)
        assert limit == 200_000, "the platform's default, unless the account has its own"
        assert 0 <= remaining < limit
        assert reset >= 0


async def test_an_answer_to_an_unauthenticated_caller_has_no_ratelimit_headers(api: Api) -> None:
    for reply in (
        await api.get("/v1/charges", token=None),
        await api.get("/nope", token=None),
        await api.post(PIX, b"x" * (BYTES_MAX + 1), token="nobody's"),
        await api.ask("POST", PIX, headers=[(b"content-type", b"text/plain")], body=b"{}"),
    ):
        assert all(reply.header(name) is None for name in LIMITS)


async def test_without_redis_every_request_passes_and_the_metrics_count_it(pool: Any, servers: Any) -> None:
    async with open_api(
        servers.database_url, f"redis://127.0.0.1:{free_port()}/0", RATE_PER_S="1", RATE_BURST="2"
    ) as api:
        token = await api.token()
        began = time.monotonic()
        replies = [await api.get("/v1/charges", token=token) for _ in range(20)]
        assert [reply.status for reply in replies] == [200] * 20
        assert time.monotonic() - began < 10, "requests must not wait for a dead Redis one by one"
        assert all(limits_of(reply)[0] == 2 for reply in replies)
        created = await api.post(PIX, api.pix(), token=token, key="k")
        again = await api.post(PIX, api.pix(), token=token, key="k")
        said = exposition().decode()
    assert (created.status, again.status) == (201, 200)
    for what in ("limit", "lock"):
        (count,) = re.findall(rf'^redis_skipped_total\{{what="{what}"\}} (\S+)$', said, re.M)
        assert float(count) > 0, "the metrics count what was skipped"


async def test_an_accounts_own_limit_takes_effect_within_5_s_and_ends_when_removed(api: Api, pool: Any) -> None:
    token = await token_with_limit(api, pool, "test", rate_per_s=3, burst=3)
    account_id = api.second.account_id
    for per_s, burst, shown in ((7, 40, 40), (None, None, 200_000)):
        async with pool.acquire() as conn:
            await set_rate(conn, account_id, per_s=per_s, burst=burst)
        changed, asked = time.monotonic(), 0.0
        while limits_of(reply := await api.get("/v1/charges", token=token))[0] != shown:
            assert asked < 5, reply
            await asyncio.sleep(0.1)
            asked = time.monotonic() - changed
    async with pool.acquire() as conn:
        for per_s, burst in ((0, 1), (1, 0), (-1, 1), (1, 10**9)):
            with pytest.raises(Refused, match="VALIDATION_ERROR"):
                await set_rate(conn, account_id, per_s=per_s, burst=burst)
        with pytest.raises(Refused, match="WALLET_ACCOUNT_NOT_FOUND"):
            await set_rate(conn, uuid4(), per_s=1, burst=1)


@pytest.mark.parametrize("path", ["/v1/charges", "/v1/nothing", "/healthz"])
async def test_every_answer_has_no_store_and_nosniff(api: Api, path: str) -> None:
    for token in (await api.token(), None):
        reply = await api.get(path, token=token)
        assert (reply.header("cache-control"), reply.header("x-content-type-options")) == ("no-store", "nosniff")


async def test_forwarding_headers_do_not_circumvent_the_rate_limit(api: Api, pool: Any) -> None:
    more = [(b"x-forwarded-for", b"10.0.0.1"), (b"x-real-ip", b"10.0.0.2"), (b"forwarded", b"for=10.0.0.3")]

    async def two() -> list[Reply]:
        token = await token_with_limit(api, pool, "test", rate_per_s=1, burst=1)
        return [
            await api.get("/v1/charges", token=token),
            await api.ask("GET", "/v1/charges", headers=[*bearer(token), *more]),
        ]

    first, second = await in_one_moment(two)
    assert (first.status, second.code()) == (200, "RATE_LIMITED")
