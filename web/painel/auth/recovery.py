"""Choosing a password by a mailed link: the page on which a person asks for a link, and the page that a link opens.

The answer is the same whether or not the e-mail is anybody's. Opening a link changes nothing, because mail scanners
follow every link; only the form on its page uses the link up. A link signs nobody in: the sign-in page asks for the new
password, and for the second factor, next.
"""

import asyncio
from typing import Any

from litestar.response import Response

from commands.people.attempts import take_link
from commands.people.audit import write_audit_entry
from commands.people.links import HOLDS, LinkHolder, ask_for_link, link_holder, use_link
from commands.people.people import NAME_MAX, PASSWORD_MIN, check_password
from domain.errors import Refused
from domain.instants import to_millisecond
from domain.merchants.staff import PLATFORM
from domain.payer import EMAIL_MAX
from runtime.passwords import hash_password
from runtime.postgres import session, transaction
from web.painel.auth.devices import remember_device
from web.painel.auth.entry_form import (
    TOO_LATE,
    accounts_away,
    audit_entry,
    entry_address,
    entry_page,
    is_email,
    read_entry_form,
    throttled,
    wait_for,
)
from web.painel.auth.step_up import password_refusal_text
from web.painel.labels import ROLES
from web.painel.page_request import AnyRequest, Form, address_of, go
from web.painel.section import PLATAFORMA, Section

_LINK_MINUTES = int(HOLDS.total_seconds()) // 60


async def show_ask(request: AnyRequest, section: Section) -> Response[Any]:
    return _ask_page(request, section)


async def ask(request: AnyRequest, section: Section) -> Response[Any]:
    state = request.app.state
    seal = state.context.seal
    form = await read_entry_form(request, section)
    if form is None:
        return _ask_page(request, section, fault=TOO_LATE, status=403)
    email = form.get("email", [""])[0].strip().lower()[:EMAIL_MAX]
    if not is_email(email):
        return _ask_page(request, section, email=email, fault="Informe o seu e-mail.", status=400)
    now = to_millisecond(state.now())
    try:
        async with session(state.pool) as conn:
            is_allowed = await take_link(conn, email, address_of(request), now=now, seal=seal)
    except Refused as refused:
        return throttled(_ask_page(request, section, email=email, fault=wait_for(refused), status=429), refused)
    if is_allowed:
        async with transaction(state.pool) as conn:
            await ask_for_link(conn, email, now=now, seal=seal)
    return _ask_page(request, section, email=email, asked=True)


async def show_link(request: AnyRequest, section: Section) -> Response[Any]:
    holder = await _link_holder(request, section)
    return _link_over_page(request, section) if holder is None else _link_page(request, section, holder)


async def choose(request: AnyRequest, section: Section) -> Response[Any]:
    """Stores the new password, once for each link, and redirects to the sign-in page."""
    state = request.app.state
    seal = state.context.seal
    form = await read_entry_form(request, section)
    holder = await _link_holder(request, section)
    if holder is None:
        return _link_over_page(request, section)
    fault = TOO_LATE if form is None else _new_password_fault(form, holder.email)
    if form is None or fault:
        return _link_page(request, section, holder, fault=fault, status=400)
    name = " ".join(form.get("name", [""])[0].split()) or None
    async with state.sign_in_turns:
        password_hash = await asyncio.to_thread(hash_password, form["new"][0])
    now = to_millisecond(state.now())
    try:
        async with transaction(state.pool) as conn:
            used = await use_link(conn, request.path_params["token"], password_hash, name, now=now, seal=seal)
            if used is not None:
                action = "password.chosen" if used.fresh else "password.recovered"
                await write_audit_entry(conn, audit_entry(request, used, action), now=now)
    except Refused as refused:
        fault = _FAULTS[next(iter(refused.fields or {}))]
        return _link_page(request, section, holder, fault=fault, name=name or "", status=400)
    if used is None:
        return _link_over_page(request, section)
    answer = go(entry_address(request, section, "senha=1"))
    remember_device(request, section, answer, used.email, password_hash)
    return answer


_FAULTS = {
    "name": f"Escreva o seu nome, com até {NAME_MAX} caracteres.",
    "email": "Este e-mail já entra em outra conta. Peça o convite para outro endereço.",
    "limit": "A conta já tem o número máximo de pessoas. Fale com quem o convidou.",
}


async def _link_holder(request: AnyRequest, section: Section) -> LinkHolder | None:
    state = request.app.state
    async with session(state.pool) as conn:
        holder = await link_holder(conn, request.path_params["token"], now=to_millisecond(state.now()))
    return None if holder is None or (holder.account_id == PLATFORM) != (section is PLATAFORMA) else holder


def _new_password_fault(form: Form, email: str) -> str:
    password = form.get("new", [""])[0]
    try:
        check_password(password, email)
    except Refused as refused:
        return password_refusal_text(refused)
    return "" if password == form.get("again", [""])[0] else "As duas senhas são diferentes."


def _ask_page(
    request: AnyRequest, section: Section, *, email: str = "", fault: str = "", asked: bool = False, status: int = 200
) -> Response[Any]:
    values = {
        "email": email, "fault": fault, "asked": asked, "minutes": _LINK_MINUTES, "away": accounts_away(request),
    }  # fmt: skip
    return entry_page(request, section, "painel/recover.html", values, status=status)


def _link_page(
    request: AnyRequest, section: Section, holder: LinkHolder, *, fault: str = "", name: str = "", status: int = 200
) -> Response[Any]:
    values = {
        "holder": holder,
        "name": name,
        "role": ROLES[holder.role],
        "token": request.path_params["token"],
        "fault": fault,
        "length_min": PASSWORD_MIN,
    }
    return entry_page(request, section, "painel/choose_password.html", values, status=status)


def _link_over_page(request: AnyRequest, section: Section) -> Response[Any]:
    """Answers a link that was used, has expired or never existed, without saying which."""
    return entry_page(request, section, "painel/link_over.html", {"minutes": _LINK_MINUTES}, status=404)
