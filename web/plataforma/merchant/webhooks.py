"""A merchant's webhooks in production, for the staff: resume deliveries, and send a range of events again."""

from typing import Any

from litestar.response import Response

from commands.people.audit import audit_for_account
from commands.webhooks.endpoint import resume
from commands.webhooks.redeliver import RANGE_MAX, redeliver_range
from domain.brazilian import thousands
from domain.errors import Refused
from domain.mode import Mode, Owner
from runtime.coordination.lanes import WEBHOOKS
from web.painel.fields import Filled
from web.painel.page_request import PageRequest
from web.painel.settings.deliveries import is_sequence
from web.plataforma.merchants import merchant_view

OF_WEBHOOK = "webhook"
_NO_ENDPOINT = "A conta não tem webhook cadastrado."


async def go_on(request: PageRequest) -> Response[Any]:
    """Resumes deliveries like the merchant's own button: held deliveries are sent slowly and in order."""
    account_id = request.id("account_id")
    try:
        async with request.change("webhook.resumed", subject=str(account_id), wakes=[WEBHOOKS]) as conn:
            await resume(conn, account_id, [False])
            await audit_for_account(conn, account_id, "webhook.resumed", {}, request.origin, now=request.now)
    except Refused:
        return await merchant_view(request, fault=_NO_ENDPOINT, fault_of=OF_WEBHOOK)
    return request.go(f"/plataforma/lojas/{account_id}", done="retomada")


async def send_range_again(request: PageRequest) -> Response[Any]:
    account_id, filled = request.id("account_id"), Filled(request)
    first, last = _read_sequence(filled, "from_sequence"), _read_sequence(filled, "to_sequence")
    if first is None or last is None:
        return await merchant_view(request, webhook=filled)
    facts = {"first": str(first), "last": str(last)}
    try:
        async with request.change(
            "webhook.range_redelivered", subject=str(account_id), wakes=[WEBHOOKS], **facts
        ) as conn:
            await redeliver_range(conn, Owner(account_id, Mode.PRODUCTION), first, last, now=request.now)
            await audit_for_account(
                conn, account_id, "webhook.range_redelivered", facts, request.origin, now=request.now
            )
    except Refused:
        filled.wrong("to_sequence", f"Termine depois de começar, com no máximo {thousands(RANGE_MAX)} eventos.")
        return await merchant_view(request, webhook=filled)
    return request.go(f"/plataforma/lojas/{account_id}", done="faixa")


def _read_sequence(filled: Filled, name: str) -> int | None:
    text = filled.value(name)
    if is_sequence(text):
        return int(text)
    filled.wrong(name, "Informe o número de um evento.")
    return None
