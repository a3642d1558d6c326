"""POST /v1/charges/dual: one charge with two legs, a boleto and a PIX; the leg that is paid first closes the other.

`tipo` boleto_pix on POST /v1/charges/boleto creates the same from the boleto's body (contract section 12).
"""

from typing import Annotated

from msgspec import Meta, Struct

from api.answers import Answer
from api.body.fields import (
    BoletoAmount,
    Description,
    DueDay,
    ExternalId,
    IntegradorCode,
    Lifetime,
    Metadata,
    OwnAccount,
    boleto_cents,
    due_day,
    own_account,
)
from api.body.payers import COMPANY, ENGLISH_NAMES, DualPayer, boleto_payer, pagador_of, seal_payer
from api.body.reading import convert_body
from api.body.terms import DiscountsField, FineField, InterestField, PayableDays, payment_terms
from api.charge_answers import body_warnings, issue_boleto
from api.context import ApiContext
from api.gate import SANDBOX_BANK, scenario_of
from api.route import Call, Route, routes_of
from commands.charges.create_boleto import BoletoRequest
from domain.boleto.codes import LAST_DUE
from domain.charge import DUAL
from domain.errors import Code, Refused
from readmodels.charges.charge import ChargeProjection
from runtime.ids import new_id


class CreateDual(Struct, frozen=True, kw_only=True):
    """The dual charge to issue. `expires_in` is the PIX leg's own lifetime in seconds, by default that of the boleto.
    With `send_email`, the payer gets e-mails about the charge (production only)."""

    amount: Annotated[BoletoAmount, Meta(description="Amount in reais, as a decimal string greater than 0.")]
    due_date: Annotated[DueDay, Meta(description=f"Due date: after today in São Paulo, {LAST_DUE} at the latest.")]
    payer: DualPayer
    account_id: OwnAccount = None
    external_id: ExternalId = None
    description: Annotated[Description | None, Meta(description="Your own description, printed on the boleto.")] = None
    expires_in: Annotated[
        Lifetime | None,
        Meta(
            description="Lifetime of the PIX leg in seconds: by default that of the boleto, and never longer. Not "
            "allowed with a fine, interest, discounts or payable_days_after_due, because then both legs "
            "are payable on the same days and cost the same."
        ),
    ] = None
    integrador_code: IntegradorCode = None
    send_email: bool | None = None
    metadata: Metadata | None = None
    fine: FineField = None
    interest: InterestField = None
    discounts: DiscountsField = None
    payable_days_after_due: PayableDays = None


async def create(context: ApiContext, call: Call) -> Answer:
    """Answers as for a boleto, once the bank has registered it; the PIX leg's cob is registered right after."""
    body = convert_body(call.body, CreateDual)
    context.spend_test_charge(call.caller)
    amount_cents, due_on = boleto_cents(body.amount), due_day(body.due_date)
    terms = payment_terms(
        body,
        amount_cents=amount_cents,
        due=due_on,
        company=body.payer.person_type == COMPANY,
    )
    if terms is not None and body.expires_in is not None:
        # With terms the PIX leg is a cobv, whose amount depends on the day: it is payable until the boleto's last day.
        raise Refused(
            Code.EXPIRES_IN_INVALID,
            message="With a fine, interest, discounts or payable_days_after_due the PIX is payable as long as the "
            "boleto: leave expires_in out.",
            fields={"expires_in": "must be left out with fine, interest, discounts or payable_days_after_due"},
        )
    payer = boleto_payer(
        pagador_of(body.payer), context, production=not call.caller.test, names=ENGLISH_NAMES, phone=body.payer.phone
    )
    charge_id = new_id()
    payer_sealed, payer_document_hash = seal_payer(payer, payer.document, context, charge_id)
    request = BoletoRequest(
        charge_id=charge_id,
        issuer=call.caller.issuer,
        key=call.key,
        fingerprint=call.fingerprint,
        request_id=call.request_id,
        kind=DUAL,
        amount_cents=amount_cents,
        due_on=due_on,
        terms=terms,
        payer_sealed=payer_sealed,
        payer_document_hash=payer_document_hash,
        external_id=body.external_id,
        description=body.description,
        integrador_code=body.integrador_code,
        scenario=scenario_of(call),
        send_email=body.send_email is True,
        metadata=body.metadata,
        pix_lifetime_s=body.expires_in,
    )
    account_id = own_account(body.account_id)
    warnings = body_warnings(call, CreateDual)
    return await issue_boleto(context, call, request, account_id, due_field="due_date", warnings=warnings)


ROUTES = routes_of(
    "Charges",
    Route(
        method="POST",
        path="/v1/charges/dual",
        name="createDualCharge",
        summary="Issue a charge to be paid by boleto or by PIX: the first payment closes the other way",
        handle=create,
        scopes=("charges:create",),
        key=True,
        body=CreateDual,
        headers=(SANDBOX_BANK,),
        answers={201: ChargeProjection, 200: ChargeProjection},
        errors=(
            Code.AMOUNT_INVALID,
            Code.INVALID_DUE_DATE,
            Code.EXPIRES_IN_INVALID,
            Code.INTEGRADOR_CODE_INVALID,
            Code.IDEMPOTENCY_KEY_REUSED,
            Code.IDEMPOTENCY_IN_PROGRESS,
            Code.KYC_REQUIRED,
            Code.ACCOUNT_MISMATCH,
            Code.PIX_AVULSO_SUSPENDED,
            Code.MERCHANT_ADDRESS_REQUIRED,
            Code.BANK_UNAVAILABLE,
        ),
    ),
)
