"""What anybody may send in a request head before signing in costs a process neither its time nor its memory."""

import gc
import time
import tracemalloc
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from tests.support.pages import serving

_ENTRY = "/painel/entrar"
_HEADS = 40
_KEPT_BYTES_MAX = 2_000_000


@pytest.fixture(scope="module")
async def address(pool: Any) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC)) as served:
        yield served


async def open_page(http: aiohttp.ClientSession, url: str, cookie: str = "") -> None:
    async with http.get(url, headers={"Cookie": cookie}) as answer:
        assert answer.status == 200
        await answer.read()


@pytest.mark.parametrize("name", ["entrada", "painel", "aparelho", "other"])
async def test_a_cookie_full_of_escapes_is_answered_at_once(address: str, name: str) -> None:
    async with aiohttp.ClientSession() as http:
        await open_page(http, address + _ENTRY)
        began = time.process_time()
        await open_page(http, address + _ENTRY, f'{name}="' + "\\" * 30_000 + '"')
        assert time.process_time() - began < 0.5


@pytest.mark.parametrize("path", [_ENTRY, "/docs/search"])
async def test_request_heads_of_unauthenticated_clients_are_not_kept_in_memory(address: str, path: str) -> None:
    async with aiohttp.ClientSession() as http:
        await open_page(http, address + path)
        gc.collect()
        tracemalloc.start()
        try:
            for number in range(_HEADS):
                mark = f"{path[-1]}{number:x}"
                fields = "&".join(f"{mark}{at:x}" for at in range(2_000))
                cookie = ";".join(f"{mark}{at:x}=" for at in range(4_000))
                await open_page(http, f"{address}{path}?{fields}", cookie)
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept < _KEPT_BYTES_MAX
