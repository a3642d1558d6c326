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
from readmodels.dashboard.known_payer import KnownPayer, payer_of_charge
from runtime.postgres import session
from web.painel.charges.boleto_terms import terms_fields
from web.painel.charges.charge_page import charge_of
from web.painel.fields import Filled
from web.painel.page_request import PageRequest

FROM: Final = "de"
"""The charge a form was filled from: in the address of the empty form, and in the form."""
PAYER_FROM: Final = "payer_from"
"""The charge the payer was taken from, where he was chosen from the list."""
SECOND_COPY: Final = "second_copy"
"""The box that has the page of that charge, an expired boleto, lead to the new one."""
DOCUMENT: Final = "payer_document"


def payer_fields(payer: KnownPayer | None, view: PayerView, document: str | None = None) -> dict[str, str]:
    """The fields of the form's payer, each one: what is left of somebody else would go to the wrong place. Without
    `document` the payer's own is shown, masked. Empty for whoever sees payers masked: a mask is no name to charge."""
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
    """The form's other fields; due date and reference are each charge's own."""
    fields = {"amount": amount(doc.amount_cents), "description": doc.description or "", "due_date": ""}
    if doc.expires_at is not None and doc.boleto is None:
        lived = datetime.fromisoformat(doc.expires_at) - datetime.fromisoformat(doc.created_at)
        fields["lifetime"] = str(round(lived.total_seconds()))
    else:
        fields["kind"] = doc.payment_method
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
