"""Puts money into a merchant's production wallet, as a payment that the bank confirmed."""

import json
import secrets
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from commands.charges.pay import Confirmation, confirm_payments
from domain.charge import Charge
from domain.merchants.fees import NO_FEES
from readmodels.projector import Projection, project
from runtime.postgres import Pool, transaction
from runtime.seal import Seal
from tests.support.banking import SECRET_KEY, make_charges, new_locations, utc_now
from tests.support.orders import end_orders

SEAL = Seal(bytes.fromhex(SECRET_KEY))


async def credit_wallet(pool: Pool, account_id: UUID, cents: int, *, now: datetime | None = None) -> UUID:
    """Create a charge, which no bank registers, and book its payment; returns the charge's id."""
    (charge_id,) = await make_charges(pool, account_id, new_locations(1), test=False, amount_cents=cents)
    await end_orders(pool, [charge_id])
    at = now or utc_now()
    confirmation = Confirmation(
        charge_id=charge_id,
        end_to_end_id=f"E99999994{at:%Y%m%d%H%M}{secrets.token_hex(6)[:11]}",
        amount_cents=cents,
        paid_at=at,
    )
    async with transaction(pool) as conn:
        (outcome,) = await confirm_payments(conn, [confirmation], now=at, seal=SEAL, fees=NO_FEES)
    assert isinstance(outcome, Charge)
    return charge_id


async def balance_of(pool: Pool, account_id: UUID) -> int:
    """The balance of the production wallet in cents."""
    found = await pool.fetchval(
        "SELECT balance_cents FROM account_clock WHERE account_id = $1 AND NOT test", account_id
    )
    return int(found or 0)


async def insert_ledger_entry(
    conn: Any, account_id: UUID, number: int, kind: str, cents: int, after: int, at: datetime
) -> int:
    """Insert a row of the journal and project its ledger entry; returns the row's id."""
    entry = {
        "sequence": number, "entry_id": str(uuid4()), "type": kind, "amount_cents": cents, "balance_after_cents": after,
    }  # fmt: skip
    # Complete enough for projections, because other tests verify this database too.
    payment = {"payment_id": str(uuid4()), "paid_at": at.isoformat(), "method": "pix"}
    payload = {"entry": entry} | ({"payment": payment} if kind == "payment" else {})
    journal_id: int = await conn.fetchval(
        "INSERT INTO journal (account_id, test, charge_id, version, kind, recorded_at, actor, payload)"
        " VALUES ($1, false, $2, 1, 'test', $3, 'test', $4::text::jsonb) RETURNING journal_id",
        account_id, uuid4() if kind == "payment" else None, at, json.dumps(payload),
    )  # fmt: skip
    await project(conn, [journal_id], (Projection.ENTRIES,))
    return journal_id
