"""Registrations, for the staff: register a merchant, correct its data, set its rate limit, mail a sign-in link."""

from typing import Any, Final

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.merchants.kyc import NEVER_APPROVED
from commands.merchants.merchants import RATE_MAX, set_rate
from commands.merchants.registration import (
    MerchantRegistration,
    correct_registration,
    register_merchant,
    set_address,
)
from commands.people.access import send_access
from commands.people.audit import audit_for_account
from domain.documents import without_marks
from domain.errors import Code, Refused
from domain.merchants.staff import REASON_MAX
from readmodels.dashboard.company import Company, find_company
from runtime.ids import new_id
from runtime.postgres import session
from web.painel.auth.step_up import require_step_up
from web.painel.fields import Filled
from web.painel.page_request import PageRequest
from web.painel.settings.company import ADDRESS_FAULTS, address_of, show_faults
from web.plataforma.merchants import merchant_view

_FAULTS: Final = {
    **ADDRESS_FAULTS,
    "name": "Informe a razão social, com até 100 caracteres que um boleto imprime.",
    "document": "Este CNPJ não existe. Confira os dígitos.",
    "email": "Confira o e-mail. Quem já entra em um painel não pode ser o proprietário de outro.",
    "payout_key": "Não é uma chave Pix: CPF, CNPJ, +55 e telefone, e-mail ou chave aleatória.",
}


async def show_new(request: PageRequest) -> Response[Any]:
    return _form(request, Filled(), None)


async def create(request: PageRequest) -> Response[Any]:
    """Registers a merchant like `quita merchant create`: its KYC is pending, and its owner is mailed a link."""
    filled = Filled(request)
    registration = MerchantRegistration(
        name=" ".join(filled.value("name").split()),
        document=without_marks(filled.value("document")).upper(),
        email=filled.value("email").lower(),
        payout_key=filled.value("payout_key"),
        address=address_of(filled),
    )
    facts = {
        "Razão social": registration.name,
        "E-mail do proprietário": registration.email,
        "Chave dos saques": registration.payout_key,
    }
    require_step_up(request, "Cadastrar uma loja", facts)
    account_id, letters = new_id(), request.settings.cnpj_with_letters
    try:
        entry = {"subject": str(account_id), **_company_facts(registration.name, registration.document)}
        async with request.change("merchant.registered", **entry) as conn:
            await register_merchant(
                conn, registration, account_id=account_id, letters=letters, now=request.now, seal=request.seal
            )
    except Refused as refused:
        if refused.code is not Code.VALIDATION_ERROR:
            raise
        show_faults(filled, refused, _FAULTS)
        return _form(request, filled, None)
    return request.go(f"/plataforma/lojas/{account_id}", done="loja")


async def show_edit(request: PageRequest) -> Response[Any]:
    company = await _find_company(request)
    shown = {**company.parts, "name": company.name, "document": company.document}
    return _form(request, Filled(shown=shown), company)


async def edit(request: PageRequest) -> Response[Any]:
    """Corrects name, CNPJ and address of a merchant that was never approved; only the address of one that was."""
    company, filled = await _find_company(request), Filled(request)
    account_id, address = company.account_id, address_of(filled)
    name = " ".join(filled.value("name").split())
    document = without_marks(filled.value("document")).upper()
    correctable = company.kyc in NEVER_APPROVED
    facts = (
        _company_facts(name, document) if correctable and (name, document) != (company.name, company.document) else {}
    )
    try:
        async with request.change("merchant.corrected", subject=str(account_id), **facts) as conn:
            if not correctable:
                await set_address(conn, account_id, address)
            else:
                letters = request.settings.cnpj_with_letters
                await correct_registration(conn, account_id, name, document, address, letters=letters)
            await audit_for_account(conn, account_id, "merchant.corrected", facts, request.origin, now=request.now)
    except Refused as refused:
        if refused.code is not Code.VALIDATION_ERROR:
            raise
        show_faults(filled, refused, _FAULTS)
        return _form(request, filled, company)
    return request.go(f"/plataforma/lojas/{account_id}", done="dados")


async def set_limits(request: PageRequest) -> Response[Any]:
    """Sets the account's rate limit, requests per second and burst; an empty field means the platform's default."""
    company, filled = await _find_company(request), Filled(request)
    per_s, burst = filled.whole("per_second", 1, RATE_MAX), filled.whole("burst", 1, RATE_MAX)
    if filled.faults:
        return await merchant_view(request, limits=filled)
    facts = {"per_second": filled.value("per_second") or "padrão", "burst": filled.value("burst") or "padrão"}
    async with request.change("merchant.rate_changed", subject=str(company.account_id), **facts) as conn:
        await set_rate(conn, company.account_id, per_s=per_s, burst=burst)
        await audit_for_account(
            conn, company.account_id, "merchant.rate_changed", facts, request.origin, now=request.now
        )
    return request.go(f"/plataforma/lojas/{company.account_id}", done="limites")


async def send_link(request: PageRequest) -> Response[Any]:
    """Mails a sign-in link to a person of the account; when asked, also turns the second factor off, with a reason."""
    company = await _find_company(request)
    email, clears_factor = request.field("email"), request.field("factor") == "yes"
    reason = request.field("reason") if clears_factor else None
    step_up_facts = {"Loja": company.name, "E-mail": email, "Dois fatores": "serão desligados" if clears_factor else ""}
    require_step_up(request, "Enviar um link de acesso", step_up_facts)
    kind = "person.factor_cleared" if clears_factor else "person.access_sent"
    facts = {"person": email, **({"reason": reason[:REASON_MAX]} if reason else {})}
    try:
        async with request.change(kind, subject=str(company.account_id), **facts) as conn:
            await send_access(
                conn,
                company.account_id,
                email,
                request.origin,
                factor_lost=reason,
                now=request.now,
                seal=request.seal,
            )
    except Refused as refused:
        if "email" in (refused.fields or {}):
            raise NotFoundException from None
        fault = f"Escreva por que os dois fatores são desligados, com até {REASON_MAX} caracteres."
        return await merchant_view(request, fault=fault, fault_of=email, reason=reason or "")
    return request.go(f"/plataforma/lojas/{company.account_id}", done="link-enviado")


def _company_facts(name: str, document: str) -> dict[str, str]:
    """Returns name and CNPJ of the company for the audit logs; a CNPJ is public."""
    return {"name": name[:100], "cnpj": document[:18]}


async def _find_company(request: PageRequest) -> Company:
    async with session(request.pool) as conn:
        company = await find_company(conn, account_id=request.id("account_id"), now=request.now)
    if company is None:
        raise NotFoundException
    return company


def _form(request: PageRequest, filled: Filled, company: Company | None) -> Response[Any]:
    return request.show(
        "plataforma/registration.html", {"filled": filled, "company": company}, status=400 if filled.faults else 200
    )
