"""Cancel a pending charge, by id or by the merchant's reference.

A PIX charge is cancelled at once, without the bank; a worker removes the cob right after (contract section 5). A boleto
is written off at the bank first, and only then is its charge cancelled (spec, States). A dual charge has its boleto
written off first and its cob removed after: until the boleto is written off nothing has changed (contract section 12).
"""

from datetime import datetime
from uuid import UUID

import sql
from commands.bank_orders.kinds import CobRemoval
from commands.charges.change import ChargeChange, ChargeCommand
from commands.journal import Event
from domain.charge import CancelReason, Charge, ChargeTransition, after
from domain.errors import Code, Refused
from domain.events import EventKind, cancelled_body
from domain.instants import iso
from domain.mode import Owner
from runtime.ids import new_id
from sql import Connection

find_pending = sql.many("charge.pending_by_reference", UUID)
find_pending_boleto = sql.many("charge.pending_boleto_by_reference", UUID)


def cancellation(
    charge_id: UUID,
    owner: Owner | None,
    *,
    reason: CancelReason,
    actor: str,
    request_id: str | None,
    written_off: bool = False,
    scenario: str | None = None,
) -> ChargeCommand:
    """Returns the command that cancels a charge; Refused(CHARGE_NOT_PENDING) unless the charge is pending.

    A boleto must have been `written_off` at the bank. The cob of a PIX charge is removed afterwards; `scenario` tells
    the sandbox's bank how to answer that removal.
    """

    def decide(charge: Charge, now: datetime) -> list[ChargeChange]:
        cancelled = after(charge, ChargeTransition.CANCELLED)
        assert written_off or not charge.boleto, "the bank has not written the boleto off"
        event_id = new_id()
        body = cancelled_body(cancelled, event_id=event_id, reason=reason, cancelled_at=now)
        return [
            ChargeChange(
                charge=cancelled,
                kind=EventKind.CHARGE_CANCELLED,
                event=Event(event_id, body),
                charge_fields={"cancelled_at": iso(now), "cancel_reason": reason},
                order=None if charge.boleto and not charge.dual else CobRemoval(scenario),
            )
        ]

    return ChargeCommand(charge_id=charge_id, owner=owner, decide=decide, actor=actor, request_id=request_id)


async def charge_of_reference(
    conn: Connection, owner: Owner, external_id: str, *, now: datetime, boletos_only: bool = False
) -> UUID:
    """Returns the one pending charge with this reference; Refused when there is none (404) or more than one (409)."""
    find = find_pending_boleto if boletos_only else find_pending
    charge_ids = await find(conn, account_id=owner.account_id, test=owner.test, external_id=external_id, now=now)
    if not charge_ids:
        raise Refused(Code.CHARGE_NOT_FOUND)
    if len(charge_ids) > 1:
        raise Refused(Code.CANCEL_REFERENCE_AMBIGUOUS)
    return charge_ids[0]
