"""Signing in and out.

The form of the sign-in page has a token too, bound to a cookie of its own: nobody can sign a stranger's browser in to
an account of his choosing.
"""

import asyncio
import re
import secrets
from typing import Any
from urllib.parse import quote

import structlog
from litestar import get, post
from litestar.datastructures import Cookie
from litestar.exceptions import PermissionDeniedException
from litestar.response import Response
from litestar.types import ControllerRouterHandler

from commands.audit import Deed, write_down
from commands.sessions import (
    EMAIL_MOST,
    LIFETIME,
    PASSWORD_MOST,
    end_all_sessions,
    end_session,
    find_person,
    open_session,
    password_is_right,
    session_of,
    take_attempt,
)
from domain.errors import Refused
from domain.instants import to_millisecond
from runtime.ids import new_id
from runtime.postgres import session, transaction
from runtime.seal import Seal
from runtime.settings import Settings
from web.pages import page
from web.painel.visit import (
    AnyRequest,
    Visit,
    address_hash,
    address_of,
    csrf_token,
    go,
    page_headers,
    read_form,
    secure,
)

ENTRY = "/painel/entrar"
_BEFORE_S = 3_600
# Passwords looked at together, each some 50 ms of a core and 16 MiB; the others wait their turn.
_AT_ONCE = 2
# A page of ours and nothing else: it begins with one slash and a name of ours, so it cannot lead to another host.
_WHERE_TO = re.compile(r"/painel(/[A-Za-z0-9/_-]{0,200})?")

_log = structlog.get_logger()


def sign_in_turns() -> asyncio.Semaphore:
    """What an application looks at passwords with; kept in its state as `sign_in_turns`."""
    return asyncio.Semaphore(_AT_ONCE)


def entrance(path: str = "") -> str:
    """Where to sign in, and to go on to this page of ours afterwards."""
    return f"{ENTRY}?para={path}" if _WHERE_TO.fullmatch(path) else ENTRY


@get(ENTRY)
async def show(request: AnyRequest) -> Response[Any]:
    state = request.app.state
    async with session(state.pool) as conn:
        if await session_of(conn, cookie_of(request), now=state.now()) is not None:
            return go("/painel")
    return _form(request, where_to=request.query_params.get("para", ""))


@post(ENTRY, status_code=200)
async def enter(request: AnyRequest) -> Response[Any]:
    state = request.app.state
    seal = Seal(state.settings.secret_key)
    before = request.cookies.get(_name("entrada", state.settings), "")
    try:
        form = await read_form(request, seal, before)
    except PermissionDeniedException:
        # A cookie that ran out, or a browser without cookies: nothing was tried, so the form is shown again.
        return _form(request, fault="A página ficou aberta por muito tempo. Tente de novo.", status=403)
    email = form.get("email", [""])[0].strip().lower()[:EMAIL_MOST]
    password = form.get("password", [""])[0]
    where_to = form.get("para", [""])[0]
    now, address = to_millisecond(state.now()), address_of(request)
    try:
        async with session(state.pool) as conn:
            await take_attempt(conn, email, address, now=now, seal=seal)
            person = await find_person(conn, email) if _can_be(email) else None
    except Refused as refused:
        _log.warning("sign_in_throttled")
        minutes = -(-(refused.retry_after_s or 60) // 60)
        fault = f"Muitas tentativas. Espere {minutes} min e tente de novo."
        answer = _form(request, email=email, where_to=where_to, fault=fault, status=429)
        answer.headers["Retry-After"] = str(refused.retry_after_s)
        return answer
    right = len(password) <= PASSWORD_MOST
    async with state.sign_in_turns:
        right &= await asyncio.to_thread(password_is_right, password[:PASSWORD_MOST], person)
    if not right or person is None:
        _log.info("sign_in_refused")
        fault = "E-mail ou senha incorretos."
        return _form(request, email=email, where_to=where_to, fault=fault, status=403)
    async with transaction(state.pool) as conn:
        cookie = await open_session(conn, person, address, now=now, chance=secrets.token_bytes(32), seal=seal)
        deed = Deed(
            audit_id=new_id(),
            account_id=person.account_id,
            email=person.email,
            action="session.opened",
            subject=None,
            facts={},
            address_hash=address_hash(request, seal),
            request_id=str(request.scope["state"]["request_id"]),
        )
        await write_down(conn, deed, now=now)
    _log.info("signed_in", account_id=str(person.account_id))
    answer = go(where_to if _WHERE_TO.fullmatch(where_to) else "/painel")
    answer.set_cookie(_cookie("painel", cookie, state.settings, int(LIFETIME.total_seconds())))
    answer.set_cookie(_cookie("entrada", "", state.settings, 0))
    return answer


async def leave(visit: Visit) -> Response[Any]:
    """Sign this browser out."""
    async with visit.change("session.ended") as conn:
        await end_session(conn, visit.cookie)
    return _gone(visit)


async def leave_everywhere(visit: Visit) -> Response[Any]:
    """Sign this person out of every browser, this one too."""
    async with visit.change("session.ended_everywhere") as conn:
        await end_all_sessions(conn, visit.session.email)
    return _gone(visit)


ENTRY_HANDLERS: list[ControllerRouterHandler] = [show, enter]


def cookie_of(request: AnyRequest) -> str:
    """The session's cookie; empty without one."""
    return request.cookies.get(_name("painel", request.app.state.settings), "")


def _gone(visit: Visit) -> Response[Any]:
    answer = go(f"{ENTRY}?saiu=1")
    answer.set_cookie(_cookie("painel", "", visit.settings, 0))
    return answer


def _can_be(email: str) -> bool:
    # What PostgreSQL would not even take as text is nobody's e-mail.
    return email.isprintable() and "@" in email


def _form(
    request: AnyRequest, *, email: str = "", where_to: str = "", fault: str = "", status: int = 200
) -> Response[Any]:
    settings: Settings = request.app.state.settings
    before = request.cookies.get(_name("entrada", settings), "")
    fresh = not re.fullmatch(r"[0-9a-f]{32}", before)
    if fresh:
        before = secrets.token_hex(16)
    values = {
        "csrf": csrf_token(Seal(settings.secret_key), before),
        "email": email,
        "where_to": where_to if _WHERE_TO.fullmatch(where_to) else "",
        "fault": fault,
        "left": request.query_params.get("saiu") == "1",
    }
    answer = page("painel/entry.html", values, status=status, headers=page_headers(settings))
    if fresh:
        answer.set_cookie(_cookie("entrada", before, settings, _BEFORE_S))
    return answer


def _name(name: str, settings: Settings) -> str:
    """Over TLS with the prefix by which a browser keeps a cookie to this host alone and refuses one set otherwise."""
    return f"__Host-{name}" if secure(settings) else name


def _cookie(name: str, value: str, settings: Settings, lifetime_s: int) -> Cookie:
    return Cookie(
        key=_name(name, settings),
        value=quote(value),
        path="/",
        max_age=lifetime_s,
        httponly=True,
        samesite="lax",
        secure=secure(settings),
    )
