"""The account's people, for its owners: taken in, given a role, let in again, let go."""

import asyncio
import secrets
from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.people.credentials import revoke_credential
from commands.people.people import PEOPLE_MAX, ROLES, add_person, change_role, remove_person, reset_access
from domain.errors import Refused
from readmodels.dashboard.credentials import credentials_of_person
from readmodels.dashboard.people import people_of_account
from runtime.passwords import hash_password
from runtime.postgres import session
from web.painel.auth.step_up import must_be_proven
from web.painel.labels import ROLES as ROLE_WORDS
from web.painel.page_request import PageRequest

_FAULTS = {
    "email": "Este e-mail não pode ser usado. Confira, ou use outro.",
    "role": "Escolha um perfil.",
    "limit": f"São no máximo {PEOPLE_MAX} pessoas.",
}
_LAST_OWNER = "A conta precisa de ao menos um proprietário. Escolha outro antes."
_PASSWORD_BYTES = 12
_SUBJECT_MAX = 500


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request)


async def add(request: PageRequest) -> Response[Any]:
    must_be_proven(request)
    email, role = request.field("email").lower(), request.field("role")
    password, hashed = await _new_password(request)
    try:
        async with request.change("person.added", subject=email, role=role) as conn:
            await add_person(conn, request.session.account_id, email, role, hashed, now=request.now)
    except Refused as refused:
        faults = {field: _FAULTS[field] for field in refused.fields or {}}
        return await _page(request, email=email, role=role, faults=faults)
    return _password(request, email, password, "Pessoa adicionada")


async def set_role(request: PageRequest) -> Response[Any]:
    must_be_proven(request)
    email, role = request.field("email"), request.field("role")
    try:
        async with request.change("person.role_changed", subject=email, role=role) as conn:
            if not await change_role(conn, request.session.account_id, email, role):
                raise NotFoundException
    except Refused:
        return await _page(request, at=email, at_fault=_LAST_OWNER if role in ROLES else _FAULTS["role"])
    return request.go("/painel/pessoas" if email != request.session.email else "/painel", done="perfil")


async def reset(request: PageRequest) -> Response[Any]:
    email = request.field("email")
    if request.field("sure") != "yes":
        return await _page(request, at=email, at_fault="Confirme que quer dar um novo acesso.")
    if email == request.session.email:
        # It would show a new password, and remove the second factor, to whoever sits at this browser.
        return await _page(request, at=email, at_fault="O seu próprio acesso se troca em “Seu acesso”, com a senha.")
    must_be_proven(request)
    password, hashed = await _new_password(request)
    async with request.change("person.access_reset", subject=email) as conn:
        if not await reset_access(conn, request.session.account_id, email, hashed):
            raise NotFoundException
    return _password(request, email, password, "Novo acesso")


async def remove(request: PageRequest) -> Response[Any]:
    email = request.field("email")
    if request.field("sure") != "yes":
        return await _page(request, at=email, at_fault="Confirme que quer remover.")
    try:
        async with request.change("person.removed", subject=email) as conn:
            if not await remove_person(conn, request.session.account_id, email):
                raise NotFoundException
            known = await credentials_of_person(conn, account_id=request.session.account_id, email=email)
    except Refused:
        return await _page(request, at=email, at_fault=_LAST_OWNER)
    if known and email != request.session.email:
        return request.show("person_removed.html", {"email": email, "credentials": known})
    return request.go("/painel/pessoas", done="pessoa-removida")


async def revoke_known(request: PageRequest) -> Response[Any]:
    """The credentials that were ticked, of those that somebody who was removed may have written down."""
    chosen = request.fields("client_id")
    async with request.change("credential.revoked", subject=" ".join(chosen)[:_SUBJECT_MAX], count=len(chosen)) as conn:
        for client_id in chosen:
            await revoke_credential(conn, request.session.account_id, client_id, now=request.now)
    return request.go("/painel/pessoas", done="revogadas")


async def _new_password(request: PageRequest) -> tuple[str, str]:
    """A password, and what is kept of it."""
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    async with request.http.app.state.sign_in_turns:
        return password, await asyncio.to_thread(hash_password, password)


async def _page(
    request: PageRequest,
    *,
    email: str = "",
    role: str = "",
    faults: dict[str, str] | None = None,
    at: str = "",
    at_fault: str = "",
) -> Response[Any]:
    async with session(request.pool) as conn:
        people = await people_of_account(conn, request.session.account_id)
    if at_fault and at not in {each.email for each in people}:
        raise NotFoundException
    values = {
        "people": people,
        "choices": {each: ROLE_WORDS[each] for each in ROLES},
        "email": email,
        "role": role or "support",
        "faults": faults or {},
        "at": at,
        "at_fault": at_fault,
    }
    return request.show("team.html", values, status=400 if faults or at_fault else 200)


def _password(request: PageRequest, email: str, password: str, title: str) -> Response[Any]:
    return request.show_secret(title, {"E-mail": email, "Senha": password}, ("/painel/pessoas", "Voltar às pessoas"))
