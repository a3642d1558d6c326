"""The account's people, for its owners: taken in, given a role, let in again, let go."""

import asyncio
import secrets
from typing import Any

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.people.people import PEOPLE_MAX, ROLES, add_person, change_role, remove_person, reset_access
from domain.errors import Refused
from readmodels.dashboard.people import people_of_account
from runtime.passwords import hash_password
from runtime.postgres import session
from web.painel.labels import ROLES as ROLE_WORDS
from web.painel.page_request import PageRequest

_FAULTS = {
    "email": "Este e-mail não pode ser usado. Confira, ou use outro.",
    "role": "Escolha um perfil.",
    "limit": f"São no máximo {PEOPLE_MAX} pessoas.",
}
_LAST_OWNER = "A conta precisa de ao menos um proprietário. Escolha outro antes."
_PASSWORD_BYTES = 12


async def show(visit: PageRequest) -> Response[Any]:
    return await _page(visit)


async def add(visit: PageRequest) -> Response[Any]:
    email, role = visit.field("email").lower(), visit.field("role")
    password, hashed = await _new_password(visit)
    try:
        async with visit.change("person.added", subject=email, role=role) as conn:
            await add_person(conn, visit.session.account_id, email, role, hashed, now=visit.now)
    except Refused as refused:
        faults = {field: _FAULTS[field] for field in refused.fields or {}}
        return await _page(visit, email=email, role=role, faults=faults)
    return _password(visit, email, password, "Pessoa adicionada")


async def set_role(visit: PageRequest) -> Response[Any]:
    email, role = visit.field("email"), visit.field("role")
    try:
        async with visit.change("person.role_changed", subject=email, role=role) as conn:
            if not await change_role(conn, visit.session.account_id, email, role):
                raise NotFoundException
    except Refused:
        return await _page(visit, at=email, at_fault=_LAST_OWNER if role in ROLES else _FAULTS["role"])
    return visit.go("/painel/pessoas" if email != visit.session.email else "/painel", done="perfil")


async def reset(visit: PageRequest) -> Response[Any]:
    email = visit.field("email")
    if visit.field("sure") != "yes":
        return await _page(visit, at=email, at_fault="Confirme que quer dar um novo acesso.")
    password, hashed = await _new_password(visit)
    async with visit.change("person.access_reset", subject=email) as conn:
        if not await reset_access(conn, visit.session.account_id, email, hashed):
            raise NotFoundException
    return _password(visit, email, password, "Novo acesso")


async def remove(visit: PageRequest) -> Response[Any]:
    email = visit.field("email")
    if visit.field("sure") != "yes":
        return await _page(visit, at=email, at_fault="Confirme que quer remover.")
    try:
        async with visit.change("person.removed", subject=email) as conn:
            if not await remove_person(conn, visit.session.account_id, email):
                raise NotFoundException
    except Refused:
        return await _page(visit, at=email, at_fault=_LAST_OWNER)
    return visit.go("/painel/pessoas", done="pessoa-removida")


async def _new_password(visit: PageRequest) -> tuple[str, str]:
    """A password, and what is kept of it."""
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    async with visit.request.app.state.sign_in_turns:
        return password, await asyncio.to_thread(hash_password, password)


async def _page(
    visit: PageRequest,
    *,
    email: str = "",
    role: str = "",
    faults: dict[str, str] | None = None,
    at: str = "",
    at_fault: str = "",
) -> Response[Any]:
    async with session(visit.pool) as conn:
        people = await people_of_account(conn, visit.session.account_id)
    if at_fault and at not in {each.email for each in people}:
        raise NotFoundException
    values = {
        "people": people,
        "roles": ROLE_WORDS,
        "choices": {each: ROLE_WORDS[each] for each in ROLES},
        "email": email,
        "role": role or "support",
        "faults": faults or {},
        "at": at,
        "at_fault": at_fault,
    }
    return visit.show("team.html", values, status=400 if faults or at_fault else 200)


def _password(visit: PageRequest, email: str, password: str, title: str) -> Response[Any]:
    shown = {
        "title": title,
        "fields": [("E-mail", email), ("Senha", password)],
        "previous_until": None,
        "back": "/painel/pessoas",
        "back_text": "Voltar às pessoas",
    }
    return visit.show("secret.html", shown)
