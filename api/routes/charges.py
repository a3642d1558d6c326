"""Look charges up, list them, cancel them, and simulate their payment."""

import asyncio
import secrets
from typing import Any
from uuid import UUID

from msgspec import Struct

from api.answers import Answer, encode
from api.bodies import text
from api.context import ApiContext
from api.query import CURSOR, LIMIT, ORDER, Query, day, one_of, path_id, word
from api.route import Call, Route
from api.routes.pix import SANDBOX_BANK, scenario_of
from banks.scenario import SLOW_S
from commands.bank_orders.boleto_issuer import RETRY_AFTER_S
from commands.charges.cancel import cancellation, charge_of_reference
from commands.charges.pay import simulated_payment
from domain.charge import CancelReason
from domain.errors import Code, Refused
from domain.mode import Mode
from domain.pix.br_code import end_to_end_id
from readmodels.charges.charge import ChargeProjection, present
from readmodels.charges.charge_list import METHODS, STATUSES, ChargeFilters, StatusSummary, charge_page, charge_summary
from readmodels.page import TimePosition
from runtime.postgres import session

# The ISPB of the simulated bank of the sandbox: no institution has it.
SANDBOX_ISPB = "99999999"
_E2E_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# A reference names the same charge at most this many times anew while others change it under our hands.
_LOOKS = 3


class CancelByReference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Exactly one of the two identifiers; `reason` is cancelled (default) or paid_externally."""

    charge_id: str | None = None
    external_id: str | None = None
    reason: str | None = None


class ChargePage(Struct, frozen=True):
    data: list[ChargeProjection]
    next_cursor: str | None


class ChargeSummary(Struct, frozen=True):
    data: list[StatusSummary]


async def look_up(context: ApiContext, call: Call) -> Answer:
    doc = await context.charges.find(_charge_id(call), call.caller.owner)
    return Answer(encode(present(doc, context.seal, now=call.now)))


async def cancel(context: ApiContext, call: Call) -> Answer:
    charge_id = _charge_id(call)
    return await _cancel(context, call, charge_id, CancelReason.CANCELLED)


async def cancel_by_reference(context: ApiContext, call: Call) -> Answer:
    charge_id, external_id = call.body.get("charge_id"), call.body.get("external_id")
    if (charge_id is None) == (external_id is None):
        raise Refused(Code.CANCEL_REFERENCE_REQUIRED)
    reason = _reason(call.body.get("reason"))
    if charge_id is not None:
        if not isinstance(charge_id, str):
            raise Refused(Code.VALIDATION_ERROR, fields={"charge_id": "must be a string"})
        found = path_id(charge_id)
        if found is None:
            raise Refused(Code.CHARGE_NOT_FOUND)
        return await _cancel(context, call, found, reason)
    if not isinstance(external_id, str):
        raise Refused(Code.VALIDATION_ERROR, fields={"external_id": "must be a string"})
    text("external_id", external_id, 255)
    await context.charges.expire_overdue(call.caller.owner)
    for look in range(_LOOKS):
        async with session(context.pool) as conn:
            found = await charge_of_reference(conn, call.caller.owner, external_id, now=call.now)
        try:
            return await _cancel(context, call, found, reason)
        except Refused as refused:
            # It was paid, cancelled or expired just now: is there another pending one of this name?
            if refused.code is not Code.CHARGE_NOT_PENDING or look == _LOOKS - 1:
                raise
    raise AssertionError("unreachable")


async def simulate_payment(context: ApiContext, call: Call) -> Answer:
    charge_id = _charge_id(call)
    scenario = scenario_of(call)
    if (await context.charges.find(charge_id, call.caller.owner)).boleto is not None:
        # The simulated bank decides whether a boleto can still be paid, as a real one does.
        await context.boletos.simulate_payment(charge_id, call.caller, request_id=call.request_id, scenario=scenario)
        doc = await context.charges.find(charge_id, call.caller.owner)
        return Answer(encode(present(doc, context.seal, now=call.now)))
    await payers_bank(scenario)
    e2e = end_to_end_id(SANDBOX_ISPB, call.now, "".join(secrets.choice(_E2E_ALPHABET) for _ in range(11)))
    command = simulated_payment(
        charge_id,
        call.caller.owner,
        end_to_end_id=e2e,
        seal=context.seal,
        actor=call.caller.client_id,
        request_id=call.request_id,
    )
    await context.charges.change(command)
    doc = await context.charges.find(charge_id, call.caller.owner)
    return Answer(encode(present(doc, context.seal, now=call.now)))


async def payers_bank(scenario: str | None) -> None:
    """What the bank of a PIX charge's payer does, where X-Sandbox-Bank says how it is to behave: as the bank of a
    boleto
    does (banks/scenario.py), but that there is no order to try again. A reply that is lost is the payer's loss: the
    payment is made, and told to us by our bank."""
    if scenario in ("unavailable", "refuse"):
        raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)
    if scenario == "slow":
        await asyncio.sleep(SLOW_S)


async def list_charges(context: ApiContext, call: Call) -> Answer:
    query = Query(call.scope["query_string"], LIST)
    filters = _filters(query, context)
    limit = query.limit()
    owner = call.caller.owner
    bound_to = ["charges", owner, filters]
    cursor = query.cursor()
    after = None if cursor is None else context.cursors.read(cursor, TimePosition, bound_to)
    await context.charges.expire_overdue(owner)
    async with session(context.pool) as conn:
        docs, last = await charge_page(conn, owner, filters, after, limit)
    page = ChargePage(
        data=[present(doc, context.seal, now=call.now) for doc in docs],
        next_cursor=None if last is None else context.cursors.write(last, bound_to),
    )
    return Answer(encode(page))


async def summarize(context: ApiContext, call: Call) -> Answer:
    query = Query(call.scope["query_string"], FILTERS)
    filters = _filters(query, context)
    await context.charges.expire_overdue(call.caller.owner)
    async with session(context.pool) as conn:
        rows = await charge_summary(conn, call.caller.owner, filters)
    return Answer(encode(ChargeSummary(rows)))


async def _cancel(context: ApiContext, call: Call, charge_id: UUID, reason: CancelReason) -> Answer:
    scenario = scenario_of(call)
    doc = await context.charges.find(charge_id, call.caller.owner)
    if doc.boleto is not None:
        # The bank first: a boleto that is cancelled here and open there could still be paid.
        await context.boletos.cancel(
            charge_id, call.caller, reason=reason, request_id=call.request_id, scenario=scenario
        )
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
    doc = await context.charges.find(charge_id, call.caller.owner)
    return Answer(encode(present(doc, context.seal, now=call.now)))


def _charge_id(call: Call) -> UUID:
    charge_id = path_id(call.path("charge_id"))
    if charge_id is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
    return charge_id


def _reason(given: Any) -> CancelReason:
    if given is None:
        return CancelReason.CANCELLED
    if given not in [each.value for each in CancelReason]:
        raise Refused(Code.VALIDATION_ERROR, fields={"reason": "must be cancelled or paid_externally"})
    return CancelReason(given)


def _filters(query: Query, context: ApiContext) -> ChargeFilters:
    created_from, created_to = query.days("created_from", "created_to")
    due_from, due_to = query.dates("due_from", "due_to")
    document = query.text("payer_document")
    return ChargeFilters(
        statuses=query.choices("status", STATUSES),
        methods=query.choices("payment_method", METHODS),
        external_id=query.text("external_id"),
        payer_document_hash=None if document is None else context.seal.blind(document),
        nosso_numero=query.text("nosso_numero"),
        txid=query.text("txid"),
        integrador_code=query.text("integrador_code"),
        created_from=created_from,
        created_to=created_to,
        due_from=due_from,
        due_to=due_to,
        order=query.order(),
    )


FILTERS = (
    one_of("status", STATUSES, repeatable=True),
    one_of("payment_method", METHODS, repeatable=True),
    word("external_id"),
    word("payer_document", "Digits of the payer's CPF or CNPJ."),
    word("nosso_numero"),
    word("txid"),
    word("integrador_code"),
    day("created_from", "Created on or after this day"),
    day("created_to", "Created on or before this day"),
    day("due_from", "Due on or after this day"),
    day("due_to", "Due on or before this day"),
    ORDER,
)
LIST = (*FILTERS, LIMIT, CURSOR)
_LIST_ERRORS = (Code.VALIDATION_ERROR, Code.DATE_RANGE_INVALID)

ROUTES = (
    Route(
        method="GET",
        path="/v1/charges",
        name="listCharges",
        summary="List charges",
        tag="Charges",
        handle=list_charges,
        scopes=("charges:read",),
        query=LIST,
        answers={200: ChargePage},
        errors=(*_LIST_ERRORS, Code.LIMIT_INVALID, Code.CURSOR_INVALID),
    ),
    Route(
        method="GET",
        path="/v1/charges/summary",
        name="summarizeCharges",
        summary="Count and amount of charges per status",
        tag="Charges",
        handle=summarize,
        scopes=("charges:read",),
        query=FILTERS,
        answers={200: ChargeSummary},
        errors=_LIST_ERRORS,
    ),
    Route(
        method="GET",
        path="/v1/charges/{charge_id:str}",
        name="getCharge",
        summary="Look a charge up",
        tag="Charges",
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
        tag="Charges",
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
        tag="Charges",
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
        summary="Pay a test charge",
        tag="Sandbox",
        handle=simulate_payment,
        scopes=("charges:create",),
        mode=Mode.SANDBOX,
        headers=(SANDBOX_BANK,),
        answers={200: ChargeProjection},
        errors=(Code.CHARGE_NOT_FOUND, Code.CHARGE_NOT_PENDING, Code.BANK_UNAVAILABLE),
    ),
)
