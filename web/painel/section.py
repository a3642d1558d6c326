"""The two sections people sign in to: merchants' people at /painel, the platform's staff at /plataforma.

Each has cookies of its own, and a session of the one is nobody's in the other.
"""

from typing import Final

from msgspec import Struct

from commands.people.sessions import Side


class Section(Struct, frozen=True):
    """`cookie` keeps a session, `before` the browser that has the sign-in form open; `title` stands over that form."""

    root: str
    side: Side
    cookie: str
    before: str
    title: str


# fmt: off
PAINEL: Final = Section("/painel", Side.MERCHANTS, "painel", "entrada", "Entrar no painel")
PLATAFORMA: Final = Section("/plataforma", Side.STAFF, "plataforma", "entrada-plataforma", "Entrar na plataforma")
# fmt: on
