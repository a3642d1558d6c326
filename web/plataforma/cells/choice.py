"""Home's staff choose the cell whose pages they work in, without another sign-in.

The choice is stored in a cookie that is worth nothing without the session, which stays home's (web/cells.py). The audit
logs of both cells record the choice.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid5

from litestar.exceptions import NotFoundException
from litestar.response import Response

from commands.people.audit import write_audit_entry
from commands.people.sessions import LIFETIME
from runtime.cells.number import HOME, in_cell
from runtime.postgres import DB_UNAVAILABLE, transaction
from web.cells import CHOSEN, CellPages, cell_mark
from web.head import parameter_in
from web.painel.auth.entry_form import forget_choice, make_cookie
from web.painel.auth.sign_in import is_page_of
from web.painel.page_request import PageRequest, go
from web.painel.section import PLATAFORMA

ENTERED: Final = "cell.entered"


async def show(request: PageRequest) -> Response[Any]:
    """Answers the page of the choice. The session's own cell serves it, so it works while the chosen cell is away."""
    where_to = _target_path(parameter_in(request.http.scope, "para") or "")
    return request.show("plataforma/cells.html", {"where_to": where_to, "away": ""})


async def choose(request: PageRequest) -> Response[Any]:
    """Stores the choice and redirects to the page named `para`, or to the first page."""
    cell = named(request.cells, request.field("celula"))
    where_to = _target_path(request.field("para"))
    if cell is None:
        raise NotFoundException
    if cell.number != HOME and not await _log_in_cell(request, cell):
        values = {"where_to": where_to, "away": cell.name}
        return request.show("plataforma/cells.html", values, status=503)
    async with request.change(ENTERED, cell=cell.name):
        pass
    answer = go(where_to)
    if cell.number == HOME:
        return forget_choice(request.http, answer)
    mark = cell_mark(request.seal, request.cookie, cell.number)
    answer.set_cookie(make_cookie(CHOSEN, mark, request.settings, int(LIFETIME.total_seconds())))
    return answer


def named(cells: Sequence[CellPages], name: str) -> CellPages | None:
    return next((each for each in cells if each.name == name), None)


async def _log_in_cell(request: PageRequest, cell: CellPages) -> bool:
    """Writes to the other cell's audit log, before anything of that cell is shown; False while the cell is away."""
    if cell.state is None:
        return False
    try:
        with in_cell(cell.number):
            entry = request.entry(uuid5(request.form_id, cell.name), ENTERED, cell=cell.name)
            async with transaction(cell.state.people_pool) as conn:
                await write_audit_entry(conn, entry, now=request.now)
    except DB_UNAVAILABLE:
        return False
    return True


def _target_path(path: str) -> str:
    return path if is_page_of(PLATAFORMA, path) else PLATAFORMA.root
