"""Commands of the sandbox on test charges: expire a charge, fail it, or pay it so that an anomaly results."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec.structs import replace

from commands.charges.change import ChargeChange, ChargeCommand, expire
from commands.charges.pay import book_simulated
from domain.charge import Charge, Status
from domain.errors import Code, Refused
from domain.instants import iso
from domain.merchants.fees import FeeTerms
from domain.mode import Owner
from runtime.seal import Seal

SANDBOX_FAILURE = ("SANDBOX_FAILURE", "The charge was made to fail in the sandbox.")
TIMES_MAX = 10
"""Payments of a charge by one request."""


def sandbox_expiry(charge_id: UUID, owner: Owner, *, actor: str, request_id: str) -> ChargeCommand:
    """Returns the command that expires a pending charge now; Refused(CHARGE_NOT_PENDING) for any other charge."""

    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        if charge.status != Status.PENDING:
            raise Refused(Code.CHARGE_NOT_PENDING, status=charge.status)
        change = expire(replace(charge, expires_at=now))
        return [replace(change, charge_fields={"expires_at": iso(now)})]

    return ChargeCommand(charge_id=charge_id, owner=owner, decide=decide, actor=actor, request_id=request_id)


def paying(
    charge_id: UUID,
    owner: Owner,
    *,
    end_to_end_ids: Sequence[str],
    amount_cents: int | None,
    paid_at: datetime | None,
    seal: Seal,
    fees: FeeTerms,
    actor: str,
    request_id: str,
) -> ChargeCommand:
    """Returns the command that pays a PIX charge once for each endToEndId, whatever its status, so that merchants can
    produce anomalies.

    The amount defaults to the charge's, and `paid_at` to now.
    """

    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        changes: list[ChargeChange] = []
        for end_to_end_id in end_to_end_ids:
            cents, at = amount_cents or charge.amount_cents, paid_at or now
            changes += book_simulated(charge, end_to_end_id, cents, at, now=now, seal=seal, fees=fees)
            charge = changes[-1].charge
        return changes

    return ChargeCommand(
        charge_id=charge_id, owner=owner, decide=decide, actor=actor, request_id=request_id, paid_at=paid_at
    )
