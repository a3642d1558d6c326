"""Fail a charge the bank refused for good."""

from datetime import datetime
from uuid import UUID

from commands.change import Event, Outcome, Step, Wish, change_charges
from commands.slip_orders import ALIGN, CLOSE
from domain.charge import Charge, Happened, after
from domain.events import Kind, failed_body
from domain.instants import to_millisecond
from runtime.ids import new_id
from sql import Connection


async def fail_charge(
    conn: Connection,
    *,
    account_id: UUID,
    charge_id: UUID,
    code: str,
    message: str,
    now: datetime,
    actor: str,
    written_off: bool = False,
) -> Outcome:
    """Make a pending charge `failed`; a Refused outcome when it is no longer pending, which changes nothing."""
    wish = failing(charge_id, None, code=code, message=message, actor=actor, request_id=None, written_off=written_off)
    (outcome,) = await change_charges(conn, [wish], now=to_millisecond(now))
    return outcome


def failing(
    charge_id: UUID,
    owner: tuple[UUID, bool] | None,
    *,
    code: str,
    message: str,
    actor: str,
    request_id: str | None,
    written_off: bool = False,
) -> Wish:
    """The wish to fail a charge; Refused(CHARGE_NOT_PENDING) unless it is pending.

    Of a dual charge the leg that is left goes too: the cob when the slip was `written_off`, else the slip. A PIX charge
    fails because its bank refused the cob; one that its `owner` has fail, in the sandbox, has a cob, which goes.
    """

    def decide(charge: Charge, at: datetime) -> list[Step]:
        failed = after(charge, Happened.FAILED)
        event_id = new_id()
        body = failed_body(failed, event_id=event_id, code=code, message=message)
        order: tuple[str | None, bytes] = (None, b"{}")
        if charge.dual:
            order = ("cob_remove", b"{}") if written_off else (ALIGN, CLOSE)
        elif owner is not None and not charge.slip:
            order = ("cob_remove", b"{}")
        return [
            Step(
                charge=failed,
                kind=Kind.CHARGE_FAILED,
                event=Event(event_id=event_id, kind=Kind.CHARGE_FAILED, body=body),
                charge_fields={"failure": {"code": code, "message": message}},
                order_kind=order[0],
                order_request=order[1],
            )
        ]

    return Wish(charge_id=charge_id, owner=owner, decide=decide, actor=actor, request_id=request_id)
