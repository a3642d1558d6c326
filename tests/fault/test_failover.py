"""The primary dies under load and its synchronous standby takes over: nothing acknowledged is lost or doubled, and no
process is restarted."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from readmodels.verify import verify
from runtime.postgres import DB_UNAVAILABLE, connect, open_pool, session
from runtime.servers import primary
from runtime.servers.primary import Hosts, NoPrimary
from sql.migrate import migrate
from tests.support.api_process import api_process, prepared_merchants
from tests.support.load import Load
from tests.support.merchant import ApiClient
from tests.support.standby import Pair, both, kill, pair

CLIENTS = 8


async def test_a_silent_host_does_not_prevent_a_connection_to_the_next(
    servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The silent host behaves like a machine without power or network: it neither refuses connections nor answers."""
    monkeypatch.setattr(primary, "HOST_S", 0.5)
    asked = 0

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as silent:
        parts = urlsplit(servers.database_url)
        userinfo, port = parts.netloc.rpartition("@")[0], silent.sockets[0].getsockname()[1]
        dead = urlunsplit(parts._replace(netloc=f"{userinfo}@127.0.0.1:{port}"))
        hosts = Hosts(both(dead, servers.database_url))
        for _ in range(3):
            await (await hosts.connect()).close()
    assert asked == 1, "the host that answered is tried first from then on"


async def test_a_server_that_became_read_only_is_unavailable_and_its_connection_replaced(servers: Any) -> None:
    """A demoted primary behind a proxy does this: the proxy keeps the clients' connections open."""
    pool = await open_pool(servers.database_url, name="tests", size=1)
    try:
        async with session(pool) as conn:
            before = conn.get_server_pid()
            await conn.execute("SET default_transaction_read_only = on")
        with pytest.raises(DB_UNAVAILABLE):
            async with session(pool) as conn:
                await conn.execute("DELETE FROM pix_suspension WHERE false")
        async with session(pool) as conn:
            assert conn.get_server_pid() != before
            await conn.execute("DELETE FROM pix_suspension WHERE false")
    finally:
        await pool.close()


@pytest.fixture
def servers_of_two(home: Path) -> Iterator[Pair]:
    with pair(home) as started:
        yield started


async def test_a_promoted_standby_has_every_acknowledged_charge(
    servers: Any, servers_of_two: Pair, tmp_path: Path
) -> None:
    two = servers_of_two
    await two.synchronous()
    # The standby is named first: the process asks which server takes writes, and does not rely on the order.
    url = both(two.standby.app_dsn, two.primary.app_dsn)
    await migrate(both(two.standby.dsn, two.primary.dsn), app_url=url, report_url=two.primary.report_dsn)
    named = SimpleNamespace(database_url=url, redis_url=servers.redis_url)
    with pytest.raises(NoPrimary):
        await connect(two.standby.app_dsn)
    async with prepared_merchants(named, 1) as (merchant,):
        bounds = {"RATE_PER_S": "100000", "RATE_BURST": "200000"}
        with api_process(named, tmp_path, **bounds) as api:
            client = ApiClient(api.base_url, merchant.account_id, merchant.test.client_id, merchant.test.client_secret)
            load = Load(client)
            await client.token()
            clients = [asyncio.create_task(load.run_client()) for _ in range(CLIENTS)]
            await load.goes_on()
            kill(two.primary)
            killed = time.monotonic()
            while not load.told[503]:
                assert time.monotonic() < killed + 30, (load.told, api.said()[-2000:])
                await asyncio.sleep(0.005)
            known = len(load.created)
            await two.promote()
            promoted = time.monotonic()
            while len(load.created) == known:
                assert time.monotonic() < promoted + 30, (load.told, api.said()[-2000:])
                await asyncio.sleep(0.005)
            first_s = time.monotonic() - promoted
            await load.goes_on()
            load.over = True
            await asyncio.gather(*clients)
            print(f"first success {first_s * 1000:.0f} ms after the promotion; answers: {dict(load.told)}")
            assert load.told.keys() <= {200, 201, 503, "connection lost"}, (load.told, api.said()[-4000:])
            await load.assert_nothing_is_lost(servers.redis_url)
            await client.http.close()
            assert api.running()
            assert "request_broken" not in api.said()
    assert await verify(url) == []
