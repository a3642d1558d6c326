from collections.abc import Iterator

import pytest

from runtime.local.embedded import EmbeddedPostgres
from tests.support.cells import second_server


@pytest.fixture(scope="module")
def second() -> Iterator[EmbeddedPostgres]:
    """The server of cells 2 and 3. The last test that needs them may stop it, and starts it again."""
    with second_server() as server:
        yield server
