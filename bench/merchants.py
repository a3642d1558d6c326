"""The cost of a worker's rounds with 100 and with 100,000 merchants that have something pending but nothing due: an
unpaid charge, a webhook that waits for its retry, a webhook held for a paused endpoint, a payer to be reminded."""

import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from uuid import UUID

from bench.environment import BenchEnvironment
from bench.report import Finding
from commands.charges.expire import Sweeper
from commands.mail import write_mails
from runtime.postgres import Pool, session, transaction
from runtime.seal import Seal
from workers.webhooks.dispatcher import take_lanes
from workers.webhooks.lanes import tend_lanes

_FEW, _MANY = 100, 100_000
_ROUNDS = 15
_WINDOW = 256
# The rows that requests of these merchants would have written.
_PENDING = (
    "INSERT INTO account (account_id, name, document, city, kyc, pix_key, created_at)"
    " SELECT md5('account' || n)::uuid, 'Loja ' || n, '12345678000195', 'Recife', 'approved', 'loja@example.com',"
    " now()"
    " FROM generate_series($1::integer, $2::integer) n",
    "INSERT INTO charge (account_id, charge_id, test, bank, payment_method, status, version, amount_cents, created_at,"
    " expires_at) SELECT md5('account' || n)::uuid, md5('charge' || n)::uuid, false, '001', 'pix', 'pending', 1, 100,"
    " now(), now() + interval '1 day' FROM generate_series($1::integer, $2::integer) n",
    "INSERT INTO mail_request (charge_id, account_id, due_at) SELECT md5('charge' || n)::uuid,"
    " md5('account' || n)::uuid, now() + interval '1 day' FROM generate_series($1::integer, $2::integer) n",
    "INSERT INTO webhook_endpoint (endpoint_id, account_id, url, secret_sealed, kinds, created_at)"
    " SELECT md5('endpoint' || n)::uuid, md5('account' || n)::uuid, 'https://loja.example.com', '', '{}', now()"
    " FROM generate_series($1::integer, $2::integer) n",
    "INSERT INTO webhook_lane (endpoint_id, test) SELECT md5('endpoint' || n)::uuid, false"
    " FROM generate_series($1::integer, $2::integer) n",
    "INSERT INTO webhook_delivery (delivery_id, endpoint_id, account_id, test, event_id, sequence, type, due_at,"
    " created_at) SELECT gen_random_uuid(), md5('endpoint' || n)::uuid, md5('account' || n)::uuid, false,"
    " gen_random_uuid(), 1, 'payment.received', now() + interval '1 day', now()"
    " FROM generate_series($1::integer, $2::integer) n",
    "INSERT INTO webhook_lane (endpoint_id, test, state, blocked_until) SELECT md5('endpoint' || n)::uuid, true,"
    " 'paused', now() + interval '1 day' FROM generate_series($1::integer, $2::integer) n",
    "INSERT INTO webhook_delivery (delivery_id, endpoint_id, account_id, test, event_id, sequence, type, state, due_at,"
    " created_at) SELECT gen_random_uuid(), md5('endpoint' || n)::uuid, md5('account' || n)::uuid, true,"
    " gen_random_uuid(), 1, 'payment.received', 'held', now(), now() FROM generate_series($1::integer, $2::integer) n",
)


async def merchants(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Measures a fixed number of rounds; `seconds` is not used."""
    findings: list[Finding] = []
    async with environment.database() as pool:
        few = await _round_costs_ms(environment, pool, 1, _FEW)
        many = await _round_costs_ms(environment, pool, _FEW + 1, _MANY)
        for name, (few_ms, many_ms) in {each: (few[each], many[each]) for each in few}.items():
            note = f"{few_ms:.2f} ms, {many_ms:.2f} ms"
            findings.append(Finding(f"{name}: {_MANY:,} merchants to {_FEW}", many_ms / few_ms, "x", note=note))
    return findings


async def _round_costs_ms(environment: BenchEnvironment, pool: Pool, first: int, last: int) -> dict[str, float]:
    """Writes the pending rows of the merchants `first` to `last`; returns milliseconds per round, by kind of round."""
    async with session(pool) as conn:
        await conn.execute("SET statement_timeout = 0")
        for statement in _PENDING:
            await conn.execute(statement, first, last, timeout=300)
        await conn.execute("VACUUM ANALYZE", timeout=300)
        await conn.execute("RESET statement_timeout")
    sweeper, seal = Sweeper(pool), Seal(environment.settings.secret_key)

    async def webhooks() -> None:
        async with transaction(pool) as conn:
            await take_lanes(
                conn, after_endpoint=UUID(int=0), after_test=False, scan_max=0, scanned_first=False, window=_WINDOW,
                now=datetime.now(UTC), cap=10, cap_test=5, limit=128,
            )  # fmt: skip

    async def lanes() -> None:
        await tend_lanes(pool, environment.settings, now=datetime.now(UTC))

    async def overdue() -> None:
        await sweeper.sweep(now=datetime.now(UTC))

    async def mails() -> None:
        async with transaction(pool) as conn:
            await write_mails(conn, now=datetime.now(UTC), seal=seal)

    return {
        "webhooks due": await _median_ms(webhooks),
        "webhooks held": await _median_ms(lanes),
        "charges overdue": await _median_ms(overdue),
        "mails due": await _median_ms(mails),
    }


async def _median_ms(run_round: Callable[[], Awaitable[None]]) -> float:
    took_ms: list[float] = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        await run_round()
        took_ms.append((time.perf_counter() - began) * 1_000)
    return statistics.median(took_ms)
