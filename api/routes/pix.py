"""POST /v1/charges/pix."""

from functools import partial
from typing import Annotated, Final

from msgspec import Meta, Struct

from api.answers import Answer
from api.body.fields import LIFETIME_DEFAULT_S, Amount, Description, ExternalId, Id, Lifetime, Metadata, pix_cents
from api.body.payers import PixPayer, check_document, seal_payer
from api.body.reading import convert_body
from api.charge_answers import body_warnings, create_charge
from api.context import ApiContext
from api.gate import SANDBOX_BANK, approved, approved_now, scenario_of
from api.idempotency.replay import check_same_request
from api.route import Call, Route, routes_of
from commands.charges.create_pix import Creation
from domain.errors import Code, Refused
from readmodels.charges.charge import ChargeDoc, ChargeProjection
from runtime.ids import new_id


class CreatePix(Struct, frozen=True, kw_only=True):
    """The PIX charge to create (spec). With `send_email`, a payer whose e-mail address is given gets the charge,
    reminders and a receipt (production only)."""

    account_id: Annotated[Id, Meta(description="Id of the account; it must be the token's own.")]
    amount: Annotated[Amount, Meta(description="Amount in reais, as a decimal string greater than 0.")]
    external_id: ExternalId = None
    description: Description | None = None
    expires_in: Annotated[
        Annotated[Lifetime, Meta(extra_json_schema={"default": LIFETIME_DEFAULT_S})] | None,
        Meta(description="Lifetime of the charge in seconds; after that it expires."),
    ] = None
    payer: PixPayer | None = None
    send_email: bool | None = None
    metadata: Metadata | None = None


# The same message for another merchant's account and for one that does not exist, so neither is disclosed.
NOT_ITS_ACCOUNT: Final = "There is no such account for this token: GET /v1/me tells its account_id."


async def create(context: ApiContext, call: Call) -> Answer:
    """Answers 201 with the charge; 200 when the key made it before."""
    body = convert_body(call.body, CreatePix)
    context.spend_test_charge(call.caller)
    payer = body.payer
    document = None if payer is None else payer.document
    if document is not None:
        check_document("payer.document", document, context, production=not call.caller.test)
    scenario = scenario_of(call)
    await _check_allowed(context, call, body.account_id.lower())
    charge_id = new_id()
    payer_sealed, payer_document_hash = (
        (None, None) if payer is None else seal_payer(payer, document, context, charge_id)
    )
    creation = Creation(
        issuer=call.caller.issuer,
        key=call.key,
        fingerprint=call.fingerprint,
        charge_id=charge_id,
        request_id=call.request_id,
        now=call.at,
        amount_cents=pix_cents(body.amount),
        lifetime_s=body.expires_in or LIFETIME_DEFAULT_S,
        external_id=body.external_id,
        description=body.description,
        payer_sealed=payer_sealed,
        payer_document_hash=payer_document_hash,
        scenario=scenario,
        send_email=body.send_email is True,
        metadata=body.metadata,
    )
    operation = partial(_write_charge, context, call, creation)
    return await create_charge(context, call, operation, body_warnings(call, CreatePix))


async def _write_charge(context: ApiContext, call: Call, creation: Creation) -> ChargeDoc | None:
    try:
        return await context.pix.create(creation)
    except Refused as refused:
        # The statement that writes the charge checks suspension and approval together; KYC_REQUIRED goes first.
        if refused.code is Code.PIX_AVULSO_SUSPENDED and not await approved_now(context, call):
            raise Refused(Code.KYC_REQUIRED) from None
        raise


async def _check_allowed(context: ApiContext, call: Call, account_id: str) -> None:
    """Checks approval, account and suspension. The key is looked up before any refusal, so that a replay is answered
    whatever has changed since."""
    code: Code | None = None
    if not await approved(context, call):
        code = Code.KYC_REQUIRED
    elif account_id != str(call.caller.account_id):
        suspended = not call.caller.test and await context.pix_suspended()
        code = Code.PIX_AVULSO_SUSPENDED if suspended else Code.CHARGE_NOT_FOUND
    if code is None:
        return
    used = await context.keys.find(call.key_name)
    if used is None:
        if code is Code.CHARGE_NOT_FOUND:
            raise Refused(code, message=NOT_ITS_ACCOUNT, fields={"account_id": "is not this token's account"})
        raise Refused(code)
    check_same_request(call, used)


ROUTES = routes_of(
    "Charges",
    Route(
        method="POST",
        path="/v1/charges/pix",
        name="createPixCharge",
        hot=True,
        summary="Create a PIX charge",
        handle=create,
        scopes=("charges:create",),
        key=True,
        body=CreatePix,
        headers=(SANDBOX_BANK,),
        answers={201: ChargeProjection, 200: ChargeProjection},
        errors=(
            Code.AMOUNT_INVALID,
            Code.EXPIRES_IN_INVALID,
            Code.IDEMPOTENCY_KEY_REUSED,
            Code.IDEMPOTENCY_IN_PROGRESS,
            Code.CHARGE_NOT_FOUND,
            Code.KYC_REQUIRED,
            Code.PIX_AVULSO_SUSPENDED,
            Code.BANK_UNAVAILABLE,
        ),
    ),
)
