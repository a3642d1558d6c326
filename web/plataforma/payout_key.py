"""A merchant's payout key, for the staff: one person asks for a change, a second confirms it, anyone cancels it."""

from typing import Any, Final

from litestar.response import Response

from commands.merchants.payout_key import (
    ASKED,
    CANCELLED,
    CONFIRMED,
    ask_payout_key,
    cancel_payout_key,
    confirm_payout_key,
    payout_change_of,
)
from commands.people.audit import SEEN_BY_THE_ACCOUNT, audit_for_account
from domain.documents import masked
from domain.errors import Refused
from domain.identifiers import parse_id
from domain.merchants.payout import PayoutChange
from domain.withdrawal import masked_key
from runtime.postgres import session
from sql import Connection
from web.painel.auth.step_up import refuse_newcomer, require_step_up
from web.painel.fields import Filled
from web.painel.money.payout_key import GONE, mail_key_change, payout_key_facts, read_key, say
from web.painel.page_request import PageRequest
from web.plataforma.merchants import merchant_view

OF_KEY: Final = "payout_key"
BY_PLATFORM: Final = {"by": SEEN_BY_THE_ACCOUNT}
_SAME_PERSON: Final = "Quem pediu a troca não a confirma: é preciso uma segunda pessoa da equipe."


async def ask_for_another(request: PageRequest) -> Response[Any]:
    refuse_newcomer(request)
    account_id, filled = request.id("account_id"), Filled(request)
    key = read_key(filled, request)
    if filled.faults:
        return await merchant_view(request, payout_key=filled)
    step_up_facts = {
        "Conta": str(account_id),
        "Chave nova": key.pix_key,
        "CPF ou CNPJ do dono": filled.value("document"),
    }
    require_step_up(request, "Pedir outra chave para os saques de uma loja", step_up_facts)
    try:
        async with request.change(ASKED, subject=str(account_id), **payout_key_facts(key)) as conn:
            change = await ask_payout_key(
                conn, account_id, key, by=request.session.email, by_staff=True, now=request.now
            )
            await mail_key_change(conn, request, "payout_key.proposed", change, BY_PLATFORM)
            await audit_for_account(conn, account_id, ASKED, payout_key_facts(key), request.origin, now=request.now)
    except Refused as refused:
        say(filled, refused)
        return await merchant_view(request, payout_key=filled)
    return request.go(f"/plataforma/lojas/{account_id}", done="chave-da-loja")


async def confirm(request: PageRequest) -> Response[Any]:
    refuse_newcomer(request)
    account_id = request.id("account_id")
    async with session(request.pool) as conn:
        pending = await payout_change_of(conn, account_id, now=request.now)
    step_up_facts = {"Conta": str(account_id)}
    if pending is not None:
        step_up_facts |= {"Chave nova": masked_key(pending.pix_key), "CPF ou CNPJ do dono": masked(pending.document)}
    require_step_up(request, "Confirmar outra chave para os saques de uma loja", step_up_facts)
    return await _decide(request, CONFIRMED, confirm_payout_key, done="chave-confirmada")


async def cancel(request: PageRequest) -> Response[Any]:
    return await _decide(request, CANCELLED, cancel_payout_key, done="chave-cancelada")


async def _decide(request: PageRequest, action: str, decide: Any, *, done: str) -> Response[Any]:
    account_id, change_id = request.id("account_id"), parse_id(request.field("change_id"))
    if change_id is None:
        return await merchant_view(request, fault=GONE, fault_of=OF_KEY)
    try:
        async with request.change(action, subject=str(account_id)) as conn:
            change: PayoutChange = await decide(conn, account_id, change_id, by=request.session.email, now=request.now)
            await _mail_and_log(conn, request, action, change)
    except Refused as refused:
        return await merchant_view(
            request, fault=_SAME_PERSON if "by" in (refused.fields or {}) else GONE, fault_of=OF_KEY
        )
    return request.go(f"/plataforma/lojas/{account_id}", done=done)


async def _mail_and_log(conn: Connection, request: PageRequest, action: str, change: PayoutChange) -> None:
    await mail_key_change(conn, request, ASKED if action == CONFIRMED else action, change, BY_PLATFORM)
    facts = {"pix_key": masked_key(change.pix_key)}
    await audit_for_account(conn, change.account_id, action, facts, request.origin, now=request.now)
