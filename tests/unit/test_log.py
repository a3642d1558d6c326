"""No line of the log carries what somebody sent, not even where an error quotes it."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.webhooks import paths


@pytest.mark.parametrize(
    "raised",
    [
        # What asyncpg says of an argument that does not fit, and PostgreSQL of a text that does not.
        "asyncpg.DataError(\"invalid input for query argument $3: '12345678909' (an integer is required)\")",
        "asyncpg.InvalidTextRepresentationError('invalid input syntax for type uuid: \"12345678909\"')",
        "asyncpg.NumericValueOutOfRangeError('value \"12345678909\" is out of range for type integer')",
    ],
)
def test_a_value_that_does_not_fit_is_not_quoted(raised: str) -> None:
    program = f"""
import asyncpg, structlog
from runtime.log import setup
setup("probe")
try:
    raise {raised}
except Exception:
    structlog.get_logger().exception("failed")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": paths()},
    )
    line = json.loads(done.stderr)
    assert line["error"].endswith("Error")
    assert line["reason"].startswith("SQLSTATE 22")
    assert line["trace"]
    assert b"12345678909" not in done.stderr
