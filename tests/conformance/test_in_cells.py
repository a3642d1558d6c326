"""The whole suite again, with merchants spread over four cells: two servers with two schemas each.

The merchant that asks and the other merchant are on different servers; each request is routed to its cell by the ids
and tokens that it carries. QUITA_TEST_CITUS names a second server to use in place of one of our own.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from runtime.cells.number import in_cell
from tests.conformance.test_conformance import (
    test_error,
    test_every_code_has_a_documentation_page,
    test_every_creation_is_replayed,
    test_every_operation,
    test_every_valid_request_succeeds,
    test_only_operations_that_declare_kyc_required_answer_it,
    test_token_errors_follow_rfc_6749,
)
from tests.conformance.world import World, open_world
from tests.support.cells import open_cells, second_or_citus_server

pytestmark = pytest.mark.heavy
__all__ = (
    "test_error",
    "test_every_code_has_a_documentation_page",
    "test_every_creation_is_replayed",
    "test_every_operation",
    "test_every_valid_request_succeeds",
    "test_only_operations_that_declare_kyc_required_answer_it",
    "test_token_errors_follow_rfc_6749",
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(servers: Any) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        second = await stack.enter_async_context(second_or_citus_server())
        cells = await stack.enter_async_context(open_cells(servers, second))
        mine, theirs = [await stack.enter_async_context(cells.pool(number)) for number in (2, 1)]
        unapproved = await cells.merchant(3, kyc="pending")
        api = cells.as_one(2, 1, more=[unapproved])
        with in_cell(2):  # the merchants made here belong to cell 2
            opened = await stack.enter_async_context(open_world(servers, mine, api, {1: theirs}))
        yield opened
