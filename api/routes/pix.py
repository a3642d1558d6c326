"""POST /v1/charges/pix."""

import re
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from api.answers import Answer, encode
from api.bodies import shaped, text
from api.context import ApiContext
from api.idempotency.replay import check_same, count_first, replay
from api.idempotency.used_keys import UsedKey
from api.query import path_id
from api.route import Call, Parameter, Route
from banks.scenario import SCENARIOS
from commands.charges.create_pix import Creation
from domain.documents import check_digits_hold, well_formed
from domain.errors import Code, Refused
from domain.money import PIX_CENTS_MAX, parse_amount
from readmodels.charges.charge import ChargeProjection, present
from readmodels.charges.charge_list import METHODS
from runtime.ids import new_id
from runtime.metrics import charges_created_total

LIFETIME_DEFAULT_S = 86_400
LIFETIME_LEAST_S = 60
LIFETIME_MOST_S = 2_592_000
DESCRIPTION_MAX = 500


class PixPayer(Struct, frozen=True, omit_defaults=True):
    """Who is to pay. `document` is 11 (CPF) or 14 (CNPJ) digits."""

    name: str | None = None
    document: str | None = None
    email: str | None = None
    phone: str | None = None


class CreatePix(Struct, frozen=True, kw_only=True):
    """The body (spec). `amount` is decimal reais as a string; `expires_in` seconds. `send_email`: the payer, when his
    address is given, is sent the charge, reminders and a receipt (production only)."""

    account_id: str
    amount: str
    external_id: str | None = None
    description: str | None = None
    expires_in: int | None = None
    payer: PixPayer | None = None
    send_email: bool | None = None


EMAIL = r"[^@\x00-\x20\x7f]+@[^@\x00-\x20\x7f]+"
EMAIL_MAX = 254
_EMAIL = re.compile(EMAIL)
_encode_payer = msgspec.json.Encoder().encode


async def create(context: ApiContext, call: Call) -> Answer:
    """201 with the charge; 200 when the key made it before."""
    amount_cents = _amount(call.body)
    lifetime_s = _lifetime(call.body)
    asked = shaped(call.body, CreatePix)
    account_id = path_id(asked.account_id)
    if account_id is None:
        raise Refused(Code.VALIDATION_ERROR, fields={"account_id": "must be a UUID"})
    external_id = text("external_id", asked.external_id, 255)
    description = text("description", asked.description, DESCRIPTION_MAX)
    payer = pix_payer(asked.payer, context, production=not call.caller.test)
    scenario = scenario_of(call)
    await _allowed(context, call, account_id)
    creation = Creation(
        issuer=call.caller.issuer,
        key=call.key,
        fingerprint=call.fingerprint,
        charge_id=new_id(),
        request_id=call.request_id,
        now=call.at,
        amount_cents=amount_cents,
        lifetime_s=lifetime_s,
        external_id=external_id,
        description=description,
        payer_sealed=context.seal.seal(_encode_payer(payer)) if payer is not None else None,
        payer_document_hash=context.seal.blind(payer.document) if payer is not None and payer.document else None,
        scenario=scenario,
        send_email=asked.send_email is True,
    )
    made = await context.guard.run(call.key_name, partial(context.pix.create, creation))
    if isinstance(made, UsedKey):
        return await replay_charge(context, call, made)
    count_created("pix", test=call.caller.test)
    return Answer(encode(present(made, context.seal, now=call.now)), 201)


async def replay_charge(context: ApiContext, call: Call, used: UsedKey) -> Answer:
    async def find(charge_id: UUID) -> ChargeProjection:
        return present(await context.charges.find(charge_id, call.caller.owner), context.seal, now=call.now)

    return await replay(context, call, used, find)


def count_created(payment_method: str, *, test: bool) -> None:
    _created[payment_method, test].inc()
    count_first()


# Looked up once: finding a counter by its labels costs more than counting.
_created = {
    (method, test): charges_created_total.labels(method, "test" if test else "production")
    for method in METHODS
    for test in (True, False)
}


async def approved(context: ApiContext, call: Call) -> bool:
    """Whether the account may issue charges (contract section 14): always in sandbox."""
    if call.caller.test or call.caller.approved:
        return True
    call.caller = await context.callers.again(call.caller)
    return call.caller.approved


async def _allowed(context: ApiContext, call: Call, account_id: UUID) -> None:
    """What depends on time or state comes after the key: a replay is answered whatever has changed since."""
    refused: Code | None = None
    if not await approved(context, call):
        refused = Code.KYC_REQUIRED
    if refused is None and account_id != call.caller.account_id:
        suspended = not call.caller.test and await context.pix_suspended()
        refused = Code.PIX_AVULSO_SUSPENDED if suspended else Code.CHARGE_NOT_FOUND
    if refused is None:
        return
    used = await context.keys.find(call.key_name)
    if used is None:
        raise Refused(refused)
    check_same(call, used)


def _amount(body: dict[str, Any]) -> int:
    try:
        return parse_amount(body.get("amount"), most_cents=PIX_CENTS_MAX)
    except ValueError:
        raise Refused(
            Code.AMOUNT_INVALID, fields={"amount": 'must be a string such as "10.50", greater than 0'}
        ) from None


def _lifetime(body: dict[str, Any]) -> int:
    given = body.get("expires_in")
    if given is None:
        return LIFETIME_DEFAULT_S
    if type(given) is not int or not LIFETIME_LEAST_S <= given <= LIFETIME_MOST_S:
        raise Refused(Code.EXPIRES_IN_INVALID, fields={"expires_in": "must be a whole number from 60 to 2592000"})
    return given


def pix_payer(payer: PixPayer | None, context: ApiContext, *, production: bool) -> PixPayer | None:
    if payer is None:
        return None
    text("payer.name", payer.name, 200)
    text("payer.phone", payer.phone, 32)
    email = text("payer.email", payer.email, EMAIL_MAX)
    if email is not None and not _EMAIL.fullmatch(email):
        raise Refused(Code.VALIDATION_ERROR, fields={"payer.email": "must be an e-mail address"})
    if payer.document is not None:
        if not well_formed(payer.document, letters=context.settings.cnpj_with_letters):
            raise Refused(Code.VALIDATION_ERROR, fields={"payer.document": "must be 11 or 14 digits"})
        if production and not check_digits_hold(payer.document):
            raise Refused(Code.VALIDATION_ERROR, fields={"payer.document": "has wrong check digits"})
    return payer


def scenario_of(call: Call) -> str | None:
    """X-Sandbox-Bank, for test credentials (contract section 14)."""
    if not call.caller.test:
        return None
    given = call.header(b"x-sandbox-bank")
    if given is None:
        return None
    scenario = given.decode("latin-1")
    if scenario not in SCENARIOS:
        raise Refused(Code.VALIDATION_ERROR, fields={"X-Sandbox-Bank": f"must be one of {', '.join(SCENARIOS)}"})
    return scenario


SANDBOX_BANK = Parameter(
    name="X-Sandbox-Bank",
    schema={"type": "string", "enum": list(SCENARIOS)},
    description="How the simulated bank is to behave; looked at with test credentials only.",
)

ROUTES = (
    Route(
        method="POST",
        path="/v1/charges/pix",
        name="createPixCharge",
        summary="Create a PIX charge",
        tag="Charges",
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
