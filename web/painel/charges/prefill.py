"""Fills the form of a new charge from earlier ones: from one charge, or from a payer's newest charges.

For people who see payers masked, no payer's data is filled in. A document is masked for everybody: a form filled from a
charge shows the document masked and carries the charge's id. If the mask is sent, it means that charge's document.
"""

from datetime import date, datetime
from typing import Final
from uuid import UUID

from domain.brazilian import amount
from domain.documents import masked, well_formed
from domain.identifiers import parse_id
from domain.payer import PayerView
from readmodels.charges.charge import ChargeDoc
from readmodels.dashboard.known_payer import KnownPayer, payer_of_charge
from runtime.postgres import session
from web.painel.charges.boleto_terms import terms_fields
from web.painel.charges.charge_page import charge_of
from web.painel.fields import Filled
from web.painel.page_request import PageRequest

FROM: Final = "de"
"""The charge that a form was filled from: a parameter of the form's address, and a field of the form."""
PAYER_FROM: Final = "payer_from"
"""The charge that the payer was taken from, when the payer was chosen from the list."""
SECOND_COPY: Final = "second_copy"
"""The box that makes the payer's page of the old charge, an expired boleto, lead to the new charge."""
DOCUMENT: Final = "payer_document"


def payer_fields(payer: KnownPayer | None, view: PayerView, document: str | None = None) -> dict[str, str]:
    """Returns all fields of the form's payer, empty ones too: a field left over from another payer would be wrong.
    Without `document` the payer's own is shown, masked. No fields for people who see payers masked: a masked name
    cannot go into a charge."""
    if payer is None or not view.whole:
        return {}
    if document is None and payer.document and well_formed(payer.document, letters=True):
        document = masked(payer.document)
    return {
        "payer_name": payer.name or "",
        DOCUMENT: document or "",
        "payer_email": payer.email or "",
        "payer_phone": payer.phone or "",
        "zip_code": payer.zip_code or "",
        "street": payer.street or "",
        "number": payer.number or "",
        "city": payer.city or "",
        "state": payer.state or "",
    }


def charge_fields(doc: ChargeDoc) -> dict[str, str]:
    """Returns the other fields of the form; the due date and the reference belong to one charge and are not copied."""
    fields = {"amount": amount(doc.amount_cents), "description": doc.description or "", "due_date": ""}
    if doc.expires_at is not None and doc.boleto is None:
        lifetime = datetime.fromisoformat(doc.expires_at) - datetime.fromisoformat(doc.created_at)
        fields["lifetime"] = str(round(lifetime.total_seconds()))
    else:
        fields["kind"] = doc.payment_method
    return fields | terms_fields(doc.terms)


def reissue_fields(doc: ChargeDoc, due_on: date) -> dict[str, str]:
    """Returns the fields for the answer to a request for a second copy: the same debt with a new due date."""
    return {"external_id": doc.external_id or "", "due_date": due_on.isoformat(), SECOND_COPY: "yes"}


async def fields_from_charge(request: PageRequest, charge_id: UUID) -> tuple[ChargeDoc, dict[str, str]]:
    """Returns the charge and the fields that it fills; 404 for a charge of another account or mode."""
    doc = await charge_of(request, charge_id)
    async with session(request.pool) as conn:
        payer = await payer_of_charge(conn, charge_id, request.owner, seal=request.seal)
    return doc, charge_fields(doc) | payer_fields(payer, request.payers)


async def unmask_known_document(request: PageRequest, filled: Filled) -> None:
    """Takes a masked document that was left as filled in for the document of the charge that it came from."""
    charge_id = parse_id(request.field(PAYER_FROM) or request.field(FROM))
    if charge_id is None or not request.payers.whole:
        return
    async with session(request.pool) as conn:
        payer = await payer_of_charge(conn, charge_id, request.owner, seal=request.seal)
    if (
        payer is not None
        and payer.document
        and request.field(DOCUMENT) == payer_fields(payer, request.payers)[DOCUMENT]
    ):
        filled.means(DOCUMENT, payer.document)
