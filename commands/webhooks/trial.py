"""Send a trial event to a webhook endpoint."""

from datetime import datetime
from uuid import UUID

from commands.bank_orders.pix_locations import take_one
from commands.charges.change import change_charges
from commands.charges.create_pix import Creation, compose_pix, create_pix
from commands.charges.issuer import find_issuer
from commands.charges.pay import simulated_payment
from domain.errors import Code, Refused
from domain.instants import to_millisecond
from domain.merchants.fees import FeeTerms
from domain.mode import Mode, Owner
from domain.pix.end_to_end import sandbox_end_to_end_id
from runtime.ids import new_id
from runtime.seal import Seal
from sql import Connection

TRIAL_CENTS = 100
TRIAL_DESCRIPTION = "Teste do webhook, pelo painel"
_TRIAL_LIFETIME_S = 3_600


async def send_trial(
    conn: Connection,
    account_id: UUID,
    *,
    now: datetime,
    bank: str,
    actor: str,
    request_id: str,
    chance: bytes,
    seal: Seal,
    fees: FeeTerms,
) -> UUID:
    """Create a sandbox charge of 1.00 and pay it at once; returns the charge's id. Its payment.received is delivered
    like every event, and a receiver that reads the charge through the API, as receivers should, finds it.

    `chance`: TAIL_BYTES for the payment's endToEndId.
    Refused(BANK_UNAVAILABLE) while the sandbox has no location left.
    """
    now = to_millisecond(now)
    location = await take_one(conn, test=True, bank=bank)
    if location is None:
        raise Refused(Code.BANK_UNAVAILABLE)
    issuer = await find_issuer(conn, Owner(account_id, Mode.SANDBOX), actor=actor)
    charge_id = new_id()
    creation = Creation(
        issuer=issuer,
        # The key contains the charge's id, so no other request can have used it.
        key=f"trial-{charge_id}",
        fingerprint=bytes(32),
        charge_id=charge_id,
        request_id=request_id,
        now=now,
        amount_cents=TRIAL_CENTS,
        lifetime_s=_TRIAL_LIFETIME_S,
        external_id=None,
        description=TRIAL_DESCRIPTION,
        payer_sealed=None,
        payer_document_hash=None,
        scenario=None,
    )
    created = await create_pix(conn, [compose_pix(creation, location)])
    assert created == {charge_id}, "a key of its own is new"
    command = simulated_payment(
        charge_id,
        issuer.owner,
        end_to_end_id=sandbox_end_to_end_id(now, chance),
        seal=seal,
        fees=fees,
        actor=actor,
        request_id=request_id,
    )
    (outcome,) = await change_charges(conn, [command], now=now)
    assert not isinstance(outcome, Refused), "a charge that was just created is pending"
    return charge_id
