"""The form of a new charge: PIX, or a boleto with or without PIX, in the mode of the section.

The charge is composed, stored and registered as by the API. A form that could not be accepted is shown again as it was
filled in; a form that is sent again leads to the charge that it created.
"""

import asyncio
import json
from collections.abc import Mapping
from datetime import date, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

import msgspec
from litestar.exceptions import NotFoundException
from litestar.response import Response
from msgspec import Struct

from banks.boletos import BoletoPayer
from commands.bank_orders.boleto_issuer import DEADLINE_S
from commands.bank_orders.boleto_orders import find_terms
from commands.charges.create_boleto import BoletoRequest, order_boletos
from commands.charges.create_pix import Creation, compose_pix, create_pix
from commands.charges.issuer import Issuer, find_issuer
from commands.merchants.pix_suspension import pix_suspended
from commands.people.audit import AlreadySent
from domain.boleto.terms import PaymentTerms
from domain.charge import DESCRIPTION_MAX, DUAL, EXTERNAL_ID_MAX
from domain.documents import well_formed
from domain.errors import Code, Refused
from domain.identifiers import parse_id
from domain.instants import day_of
from domain.merchants.address import is_complete
from domain.money import BOLETO_CENTS_MAX, PIX_CENTS_MAX, reais
from domain.payer import NAME_MAX, NUMBER_MAX, PHONE_MAX, STATES
from readmodels.dashboard.overview import Made, find_created_by_key
from runtime.coordination.lanes import BOLETO_ORDERS, PIX_ORDERS
from runtime.ids import new_id
from runtime.postgres import session
from runtime.seal import CHARGE_PAYER
from web.head import parameter_in
from web.painel.charges import prefill, second_copy
from web.painel.charges.boleto_terms import DEFAULTS, FIELDS, form_values, read_terms
from web.painel.charges.payer_choice import PayerSearch, read_payer_search
from web.painel.fields import Filled
from web.painel.labels import refusal
from web.painel.page_request import PageRequest

PIX: Final = "pix"
BOLETOS: Final = {
    "boleto_hibrido": "Boleto com Pix",
    DUAL: "Boleto e Pix: o que for pago primeiro encerra o outro",
    "boleto": "Boleto só com a linha digitável",
}
LIFETIMES: Final = {
    "3600": "1 hora", "86400": "24 horas", "259200": "3 dias", "604800": "7 dias", "2592000": "30 dias",
}  # fmt: skip
CNPJ_SIGNS: Final = 14
_FORMS: Final = ("pix", "boleto")
SWITCH: Final = "trocar"
"""The buttons that switch between the form's PIX and boleto shapes and keep what was typed."""
ADDRESS: Final = ("zip_code", "street", "number", "city", "state")
# Fields of the other shape of the form, which a shape carries as hidden fields.
_CARRIED_FIELDS: Final = {
    "pix": ("kind", "due_date", "integrador_code", *ADDRESS, *FIELDS, *DEFAULTS),
    "boleto": ("lifetime",),
}  # fmt: skip
_DAYS_TO_PAY = 7
# Refusals by the bank, or for the state of the account or the service: shown above the form, which can be sent again.
_FORM_REFUSALS: Final = frozenset({
    Code.BANK_UNAVAILABLE, Code.PIX_AVULSO_SUSPENDED, Code.KYC_REQUIRED, Code.MERCHANT_ADDRESS_REQUIRED,
    Code.SERVICE_UNAVAILABLE,
})  # fmt: skip
_CHANGED_FORM_FAULT: Final = (
    "Este formulário já foi enviado e mudou depois disso. O que ele pedia antes está feito; "
    "o que está abaixo ainda não. Confira e envie de novo."
)


async def show(request: PageRequest) -> Response[Any]:
    form = parameter_in(request.http.scope, "forma") or ""
    due_on = _today(request) + timedelta(days=_DAYS_TO_PAY)
    shown = {"kind": "boleto_hibrido", "lifetime": "86400", "due_date": due_on.isoformat(), **DEFAULTS}
    source_id = parameter_in(request.http.scope, prefill.FROM)
    if source_id is not None:
        charge_id = parse_id(source_id)
        if charge_id is None:
            raise NotFoundException
        doc, fields = await prefill.fields_from_charge(request, charge_id)
        if fields.get("lifetime", "") not in LIFETIMES:
            fields.pop("lifetime", None)
        shown |= {**fields, prefill.FROM: doc.charge_id}
        if await second_copy.has_open_request(request, charge_id):
            shown |= prefill.reissue_fields(doc, due_on)
        form = form or ("pix" if doc.boleto is None else "boleto")
    return await _form_page(request, form if form in _FORMS else "pix", Filled(shown=shown))


async def create(request: PageRequest) -> Response[Any]:
    form = request.field("forma")
    filled = Filled(request)
    if form not in _FORMS:
        filled.wrong("form", "Escolha Pix ou boleto.")
        return await _form_page(request, PIX, filled)
    if (other_form := request.field(SWITCH)) in _FORMS:
        return await _form_page(request, other_form, filled)
    await prefill.unmask_known_document(request, filled)
    if (search := await read_payer_search(request, filled)) is not None:
        return await _form_page(request, form, search.filled, search=search)
    try:
        charge_id = await (
            create_pix_charge(request, filled) if form == "pix" else create_boleto_charge(request, filled)
        )
    except AlreadySent:
        charge_id = await charge_made_by_form(request, filled)
    except Refused as refused:
        if refused.code not in _FORM_REFUSALS:
            raise
        filled.wrong("form", refusal(refused.code))
        return await _form_page(request, form, filled, status=refused.code.status)
    if charge_id is None:
        return await _form_page(request, form, filled)
    answered = filled.has(prefill.SECOND_COPY) and await second_copy.answer(request, charge_id)
    return request.go(request.here(f"/cobrancas/{charge_id}"), done="segunda-via" if answered else "criada")


def form_fingerprint(request: PageRequest) -> bytes:
    """Returns the fingerprint of what a form asks for, which tells a changed form from one that is sent again. The
    fingerprint is keyed, because it outlives the payer's data that it is computed from."""
    fields = json.dumps(sorted(request.given(but={"csrf", "once"})))
    return sha256(request.seal.blind(fields).encode()).digest()


async def charge_made_by_form(request: PageRequest, filled: Filled) -> UUID | None:
    """Returns what this form created when it was sent before. None, with a fault in `filled`, when it asked for
    something else then: the browser's back button shows a page with the same form id. AlreadySent when the form
    created nothing, or what it created is not known."""
    earlier = await _earlier_creation(request)
    if earlier is None:
        raise AlreadySent
    if earlier.fingerprint == form_fingerprint(request):
        return earlier.resource_id
    filled.wrong("form", _CHANGED_FORM_FAULT)
    return None


async def charge_made_by_key(request: PageRequest) -> UUID | None:
    """Returns the id of what the request's key has created; None when it has created nothing."""
    earlier = await _earlier_creation(request)
    return None if earlier is None else earlier.resource_id


async def _earlier_creation(request: PageRequest) -> Made | None:
    async with session(request.pool) as conn:
        return await find_created_by_key(
            conn, account_id=request.session.account_id, test=request.test, key=request.key
        )


async def _issuer(request: PageRequest) -> Issuer:
    async with session(request.pool) as conn:
        return await find_issuer(conn, request.owner, actor=request.actor)


def check_approved(request: PageRequest) -> None:
    """Refused(KYC_REQUIRED): production is for accounts whose registration was approved (contract section 14)."""
    if not request.test and request.session.kyc != "approved":
        raise Refused(Code.KYC_REQUIRED)


async def check_boletos(
    request: PageRequest, filled: Filled, integrador_code: str | None, *, kind: str = "boleto"
) -> None:
    """Checks that this account may issue boletos of this kind for this partner. Refused(MERCHANT_ADDRESS_REQUIRED)
    without a complete address; Refused(PIX_AVULSO_SUSPENDED) for a dual charge while PIX avulso is suspended."""
    async with session(request.pool) as conn:
        if kind == DUAL and not request.test and await pix_suspended(conn):
            raise Refused(Code.PIX_AVULSO_SUSPENDED)
        terms = await find_terms(conn, account_id=request.session.account_id, integrador_code=integrador_code)
    if terms is None or not is_complete(terms.address):
        raise Refused(Code.MERCHANT_ADDRESS_REQUIRED)
    if integrador_code is not None and not terms.integrator_active:
        filled.wrong("integrador_code", "O código não existe ou não está ativo.")


class PixFields(Struct, frozen=True):
    """The values of the form for a PIX charge; faults are in `filled`."""

    amount_cents: int | None
    lifetime: str
    payer: Mapping[str, str]
    external_id: str | None
    description: str | None


class BoletoFields(Struct, frozen=True):
    """The values of the form for a boleto; faults are in `filled`."""

    kind: str
    amount_cents: int | None
    due_on: date | None
    terms: PaymentTerms | None
    payer: BoletoPayer | None
    external_id: str | None
    description: str | None
    integrador_code: str | None


def read_pix(request: PageRequest, filled: Filled) -> PixFields:
    amount_cents = filled.cents("amount", PIX_CENTS_MAX)
    lifetime = filled.choice("lifetime", LIFETIMES)
    payer = pix_payer(request, filled)
    return PixFields(amount_cents, lifetime, payer, *_reference_and_description(filled))


def read_boleto(request: PageRequest, filled: Filled) -> BoletoFields:
    kind = filled.choice("kind", BOLETOS)
    amount_cents = filled.cents("amount", BOLETO_CENTS_MAX)
    due_on = filled.day("due_date", first=_today(request) + timedelta(days=1))
    payer = boleto_payer(request, filled)
    company = payer is not None and len(payer.document) == CNPJ_SIGNS
    terms = read_terms(filled, amount_cents=amount_cents, due_on=due_on, today=_today(request), company=company)
    external_id, description = _reference_and_description(filled)
    integrador_code = (filled.text("integrador_code", 11) or "").upper() or None
    return BoletoFields(kind, amount_cents, due_on, terms, payer, external_id, description, integrador_code)


async def create_pix_charge(request: PageRequest, filled: Filled) -> UUID | None:
    """Creates the charge and returns its id; None when the form has faults."""
    fields = read_pix(request, filled)
    if filled.faults or fields.amount_cents is None:
        return None
    check_approved(request)
    amount_cents, payer = fields.amount_cents, fields.payer
    document = payer.get("document")
    charge_id = new_id()
    creation = Creation(
        issuer=await _issuer(request),
        key=request.key,
        fingerprint=form_fingerprint(request),
        charge_id=charge_id,
        request_id=request.request_id,
        now=request.now,
        amount_cents=amount_cents,
        lifetime_s=int(fields.lifetime),
        external_id=fields.external_id,
        description=fields.description,
        payer_sealed=request.seal.seal(msgspec.json.encode(payer), CHARGE_PAYER, charge_id) if payer else None,
        payer_document_hash=request.seal.blind(document) if document else None,
        scenario=None,
        send_email=filled.has("send_email"),
    )
    reserve = request.context.reserve
    location = await reserve.take(request.mode, creation.issuer.account_id)
    try:
        async with request.change(
            "charge.created",
            subject=str(creation.charge_id),
            wakes=[] if request.test else [PIX_ORDERS[request.mode]],
            method=PIX,
            amount=reais(amount_cents),
        ) as conn:
            if not await create_pix(conn, [compose_pix(creation, location)]):
                # The audit row was new, so the key is too. What is left: PIX is suspended, or the account was blocked.
                if request.test:
                    raise Refused(Code.SERVICE_UNAVAILABLE)
                raise Refused(Code.PIX_AVULSO_SUSPENDED if await pix_suspended(conn) else Code.KYC_REQUIRED)
    except (AlreadySent, Refused):
        reserve.give_back(request.mode, [location])
        raise
    return creation.charge_id


async def create_boleto_charge(request: PageRequest, filled: Filled) -> UUID | None:
    """Creates the charge and returns its id once the bank has registered the boleto; None when the form has faults."""
    fields = read_boleto(request, filled)
    if not filled.faults:
        check_approved(request)
        await check_boletos(request, filled, fields.integrador_code, kind=fields.kind)
    payer = fields.payer
    if filled.faults or fields.amount_cents is None or fields.due_on is None or payer is None:
        return None
    charge_id = new_id()
    boleto = BoletoRequest(
        charge_id=charge_id,
        issuer=await _issuer(request),
        key=request.key,
        fingerprint=form_fingerprint(request),
        request_id=request.request_id,
        kind=fields.kind,
        amount_cents=fields.amount_cents,
        due_on=fields.due_on,
        terms=fields.terms,
        payer_sealed=request.seal.seal(msgspec.json.encode(payer), CHARGE_PAYER, charge_id),
        payer_document_hash=request.seal.blind(payer.document),
        external_id=fields.external_id,
        description=fields.description,
        integrador_code=fields.integrador_code,
        scenario=None,
        send_email=filled.has("send_email"),
    )
    return await _register_boleto(request, boleto)


async def _register_boleto(request: PageRequest, boleto: BoletoRequest) -> UUID:
    issuer = request.context.boletos
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    order = await issuer.compose(boleto, until=deadline)
    async with request.change(
        "boleto.ordered",
        subject=str(order.charge_id),
        wakes=[BOLETO_ORDERS[request.mode]],
        method=boleto.kind,
        amount=reais(boleto.amount_cents),
    ) as conn:
        if not await order_boletos(conn, [order]):
            raise AlreadySent
    charge_id = await issuer.registered(boleto, order, until=deadline)
    if charge_id is None:
        raise AlreadySent
    return charge_id


def pix_payer(request: PageRequest, filled: Filled) -> Mapping[str, str]:
    """Returns the payer's fields, none of which is required."""
    payer = {
        "name": filled.text("payer_name", NAME_MAX),
        "document": _read_document(request, filled, required=False),
        "email": filled.email("payer_email", required=filled.has("send_email")),
        "phone": filled.text("payer_phone", PHONE_MAX),
    }
    return {name: value for name, value in payer.items() if value is not None}


def boleto_payer(request: PageRequest, filled: Filled) -> BoletoPayer | None:
    """Returns the payer as the bank will register them; None when a field is missing or wrong."""
    name = filled.text("payer_name", NAME_MAX, required=True)
    document = _read_document(request, filled, required=True)
    zip_code = filled.digits("zip_code", 8, "O CEP tem 8 dígitos.")
    street = filled.text("street", NAME_MAX, required=True)
    number = filled.text("number", NUMBER_MAX)
    city = filled.text("city", NAME_MAX, required=True)
    state = filled.choice("state", STATES)
    email = filled.email("payer_email", required=filled.has("send_email"))
    phone = filled.text("payer_phone", PHONE_MAX)
    if name is None or document is None or zip_code is None or street is None or city is None or filled.faults:
        return None
    return BoletoPayer(
        name=name,
        document=document,
        street=street,
        number=number or "",
        city=city,
        state=state,
        zip_code=zip_code,
        email=email,
        phone=phone,
    )


def _read_document(request: PageRequest, filled: Filled, *, required: bool) -> str | None:
    document = filled.document(
        "payer_document", letters=request.settings.cnpj_with_letters, production=not request.test, required=required
    )
    return document if document is not None and well_formed(document, letters=True) else None


def _reference_and_description(filled: Filled) -> tuple[str | None, str | None]:
    return filled.text("external_id", EXTERNAL_ID_MAX), filled.text("description", DESCRIPTION_MAX)


def _today(request: PageRequest) -> date:
    return day_of(request.account_now)


async def _form_page(
    request: PageRequest, form: str, filled: Filled, *, status: int = 400, search: PayerSearch | None = None
) -> Response[Any]:
    source_id = parse_id(filled.value(prefill.FROM))
    values = {
        "form": form,
        "carried": _CARRIED_FIELDS[form],
        "filled": filled,
        "base": request.here("/cobrancas/nova"),
        "before": filled.value(prefill.FROM),
        "second_copy": source_id is not None and await second_copy.has_open_request(request, source_id),
        "payers_kept": request.payers.whole,
        "search": search,
        "boletos": BOLETOS,
        "lifetimes": LIFETIMES,
        **form_values(filled, FIELDS),
        "today": _today(request).isoformat(),
        "tomorrow": (_today(request) + timedelta(days=1)).isoformat(),
        "waiting": not request.test and request.session.kyc != "approved",
    }
    return request.show("new_charge.html", values, status=status if filled.faults else 200)
