"""POST /v1/charges/boleto and PATCH /v1/charges/due-date; and what every body that asks for a boleto has in common."""

import asyncio
import re
from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

from api.answers import Answer, encode
from api.bodies import shaped, text
from api.context import ApiContext
from api.idempotency.guard import WAIT_S
from api.idempotency.used_keys import UsedKey
from api.query import path_id
from api.route import Call, Route
from api.routes.pix import (
    DESCRIPTION_MAX,
    EMAIL,
    EMAIL_MAX,
    SANDBOX_BANK,
    approved,
    count_created,
    replay_charge,
    scenario_of,
)
from banks.boletos import BoletoPayer
from commands.bank_orders.boleto_issuer import BoletoRequest
from commands.bank_orders.boleto_orders import find_terms
from commands.charges.cancel import charge_of_reference
from domain.boleto.codes import LAST_DUE
from domain.charge import DUAL, Status
from domain.documents import check_digits_hold, well_formed
from domain.errors import Code, Refused
from domain.instants import SAO_PAULO, parse_day
from domain.money import BOLETO_CENTS_MAX, parse_amount
from domain.payer import NAME_MAX, NUMBER_MAX, STATES
from readmodels.charges.charge import ChargeProjection, present
from runtime.postgres import session

KINDS: Final = ("boleto", "boleto_hibrido", DUAL)
PEOPLE: Final = {"PESSOA_FISICA": 11, "PESSOA_JURIDICA": 14}
"""Signs of the document by tipoPessoa."""
_INTEGRADOR_CODE = re.compile(r"INTG-[A-Z0-9]{6}")
_ZIP_CODE = re.compile(r"[0-9]{8}")
_EMAIL = re.compile(EMAIL)
_ADDRESS: Final = ("street", "city", "state", "zip_code")
_LOOKS = 3
_read_address = msgspec.json.Decoder(dict[str, Any]).decode


class Pagador(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Who is to pay (spec, Payer of a boleto). `documento` and `cep` are bare digits."""

    nome: str
    documento: str
    tipoPessoa: str
    cep: str
    logradouro: str
    cidade: str
    uf: str
    numero: str | None = None
    email: str | None = None


class CreateBoleto(Struct, frozen=True, kw_only=True):
    """The body (spec). `valorCents` is decimal reais as a string, `dataVencimento` a day after today in Sao Paulo."""

    tipo: str
    valorCents: str
    dataVencimento: str
    pagador: Pagador
    descricao: str | None = None
    external_id: str | None = None
    integrador_code: str | None = None
    account_id: str | None = None
    send_email: bool | None = None


class ChangeDueDate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Exactly one of the two identifiers, and the new due date: today in Sao Paulo or later."""

    due_date: str
    charge_id: str | None = None
    external_id: str | None = None


async def create(context: ApiContext, call: Call) -> Answer:
    """201 with the charge once the bank has registered the boleto; 200 when the key made it before."""
    amount_cents = boleto_amount(call.body, "valorCents")
    due_on = due_day(call.body, "dataVencimento")
    integrador_code = integrador_code_of(call.body)
    asked = shaped(call.body, CreateBoleto)
    if asked.tipo not in KINDS:
        raise Refused(Code.VALIDATION_ERROR, fields={"tipo": f"must be one of {', '.join(KINDS)}"})
    account_id = own_account(asked.account_id)
    wanted = BoletoRequest(
        issuer=call.caller.issuer,
        key=call.key,
        fingerprint=call.fingerprint,
        request_id=call.request_id,
        kind=asked.tipo,
        amount_cents=amount_cents,
        due_on=due_on,
        payer=boleto_payer(asked.pagador, context, production=not call.caller.test),
        external_id=text("external_id", asked.external_id, 255),
        description=text("descricao", asked.descricao, DESCRIPTION_MAX),
        integrador_code=integrador_code,
        scenario=scenario_of(call),
        send_email=asked.send_email is True,
    )
    return await issue(context, call, wanted, account_id, due_field="dataVencimento")


async def issue(
    context: ApiContext, call: Call, wanted: BoletoRequest, account_id: UUID | None, *, due_field: str
) -> Answer:
    """What is wanted, made once for its key. `account_id` is as sent, `due_field` what the body calls the due date."""
    if (used := await context.keys.find(call.key_name)) is not None:
        return await replay_charge(context, call, used)
    await _allowed(context, call, wanted, account_id, due_field)
    # The wait for an equal request counts as waiting for the bank.
    deadline = asyncio.get_running_loop().time() + WAIT_S
    made = await context.guard.run(call.key_name, partial(context.boletos.create, wanted, deadline))
    if isinstance(made, UsedKey):
        return await replay_charge(context, call, made)
    count_created(made.payment_method, test=call.caller.test)
    return Answer(encode(present(made, context.seal, now=call.now)), 201)


async def change_due_date(context: ApiContext, call: Call) -> Answer:
    """200 with the charge and its new due date, which the bank has confirmed."""
    due_on = due_day(call.body, "due_date")
    if due_on < call.now.astimezone(SAO_PAULO).date():
        raise Refused(Code.INVALID_DUE_DATE, fields={"due_date": "has passed"})
    charge_id, external_id = call.body.get("charge_id"), call.body.get("external_id")
    if (charge_id is None) == (external_id is None):
        raise Refused(Code.CANCEL_REFERENCE_REQUIRED)
    asked = shaped(call.body, ChangeDueDate)
    scenario = scenario_of(call)
    if asked.charge_id is not None:
        found = path_id(asked.charge_id)
        if found is None:
            raise Refused(Code.CHARGE_NOT_FOUND)
        return await _redate(context, call, found, due_on, scenario)
    assert asked.external_id is not None
    text("external_id", asked.external_id, 255)
    await context.charges.expire_overdue(call.caller.owner)
    for look in range(_LOOKS):
        async with session(context.pool) as conn:
            found = await charge_of_reference(
                conn, call.caller.owner, asked.external_id, now=call.now, boletos_only=True
            )
        try:
            return await _redate(context, call, found, due_on, scenario)
        except Refused as refused:
            # It was paid, cancelled or expired just now: is there another pending one of this name?
            if refused.code is not Code.CHARGE_NOT_PENDING or look == _LOOKS - 1:
                raise
    raise AssertionError("unreachable")


async def _redate(context: ApiContext, call: Call, charge_id: UUID, due_on: date, scenario: str | None) -> Answer:
    doc = await context.charges.find(charge_id, call.caller.owner)
    if doc.boleto is None:
        raise Refused(Code.CHARGE_NOT_FOUND)
    # Asked again with the date it has, there is nothing for the bank to do.
    if doc.status != Status.PENDING or doc.due_date != due_on.isoformat():
        await context.boletos.redate(charge_id, call.caller, due_on, request_id=call.request_id, scenario=scenario)
        doc = await context.charges.find(charge_id, call.caller.owner)
    return Answer(encode(present(doc, context.seal, now=call.now)))


async def _allowed(
    context: ApiContext, call: Call, wanted: BoletoRequest, account_id: UUID | None, due_field: str
) -> None:
    """What depends on time or state: looked at after the key, so that a replay is answered whatever has changed."""
    if not await approved(context, call):
        raise Refused(Code.KYC_REQUIRED)
    if wanted.kind == DUAL and not call.caller.test and await context.pix_suspended():
        raise Refused(Code.PIX_AVULSO_SUSPENDED)
    if account_id is not None and account_id != call.caller.account_id:
        raise Refused(Code.ACCOUNT_MISMATCH)
    if not call.now.astimezone(SAO_PAULO).date() < wanted.due_on <= LAST_DUE:
        raise Refused(Code.INVALID_DUE_DATE, fields={due_field: f"must be after today, at most {LAST_DUE}"})
    async with session(context.pool) as conn:
        terms = await find_terms(conn, account_id=call.caller.account_id, integrador_code=wanted.integrador_code)
    if terms is None:
        raise Refused(Code.UNAUTHENTICATED)
    if wanted.integrador_code is not None and not terms.integrator_active:
        raise Refused(Code.INTEGRADOR_CODE_INVALID)
    address = _read_address(terms.address) if terms.address is not None else {}
    if not all(isinstance(address.get(part), str) and address[part].strip() for part in _ADDRESS):
        raise Refused(Code.MERCHANT_ADDRESS_REQUIRED)


def boleto_amount(body: dict[str, Any], field: str) -> int:
    """Cents; Refused(AMOUNT_INVALID) for whatever is wrong with the field."""
    try:
        return parse_amount(body.get(field), most_cents=BOLETO_CENTS_MAX)
    except ValueError:
        raise Refused(
            Code.AMOUNT_INVALID,
            fields={field: 'must be a string such as "10.50", greater than 0, at most "99999999.99"'},
        ) from None


def due_day(body: dict[str, Any], field: str) -> date:
    """The day as written, whether or not it can still be: that is for later."""
    given = body.get(field)
    try:
        if not isinstance(given, str):
            raise ValueError
        day = parse_day(given)
        if day > LAST_DUE:  # no barcode carries it
            raise ValueError
    except ValueError:
        raise Refused(
            Code.INVALID_DUE_DATE, fields={field: f"must be an existing day YYYY-MM-DD, at most {LAST_DUE}"}
        ) from None
    return day


def integrador_code_of(body: dict[str, Any]) -> str | None:
    given = body.get("integrador_code")
    if given is None:
        return None
    if not isinstance(given, str) or not _INTEGRADOR_CODE.fullmatch(given):
        raise Refused(Code.INTEGRADOR_CODE_INVALID, fields={"integrador_code": "must be INTG- and 6 of A-Z 0-9"})
    return given


def own_account(given: str | None) -> UUID | None:
    if given is None:
        return None
    account_id = path_id(given)
    if account_id is None:
        raise Refused(Code.VALIDATION_ERROR, fields={"account_id": "must be a UUID"})
    return account_id


def boleto_payer(
    given: Pagador, context: ApiContext, *, production: bool, names: Mapping[str, str] = {}, phone: str | None = None
) -> BoletoPayer:
    """The payer as registered at the bank; Refused(VALIDATION_ERROR) naming every field that is wrong.

    `names` tells how the body calls what is not called as here.
    """
    wrong: dict[str, str] = {}

    def called(field: str) -> str:
        return names.get(field, f"pagador.{field}")

    for field, value, most in (
        ("nome", given.nome, NAME_MAX),
        ("logradouro", given.logradouro, NAME_MAX),
        ("cidade", given.cidade, NAME_MAX),
        ("numero", given.numero, NUMBER_MAX),
    ):
        text(called(field), value, most)
        if value is not None and field != "numero" and not value.strip():
            wrong[called(field)] = "must not be empty"
    if given.email is not None and (len(given.email) > EMAIL_MAX or not _EMAIL.fullmatch(given.email)):
        wrong[called("email")] = "must be an e-mail address"
    if given.uf not in STATES:
        wrong[called("uf")] = "must be one of the 27 states, in 2 capital letters"
    if not _ZIP_CODE.fullmatch(given.cep):
        wrong[called("cep")] = "must be 8 digits"
    signs = PEOPLE.get(given.tipoPessoa)
    if signs is None:
        wrong[called("tipoPessoa")] = f"must be one of {', '.join(PEOPLE)}"
    elif len(given.documento) != signs or not well_formed(given.documento, letters=context.settings.cnpj_with_letters):
        wrong[called("documento")] = f"must be {signs} digits, as {called('tipoPessoa').rpartition('.')[2]} says"
    elif production and not check_digits_hold(given.documento):
        wrong[called("documento")] = "has wrong check digits"
    if wrong:
        raise Refused(Code.VALIDATION_ERROR, fields=wrong)
    return BoletoPayer(
        name=given.nome.strip(),
        document=given.documento,
        street=given.logradouro.strip(),
        number=(given.numero or "").strip(),
        city=given.cidade.strip(),
        state=given.uf,
        zip_code=given.cep,
        email=given.email,
        phone=phone,
    )


ROUTES = (
    Route(
        method="POST",
        path="/v1/charges/boleto",
        name="createBoletoCharge",
        summary="Issue a boleto: plain, with an embedded PIX QR Code, or with a PIX charge beside it",
        tag="Charges",
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
        tag="Charges",
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
