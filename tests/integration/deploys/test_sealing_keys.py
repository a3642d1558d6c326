"""A process whose SECRET_KEY does not belong to the database does not start, and writes nothing to it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from msgspec.structs import replace
from structlog.testing import capture_logs

from runtime.cells.directory import Addresses, seal_addresses
from runtime.local.ports import free_port
from runtime.postgres import Pool, open_pool
from runtime.seal import Seal, read_keys
from runtime.servers.sealing_keys import WrongKey, check_keys
from tests.support.banking import settings_for
from tests.support.database import own_database, owner_of
from tests.support.system import ROOT, until
from workers.cells import end_when_moved

ONE, TWO, THREE = "11" * 32, "22" * 32, "33" * 32


@pytest_asyncio.fixture
async def url(servers: Any) -> AsyncIterator[str]:
    async with own_database(servers, "sealing_keys") as made:
        yield made


@pytest_asyncio.fixture
async def pool(url: str) -> AsyncIterator[Pool]:
    opened = await open_pool(url, name="tests", size=4)
    yield opened
    await opened.close()


async def check(pool: Pool, text: str) -> None:
    await check_keys(pool, Seal(read_keys(text)))


async def recorded_key_ids(pool: Pool) -> list[int]:
    return [row["key_id"] for row in await pool.fetch("SELECT key_id FROM sealing_key ORDER BY 1")]


async def test_keys_are_recorded_at_the_first_start_and_new_keys_are_added(pool: Pool) -> None:
    with capture_logs() as said:
        for text in (ONE, f"1:{ONE}", f"2:{TWO},1:{ONE}", f"2:{TWO}", ONE):
            await check(pool, text)
    assert await recorded_key_ids(pool) == [1, 2]
    lacking = [each["key_ids"] for each in said if each["event"] == "sealing_keys_lacking"]
    assert lacking == [[1], [2]], "the last two starts lack a recorded key, whose sealed values they cannot open"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (TWO, "no key of SECRET_KEY"),
        (f"3:{ONE}", "no key of SECRET_KEY"),
        (f"2:{THREE}", "no key of SECRET_KEY"),
        (f"2:{THREE},1:{ONE}", "key 2 of SECRET_KEY"),
        (f"2:{TWO},1:{THREE}", "key 1 of SECRET_KEY"),
        (f"3:{THREE},2:{THREE},1:{ONE}", "key 2 of SECRET_KEY"),  # Its new key 3 is not recorded either.
    ],
)
async def test_a_key_id_with_another_key_or_no_known_key_is_refused(pool: Pool, wrong: str, told: str) -> None:
    await check(pool, f"2:{TWO},1:{ONE}")
    with pytest.raises(WrongKey, match=told):
        await check(pool, wrong)
    assert await recorded_key_ids(pool) == [1, 2]


async def test_only_one_of_two_first_processes_with_different_keys_starts(pool: Pool) -> None:
    ended = await asyncio.gather(check(pool, ONE), check(pool, TWO), return_exceptions=True)
    assert sorted(str(type(each)) for each in ended) == sorted(str(each) for each in (type(None), WrongKey)), ended
    assert await recorded_key_ids(pool) == [1]


async def quita(words: Iterable[str], url: str, keys: str, home: Path) -> "subprocess.CompletedProcess[str]":
    return await python("-m", "cli.main", *words, url=url, keys=keys, home=home)


async def python(*words: str, url: str, keys: str, home: Path) -> "subprocess.CompletedProcess[str]":
    env = {
        "DATABASE_URL": url, "SECRET_KEY": keys, "QUITA_HOME": str(home), "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(ROOT), "WEBHOOK_ALLOW_PRIVATE": "1",
    }  # fmt: skip
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, *words],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def test_a_key_with_which_everything_was_sealed_anew_is_recorded(url: str, pool: Pool, tmp_path: Path) -> None:
    """Otherwise a process with the old key alone starts without a word, and opens nothing."""
    await check(pool, ONE)
    done = await quita(["rekey", "--json"], url, f"2:{TWO},1:{ONE}", tmp_path)
    assert (done.returncode, json.loads(done.stdout)["key"]) == (0, 2)
    assert await recorded_key_ids(pool) == [1, 2]


async def test_the_workers_of_a_cell_are_started_whichever_key_its_addresses_are_sealed_under(
    servers: Any, url: str, tmp_path: Path
) -> None:
    """`quita up` looks for new cells in a thread, which ended for good when it could not open an address."""
    home = await asyncpg.connect(owner_of(servers, url))
    sealed = seal_addresses(Addresses("postgresql://here", ""), 1, Seal(read_keys(f"2:{TWO}")))
    await home.execute(
        "INSERT INTO cell (number, name, addresses_sealed, added_at) VALUES (1, 'ala', $1, now())", sealed
    )
    await home.close()
    done = await python("-c", _FIND_NEW_CELLS, url=url, keys=ONE, home=tmp_path)
    assert (done.returncode, done.stdout) == (0, "[1]\n"), done.stderr


_FIND_NEW_CELLS = """
import os
import time
from cli.run.cell_workers import CellWatch
from runtime.settings import read_settings
watch = CellWatch(read_settings({**os.environ, "REDIS_URL": "redis://127.0.0.1:1"}))
while not (new := watch.new()):
    time.sleep(0.05)
print(new)
"""

_ACCOUNT = "01a217cf-9f04-7000-98b2-0cd1db81ba5b"


@pytest.mark.parametrize(
    "words",
    [
        ("rekey",), ("webhook", "set", _ACCOUNT, "http://127.0.0.1:9/"), ("staff", "access", "--email", "a@b.co"),
        ("payer", "erase", "--account", _ACCOUNT, "--document", "52998224725", "--yes"), ("cell", "list"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
async def test_no_command_runs_with_a_key_that_is_not_of_the_database(
    url: str, pool: Pool, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """With another key a payer would not be found by the document, and no worker could open an endpoint's secret."""
    await check(pool, ONE)
    done = await quita(words, url, TWO, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "quita: no key of SECRET_KEY is one that the database was written with\n"


async def test_neither_api_nor_worker_starts_with_a_key_that_is_not_of_the_database(
    url: str, servers: Any, pool: Pool, tmp_path: Path
) -> None:
    await check(pool, ONE)
    env = {
        "DATABASE_URL": url, "REDIS_URL": servers.redis_url, "SECRET_KEY": TWO, "QUITA_HOME": str(tmp_path),
        "PORT": str(free_port()), "API_PROCESSES": "1", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    worker = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "workers"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert worker.returncode == 1
    failed = json.loads(worker.stderr.splitlines()[-1])
    assert (failed["event"], failed["error"]) == ("worker_failed", "WrongKey")
    assert failed["reason"].startswith("no key of SECRET_KEY")
    assert '"worker_started"' not in worker.stdout + worker.stderr
    out = tmp_path / "serve.out"
    with out.open("wb") as file:
        serve = subprocess.Popen(
            [sys.executable, "-m", "cli.main", "serve"], cwd=ROOT, env=env, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        await asyncio.to_thread(until, lambda: '"not_started"' in out.read_text(), within_s=60)
    finally:
        serve.terminate()
        serve.wait(60)
    said = next(json.loads(each) for each in out.read_text().splitlines() if '"not_started"' in each)
    assert said["error"] == "WrongKey"
    assert TWO not in out.read_text() + worker.stderr


async def test_a_worker_that_could_not_read_the_directory_still_learns_that_its_cell_moved(
    servers: Any, url: str
) -> None:
    here, there = Addresses("postgresql://here", ""), Addresses("postgresql://there", "")
    settings = replace(settings_for(DATABASE_URL=url, SECRET_KEY=ONE), cell=1, database_url=here.database_url)
    stopping, home = asyncio.Event(), await asyncpg.connect(owner_of(servers, url))
    unread = seal_addresses(here, 1, Seal(read_keys(f"2:{TWO}")))
    await home.execute(
        "INSERT INTO cell (number, name, addresses_sealed, added_at) VALUES (1, 'ala', $1, now())", unread
    )
    with capture_logs() as said:
        watching = asyncio.create_task(end_when_moved(settings, stopping))
        async with asyncio.timeout(60):
            while not any(each["event"] == "directory_not_read" for each in said):
                assert not watching.done(), watching.exception()
                await asyncio.sleep(0.02)
            sealed = seal_addresses(there, 1, Seal(read_keys(ONE)))
            await home.execute("UPDATE cell SET addresses_sealed = $1", sealed)
            await watching
    assert stopping.is_set()
    await home.close()
