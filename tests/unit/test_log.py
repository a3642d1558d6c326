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
    written = logged(f"""
try:
    raise {raised}
except Exception:
    log.exception("failed")
""")
    line = json.loads(written)
    assert line["error"].endswith("Error")
    assert line["reason"].startswith("SQLSTATE 22")
    assert line["trace"]
    assert b"12345678909" not in written


def test_a_field_never_replaces_the_level_or_the_process_of_its_line() -> None:
    line = json.loads(logged('log.warning("pool_not_filled", level=0, process=None, ts=1, ready=0)'))
    assert list(line) == ["ts", "level", "process", "event", "ready"]
    assert (line["level"], line["process"], line["ready"]) == ("warning", "probe", 0)
    assert isinstance(line["ts"], str)


def logged(program: str) -> bytes:
    """What a process of this program writes to stderr."""
    head = "import asyncpg, structlog\nfrom runtime.log import setup\nsetup('probe')\nlog = structlog.get_logger()\n"
    done = subprocess.run(
        [sys.executable, "-c", head + program],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": paths()},
    )
    return done.stderr
