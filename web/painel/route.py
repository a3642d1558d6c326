"""A row of the table of pages, and the handler made of it.

Before a page's function runs, its handler has found the session, checked the form and its token, and checked the
person's role against the table.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from litestar.exceptions import NotFoundException, PermissionDeniedException
from litestar.handlers import HTTPRouteHandler
from litestar.response import Response
from litestar.types import ControllerRouterHandler
from msgspec import Struct

from commands.people.audit import AlreadySent
from domain.errors import Code, Refused
from domain.merchants.logo import SENT_BYTES_MAX
from domain.merchants.staff import PLATFORM
from domain.mode import Mode
from runtime.cells.number import HOME, cell_of_hex, current_cell
from runtime.limits.shares import Shares
from runtime.postgres import Pool
from web.cells import chosen_cell, form_key, home_of
from web.painel.auth.entry_form import chosen_cell_mark, forget_choice
from web.painel.auth.kept_form import keep
from web.painel.auth.sign_in import answer_signed_out, cookie_of, find_session, is_page_of, sign_in_path
from web.painel.auth.step_up import PASSWORD_FIELD, prove, step_up_page
from web.painel.labels import REFUSED
from web.painel.list_page import ListPage
from web.painel.page_refusals import StepUpNeeded, StillNew
from web.painel.page_request import (
    UPLOAD_MAX,
    AnyRequest,
    Files,
    Form,
    Grant,
    PageRequest,
    go,
    read_form,
    read_upload,
)
from web.painel.section import PAINEL, PLATAFORMA, Section

# Everything in a Referer but the path. It is removed, so that the link back cannot lead to another host.
_REFERER_EXCEPT_PATH = re.compile(r"^https?://[^/?#]*|[?#].*$")
Handle = Callable[[PageRequest], Awaitable[Response[Any]]]
TEST = "/painel/teste"

# The roles that open a page, by its subject. The owner opens all.
OWNER = frozenset({"owner"})
MONEY = OWNER | {"finance"}
PROGRAMS = OWNER | {"developer"}
PEOPLE = MONEY | {"support"}
CREDENTIALS = PROGRAMS | {"finance"}
DELIVERIES = PROGRAMS | {"support"}
EVERYBODY = PEOPLE | {"developer"}
# Roles that see the payers of production unmasked: those that charge payers, refund them or write to them.
PAYERS = PEOPLE
# Roles of the staff's section. They differ from the merchants' roles, though some have the same name.
ADMIN = frozenset({"admin"})
OPERATIONS = ADMIN | {"operations"}
FINANCE = ADMIN | {"finance"}
OFFICE = OPERATIONS | FINANCE
STAFF = OFFICE | {"support"}

# The most bytes in the body of a form that sends a file.
SHEET_FORM_MAX = 2 * UPLOAD_MAX
LOGO_FORM_MAX = SENT_BYTES_MAX + UPLOAD_MAX


class Page(Struct, frozen=True):
    """A page of a section, or a form sent to it. `path` is below the section's root (below /painel/teste in test mode),
    with `{name:str}` for each variable part. `menu`: the page's name in the menu; empty when the menu does not have it.
    `early`: open before a required second factor is set up. `upload`: the most bytes in the body of a form that may
    send a file; 0 for any other form.
    """

    method: Literal["GET", "POST"]
    path: str
    handle: Handle
    roles: frozenset[str]
    mode: Mode = Mode.PRODUCTION
    menu: str = ""
    section: Section = PAINEL
    early: bool = False
    upload: int = 0

    @property
    def is_workbook(self) -> bool:
        """Whether the page answers a list as an Excel workbook."""
        return getattr(self.handle, "__func__", None) is ListPage.xlsx

    @property
    def whole_path(self) -> str:
        return (TEST if self.mode.test else self.section.root) + self.path


def grants_of(table: Sequence[Page]) -> dict[str, Grant]:
    """Returns the grant of each role; `table` has the pages of one section."""
    roles = frozenset[str]().union(*(page.roles for page in table))
    pages_by_role = {role: [page for page in table if role in page.roles] for role in roles}
    return {
        role: Grant(
            may=frozenset(f"{page.method} {page.whole_path}" for page in pages),
            menu=[(page.mode, page.whole_path, page.menu) for page in pages if page.menu],
            payers=role in PAYERS and all(page.section is PAINEL for page in pages),
        )
        for role, pages in pages_by_role.items()
    }


def handlers(table: Sequence[Page]) -> list[ControllerRouterHandler]:
    grants = grants_of(table)
    return [_handler(each, grants) for each in table]


def _handler(page: Page, grants: dict[str, Grant]) -> HTTPRouteHandler:
    async def answer(request: AnyRequest) -> Response[Any]:
        state = request.app.state
        section = page.section
        cookie = cookie_of(request, section)
        chosen = HOME
        if section is PLATAFORMA:
            chosen = chosen_cell(state.context.seal, cookie, chosen_cell_mark(request))
        person_pool = _person_pool(state, chosen, cookie)
        person_session = await find_session(request, section, person_pool)
        if person_session is None:
            if page.method == "POST":
                return answer_signed_out(request, section, await keep(request, section, person_pool, cookie))
            return forget_choice(request, go(sign_in_path(request, section)))
        form: Form = {}
        files: Files = {}
        if page.upload:
            form, files = await read_upload(request, form_key(cookie))
        elif page.method == "POST":
            form = await read_form(request, form_key(cookie))
        # Both sections have roles named "finance" and "support": a role opens pages of its own section only.
        if person_session.role not in page.roles or (person_session.account_id == PLATFORM) != (section is PLATAFORMA):
            raise PermissionDeniedException
        grant = grants[person_session.role]
        page_request = PageRequest(
            request,
            person_session,
            cookie,
            mode=page.mode,
            form=form,
            grant=grant,
            section=section,
            files=files,
            person_pool=person_pool,
            chosen=chosen,
        )
        if page_request.must_enrol and not page.early:
            return go(f"{section.root}/acesso/codigo")
        return await _run_page(page, page_request)

    # A name for traces and Litestar's messages.
    answer.__name__ = f"{page.method} {page.whole_path}"
    bounds: dict[str, Any] = {"request_max_body_size": page.upload} if page.upload else {}
    return HTTPRouteHandler(page.whole_path, http_method=[page.method], status_code=200, **bounds)(answer)


async def _run_page(page: Page, request: PageRequest) -> Response[Any]:
    """Runs the page's function. A refusal becomes a page that says why nothing was done."""
    fault = await prove(request) if request.fields(PASSWORD_FIELD) else ""
    try:
        # After a wrong password too: the page's function then raises StepUpNeeded with what is to be confirmed.
        if page.method == "POST":  # without a turn, because some forms wait for a bank
            return await page.handle(request)
        # Writing a workbook takes up to a minute, and each read for it takes a turn of `request.shares`. A workbook
        # that held such a turn meanwhile would block: with one workbook per turn, none of them could read.
        shares: Shares = request.http.app.state.workbooks if page.is_workbook else request.shares
        async with shares.of(request.owner):
            return await page.handle(request)
    except StepUpNeeded as needed:
        return step_up_page(request, needed, fault, back=_back_path(page, request))
    except StillNew:
        return request.show("message.html", {**_STILL_NEW, "back": _back_path(page, request)}, status=403)
    except AlreadySent:
        return request.show("message.html", {**_ALREADY_SENT, "back": _back_path(page, request)}, status=409)
    except Refused as refused:
        if refused.code.status == 404:
            # The same page as for an unknown path: the answer does not tell whether the thing exists.
            raise NotFoundException from None
        if refused.code is Code.CURSOR_INVALID:
            return go(request.http.scope["path"])
        texts = REFUSED.get(refused.code, REFUSED[Code.INTERNAL_ERROR])
        values = {"title": texts[0], "text": texts[1], "back": _back_path(page, request)}
        return request.show("message.html", values, status=refused.code.status)


def _back_path(page: Page, request: PageRequest) -> str:
    """Returns the path of the page that the form was on. There the person can try again, or see what was done."""
    here = request.http.scope["path"]
    came_from = _REFERER_EXCEPT_PATH.sub("", request.http.headers.get("referer", ""))
    if came_from == here and not request.may(f"GET {page.whole_path}"):
        came_from = here.rpartition("/")[0]  # the answer to the form: no page to open with GET
    home = "/painel/teste/cobrancas" if request.test else request.section.root
    return came_from if is_page_of(request.section, came_from) else home


def _person_pool(state: Any, chosen: int, cookie: str) -> Pool:
    """Returns the pool of the session's cell: of this cell, or of home when home's staff chose to work in this cell."""
    is_away = cell_of_hex(cookie) == HOME != current_cell() == chosen
    home = home_of(state.cells()) if is_away else None
    pool: Pool = (home or state).people_pool
    return pool


_STILL_NEW = {
    "title": "Ainda não: o seu perfil é novo",
    "text": "O que precisa de duas pessoas da equipe, como aprovar uma loja e atribuir um valor a ela, não é feito por "
    "quem recebeu o perfil de um colega há menos de um dia. Outra pessoa da equipe pode fazer isto agora.",
}
_ALREADY_SENT = {
    "title": "Este formulário já foi enviado",
    "text": "O que ele pedia foi tratado uma vez só. Abra a página de novo para ver como ficou. "
    "Se era um segredo novo e você não o viu, gere outro.",
}
