"""The read tables are a function of the journal: verify finds rows that do not follow from it, and rebuild reproduces
them to the byte."""

import asyncio
import json
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import msgspec
import pytest
import pytest_asyncio

from domain.merchants.fees import FeeTerms
from readmodels.rebuild import rebuild
from readmodels.verify import verify
from tests.support.merchant import (
    ApiClient,
    ApiMerchant,
    Books,
    assert_books_are_clean,
    book_bank_payments,
    create_charge_in_the_past,
    database_of,
    new_merchant,
    paused,
    until_answer,
)
from tests.support.system import System

TABLES = ("read_charge", "read_payment", "read_refund", "read_withdrawal", "read_event", "read_ledger")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merchant(system: System) -> AsyncIterator[ApiMerchant]:
    """A merchant with charges, payments, refunds, fees and withdrawals in every state."""
    async with new_merchant(system) as opened, database_of(system) as books:
        client = opened.sandbox
        fees = FeeTerms(pix_bps=99, pix_cents_min=5, boleto_cents=199, withdrawal_cents=50)
        await books.execute(
            "UPDATE account SET fees = $2 WHERE account_id = $1", opened.record.account_id, msgspec.json.encode(fees)
        )
        await asyncio.gather(*(client.paid(external_id=f"pedido-{number}") for number in range(20)))
        for _ in range(3):
            await client.cancel((await client.created())["charge_id"])
            late = await create_charge_in_the_past(books, client, test=True, ago_s=120, lifetime_s=60)
            assert (await client.charge(late))["status"] == "expired"
            await book_bank_payments(system, books, late, 999, 1000, 1001)
        for headers in ({}, {"X-Sandbox-Bank": "refuse"}):
            charge_id = (await client.paid("3.00"))["charge_id"]
            for body in ({"amount": "1.00"}, {}):
                path = f"/v1/charges/{charge_id}/refunds"
                assert (await client.ask("POST", path, json=body, key=str(uuid4()), headers=headers)).status == 201
        await until_answer(lambda: _all_refunds_ended(client))
        await _withdraw(system, books, opened.production)
        await client.created(payer={"name": "Zé", "document": "52998224725"}, description="açaí")
        yield opened


async def _all_refunds_ended(client: ApiClient) -> bool:
    """Whether every refund has ended, so that no worker changes anything any more."""
    return {refund["status"] for refund in await client.all("/v1/refunds")} == {"succeeded", "failed"}


async def _withdraw(system: System, books: Books, client: ApiClient) -> None:
    """Makes one withdrawal that is sent and one that is cancelled."""
    charge_id = await create_charge_in_the_past(books, client, test=False, ago_s=60, lifetime_s=3600)
    await book_bank_payments(system, books, charge_id, 1000)
    made = [
        (await client.ask("POST", "/v1/withdrawals", json={"amount": each}, key=str(uuid4()))).body["withdrawal_id"]
        for each in ("6.00", "1.00")
    ]
    assert (await client.post(f"/v1/withdrawals/{made[1]}/cancel")).status == 200
    await books.execute("UPDATE bank_order SET due_at = now() WHERE order_id = $1::text::uuid", made[0])

    async def sent() -> bool:
        return bool((await client.get(f"/v1/withdrawals/{made[0]}")).body["status"] == "succeeded")

    await until_answer(sent)


async def _dump(books: Books, account_id: str | None = None) -> dict[str, list[str]]:
    """Returns every row of the read tables, or those of an account, as text."""
    rows = "SELECT t::text FROM {} t WHERE $1::text IS NULL OR account_id = $1::text::uuid ORDER BY 1"
    return {table: [row[0] for row in await books.fetch(rows.format(table), account_id)] for table in TABLES}


async def test_a_rebuild_reproduces_the_read_tables_to_the_byte(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    with paused(system, "worker"), paused(system, "api"):  # The next test covers concurrent writes.
        before = await _dump(books)
        assert all(before.values())
        rows = system.json("readmodels", "rebuild")
        assert {table: rows[table] for table in TABLES} == {table: len(lines) for table, lines in before.items()}
        assert await _dump(books) == before
    assert_books_are_clean(system)


async def test_a_rebuild_loses_no_charge_or_event_written_meanwhile(system: System, merchant: ApiMerchant) -> None:
    client, paid = merchant.sandbox, []
    rebuilding = True

    async def write() -> None:
        while rebuilding:
            paid.append((await client.paid())["charge_id"])
            await asyncio.sleep(0.02)  # Leaves the rebuild some CPU time.

    async def read() -> None:
        while rebuilding:
            assert len(await client.all("/v1/charges", limit=100)) >= 27
            await asyncio.sleep(0.1)

    working = [asyncio.create_task(each) for each in (write(), write(), read())]
    try:
        for _ in range(3):
            await rebuild(system.database_url)
            assert await verify(system.database_url) == []
    finally:
        rebuilding = False
        await asyncio.gather(*working)
    assert paid
    assert set(paid) <= {charge["charge_id"] for charge in await client.all("/v1/charges", status="paid", limit=100)}
    events = await client.events()
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert_books_are_clean(system)


ONE = (
    "(tableoid, ctid) = (SELECT tableoid, ctid FROM {} WHERE account_id = $1::text::uuid"
    " ORDER BY tableoid, ctid LIMIT 1)"
)


# Each set corrupts every table at most once: a verification compares each table with the journal separately.
CORRUPTIONS = (
    {
        "read_charge": "UPDATE read_charge SET changes = coalesce(changes, '{}') || '{\"amount_cents\": 1}' WHERE ",
        "read_refund": "UPDATE read_refund SET doc = doc || '{\"amount_cents\": 1}' WHERE ",
        "read_withdrawal": 'UPDATE read_withdrawal SET doc = doc || \'{"pix_key": "x"}\' WHERE ',
        "read_payment": "UPDATE read_payment SET anomaly = 'duplicate', external_id = 'x' WHERE ",
        "read_event": "UPDATE read_event SET journal_id = 1 WHERE ",
        "read_ledger": "UPDATE read_ledger SET balance_after_cents = balance_after_cents + 1 WHERE ",
    },
    {
        "read_charge": "DELETE FROM read_charge WHERE ",
        "read_refund": "DELETE FROM read_refund WHERE ",
        "read_withdrawal": "DELETE FROM read_withdrawal WHERE ",
        "read_event": "UPDATE read_event SET sequence = 1000000 WHERE ",
        "read_ledger": (
            "INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents, balance_after_cents,"
            " created_at) SELECT account_id, false, 1000, gen_random_uuid(), type, 1, 1, now() FROM read_ledger WHERE "
        ),
    },
    {"read_charge": "UPDATE read_charge SET journal_id = 1 WHERE "},
)


@pytest.mark.parametrize("corruptions", CORRUPTIONS)
async def test_a_corrupted_row_is_found_and_repaired(
    system: System, merchant: ApiMerchant, books: Books, corruptions: dict[str, str]
) -> None:
    account_id = merchant.sandbox.account_id  # workers go on with what other tests left to other accounts
    before = await _dump(books, account_id)
    for table, corruption in corruptions.items():
        done = await books.execute(corruption + ONE.format(table), account_id)
        assert done.endswith(" 1")
    assert corruptions.keys() <= {each.table for each in await verify(system.database_url)}
    await rebuild(system.database_url)
    assert await _dump(books, account_id) == before
    assert await verify(system.database_url) == []


async def test_the_verify_command_prints_the_differences_and_exits_with_1(
    system: System, merchant: ApiMerchant, books: Books
) -> None:
    client = merchant.sandbox
    await books.execute("DELETE FROM read_event WHERE account_id = $1::text::uuid AND sequence = 3", client.account_id)
    found = system.quita("readmodels", "verify", "--json")
    system.json("readmodels", "rebuild")
    assert found.returncode == 1
    told = json.loads(found.stdout)
    assert told["clean"] is False
    assert {"table": "read_event", "what": "missing or stale", "rows": 1} in told["differences"]
    assert_books_are_clean(system)


async def test_verify_reports_books_that_do_not_add_up(system: System, merchant: ApiMerchant, books: Books) -> None:
    """These differences are in the tables of the write side: a rebuild cannot repair them, and must not hide them."""
    of_account = " account_id = $1::text::uuid"
    broken = {
        "balances that are not the sum of their lines": (
            "UPDATE account_clock SET balance_cents = balance_cents + 1 WHERE",
            "UPDATE account_clock SET balance_cents = balance_cents - 1 WHERE",
        ),
        "numbers missing in a feed": (
            "UPDATE account_clock SET event_sequence = event_sequence + 1 WHERE",
            "UPDATE account_clock SET event_sequence = event_sequence - 1 WHERE",
        ),
        "payments of which something else is back or on its way than their refunds say": (
            "UPDATE payment SET refunded_cents = 1 WHERE refunded_cents = 0 AND refunding_cents = 0 AND",
            "UPDATE payment SET refunded_cents = 0 WHERE refunded_cents = 1 AND",
        ),
        "refunds that look otherwise than they are": (
            "UPDATE refund SET status = 'pending' WHERE status = 'failed' AND",
            "UPDATE refund SET status = 'failed' WHERE status = 'pending' AND",
        ),
        "withdrawals that look otherwise than they are": (
            "UPDATE withdrawal SET status = 'processing' WHERE status = 'cancelled' AND",
            "UPDATE withdrawal SET status = 'cancelled' WHERE status = 'processing' AND",
        ),
        "charges that look otherwise than they are": (
            "UPDATE charge SET version = version + 1 WHERE",
            "UPDATE charge SET version = version - 1 WHERE",
        ),
    }
    try:
        for break_it, _ in broken.values():
            await books.execute(break_it + of_account, merchant.sandbox.account_id)
        found = await verify(system.database_url)
        assert {difference.table for difference in found} == {"books"}
        assert broken.keys() <= {difference.what for difference in found}
    finally:
        for _, mend_it in broken.values():
            await books.execute(mend_it + of_account, merchant.sandbox.account_id)
    assert_books_are_clean(system)


async def test_the_journal_cannot_be_rewritten(system: System, books: Books, merchant: ApiMerchant) -> None:
    owner = await asyncpg.connect(system.owner_url)
    for attempt in ("UPDATE journal SET actor = 'x'", "DELETE FROM journal", "TRUNCATE journal"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await books.execute(attempt)
        with pytest.raises(asyncpg.RaiseError, match="append only"):
            await owner.execute(attempt)
    await owner.close()
