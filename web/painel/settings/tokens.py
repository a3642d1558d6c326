"""Credentials of programs: production and test apart, secrets shown once."""

import secrets
from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.merchants.merchants import ALL_SCOPES, Credential
from commands.people.credentials import (
    CHANCE,
    CREDENTIALS_MAX,
    NAME_MAX,
    OVERLAPS,
    create_credential,
    revoke_credential,
    rotate_credential,
)
from domain.errors import Refused
from readmodels.dashboard.settings import CredentialRow, credentials_of, find_credential
from runtime.postgres import session
from web.painel.labels import OVERLAPS as OVERLAP_WORDS
from web.painel.labels import SCOPES
from web.painel.page_request import PageRequest

_FAULTS = {
    "name": f"Dê um nome com até {NAME_MAX} caracteres.",
    "scopes": "Escolha ao menos uma permissão.",
    "limit": f"São no máximo {CREDENTIALS_MAX} credenciais ativas. Revogue uma que não é mais usada.",
}


async def show_list(visit: PageRequest) -> Response[Any]:
    return await _list(visit)


async def show(visit: PageRequest) -> Response[Any]:
    return visit.show("token.html", _values_of(visit, await _credential(visit)))


async def create(visit: PageRequest) -> Response[Any]:
    name, scopes = visit.field("name"), visit.fields("scope")
    try:
        async with visit.change("credential.created", subject=name[:NAME_MAX], test=visit.test) as conn:
            made = await create_credential(
                conn,
                visit.session.account_id,
                test=visit.test,
                name=name,
                scopes=scopes,
                now=visit.now,
                chance=secrets.token_bytes(CHANCE),
            )
    except Refused as refused:
        faults = {field: _FAULTS[field] for field in refused.fields or {}}
        return await _list(visit, name=name, scopes=scopes, faults=faults)
    return _secret(visit, made, "Credencial criada", None)


async def rotate(visit: PageRequest) -> Response[Any]:
    credential = await _credential(visit)
    chosen = visit.field("overlap")
    if chosen not in OVERLAPS:
        values = _values_of(visit, credential) | {"fault": "Escolha até quando o segredo antigo vale."}
        return visit.show("token.html", values, status=400)
    async with visit.change("credential.rotated", subject=credential.client_id, overlap=chosen) as conn:
        made = await rotate_credential(
            conn,
            visit.session.account_id,
            credential.client_id,
            overlap=OVERLAPS[chosen],
            now=visit.now,
            chance=secrets.token_bytes(CHANCE),
        )
        if made is None:
            raise NotFoundException
    overlap = OVERLAPS[chosen]
    return _secret(visit, made, "Segredo trocado", visit.now + overlap if overlap else None)


async def revoke(visit: PageRequest) -> Response[Any]:
    credential = await _credential(visit)
    if visit.field("sure") != "yes":
        values = _values_of(visit, credential) | {"revoke_fault": "Confirme que quer revogar."}
        return visit.show("token.html", values, status=400)
    async with visit.change("credential.revoked", subject=credential.client_id) as conn:
        if not await revoke_credential(conn, visit.session.account_id, credential.client_id, now=visit.now):
            raise NotFoundException
    return visit.go(visit.here("/tokens"), done="revogada")


async def _list(
    visit: PageRequest, *, name: str = "", scopes: list[str] | None = None, faults: dict[str, str] | None = None
) -> Response[Any]:
    async with session(visit.pool) as conn:
        found = await credentials_of(conn, visit.session.account_id)
    values = {
        "production": [each for each in found if not each.test],
        "sandbox": [each for each in found if each.test],
        "scopes": SCOPES,
        "name": name,
        "chosen": list(ALL_SCOPES) if scopes is None else scopes,
        "faults": faults or {},
        "now": visit.now,
    }
    return visit.show("tokens.html", values, status=400 if faults else 200)


async def _credential(visit: PageRequest) -> CredentialRow:
    """The account's credential of this mode that still works; anything else is not there."""
    client_id = visit.text_of_path("client_id")
    if not client_id.isascii() or not client_id.isprintable():
        raise NotFoundException
    async with session(visit.pool) as conn:
        found = await find_credential(conn, client_id=client_id, account_id=visit.session.account_id)
    if found is None or found.test != visit.test or found.revoked_at is not None:
        raise NotFoundException
    return found


def _values_of(visit: PageRequest, credential: CredentialRow) -> dict[str, object]:
    return {
        "credential": credential,
        "scopes": SCOPES,
        "overlaps": OVERLAP_WORDS,
        "now": visit.now,
        "fault": "",
        "revoke_fault": "",
    }


def _secret(visit: PageRequest, made: Credential, title: str, previous_until: object) -> Response[Any]:
    shown = {
        "title": title,
        "fields": [("client_id", made.client_id), ("client_secret", made.client_secret)],
        "previous_until": previous_until,
        "back": visit.here("/tokens"),
        "back_text": "Voltar às credenciais",
    }
    return visit.show("secret.html", shown)
