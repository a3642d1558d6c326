"""Metrics: every answered request is counted once, by route and status. The access log holds its instant."""

import asyncio
import json
import os
import re
import time
from datetime import UTC, datetime, timedelta

from runtime.log import AccessLog
from runtime.metrics import Meter, exposition
from tests.support.in_process import Api

UNTIL_SHOWN_S = 10.0  # counts are exported every second


def counted() -> dict[str, float]:
    """The counts of GET /healthz: requests answered, and durations observed."""
    said = exposition().decode()
    found = {}
    for name in ("http_server_requests_total", "http_server_request_duration_seconds_count"):
        values = re.findall(rf'^{name}\{{([^}}]*http_route="/healthz"[^}}]*)\}} (\S+)$', said, re.M)
        found[name] = sum(float(value) for _, value in values)
    return found


async def test_each_answered_request_is_counted_once_within_ten_seconds(api: Api) -> None:
    before = counted()
    for _ in range(7):
        assert (await api.get("/healthz", token=None)).status == 200

    deadline = time.monotonic() + UNTIL_SHOWN_S
    wanted = {name: count + 7 for name, count in before.items()}
    while counted() != wanted:
        assert time.monotonic() < deadline, (counted(), wanted)
        await asyncio.sleep(0.1)


async def test_each_line_of_the_access_log_has_its_requests_own_millisecond() -> None:
    read_end, write_end = os.pipe()
    log = AccessLog(write_end)
    log.start()
    meter = Meter(log)
    asked = []
    for _ in range(4):  # from one second into the next
        before = datetime.now(UTC)
        meter.finish("GET", "/elsewhere", 200, meter.start(), "req_1")
        asked.append((before, datetime.now(UTC)))
        await asyncio.sleep(0.4)
    await log.stop()
    os.close(write_end)
    with os.fdopen(read_end) as lines:
        stamps = [json.loads(line)["ts"] for line in lines]
    assert all(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", ts) for ts in stamps)
    for (before, after), ts in zip(asked, stamps, strict=True):
        assert before - timedelta(milliseconds=1) < datetime.fromisoformat(ts) <= after
