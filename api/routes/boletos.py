"""POST /v1/charges/boleto and PATCH /v1/charges/due-date."""

from datetime import date
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from api.answers import Answer
from api.body.fields import (
    BoletoAmount,
    Description,
    DueDay,
    ExternalId,
    IntegradorCode,
    Metadata,
    OwnAccount,
    Reference,
    boleto_cents,
    choice,
    due_day,
    own_account,
)
from api.body.payers import COMPANY, Pagador, boleto_payer, seal_payer
from api.body.reading import convert_body
from api.body.terms import DiscountsField, FineField, InterestField, PayableDays, payment_terms
from api.charge_answers import (
    body_warnings,
    charge_answer,
    check_one_reference,
    issue_boleto,
    parse_charge_id,
    with_reference,
)
from api.context import ApiContext
from api.gate import SANDBOX_BANK, scenario_of
from api.route import Call, Route, routes_of
from commands.bank_orders.kinds import Redate
from commands.charges.create_boleto import BoletoRequest
from domain.boleto.codes import LAST_DUE
from domain.boleto.terms import cuts_discount
from domain.charge import DUAL, Status
from domain.errors import Code, Refused
from domain.instants import day_of
from domain.money import reais
from readmodels.charges.charge import ChargeProjection
from runtime.ids import new_id

_SUSPICIOUS_CENTS: Final = 100_000
KINDS: Final = ("boleto", "boleto_hibrido", DUAL)


class CreateBoleto(Struct, frozen=True, kw_only=True):
    """The boleto to issue (spec). `valorCents` is in reais, despite its name."""

    tipo: Annotated[str, choice(KINDS)]
    valorCents: Annotated[
        BoletoAmount,
        Meta(description="Amount in reais (not in cents, despite the name), as a decimal string greater than 0."),
    ]
    dataVencimento: Annotated[
        DueDay, Meta(description=f"Due date: after today in São Paulo, {LAST_DUE} at the latest.")
    ]
    pagador: Pagador
    descricao: Annotated[Description | None, Meta(description="Your own description, printed on the boleto.")] = None
    external_id: ExternalId = None
    integrador_code: IntegradorCode = None
    account_id: OwnAccount = None
    send_email: bool | None = None
    metadata: Metadata | None = None
    fine: FineField = None
    interest: InterestField = None
    discounts: DiscountsField = None
    payable_days_after_due: PayableDays = None


class ChangeDueDate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The charge, by exactly one of `charge_id` and `external_id`, and its new due date."""

    due_date: Annotated[
        DueDay, Meta(description=f"New due date: today in São Paulo or later, {LAST_DUE} at the latest.")
    ]
    charge_id: str | None = None
    external_id: Reference | None = None


class _NewDueDate(Struct, frozen=True):
    """The due date alone: its faults are refused before those of the identifiers."""

    due_date: DueDay


async def create(context: ApiContext, call: Call) -> Answer:
    body = convert_body(call.body, CreateBoleto)
    context.spend_test_charge(call.caller)
    amount_cents, due_on = boleto_cents(body.valorCents), due_day(body.dataVencimento)
    terms = payment_terms(
        body,
        amount_cents=amount_cents,
        due=due_on,
        company=body.pagador.tipoPessoa == COMPANY,
    )
    payer = boleto_payer(body.pagador, context, production=not call.caller.test)
    charge_id = new_id()
    payer_sealed, payer_document_hash = seal_payer(payer, payer.document, context, charge_id)
    request = BoletoRequest(
        charge_id=charge_id,
        issuer=call.caller.issuer,
        key=call.key,
        fingerprint=call.fingerprint,
        request_id=call.request_id,
        kind=body.tipo,
        amount_cents=amount_cents,
        due_on=due_on,
        terms=terms,
        payer_sealed=payer_sealed,
        payer_document_hash=payer_document_hash,
        external_id=body.external_id,
        description=body.descricao,
        integrador_code=body.integrador_code,
        scenario=scenario_of(call),
        send_email=body.send_email is True,
        metadata=body.metadata,
    )
    return await issue_boleto(
        context,
        call,
        request,
        own_account(body.account_id),
        due_field="dataVencimento",
        warnings=(*_amount_warnings(body.valorCents, call), *body_warnings(call, CreateBoleto)),
    )


def _amount_warnings(amount: str, call: Call) -> tuple[str, ...]:
    """In the sandbox, a warning about a large whole amount: the field's name says cents, but "15000" is fifteen
    thousand reais. The merchant learns it before a boleto of that amount reaches a payer."""
    if not call.caller.test or "." in amount or boleto_cents(amount) < _SUSPICIOUS_CENTS:
        return ()
    return (
        f'valorCents is decimal reais: "{amount}" is R$ {reais(boleto_cents(amount))}. Write "{amount}.00" for it.',
    )


async def change_due_date(context: ApiContext, call: Call) -> Answer:
    """Answers 200 with the charge once the bank has confirmed its new due date."""
    due_on = due_day(convert_body(call.body, _NewDueDate).due_date)
    check_one_reference(call.body.get("charge_id"), call.body.get("external_id"))
    body = convert_body(call.body, ChangeDueDate)
    if due_on < day_of(call.now):
        raise Refused(
            Code.INVALID_DUE_DATE,
            message="This due date has passed: a boleto can be changed to today in São Paulo or later.",
            fields={"due_date": "has passed"},
        )
    scenario = scenario_of(call)

    async def redate(charge_id: UUID) -> Answer:
        return await _redate(context, call, charge_id, due_on, scenario)

    if body.charge_id is not None:
        return await redate(parse_charge_id(body.charge_id.lower()))
    return await with_reference(context, call, body.external_id or "", redate, boletos_only=True)


async def _redate(context: ApiContext, call: Call, charge_id: UUID, due_on: date, scenario: str | None) -> Answer:
    doc = await context.charges.find(charge_id, call.caller.owner)
    if doc.boleto is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
    if cuts_discount(doc.terms, due_on):
        raise Refused(
            Code.INVALID_DUE_DATE,
            message="Discounts keep their days: the new due date must not be before the last day of one.",
            fields={"due_date": "must not be before the last day of a discount"},
        )
    # If a pending charge already has this due date, as after a retry, the bank has nothing to do.
    if doc.status != Status.PENDING or doc.due_date != due_on.isoformat():
        order = Redate(
            due_date=due_on.isoformat(), actor=call.caller.client_id, request_id=call.request_id, scenario=scenario
        )
        await context.boletos.change(charge_id, call.caller, order)
    return await charge_answer(context, call, charge_id)


ROUTES = routes_of(
    "Charges",
    Route(
        method="POST",
        path="/v1/charges/boleto",
        name="createBoletoCharge",
        summary="Issue a boleto: plain, with an embedded PIX QR Code, or with a PIX charge beside it",
        handle=create,
        scopes=("charges:create",),
        key=True,
        body=CreateBoleto,
        headers=(SANDBOX_BANK,),
        answers={201: ChargeProjection, 200: ChargeProjection},
        errors=(
            Code.AMOUNT_INVALID,
            Code.INVALID_DUE_DATE,
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
    Route(
        method="PATCH",
        path="/v1/charges/due-date",
        name="changeDueDate",
        summary="Change the due date of a pending boleto",
        handle=change_due_date,
        scopes=("charges:create",),
        body=ChangeDueDate,
        headers=(SANDBOX_BANK,),
        answers={200: ChargeProjection},
        errors=(
            Code.INVALID_DUE_DATE,
            Code.CANCEL_REFERENCE_REQUIRED,
            Code.CANCEL_REFERENCE_AMBIGUOUS,
            Code.CHARGE_NOT_FOUND,
            Code.CHARGE_NOT_PENDING,
            Code.BANK_UNAVAILABLE,
        ),
    ),
)
