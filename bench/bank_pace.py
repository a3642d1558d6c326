"""Production with a bank that takes 200 ms for each answer and one worker process: PIX creations at a steady rate, a
burst from the reserve of locations, payments from callbacks, and a backlog of received PIX."""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import aiohttp
from msgspec.structs import replace

from banks.simulated.bank import PRODUCTION, PayerPix, SimulatedBank
from banks.simulated.boletos import new_end_to_end_id
from bench.asking import creations
from bench.client import http
from bench.environment import BenchEnvironment, Merchant, cpu_s, running
from bench.hot_account import pix_charge
from bench.open_loop import Load, at_rate
from bench.report import Finding, within
from cli.run.child import Child
from commands.charges.create_pix import create_pix
from domain.instants import to_millisecond
from domain.mode import Mode
from runtime.postgres import Pool, session
from runtime.seal import Seal
from workers.context import Context, open_context
from workers.incoming.reconciler import reconcile

BANK_MS = 200
STEADY_PER_S = 300
BURST_PER_S = 1_000
BURST_S = 30.0
PAYMENTS_PER_S = 300
P99_MS_MAX = 500
REGISTERED_S_MAX = 30.0
# The least that a worker keeps in the pool, before there is demand (housekeeping/location_pool.py).
_FIRST_LOCATIONS = 2_000
_LOCATIONS_S_MAX = 120.0
_REGISTER_S_MAX = 300.0
_BOOK_S_MAX = 60.0
_MISSED_PIX = 10_000
_STANDSTILL = timedelta(hours=6)
_BATCH = 100


async def bank_pace(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """300 creations per second for `seconds` (in full: --seconds 300), from a pool that holds the first 2,000."""
    with _slow_bank(environment) as bank, environment.worker() as worker:
        async with environment.database() as pool:
            await _slow_down_bank(environment)
            merchant = await environment.merchant(pool, Mode.PRODUCTION)
            await _wait_for_locations(pool, _FIRST_LOCATIONS)
            before = cpu_s(bank), cpu_s(worker)
            next_creation = creations(merchant, "/v1/charges/pix")
            load = await at_rate(environment.port, next_creation, per_s=STEADY_PER_S, seconds=seconds, expected=201)
            core_shares = [
                (now - then) / seconds for now, then in zip((cpu_s(bank), cpu_s(worker)), before, strict=True)
            ]
            return [
                *_creation_findings(load, f"{STEADY_PER_S}/s for {seconds:.0f} s"),
                await _wait_until_registered(pool, aim_s=REGISTERED_S_MAX),
                Finding(
                    "locations ready afterwards",
                    float(await _count_locations(pool)),
                    "",
                    note=_shares_note(core_shares),
                ),
            ]


async def bank_burst(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """1,000 creations per second for 30 s from a full reserve; then how long the bank needs to register the rest."""
    with _slow_bank(environment), environment.worker():
        async with environment.database() as pool:
            await _slow_down_bank(environment)
            merchant = await environment.merchant(pool, Mode.PRODUCTION)
            await environment.fill_locations(pool, environment.settings.pace.pix_locations_min, Mode.PRODUCTION)
            next_creation = creations(merchant, "/v1/charges/pix")
            load = await at_rate(environment.port, next_creation, per_s=BURST_PER_S, seconds=BURST_S, expected=201)
            began = time.perf_counter()
            ready = await _count_locations(pool)
            registered = await _wait_until_registered(pool)
            return [
                *_creation_findings(load, f"{BURST_PER_S}/s for {BURST_S:.0f} s"),
                registered,
                Finding("registered after the burst", time.perf_counter() - began, "s", note=f"{ready} locations left"),
            ]


async def bank_payments(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """300 callbacks per second, each about one payment, for which the bank is asked before the payment is booked."""
    count = int(PAYMENTS_PER_S * seconds)
    with _slow_bank(environment), environment.worker():
        async with environment.database() as pool:
            merchant = await environment.merchant(pool, Mode.PRODUCTION)
            await environment.fill_locations(pool, count + _FIRST_LOCATIONS, Mode.PRODUCTION)
            txids: list[str] = []

            def remember_txid(body: bytes) -> None:
                txids.append(json.loads(body)["charge_id"].replace("-", ""))

            next_creation = creations(merchant, "/v1/charges/pix")
            rate = PAYMENTS_PER_S
            await at_rate(
                environment.port, next_creation, per_s=rate, seconds=seconds, expected=201, answered=remember_txid
            )
            await _wait_until_registered(pool)
            callbacks = await _pay_at_bank(environment, pool, txids)
            await _slow_down_bank(environment)
            sent_at: dict[str, float] = {}
            callback_items = iter(callbacks.items())

            def call_back() -> bytes:
                end_to_end_id, body = next(callback_items)
                sent_at[end_to_end_id] = time.time()
                return body

            load = await at_rate(environment.port, call_back, per_s=rate, seconds=len(callbacks) / rate, expected=200)
            lags_s = await _wait_until_booked(pool, sent_at)
            took_s = max(at + lag for at, lag in lags_s) - min(at for at, _ in lags_s)
            lags = sorted(lag for _, lag in lags_s)
            return [
                Finding("callbacks not answered 200", float(load.others(200)), ""),
                Finding("payments booked", len(lags) / took_s, "/s", note=f"{len(lags)} of {len(callbacks)}"),
                Finding("  callback to booked, p50", lags[len(lags) // 2], "s"),
                Finding("  callback to booked, p99", lags[int(len(lags) * 0.99)], "s"),
            ]


async def bank_standstill(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Reconciles the PIX that arrived in six hours without a worker: with pages read one by one, and several at once.
    `seconds` is not used."""
    rates: dict[int, float] = {}
    with _slow_bank(environment):
        async with environment.database() as pool:
            merchant = await environment.merchant(pool, Mode.PRODUCTION)
            at_once = environment.settings.pace.bank_list_pages
            for pages in (1, at_once):
                pace = replace(environment.settings.pace, bank_list_pages=pages)
                stopping = asyncio.Event()
                async with open_context(replace(environment.settings, pace=pace), _NoWakes(), stopping) as context:
                    await _slow_down_bank(environment, ms=1)
                    await _miss_payments(context, merchant)
                    await _slow_down_bank(environment)
                    began = time.perf_counter()
                    while await reconcile(context, environment.settings.bank):
                        pass
                    rates[pages] = _MISSED_PIX / (time.perf_counter() - began)
        return [
            Finding("PIX reconciled, pages one by one", rates[1], "/s", note=f"{_MISSED_PIX} PIX"),
            Finding(
                f"the same, {at_once} pages at once", rates[at_once], "/s", note=f"{rates[at_once] / rates[1]:.2f} x"
            ),
        ]


def _creation_findings(load: Load, what: str) -> list[Finding]:
    p50, p99 = load.percentile_ms(0.5), load.percentile_ms(0.99)
    others = {status: count for status, count in load.statuses.items() if status != 201}
    return [
        Finding(f"refused of {load.sent}, {what}", float(load.others(201)), "", note=str(others) if others else ""),
        Finding("  creation, p50", p50, "ms"),
        Finding("  creation, p99", p99, "ms", note=within(p99, P99_MS_MAX)),
    ]


async def _wait_until_registered(pool: Pool, *, aim_s: float | None = None) -> Finding:
    """Waits until all charges are registered; how long after its creation each was."""
    deadline = time.monotonic() + _REGISTER_S_MAX
    async with session(pool) as conn:
        while await conn.fetchval("SELECT count(*) FROM bank_order WHERE kind = 'cob_register'"):
            assert time.monotonic() < deadline, "cobs are not registered"
            await asyncio.sleep(0.5)
        lags = await conn.fetchval(
            "SELECT array_agg(lag ORDER BY lag) FROM (SELECT extract(epoch FROM ended_at - created_at)::float8 AS lag"
            " FROM bank_order_done WHERE kind = 'cob_register' AND state = 'done') AS ended"
        )
    p50, p99, count = lags[len(lags) // 2], lags[int(len(lags) * 0.99)], len(lags)
    note = f"p50 {p50:.2f} s, {count} cobs"
    if aim_s is not None:
        note += f"; {within(p99, aim_s)}"
    return Finding("creation to registered, p99", p99, "s", note=note)


async def _count_locations(pool: Pool) -> int:
    async with session(pool) as conn:
        return int(await conn.fetchval("SELECT coalesce(sum(count), 0) FROM pix_location WHERE NOT test"))


async def _wait_for_locations(pool: Pool, count: int) -> None:
    deadline = time.monotonic() + _LOCATIONS_S_MAX
    while await _count_locations(pool) < count:
        assert time.monotonic() < deadline, "no locations are made"
        await asyncio.sleep(0.1)


async def _pay_at_bank(environment: BenchEnvironment, pool: Pool, txids: list[str]) -> dict[str, bytes]:
    """Has payers pay these charges at the bank, which sends no callbacks. Returns the callback requests it would send,
    by EndToEndId."""
    seal = Seal(environment.settings.secret_key)
    bank = SimulatedBank(pool, seal, world=PRODUCTION, url=environment.settings.bank_url, now=lambda: datetime.now(UTC))
    now = to_millisecond(datetime.now(UTC))
    payments = [
        PayerPix(end_to_end_id=new_end_to_end_id(now), txid=txid, amount_cents=14_990, paid_at=now) for txid in txids
    ]
    for start in range(0, len(payments), 500):
        await bank.receive(payments[start : start + 500], tell=False)
    path = f"/bank/{environment.settings.bank_callback_token}/pix"
    return {
        pix.end_to_end_id: http(
            "POST",
            path,
            body=json.dumps({"pix": [{"endToEndId": pix.end_to_end_id, "txid": pix.txid, "valor": "149.90"}]}).encode(),
        )
        for pix in payments
    }


async def _wait_until_booked(pool: Pool, sent_at: dict[str, float]) -> list[tuple[float, float]]:
    """For each booked payment, when its callback was sent and how many seconds later it was booked."""
    deadline = time.monotonic() + _BOOK_S_MAX
    async with session(pool) as conn:
        while await conn.fetchval("SELECT count(*) FROM payment WHERE NOT test") < len(sent_at):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.2)
        rows = await conn.fetch(
            "SELECT source, extract(epoch FROM credited_at)::float8 AS at FROM payment WHERE NOT test"
        )
    return [(sent_at[row["source"]], row["at"] - sent_at[row["source"]]) for row in rows]


async def _miss_payments(context: Context, merchant: Merchant) -> None:
    """Reconciles up to now, then adds _MISSED_PIX payments of the last six hours for which no callback was sent, and
    moves the reconciler's position back by six hours."""
    while await reconcile(context, context.settings.bank):
        pass
    now = to_millisecond(datetime.now(UTC))
    async with session(context.pool) as conn:
        charges = [pix_charge(merchant.account_id, merchant.client_id, now, test=False) for _ in range(_BATCH)]
        charge_ids = await create_pix(conn, charges)
        await conn.execute(
            "INSERT INTO simulated_pix (world, end_to_end_id, txid, amount_cents, paid_at, payer_name, payer_document)"
            " SELECT 'production', 'E' || md5(random()::text || n), replace(($1::uuid[])[1 + n % $2]::text, '-', ''),"
            " 14990, $3::timestamptz - n * interval '6 hours' / $4::integer, 'X', '00000000191'"
            " FROM generate_series(1, $4::integer) n",
            list(charge_ids), _BATCH, now, _MISSED_PIX,
        )  # fmt: skip
        await conn.execute(
            "UPDATE bank_reconciled SET until = $1, goal = $1, window_until = NULL, after = NULL WHERE pass = 'new'",
            now - _STANDSTILL,
        )


class _NoWakes:
    """Jobs that wake no lane, so that only the reconciler is measured."""

    def wake(self, lane: str) -> None: ...


async def _slow_down_bank(environment: BenchEnvironment, *, ms: int = BANK_MS) -> None:
    body = {"fault": "slow", "ms": ms}
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"{environment.settings.bank_url}/simulated/fault", json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()


@contextmanager
def _slow_bank(environment: BenchEnvironment) -> Iterator[int]:
    """Runs the simulated bank as a process and yields its process id. It is fast until it is told to be slow."""
    child = Child(
        "bank", [sys.executable, "-m", "banks.simulated"], env=environment.env, log=environment.home / "bank.log"
    )
    with running([child]):
        port = urlsplit(environment.settings.bank_url).port
        assert port is not None
        _wait_until_listens(port)
        assert child.process is not None
        yield child.process.pid


def _wait_until_listens(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the bank does not start"
            time.sleep(0.1)


def _shares_note(core_shares: list[float]) -> str:
    bank, worker = core_shares
    return f"of a core: bank {bank:.2f}, worker {worker:.2f}"
