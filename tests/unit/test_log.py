"""No log line contains data that a client sent, not even quoted in an error; a blocked log delays nothing."""

import asyncio
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runtime.log import AccessLog, Lines
from tests.support.webhooks import paths


@pytest.mark.parametrize(
    "raised",
    [
        # asyncpg's message about an argument of the wrong type, and PostgreSQL's about invalid text.
        "asyncpg.DataError(\"invalid input for query argument $3: '12345678909' (an integer is required)\")",
        "asyncpg.InvalidTextRepresentationError('invalid input syntax for type uuid: \"12345678909\"')",
        "asyncpg.NumericValueOutOfRangeError('value \"12345678909\" is out of range for type integer')",
    ],
)
def test_the_log_does_not_quote_a_value_that_a_database_error_quotes(raised: str) -> None:
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


def test_writing_to_a_full_or_closed_descriptor_loses_lines_and_raises_nothing() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        lines = Lines(full.fileno())
        for _ in range(3):
            lines.msg(b"{}")
        assert lines.lost == 3
    lines.msg(b"{}")  # the descriptor is closed by now
    assert lines.lost == 4


def test_a_stalled_log_reader_blocks_nothing_and_later_gets_the_number_of_lost_lines() -> None:
    read_end, write_end = os.pipe()
    try:
        lines = Lines(write_end)
        line = json.dumps({"event": "x" * 1000}).encode()
        for _ in range(200):  # a pipe holds 64 KiB
            lines.msg(line)
        lost = lines.lost
        assert 100 < lost < 200
        held = os.read(read_end, 1 << 20)
        lines.msg(line)
        assert lines.lost == 0
        *_, lost_notice, last = os.read(read_end, 1 << 20).splitlines()
        assert json.loads(lost_notice) == {"level": "error", "event": "log_lines_lost", "lines": lost}
        assert last == line
        assert held.count(b"\n") + lost in (200, 201)
    finally:
        os.close(read_end)
        os.close(write_end)


def test_a_stalled_reader_of_the_access_log_takes_no_thread_from_other_work() -> None:
    """Each cell has an access log of its own: with five cells on two cores they took all threads of the process, so
    that nobody could sign in (a password is hashed in a thread)."""
    read_end, write_end = os.pipe()

    async def hash_beside_a_stalled_reader() -> str:
        loop = asyncio.get_running_loop()  # its own: the other tests' loop keeps its threads
        loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
        begun = asyncio.Event()
        loop.add_reader(read_end, begun.set)
        log = AccessLog(write_end)
        log.start()
        try:
            log.write(b"x" * (1 << 18))  # a pipe holds 64 KiB
            await asyncio.wait_for(begun.wait(), 30)
            return await asyncio.wait_for(asyncio.to_thread(lambda: "hashed"), 30)
        finally:
            loop.remove_reader(read_end)
            await log.stop()

    try:
        assert asyncio.run(hash_beside_a_stalled_reader()) == "hashed"
    finally:
        os.close(read_end)
        os.close(write_end)


def test_a_line_that_cannot_be_encoded_is_logged_without_its_fields() -> None:
    line = json.loads(logged('log.warning("odd_path", path="\\udcff")'))
    assert (line["event"], line["level"], line["process"]) == ("odd_path", "warning", "probe")


def logged(program: str) -> bytes:
    """The stderr of a process that runs this program."""
    head = "import asyncpg, structlog\nfrom runtime.log import setup\nsetup('probe')\nlog = structlog.get_logger()\n"
    result = subprocess.run(
        [sys.executable, "-c", head + program],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": paths()},
    )
    return result.stderr
