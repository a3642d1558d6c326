"""Refunds: ask for one, look one up, list them (contract section 11)."""

from functools import partial
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.answers import Answer, encode
from api.body.fields import EXTERNAL_ID_MAX, Amount, Description, Id, matching, pix_cents, text
from api.body.payers import check_document, document
from api.body.reading import shaped
from api.context import ApiContext
from api.gate import SANDBOX_BANK, scenario_of
from api.idempotency.replay import count_first, replay
from api.idempotency.used_keys import UsedKey
from api.paging import page_of, paged
from api.query import CURSOR, LIMIT, ORDER, Query, day, identifier, one_of, path_id, word
from api.route import Call, Route
from commands.money.refund import NewRefund, TransferDestination
from domain.errors import Code, Refused
from domain.refund import PIX_KEY, PIX_KEY_CHARACTERS_MAX
from readmodels.money.refund import RefundProjection, refund_by_id
from readmodels.money.refund_list import STATUSES, RefundFilters, refund_page
from readmodels.page import TimePosition
from runtime.ids import new_id
from runtime.postgres import session

REASON_MAX: Final = 140


class RefundDestination(Struct, frozen=True, kw_only=True):
    """Where the money of a boleto paid on its line goes: a PIX key, and the CPF or CNPJ of its owner, digits only."""

    pix_key: Annotated[
        str,
        Meta(max_length=PIX_KEY_CHARACTERS_MAX, description="CPF, CNPJ, +55 and telephone, e-mail or random key."),
        matching(f"({PIX_KEY})", "must be a PIX key: CPF, CNPJ, +55 and telephone, e-mail or random key"),
    ]
    document: Annotated[str, document(" of the key's owner")]


class CreateRefund(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body. Without `amount` all that remains of the payment goes back; without `payment_id` it is the payment that
    settled the charge. `destination` is for boletos: one paid on its line needs it, one paid by PIX goes back the way
    it came whatever it says."""

    amount: Annotated[Amount, Meta(description="Decimal reais; all that remains unless given.")] | UnsetType = UNSET
    """A null is a fault: it might stand for an amount that got lost."""
    reason: Annotated[str, text(REASON_MAX)] | None = None
    description: Annotated[
        Description | None, Meta(description="Told to the bank, folded to its letters and 140 characters.")
    ] = None
    external_id: Annotated[
        Annotated[str, text(EXTERNAL_ID_MAX)] | None,
        Meta(description="The refund's own reference; need not be unique."),
    ] = None
    payment_id: Annotated[Id | None, Meta(description="The payment that settled the charge unless given.")] = None
    destination: RefundDestination | None = None


RefundPage = page_of(RefundProjection, "RefundPage")


async def create(context: ApiContext, call: Call) -> Answer:
    """201 with the pending refund; 200 when the key made it before. The bank is told after, by a worker."""
    asked = shaped(call.body, CreateRefund)
    sealed = None
    if (destination := asked.destination) is not None:
        check_document("destination.document", destination.document, context, production=not call.caller.test)
        to = TransferDestination(pix_key=destination.pix_key, document=destination.document)
        sealed = context.seal.seal(msgspec.json.encode(to))
    scenario = scenario_of(call)
    charge_id = path_id(call.path("charge_id"))
    if (used := await context.keys.find(call.key_name)) is not None:
        return await _replay(context, call, used)
    if charge_id is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
    refund_id = new_id()
    asked_for = NewRefund(
        owner=call.caller.owner,
        key=call.key,
        fingerprint=call.fingerprint,
        refund_id=refund_id,
        charge_id=charge_id,
        amount_cents=None if asked.amount is UNSET else pix_cents(asked.amount),
        payment_id=None if asked.payment_id is None else UUID(asked.payment_id),
        reason=asked.reason,
        description=asked.description,
        external_id=asked.external_id,
        destination_sealed=sealed,
        scenario=scenario,
        actor=call.caller.client_id,
        request_id=call.request_id,
    )
    made = await context.guard.run(call.key_name, partial(context.refunds.create, asked_for))
    if isinstance(made, UsedKey):
        if made.resource_id != refund_id:
            return await _replay(context, call, made)
        # It was written after all, by an attempt whose answer was lost.
        made = await _find(context, call, refund_id)
    count_first()
    return Answer(encode(made), 201)


async def look_up(context: ApiContext, call: Call) -> Answer:
    refund_id = path_id(call.path("refund_id"))
    if refund_id is None:
        raise Refused(Code.REFUND_NOT_FOUND)
    return Answer(encode(await _find(context, call, refund_id)))


async def list_refunds(context: ApiContext, call: Call) -> Answer:
    query = Query(call.scope["query_string"], LIST)
    created_from, created_to = query.days("created_from", "created_to")
    filters = RefundFilters(
        statuses=query.choices("status", STATUSES),
        charge_id=query.uuid("charge_id"),
        payment_id=query.uuid("payment_id"),
        external_id=query.text("external_id"),
        created_from=created_from,
        created_to=created_to,
        order=query.order(),
    )
    return await _page(context, call, query, filters)


async def list_of_charge(context: ApiContext, call: Call) -> Answer:
    query = Query(call.scope["query_string"], OF_CHARGE)
    order, charge_id = query.order(), path_id(call.path("charge_id"))
    query.limit()
    if charge_id is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
    await context.charges.find(charge_id, call.caller.owner)
    return await _page(context, call, query, RefundFilters(charge_id=charge_id, order=order))


async def _page(context: ApiContext, call: Call, query: Query, filters: RefundFilters) -> Answer:
    return await paged(context, call, query, "refunds", filters, TimePosition, refund_page)


async def _replay(context: ApiContext, call: Call, used: UsedKey) -> Answer:
    return await replay(context, call, used, partial(_find, context, call))


async def _find(context: ApiContext, call: Call, refund_id: UUID) -> RefundProjection:
    async with session(context.pool) as conn:
        found = await refund_by_id(conn, refund_id, call.caller.owner)
    if found is None:
        raise Refused(Code.REFUND_NOT_FOUND)
    return found


OF_CHARGE = (ORDER, LIMIT, CURSOR)
LIST = (
    identifier("charge_id"),
    identifier("payment_id"),
    one_of("status", STATUSES, repeatable=True),
    word("external_id", "The refund's own reference."),
    day("created_from", "Asked for on or after this day"),
    day("created_to", "Asked for on or before this day"),
    *OF_CHARGE,
)
_PAGE_ERRORS = (Code.VALIDATION_ERROR, Code.LIMIT_INVALID, Code.CURSOR_INVALID)

ROUTES = (
    Route(
        method="POST",
        path="/v1/charges/{charge_id:str}/refunds",
        name="createRefund",
        summary="Refund a paid charge, wholly or in part",
        tag="Refunds",
        handle=create,
        scopes=("refunds:create",),
        key=True,
        body=CreateRefund,
        body_optional=True,
        headers=(SANDBOX_BANK,),
        answers={201: RefundProjection, 200: RefundProjection},
        errors=(
            Code.AMOUNT_INVALID,
            Code.IDEMPOTENCY_KEY_REUSED,
            Code.IDEMPOTENCY_IN_PROGRESS,
            Code.CHARGE_NOT_FOUND,
            Code.CHARGE_NOT_REFUNDABLE,
            Code.REFUND_DESTINATION_REQUIRED,
            Code.REFUND_EXCEEDS,
            Code.INSUFFICIENT_BALANCE,
        ),
    ),
    Route(
        method="GET",
        path="/v1/charges/{charge_id:str}/refunds",
        name="listRefundsOfCharge",
        summary="List a charge's refunds",
        tag="Refunds",
        handle=list_of_charge,
        scopes=("payments:read",),
        query=OF_CHARGE,
        answers={200: RefundPage},
        errors=(Code.CHARGE_NOT_FOUND, *_PAGE_ERRORS),
    ),
    Route(
        method="GET",
        path="/v1/refunds",
        name="listRefunds",
        summary="List refunds",
        tag="Refunds",
        handle=list_refunds,
        scopes=("payments:read",),
        query=LIST,
        answers={200: RefundPage},
        errors=(Code.DATE_RANGE_INVALID, *_PAGE_ERRORS),
    ),
    Route(
        method="GET",
        path="/v1/refunds/{refund_id:str}",
        name="getRefund",
        summary="Look a refund up",
        tag="Refunds",
        handle=look_up,
        scopes=("payments:read",),
        answers={200: RefundProjection},
        errors=(Code.REFUND_NOT_FOUND,),
    ),
)
