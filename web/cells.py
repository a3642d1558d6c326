"""The cells that this process serves, as the staff's pages see them, and the choice of the cell to work in.

The platform's staff sign in at home and choose a cell. The session stays in home's database and is looked up there for
every page, so a person who was removed or signed out loses access to every cell at the next page. The choice is a mark
in a cookie of its own; the mark is bound to the session and useless without it.
"""

import hmac
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from runtime.cells.number import HOME, cell_of_hex, current_cell
from runtime.seal import Seal

CHOSEN: Final = "plataforma-celula"
"""The cookie with the chosen cell. Its value begins with the cell's three hex digits, by which cli/run/cell_requests.py
routes a request."""

CELLS_AWAY: Final = "cells_away"
"""In the state of a request with a form about an e-mail: whether a cell that may know the person could not be asked."""


class CellPages(Struct, frozen=True):
    """A cell served by this process; `state` is its web application's state, None while its database is unavailable."""

    number: int
    name: str
    state: Any


def cell_mark(seal: Seal, cookie: str, number: int) -> str:
    """The mark that chooses this cell, valid only with the session of `cookie`."""
    return f"{number:03x}{hmac.digest(seal.key('chosen cell'), _marked_text(cookie, number), 'sha256').hex()}"


def chosen_cell(seal: Seal, cookie: str, mark: str) -> int:
    """The cell whose pages the session of `cookie` is shown: the session's own cell, unless staff at home chose another
    by a valid mark."""
    session_cell = cell_of_hex(cookie)
    if session_cell is None:
        return current_cell()
    number = cell_of_hex(mark)
    if (
        session_cell != HOME
        or number is None
        or not hmac.compare_digest(mark.encode(), cell_mark(seal, cookie, number).encode())
    ):
        return session_cell
    return number


def form_key(cookie: str) -> str:
    """The key to which a page's forms are bound. It names the cell, so that a form shown for one cell is refused in
    another: the person may have switched cells in a second tab."""
    session_cell = cell_of_hex(cookie)
    cell = current_cell()
    return cookie if session_cell in (None, cell) else f"{cookie} {cell:03x}"


def home_of(cells: Sequence[CellPages]) -> Any:
    return next((each.state for each in cells if each.number == HOME), None)


def _marked_text(cookie: str, number: int) -> bytes:
    return f"{cookie} {number:03x}".encode()
