"""Forms for people who are not signed in yet, and the cookies of these forms.

They have a CSRF token too, bound to a cookie of its own, so that an attacker cannot sign another person's browser in to
the attacker's account.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from litestar.datastructures import Cookie
from litestar.exceptions import PermissionDeniedException
from litestar.response import Response

from commands.people.audit import AuditEntry
from commands.people.links import LinkHolder
from commands.people.sessions import Person
from domain.errors import Refused
from runtime.cells.number import HOME, cell_of_hex, current_cell
from runtime.ids import new_id
from runtime.settings import Settings
from web.cells import CELLS_AWAY, CHOSEN
from web.head import cookie_in
from web.pages import page
from web.painel.page_request import PAGE_HEADERS, AnyRequest, Form, address_hash, csrf_token, read_form, secure
from web.painel.section import PLATAFORMA, Section

TOO_LATE: Final = "A página ficou aberta por muito tempo. Tente de novo."
_BEFORE_COOKIE_LIFETIME_S = 3_600


def before(request: AnyRequest, section: Section) -> str:
    """Returns the cookie that tells this browser from others before anybody has signed in."""
    return cookie_in(request.scope, cookie_name(section.before, request.app.state.settings))


async def read_entry_form(request: AnyRequest, section: Section) -> Form | None:
    """Reads a form of this browser. None when its cookie has expired or the browser keeps none: no password was tried,
    so the caller shows the form again."""
    try:
        return await read_form(request, before(request, section))
    except PermissionDeniedException:
        return None


def entry_address(request: AnyRequest, section: Section, query: str = "", *, session_cookie: str = "") -> str:
    """Returns the path of the sign-in page for the person of this session, or of the link that was followed. It names a
    cell other than home for its own staff, whom the form's e-mail would not lead there."""
    entry = f"{section.root}/entrar"
    session_cell = cell_of_hex(session_cookie)
    number = current_cell() if session_cell is None else session_cell
    cells = request.app.state.cells() if section is PLATAFORMA and number != HOME else ()
    choice = next((f"celula={each.name}" for each in cells if each.number == number), "")
    parameters = "&".join(each for each in (query, choice) if each)
    return f"{entry}?{parameters}" if parameters else entry


def accounts_away(request: AnyRequest) -> str:
    """A sentence to add to what a form about an e-mail answers: the person may be of a cell that could not be asked.
    Empty while all could. It does not depend on the e-mail, so it tells nobody which ones are known."""
    if not request.scope["state"].get(CELLS_AWAY):
        return ""
    return " Parte das contas está indisponível no momento: se a sua é uma delas, tente de novo em alguns instantes."


def entry_page(
    request: AnyRequest, section: Section, template: str, values: Mapping[str, object], *, status: int = 200
) -> Response[Any]:
    """Answers a page with a form that works in this browser only."""
    settings: Settings = request.app.state.settings
    cookie = before(request, section)
    is_new = not re.fullmatch(r"[0-9a-f]{32}", cookie)
    if is_new:
        cookie = secrets.token_hex(16)
    shown = {"section": section, "csrf": csrf_token(request.app.state.context.seal, cookie), "kept": [], **values}
    answer = page(template, shown, status=status, headers=PAGE_HEADERS)
    if is_new:
        answer.set_cookie(make_cookie(section.before, cookie, settings, _BEFORE_COOKIE_LIFETIME_S))
    return answer


def audit_entry(
    request: AnyRequest, person: Person | LinkHolder, action: str, facts: dict[str, Any] | None = None
) -> AuditEntry:
    return AuditEntry(
        audit_id=new_id(),
        account_id=person.account_id,
        email=person.email,
        action=action,
        subject=None,
        facts=facts or {},
        address_hash=address_hash(request),
        request_id=str(request.scope["state"]["request_id"]),
    )


def is_email(email: str) -> bool:
    # PostgreSQL refuses NUL in a text.
    return email.isprintable() and "@" in email


def wait_for(refused: Refused) -> str:
    """Returns how long to wait, in words."""
    wait_s = refused.retry_after_s or 60
    if wait_s < 60:
        return f"Muitas tentativas. Espere {wait_s} s e tente de novo."
    minutes = -(-wait_s // 60)
    span = f"{minutes} min" if minutes < 60 else f"{-(-minutes // 60)} h"
    return f"Muitas tentativas. Espere {span} e tente de novo."


def throttled(answer: Response[Any], refused: Refused) -> Response[Any]:
    answer.headers["Retry-After"] = str(refused.retry_after_s)
    return answer


def cookie_name(name: str, settings: Settings) -> str:
    """Returns the name of a cookie. Over TLS it has the prefix by which a browser sends the cookie to this host alone
    and refuses one that was set in another way."""
    return f"__Host-{name}" if secure(settings) else name


def chosen_cell_mark(request: AnyRequest) -> str:
    """Returns the cookie's mark of the cell that staff chose to work in; empty without a choice."""
    return cookie_in(request.scope, cookie_name(CHOSEN, request.app.state.settings))


def forget_choice(request: AnyRequest, answer: Response[Any]) -> Response[Any]:
    """Deletes the mark of the chosen cell, because a session begins and ends in its own cell."""
    if chosen_cell_mark(request):
        answer.set_cookie(make_cookie(CHOSEN, "", request.app.state.settings, 0))
    return answer


def make_cookie(name: str, value: str, settings: Settings, lifetime_s: int) -> Cookie:
    return Cookie(
        key=cookie_name(name, settings),
        value=quote(value),
        path="/",
        max_age=lifetime_s,
        httponly=True,
        samesite="lax",
        secure=secure(settings),
    )
