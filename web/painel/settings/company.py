"""The account's own registration: its data, what is missing, what it allows, and whom to contact.

Owners complete the address. Data that were approved are changed by the platform only, which decided about them.
"""

from typing import Any, Final

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.merchants.profile.contact import read_contact, set_contact
from commands.merchants.registration import CITY_MAX, DISTRICT_MAX, NUMBER_MAX, STREET_MAX, Address, set_address
from commands.money.fees import fee_texts, own_terms
from commands.people.credentials import CREDENTIALS_MAX
from commands.people.people import PEOPLE_MAX
from domain.brazilian import phone
from domain.errors import Refused
from domain.withdrawal import MINIMUM_CENTS, masked_key
from readmodels.dashboard.company import ADDRESS_PARTS, Company, find_company
from readmodels.documents.logo import find_logo
from runtime.postgres import session
from web.painel.fields import Filled
from web.painel.page_request import PageRequest

ADDRESS_FAULTS: Final = {
    "street": f"Informe a rua, com até {STREET_MAX} caracteres.",
    "number": f"Informe o número, com até {NUMBER_MAX} caracteres; sem número, S/N.",
    "district": f"Informe o bairro, com até {DISTRICT_MAX} caracteres.",
    "city": f"Informe a cidade, com até {CITY_MAX} caracteres.",
    "state": "Escolha o estado.",
    "zip_code": "O CEP tem 8 dígitos.",
}


_CONTACT_FAULTS = {"phone": "Informe o telefone com DDD.", "email": "Informe um endereço de e-mail."}


async def show(request: PageRequest) -> Response[Any]:
    return await company_page(request)


async def change_address(request: PageRequest) -> Response[Any]:
    """Changes the address; for owners, until the registration is approved."""
    filled = Filled(request)
    address = address_of(filled)
    company = await _own_company(request)
    if not _may_change_address(request, company):
        raise NotFoundException
    try:
        async with request.change("merchant.address_changed", subject=str(company.account_id)) as conn:
            await set_address(conn, company.account_id, address)
    except Refused as refused:
        show_faults(filled, refused, ADDRESS_FAULTS)
        return await company_page(request, filled)
    return request.go("/painel/empresa", done="endereco-empresa")


async def change_contact(request: PageRequest) -> Response[Any]:
    """Changes the contact; for owners, at any time. Payers see the new contact at once."""
    filled = Filled(request)
    try:
        contact = read_contact(filled.value("phone"), filled.value("contact_email"), whatsapp=filled.has("whatsapp"))
        async with request.change("merchant.contact_changed", subject=str(request.session.account_id)) as conn:
            await set_contact(conn, request.session.account_id, contact)
    except Refused as refused:
        show_faults(filled, refused, _CONTACT_FAULTS)
        if "email" in filled.faults:
            filled.wrong("contact_email", filled.faults.pop("email"))
        return await company_page(request, reached=filled)
    return request.go("/painel/empresa", done="contato")


def address_of(filled: Filled) -> Address:
    """Returns the address as it was typed, with the CEP as digits only."""
    parts = {part: " ".join(filled.value(part).split()) for part in ADDRESS_PARTS}
    zip_code = parts.pop("zip_code").replace("-", "").replace(".", "").replace(" ", "")
    return Address(**parts, zip_code=zip_code)


def show_faults(filled: Filled, refused: Refused, words: dict[str, str]) -> None:
    for field in refused.fields or {}:
        filled.wrong(field if field in words else "form", words.get(field, "Não é possível agora."))


def _may_change_address(request: PageRequest, company: Company) -> bool:
    is_open = company.kyc in ("pending", "rejected") or "address" in company.missing
    return is_open and request.may("POST /painel/empresa/endereco")


async def _own_company(request: PageRequest) -> Company:
    async with session(request.pool) as conn:
        company = await find_company(conn, account_id=request.session.account_id, now=request.now)
    assert company is not None, "who is signed in has an account"
    return company


async def company_page(
    request: PageRequest, filled: Filled | None = None, *, reached: Filled | None = None, logo_fault: str = ""
) -> Response[Any]:
    company = await _own_company(request)
    async with session(request.pool) as conn:
        own_fees = await own_terms(conn, company.account_id)
        logo = await find_logo(conn, account_id=company.account_id)
    contact = {"phone": phone(company.contact_phone), "contact_email": company.contact_email}
    if company.contact_whatsapp:
        contact["whatsapp"] = "yes"
    settings = request.settings
    values = {
        "company": company,
        "key": masked_key(company.pix_key) if "payout_key" not in company.missing else "",
        "may_change": _may_change_address(request, company),
        "filled": filled or Filled(shown=company.parts),
        "reached": reached or Filled(shown=contact),
        "may_contact": request.may("POST /painel/empresa/contato"),
        "logo": logo,
        "logo_fault": logo_fault,
        "may_logo": request.may("POST /painel/empresa/logotipo"),
        "contact": settings.support_contact,
        "rate": (company.rate_per_s or settings.rate_per_s, company.rate_burst or settings.rate_burst),
        "refunds_cents": settings.refund_transfers_cents_max,
        "withdrawal_cents": MINIMUM_CENTS,
        "fees": fee_texts(settings.fees if own_fees is None else own_fees),
        "credentials_max": CREDENTIALS_MAX,
        "people_max": PEOPLE_MAX,
    }
    has_faults = filled is not None or reached is not None or logo_fault
    return request.show("company.html", values, status=400 if has_faults else 200)
