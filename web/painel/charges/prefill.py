"""The form of a new charge filled from what was charged before: from one charge, or from a payer's newest ones.

Whoever does not see payers as they are gets nothing of them. A document is masked for everybody: a form that was filled
from a charge shows it masked and carries the charge's id, and what is sent with the masked text means that charge's.
"""

from datetime import date, datetime
from typing import Final
from uuid import UUID

from domain.brazilian import amount
from domain.documents import masked, well_formed
from domain.identifiers import parse_id
from domain.payer import PayerView
from readmodels.charges.charge import ChargeDoc
from readmodels.dashboard.known_payer import KnownPayer, payer_of_charge, payer_with_document
from runtime.postgres import session
from web.painel.charges.boleto_terms import terms_fields
from web.painel.charges.charge_page import charge_of
from web.painel.fields import Filled
from web.painel.page_request import PageRequest

FROM: Final = "de"
"""The charge a form was filled from: in the address of the empty form, and in the form."""
SEARCH: Final = "buscar"
"""The button that looks a payer up."""
SECOND_COPY: Final = "second_copy"
"""The box that has the page of that charge, an expired boleto, lead to the new one."""
_DOCUMENT: Final = "payer_document"
NOT_FOUND: Final = "Nenhuma cobrança com este CPF ou CNPJ ainda: preencha os dados."
FOUND: Final = "Dados da cobrança mais recente deste pagador. Confira antes de criar."


def payer_fields(payer: KnownPayer | None, view: PayerView, document: str | None = None) -> dict[str, str]:
    """The fields of the form's payer, each one: what is left of somebody else would go to the wrong place. Without
    `document` the payer's own is shown, masked. Empty for whoever sees payers masked: a mask is no name to charge."""
    if payer is None or not view.whole:
        return {}
    if document is None and payer.document and well_formed(payer.document, letters=True):
        document = masked(payer.document)
    return {
        "payer_name": payer.name or "",
        _DOCUMENT: document or "",
        "payer_email": payer.email or "",
        "payer_phone": payer.phone or "",
        "zip_code": payer.zip_code or "",
        "street": payer.street or "",
        "number": payer.number or "",
        "city": payer.city or "",
        "state": payer.state or "",
    }


def charge_fields(doc: ChargeDoc) -> dict[str, str]:
    """The form's other fields; due date and reference are each charge's own."""
    fields = {"amount": amount(doc.amount_cents), "description": doc.description or "", "due_date": ""}
    if doc.expires_at is not None and doc.boleto is None:
        lived = datetime.fromisoformat(doc.expires_at) - datetime.fromisoformat(doc.created_at)
        fields["lifetime"] = str(round(lived.total_seconds()))
    elif doc.payment_method == "boleto":
        fields["kind"] = "boleto"
    return fields | terms_fields(doc.terms)


def reissue_fields(doc: ChargeDoc, due_on: date) -> dict[str, str]:
    """Of the answer to a request for a second copy, which is the same debt with another day to pay."""
    return {"external_id": doc.external_id or "", "due_date": due_on.isoformat(), SECOND_COPY: "yes"}


async def from_charge(request: PageRequest, charge_id: UUID) -> tuple[ChargeDoc, dict[str, str]]:
    """The charge and the fields it fills; 404 when it is not this account's and mode's."""
    doc = await charge_of(request, charge_id)
    async with session(request.pool) as conn:
        payer = await payer_of_charge(conn, charge_id, request.owner, seal=request.seal)
    return doc, charge_fields(doc) | payer_fields(payer, request.payers)


async def with_known_document(request: PageRequest, filled: Filled) -> None:
    """A masked document that was left as it was filled in means the document of the charge it came from."""
    charge_id = parse_id(request.field(FROM))
    if charge_id is None or not request.payers.whole:
        return
    async with session(request.pool) as conn:
        payer = await payer_of_charge(conn, charge_id, request.owner, seal=request.seal)
    if (
        payer is not None
        and payer.document
        and request.field(_DOCUMENT) == payer_fields(payer, request.payers)[_DOCUMENT]
    ):
        filled.means(_DOCUMENT, payer.document)


async def looked_up(request: PageRequest, filled: Filled) -> tuple[Filled, str]:
    """The form as it was sent, with what is known of the payer whose document it has; and what to say of that."""
    document = filled.document(
        _DOCUMENT, letters=request.settings.cnpj_with_letters, production=not request.test, required=True
    )
    if filled.faults or document is None:
        return filled, ""
    async with session(request.pool) as conn:
        payer = await payer_with_document(conn, document, request.owner, seal=request.seal)
    known = payer_fields(payer, request.payers, request.field(_DOCUMENT))
    sent = dict(request.given(but=("csrf", "once", SEARCH)))
    return Filled(shown=sent | known), FOUND if known else NOT_FOUND
