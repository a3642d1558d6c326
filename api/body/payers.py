"""The payer in each form that a request body may have, in the sealed form that is stored, and as sent to the bank."""

from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from api.body.fields import Email, checked, choice, matching, not_blank, text
from api.context import ApiContext
from banks.boletos import BoletoPayer
from domain.documents import check_digits_hold, well_formed
from domain.errors import Code, Refused
from domain.payer import NAME_MAX, NUMBER_MAX, PHONE_MAX, STATES
from runtime.seal import CHARGE_PAYER

COMPANY: Final = "PESSOA_JURIDICA"
PERSON_TYPES: Final = {"PESSOA_FISICA": 11, COMPANY: 14}
"""Number of characters in the document, by person type."""
ENGLISH_NAMES: Final = {
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
"""The path of each Pagador field in bodies with English names, for the errors that name a field."""


def document_digits(whose: str) -> Meta:
    """The shape of a CPF or CNPJ. check_document does the rest: a setting allows letters, production checks digits."""

    def check(value: str) -> None:
        if not well_formed(value, letters=True):
            raise ValueError

    return checked(
        check,
        "must be 11 or 14 digits",
        pattern="^([0-9]{11}|[0-9]{14})$",
        description=f"CPF or CNPJ{whose}, digits only; in production its check digits must hold.",
    )


AnyDocument = Annotated[str, document_digits("")]
Name = Annotated[str, text(NAME_MAX)]
Line = Annotated[str, not_blank(NAME_MAX)]
HouseNumber = Annotated[str, text(NUMBER_MAX)]
Phone = Annotated[str, text(PHONE_MAX)]
ZipCode = Annotated[str, matching("[0-9]{8}", "must be 8 digits")]
State = Annotated[str, choice(sorted(STATES), "must be one of the 27 states, in 2 capital letters")]
PersonType = Annotated[str, choice(tuple(PERSON_TYPES))]


class PixPayer(Struct, frozen=True, omit_defaults=True):
    """The payer. `document` has 11 (CPF) or 14 (CNPJ) digits."""

    name: Name | None = None
    document: AnyDocument | None = None
    email: Email | None = None
    phone: Phone | None = None


class Pagador(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payer (spec, Payer of a boleto). `documento` and `cep` are digits without punctuation."""

    nome: Line
    documento: Annotated[str, document_digits(", as tipoPessoa says")]
    tipoPessoa: PersonType
    cep: ZipCode
    logradouro: Line
    cidade: Line
    uf: State
    numero: HouseNumber | None = None
    email: Annotated[Email | None, Meta(description="E-mail address of the payer, used when send_email is true.")] = (
        None
    )


class DualAddress(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Address of the payer; banks register no boleto without it. `zip_code` has 8 digits, `state` 2 capital letters."""

    zip_code: ZipCode
    street: Line
    city: Line
    state: State
    number: HouseNumber | None = None


class DualPayer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payer. `person_type` is PESSOA_FISICA (`document` is a CPF) or PESSOA_JURIDICA (a CNPJ)."""

    name: Line
    document: Annotated[str, document_digits(", as person_type says")]
    person_type: PersonType
    address: DualAddress
    email: Email | None = None
    phone: Phone | None = None


def check_document(field: str, document: str, context: ApiContext, *, production: bool) -> None:
    fault = document_fault(document, context, production=production)
    if fault is not None:
        raise Refused(Code.VALIDATION_ERROR, fields={field: fault})


def document_fault(document: str, context: ApiContext, *, production: bool) -> str | None:
    if not well_formed(document, letters=context.settings.cnpj_with_letters):
        return "must be 11 or 14 digits"
    return "has wrong check digits" if production and not check_digits_hold(document) else None


def seal_payer(
    payer: Struct, document: str | None, context: ApiContext, row_id: UUID, *, what: str = CHARGE_PAYER
) -> tuple[bytes, str | None]:
    """Returns the payer sealed for storage and the fingerprint of the document. The seal is bound to the row:
    `row_id` is a charge, or a schedule when `what` says so."""
    return context.seal.seal(_encode(payer), what, row_id), context.seal.blind(document) if document else None


def boleto_payer(
    pagador: Pagador, context: ApiContext, *, production: bool, names: Mapping[str, str] = {}, phone: str | None = None
) -> BoletoPayer:
    """The payer as registered at the bank; Refused(VALIDATION_ERROR) for a document that does not fit the person type.

    `names` maps Pagador's field names to those of the body, where the body uses others.
    """
    field = names.get("documento", "pagador.documento")
    digits = PERSON_TYPES[pagador.tipoPessoa]
    if len(pagador.documento) != digits:
        person_type = names.get("tipoPessoa", "tipoPessoa").rpartition(".")[2]
        raise Refused(Code.VALIDATION_ERROR, fields={field: f"must be {digits} digits, as {person_type} says"})
    check_document(field, pagador.documento, context, production=production)
    return BoletoPayer(
        name=pagador.nome.strip(),
        document=pagador.documento,
        street=pagador.logradouro.strip(),
        number=(pagador.numero or "").strip(),
        city=pagador.cidade.strip(),
        state=pagador.uf,
        zip_code=pagador.cep,
        email=pagador.email,
        phone=phone,
    )


def pagador_of(payer: DualPayer) -> Pagador:
    """Converts a payer with English field names to a Pagador."""
    address = payer.address
    return Pagador(
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


_encode: Any = msgspec.json.Encoder().encode
