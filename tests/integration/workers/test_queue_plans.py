"""A queue statement costs what it takes: with 200,000 open orders and deliveries and no statistics, an order is found
by its key, and a claim reads only what it leases.

A connection keeps a statement's plan until its tables are analyzed again. A worker's plan may have been made while the
queue was empty, or while it held a few thousand analyzed rows, most of them waiting. So every statement is planned on
empty tables, on small ones, and on the full ones without statistics.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest
import pytest_asyncio

import sql
from runtime.ids import new_id
from runtime.postgres import open_pool
from tests.support.database import own_database, owner_of

ACCOUNT = UUID(int=1)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
BEFORE = datetime(2026, 4, 1, tzinfo=UTC)
"""An instant at which nothing is due."""

_FEW, _MANY = 3_000, 200_000
_GROWN = 40_000
"""Orders after plans made on small tables: a plan that reads them all exceeds every bound hundreds of times."""

# A hundred endpoints; endpoint 0 is the account's. The lane of endpoint 2 is paused, that of 3 is being held, and the
# held deliveries of that of 4 are being released.
_BEFORE = (
    "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
    " VALUES ('00000000-0000-0000-0000-000000000001', 'Loja', '12345678000190', 'Recife', 'approved', 'k', now())",
    """
    INSERT INTO webhook_endpoint (endpoint_id, account_id, url, secret_sealed, kinds, created_at)
    SELECT md5('endpoint' || n)::uuid, CASE n WHEN 0 THEN '00000000-0000-0000-0000-000000000001'::uuid END,
           'https://loja.test/', '', '{}', '2026-05-01' FROM generate_series(0, 99) AS n
    """,
    """
    INSERT INTO webhook_lane (endpoint_id, test, state, blocked_until, holding, releasing_since)
    SELECT md5('endpoint' || n)::uuid, false, CASE n WHEN 2 THEN 'paused' ELSE 'open' END, '2026-05-01', n = 3,
           CASE n WHEN 4 THEN timestamptz '2026-05-01' END
    FROM generate_series(0, 99) AS n
    """,
    "CREATE TEMPORARY TABLE seed (n integer, order_id uuid, charge_id uuid, kind text)",
)
_NUMBERED = """
INSERT INTO seed
SELECT n, md5('order' || n)::uuid, md5('charge' || n)::uuid, kinds[1 + n % array_length(kinds, 1)]
FROM generate_series($1::integer, $2) AS n CROSS JOIN (SELECT $3::text[]) AS given (kinds)
"""
_KINDS = ["cob_register", "cob_remove", "boleto_register", "boleto_reconcile", "refund_return", "withdrawal_send"]
# Each order has a charge of its own. Orders 1 to 500 are leased, and their leases have ended. The account has also
# ordered more than its share.
_SEED = (
    """
    INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, state, attempts, due_at,
                            lease_until, created_at)
    SELECT order_id, '00000000-0000-0000-0000-000000000001', charge_id, false, '001', kind,
           jsonb_build_object('key', 'key-' || n), CASE WHEN n <= 500 THEN 'working' ELSE 'waiting' END, 1,
           '2026-05-01', CASE WHEN n <= 500 THEN timestamptz '2026-05-02' END, '2026-05-01'
    FROM seed
    """,
    """
    INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, due_at, created_at)
    SELECT md5('early' || n)::uuid, '00000000-0000-0000-0000-000000000001', charge_id, false, '001',
           CASE n % 40 WHEN 0 THEN 'cob_register' ELSE 'boleto_register' END, jsonb_build_object('key', 'early-' || n),
           '2026-07-01', '2026-05-01'
    FROM seed WHERE n % 20 = 0
    """,
    """
    INSERT INTO bank_hint (bank, about, txid, received_at, due_at)
    SELECT '001', 'E' || n, n::text, '2026-05-01', '2026-05-01' FROM seed
    """,
    """
    INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents, created_at,
                        expires_at)
    SELECT '00000000-0000-0000-0000-000000000001', charge_id, false, '001', 'boleto_pix', 'pending', 1, 1000,
           '2026-05-01', '2026-07-01' FROM seed
    """,
    """
    INSERT INTO boleto (account_id, charge_id, bank, number, due_on, registered_at)
    SELECT '00000000-0000-0000-0000-000000000001', charge_id, '001', n::text, '2026-06-30', '2026-05-01' FROM seed
    WHERE kind LIKE 'boleto%'
    """,
    """
    INSERT INTO withdrawal (account_id, withdrawal_id, status, version, amount_cents, created_at)
    SELECT '00000000-0000-0000-0000-000000000001', order_id, 'pending', 1, 1000, '2026-05-01' FROM seed
    WHERE kind = 'withdrawal_send'
    """,
    """
    INSERT INTO webhook_delivery (delivery_id, endpoint_id, account_id, test, event_id, sequence, type, state, attempt,
                                  due_at, lease_until, created_at)
    SELECT md5('delivery' || n)::uuid, md5('endpoint' || n % 100)::uuid, '00000000-0000-0000-0000-000000000001', false,
           order_id, n, 'payment.received',
           CASE WHEN n <= 500 THEN 'sending' WHEN n % 100 IN (2, 4) THEN 'held' WHEN n % 100 = 9 THEN 'delivered'
                ELSE 'pending' END,
           1, '2026-05-01', CASE WHEN n <= 500 THEN timestamptz '2026-05-02' END, '2026-05-01'
    FROM seed
    """,
)


# 2,000 paused lanes, each with a held delivery and nothing due.
_PAUSED = (
    """
    INSERT INTO webhook_endpoint (endpoint_id, url, secret_sealed, kinds, created_at)
    SELECT md5('paused' || n)::uuid, 'https://loja.test/', '', '{}', '2026-05-01' FROM generate_series(1, 2000) AS n
    """,
    """
    INSERT INTO webhook_lane (endpoint_id, test, state, blocked_until)
    SELECT md5('paused' || n)::uuid, false, 'paused', '2026-06-02' FROM generate_series(1, 2000) AS n
    """,
    """
    INSERT INTO webhook_delivery (delivery_id, endpoint_id, account_id, test, event_id, sequence, type, state, due_at,
                                  created_at)
    SELECT md5('held' || n)::uuid, md5('paused' || n)::uuid, '00000000-0000-0000-0000-000000000001', false,
           md5('event' || n)::uuid, n, 'payment.received', 'held', '2026-06-02', '2026-06-02'
    FROM generate_series(1, 2000) AS n
    """,
)


async def _order(conn: Any, kind: str, *, working: bool = True) -> Any:
    held = "SELECT order_id, charge_id, n FROM seed WHERE kind = $1 AND (n <= 500) = $2 LIMIT 1"
    return await conn.fetchrow(held, kind, working)


async def _given(conn: Any) -> dict[str, tuple[dict[str, Any], int]]:
    """Each statement's parameters, and how many rows of tables it may read with them."""
    pix, boleto, waiting = (
        await _order(conn, "cob_register"),
        await _order(conn, "boleto_register"),
        await _order(conn, "boleto_reconcile", working=False),
    )
    many = [row[0] for row in await conn.fetch("SELECT order_id FROM seed WHERE n <= 500 LIMIT 100")]
    hints = [row[0] for row in await conn.fetch("SELECT hint_id FROM bank_hint LIMIT 10")]
    claim: dict[str, Any] = {
        "test": False, "since": None, "now": NOW, "limit": 20, "lease": timedelta(seconds=30),
    }  # fmt: skip
    ended: dict[str, Any] = {"outcomes": [b"{}"], "states": ["done"], "attempts": [1], "now": NOW}
    return {
        "bank_order.settle": (ended | {"order_ids": [pix["order_id"]]}, 3),
        "bank_order.settle of a hundred": (
            {key: value * 100 if isinstance(value, list) else value for key, value in ended.items()}
            | {"order_ids": many},
            300,
        ),
        "bank_order.put_off": ({"order_id": pix["order_id"], "attempts": 1, "due_at": NOW, "outcome": None}, 3),
        "withdrawal.abandon_order": ({"withdrawal_id": pix["order_id"], "now": NOW}, 3),
        "boleto.outcome": ({"order_id": pix["order_id"]}, 3),
        "bank_order.release": ({"now": NOW, "limit": 10}, 30),
        # For each claimed order, its charge and what else is read with it.
        "bank_order.claim_pix": (claim | {"lane": "pix"}, 120),
        "bank_order.claim_boletos": (claim | {"lane": "boleto"}, 120),
        "bank_order.claim_pix of a burst": (claim | {"lane": "pix", "now": BEFORE}, 120),
        "bank_order.claim_boletos of a burst": (claim | {"lane": "boleto", "now": BEFORE}, 120),
        "bank_order.claim_money": (claim | {"lane": "refund"}, 120),
        "bank_order.claim_money of withdrawals": (claim | {"lane": "withdrawal"}, 120),
        "boleto.give_up": (
            {"order_id": boleto["order_id"], "attempts": None, "outcome": b"{}", "now": NOW, "untouched": 0,
             "closing": "pix_paid", "reconcile_id": new_id()},
            5,
        ),
        "boleto.order_change": (
            {"order_id": new_id(), "charge_id": waiting["charge_id"], "account_id": ACCOUNT, "test": False,
             "kind": "boleto_redate", "request": b"{}", "now": NOW, "due_at": NOW, "deadline": LATER, "reply_to": "x"},
            5,
        ),
        "bank_hint.claim": ({"of_boleto": False, "banks": ["001"], "now": NOW, "limit": 20, "lease_until": LATER}, 60),
        "bank_hint.settle": (
            {"verdicts.hint_id": hints, "verdicts.state": ["confirmed"] * 9 + ["waiting"],
             "verdicts.attempts": [1] * 10, "verdicts.due_at": [NOW] * 10, "boletos": "boleto:", "now": NOW},
            40,
        ),
        "bank_hint.reported": ({"bank": "001", "numbers": ["7", "8", "9"]}, 10),
        **await _given_of_webhooks(conn),
        "idempotency.ordered": ({"account_id": ACCOUNT, "test": False, "key": f"key-{boleto['n']}"}, 3),
        "charge.lock": ({"charge_ids": [pix["charge_id"]]}, 3),
    }  # fmt: skip


async def _given_of_webhooks(conn: Any) -> dict[str, tuple[dict[str, Any], int]]:
    endpoint_id, delivery_id = await conn.fetchrow("SELECT md5('endpoint0')::uuid, md5('delivery100')::uuid")
    sent = [row[0] for row in await conn.fetch("SELECT md5('delivery' || n)::uuid FROM generate_series(1, 10) AS n")]
    lane: dict[str, Any] = {
        "lanes.endpoint_id": [endpoint_id], "lanes.test": [False], "lanes.probe": [False], "lanes.failed_probes": [0],
        "lanes.concurrency": [20], "claim_maxes": [10],
    }  # fmt: skip
    stored: dict[str, Any] = {
        "attempts.due.delivery_id": sent, "attempts.due.account_id": [ACCOUNT] * 10, "attempts.due.test": [False] * 10,
        "attempts.due.attempt": [1] * 10, "outcomes.state": ["delivered"] * 10, "outcomes.step": [1] * 10,
        "outcomes.due_at": [NOW] * 10, "attempts.started_at": [NOW] * 10, "attempts.duration_ms": [5] * 10,
        "attempts.answer.status": [200] * 10, "attempts.answer.outcome": ["delivered"] * 10,
        "attempts.answer.kept": [b""] * 10, "lanes.endpoint_id": [], "lanes.mode.test": [], "cap": 10, "cap_test": 5,
    }  # fmt: skip
    some: dict[str, Any] = {"lanes_max": 5, "limit": 20, "now": NOW, "next_at": LATER, "before": NOW}
    some["late"] = timedelta(minutes=2)
    one: dict[str, Any] = {"delivery_id": delivery_id, "account_id": ACCOUNT, "test": False, "now": NOW}
    return {
        "webhook_delivery.claim": (lane | {"now": NOW, "lease": timedelta(seconds=30)}, 60),
        "webhook_delivery.store_results": (stored | {"now": NOW}, 60),
        "webhook_delivery.release": ({"now": NOW, "limit": 10, "losses_max": 5, "lease": timedelta(seconds=30)}, 40),
        "webhook_lane.hold": (some, 60),
        "webhook_lane.release": (some, 60),
        "webhook_lane.end_release": (some, 10),
        "webhook_lane.probe": (some, 40),
        "webhook_lane.forget_held": (some, 60),
        "redeliver.one": (one | {"endpoint_id": endpoint_id}, 6),
        # For staff: the ends of the queues, whatever the number of receivers, and the few that stopped workers.
        "platform.queues": ({"limit": 100}, 1_500),
        "stuck.deliveries": ({"limit": 50}, 10),
        "backlog.deliveries": ({"now": NOW, "counted_max": 20, "lanes_max": 20}, 240),
        "read_delivery.find": (one, 6),
    }


async def _prepare(conn: Any) -> None:
    """Make the generic plan of each statement, with the tables as they are now."""
    for number, name in enumerate(NAMES):
        statement = sql.STATEMENTS[name.partition(" of ")[0]]
        await conn.execute(f"PREPARE asked_{number} AS {statement.text}")
        await conn.execute(f"EXPLAIN EXECUTE asked_{number}({', '.join(['NULL'] * len(statement.parameters))})")


async def _seed(conn: Any, first: int, count: int, kinds: list[str]) -> None:
    await conn.execute("TRUNCATE seed")
    await conn.execute(_NUMBERED, first, first + count - 1, kinds, timeout=300)
    for statement in _SEED:
        await conn.execute(statement, timeout=300)


@asynccontextmanager
async def _planned(servers: Any, *, few: int = 0) -> AsyncIterator[Any]:
    """A connection that made all plans while there were `few` analyzed rows, of waiting orders of one lane, or none.
    Then the tables are filled."""
    async with own_database(servers, "queue_plans") as url:
        owner: Any = await asyncpg.connect(owner_of(servers, url))
        pool = await open_pool(url, name="tests", size=1)
        async with pool.acquire() as conn:
            for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
                await conn.execute(f"SET {setting} = 0")
            transaction = conn.transaction()
            await transaction.start()
            for statement in _BEFORE:
                await conn.execute(statement)
            if few:
                await _seed(conn, _MANY + 1, few, _KINDS[:1])
                await transaction.commit()
                await owner.execute("ANALYZE")
                transaction = conn.transaction()
                await transaction.start()
            await _prepare(conn)
            await _seed(conn, 1, _GROWN if few else _MANY, _KINDS)
            yield conn
            await transaction.rollback()
        await pool.close()
        await owner.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def full(servers: Any) -> AsyncIterator[Any]:
    async with _planned(servers) as conn:
        yield conn


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def grown(servers: Any) -> AsyncIterator[Any]:
    async with _planned(servers, few=_FEW) as conn:
        yield conn


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


NAMES = (
    "bank_order.settle", "bank_order.settle of a hundred", "bank_order.put_off",
    "withdrawal.abandon_order", "boleto.outcome", "bank_order.release", "bank_order.claim_pix",
    "bank_order.claim_boletos", "bank_order.claim_pix of a burst", "bank_order.claim_boletos of a burst",
    "bank_order.claim_money", "bank_order.claim_money of withdrawals", "boleto.give_up",
    "boleto.order_change", "idempotency.ordered", "charge.lock", "bank_hint.claim", "bank_hint.settle",
    "bank_hint.reported", "webhook_delivery.claim",
    "webhook_delivery.store_results", "webhook_delivery.release",
    "webhook_lane.hold", "webhook_lane.release", "webhook_lane.end_release", "webhook_lane.probe",
    "webhook_lane.forget_held", "redeliver.one", "read_delivery.find", "platform.queues", "stuck.deliveries",
    "backlog.deliveries",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", NAMES
)  # varies fastest: the plans of the empty tables are discarded after all tests of them
@pytest.mark.parametrize("planned", ["while empty", "when full"])
async def test_a_queue_statement_reads_only_the_rows_it_needs(full: Any, name: str, planned: str) -> None:
    if planned == "when full":
        await full.execute("DISCARD PLANS")
    await _assert_cheap(full, name)


@pytest.mark.parametrize("name", NAMES)
async def test_a_queue_statement_planned_on_small_tables_reads_only_the_rows_it_needs(grown: Any, name: str) -> None:
    await _assert_cheap(grown, name)


# Every account has moved the clock of its sandbox, and very many orders wait.
_CROWDED = (
    """
    INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)
    SELECT md5(n::text)::uuid, 'Loja', '12345678000190', 'Recife', 'approved', 'k', now()
    FROM generate_series(1, 20000) AS n
    """,
    "INSERT INTO sandbox_clock (account_id, ahead_s, moved_at) SELECT account_id, 60, now() FROM account",
    """
    INSERT INTO bank_order (order_id, account_id, test, bank, kind, request, due_at, created_at)
    SELECT md5(n::text)::uuid, md5((n % 20000)::text)::uuid, false, '001', kind, '{}', '2026-05-01', '2026-05-01'
    FROM generate_series(1, 100000) AS n CROSS JOIN LATERAL (
        SELECT CASE n % 2 WHEN 0 THEN 'cob_register' ELSE 'boleto_register' END AS kind) AS of
    """,
    "ANALYZE",
)


async def test_a_claim_planned_while_many_orders_wait_looks_up_sandbox_clocks_by_account(servers: Any) -> None:
    async with own_database(servers, "queue_plans") as url:
        owner: Any = await asyncpg.connect(owner_of(servers, url))
        for statement in _CROWDED:
            await owner.execute(statement, timeout=300)
        await owner.close()
        conn: Any = await asyncpg.connect(url)
        for number, name in enumerate(("bank_order.claim_pix", "bank_order.claim_boletos")):
            await conn.execute(f"PREPARE asked_{number} AS {sql.STATEMENTS[name].text}")
            raw = await conn.fetchval(
                f"EXPLAIN (FORMAT JSON) EXECUTE asked_{number}(NULL, NULL, NULL, NULL, NULL, NULL)"
            )
            plan = msgspec.json.decode(raw)[0]["Plan"]
            (clocks,) = [node for node in _nodes(plan) if node.get("Relation Name") == "sandbox_clock"]
            assert "account_id" in clocks.get("Index Cond", ""), raw
        await conn.close()


# A few merchants have very many schedules and idempotency keys.
_SCHEDULED = (
    """
    INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)
    SELECT md5(n::text)::uuid, 'Loja', '12345678000190', 'Recife', 'approved', 'k', now()
    FROM generate_series(0, 2) AS n
    """,
    """
    INSERT INTO schedule (account_id, schedule_id, status, created_at, payment_method, amount_cents, frequency,
                          first_due_date, issue_days_before, send_email, look_at, next_number, next_due_date,
                          payer_sealed)
    SELECT md5((n % 3)::text)::uuid, md5(n::text)::uuid, 'active', '2026-05-01', 'pix', 100, 'monthly', '2026-06-10',
           10, false, '2026-05-01', 1, '2026-06-10', '' FROM generate_series(1, 60000) AS n
    """,
    """
    INSERT INTO idempotency (account_id, test, key, fingerprint, resource_type, resource_id, first_used_at)
    SELECT md5((n % 3)::text)::uuid, false, 'key-' || n, sha256(''), 'charge', md5(n::text)::uuid, '2026-05-01'
    FROM generate_series(1, 60000) AS n
    """,
    "ANALYZE",
)


async def test_a_claim_of_schedules_planned_while_many_are_due_looks_up_idempotency_keys_by_index(servers: Any) -> None:
    async with own_database(servers, "queue_plans") as url:
        owner: Any = await asyncpg.connect(owner_of(servers, url))
        for statement in _SCHEDULED:
            await owner.execute(statement, timeout=300)
        await owner.close()
        conn: Any = await asyncpg.connect(url)
        await conn.execute(f"PREPARE asked AS {sql.STATEMENTS['schedule.claim'].text}")
        raw = await conn.fetchval("EXPLAIN (FORMAT JSON) EXECUTE asked(NULL, NULL, NULL, NULL, NULL)")
        await conn.close()
    plan = msgspec.json.decode(raw)[0]["Plan"]
    found = {node["Relation Name"]: node.get("Index Cond", "") for node in _nodes(plan) if "Relation Name" in node}
    assert "key =" in found["idempotency"], raw
    assert "account_id" in found["account"], raw


@pytest.mark.parametrize("name", [each for each in NAMES if each.startswith("webhook_lane.")])
async def test_a_lane_statement_reads_no_more_rows_when_thousands_of_lanes_stay_paused(full: Any, name: str) -> None:
    before, _, _ = await _read(full, name)
    savepoint = full.transaction()
    await savepoint.start()
    try:
        for statement in _PAUSED:
            await full.execute(statement)
        read, _, shown = await _read(full, name)
    finally:
        await savepoint.rollback()
    assert read == before, shown


async def _assert_cheap(full: Any, name: str) -> None:
    _, rows_max = (await _given(full))[name]
    read, blocks, shown = await _read(full, name)
    assert read <= rows_max, shown
    assert blocks <= 40 * rows_max, shown


async def _read(full: Any, name: str) -> tuple[int, int, str]:
    """How many rows of tables and how many blocks the statement reads, and its plan."""
    given, _ = (await _given(full))[name]
    statement = sql.STATEMENTS[name.partition(" of ")[0]]
    types = [f"{each.schema}.{each.name}" for each in (await full.prepare(statement.text)).get_parameters()]
    literals = [
        f"{await full.fetchval(f'SELECT quote_nullable(($1::{_spelled(kind)})::text)', given[parameter])}"
        f"::{_spelled(kind)}"
        for kind, parameter in zip(types, statement.parameters, strict=True)
    ]
    savepoint = full.transaction()
    await savepoint.start()
    try:
        raw = await full.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked_{NAMES.index(name)}({', '.join(literals)})"
        )
    finally:
        await savepoint.rollback()
    plan = msgspec.json.decode(raw)[0]["Plan"]
    read = sum(
        node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
        for node in _nodes(plan)
        if "Scan" in node["Node Type"] and ("Relation Name" in node or "Index Name" in node)
    )
    shown = msgspec.json.format(raw).decode() if isinstance(raw, bytes) else raw
    return int(read), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], shown


def _spelled(kind: str) -> str:
    schema, name = kind.split(".", 1)
    return f'{schema}."{name[:-2]}"[]' if name.endswith("[]") else f'{schema}."{name}"'
