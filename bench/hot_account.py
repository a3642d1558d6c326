"""One busy account: payments confirmed by the bank, each with event, ledger entry and webhook row. They are booked in
batches, as a worker books them; the same with the database 1 ms away; and one per transaction."""

import asyncio
import itertools
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from bench.environment import BenchEnvironment, Merchant, cpu_s
from bench.relay import far_away
from bench.report import Finding, rate
from commands.bank_orders.kinds import Payload
from commands.charges.change import Outcome
from commands.charges.create_pix import CREATIONS_MAX, NewPix, create_pix
from commands.charges.pay import Confirmation, confirm_payments
from commands.webhooks.endpoint import set_endpoint
from domain.charge import Charge, Status
from domain.instants import iso, to_millisecond
from domain.merchants.fees import NO_FEES
from readmodels.charges.charge import ChargeDoc
from runtime.batching import Batcher
from runtime.ids import new_id, page_token
from runtime.postgres import Pool, open_pool, session, transaction
from runtime.seal import Seal

ROUNDS = 3
_SUBMITTERS = 200
_BATCH_MAX = 100
LANES = 2  # as in the API's batcher for changes of charges
_ALONE_LANES = 4  # as many as the bench has connections
_BATCHED_PER_ROUND = 8_000
_ALONE_PER_ROUND = 1_500
_CENTS = 14_990
_FAR_S = 0.001
_PINGS = 200


async def hot_account(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Books a fixed number of payments per round, so that all can be checked afterwards; `seconds` is not used."""
    seal = Seal(environment.settings.secret_key)
    batched_rates: list[float] = []
    far_rates: list[float] = []
    single_rates: list[float] = []
    url = environment.settings.database_url
    async with environment.database() as pool, far_away(url, _FAR_S / 2) as (far_url, relay):
        far = await open_pool(far_url, name="bench", size=_ALONE_LANES)
        merchant = await environment.merchant(pool)
        async with session(pool) as conn:
            await set_endpoint(
                conn, UUID(merchant.account_id), "http://127.0.0.1:9/", allow_private=True, now=datetime.now(UTC),
                seal=seal, chance=os.urandom(32),
            )  # fmt: skip
        near_ms, far_ms = await _round_trip_ms(pool), await _round_trip_ms(far)
        relay_s = took_s = 0.0
        for _ in range(ROUNDS):
            batched_rates.append(
                await _book(pool, merchant, seal, _BATCHED_PER_ROUND, lanes=LANES, batch_max=_BATCH_MAX)
            )
            used, began = cpu_s(relay), time.perf_counter()
            far_rates.append(
                await _book(
                    far, merchant, seal, _BATCHED_PER_ROUND, lanes=LANES, batch_max=_BATCH_MAX, charges_pool=pool
                )
            )
            relay_s, took_s = relay_s + cpu_s(relay) - used, took_s + time.perf_counter() - began
            single_rates.append(await _book(pool, merchant, seal, _ALONE_PER_ROUND, lanes=_ALONE_LANES, batch_max=1))
        await far.close()
        await _check(pool, merchant, ROUNDS * (2 * _BATCHED_PER_ROUND + _ALONE_PER_ROUND))
    relay_note = f"SELECT 1 {near_ms:.2f} and {far_ms:.2f} ms; the relay {relay_s / took_s * 100:.0f} % of a core"
    return [
        rate(
            "payments on one account, batched", batched_rates, target=12_000, note=f"up to {_BATCH_MAX} a transaction"
        ),
        rate("the same, the database 1 ms away", far_rates, target=4_000, note=relay_note),
        rate("payments on one account, one per transaction", single_rates, note=f"{_ALONE_LANES} connections"),
    ]


async def _round_trip_ms(pool: Pool) -> float:
    took_s = []
    async with session(pool) as conn:
        for _ in range(_PINGS):
            began = time.perf_counter()
            await conn.fetchval("SELECT 1")
            took_s.append(time.perf_counter() - began)
    return statistics.median(took_s) * 1000


async def _book(
    pool: Pool,
    merchant: Merchant,
    seal: Seal,
    count: int,
    *,
    lanes: int,
    batch_max: int,
    charges_pool: Pool | None = None,
) -> float:
    """Books `count` payments of as many new charges, which are written through `charges_pool`; returns payments per
    second."""
    confirmations = iter(await _create_charges(charges_pool or pool, merchant, count))

    async def flush(items: Sequence[Confirmation]) -> list[Outcome]:
        async with transaction(pool) as conn:
            return await confirm_payments(conn, items, now=datetime.now(UTC), seal=seal, fees=NO_FEES)

    batcher: Batcher[Confirmation, Outcome] = Batcher(flush, lanes=lanes, batch_max=batch_max)

    async def submit_all(arriving: Iterator[Confirmation]) -> None:
        for each in arriving:
            outcome = await batcher.submit(each)
            assert isinstance(outcome, Charge), outcome
            assert outcome.status == Status.PAID

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(_SUBMITTERS):
            group.create_task(submit_all(confirmations))
    return count / (time.perf_counter() - began)


async def _create_charges(pool: Pool, merchant: Merchant, count: int) -> list[Confirmation]:
    """Writes `count` charges; returns the confirmation that the bank would send for each."""
    now = to_millisecond(datetime.now(UTC))
    confirmations: list[Confirmation] = []
    for start in range(0, count, CREATIONS_MAX):
        charges = [
            pix_charge(merchant.account_id, merchant.client_id, now) for _ in range(min(CREATIONS_MAX, count - start))
        ]
        async with transaction(pool) as conn:
            assert len(await create_pix(conn, charges)) == len(charges)
        confirmations += [
            Confirmation(
                charge_id=charge.charge_id,
                end_to_end_id=f"E99999999{now:%Y%m%d%H%M}{next(_serial_numbers):011d}",
                amount_cents=_CENTS,
                paid_at=now,
                payer_name="MARIA DA SILVA",
                payer_document="52998224725",
            )
            for charge in charges
        ]
    return confirmations


_serial_numbers = itertools.count()


def pix_charge(
    account_id: str, actor: str, now: datetime, *, test: bool = True, external_id: str | None = None
) -> NewPix:
    """A charge to write, which the bank does not know. Without `external_id` its reference is random."""
    charge_id, expires_at = new_id(), now + timedelta(hours=1)
    doc = ChargeDoc(
        account_id=account_id,
        charge_id=str(charge_id),
        test=test,
        public_id=page_token(),
        external_id=external_id or f"order-{charge_id.hex[-12:]}",
        payment_method="pix",
        status="pending",
        version=1,
        amount_cents=_CENTS,
        txid=charge_id.hex,
        qr_code="0002" * 40,  # as long as real ones
        created_at=iso(now),
        expires_at=iso(expires_at),
    )
    return NewPix(
        bank="001",
        key=charge_id.hex,
        fingerprint=bytes(32),
        order_id=new_id(),
        location="bench",
        actor=actor,
        request_id="req_bench",
        payload=Payload(doc),
        order=msgspec.Raw(msgspec.json.encode({})),
    )


async def _check(pool: Pool, merchant: Merchant, count: int) -> None:
    """Checks that every payment has its event, its ledger entry and its webhook row, that sequences are dense, and that
    the balance is exact."""
    async with session(pool) as conn:
        for query in (
            "SELECT count(*), count(DISTINCT sequence), max(sequence) FROM read_event WHERE account_id = $1",
            "SELECT count(*), count(DISTINCT sequence), max(sequence) FROM read_ledger WHERE account_id = $1",
            "SELECT count(*), count(DISTINCT event_id), max(sequence) FROM webhook_delivery WHERE account_id = $1",
        ):
            assert tuple(await conn.fetchrow(query, UUID(merchant.account_id)) or ()) == (count, count, count), query
        balance = await conn.fetchval(
            "SELECT balance_cents FROM account_clock WHERE account_id = $1 AND test", UUID(merchant.account_id)
        )
        assert balance == count * _CENTS
