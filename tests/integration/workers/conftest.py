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
    """Delete all webhook endpoints before and after the test: its worker would deliver to those of other tests, and
    their workers to its own."""
    await pool.execute("DELETE FROM webhook_endpoint")
    yield
    await pool.execute("DELETE FROM webhook_endpoint")
