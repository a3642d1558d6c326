"""The account's one webhook endpoint: its address, events, secret and health."""

import secrets
from datetime import datetime
from typing import Any, Final

from litestar.response import Response

from commands.people.tell import mail_owners
from commands.webhooks.address import URL_LENGTH_MAX, AddressFault, check_address, host_of
from commands.webhooks.endpoint import (
    OLD_SECRETS_MAX,
    OVERLAP,
    choose_kinds,
    move_endpoint,
    remove_endpoint,
    resume,
    revoke_previous,
    rotate_secret,
    set_endpoint,
)
from commands.webhooks.trial import send_trial
from domain.brazilian import thousands
from domain.errors import Code, Refused
from domain.events import DEFAULT_KINDS, EventKind
from domain.pix.end_to_end import TAIL_BYTES
from readmodels.webhooks.endpoint import endpoint_of, lanes_health, latest_notices
from runtime.coordination.lanes import WEBHOOKS
from runtime.postgres import session
from sql import Connection
from web.painel.labels import KINDS
from web.painel.page_request import PageRequest

_PATH = "/painel/webhooks"
FAULTS: Final = {
    AddressFault.LENGTH: f"O endereço precisa ter de 1 a {thousands(URL_LENGTH_MAX)} caracteres.",
    AddressFault.CHARACTERS: "O endereço não pode ter espaços nem barras invertidas.",
    AddressFault.NO_URL: "Isso não é um endereço da web.",
    AddressFault.SCHEME_OR_HOST: "O endereço precisa começar com https:// e ter um nome.",
    AddressFault.CREDENTIALS_OR_FRAGMENT: "O endereço não pode ter usuário, senha nem #.",
    AddressFault.NOT_HTTPS: "O endereço precisa começar com https://.",
    AddressFault.IP_ADDRESS: "Use um nome, e não um número de IP.",
    AddressFault.PRIVATE_NAME: "O nome precisa ser público na internet.",
    AddressFault.PRIVATE_ADDRESS: "O nome precisa levar só a endereços públicos da internet.",
    AddressFault.PORT: "A porta precisa ser 443, ou uma acima de 1023 que não seja de outro protocolo.",
    AddressFault.NONE: "A conta não tem webhook cadastrado.",
}
_SECRETS_FULL: Final = (
    f"Já há {OLD_SECRETS_MAX} segredos antigos que ainda assinam. Espere um dia, ou encerre-os agora."
)


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request)


async def register(request: PageRequest) -> Response[Any]:
    """Registers an endpoint and shows its secret. An account that has an endpoint already gets a new secret too,
    because no secret is shown twice; each earlier one goes on signing for 24 hours."""
    url = request.field("url")
    try:
        await _check_address(request, url)
        async with request.change("webhook.registered", subject=host_of(url)) as conn:
            earlier = await endpoint_of(conn, account_id=request.session.account_id)
            endpoint = await set_endpoint(
                conn,
                request.session.account_id,
                url,
                allow_private=request.settings.webhook_allow_private,
                now=request.now,
                seal=request.seal,
                chance=secrets.token_bytes(32),
            )
            if earlier is not None:
                chance = secrets.token_bytes(32)
                endpoint = await rotate_secret(
                    conn, request.session.account_id, now=request.now, seal=request.seal, chance=chance
                )
            await _mail_owners(conn, request, "webhook.registered", host=host_of(url))
    except Refused as refused:
        return await _page(request, url=url, fault=_fault_text(refused))
    return _secret_page(request, endpoint.secret, "Webhook cadastrado")


async def move(request: PageRequest) -> Response[Any]:
    url = request.field("url")
    try:
        await _check_address(request, url)
        async with request.change("webhook.moved", subject=host_of(url)) as conn:
            await move_endpoint(
                conn,
                request.session.account_id,
                url,
                allow_private=request.settings.webhook_allow_private,
                now=request.now,
                seal=request.seal,
                chance=secrets.token_bytes(32),
            )
            await _mail_owners(conn, request, "webhook.moved", host=host_of(url))
    except Refused as refused:
        return await _page(request, url=url, fault=_fault_text(refused))
    return request.go(_PATH, done="endereco")


async def rotate(request: PageRequest) -> Response[Any]:
    try:
        async with request.change("webhook.rotated") as conn:
            endpoint = await rotate_secret(
                conn, request.session.account_id, now=request.now, seal=request.seal, chance=secrets.token_bytes(32)
            )
            await _mail_owners(conn, request, "webhook.rotated")
    except Refused as refused:
        if not refused.fields or "secret" not in refused.fields:
            raise
        return await _page(request, secret_fault=_fault_text(refused))
    return _secret_page(request, endpoint.secret, "Segredo trocado", request.now + OVERLAP)


async def end_old_secrets(request: PageRequest) -> Response[Any]:
    async with request.change("webhook.previous_revoked") as conn:
        await revoke_previous(conn, request.session.account_id)
    return request.go(_PATH, done="antigo")


async def choose(request: PageRequest) -> Response[Any]:
    """Chooses the endpoint's event kinds; the two that every endpoint receives stay chosen (contract section 8)."""
    kinds = [EventKind(each) for each in request.fields("kind") if each in KINDS]
    async with request.change("webhook.kinds_chosen", kinds=" ".join(sorted(kinds))) as conn:
        await choose_kinds(conn, request.session.account_id, kinds)
    return request.go(_PATH, done="eventos")


async def go_on(request: PageRequest) -> Response[Any]:
    """Opens the lane of this page's mode again when it is paused, has its breaker open, or was asked to wait."""
    async with request.change("webhook.resumed", wakes=[WEBHOOKS], test=request.test) as conn:
        await resume(conn, request.session.account_id, [request.test])
    return request.go(_PATH, done="retomada")


async def remove(request: PageRequest) -> Response[Any]:
    if request.field("sure") != "yes":
        return await _page(request, remove_fault="Confirme que quer remover.")
    async with request.change("webhook.removed") as conn:
        await remove_endpoint(conn, request.session.account_id)
        await _mail_owners(conn, request, "webhook.removed")
    return request.go(_PATH, done="removido")


async def try_out(request: PageRequest) -> Response[Any]:
    """Makes a test event for the endpoint: a real delivery, signed as every other."""
    assert request.test, "the table has this page in the test section only"
    async with request.change("webhook.tried", wakes=[WEBHOOKS]) as conn:
        if await endpoint_of(conn, account_id=request.session.account_id) is None:
            raise Refused(Code.VALIDATION_ERROR)
        await send_trial(
            conn,
            request.session.account_id,
            now=request.now,
            bank=request.settings.bank,
            actor=request.actor,
            request_id=request.request_id,
            chance=secrets.token_bytes(TAIL_BYTES),
            seal=request.seal,
            fees=request.settings.fees,
        )
    return request.go(request.here("/webhooks/entregas"), done="teste")


async def _mail_owners(conn: Connection, request: PageRequest, kind: str, **facts: str) -> None:
    """Mails all owners when the address of the endpoint or its secrets change."""
    mail_facts = {**facts, **request.doer}
    await mail_owners(conn, request.session.account_id, kind, mail_facts, now=request.now, seal=request.seal)


async def _check_address(request: PageRequest, url: str) -> None:
    await check_address(
        url,
        allow_private=request.settings.webhook_allow_private,
        nameservers=request.settings.webhook_nameservers,
    )


def _fault_text(refused: Refused) -> str:
    if refused.fields is None:
        raise refused
    return _SECRETS_FULL if "secret" in refused.fields else FAULTS[AddressFault(refused.fields["url"])]


async def _page(
    request: PageRequest, *, url: str | None = None, fault: str = "", remove_fault: str = "", secret_fault: str = ""
) -> Response[Any]:
    account_id = request.session.account_id
    async with session(request.pool) as conn:
        endpoint = await endpoint_of(conn, account_id=account_id)
        lanes = await lanes_health(conn, account_id)
        notices = await latest_notices(conn, account_id)
    values = {
        "endpoint": endpoint,
        "url": url if url is not None else (endpoint.url if endpoint else ""),
        "fault": fault,
        "remove_fault": remove_fault,
        "secret_fault": secret_fault,
        "lanes": lanes,
        "notices": notices,
        "always": [str(each) for each in DEFAULT_KINDS],
        "now": request.now,
    }
    return request.show("webhooks.html", values, status=400 if fault or remove_fault or secret_fault else 200)


def _secret_page(
    request: PageRequest, secret: str, title: str, previous_until: datetime | None = None
) -> Response[Any]:
    return request.show_secret(title, {"Segredo de assinatura": secret}, (_PATH, "Voltar ao webhook"), previous_until)
