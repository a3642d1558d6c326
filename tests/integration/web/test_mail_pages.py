"""The pages of the mail catcher in local work: open to this machine, closed to what a proxy or a tunnel passes on."""

from datetime import UTC, datetime

import aiohttp
import pytest

from runtime.postgres import Pool
from runtime.settings import read_settings
from tests.support.pages import NOWHERE, serving

ENV = {"DATABASE_URL": "unused", "REDIS_URL": NOWHERE, "SECRET_KEY": "00" * 32, "MAIL_CATCHER": "1"}


async def _status(pool: Pool, headers: dict[str, str], **env: str) -> int:
    await pool.execute("DELETE FROM caught_mail")  # mails of other tests, sealed with other keys
    async with (
        serving(pool, lambda: datetime.now(UTC), read_settings({**ENV, **env})) as address,
        aiohttp.ClientSession() as http,
        http.get(f"{address}/correio", headers=headers) as answer,
    ):
        return answer.status


async def test_the_mail_catcher_opens_to_this_machine_where_it_is_on(pool: Pool) -> None:
    assert await _status(pool, {}) == 200
    assert await _status(pool, {}, MAIL_CATCHER="0") == 404


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
async def test_a_request_passed_on_by_a_proxy_answers_404(pool: Pool, header: str) -> None:
    for value in ("203.0.113.9", "127.0.0.1", "for=127.0.0.1", ""):
        assert await _status(pool, {header: value}) == 404, value


@pytest.mark.parametrize("value", ["203.0.113.9", "127.0.0.1", "junk"])
async def test_a_request_passed_on_by_a_trusted_proxy_answers_404_too(pool: Pool, value: str) -> None:
    trust = {"TRUSTED_PROXIES": "127.0.0.0/8"}
    assert await _status(pool, {"X-Forwarded-For": value}, **trust) == 404
    assert await _status(pool, {}, **trust) == 200


@pytest.mark.parametrize("host", ["[", "]:1", "a:b:c", "elsewhere.example"])
async def test_a_host_header_that_does_not_name_this_machine_answers_404(pool: Pool, host: str) -> None:
    assert await _status(pool, {"Host": host}) == 404
    assert await _status(pool, {"Host": host}, MAIL_CATCHER="0") == 404
