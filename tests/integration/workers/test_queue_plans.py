"""A queue costs what is taken from it: with 200,000 orders open and nothing analyzed, one that is known by its id is
found by its key, and a claim reads what it leases.

A connection keeps a statement's plan for as long as it lives, and a worker's may have been made while the queue was
empty; so every statement is planned on empty tables first, and once more on the full ones without statistics.
"""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

import sql
from runtime.ids import new_id
from runtime.postgres import open_pool
from tests.support.database import own_database

ACCOUNT = UUID(int=1)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)

# Every order is of another charge; orders 1 to 500 are leased, their leases over.
_SEED = (
    "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
    " VALUES ('00000000-0000-0000-0000-000000000001', 'Loja', '12345678000190', 'Recife', 'approved', 'k', now())",
    """
    CREATE TEMPORARY TABLE seed ON COMMIT DROP AS
    SELECT n, md5('order' || n)::uuid AS order_id, md5('charge' || n)::uuid AS charge_id,
           (ARRAY['cob_register', 'cob_remove', 'boleto_register', 'boleto_reconcile', 'refund_return',
                  'withdrawal_send'])[1 + n % 6] AS kind
    FROM generate_series(1, 200000) AS n
    """,
    """
    INSERT INTO bank_order (order_id, account_id, charge_id, test, bank, kind, request, state, attempts, due_at,
                            lease_until, created_at)
    SELECT order_id, '00000000-0000-0000-0000-000000000001', charge_id, false, '001', kind,
           jsonb_build_object('key', 'key-' || n), CASE WHEN n <= 500 THEN 'working' ELSE 'waiting' END, 1,
           '2026-05-01', CASE WHEN n <= 500 THEN timestamptz '2026-05-02' END, '2026-05-01'
    FROM seed
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
)


async def _order(conn: Any, kind: str, *, working: bool = True) -> Any:
    held = "SELECT order_id, charge_id, n FROM seed WHERE kind = $1 AND (n <= 500) = $2 LIMIT 1"
    return await conn.fetchrow(held, kind, working)


async def _given(conn: Any) -> dict[str, tuple[dict[str, Any], int]]:
    """What each statement is asked, and how many rows of tables it may read for that."""
    pix, boleto, waiting = (
        await _order(conn, "cob_register"),
        await _order(conn, "boleto_register"),
        await _order(conn, "boleto_reconcile", working=False),
    )
    many = [row[0] for row in await conn.fetch("SELECT order_id FROM seed WHERE n <= 500 LIMIT 100")]
    hints = [row[0] for row in await conn.fetch("SELECT hint_id FROM bank_hint LIMIT 10")]
    claim: dict[str, Any] = {"test": False, "now": NOW, "limit": 20, "lease_until": LATER}
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
        # An order, its charge, and what else comes with it.
        "bank_order.claim_pix": (claim, 120),
        "bank_order.claim_boletos": (claim, 120),
        "bank_order.claim_money": (claim | {"lane": "refund"}, 120),
        "bank_order.claim_money of withdrawals": (claim | {"lane": "withdrawal"}, 120),
        "boleto.give_up": (
            {"order_id": boleto["order_id"], "attempts": None, "outcome": b"{}", "now": NOW, "untouched": 0,
             "reconcile_id": new_id(), "reconcile_at": NOW},
            5,
        ),
        "boleto.order_change": (
            {"order_id": new_id(), "charge_id": waiting["charge_id"], "account_id": ACCOUNT, "test": False,
             "kind": "boleto_redate", "request": b"{}", "now": NOW, "deadline": LATER, "reply_to": "x"},
            5,
        ),
        "bank_hint.claim": ({"banks": ["001"], "now": NOW, "limit": 20, "lease_until": LATER}, 60),
        "bank_hint.settle": (
            {"verdicts.hint_id": hints, "verdicts.state": ["confirmed"] * 9 + ["waiting"],
             "verdicts.attempts": [1] * 10, "verdicts.due_at": [NOW] * 10, "boletos": "boleto:", "now": NOW},
            40,
        ),
        "bank_hint.reported": ({"bank": "001", "numbers": ["7", "8", "9"]}, 10),
        "idempotency.ordered": ({"account_id": ACCOUNT, "test": False, "key": f"key-{boleto['n']}"}, 3),
        "charge.lock": ({"charge_ids": [pix["charge_id"]]}, 3),
    }  # fmt: skip


async def _prepare(conn: Any) -> None:
    """Each statement planned for all values, with the tables as they are now."""
    for number, name in enumerate(NAMES):
        statement = sql.STATEMENTS[name.partition(" of ")[0]]
        await conn.execute(f"PREPARE asked_{number} AS {statement.text}")
        await conn.execute(f"EXPLAIN EXECUTE asked_{number}({', '.join(['NULL'] * len(statement.parameters))})")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def full(servers: Any) -> AsyncIterator[Any]:
    async with own_database(servers, "queue_plans") as url:
        pool = await open_pool(url, name="tests", size=1)
        async with pool.acquire() as conn:
            transaction = conn.transaction()
            await transaction.start()
            await conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            await conn.execute("SET LOCAL statement_timeout = 0")
            await _prepare(conn)
            for statement in _SEED:
                await conn.execute(statement, timeout=300)
            yield conn
            await transaction.rollback()
        await pool.close()


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


NAMES = (
    "bank_order.settle", "bank_order.settle of a hundred", "bank_order.put_off",
    "withdrawal.abandon_order", "boleto.outcome", "bank_order.release", "bank_order.claim_pix",
    "bank_order.claim_boletos", "bank_order.claim_money", "bank_order.claim_money of withdrawals", "boleto.give_up",
    "boleto.order_change", "idempotency.ordered", "charge.lock", "bank_hint.claim", "bank_hint.settle",
    "bank_hint.reported",
)  # fmt: skip


@pytest.mark.parametrize("planned", ["while empty", "when full"])
@pytest.mark.parametrize("name", NAMES)
async def test_an_order_costs_what_is_read_of_it(full: Any, name: str, planned: str) -> None:
    given, rows_max = (await _given(full))[name]
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
        if planned == "when full":
            await full.execute("DISCARD PLANS")
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
    assert read <= rows_max, shown
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 40 * rows_max, shown


def _spelled(kind: str) -> str:
    schema, name = kind.split(".", 1)
    return f'{schema}."{name[:-2]}"[]' if name.endswith("[]") else f'{schema}."{name}"'
