"""The feed lies in months: there is always one to write into, and old ones leave as a whole (400 days)."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

import sql
from readmodels.event_list import EventFilters, event_page
from readmodels.page import Order
from readmodels.verify import find_broken
from runtime.ids import new_id
from workers.feed_months import AHEAD, KEPT, detach, make

project_events = sql.run("project.events")
_JOURNAL = """
INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload, event_id, event_sequence,
                     event_body)
VALUES ($1, true, $2, 1, 'charge.expired', $3, 'test', '{}', $4, $5, '{"event":"charge.expired"}')
RETURNING journal_id
"""


async def happened(conn: Any, account_id: UUID, sequence: int, at: datetime) -> None:
    """An event in journal and feed."""
    journal_id = await conn.fetchval(_JOURNAL, account_id, new_id(), at, new_id(), sequence)
    await project_events(conn, journal_ids=[journal_id])


async def month_of(conn: Any, account_id: UUID, sequence: int) -> str:
    found: str = await conn.fetchval(
        "SELECT tableoid::regclass::text FROM read_event WHERE account_id = $1 AND sequence = $2", account_id, sequence
    )
    return found


async def shown(conn: Any, account_id: UUID) -> list[int]:
    page = await event_page(conn, account_id, True, EventFilters(order=Order.ASC), None, 100)
    return [msgspec.json.decode(item)["sequence"] for item in page[0]]


async def test_an_event_lies_in_its_month_and_one_without_a_month_is_kept_all_the_same(conn: Any) -> None:
    now, account_id = datetime.now(UTC), new_id()
    await make(conn, first=now.date(), last=(now + AHEAD).date())
    await happened(conn, account_id, 1, now)
    await happened(conn, account_id, 2, now + timedelta(days=3000))
    assert await month_of(conn, account_id, 1) == f"read_event_{now:%Y_%m}"
    assert await month_of(conn, account_id, 2) == "read_event_other"
    assert await shown(conn, account_id) == [1, 2]


async def test_a_month_made_late_takes_what_was_kept_for_it(conn: Any) -> None:
    account_id, at = new_id(), datetime(2033, 5, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    await happened(conn, account_id, 1, at)
    await happened(conn, account_id, 2, at + timedelta(milliseconds=1))
    assert (await make(conn, first=at.date(), last=at.date())).months == 1
    assert await month_of(conn, account_id, 1) == "read_event_2033_05"
    assert await month_of(conn, account_id, 2) == "read_event_other"


async def test_months_are_made_ahead_and_made_once(conn: Any) -> None:
    first = datetime(2031, 1, 15, tzinfo=UTC).date()
    last = datetime(2031, 4, 1, tzinfo=UTC).date()
    assert (await make(conn, first=first, last=last)).months == 4
    assert (await make(conn, first=first, last=last)).months == 0


async def test_a_month_older_than_400_days_leaves_the_feed_whole_and_its_rows_are_kept(conn: Any) -> None:
    now, account_id = datetime.now(UTC), new_id()
    old = now - KEPT - timedelta(days=70)
    await make(conn, first=old.date(), last=now.date())
    await happened(conn, account_id, 1, old)
    await happened(conn, account_id, 2, now - KEPT + timedelta(days=1))
    await happened(conn, account_id, 3, now)
    assert await shown(conn, account_id) == [1, 2, 3]
    assert (await detach(conn, ended_before=now - KEPT)).months >= 1
    assert await shown(conn, account_id) == [2, 3]
    kept = await conn.fetchval(
        f"SELECT count(*) FROM feed_archive.read_event_{old:%Y_%m} WHERE account_id = $1",  # noqa: S608
        account_id,
    )
    assert kept == 1
    # What is made anew from the journal begins where the feed does.
    await conn.execute("DELETE FROM read_event WHERE account_id = $1", account_id)
    ids = [row[0] for row in await conn.fetch("SELECT journal_id FROM journal WHERE account_id = $1", account_id)]
    await project_events(conn, journal_ids=ids)
    assert await shown(conn, account_id) == [2, 3]
    assert (await detach(conn, ended_before=now - KEPT)).months == 0


async def test_numbers_of_months_that_left_are_not_missing(conn: Any) -> None:
    now, account_id = datetime.now(UTC), new_id()
    old = now - KEPT - timedelta(days=70)
    await make(conn, first=old.date(), last=now.date())
    for sequence, at in enumerate((old, old, now), 1):
        await happened(conn, account_id, sequence, at)
    await conn.execute(
        "INSERT INTO account_clock (account_id, test, event_sequence, latest_at) VALUES ($1, true, 3, $2)",
        account_id, now,
    )  # fmt: skip
    await detach(conn, ended_before=now - KEPT)
    before = {each.what: each.rows for each in await find_broken(conn)}
    await conn.execute("DELETE FROM read_event WHERE account_id = $1", account_id)
    after = {each.what: each.rows for each in await find_broken(conn)}
    assert after["numbers missing in a feed"] - before["numbers missing in a feed"] == 1
