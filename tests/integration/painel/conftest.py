"""Fixtures of the dashboard's tests."""

import pytest

from tests.support.dashboard import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()
