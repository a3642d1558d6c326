"""Have a slip changed at its bank: an order is placed, a worker does it, and its outcome is looked for.

As the API's door does it, but for one thing: this door has no bell to ring, so a worker finds the order on its own
round, within a second. No transaction is open while the bank thinks.
"""

import asyncio
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec

from commands.slip_orders import Outcome, Pay, WriteOff, give_up, look, place_change
from domain.charge import Status
from domain.errors import Code, Refused
from domain.instants import to_millisecond
from readmodels.charge import charges_by_id
from runtime.ids import new_id
from runtime.postgres import session, transaction
from web.painel.visit import Visit

DEADLINE_S: Final = 12.0
"""The bank's ten seconds (contract section 6), and the worker's round."""
_LOOK_S = 0.2

_encode = msgspec.json.Encoder().encode
_read_outcome = msgspec.json.Decoder(Outcome).decode


async def change_slip(
    visit: Visit, action: str, kind: str, charge_id: UUID, request: WriteOff | Pay, **facts: object
) -> None:
    """Refused(CHARGE_NOT_PENDING) when the charge is not, or not any more; Refused(BANK_UNAVAILABLE) when the bank does
    not confirm in time, or another change of this slip is under way: then nothing was changed."""
    account_id, test = visit.owner
    loop = asyncio.get_running_loop()
    until = loop.time() + DEADLINE_S
    order_id = new_id()
    async with visit.change(action, subject=str(charge_id), **facts) as conn:
        (doc,) = await charges_by_id(conn, [(charge_id, account_id, test)])
        if doc is None:
            raise Refused(Code.CHARGE_NOT_FOUND)
        if doc.status != Status.PENDING:
            raise Refused(Code.CHARGE_NOT_PENDING, status=doc.status)
        placed = await place_change(
            conn,
            order_id=order_id,
            kind=kind,
            charge_id=charge_id,
            account_id=account_id,
            test=test,
            request=_encode(request),
            now=visit.now,
            deadline=visit.now + timedelta(seconds=DEADLINE_S),
            reply_to=None,
        )
        if placed is None:
            raise Refused(Code.BANK_UNAVAILABLE)
    while (said := await _said(visit, order_id)) is None and loop.time() < until:  # noqa: ASYNC110 - it is told in rows
        await asyncio.sleep(_LOOK_S)
    outcome = _read_outcome(said or await _given_up(visit, order_id))
    if outcome.refused:
        raise Refused(Code[outcome.refused])


async def _said(visit: Visit, order_id: UUID) -> bytes | None:
    async with session(visit.pool) as conn:
        return await look(conn, order_id)


async def _given_up(visit: Visit, order_id: UUID) -> bytes:
    unavailable = _encode(Outcome(refused=Code.BANK_UNAVAILABLE.name))
    now = to_millisecond(visit.request.app.state.now())
    async with transaction(visit.pool) as conn:
        if await give_up(conn, order_id, align_id=new_id(), outcome=unavailable, now=now):
            return unavailable
        return await look(conn, order_id) or unavailable
