"""Writes a year of a busy merchant and of twenty small ones, for the benches that read much data: charges, payments,
refunds, their events in the feed, and the outcomes of webhook attempts.

The data are journal rows, written by a few statements, because issuing and paying charges is measured elsewhere. The
read tables are filled from the journal by the projections themselves, so they hold what a live system would.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

from readmodels.projector import Projection, project
from readmodels.reports.fold import fold_up_to, wait_for_horizon
from runtime.postgres import Pool, session, transaction
from sql import Connection

# The page size of a rebuild: with many more rows at once the planner reads whole tables for each page.
_PAGE_ROWS = 2_000
_FILL_S_MAX = 7_200  # of one statement
_WEEK = timedelta(days=7)
# All projections but those of withdrawals, which this year does not have.
_PROJECTIONS = (Projection.CREATED, Projection.CHANGED, Projection.PAYMENTS, Projection.FUNDS, Projection.REFUNDS,
           Projection.REFUNDS_ENDED, Projection.EVENTS, Projection.ENTRIES)  # fmt: skip
# The service makes month partitions ahead of time; the past months of a year that is written today are missing.
MONTHS = "SELECT make_months($1, (now() - interval '366 days')::date, now()::date)"

# Ids as the service makes them: the first 48 bits are milliseconds. Indexes then grow at their right edge, and a block
# range of the journal holds the charges of one period; with random ids its BRIN summaries would exclude nothing.
ORDERED_ID = """
CREATE OR REPLACE FUNCTION pg_temp.ordered_id(at timestamptz, seed text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(seed), 1, 3)
            || '8' || substr(md5(seed), 4, 15))::uuid
$$
"""
# One of twenty-one charges is of a small merchant; a seventh are boletos, a ninth a partner's. Documents are as long as
# real ones, with a QR Code or a line. They must not be longer than those that the benches create: the journal's pages
# would have gaps into which the new rows fit, so that each new row would change an old page.
_ISSUED = """
INSERT INTO pg_temp.year
SELECT account_id, false, charge_id, 1, 'charge.created', at, 'bench', jsonb_build_object('charge', jsonb_build_object(
           'account_id', account_id, 'charge_id', charge_id, 'test', false, 'public_id', left(md5('public' || n), 22),
           'external_id', 'order-' || n, 'status', 'pending', 'version', 1,
           'amount_cents', 100 + n % 9000, 'txid', replace(charge_id::text, '-', ''), 'created_at', iso)
       || CASE WHEN n % 7 = 0 THEN jsonb_build_object(
           'payment_method', 'boleto', 'due_date', (at + interval '10 days')::date,
           'nosso_numero', lpad(n::text, 20, '0'), 'boleto', jsonb_build_object(
               'nosso_numero', lpad(n::text, 20, '0'), 'seu_numero', n::text, 'linha_digitavel', lpad(n::text, 47, '0'),
               'codigo_barras', lpad(n::text, 44, '0'), 'tipo_cobranca', 'boleto',
               'data_vencimento', (at + interval '10 days')::date))
          ELSE jsonb_build_object('payment_method', 'pix', 'expires_at', iso, 'qr_code', repeat(md5(n::text), 5)) END
       || CASE WHEN n % 9 = 0 THEN jsonb_build_object('integrador_code', 'INTG-AAAAAA') ELSE '{}' END)
FROM (SELECT n, at, pg_temp.ordered_id(at, n::text) AS charge_id,
             to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS iso,
             CASE WHEN n % 21 = 0 THEN lpad(to_hex(1 + n / 21 % 20), 32, '0')::uuid ELSE $2::uuid END AS account_id
      FROM (SELECT n, now() - interval '365 days' + n * interval '365 days' / $1::integer AS at
            FROM generate_series(1, $1::integer) n) every) g
"""
# Four fifths of the charges are paid, minutes or days later; one in fifty of these is refunded two days after. Ledger
# entries are numbered and balances computed per account, as the account's clock would do. A payment is an event of the
# feed, with the body as domain/events.py writes it, built as text: jsonb would sort the keys and insert spaces.
_PAID_AND_REFUNDED = """
WITH paid AS (
    SELECT account_id, charge_id, payload -> 'charge' AS charge,
           recorded_at + (hashtext(charge_id::text) & 65535) * interval '5 seconds' AS at
    FROM pg_temp.year WHERE kind = 'charge.created' AND hashtext(charge_id::text) % 5 <> 0
), moved AS (
    SELECT *, 'payment' AS type, at AS paid_at FROM paid WHERE at < now()
    UNION ALL
    SELECT account_id, charge_id, charge, at + interval '2 days', 'refund', at FROM paid
    WHERE at < now() - interval '2 days' AND hashtext(charge_id::text) % 50 = 1
), numbered AS (
    SELECT account_id, charge_id, charge, at, type, (charge ->> 'amount_cents')::bigint AS cents,
           pg_temp.ordered_id(paid_at, 'payment' || charge_id) AS payment_id,
           pg_temp.ordered_id(at, 'refund' || charge_id) AS refund_id,
           CASE type WHEN 'payment' THEN pg_temp.ordered_id(at, 'event' || charge_id) END AS event_id,
           to_char(paid_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS paid,
           row_number() OVER line AS sequence,
           sum(CASE type WHEN 'payment' THEN 1 ELSE -1 END * (charge ->> 'amount_cents')::bigint) OVER line AS balance
    FROM moved WINDOW line AS (PARTITION BY account_id ORDER BY at, charge_id, type)
)
INSERT INTO pg_temp.year
SELECT account_id, false, charge_id, 2, CASE type WHEN 'payment' THEN 'payment.received' ELSE 'refund.created' END, at,
       'bench', jsonb_build_object('external_id', charge -> 'external_id', 'entry', jsonb_build_object(
           'sequence', sequence, 'entry_id', pg_temp.ordered_id(at, type || charge_id), 'type', type,
           'amount_cents', CASE type WHEN 'payment' THEN cents ELSE -cents END, 'balance_after_cents', balance,
           'payment_id', payment_id)
           || CASE type WHEN 'payment' THEN '{}' ELSE jsonb_build_object('refund_id', refund_id) END)
       || CASE type WHEN 'payment' THEN jsonb_build_object(
           'charge', jsonb_build_object('status', 'paid', 'version', 2, 'paid_at', paid),
           'payment', payment)
          ELSE jsonb_build_object(
           'refund', jsonb_build_object('refund_id', refund_id, 'payment_id', payment_id, 'status', 'pending',
               'amount_cents', cents, 'created_at', at),
           'fund', jsonb_build_object('payment_id', payment_id, 'paid_at', paid, 'refunding_cents', cents)) END,
       event_id, CASE WHEN event_id IS NOT NULL THEN convert_to(format(
           '{"event":"payment.received","event_id":"%s","charge_id":"%s","account_id":"%s","status":"paid","amount":"%s",'
           '"external_id":"%s","test":false,"paid_at":"%s","payment_id":"%s","method":"%s","anomaly":null,"version":2}',
           event_id, charge_id, account_id, to_char(cents / 100.0, 'FM9999999990.00'), charge ->> 'external_id', paid,
           payment_id, charge ->> 'payment_method'), 'UTF8') END
FROM numbered CROSS JOIN LATERAL (SELECT jsonb_build_object(
    'payment_id', payment_id, 'charge_id', charge_id, 'external_id', charge -> 'external_id',
    'payment_method', charge -> 'payment_method', 'method', charge -> 'payment_method', 'amount_cents', cents,
    'paid_at', paid, 'credited_at', paid, 'end_to_end_id', 'E99999997' || substr(md5(charge_id::text), 1, 23),
    'late', false) || CASE WHEN charge ? 'integrador_code'
        THEN jsonb_build_object('integrador_code', charge -> 'integrador_code') ELSE '{}' END AS payment) p
"""
# Refunds are of the whole amount: nothing remains refundable.
_REFUNDS_SUCCEEDED = """
INSERT INTO pg_temp.year
SELECT account_id, false, charge_id, 3, 'refund.succeeded', at, 'bench', jsonb_build_object(
           'external_id', payload -> 'external_id',
           'refund', jsonb_build_object('refund_id', payload #> '{refund,refund_id}', 'status', 'succeeded',
               'completed_at', iso),
           'fund', jsonb_build_object('payment_id', payload #> '{fund,payment_id}',
               'paid_at', payload #> '{fund,paid_at}', 'refunding_cents', 0,
               'refunded_cents', payload #> '{refund,amount_cents}')),
       event_id, convert_to(format(
           '{"event":"refund.succeeded","event_id":"%s","charge_id":"%s","account_id":"%s","status":"paid","amount":"%s",'
           '"external_id":"%s","test":false,"refund_id":"%s","payment_id":"%s","refund_status":"succeeded","reason":null,'
           '"end_to_end_id":null,"return_id":null,"failure_code":null,"refunded_total":"%s",'
           '"refundable_remaining":"0.00","completed_at":"%s","version":3}',
           event_id, charge_id, account_id, amount, payload ->> 'external_id', payload #>> '{refund,refund_id}',
           payload #>> '{fund,payment_id}', amount, iso), 'UTF8')
FROM (SELECT account_id, charge_id, payload, at, pg_temp.ordered_id(at, 'refund event' || charge_id) AS event_id,
             to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS iso,
             to_char((payload #>> '{refund,amount_cents}')::bigint / 100.0, 'FM9999999990.00') AS amount
      FROM (SELECT *, recorded_at + interval '2 seconds' AS at FROM pg_temp.year WHERE kind = 'refund.created') begun) r
"""
# Rows go into the journal in order of time, and tables are vacuumed in between: in a live system a charge is paid while
# its rows are on the last pages. If all charges were issued first and then paid, gaps would be spread over the tables,
# and new rows would go into these gaps.
_STAGING_TABLE = """
CREATE TEMPORARY TABLE year (account_id uuid, test boolean, charge_id uuid, version integer, kind text,
                             recorded_at timestamptz, actor text, payload jsonb, event_id uuid, event_body bytea)
"""
# Events are numbered from the account clock's position on, which is then advanced.
_JOURNAL_WEEK = """
WITH happened AS MATERIALIZED (
    SELECT y.*, CASE WHEN event_id IS NOT NULL
                     THEN coalesce(k.event_sequence, 0) + count(event_id) OVER line END AS number
    FROM pg_temp.year y LEFT JOIN account_clock k USING (account_id, test)
    WHERE recorded_at >= $1 AND recorded_at < $2
    WINDOW line AS (PARTITION BY account_id ORDER BY recorded_at, charge_id, version)
), clock AS (
    INSERT INTO account_clock AS c (account_id, test, event_sequence, entry_sequence, balance_cents, latest_at)
    SELECT account_id, test, count(event_id), count(*) FILTER (WHERE payload ? 'entry'),
           coalesce(sum((payload #>> '{entry,amount_cents}')::bigint), 0), max(recorded_at)
    FROM happened WHERE event_id IS NOT NULL OR payload ? 'entry' GROUP BY account_id, test
    ON CONFLICT (account_id, test) DO UPDATE
    SET event_sequence = c.event_sequence + excluded.event_sequence,
        entry_sequence = c.entry_sequence + excluded.entry_sequence,
        balance_cents  = c.balance_cents + excluded.balance_cents,
        latest_at      = greatest(c.latest_at, excluded.latest_at)
)
INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload, event_id, event_sequence,
                     event_body)
SELECT account_id, test, charge_id, version, kind, recorded_at, actor, payload, event_id, number, event_body
FROM happened
ORDER BY recorded_at, version
"""
# One webhook attempt per payment: of ten, one timed out and one was rejected. Counts are rows of about fifty attempts,
# as the senders write them.
_WEBHOOK_ATTEMPTS = """
INSERT INTO report_attempt_told (account_id, day, outcome, attempts, duration_ms)
SELECT account_id, (recorded_at AT TIME ZONE 'America/Sao_Paulo')::date, outcome, count(*), 40 * count(*)
FROM (SELECT account_id, recorded_at, journal_id / 50 AS batch,
             CASE journal_id % 10 WHEN 0 THEN 'timeout' WHEN 1 THEN 'rejected' ELSE 'delivered' END AS outcome
      FROM journal WHERE kind = 'payment.received') attempt
GROUP BY account_id, 2, outcome, batch
"""
_TABLES = (
    "journal, account_clock, read_charge, read_payment, read_refund, read_ledger, read_event, report_charge,"
    " report_attempt_told"
)


async def write_year(pool: Pool, account_id: UUID, charges: int, *, folded: bool = False) -> int:
    """Writes `charges` charges of `account_id` over the last 365 days, and a twentieth as many of other merchants.
    Returns the number of journal rows.

    With `folded` each week is folded into the daily totals before the next begins, except for webhook attempts.
    """
    async with session(pool) as conn:
        await conn.execute("SET statement_timeout = 0")
        await conn.execute(ORDERED_ID)
        await conn.execute(MONTHS, "read_event_production")
        await conn.execute(_STAGING_TABLE)
        await conn.execute(_ISSUED, charges * 21 // 20, account_id, timeout=_FILL_S_MAX)
        for statement in (_PAID_AND_REFUNDED, _REFUNDS_SUCCEEDED, "CREATE INDEX ON pg_temp.year (recorded_at)"):
            await conn.execute(statement, timeout=_FILL_S_MAX)
        number = last_id = 0
        week = await conn.fetchval("SELECT now() - interval '366 days'")
        while week < datetime.now(UTC):
            await conn.execute(_JOURNAL_WEEK, week, week + _WEEK, timeout=_FILL_S_MAX)
            week += _WEEK
            async for ids in _pages(conn, last_id):
                await project(conn, ids, _PROJECTIONS)
                last_id = ids[-1]
                number += 1
                # The tables grow from nothing within a minute. They are analyzed each time they have doubled, or the
                # planner would take them for empty and scan them for each row.
                if number & (number - 1) == 0:
                    await conn.execute(f"ANALYZE {_TABLES}", timeout=_FILL_S_MAX)
            if folded:
                await fold_all(pool)
            await conn.execute(f"VACUUM {_TABLES}", timeout=_FILL_S_MAX)
        for statement in ("DROP TABLE pg_temp.year", _WEBHOOK_ATTEMPTS, f"VACUUM ANALYZE {_TABLES}"):
            await conn.execute(statement, timeout=_FILL_S_MAX)
        await conn.execute("RESET statement_timeout")
        return int(await conn.fetchval("SELECT count(*) FROM journal"))


async def fold_all(pool: Pool) -> None:
    """Folds the journal into the daily totals, as a worker's rounds do, until nothing is left to fold."""
    while True:
        async with session(pool) as conn:
            horizon = await wait_for_horizon(conn)
            uncounted = await conn.fetchval("SELECT EXISTS (SELECT FROM report_attempt_told)")
        if horizon is not None:
            async with transaction(pool) as conn:
                if await fold_up_to(conn, horizon) == 0 and not uncounted:
                    return


async def _pages(conn: Connection, after: int) -> AsyncIterator[list[int]]:
    while True:
        rows = await conn.fetch(
            "SELECT journal_id FROM journal WHERE journal_id > $1 ORDER BY journal_id LIMIT $2", after, _PAGE_ROWS
        )
        if not rows:
            return
        after = rows[-1][0]
        yield [row[0] for row in rows]
