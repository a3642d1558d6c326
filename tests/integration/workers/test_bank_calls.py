"""Outcomes of bank calls are counted per hour and process, written in one statement, and deleted after weeks."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio

from banks.measured import TALLY, MeasuredBank
from banks.protocol import BoletoBank, CobvBank, Done, PixBank, Rejected, TransferBank, Unknown
from readmodels.dashboard.bank_calls import BANK_CALLS_KEPT, calls_by_operation, calls_by_time
from runtime.postgres import Pool, session
from tests.support.dashboard import settings_with, staff_in_browser
from tests.support.pages import serving
from web.plataforma.labels import BANK_OPERATIONS
from workers.context import Context
from workers.housekeeping.bank_calls import forget_bank_calls, store_bank_calls

SETTINGS = settings_with(STAFF_TOTP_REQUIRED="0")
NOW = datetime(2031, 5, 6, 15, 40, tzinfo=UTC)


class Answering:
    """A bank's API that returns the answer passed to it, after the given delay."""

    async def put_cob(self, answer: Any, after_s: float = 0.0) -> Any:
        await asyncio.sleep(after_s)
        return answer

    async def get_cob(self, answer: Any) -> Any:
        raise ValueError(answer)


@pytest.fixture
def bank() -> Any:
    TALLY.take()
    api = Answering()
    return MeasuredBank("901", cast(Any, SimpleNamespace(pix=api, cobvs=api, boletos=api, transfers=api))).pix


@pytest_asyncio.fixture(loop_scope="session")
async def hours(pool: Pool) -> AsyncIterator[None]:
    await pool.execute("DELETE FROM bank_call_hour")
    yield
    await pool.execute("DELETE FROM bank_call_hour")


def worker(pool: Pool, now: datetime = NOW) -> Context:
    return cast(Context, SimpleNamespace(pool=pool, now=lambda: now))


def test_every_bank_operation_has_a_label_for_staff() -> None:
    ports = (PixBank, CobvBank, BoletoBank, TransferBank)
    operations = {name for port in ports for name in vars(port) if asyncio.iscoroutinefunction(getattr(port, name))}
    assert operations == set(BANK_OPERATIONS)


async def test_bank_calls_of_one_hour_are_added_up_over_several_writes(pool: Pool, bank: Any, hours: None) -> None:
    await bank.put_cob(Done(None))
    await bank.put_cob(Rejected("x", "y"), after_s=0.05)
    await bank.put_cob(Unknown("silence"))
    with pytest.raises(ValueError, match="broken"):
        await bank.get_cob("broken")
    assert await store_bank_calls(worker(pool)) == 0
    await store_bank_calls(worker(pool))  # nothing more to write
    await bank.put_cob(Unknown("silence"))
    await store_bank_calls(worker(pool, NOW + timedelta(minutes=10)))
    await bank.put_cob(Done(None))
    await store_bank_calls(worker(pool, NOW + timedelta(hours=1)))
    async with session(pool) as conn:
        times = await calls_by_time(conn, timedelta(days=1), now=NOW + timedelta(hours=1))
        operations = await calls_by_operation(conn, timedelta(days=1), now=NOW + timedelta(hours=1))
        (month,) = [each for each in await calls_by_time(conn, timedelta(days=30), now=NOW) if each.calls]
    assert len(times) == 24
    assert [(each.calls, each.rejected, each.unanswered) for each in times[-2:]] == [(5, 1, 3), (1, 0, 0)]
    assert times[-2].at == datetime(2031, 5, 6, 15, tzinfo=UTC)
    assert not any(each.calls for each in times[:-2])
    assert 50 <= times[-2].slowest_ms < 5_000
    assert [(each.bank, each.operation, each.calls, each.unanswered) for each in operations] == [
        ("901", "get_cob", 1, 1), ("901", "put_cob", 5, 2),
    ]  # fmt: skip
    assert (month.calls, month.at.hour) == (6, 0)


async def test_counts_whose_write_failed_are_written_by_the_next_run(pool: Pool, bank: Any, hours: None) -> None:
    await bank.put_cob(Done(None))

    class Away:
        def acquire(self, *given: Any, **named: Any) -> Any:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        await store_bank_calls(worker(cast(Pool, Away())))
    await bank.put_cob(Done(None))
    await store_bank_calls(worker(pool))
    assert await pool.fetchval("SELECT sum(calls) FROM bank_call_hour") == 2


async def test_hours_of_bank_calls_that_are_no_longer_shown_are_deleted(pool: Pool, bank: Any, hours: None) -> None:
    for age in (BANK_CALLS_KEPT + timedelta(hours=2), BANK_CALLS_KEPT - timedelta(hours=2)):
        await bank.put_cob(Done(None))
        await store_bank_calls(worker(pool, NOW - age))
    await forget_bank_calls(worker(pool))
    assert await pool.fetchval("SELECT count(*) FROM bank_call_hour") == 1


async def test_staff_see_the_share_of_answered_bank_calls(pool: Pool, bank: Any, hours: None) -> None:
    for answer in (Done(None), Done(None), Done(None), Unknown("silence")):
        await bank.put_cob(answer)
    await store_bank_calls(worker(pool, datetime.now(UTC)))
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as address, staff_in_browser(pool, address) as staff:
        for query, bars in (("", 72), ("?dias=1", 24), ("?dias=7", 168), ("?dias=30", 30)):
            page = await staff.opened(f"/plataforma/banco{query}")
            assert "Respondidas 75,00 % 1 sem resposta de 4" in page.text
            assert f"{bars} barras" in page.html
            assert "Registrar um Pix banco 901" in page.text
        assert (await staff.get("/plataforma/banco?dias=2")).status == 400
