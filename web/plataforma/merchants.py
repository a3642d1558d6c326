"""The page of a merchant, for the staff, and the decision about its registration."""

from typing import Any, Final

from litestar.exceptions import NotFoundException
from litestar.response import Response
from msgspec import structs

from commands.merchants.kyc import NEEDED, NEXT, Kyc, decide_kyc
from commands.merchants.refund_exemption import BOUND, FREED, end_refund_exemption, exempt_refunds
from commands.merchants.registration_review import NOTE_MAX
from commands.money.fees import fee_texts, own_terms
from commands.webhooks.address import host_of
from domain.brazilian import amount
from domain.errors import Code, Refused
from domain.merchants.fees import FeeTerms
from domain.merchants.staff import REASON_MAX
from readmodels.dashboard.audit import audit_of_merchant
from readmodels.dashboard.company import Company, find_company
from readmodels.dashboard.people import people_of_account
from readmodels.dashboard.platform import Merchant, find_merchant
from readmodels.dashboard.registration_review import notes_of, review_of
from readmodels.documents.logo import find_logo
from readmodels.webhooks.endpoint import lanes_health
from runtime.postgres import session
from web.painel.auth.step_up import refuse_newcomer
from web.painel.fields import Filled
from web.painel.labels import MISSING
from web.painel.money.payout_key import shown_payout
from web.painel.page_request import PageRequest
from web.plataforma.labels import DECISIONS, NO_REASON, REVIEW

RECEITA_URL: Final = "https://solucoes.receita.fazenda.gov.br/servicos/cnpjreva/cnpjreva_solicitacao.asp"
"""The Receita Federal's public page about a CNPJ. The person opens it in the browser; the server does not call it."""


async def show(request: PageRequest) -> Response[Any]:
    return await merchant_view(request)


async def decide(request: PageRequest) -> Response[Any]:
    account_id = request.id("account_id")
    chosen = request.field("kyc")
    if chosen not in DECISIONS:
        raise NotFoundException
    decision, reason = Kyc(chosen), request.field("reason")
    if decision is Kyc.APPROVED:
        refuse_newcomer(request)  # approving an account and assigning suspense to it take two people
    await merchant_of(request)
    try:
        facts = {"reason": reason[:REASON_MAX]} if reason else {}
        async with request.change(f"merchant.{decision}", subject=str(account_id), **facts) as conn:
            await decide_kyc(conn, account_id, decision, reason, now=request.now)
    except Refused as refused:
        if refused.code is not Code.VALIDATION_ERROR:
            raise
        fields = refused.fields or {}
        if missing := [MISSING[name] for name in NEEDED if name in fields]:
            fault = f"Falta para aprovar: {'; '.join(missing)}."
        elif "reason" in fields:
            fault = NO_REASON
        else:
            fault = "A situação mudou neste meio-tempo. Veja como está agora."
        return await merchant_view(request, fault=fault, fault_of=decision, reason=reason)
    return request.go(f"/plataforma/lojas/{account_id}", done="cadastro")


async def free(request: PageRequest) -> Response[Any]:
    """Allows the account's refunds by transfer to go to others than the payer; needs a reason."""
    account_id, reason = request.id("account_id"), request.field("reason")
    try:
        async with request.change(FREED, subject=str(account_id), reason=reason[:REASON_MAX]) as conn:
            await exempt_refunds(conn, account_id, reason, request.origin, now=request.now)
    except Refused as refused:
        if refused.code is not Code.VALIDATION_ERROR:
            raise
        fault = NO_REASON
        return await merchant_view(request, fault=fault, fault_of=FREED, reason=reason)
    return request.go(f"/plataforma/lojas/{account_id}", done="devolucoes-livres")


async def bind(request: PageRequest) -> Response[Any]:
    account_id = request.id("account_id")
    async with request.change(BOUND, subject=str(account_id)) as conn:
        await end_refund_exemption(conn, account_id, request.origin, now=request.now)
    return request.go(f"/plataforma/lojas/{account_id}", done="devolucoes-presas")


async def merchant_of(request: PageRequest) -> Merchant:
    """Returns the merchant that the path names; 404 when there is none."""
    async with session(request.pool) as conn:
        merchant = await find_merchant(conn, account_id=request.id("account_id"))
    if merchant is None:
        raise NotFoundException
    return merchant


async def merchant_view(
    request: PageRequest,
    *,
    fault: str = "",
    fault_of: str = "",
    reason: str = "",
    payout_key: Filled | None = None,
    webhook: Filled | None = None,
    fees: Filled | None = None,
    limits: Filled | None = None,
) -> Response[Any]:
    account_id = request.id("account_id")
    merchant = await merchant_of(request)
    async with session(request.pool) as conn:
        company = await find_company(conn, account_id=account_id, now=request.now)
        people = await people_of_account(conn, account_id)
        lanes = await lanes_health(conn, account_id)
        entries = await audit_of_merchant(conn, account_id)
        payout = await shown_payout(conn, account_id, now=request.now)
        assert company is not None
        review = await review_of(conn, company, people)
        notes = await notes_of(conn, account_id)
        own_fees = await own_terms(conn, account_id)
        logo = await find_logo(conn, account_id=account_id)
    default = request.settings.fees
    values = {
        "merchant": merchant,
        "webhook_host": host_of(merchant.webhook_url) if merchant.webhook_url else "",
        "company": company,
        "rate": (request.settings.rate_per_s, request.settings.rate_burst),
        "people": people,
        "lanes": [each for each in lanes if not each.test],
        "entries": entries,
        "decisions": {to: DECISIONS[to] for to in DECISIONS if to in NEXT[Kyc(merchant.kyc)]},
        "fault": fault,
        "fault_of": fault_of,
        "freed": FREED,
        "reason_max": REASON_MAX,
        "reason": reason,
        "payout": payout,
        "review": review,
        "unreviewed": [REVIEW[each.item][0] for each in review if not each.done],
        "review_words": REVIEW,
        "receita": RECEITA_URL,
        "notes": notes,
        "logo": logo,
        "note_max": NOTE_MAX,
        "payout_form": payout_key or Filled(),
        "webhook_form": webhook or Filled(),
        "own_fees": own_fees is not None,
        "charged": fee_texts(default if own_fees is None else own_fees),
        "default_fees": fee_texts(default),
        "limits_form": limits or Filled(shown=_limit_fields(company)),
        "fee_form": fees or Filled(shown=_fee_fields(default if own_fees is None else own_fees)),
    }
    has_faults = fault or any(form is not None and form.faults for form in (payout_key, webhook, fees, limits))
    return request.show("plataforma/merchant.html", values, status=400 if has_faults else 200)


def _limit_fields(company: Company) -> dict[str, str]:
    """Returns the account's own limits as the fields of the form that changes them."""
    return {"per_second": str(company.rate_per_s or ""), "burst": str(company.rate_burst or "")}


def _fee_fields(terms: FeeTerms) -> dict[str, str]:
    """Returns the terms as the fields of the form that changes them."""
    return {name: amount(cents) if cents else "" for name, cents in structs.asdict(terms).items()}
