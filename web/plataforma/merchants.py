"""Merchants, for the staff: the list, one of them, and the decision about its registration."""

from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.merchants.kyc import NEXT, REASON_MAX, Kyc, decide_kyc
from domain.errors import Code, Refused
from readmodels.dashboard.audit import audit_of_merchant
from readmodels.dashboard.people import people_of_account
from readmodels.dashboard.platform import FOUND_MAX, MerchantRow, find_merchant, merchant_page, merchants_like
from readmodels.page import SortOrder, TimePosition
from readmodels.webhooks.endpoint import lanes_health
from runtime.postgres import session
from web.painel.labels import ACTIONS, FACTS, ROLES
from web.painel.lists import PAGE, ListQuery, Walked, walk
from web.painel.page_request import PageRequest
from web.plataforma.labels import DECISIONS, KYC, KYC_CHIPS


async def show_list(request: PageRequest) -> Response[Any]:
    asked = ListQuery(request.http, ("busca", "situacao"))
    text, kyc = asked.word("busca"), asked.choice("situacao", list(KYC))
    if text is not None and kyc is not None:
        asked.faults["situacao"] = "Busque, ou escolha uma situação."
    walked: Walked[MerchantRow] = Walked((), "", "")
    if text is not None and not asked.faults:
        async with session(request.pool) as conn:
            walked.rows = await merchants_like(conn, text)
    elif not asked.faults:

        async def fetch(order: SortOrder, after: TimePosition | None) -> tuple[list[MerchantRow], TimePosition | None]:
            async with session(request.pool) as conn:
                rows, more = await merchant_page(conn, kyc, order, after, PAGE)
            return list(rows), more

        walked = await walk(
            request, asked, "merchants", kyc, TimePosition, fetch,
            lambda row: TimePosition(row.at, row.id),
        )  # fmt: skip
    values = {"asked": asked, "walked": walked, "kyc": KYC, "chips": KYC_CHIPS, "found_max": FOUND_MAX}
    return request.show("plataforma/merchants.html", values, status=400 if asked.faults else 200)


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request)


async def decide(request: PageRequest) -> Response[Any]:
    account_id = request.id("account_id")
    chosen = request.field("kyc")
    if chosen not in DECISIONS:
        raise NotFoundException
    to, reason = Kyc(chosen), request.field("reason")
    async with session(request.pool) as conn:
        if await find_merchant(conn, account_id=account_id) is None:
            raise NotFoundException
    try:
        facts = {"reason": reason[:REASON_MAX]} if reason else {}
        async with request.change(f"merchant.{to}", subject=str(account_id), **facts) as conn:
            await decide_kyc(conn, account_id, to, reason, now=request.now)
    except Refused as refused:
        if refused.code is not Code.VALIDATION_ERROR:
            raise
        fault = (
            f"Escreva o motivo, com até {REASON_MAX} caracteres."
            if "reason" in (refused.fields or {})
            else "A situação mudou neste meio-tempo. Veja como está agora."
        )
        return await _page(request, fault=fault, fault_of=to, reason=reason)
    return request.go(f"/plataforma/lojas/{account_id}", done="cadastro")


async def _page(request: PageRequest, *, fault: str = "", fault_of: str = "", reason: str = "") -> Response[Any]:
    account_id = request.id("account_id")
    async with session(request.pool) as conn:
        merchant = await find_merchant(conn, account_id=account_id)
        if merchant is None:
            raise NotFoundException
        people = await people_of_account(conn, account_id)
        lanes = await lanes_health(conn, account_id)
        entries = await audit_of_merchant(conn, account_id)
    values = {
        "merchant": merchant,
        "people": people,
        "lanes": [each for each in lanes if not each.test],
        "entries": entries,
        "kyc": KYC,
        "chips": KYC_CHIPS,
        "roles": ROLES,
        "actions": ACTIONS,
        "facts": FACTS,
        "decisions": {to: DECISIONS[to] for to in DECISIONS if to in NEXT[Kyc(merchant.kyc)]},
        "fault": fault,
        "fault_of": fault_of,
        "reason": reason,
    }
    return request.show("plataforma/merchant.html", values, status=400 if fault else 200)
