"""Change a charge and write its audit row, cancel a charge, or have its boleto changed at the bank.

The order for the bank is placed in the transaction that writes the audit row; a worker carries the order out, and the
page waits for the outcome. No transaction is open while the bank works.
"""

import asyncio
from uuid import UUID

from commands.bank_orders.boleto_issuer import DEADLINE_S
from commands.bank_orders.kinds import Pay, Redate, WriteOff
from commands.charges.cancel import cancellation
from commands.charges.change import ChargeCommand, change_charges
from domain.charge import CancelReason, Status
from domain.errors import Code, Refused
from readmodels.charges.charge import ChargeDoc, charges_by_id
from runtime.coordination.lanes import BOLETO_ORDERS, PIX_ORDERS, WEBHOOKS
from runtime.ids import new_id
from web.painel.labels import CANCEL_REASONS
from web.painel.page_request import PageRequest


async def change_boleto(
    request: PageRequest,
    action: str,
    charge_id: UUID,
    bank_order: WriteOff | Redate | Pay,
    *,
    pending_only: bool = True,
    **facts: object,
) -> None:
    """Has the bank change the boleto, and waits for the outcome. Refused(CHARGE_NOT_PENDING) when the charge is not
    pending and `pending_only`; Refused(BANK_UNAVAILABLE), with nothing changed, when the bank does not confirm in time
    or another change of this boleto is under way."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_S
    order_id = new_id()
    issuer = request.context.boletos
    wakes = [BOLETO_ORDERS[request.mode]]
    async with request.change(action, subject=str(charge_id), wakes=wakes, **facts) as conn:
        (doc,) = await charges_by_id(conn, [(charge_id, request.owner)])
        if doc is None:
            raise Refused(Code.CHARGE_NOT_FOUND)
        if pending_only and doc.status != Status.PENDING:
            raise Refused(Code.CHARGE_NOT_PENDING, status=doc.status)
        if not await issuer.place(conn, order_id, charge_id, request.owner, bank_order, left_s=DEADLINE_S):
            raise Refused(Code.BANK_UNAVAILABLE)
    await issuer.changed(order_id, deadline - loop.time())
    request.context.jobs.wake(WEBHOOKS)


async def change_charge(request: PageRequest, action: str, command: ChargeCommand, **facts: object) -> None:
    """Carries the command out and writes its audit row, or raises its refusal."""
    async with request.change(
        action, subject=str(command.charge_id), wakes=[WEBHOOKS, PIX_ORDERS[request.mode]], **facts
    ) as conn:
        (outcome,) = await change_charges(conn, [command], now=request.now)
        if isinstance(outcome, Refused):
            raise outcome


def chosen_reason(request: PageRequest) -> CancelReason:
    """Returns the reason in the form that cancels a charge."""
    name = request.field("reason")
    return CancelReason(name) if name in CANCEL_REASONS else CancelReason.CANCELLED


async def cancel_charge(request: PageRequest, doc: ChargeDoc, reason: CancelReason) -> None:
    """Cancels a charge as the API does: a PIX charge at once, a boleto when the bank has written it off."""
    charge_id = UUID(doc.charge_id)
    if doc.boleto is None:
        command = cancellation(
            charge_id, request.owner, reason=reason, actor=request.actor, request_id=request.request_id
        )
        await change_charge(request, "charge.cancelled", command, reason=str(reason))
    else:
        bank_order = WriteOff(reason=reason, actor=request.actor, request_id=request.request_id)
        await change_boleto(request, "boleto.write_off_ordered", charge_id, bank_order, reason=str(reason))
