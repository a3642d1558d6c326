"""Refunds: create, look up, list (contract section 11)."""

from functools import partial
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.answers import Answer, encode
from api.body.fields import Amount, BankDescription, Id, Reference, matching, pix_cents, text
from api.body.payers import check_document, document_digits
from api.body.reading import convert_body, misspelling_of
from api.charge_answers import charge_id_of
from api.context import ApiContext
from api.gate import SANDBOX_BANK, scenario_of
from api.idempotency.replay import answer_created, replay
from api.idempotency.used_keys import UsedKey
from api.paging import PagedList, page_of
from api.query import Query
from api.route import Call, Route, routes_of
from commands.money.refund import NewRefund, TransferDestination
from domain.errors import Code, Refused, required
from domain.identifiers import parse_id
from domain.refund import PIX_KEY, PIX_KEY_CHARACTERS_MAX, REASON_MAX
from readmodels.money.refund import RefundProjection, refund_by_id
from readmodels.money.refund_list import RefundFilters, refund_page
from readmodels.page import ListFilters, TimePosition
from runtime.ids import new_id
from runtime.postgres import session


class RefundDestination(Struct, frozen=True, kw_only=True):
    """Where the money of a boleto paid by its linha digitável goes: a PIX key, and the CPF or CNPJ of its owner, who is
    the charge's payer."""

    pix_key: Annotated[
        str,
        Meta(
            max_length=PIX_KEY_CHARACTERS_MAX,
            description="PIX key: a CPF, a CNPJ, a telephone number with +55, an e-mail address or a random key.",
        ),
        matching(f"({PIX_KEY})", "must be a PIX key: CPF, CNPJ, +55 and telephone, e-mail or random key"),
    ]
    document: Annotated[str, document_digits(" of the key's owner")]


class CreateRefund(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The refund to create. Without `amount`, all that remains of the payment is refunded; without `payment_id`, the
    payment is the one that settled the charge. `destination` is for boletos: one paid by its linha digitável needs it,
    and one paid by PIX is refunded to where the money came from in any case. Money of a boleto that the platform
    assigned to a PIX charge needs it too."""

    amount: (
        Annotated[
            Amount,
            Meta(description="Amount in reais, as a decimal string; by default all that remains of the payment."),
        ]
        | UnsetType
    ) = UNSET
    """Null is refused: the client may have lost an amount that it meant to send."""
    reason: Annotated[str, text(REASON_MAX)] | None = None
    description: BankDescription = None
    external_id: Annotated[
        Reference | None,
        Meta(description="Your own reference for the refund; it need not be unique."),
    ] = None
    payment_id: Annotated[
        Id | None, Meta(description="Id of the payment to refund; by default the one that settled the charge.")
    ] = None
    destination: RefundDestination | None = None


RefundPage = page_of(RefundProjection, "RefundPage")


async def create(context: ApiContext, call: Call) -> Answer:
    """Answers 201 with the pending refund; 200 when the key made it before. A worker sends it to the bank then."""
    body = convert_body(call.body, CreateRefund)
    if (misspelling := misspelling_of("amount", call.body, CreateRefund)) is not None:
        # As with null: the whole remainder would be refunded although a part was meant.
        raise Refused(Code.AMOUNT_INVALID, fields={"amount": f"is left out, and {misspelling} is not its name"})
    refund_id, sealed_destination = new_id(), None
    if (destination := body.destination) is not None:
        check_document("destination.document", destination.document, context, production=not call.caller.test)
        transfer = TransferDestination(pix_key=destination.pix_key, document=destination.document)
        sealed_destination = transfer.kept(refund_id, context.seal)
    scenario = scenario_of(call)
    if (used := await context.keys.find(call.key_name)) is not None:
        return await replay(context, call, used, partial(_find_refund, context, call))
    refund = NewRefund(
        owner=call.caller.owner,
        key=call.key,
        fingerprint=call.fingerprint,
        refund_id=refund_id,
        charge_id=charge_id_of(call),
        amount_cents=None if body.amount is UNSET else pix_cents(body.amount),
        payment_id=None if body.payment_id is None else UUID(body.payment_id),
        reason=body.reason,
        description=body.description,
        external_id=body.external_id,
        destination=sealed_destination,
        scenario=scenario,
        actor=call.caller.client_id,
        request_id=call.request_id,
    )
    made = await context.guard.run(call.key_name, partial(context.refunds.create, refund, scopes=call.caller.scopes))
    if isinstance(made, UsedKey):
        if made.resource_id != refund_id:
            return await replay(context, call, made, partial(_find_refund, context, call))
        # This request's own refund: an attempt stored it, but the database's answer was lost.
        made = await _find_refund(context, call, refund_id)
    return answer_created(made, f"/v1/refunds/{made.refund_id}")


async def look_up(context: ApiContext, call: Call) -> Answer:
    refund_id = required(parse_id(call.path("refund_id")), Code.REFUND_NOT_FOUND)
    return Answer(encode(await _find_refund(context, call, refund_id)))


async def list_refunds(context: ApiContext, call: Call) -> Answer:
    return await REFUNDS.read(context, call).page(refund_page)


async def list_of_charge(context: ApiContext, call: Call) -> Answer:
    def row_filters(query: ListFilters, _: Query) -> RefundFilters:
        return RefundFilters(charge_id=charge_id_of(call), order=query.order)

    request = OF_CHARGE.read(context, call, row_filters)
    await context.charges.find(charge_id_of(call), call.caller.owner)
    return await request.page(refund_page)


async def _find_refund(context: ApiContext, call: Call, refund_id: UUID) -> RefundProjection:
    async with session(context.pool) as conn:
        return required(await refund_by_id(conn, refund_id, call.caller.owner), Code.REFUND_NOT_FOUND)


OF_CHARGE: PagedList[ListFilters] = PagedList("refunds", TimePosition, ListFilters)
REFUNDS = PagedList(
    "refunds",
    TimePosition,
    RefundFilters,
    {"external_id": "Only refunds whose own `external_id` is exactly this.", "created": "Requested"},
)

ROUTES = routes_of(
    "Refunds",
    Route(
        method="POST",
        path="/v1/charges/{charge_id:str}/refunds",
        name="createRefund",
        summary="Refund a paid charge, in full or in part",
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
        handle=list_of_charge,
        scopes=("payments:read",),
        query=OF_CHARGE.parameters,
        answers={200: RefundPage},
        errors=(Code.CHARGE_NOT_FOUND, *OF_CHARGE.errors),
    ),
    Route(
        method="GET",
        path="/v1/refunds",
        name="listRefunds",
        summary="List refunds",
        handle=list_refunds,
        scopes=("payments:read",),
        query=REFUNDS.parameters,
        answers={200: RefundPage},
        errors=REFUNDS.errors,
    ),
    Route(
        method="GET",
        path="/v1/refunds/{refund_id:str}",
        name="getRefund",
        summary="Look up a refund",
        handle=look_up,
        scopes=("payments:read",),
        answers={200: RefundProjection},
        errors=(Code.REFUND_NOT_FOUND,),
    ),
)
