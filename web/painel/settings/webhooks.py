"""The account's one webhook endpoint: where it is, what it is told, with which secret, and how well it answers."""

import secrets
from typing import Any

from litestar.response import Response

from commands.webhooks.endpoint import (
    check_address,
    choose_kinds,
    remove_endpoint,
    resume,
    revoke_previous,
    rotate_secret,
    set_endpoint,
)
from commands.webhooks.settings import move_endpoint, send_trial
from domain.errors import Code, Refused
from domain.events import DEFAULT_KINDS, EventKind
from readmodels.dashboard.settings import WAITING_MAX, endpoint_of, lanes_health, latest_notices
from runtime.bell import WEBHOOKS
from runtime.postgres import session
from web.painel.labels import KINDS, LANES, NOTICES, PAUSED
from web.painel.page_request import PageRequest

_BACK = "/painel/webhooks"
# What the command says of an address, for people here. Anything else is said in general words.
_FAULTS = {
    "The address must not contain spaces, backslashes or control characters.":
        "O endereço não pode ter espaços nem barras invertidas.",
    "The address is not a URL.": "Isso não é um endereço da web.",
    "The address must begin with https:// and name a host.": "O endereço precisa começar com https:// e ter um nome.",
    "The address must begin with https://.": "O endereço precisa começar com https://.",
    "The address must not contain a user, a password or a fragment.":
        "O endereço não pode ter usuário, senha nem #.",
    "The address must name a host; IP addresses are not taken.":
        "Use um nome, e não um número de IP.",
    "The host must be a public name.": "O nome precisa ser público na internet.",
    "The host must resolve to public addresses only.": "O nome precisa levar só a endereços públicos da internet.",
    "The port must be 443 or one above 1023 that no other protocol owns.":
        "A porta precisa ser 443, ou uma acima de 1023 que não seja de outro protocolo.",
}  # fmt: skip
_OTHER_FAULT = "Este endereço não pode ser usado. Confira e tente de novo."


async def show(visit: PageRequest) -> Response[Any]:
    return await _page(visit)


async def register(visit: PageRequest) -> Response[Any]:
    """A first address and its secret; for an account that has one, a new secret too, and the old one stops at once."""
    url = visit.field("url")
    try:
        await _check(visit, url)
        async with visit.change("webhook.registered", subject=url) as conn:
            made = await set_endpoint(
                conn,
                visit.session.account_id,
                url,
                allow_private=visit.settings.webhook_allow_private,
                now=visit.now,
                seal=visit.seal,
                chance=secrets.token_bytes(32),
            )
    except Refused as refused:
        return await _page(visit, url=url, fault=_fault(refused))
    return _secret(visit, made.secret, "Webhook cadastrado", None)


async def move(visit: PageRequest) -> Response[Any]:
    url = visit.field("url")
    try:
        await _check(visit, url)
        async with visit.change("webhook.moved", subject=url) as conn:
            allow_private = visit.settings.webhook_allow_private
            await move_endpoint(conn, visit.session.account_id, url, allow_private=allow_private)
    except Refused as refused:
        return await _page(visit, url=url, fault=_fault(refused))
    return visit.go(_BACK, done="endereco")


async def rotate(visit: PageRequest) -> Response[Any]:
    async with visit.change("webhook.rotated") as conn:
        made = await rotate_secret(
            conn, visit.session.account_id, now=visit.now, seal=visit.seal, chance=secrets.token_bytes(32)
        )
        endpoint = await endpoint_of(conn, account_id=visit.session.account_id)
    return _secret(visit, made.secret, "Segredo trocado", None if endpoint is None else endpoint.previous_until)


async def end_previous(visit: PageRequest) -> Response[Any]:
    async with visit.change("webhook.previous_revoked") as conn:
        await revoke_previous(conn, visit.session.account_id)
    return visit.go(_BACK, done="antigo")


async def choose(visit: PageRequest) -> Response[Any]:
    """The two every endpoint hears of are always among them (contract section 8)."""
    known = [EventKind(each) for each in visit.fields("kind") if each in KINDS]
    async with visit.change("webhook.kinds_chosen", kinds=" ".join(sorted(known))) as conn:
        await choose_kinds(conn, visit.session.account_id, known)
    return visit.go(_BACK, done="eventos")


async def go_on(visit: PageRequest) -> Response[Any]:
    """Open a lane that is paused or broken: of this page's mode."""
    async with visit.change("webhook.resumed", wakes=[WEBHOOKS], test=visit.test) as conn:
        await resume(conn, visit.session.account_id, [visit.test])
    return visit.go(_BACK, done="retomada")


async def remove(visit: PageRequest) -> Response[Any]:
    if visit.field("sure") != "yes":
        return await _page(visit, remove_fault="Confirme que quer remover.")
    async with visit.change("webhook.removed") as conn:
        await remove_endpoint(conn, visit.session.account_id)
    return visit.go(_BACK, done="removido")


async def try_out(visit: PageRequest) -> Response[Any]:
    """A test event of its own: a real delivery, signed as every other."""
    assert visit.test, "the table has this page in the test section only"
    async with visit.change("webhook.tried", wakes=[WEBHOOKS]) as conn:
        if await endpoint_of(conn, account_id=visit.session.account_id) is None:
            raise Refused(Code.VALIDATION_ERROR)
        await send_trial(
            conn,
            visit.session.account_id,
            now=visit.now,
            actor=visit.actor,
            request_id=visit.request_id,
            tail=secrets.token_hex(6)[:11],
            seal=visit.seal,
        )
    return visit.go(visit.here("/webhooks/entregas"), done="teste")


async def _check(visit: PageRequest, url: str) -> None:
    await check_address(
        url,
        allow_private=visit.settings.webhook_allow_private,
        nameservers=visit.settings.webhook_nameservers,
    )


def _fault(refused: Refused) -> str:
    said = (refused.fields or {}).get("url", "")
    return _FAULTS.get(said, _OTHER_FAULT)


async def _page(
    visit: PageRequest, *, url: str | None = None, fault: str = "", remove_fault: str = ""
) -> Response[Any]:
    account_id = visit.session.account_id
    async with session(visit.pool) as conn:
        endpoint = await endpoint_of(conn, account_id=account_id)
        lanes = await lanes_health(conn, account_id)
        notices = await latest_notices(conn, account_id)
    values = {
        "endpoint": endpoint,
        "url": url if url is not None else (endpoint.url if endpoint else ""),
        "fault": fault,
        "remove_fault": remove_fault,
        "lanes": lanes,
        "lane_words": LANES,
        "paused_words": PAUSED,
        "most": WAITING_MAX,
        "notices": notices,
        "notice_words": NOTICES,
        "kinds": KINDS,
        "always": [str(each) for each in DEFAULT_KINDS],
        "now": visit.now,
    }
    return visit.show("webhooks.html", values, status=400 if fault or remove_fault else 200)


def _secret(visit: PageRequest, secret: str, title: str, previous_until: object) -> Response[Any]:
    shown = {
        "title": title,
        "fields": [("Segredo de assinatura", secret)],
        "previous_until": previous_until,
        "back": _BACK,
        "back_text": "Voltar ao webhook",
    }
    return visit.show("secret.html", shown)
