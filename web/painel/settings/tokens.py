"""Credentials of programs, apart for production and test; a secret is shown once."""

import secrets
from collections.abc import Collection
from datetime import datetime
from typing import Any

from litestar import MediaType
from litestar.exceptions import NotFoundException, PermissionDeniedException
from litestar.response import Response

from commands.merchants.merchants import ALL_SCOPES, NewCredential
from commands.people.credentials import (
    CHANCE,
    CREDENTIALS_MAX,
    NAME_MAX,
    OVERLAPS,
    create_credential,
    revoke_credential,
    rotate_credential,
)
from commands.people.scopes import MONEY_SCOPES, grantable, may_revoke, moves_money
from commands.people.tell import mail_owners
from domain.errors import Refused
from domain.mode import Mode
from readmodels.dashboard.credentials import CredentialRow, credentials_of, find_credential
from runtime.postgres import session
from sql import Connection
from web.painel.auth.step_up import require_step_up
from web.painel.labels import SCOPES
from web.painel.page_request import PAGE_HEADERS, PageRequest

_FAULTS = {
    "name": f"Dê um nome com até {NAME_MAX} caracteres.",
    "scopes": "Escolha ao menos uma permissão.",
    "limit": f"São no máximo {CREDENTIALS_MAX} credenciais ativas. Revogue uma que não é mais usada.",
}


async def show_list(request: PageRequest) -> Response[Any]:
    return await _list_page(request)


async def name_ids(request: PageRequest) -> Response[Any]:
    """Answers the ids that the documentation's examples show: account_id, and the client_id of the newest test
    credential that works. Secrets are not stored, so they cannot be answered."""
    async with session(request.pool) as conn:
        credentials = await credentials_of(conn, request.owner.account_id)
    client_ids = [each.client_id for each in credentials if each.test and each.revoked_at is None]
    ids = {"account_id": str(request.owner.account_id), "client_id": client_ids[0] if client_ids else None}
    return Response(ids, headers=PAGE_HEADERS, media_type=MediaType.JSON)


async def show(request: PageRequest) -> Response[Any]:
    return request.show("token.html", _page_values(request, await _find_credential(request)))


async def create(request: PageRequest) -> Response[Any]:
    name, scopes = request.field("name"), request.fields("scope")
    if moves_money(scopes, request.mode):
        require_step_up(request, "Criar uma credencial que movimenta dinheiro", _step_up_facts(name, scopes))
    try:
        async with request.change("credential.created", subject=name[:NAME_MAX], test=request.test) as conn:
            new_credential = await create_credential(
                conn,
                request.session.account_id,
                mode=request.mode,
                name=name,
                scopes=scopes,
                by=request.session.email,
                role=request.session.role,
                now=request.now,
                chance=secrets.token_bytes(CHANCE),
            )
            await _mail_owners(conn, request, "credential.created", name, scopes)
    except Refused as refused:
        faults = {field: _FAULTS[field] for field in refused.fields or {}}
        return await _list_page(request, name=name, scopes=scopes, faults=faults)
    return _secret_page(request, new_credential, "Credencial criada")


async def rotate(request: PageRequest) -> Response[Any]:
    credential = await _find_credential(request)
    if not _may_rotate(request, credential):
        # With the new secret this person would hold scopes that they may not grant.
        raise PermissionDeniedException
    if moves_money(credential.scopes, request.mode):
        facts = _step_up_facts(credential.name or credential.client_id, credential.scopes)
        require_step_up(request, "Trocar o segredo de uma credencial que movimenta dinheiro", facts)
    overlap_name = request.field("overlap")
    if overlap_name not in OVERLAPS:
        values = _page_values(request, credential) | {"fault": "Escolha até quando o segredo antigo vale."}
        return request.show("token.html", values, status=400)
    async with request.change("credential.rotated", subject=credential.client_id, overlap=overlap_name) as conn:
        new_credential = await rotate_credential(
            conn,
            request.session.account_id,
            credential.client_id,
            overlap=OVERLAPS[overlap_name],
            by=request.session.email,
            now=request.now,
            chance=secrets.token_bytes(CHANCE),
        )
        if new_credential is None:
            raise NotFoundException
        await _mail_owners(
            conn, request, "credential.rotated", credential.name or credential.client_id, credential.scopes
        )
    overlap = OVERLAPS[overlap_name]
    return _secret_page(request, new_credential, "Segredo trocado", request.now + overlap if overlap else None)


async def revoke(request: PageRequest) -> Response[Any]:
    credential = await _find_credential(request)
    if not may_revoke(request.session.role, credential.scopes, request.mode):
        raise PermissionDeniedException
    if request.field("sure") != "yes":
        values = _page_values(request, credential) | {"revoke_fault": "Confirme que quer revogar."}
        return request.show("token.html", values, status=400)
    async with request.change("credential.revoked", subject=credential.client_id) as conn:
        if not await revoke_credential(conn, request.session.account_id, credential.client_id, now=request.now):
            raise NotFoundException
    return request.go(request.here("/tokens"), done="revogada")


def _step_up_facts(name: str, scopes: Collection[str]) -> dict[str, str]:
    return {"Nome": name, "Permissões": ", ".join(words for scope, words in SCOPES.items() if scope in scopes)}


async def _mail_owners(conn: Connection, request: PageRequest, kind: str, name: str, scopes: Collection[str]) -> None:
    """Mails all owners that a person was shown a production secret; if it can move money, with its money scopes."""
    if request.test:
        return
    if moves_money(scopes, request.mode):
        kind, scopes = "credential.money", MONEY_SCOPES.intersection(scopes)
    facts = {"name": name, "scopes": ", ".join(SCOPES[scope] for scope in sorted(scopes)), **request.doer}
    account_id = request.session.account_id
    await mail_owners(conn, account_id, kind, facts, now=request.now, seal=request.seal)


async def _list_page(
    request: PageRequest, *, name: str = "", scopes: list[str] | None = None, faults: dict[str, str] | None = None
) -> Response[Any]:
    async with session(request.pool) as conn:
        credentials = await credentials_of(conn, request.session.account_id)
    values = {
        "production": [each for each in credentials if not each.test],
        "sandbox": [each for each in credentials if each.test],
        "name": name,
        "chosen": list(ALL_SCOPES) if scopes is None else scopes,
        "grantable": {mode.test: grantable(request.session.role, mode) for mode in Mode},
        "faults": faults or {},
        "now": request.now,
    }
    return request.show("tokens.html", values, status=400 if faults else 200)


async def _find_credential(request: PageRequest) -> CredentialRow:
    """Returns the account's credential of this mode that is not revoked; 404 for any other."""
    client_id = request.text_of_path("client_id")
    if not client_id.isascii() or not client_id.isprintable():
        raise NotFoundException
    async with session(request.pool) as conn:
        row = await find_credential(conn, client_id=client_id, account_id=request.session.account_id)
    if row is None or row.test != request.test or row.revoked_at is not None:
        raise NotFoundException
    return row


def _may_rotate(request: PageRequest, credential: CredentialRow) -> bool:
    return grantable(request.session.role, request.mode).issuperset(credential.scopes)


def _page_values(request: PageRequest, credential: CredentialRow) -> dict[str, object]:
    return {
        "credential": credential,
        "may_rotate": _may_rotate(request, credential),
        "may_revoke": may_revoke(request.session.role, credential.scopes, request.mode),
        "now": request.now,
        "fault": "",
        "revoke_fault": "",
    }


def _secret_page(
    request: PageRequest, new_credential: NewCredential, title: str, previous_until: datetime | None = None
) -> Response[Any]:
    account_id = str(request.session.account_id)
    fields = {
        "client_id": new_credential.client_id,
        "client_secret": new_credential.client_secret,
        "account_id": account_id,
    }
    return request.show_secret(title, fields, (request.here("/tokens"), "Voltar às credenciais"), previous_until)
