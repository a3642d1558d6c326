"""Vacuum and statistics keep up with tables that grow for ever, and with queues whose rows come and go."""

from typing import Any

import pytest

GROW = (
    "idempotency", "charge", "boleto", "journal", "read_charge", "payment", "payment_reversal", "read_payment",
    "read_ledger", "refund", "read_refund", "withdrawal", "read_withdrawal", "partner_share", "webhook_delivery",
    "webhook_attempt",
)  # fmt: skip
QUEUES = ("bank_order", "bank_hint", "pix_location")
PARTITIONED = ("read_event", "bank_order_done", "bank_hint_done")


async def _upkeep(conn: Any, table: str) -> dict[str, float]:
    options: list[str] = await conn.fetchval(
        "SELECT coalesce(reloptions, '{}') FROM pg_class WHERE oid = $1::regclass", table
    )
    return {name: float(value) for name, _, value in (each.partition("=") for each in options)}


@pytest.mark.parametrize("table", GROW)
async def test_a_table_that_grows_for_ever_is_looked_after_by_the_row(conn: Any, table: str) -> None:
    """By a share of its rows, the larger a table is the later it is looked after."""
    upkeep = await _upkeep(conn, table)
    assert upkeep["autovacuum_analyze_scale_factor"] == upkeep["autovacuum_vacuum_insert_scale_factor"] == 0
    assert upkeep["autovacuum_analyze_threshold"] <= 200_000
    assert upkeep["autovacuum_vacuum_insert_threshold"] <= 200_000


@pytest.mark.parametrize("table", QUEUES)
async def test_a_queue_is_vacuumed_while_it_is_small(conn: Any, table: str) -> None:
    upkeep = await _upkeep(conn, table)
    assert upkeep["autovacuum_vacuum_scale_factor"] == 0
    assert upkeep["autovacuum_vacuum_threshold"] <= 1_000


@pytest.mark.parametrize("table", PARTITIONED)
async def test_each_month_is_looked_after_as_well(conn: Any, table: str) -> None:
    months = await conn.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = $1::regclass", table
    )
    made = [row["name"] for row in months if not row["name"].endswith("_other")]
    assert len(made) >= 6
    for name in made:
        assert (await _upkeep(conn, name))["autovacuum_analyze_scale_factor"] == 0
