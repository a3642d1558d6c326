"""The other cells of this process, as the staff's pages know them, and which one somebody works in.

The platform's staff sign in at home and choose a cell. The session stays home's and is asked for there with every page,
so whoever was removed or signed out has lost every cell with the next one. What is chosen is a mark in a cookie of its
own; it is bound to the session and opens nothing without it.
"""

import hmac
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from runtime.cells.number import HOME, cell_of_hex, current_cell
from runtime.seal import Seal

CHOSEN: Final = "plataforma-celula"
"""The cookie. It begins with the three digits of the cell, by which a request is led (cli/run/cell_requests.py)."""


class CellPages(Struct, frozen=True):
    """A cell served by this process; `state` is that of its web application, None while it is away."""

    number: int
    name: str
    state: Any


def mark_of(seal: Seal, cookie: str, number: int) -> str:
    """The choice of this cell in the session of `cookie`."""
    return f"{number:03x}{hmac.digest(seal.key('chosen cell'), _bound(cookie, number), 'sha256').hex()}"


def chosen_by(seal: Seal, cookie: str, mark: str) -> int:
    """The cell whose pages the session of `cookie` works in: its own, unless home's staff chose another."""
    own = cell_of_hex(cookie)
    if own is None:
        return current_cell()
    number = cell_of_hex(mark)
    if own != HOME or number is None or not hmac.compare_digest(mark.encode(), mark_of(seal, cookie, number).encode()):
        return own
    return number


def form_key(cookie: str) -> str:
    """What the forms of this page are bound to. One that was shown in a cell does nothing in another: whoever has two
    tabs open may have changed the cell in the other one."""
    own = cell_of_hex(cookie)
    here = current_cell()
    return cookie if own in (None, here) else f"{cookie} {here:03x}"


def home_of(cells: Sequence[CellPages]) -> Any:
    return next((each.state for each in cells if each.number == HOME), None)


def _bound(cookie: str, number: int) -> bytes:
    return f"{cookie} {number:03x}".encode()
