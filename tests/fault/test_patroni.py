"""Patroni promotes the standby of a lost machine: nothing acknowledged is lost, and no process is restarted."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from readmodels.verify import verify
from sql.migrate import migrate
from tests.support.api_process import api_process, prepared_merchants
from tests.support.load import Load
from tests.support.merchant import ApiClient
from tests.support.patroni import PROGRAM, VOTER, watched

CLIENTS = 4
PROMOTED_S = 90.0
"""Patroni waits 20 s, its minimum, before a silent machine counts as lost."""


@pytest.mark.heavy
@pytest.mark.skipif(None in (PROGRAM, VOTER), reason="patroni, with its raft, is not on the path")
async def test_after_patroni_promotes_a_standby_the_api_writes_to_it_and_nothing_is_lost(
    servers: Any, home: Path, tmp_path: Path
) -> None:
    with watched(home) as two:
        url = two.url("quita_app", two.app_password)
        await migrate(two.owner_url, app_url=url, report_url=two.url("quita_report", two.app_password))
        named = SimpleNamespace(database_url=url, redis_url=servers.redis_url)
        async with prepared_merchants(named, 1) as (merchant,):
            with api_process(named, tmp_path, RATE_PER_S="100000", RATE_BURST="200000") as api:
                client = ApiClient(
                    api.base_url, merchant.account_id, merchant.test.client_id, merchant.test.client_secret
                )
                load = Load(client)
                await client.token()
                clients = [asyncio.create_task(load.run_client()) for _ in range(CLIENTS)]
                await load.goes_on()
                old = await asyncio.to_thread(two.primary)
                await asyncio.to_thread(two.lose, old)
                known, lost = len(load.created), time.monotonic()
                while len(load.created) == known:
                    assert time.monotonic() < lost + PROMOTED_S, (load.told, [node.said() for node in two.nodes])
                    await asyncio.sleep(0.05)
                first_s = time.monotonic() - lost
                new = await asyncio.to_thread(two.primary)
                assert new.name != old.name
                await load.goes_on()
                load.over = True
                await asyncio.gather(*clients)
                print(f"first success {first_s:.1f} s after the loss; answers: {dict(load.told)}")
                assert load.told.keys() <= {200, 201, 503, "connection lost"}, (load.told, api.said()[-4000:])
                await load.assert_nothing_is_lost(servers.redis_url)
                await client.http.close()
                assert api.running()
                assert "request_broken" not in api.said()
        assert await verify(url) == []
