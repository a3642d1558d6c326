"""POST /v1/charges/dual: one charge with two legs, a boleto and a PIX of its own; what is paid first closes the other.

`tipo` boleto_pix on POST /v1/charges/boleto makes the same of the boleto's body (contract section 12).
"""

from typing import Any, Final

from msgspec import Struct

from api.answers import Answer
from api.bodies import shaped, text
from api.context import ApiContext
from api.route import Call, Route
from api.routes.boletos import Pagador, boleto_amount, boleto_payer, due_day, integrador_code_of, issue, own_account
from api.routes.pix import DESCRIPTION_MAX, LIFETIME_LEAST_S, LIFETIME_MOST_S, SANDBOX_BANK, scenario_of
from commands.bank_orders.boleto_issuer import BoletoRequest
from domain.charge import DUAL
from domain.errors import Code, Refused
from readmodels.charges.charge import ChargeProjection

PHONE_MAX: Final = 32
_NAMES: Final = {
    "nome": "payer.name",
    "documento": "payer.document",
    "tipoPessoa": "payer.person_type",
    "email": "payer.email",
    "cep": "payer.address.zip_code",
    "logradouro": "payer.address.street",
    "numero": "payer.address.number",
    "cidade": "payer.address.city",
    "uf": "payer.address.state",
}
"""What this body calls the fields of a boleto's payer."""


class DualAddress(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where the payer lives: banks register no boleto without it. `zip_code` is 8 digits, `state` 2 capital letters."""

    zip_code: str
    street: str
    city: str
    state: str
    number: str | None = None


class DualPayer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Who is to pay. `person_type` is PESSOA_FISICA (`document` is a CPF) or PESSOA_JURIDICA (a CNPJ)."""

    name: str
    document: str
    person_type: str
    address: DualAddress
    email: str | None = None
    phone: str | None = None


class CreateDual(Struct, frozen=True, kw_only=True):
    """The body. `amount` is decimal reais as a string, `due_date` a day after today in Sao Paulo; `expires_in` seconds
    are the PIX leg's own time, which is the boleto's unless given. `send_email`: the payer is told, in production."""

    amount: str
    due_date: str
    payer: DualPayer
    account_id: str | None = None
    external_id: str | None = None
    description: str | None = None
    expires_in: int | None = None
    integrador_code: str | None = None
    send_email: bool | None = None


async def create(context: ApiContext, call: Call) -> Answer:
    """201 with the charge once the bank has registered its boleto (the cob follows at once); 200 when the key made it
    before."""
    amount_cents = boleto_amount(call.body, "amount")
    due_on = due_day(call.body, "due_date")
    lifetime_s = _lifetime(call.body)
    integrador_code = integrador_code_of(call.body)
    asked = shaped(call.body, CreateDual)
    account_id = own_account(asked.account_id)
    payer, address = asked.payer, asked.payer.address
    pagador = Pagador(
        nome=payer.name,
        documento=payer.document,
        tipoPessoa=payer.person_type,
        cep=address.zip_code,
        logradouro=address.street,
        numero=address.number,
        cidade=address.city,
        uf=address.state,
        email=payer.email,
    )
    phone = text("payer.phone", payer.phone, PHONE_MAX)
    wanted = BoletoRequest(
        issuer=call.caller.issuer,
        key=call.key,
        fingerprint=call.fingerprint,
        request_id=call.request_id,
        kind=DUAL,
        amount_cents=amount_cents,
        due_on=due_on,
        payer=boleto_payer(pagador, context, production=not call.caller.test, names=_NAMES, phone=phone),
        external_id=text("external_id", asked.external_id, 255),
        description=text("description", asked.description, DESCRIPTION_MAX),
        integrador_code=integrador_code,
        scenario=scenario_of(call),
        send_email=asked.send_email is True,
        pix_lifetime_s=lifetime_s,
    )
    return await issue(context, call, wanted, account_id, due_field="due_date")


def _lifetime(body: dict[str, Any]) -> int | None:
    given = body.get("expires_in")
    if given is None:
        return None
    if type(given) is not int or not LIFETIME_LEAST_S <= given <= LIFETIME_MOST_S:
        fields = {"expires_in": f"must be a whole number from {LIFETIME_LEAST_S} to {LIFETIME_MOST_S}"}
        raise Refused(Code.EXPIRES_IN_INVALID, fields=fields)
    return given


ROUTES = (
    Route(
        method="POST",
        path="/v1/charges/dual",
        name="createDualCharge",
        summary="Issue a charge to be paid by boleto or by PIX: the first payment closes the other way",
        tag="Charges",
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
