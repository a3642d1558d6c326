"""Vacuum and statistics keep up with tables that grow without end, and with queues whose rows come and go."""

from typing import Any

import pytest

GROW = (
    "idempotency", "charge", "boleto", "journal", "seal", "read_charge", "payment", "payment_reversal",
    "read_payment", "read_ledger", "refund", "read_refund", "withdrawal", "read_withdrawal", "partner_share",
    "report_charge", "mail", "mail_stop", "notice", "audit",
    "schedule_charge", "second_copy_request",
    # The books of the simulated bank, which every sandbox creation writes.
    "simulated_location", "simulated_cob", "simulated_pix", "simulated_boleto", "simulated_boleto_payment",
    "simulated_devolucao", "simulated_transfer",
)  # fmt: skip
QUEUES = ("bank_order", "bank_hint", "pix_location", "webhook_delivery_open")
PARTITIONED = (
    "read_event_production", "read_event_sandbox", "bank_order_done", "bank_hint_done", "webhook_delivery_done",
    "webhook_attempt",
)  # fmt: skip
SMALL = (
    # Tables with a few rows for each merchant, person, day, bank, process or cell.
    "cell", "number_block", "partner_copy", "this_cell", "sealing_key",
    "account", "account_clock", "access_token", "auto_withdrawal", "bank_callback", "bank_call_hour", "bank_reconciled",
    "credential",
    "dashboard_session", "dashboard_user", "feed_begin", "integrator", "integrator_share", "lease", "pix_pool",
    "pix_suspension", "recovery_code", "report_attempt", "report_attempt_told", "report_cohort", "report_due",
    "report_entry", "report_integrator", "report_position", "report_refund", "report_wait", "sandbox_clock", "schedule",
    "span_charge", "span_entry", "sign_in_attempt", "verification", "verification_difference", "verification_part",
    "rebuild",
    "webhook_endpoint", "webhook_lane", "webhook_old_secret", "program_payout", "worker_heartbeat",
    "share_proposal", "receiving_key", "held_refund", "payout_change", "invitation", "access_link",
    "sign_in_place",
    "payer_retention", "payer_kept", "anomaly_resolved", "registration_check", "account_note", "merchant_logo",
    # Money and mail with a problem, and mail that is still to be sent.
    "bank_unreadable", "suspense", "mail_request", "caught_mail", "migration", "recovery",
    # The settings of the simulated bank.
    "simulated_callback", "simulated_fault", "simulated_signing_key", "simulated_boleto_webhook",
    "simulated_boleto_rules", "simulated_refund_rules",
)  # fmt: skip


async def test_every_table_is_classified_by_how_it_grows(conn: Any) -> None:
    """A new table must be listed here: it grows without end, is a queue, is partitioned, or stays small."""
    rows = await conn.fetch(
        "SELECT relname FROM pg_class c WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
        # Of a table with a separate queue only its parts count, and of one with months the table and not each month.
        " AND NOT EXISTS (SELECT FROM pg_partitioned_table p WHERE p.partrelid = c.oid AND p.partstrat = 'l')"
        " AND NOT EXISTS (SELECT FROM pg_inherits i JOIN pg_partitioned_table p ON p.partrelid = i.inhparent"
        " WHERE i.inhrelid = c.oid AND p.partstrat <> 'l') AND relname !~ '^request_log'"
    )
    assert {row["relname"] for row in rows} == {*GROW, *QUEUES, *PARTITIONED, *SMALL}


async def _storage_options(conn: Any, table: str) -> dict[str, float]:
    options: list[str] = await conn.fetchval(
        "SELECT coalesce(reloptions, '{}') FROM pg_class WHERE oid = $1::regclass", table
    )
    return {name: float(value) for name, _, value in (each.partition("=") for each in options)}


@pytest.mark.parametrize("table", GROW)
async def test_a_growing_table_is_vacuumed_after_a_fixed_number_of_inserts(conn: Any, table: str) -> None:
    """With a threshold that is a share of the rows, a larger table would be vacuumed ever later."""
    options_of_table = await _storage_options(conn, table)
    assert options_of_table["autovacuum_vacuum_insert_scale_factor"] == 0
    assert options_of_table["autovacuum_vacuum_insert_threshold"] <= 200_000


@pytest.mark.parametrize("table", GROW)
async def test_a_growing_table_is_analyzed_within_its_first_thousand_rows(conn: Any, table: str) -> None:
    """Connections keep a plan made for the empty table until the table has new statistics."""
    _assert_analyzed_soon(await _storage_options(conn, table))


def _assert_analyzed_soon(options_of_table: dict[str, float]) -> None:
    assert options_of_table["autovacuum_analyze_threshold"] <= 1_000
    assert options_of_table["autovacuum_analyze_scale_factor"] <= 0.2


@pytest.mark.parametrize("table", QUEUES)
async def test_a_queue_is_vacuumed_while_it_is_small(conn: Any, table: str) -> None:
    options_of_table = await _storage_options(conn, table)
    assert options_of_table["autovacuum_vacuum_scale_factor"] == 0
    assert options_of_table["autovacuum_vacuum_threshold"] <= 1_000


@pytest.mark.parametrize("table", PARTITIONED)
async def test_every_month_partition_is_analyzed_early_too(conn: Any, table: str) -> None:
    months = await conn.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = $1::regclass", table
    )
    made = [row["name"] for row in months if not row["name"].endswith("_other")]
    assert len(made) >= 6
    for name in made:
        _assert_analyzed_soon(await _storage_options(conn, name))
