"""GET /metrics: every answered request is counted, once, by route and status."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.in_process import Api, open_api

UNTIL_SHOWN_S = 10.0  # counts are handed on every second


@pytest.fixture(scope="module")
async def api(servers: Any) -> AsyncIterator[Api]:
    async with open_api(servers.database_url, servers.redis_url) as opened:
        yield opened


async def counted(api: Api) -> dict[str, float]:
    """How often GET /healthz was answered 200: requests, and durations observed."""
    said = (await api.get("/metrics", token=None)).body.decode()
    found = {}
    for name in ("http_server_requests_total", "http_server_request_duration_seconds_count"):
        values = re.findall(rf'^{name}\{{([^}}]*http_route="/healthz"[^}}]*)\}} (\S+)$', said, re.M)
        found[name] = sum(float(value) for _, value in values)
    return found


async def test_each_answered_request_is_counted_once_and_shows_within_seconds(api: Api) -> None:
    before = await counted(api)
    for _ in range(7):
        assert (await api.get("/healthz", token=None)).status == 200

    deadline = time.monotonic() + UNTIL_SHOWN_S
    wanted = {name: count + 7 for name, count in before.items()}
    while await counted(api) != wanted:
        assert time.monotonic() < deadline, (await counted(api), wanted)
        await asyncio.sleep(0.1)
