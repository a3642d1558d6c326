"""Reports over a year: how fast the journal is folded into daily totals, and how fast each report answers from them.

The year is written as journal rows only, by one statement: who issues and pays charges is measured elsewhere.
"""

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

from bench.house import House
from bench.report import Finding, rate
from readmodels.report_fold import fold_up_to, settled_up_to
from readmodels.reports import REPORTS, Asked, today_at
from runtime.postgres import Pool, session, transaction

_CHARGES_A_SECOND = 5_000
_ASKED = 5
_SHOP = UUID(int=7)

# Of each hundred charges four fifths are paid, some minutes or days later; a seventh are slips. Twenty merchants.
_YEAR = """
INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload)
SELECT lpad(to_hex(1 + n % 20), 32, '0')::uuid, false, md5(n::text)::uuid, 1, 'charge.created', at, 'bench',
       jsonb_build_object('charge', jsonb_build_object(
           'created_at', at, 'status', 'pending', 'amount_cents', 100 + n % 9000,
           'payment_method', CASE WHEN n % 7 = 0 THEN 'boleto' ELSE 'pix' END,
           'due_date', CASE WHEN n % 7 = 0 THEN (at + interval '10 days')::date END,
           'integrador_code', CASE WHEN n % 9 = 0 THEN 'INTG-AAAAAA' END))
FROM (SELECT n, now() - interval '365 days' + n * interval '365 days' / $1::integer AS at
      FROM generate_series(1, $1::integer) n) g
"""
_PAID = """
INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload)
SELECT account_id, false, charge_id, 2, 'payment.received', at, 'bench', jsonb_build_object(
    'charge', jsonb_build_object('status', 'paid', 'version', 2, 'paid_at', at),
    'payment', jsonb_build_object(
        'method', CASE WHEN payload #>> '{charge,due_date}' IS NULL THEN 'pix' ELSE 'boleto' END,
        'amount_cents', payload #> '{charge,amount_cents}', 'integrador_code', payload #> '{charge,integrador_code}'),
    'entry', jsonb_build_object('type', 'payment', 'amount_cents', payload #> '{charge,amount_cents}'))
FROM (SELECT *, recorded_at + (hashtext(charge_id::text) & 65535) * interval '5 seconds' AS at FROM journal
      WHERE kind = 'charge.created' AND hashtext(charge_id::text) % 5 <> 0) j
"""


async def reports(house: House, seconds: float) -> list[Finding]:
    """A year of 5,000 charges for each of `seconds`: 100,000 unless told otherwise, a million with --seconds 200."""
    charges = int(seconds * _CHARGES_A_SECOND)
    async with house.database() as pool:
        async with session(pool) as conn:
            await conn.execute("SET statement_timeout = 0")
            await conn.execute(_YEAR, charges, timeout=600)
            await conn.execute(_PAID, timeout=600)
            rows = await conn.fetchval("SELECT count(*) FROM journal")
            await conn.execute("RESET statement_timeout")
        began = time.perf_counter()
        await _fold(pool)
        took_s = time.perf_counter() - began
        note = f"{rows:,} journal rows, {charges:,} charges"
        return [rate("journal rows folded into daily totals", [rows / took_s], note=note), *await _answers(pool)]


async def _fold(pool: Pool) -> None:
    while True:
        async with session(pool) as conn:
            horizon = await settled_up_to(conn)
        if horizon is not None:
            async with transaction(pool) as conn:
                if await fold_up_to(conn, horizon) == 0:
                    return


async def _answers(pool: Pool) -> list[Finding]:
    """The slowest of some answers of each report, over the whole year, of one merchant and of all."""
    today = today_at(datetime.now(UTC))
    findings = []
    for report in REPORTS.values():
        if report.live:
            continue
        for of, account_id in (("one merchant", _SHOP), ("all", None)):
            asked = Asked(first=today - timedelta(days=365), last=today, today=today, account_id=account_id)
            took_ms, rows = 0.0, 0
            for _ in range(_ASKED):
                began = time.perf_counter()
                async with session(pool) as conn:
                    rows = len([row async for row in report.rows(conn, asked)])
                took_ms = max(took_ms, (time.perf_counter() - began) * 1000)
            findings.append(
                Finding(f"{report.name} of a year, {of}", took_ms, "ms", note=f"{rows} rows, slowest of {_ASKED}")
            )
    return findings
