"""Fail a charge that the bank refused for good."""

from datetime import datetime
from uuid import UUID

from commands.bank_orders.kinds import CLOSE, CobRemoval, Reconciliation
from commands.charges.change import ChargeChange, ChargeCommand, Outcome, change_charges
from commands.journal import Event
from domain.charge import Charge, ChargeTransition, after
from domain.events import EventKind, failed_body
from domain.instants import to_millisecond
from domain.mode import Owner
from runtime.ids import new_id
from sql import Connection


async def fail_charge(
    conn: Connection,
    *,
    charge_id: UUID,
    code: str,
    message: str,
    now: datetime,
    actor: str,
    request_id: str | None = None,
    written_off: bool = False,
) -> Outcome:
    """Make a pending charge `failed`. A charge that is no longer pending stays as it is, and the outcome is Refused."""
    command = failing(
        charge_id, None, code=code, message=message, actor=actor, request_id=request_id, written_off=written_off
    )
    (outcome,) = await change_charges(conn, [command], now=to_millisecond(now))
    return outcome


def failing(
    charge_id: UUID,
    owner: Owner | None,
    *,
    code: str,
    message: str,
    actor: str,
    request_id: str | None,
    written_off: bool = False,
) -> ChargeCommand:
    """Returns the command that fails a charge; Refused(CHARGE_NOT_PENDING) unless it is pending.

    A dual charge has its remaining leg closed: the cob is removed when the boleto was `written_off`, else the boleto is
    written off. A PIX charge fails because its bank refused the cob, so there is no cob to remove; a PIX charge that
    its `owner` fails in the sandbox has a cob, which is removed.
    """

    def decide(charge: Charge, at: datetime) -> list[ChargeChange]:
        failed = after(charge, ChargeTransition.FAILED)
        event_id = new_id()
        body = failed_body(failed, event_id=event_id, code=code, message=message)
        order: CobRemoval | Reconciliation | None = None
        if charge.dual:
            order = CobRemoval() if written_off else CLOSE
        elif owner is not None and not charge.boleto:
            order = CobRemoval()
        return [
            ChargeChange(
                charge=failed,
                kind=EventKind.CHARGE_FAILED,
                event=Event(event_id, body),
                charge_fields={"failure": {"code": code, "message": message}},
                order=order,
            )
        ]

    return ChargeCommand(charge_id=charge_id, owner=owner, decide=decide, actor=actor, request_id=request_id)
