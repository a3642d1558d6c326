"""Look charges up, list them, cancel them, and simulate their payment."""

from functools import partial
from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from api.answers import Answer, encode
from api.body.fields import Reference, choice
from api.body.reading import convert_body
from api.charge_answers import (
    charge_answer,
    charge_id_of,
    charge_projection,
    check_one_reference,
    parse_charge_id,
    with_reference,
)
from api.context import ApiContext
from api.gate import SANDBOX_BANK, play_payers_bank, sandbox_payment_id, scenario_of
from api.paging import PagedList, page_of
from api.route import Call, Route, routes_of
from commands.bank_orders.kinds import Pay, WriteOff
from commands.charges.cancel import cancellation
from commands.charges.pay import simulated_payment
from domain.charge import CancelReason
from domain.errors import Code
from domain.mode import Mode
from readmodels.charges.charge import ChargeProjection
from readmodels.charges.charge_list import ChargeFilters, StatusSummary
from readmodels.charges.current_list import current_page, current_summary
from readmodels.page import TimePosition


class CancelByReference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The charge to cancel: exactly one of `charge_id` and `external_id`."""

    charge_id: str | None = None
    external_id: Reference | None = None
    reason: (
        Annotated[
            str,
            choice([each.value for each in CancelReason], "must be cancelled or paid_externally"),
            Meta(extra_json_schema={"default": CancelReason.CANCELLED.value}),
        ]
        | None
    ) = None


ChargePage = page_of(ChargeProjection, "ChargePage")


class ChargeSummary(Struct, frozen=True):
    data: list[StatusSummary]


async def look_up(context: ApiContext, call: Call) -> Answer:
    return await charge_answer(context, call, charge_id_of(call))


async def cancel(context: ApiContext, call: Call) -> Answer:
    scenario = scenario_of(call)
    return await _cancel(context, call, charge_id_of(call), CancelReason.CANCELLED, scenario)


async def cancel_by_reference(context: ApiContext, call: Call) -> Answer:
    check_one_reference(call.body.get("charge_id"), call.body.get("external_id"))
    body = convert_body(call.body, CancelByReference)
    reason = CancelReason(body.reason or CancelReason.CANCELLED)
    scenario = scenario_of(call)

    async def cancel_charge(charge_id: UUID) -> Answer:
        return await _cancel(context, call, charge_id, reason, scenario)

    if body.charge_id is not None:
        return await cancel_charge(parse_charge_id(body.charge_id.lower()))
    return await with_reference(context, call, body.external_id or "", cancel_charge)


async def simulate_payment(context: ApiContext, call: Call) -> Answer:
    scenario = scenario_of(call)
    charge_id = charge_id_of(call)
    if (await context.charges.find(charge_id, call.caller.owner)).boleto is not None:
        # The simulated bank decides whether a boleto can still be paid, as a real one does.
        order = Pay(actor=call.caller.client_id, request_id=call.request_id, scenario=scenario)
        await context.boletos.change(charge_id, call.caller, order)
        return await charge_answer(context, call, charge_id)
    await play_payers_bank(scenario)
    command = simulated_payment(
        charge_id,
        call.caller.owner,
        end_to_end_id=sandbox_payment_id(call.now),
        seal=context.seal,
        fees=context.settings.fees,
        actor=call.caller.client_id,
        request_id=call.request_id,
    )
    await context.charges.change(command)
    return await charge_answer(context, call, charge_id)


async def list_charges(context: ApiContext, call: Call) -> Answer:
    request = CHARGES.read(context, call)
    await context.charges.expire_overdue(call.caller.owner)
    return await request.page(partial(current_page, now=call.now), partial(charge_projection, context, call))


async def summarize(context: ApiContext, call: Call) -> Answer:
    filters = CHARGES.read_filters(context, call)
    await context.charges.expire_overdue(call.caller.owner)
    rows = await context.reads.ask(lambda conn: current_summary(conn, call.caller.owner, filters, now=call.now))
    return Answer(encode(ChargeSummary(rows)))


async def _cancel(
    context: ApiContext, call: Call, charge_id: UUID, reason: CancelReason, scenario: str | None
) -> Answer:
    doc = await context.charges.find(charge_id, call.caller.owner)
    if doc.boleto is not None:
        # The bank first: a boleto cancelled here but still registered there could be paid.
        order = WriteOff(reason=reason, actor=call.caller.client_id, request_id=call.request_id, scenario=scenario)
        await context.boletos.change(charge_id, call.caller, order)
    else:
        command = cancellation(
            charge_id,
            call.caller.owner,
            reason=reason,
            actor=call.caller.client_id,
            request_id=call.request_id,
            scenario=scenario,
        )
        await context.charges.change(command)
    return await charge_answer(context, call, charge_id)


CHARGES = PagedList(
    "charges",
    TimePosition,
    ChargeFilters,
    {"payer_document": "Only charges whose payer has this CPF or CNPJ.", "created": "Created", "due": "Due"},
)

ROUTES = routes_of(
    "Charges",
    Route(
        method="GET",
        path="/v1/charges",
        name="listCharges",
        summary="List charges",
        handle=list_charges,
        scopes=("charges:read",),
        query=CHARGES.parameters,
        answers={200: ChargePage},
        errors=CHARGES.errors,
    ),
    Route(
        method="GET",
        path="/v1/charges/summary",
        name="summarizeCharges",
        summary="Count and amount of charges per status",
        heavy=True,
        handle=summarize,
        scopes=("charges:read",),
        query=CHARGES.filter_parameters,
        answers={200: ChargeSummary},
        errors=CHARGES.filter_errors,
    ),
    Route(
        method="GET",
        path="/v1/charges/{charge_id:str}",
        name="getCharge",
        hot=True,
        summary="Look up a charge",
        handle=look_up,
        scopes=("charges:read",),
        answers={200: ChargeProjection},
        errors=(Code.CHARGE_NOT_FOUND,),
    ),
    Route(
        method="POST",
        path="/v1/charges/{charge_id:str}/cancel",
        name="cancelCharge",
        summary="Cancel a pending charge",
        handle=cancel,
        scopes=("charges:create",),
        headers=(SANDBOX_BANK,),
        answers={200: ChargeProjection},
        errors=(Code.CHARGE_NOT_FOUND, Code.CHARGE_NOT_PENDING, Code.BANK_UNAVAILABLE),
    ),
    Route(
        method="POST",
        path="/v1/charges/cancel",
        name="cancelChargeByReference",
        summary="Cancel a pending charge by charge_id or external_id, or close it as paid another way",
        handle=cancel_by_reference,
        scopes=("charges:create",),
        body=CancelByReference,
        headers=(SANDBOX_BANK,),
        answers={200: ChargeProjection},
        errors=(
            Code.CANCEL_REFERENCE_REQUIRED,
            Code.CANCEL_REFERENCE_AMBIGUOUS,
            Code.CHARGE_NOT_FOUND,
            Code.CHARGE_NOT_PENDING,
            Code.BANK_UNAVAILABLE,
        ),
    ),
    Route(
        method="POST",
        path="/v1/charges/{charge_id:str}/simulate-payment",
        name="simulatePayment",
        summary="Pay a pending test charge in full",
        tag="Sandbox",
        handle=simulate_payment,
        scopes=("charges:create",),
        mode=Mode.SANDBOX,
        headers=(SANDBOX_BANK,),
        answers={200: ChargeProjection},
        errors=(Code.CHARGE_NOT_FOUND, Code.CHARGE_NOT_PENDING, Code.BANK_UNAVAILABLE),
    ),
)
