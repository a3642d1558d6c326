"""The platform's own people, for its admins: invite them, change their roles, send them a new link, remove them. All
admins are mailed each of these changes.

Nobody sees another person's password: a person who is invited, or has lost the password, is mailed a link. The page
shows the staff of the cell that the admin works in. Home's staff work in all cells, so home's admins are mailed the
changes of every cell; a cell may have no staff of its own.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.people.links import ask_for_link
from commands.people.people import NAME_MAX, check_name, clear_factor
from commands.people.staff import (
    ACCESS_SENT,
    FACTOR_CLEARED,
    INVITED,
    REMOVED,
    ROLE_CHANGED,
    STAFF_MAX,
    add_staff,
    change_staff_role,
    is_staff,
    remove_staff,
)
from commands.people.tell import mail_admins
from domain.errors import Code, Refused
from domain.merchants.staff import ROLES
from readmodels.dashboard.people import staff
from runtime.cells.number import HOME, cell_of_hex, current_cell, in_cell
from runtime.postgres import DB_UNAVAILABLE, session, transaction
from sql import Connection
from web.cells import home_of
from web.painel.auth.step_up import require_step_up
from web.painel.fields import Filled
from web.painel.labels import ROLES as ROLE_WORDS
from web.painel.page_request import PageRequest
from web.painel.settings.team import count_invite
from web.plataforma.labels import STAFF_ROLES

_PATH: Final = "/plataforma/equipe"
_FAULTS: Final = {
    "email": "Confira o e-mail. Quem já entra aqui ou em um painel não é convidado.",
    "name": f"Escreva o nome da pessoa, com até {NAME_MAX} caracteres e sem endereços da web.",
    "role": "Escolha um perfil.",
    "limit": f"São no máximo {STAFF_MAX} pessoas.",
}
_TOO_MANY_MAILS: Final = "Foram muitos e-mails em um dia. Espere até amanhã."
_LAST_ADMIN: Final = "Ao menos uma pessoa da administração, já com senha, precisa ficar. Escolha outra antes."


async def show(request: PageRequest) -> Response[Any]:
    return await _page(request)


async def add(request: PageRequest) -> Response[Any]:
    """Invites a person, who is mailed a link."""
    filled = Filled(request)
    email, name, role = filled.value("email").lower(), filled.value("name"), filled.value("role")
    facts = {"Nome": name, "E-mail": email, "Perfil": ROLE_WORDS.get(role, role)}
    require_step_up(request, "Convidar uma pessoa para a equipe", facts)
    try:
        await count_invite(request)
        check_name(name)
        async with _change_staff(request, INVITED, {"person": email, "name": name, "role": role}) as conn:
            await add_staff(conn, email, None, role=role, name=name, given_at=request.now, now=request.now)
            await ask_for_link(conn, email, now=request.now, seal=request.seal)
    except Refused as refused:
        if refused.code is Code.RATE_LIMITED:
            filled.wrong("form", _TOO_MANY_MAILS)
        for field in refused.fields or {}:
            filled.wrong("form" if field == "limit" else field, _FAULTS[field])
        return await _page(request, filled)
    return request.go(_PATH, done="convite")


async def set_role(request: PageRequest) -> Response[Any]:
    email, role = request.field("email"), request.field("role")
    facts = {"E-mail": email, "Perfil novo": ROLE_WORDS.get(role, role)}
    require_step_up(request, "Mudar o perfil de uma pessoa da equipe", facts)
    try:
        async with _change_staff(request, ROLE_CHANGED, {"person": email, "role": role}) as conn:
            if not await change_staff_role(conn, email, role, given_at=request.now):
                raise NotFoundException
    except Refused:
        return await _page(request, at=email, at_fault=_LAST_ADMIN if role in ROLES else _FAULTS["role"])
    return request.go("/plataforma" if _is_self(request, email) else _PATH, done="perfil")


async def send_link(request: PageRequest) -> Response[Any]:
    """Mails a link to a person who lost the password; also turns the second factor off when that box is ticked."""
    email = request.field("email")
    if request.field("sure") != "yes":
        return await _page(request, at=email, at_fault="Confirme que quer enviar o link.")
    if _is_self(request, email):
        # Otherwise anybody at an open browser could turn off the second factor of its owner.
        return await _page(request, at=email, at_fault="O seu próprio acesso se troca em “Seu acesso”, com a senha.")
    clears_factor = request.field("factor") == "yes"
    facts = {"E-mail": email, "Dois fatores": "serão desligados" if clears_factor else ""}
    require_step_up(request, "Enviar um link de acesso a uma pessoa da equipe", facts)
    try:
        await count_invite(request)
    except Refused:
        return await _page(request, at=email, at_fault=_TOO_MANY_MAILS)
    kind = FACTOR_CLEARED if clears_factor else ACCESS_SENT
    async with _change_staff(request, kind, {"person": email}) as conn:
        if not await is_staff(conn, email):
            raise NotFoundException
        if clears_factor:
            await clear_factor(conn, email)
        await ask_for_link(conn, email, now=request.now, seal=request.seal)
    return request.go(_PATH, done="link-enviado")


async def remove(request: PageRequest) -> Response[Any]:
    """Removes a person, whose next request is refused in every cell."""
    email = request.field("email")
    if request.field("sure") != "yes":
        return await _page(request, at=email, at_fault="Confirme que quer remover.")
    require_step_up(request, "Remover uma pessoa da equipe", {"E-mail": email})
    try:
        async with _change_staff(request, REMOVED, {"person": email}) as conn:
            if not await remove_staff(conn, email):
                raise NotFoundException
    except Refused:
        return await _page(request, at=email, at_fault=_LAST_ADMIN)
    return request.go(_PATH, done="pessoa-removida")


@asynccontextmanager
async def _change_staff(request: PageRequest, kind: str, facts: Mapping[str, str]) -> AsyncIterator[Connection]:
    """`PageRequest.change` that also mails all admins, home's included. While home is away, a change in another cell
    goes on without mailing home's admins."""
    mail_facts, audit_facts = {**facts, **request.doer}, {"role": facts["role"]} if "role" in facts else {}
    async with request.change(kind, subject=facts["person"], **audit_facts) as conn:
        # Before the change, so that an admin who is removed or loses that role is mailed too.
        await mail_admins(conn, kind, mail_facts, now=request.now, seal=request.seal)
        yield conn
        cells = {each.number: each for each in request.http.app.state.cells()}
        if current_cell() != HOME and (home := home_of([*cells.values()])) is not None:
            mail_facts["cell"] = cells[current_cell()].name
            with in_cell(HOME), suppress(*DB_UNAVAILABLE):
                async with transaction(home.people_pool) as home_conn:
                    await mail_admins(home_conn, kind, mail_facts, now=request.now, seal=request.seal)


def _is_self(request: PageRequest, email: str) -> bool:
    """Whether the e-mail is the reader's own: in a cell other than the session's, it may be another person's."""
    return email == request.session.email and cell_of_hex(request.cookie) in (None, current_cell())


async def _page(
    request: PageRequest, filled: Filled | None = None, *, at: str = "", at_fault: str = ""
) -> Response[Any]:
    async with session(request.pool) as conn:
        people = await staff(conn)
    if at_fault and at not in {each.email for each in people}:
        raise NotFoundException
    values = {
        "people": people,
        "choices": {each: ROLE_WORDS[each] for each in ROLES},
        "about": STAFF_ROLES,
        "filled": filled or Filled(shown={"role": "support"}),
        "at": at,
        "at_fault": at_fault,
        "is_self": lambda email: _is_self(request, email),
    }
    has_faults = at_fault or (filled is not None and filled.faults)
    return request.show("plataforma/staff.html", values, status=400 if has_faults else 200)
