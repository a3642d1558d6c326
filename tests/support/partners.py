"""Charges for tests of partners and reports, created and paid by the product's commands, without API or workers."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from commands.bank_orders.kinds import Payload
from commands.charges.create_pix import NewPix, create_pix
from commands.charges.pay import Confirmation, confirm_payments
from commands.merchants.integrators import create_integrator
from commands.money.partner_shares import post_shares
from commands.money.refund import NewRefund, begin_refunds
from commands.money.refund_end import Ending, end_refunds
from domain.errors import Refused
from domain.instants import iso, to_millisecond
from domain.merchants.fees import NO_FEES
from domain.mode import Mode, Owner
from domain.refund import FailureCode
from readmodels.charges.charge import ChargeDoc
from readmodels.reports.fold import fold_up_to, wait_for_horizon
from readmodels.reports.integrators import Integrator
from runtime.ids import new_id, new_token
from runtime.postgres import Pool, session, transaction
from tests.support.banking import make_account
from tests.support.orders import end_orders
from tests.support.wallet import SEAL

ROUNDS_MAX = 1_000


async def create_partner(pool: Pool, share_bps: int, *, account_id: UUID | None = None) -> Integrator:
    """Create a partner, with a new account unless one is given."""
    owner = account_id or await make_account(pool)
    async with transaction(pool) as conn:
        return await create_integrator(
            conn, name="Parceira", account_id=owner, now=datetime.now(UTC), share_bps=share_bps
        )


async def new_charge(
    pool: Pool,
    account_id: UUID,
    cents: int,
    *,
    test: bool = False,
    at: datetime | None = None,
    lifetime: timedelta = timedelta(hours=1),
    code: str | None = None,
) -> UUID:
    """Create a PIX charge at `at`, which no bank registers."""
    created_at = to_millisecond(at or datetime.now(UTC))
    charge_id, location = new_id(), f"bank.example.com/pix/v2/{secrets.token_urlsafe(20)}"
    doc = ChargeDoc(
        account_id=str(account_id), charge_id=str(charge_id), test=test, public_id=new_token(), payment_method="pix",
        status="pending", version=1, amount_cents=cents, txid=charge_id.hex, qr_code="", integrador_code=code,
        created_at=iso(created_at), expires_at=iso(created_at + lifetime),
    )  # fmt: skip
    new = NewPix(
        bank="001",
        key=str(charge_id), fingerprint=bytes(32), order_id=new_id(), location=location,
        actor="test", request_id="test", payload=Payload(doc), order=msgspec.Raw(b"{}"),
    )  # fmt: skip
    async with transaction(pool) as conn:
        await create_pix(conn, [new])
        await end_orders(conn, [charge_id])
    return charge_id


def confirmation(charge_id: UUID, cents: int, code: str | None, *, at: datetime | None = None) -> Confirmation:
    """A payment of a charge with this integrator code, not yet booked."""
    return Confirmation(
        charge_id=charge_id,
        end_to_end_id=f"E{secrets.token_hex(15)}",
        amount_cents=cents,
        paid_at=at or datetime.now(UTC),
        integrador_code=code,
    )


async def paid(
    pool: Pool, account_id: UUID, cents: int, code: str | None, *, test: bool = False, now: datetime | None = None
) -> tuple[UUID, UUID]:
    """Create a charge and book its payment at `now`; returns both ids."""
    charge_id = await new_charge(pool, account_id, cents, test=test)
    return charge_id, await book_further_payment(pool, charge_id, cents, code, now=now)


async def book_further_payment(
    pool: Pool, charge_id: UUID, cents: int, code: str | None, *, now: datetime | None = None
) -> UUID:
    """Book a payment of this charge; returns the payment's id."""
    at = now or datetime.now(UTC)
    received = confirmation(charge_id, cents, code, at=at)
    async with transaction(pool) as conn:
        (outcome,) = await confirm_payments(conn, [received], now=at, seal=SEAL, fees=NO_FEES)
    assert not isinstance(outcome, Refused)
    found: UUID = await pool.fetchval("SELECT payment_id FROM payment WHERE source = $1", received.end_to_end_id)
    return found


async def refunds(
    pool: Pool,
    account_id: UUID,
    requests: Sequence[tuple[UUID, UUID, int]],
    *,
    test: bool = False,
    failing: bool = False,
    now: datetime | None = None,
) -> None:
    """Refund (charge, payment, cents): all refunds begin in one batch and end in another."""
    now = to_millisecond(now or datetime.now(UTC))
    ids = [new_id() for _ in requests]
    news = [
        NewRefund(
            owner=Owner.of(account_id, test), key=str(refund_id), fingerprint=bytes(32), refund_id=refund_id,
            charge_id=charge_id, amount_cents=cents, payment_id=payment_id, reason=None, description=None,
            external_id=None, destination=None, scenario=None, actor="test", request_id="test",
        )
        for refund_id, (charge_id, payment_id, cents) in zip(ids, requests, strict=True)
    ]  # fmt: skip
    async with transaction(pool) as conn:
        for begun in await begin_refunds(conn, news, now=now, transfers_cents_max=500_000):
            assert begun is not None
            assert not isinstance(begun, Refused), begun.code
    failure = FailureCode.NOT_CARRIED_OUT if failing else None
    async with transaction(pool) as conn:
        await end_orders(conn, [each[0] for each in requests])
        await end_refunds(
            conn,
            [
                Ending(charge_id=charge_id, refund_id=refund_id, failure=failure)
                for refund_id, (charge_id, _, _) in zip(ids, requests, strict=True)
            ],
            now=now,
        )


async def post_partner_shares(pool: Pool) -> int:
    """Post all shares that are due to partners; returns their number."""
    posted = 0
    for _ in range(ROUNDS_MAX):
        count = 0
        for mode in Mode:
            async with transaction(pool) as conn:
                count += await post_shares(conn, mode, held=timedelta(0), now=datetime.now(UTC))
        if not count:
            return posted
        posted += count
    raise AssertionError("posting has no end")


async def fold_totals(pool: Pool) -> None:
    """Bring the daily totals up to now, as a worker does."""
    for _ in range(ROUNDS_MAX):
        async with session(pool) as conn:
            horizon = await wait_for_horizon(conn)
        assert horizon is not None, "another transaction writes the journal all the time"
        async with transaction(pool) as conn:
            folded = await fold_up_to(conn, horizon)
        if folded == 0:
            return
    raise AssertionError("folding has no end")


async def ledger_of(pool: Pool, account_id: UUID, *, test: bool = False) -> list[Any]:
    """The ledger's lines in order: (type, cents)."""
    rows = await pool.fetch(
        "SELECT type, amount_cents FROM read_ledger WHERE account_id = $1 AND test = $2 ORDER BY sequence",
        account_id, test,
    )  # fmt: skip
    return [tuple(row) for row in rows]


async def fold_settled_totals(pool: Pool) -> None:
    """Fold once up to the horizon; skip it while other transactions write the journal."""
    async with session(pool) as conn:
        horizon = await wait_for_horizon(conn)
    if horizon is not None:
        async with transaction(pool) as conn:
            await fold_up_to(conn, horizon)


async def book_past_payments(pool: Pool, account_id: UUID, *received: tuple[int, int]) -> None:
    """Book payments, each given as (days ago, cents) and the oldest first, and fold them into the totals."""
    for days, cents in received:
        at = to_millisecond(datetime.now(UTC)) - timedelta(days=days)
        charge_id = await new_charge(pool, account_id, cents, at=at, lifetime=timedelta(minutes=10))
        await book_further_payment(pool, charge_id, cents, None, now=at)
    await fold_totals(pool)
