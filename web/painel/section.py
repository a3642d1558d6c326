"""The two sections people sign in to: merchants' people at /painel, the platform's staff at /plataforma.

Each has its own cookies; a session of one is not valid in the other.
"""

from typing import Final

from msgspec import Struct

from commands.people.sessions import Side


class Section(Struct, frozen=True):
    """`cookie` names the cookie of a session, `before` the cookie of a browser that has the sign-in form open; `title`
    stands over that form."""

    root: str
    side: Side
    cookie: str
    before: str
    title: str


# fmt: off
PAINEL: Final = Section("/painel", Side.MERCHANTS, "painel", "entrada", "Entrar no painel")
PLATAFORMA: Final = Section("/plataforma", Side.STAFF, "plataforma", "entrada-plataforma", "Entrar na plataforma")
# fmt: on
