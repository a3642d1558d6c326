"""What tests of the dashboard share."""

import pytest

from tests.support.dashboard import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
