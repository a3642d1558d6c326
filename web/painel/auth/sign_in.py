"""Signing in to either section and out of it: the password, then the code for people with a second factor.

Between password and code nothing is stored: the second form carries, sealed and valid for five minutes, the person
whose password was given in this browser. A sign-in with an unknown browser, or from a network that the person never
signed in from, is reported to the person by e-mail.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec
import structlog
from cryptography.exceptions import InvalidTag
from litestar.handlers import HTTPRouteHandler
from litestar.response import Response
from litestar.types import ControllerRouterHandler
from msgspec import Struct
from msgspec.structs import replace

from commands.people.attempts import reset_attempts, take_attempt, take_code_attempt
from commands.people.audit import write_audit_entry
from commands.people.people import renew_password
from commands.people.places import remember_place
from commands.people.second_factor import AcceptedCode, is_digits, take_code
from commands.people.sessions import (
    LIFETIME,
    PASSWORD_MAX,
    Person,
    Session,
    end_all_sessions,
    end_session,
    find_person,
    hash_of,
    open_session,
    password_is_right,
    prove_session,
    session_of,
)
from commands.people.tell import mail_person
from domain.errors import Refused
from domain.instants import to_millisecond
from domain.payer import EMAIL_MAX
from runtime.cells.number import current_cell
from runtime.passwords import hash_password, is_outdated
from runtime.postgres import Connection, Pool, session, transaction
from runtime.seal import Seal
from runtime.settings import Settings
from web.context import spend
from web.head import cookie_in, parameter_in
from web.pages import page
from web.painel.auth import recovery
from web.painel.auth.devices import browser_name, known_device, remember_device
from web.painel.auth.entry_form import (
    TOO_LATE,
    accounts_away,
    audit_entry,
    before,
    cookie_name,
    entry_address,
    entry_page,
    forget_choice,
    is_email,
    make_cookie,
    read_entry_form,
    throttled,
    wait_for,
)
from web.painel.auth.kept_form import Kept, carried, resend_page
from web.painel.page_request import PAGE_HEADERS, AnyRequest, PageRequest, address_of, csrf_token, go
from web.painel.section import PAINEL, PLATAFORMA, Section

_CODE_LIFETIME_S = 300
# Passwords checked concurrently, each some 20 ms of a core and 19 MiB.
_CHECKS_MAX = 2
# Where a sign-in may lead on to: paths of the section only, so that no redirect leads to another host.
_SECTION_PATHS = {each: re.compile(rf"{each.root}(/[A-Za-z0-9/_-]{{0,200}})?") for each in (PAINEL, PLATAFORMA)}

_log = structlog.get_logger()


class _PendingSignIn(Struct, frozen=True, array_like=True):
    """A sign-in between password and code: the person, the browser and section in which the password was right, and
    until when the code is awaited (Unix seconds)."""

    email: str
    before: str
    root: str
    until: int
    where_to: str


def sign_in_turns() -> asyncio.Semaphore:
    """Limits the concurrent password checks of an application; kept in its state as `sign_in_turns`."""
    return asyncio.Semaphore(_CHECKS_MAX)


def sign_in_path(request: AnyRequest, section: Section) -> str:
    """Returns the path of the sign-in page, which leads on to the requested page of the section afterwards."""
    path = request.scope["path"]
    query = f"para={path}" if is_page_of(section, path) else ""
    return entry_address(request, section, query, session_cookie=cookie_of(request, section))


def is_page_of(section: Section, path: str) -> bool:
    return _SECTION_PATHS[section].fullmatch(path) is not None


async def find_session(request: AnyRequest, section: Section, pool: Pool) -> Session | None:
    """Returns the session that the request's cookie names, or None. A request without one asks no database: it comes to
    home, and people of the other cells have to reach the sign-in page while home is away."""
    cookie = cookie_of(request, section)
    if hash_of(cookie) is None:
        return None
    async with session(pool) as conn:
        return await session_of(conn, cookie, section.side, now=request.app.state.now())


async def _show(request: AnyRequest, section: Section) -> Response[Any]:
    if await find_session(request, section, request.app.state.pool) is not None:
        return go(section.root)
    return _entry_form(request, section, where_to=parameter_in(request.scope, "para") or "")


def answer_signed_out(request: AnyRequest, section: Section, kept: Kept) -> Response[Any]:
    """Answers a form whose sender is not signed in any more; nothing that the form asks for is done."""
    if not kept:
        entry = entry_address(request, section, "terminou=1", session_cookie=cookie_of(request, section))
        return forget_choice(request, go(entry))
    return forget_choice(request, _entry_form(request, section, kept=kept, status=403))


async def _enter(request: AnyRequest, section: Section) -> Response[Any]:
    state = request.app.state
    seal = state.context.seal
    form = await read_entry_form(request, section)
    if form is None:
        return _entry_form(request, section, fault=TOO_LATE, status=403)
    email = form.get("email", [""])[0].strip().lower()[:EMAIL_MAX]
    password = form.get("password", [""])[0]
    kept = carried(form)
    where_to = form.get("para", [""])[0]
    now, address = to_millisecond(state.now()), address_of(request)
    try:
        async with session(state.pool) as conn:
            person = await find_person(conn, email, section.side) if is_email(email) else None
            device = known_device(request, section, person)
            await take_attempt(conn, email, address, now=now, seal=seal, device=device)
    except Refused as refused:
        answer = _entry_form(
            request, section, email=email, where_to=where_to, kept=kept, fault=wait_for(refused), status=429
        )
        return _throttled_answer(answer, refused)
    is_right = len(password) <= PASSWORD_MAX
    async with state.sign_in_turns:
        is_right &= await asyncio.to_thread(password_is_right, password[:PASSWORD_MAX], person)
    if not is_right or person is None:
        _log.info("sign_in_refused", section=section.root)
        fault = f"E-mail ou senha incorretos.{accounts_away(request)}"
        return _entry_form(request, section, email=email, where_to=where_to, kept=kept, fault=fault, status=403)
    person = await _renew_password_hash(request, person, password)
    if person.totp_sealed is not None:
        pending = _PendingSignIn(
            person.email, before(request, section), section.root, int(now.timestamp()) + _CODE_LIFETIME_S, where_to
        )
        return _code_form(request, section, pending, kept)
    async with transaction(state.pool) as conn:
        return await _open_session(request, section, conn, person, where_to, now=now, kept=kept)


async def _enter_code(request: AnyRequest, section: Section) -> Response[Any]:
    state = request.app.state
    seal = state.context.seal
    form = await read_entry_form(request, section)
    now, address = to_millisecond(state.now()), address_of(request)
    pending = None if form is None else _open_pending(form.get("passo", [""])[0], seal)
    if (
        form is None
        or pending is None
        or pending.until < now.timestamp()
        or (pending.before, pending.root) != (before(request, section), section.root)
    ):
        return _entry_form(request, section, fault=TOO_LATE, status=403)
    code = form.get("codigo", [""])[0]
    kept = carried(form)
    try:
        async with session(state.pool) as conn:
            person = await find_person(conn, pending.email, section.side)
            device = known_device(request, section, person)
            await take_attempt(conn, pending.email, address, now=now, seal=seal, device=device)
            if is_digits(code):
                await take_code_attempt(conn, pending.email, now=now, seal=seal)
    except Refused as refused:
        answer = _code_form(request, section, pending, kept, fault=wait_for(refused), status=429)
        return _throttled_answer(answer, refused)
    if person is None or person.totp_sealed is None:
        return _entry_form(request, section, fault=TOO_LATE, status=403)
    async with transaction(state.pool) as conn:
        accepted = await take_code(conn, person.email, code, now=now, seal=seal)
        if accepted is not None:
            facts = {} if accepted is AcceptedCode.CODE else {"with": accepted.value}
            return await _open_session(
                request, section, conn, person, pending.where_to, now=now, kept=kept, facts=facts
            )
        # Somebody in this browser knows the password: the audit log shows the wrong code, so that its owner can notice.
        await write_audit_entry(conn, audit_entry(request, person, "session.code_refused"), now=now)
    _log.info("code_refused", section=section.root)
    return _code_form(request, section, pending, kept, fault="Código incorreto ou já usado.", status=403)


async def _open_session(
    request: AnyRequest,
    section: Section,
    conn: Connection,
    person: Person,
    where_to: str,
    *,
    now: datetime,
    kept: Kept,
    facts: dict[str, Any] | None = None,
) -> Response[Any]:
    settings: Settings = request.app.state.settings
    seal: Seal = request.app.state.context.seal
    address, chance = address_of(request), secrets.token_bytes(32)
    device = known_device(request, section, person)
    await reset_attempts(conn, person.email, address, seal=seal, device=device, code=True)
    cookie = await open_session(conn, person, now=now, chance=chance)
    is_new_place = await remember_place(conn, person.email, address, now=now, seal=seal)
    if device is None or is_new_place:
        kind = "session.new_device" if device is None else "session.new_place"
        mail_facts = {"browser": browser_name(request), "from": address}
        await mail_person(conn, person.email, person.account_id, kind, mail_facts, now=now, seal=seal)
    await write_audit_entry(conn, audit_entry(request, person, "session.opened", facts), now=now)
    _log.info("signed_in", section=section.root, account_id=str(person.account_id))
    answer = resend_page(seal, kept, person.email, cookie)
    if answer is not None:
        # Somebody else at this browser may have filled the form in. The session therefore starts unproven: a form that
        # needs the step-up asks for the password again, and the page says what is confirmed (step_up.py).
        await prove_session(conn, cookie, now=now - LIFETIME)
    else:
        answer = go(where_to if is_page_of(section, where_to) else section.root)
    answer.set_cookie(make_cookie(section.cookie, cookie, settings, int(LIFETIME.total_seconds())))
    answer.set_cookie(make_cookie(section.before, "", settings, 0))
    if person.password_hash is not None:
        remember_device(request, section, answer, person.email, person.password_hash)
    return forget_choice(request, answer)


async def _renew_password_hash(request: AnyRequest, person: Person, password: str) -> Person:
    """Stores a new hash of the password, which was right, when the stored hash has outdated parameters."""
    state = request.app.state
    if person.password_hash is None or not is_outdated(person.password_hash):
        return person
    async with state.sign_in_turns:
        password_hash = await asyncio.to_thread(hash_password, password)
    async with session(state.pool) as conn:
        await renew_password(conn, email=person.email, was=person.password_hash, password_hash=password_hash)
    return replace(person, password_hash=password_hash)


async def leave(request: PageRequest) -> Response[Any]:
    """Sign this browser out."""
    async with request.change("session.ended") as conn:
        await end_session(conn, request.cookie)
    return _signed_out_answer(request)


async def sign_out_everywhere(request: PageRequest) -> Response[Any]:
    """Sign this person out of every browser, this one too."""
    async with request.change("session.ended_everywhere") as conn:
        await end_all_sessions(conn, request.session.email)
    return _signed_out_answer(request)


def entry_handlers(section: Section) -> list[ControllerRouterHandler]:
    """The pages of a section that need no sign-in."""
    entry_path, link_path = f"{section.root}/entrar", f"{section.root}/recuperar/{{token:str}}"
    pages = [
        _handler("GET", entry_path, _show, section),
        _handler("POST", entry_path, _enter, section),
        _handler("POST", f"{entry_path}/codigo", _enter_code, section),
        _handler("GET", link_path, recovery.show_link, section),
        _handler("POST", link_path, recovery.choose, section),
    ]
    if section is PLATAFORMA:
        return [*pages]  # the operator sends staff a link (`quita staff access`)
    ask_path = f"{section.root}/recuperar"
    return [
        *pages,
        _handler("GET", ask_path, recovery.show_ask, section),
        _handler("POST", ask_path, recovery.ask, section),
    ]


def cookie_of(request: AnyRequest, section: Section) -> str:
    """The session's cookie; empty without one."""
    return cookie_in(request.scope, cookie_name(section.cookie, request.app.state.settings))


def _handler(
    method: Any, path: str, handle: Callable[[AnyRequest, Section], Awaitable[Response[Any]]], section: Section
) -> HTTPRouteHandler:
    async def answer(request: AnyRequest) -> Response[Any]:
        if method == "POST":
            spend(request, "sign_ins_per_min")
        return await handle(request, section)

    answer.__name__ = f"{method.lower()}_entry_{section.cookie}{handle.__name__}"
    return HTTPRouteHandler(path, http_method=[method], status_code=200)(answer)


def _signed_out_answer(request: PageRequest) -> Response[Any]:
    answer = go(entry_address(request.http, request.section, "saiu=1"))
    answer.set_cookie(make_cookie(request.section.cookie, "", request.settings, 0))
    return forget_choice(request.http, answer)


def _throttled_answer(answer: Response[Any], refused: Refused) -> Response[Any]:
    _log.warning("sign_in_throttled")
    return throttled(answer, refused)


def _entry_form(
    request: AnyRequest,
    section: Section,
    *,
    email: str = "",
    where_to: str = "",
    kept: Kept | None = None,
    fault: str = "",
    status: int = 200,
) -> Response[Any]:
    values = {
        "email": email,
        "where_to": where_to if is_page_of(section, where_to) else "",
        "fault": fault,
        "kept": kept or [],
        "ended": parameter_in(request.scope, "terminou") == "1",
        "left": parameter_in(request.scope, "saiu") == "1",
        "chosen": parameter_in(request.scope, "senha") == "1",
    }
    return entry_page(request, section, "painel/entry.html", values, status=status)


_SEALED_AS = "half of a sign-in"


def _code_form(
    request: AnyRequest, section: Section, pending: _PendingSignIn, kept: Kept, *, fault: str = "", status: int = 200
) -> Response[Any]:
    seal: Seal = request.app.state.context.seal
    values = {
        "section": section,
        "csrf": csrf_token(seal, pending.before),
        # Begins with the number of this cell, by which the code is routed to the cell that asked for it.
        "step": f"{current_cell():03x}{seal.seal(msgspec.json.encode(pending), _SEALED_AS, '').hex()}",
        "kept": kept,
        "fault": fault,
    }
    return page("painel/entry_code.html", values, status=status, headers=PAGE_HEADERS)


def _open_pending(text: str, seal: Seal) -> _PendingSignIn | None:
    try:
        return msgspec.json.decode(seal.open(bytes.fromhex(text[3:]), _SEALED_AS, ""), type=_PendingSignIn)
    except (ValueError, InvalidTag):  # no hex, not sealed here, or sealed as something else
        return None
