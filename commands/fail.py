"""Fail a charge the bank refused for good."""

from datetime import datetime
from uuid import UUID

from commands.change import Event, Outcome, Step, Wish, change_charges
from domain.charge import Charge, Happened, after
from domain.events import Kind, failed_body
from domain.instants import to_millisecond
from runtime.ids import new_id
from sql import Connection


async def fail_charge(
    conn: Connection, *, account_id: UUID, charge_id: UUID, code: str, message: str, now: datetime, actor: str
) -> Outcome:
    """Make a pending charge `failed`; a Refused outcome when it is no longer pending, which changes nothing."""

    def decide(charge: Charge, at: datetime) -> list[Step]:
        failed = after(charge, Happened.FAILED)
        event_id = new_id()
        body = failed_body(failed, event_id=event_id, code=code, message=message)
        return [
            Step(
                charge=failed,
                kind=Kind.CHARGE_FAILED,
                event=Event(event_id=event_id, kind=Kind.CHARGE_FAILED, body=body),
                charge_fields={"failure": {"code": code, "message": message}},
            )
        ]

    wish = Wish(charge_id=charge_id, owner=None, decide=decide, actor=actor)
    (outcome,) = await change_charges(conn, [wish], now=to_millisecond(now))
    return outcome
