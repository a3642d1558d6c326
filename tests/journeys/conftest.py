"""The fixture `browser`: one browser for all journeys through the whole system."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.browser import CHROMIUM, NO_BROWSER, Browser, chromium


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(NO_BROWSER)
    async with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened
