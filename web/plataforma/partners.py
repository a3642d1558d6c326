"""Partners (integrators), for the staff: their codes, shares and accounts."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.merchants.integrators import create_integrator, lock_integrators, set_integrator
from commands.merchants.partner_copy import account_exists
from commands.merchants.share_proposals import (
    CONFIRMED,
    PROPOSED,
    WITHDRAWN,
    confirm_share,
    open_proposals,
    propose_share,
    withdraw_share,
)
from commands.people.audit import audit_for_platform
from domain.errors import Code, Refused
from domain.identifiers import parse_id
from domain.merchants.partners import ALONE_BPS_MAX, needs_second
from readmodels.filters import read_text
from readmodels.page import cut
from readmodels.reports.integrators import find_integrator, list_integrators
from runtime.cells.number import HOME, cell_of, current_cell
from runtime.postgres import DB_UNAVAILABLE, session
from web.painel.auth.step_up import refuse_newcomer, require_step_up
from web.painel.lists import PAGE, ListQuery
from web.painel.page_request import PageRequest

_CODE = re.compile(r"INTG-[A-Z0-9]{6}")
_CELL_TIMEOUT_S = 3.0
_SHARE = re.compile(r"([0-9]{1,3})(?:[,.]([0-9]{1,2}))?")
_NAME_FAULT = "Dê um nome com até 100 caracteres."
_SHARE_FAULT = "A participação vai de 0 a 100 %, com até duas casas."
_PROPOSE = "Propor a participação de um parceiro"
_SAME_PERSON = "Quem propôs a participação não a confirma: é preciso uma segunda pessoa da equipe."
_PROPOSAL_GONE = "Esta proposta não espera mais. Veja como está agora."
_PARTNER_CHANGED = "Este parceiro mudou neste meio-tempo. Veja como está agora."
_NO_ACCOUNT = "Não há conta com este ID."
_CELL_AWAY = "A célula dessa conta não responde agora. Tente de novo em instantes."
_ONLY_AT_HOME = "Os parceiros são cadastrados na célula home e valem em todas."


class _PartnerChanged(Exception):
    """A colleague has changed the partner since it was read; the transaction is rolled back."""


async def show_list(request: PageRequest) -> Response[Any]:
    return await _page(request)


async def create(request: PageRequest) -> Response[Any]:
    name, share, account = request.field("name"), request.field("share") or "0", request.field("account_id")
    share_bps, account_id = _parse_share_bps(share), parse_id(account.lower())
    fault = _SHARE_FAULT if share_bps is None else await _account_fault(request, account, account_id)
    if share_bps is not None and not fault:
        try:
            takes_two = needs_second(share_bps, now_bps=0)
            if takes_two:
                refuse_newcomer(request)
                require_step_up(request, _PROPOSE, {"Parceiro": name, "Participação (%)": share, "Conta": account})
            facts = {"share": share, "account_id": str(account_id)} if account_id else {"share": share}
            async with request.change("integrator.created", subject=name[:100], **facts) as conn:
                partner = await create_integrator(
                    conn, name=name, account_id=account_id, now=request.now, share_bps=0 if takes_two else share_bps
                )
                if takes_two:
                    await propose_share(
                        conn, partner.integrador_code, share_bps, by=request.session.email, now=request.now
                    )
                    # A second row: the one of `change` was written before the code existed, and the confirmation of
                    # the share is logged under the code.
                    await audit_for_platform(
                        conn, partner.integrador_code, PROPOSED, facts, request.origin, now=request.now
                    )
            return request.go("/plataforma/parceiros", done="parceiro-proposto" if takes_two else "parceiro")
        except Refused as refused:
            fault = _NO_ACCOUNT if refused.code is Code.WALLET_ACCOUNT_NOT_FOUND else _NAME_FAULT
    return await _page(request, fault=fault, name=name, share=share, account=account)


async def change(request: PageRequest) -> Response[Any]:
    """Changes one partner: whether new boletos may carry the code, and the share of charges issued from now on."""
    code, active = request.text_of_path("code"), request.field("active") == "yes"
    share = request.field("share")
    share_bps = _parse_share_bps(share)
    if not _CODE.fullmatch(code):
        raise NotFoundException
    if current_cell() != HOME:
        return await _page(request, at=code, at_fault=_ONLY_AT_HOME)
    if share_bps is None:
        return await _page(request, at=code, at_fault=_SHARE_FAULT, at_share=share, at_active=active)
    async with session(request.pool) as conn:
        partner = await find_integrator(conn, integrador_code=code)
    if partner is None:
        raise NotFoundException
    takes_two = needs_second(share_bps, now_bps=partner.share_bps)
    if takes_two:
        refuse_newcomer(request)
        step_up_facts = {"Parceiro": partner.name, "Código": code, "Participação (%)": share}
        require_step_up(request, _PROPOSE, step_up_facts)
    facts = {"active": "sim" if active else "não", "share": share}
    try:
        async with request.change(PROPOSED if takes_two else "integrator.changed", subject=code, **facts) as conn:
            await lock_integrators(conn)
            if await find_integrator(conn, integrador_code=code) != partner:
                # The share may have been lowered since: `takes_two` was decided by the old share, and raising the share
                # again may take two people.
                raise _PartnerChanged
            await set_integrator(conn, code, active=active, share_bps=None if takes_two else share_bps, now=request.now)
            if takes_two:
                await propose_share(conn, code, share_bps, by=request.session.email, now=request.now)
    except _PartnerChanged:
        return await _page(request, at=code, at_fault=_PARTNER_CHANGED)
    return request.go("/plataforma/parceiros", done="parceiro-proposto" if takes_two else "parceiro")


async def confirm(request: PageRequest) -> Response[Any]:
    """Confirms a share above what one person may set alone; the person who proposed it cannot confirm it."""
    refuse_newcomer(request)
    code = request.text_of_path("code")
    if not _CODE.fullmatch(code):
        raise NotFoundException
    async with session(request.pool) as conn:
        proposal = (await open_proposals(conn, [code])).get(code)
    share = (
        {"Participação (%)": _percent_text(proposal.share_bps), "Proposta por": proposal.proposed_by}
        if proposal
        else {}
    )
    require_step_up(request, "Confirmar a participação de um parceiro", {"Código": code, **share})
    return await _decide(request, CONFIRMED, confirm_share)


async def withdraw(request: PageRequest) -> Response[Any]:
    return await _decide(request, WITHDRAWN, withdraw_share)


async def _decide(request: PageRequest, action: str, decide: Callable[..., Awaitable[Any]]) -> Response[Any]:
    code, proposal_id = request.text_of_path("code"), parse_id(request.field("proposal_id"))
    if not _CODE.fullmatch(code) or proposal_id is None:
        raise NotFoundException
    if current_cell() != HOME:
        return await _page(request, at=code, at_fault=_ONLY_AT_HOME)
    try:
        async with request.change(action, subject=code) as conn:
            await decide(conn, code, proposal_id, by=request.session.email, now=request.now)
    except Refused as refused:
        fault = _SAME_PERSON if "by" in (refused.fields or {}) else _PROPOSAL_GONE
        return await _page(request, at=code, at_fault=fault)
    return request.go("/plataforma/parceiros", done="parceiro")


async def _account_fault(request: PageRequest, text: str, account_id: UUID | None) -> str:
    """Returns what is wrong with the partner's own account, which may be in another cell; empty when nothing is."""
    if current_cell() != HOME:
        return _ONLY_AT_HOME
    if account_id is None:
        return _NO_ACCOUNT if text else ""
    try:
        async with session(request.pool) as conn, asyncio.timeout(_CELL_TIMEOUT_S):
            exists = await account_exists(conn, account_id, seal=request.seal)
    except DB_UNAVAILABLE:
        return _CELL_AWAY
    return "" if exists else _NO_ACCOUNT


async def _page(
    request: PageRequest,
    *,
    fault: str = "",
    name: str = "",
    share: str = "",
    account: str = "",
    at: str = "",
    at_fault: str = "",
    at_share: str = "",
    at_active: bool = False,
) -> Response[Any]:
    query = ListQuery(request.http, ("codigo",))
    code = at or (read_text(query, "codigo") or "").upper()
    after = query.value("depois")
    if after and not _CODE.fullmatch(after):
        raise NotFoundException
    last = None
    async with session(request.pool) as conn:
        if code:
            partner = await find_integrator(conn, integrador_code=code) if _CODE.fullmatch(code) else None
            partners = [] if partner is None else [partner]
        else:
            page, last = cut(await list_integrators(conn, after=after, limit=PAGE + 1), PAGE)
            partners = list(page)
        proposals = await open_proposals(conn, [each.integrador_code for each in partners])
    if at and not partners:
        raise NotFoundException
    values = {
        "asked": query,
        "next": query.link(depois=last.integrador_code) if last else "",
        "partners": partners,
        "proposals": proposals,
        "at_home": current_cell() == HOME,
        "only_at_home": _ONLY_AT_HOME,
        "alone": _percent_text(ALONE_BPS_MAX),
        "fault": fault,
        "name": name,
        "share": share,
        "account": account,
        "at": at,
        "at_fault": at_fault,
        "at_share": at_share,
        "at_active": at_active,
        "percent": _percent_text,
        "is_here": _is_here,
    }
    return request.show("plataforma/partners.html", values, status=400 if fault or at_fault else 200)


def _parse_share_bps(text: str) -> int | None:
    """ "2,5" -> 250; None for text that is not a share from 0 to 100 %."""
    match = _SHARE.fullmatch(text) if text.isascii() else None
    if match is None:
        return None
    bps = int(match[1]) * 100 + int((match[2] or "").ljust(2, "0"))
    return bps if bps <= 10_000 else None


def _percent_text(bps: int) -> str:
    return f"{bps // 100},{bps % 100:02}"


def _is_here(account_id: UUID) -> bool:
    return cell_of(account_id) == current_cell()
