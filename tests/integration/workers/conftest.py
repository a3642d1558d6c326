"""Fixtures shared by the tests of workers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from runtime.postgres import Pool


@pytest.fixture(scope="session")
def redis_url(servers: Any) -> str:
    return str(servers.redis_url)


@pytest.fixture
async def quiet(pool: Pool) -> AsyncIterator[None]:
    """Delete all webhook endpoints after the test: another test's worker would deliver to them."""
    yield
    await pool.execute("DELETE FROM webhook_endpoint")
