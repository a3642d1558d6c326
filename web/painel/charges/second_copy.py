"""A payer's request for a second copy of an expired boleto: answered with a new charge made from it, or dismissed."""

from typing import Any
from uuid import UUID

from litestar.response import Response

from commands.charges.second_copy import answer_second_copy, dismiss_second_copy
from commands.people.audit import write_audit_entry
from domain.identifiers import parse_id
from readmodels.charges.second_copies import second_copy_of
from runtime.ids import new_id
from runtime.postgres import session, transaction
from web.painel.charges import prefill
from web.painel.charges.charge_page import charge_of
from web.painel.page_request import PageRequest


async def has_open_request(request: PageRequest, charge_id: UUID) -> bool:
    """Whether a request about this charge waits for an answer."""
    async with session(request.pool) as conn:
        second_copy = await second_copy_of(conn, charge_id, request.owner)
    return second_copy is not None and second_copy.closed_at is None


async def answer(request: PageRequest, answered_by: UUID) -> bool:
    """Makes the payer's page of the charge that filled the form lead to the charge that the form created. False when
    the new charge is for another payer, or no request waits. A form sent again changes nothing."""
    charge_id = parse_id(request.field(prefill.FROM))
    if charge_id is None:
        return False
    async with transaction(request.pool) as conn:
        answered = await answer_second_copy(conn, charge_id, request.owner, answered_by=answered_by, now=request.now)
        if answered:
            # A second audit row: the form's own row is about the charge that the form created.
            facts = {"charge": str(answered_by)}
            await write_audit_entry(
                conn, request.entry(new_id(), "second_copy.answered", str(charge_id), **facts), now=request.now
            )
    return answered


async def dismiss(request: PageRequest) -> Response[Any]:
    """Dismisses a payer's request for a second copy."""
    charge_id = request.id("charge_id")
    await charge_of(request, charge_id)
    async with request.change("second_copy.dismissed", subject=str(charge_id)) as conn:
        await dismiss_second_copy(conn, charge_id, request.owner, now=request.now)
    return request.go(request.here(f"/cobrancas/{charge_id}"), done="dispensada")
