"""A merchant's logo as it is shown: where its files are, and its pixels for paper, mails and the dashboard."""

import base64
import re
from typing import Final

from msgspec import Struct

import sql
from domain.merchants.logo import PAGE_ROOM, fitted_pixels
from runtime.cells.number import current_cell
from sql import Connection

_NAME: Final = re.compile(r"[0-9a-f]{3}([0-9a-f]{32})(-previa)?\.png")


class LogoOnPage(Struct, frozen=True):
    """Where a page finds it, and how large it stands there (CSS pixels), so that nothing moves when it comes."""

    digest: bytes
    width: int
    height: int

    @property
    def path(self) -> str:
        return f"/logo/{self._name}.png"

    @property
    def preview_path(self) -> str:
        """What messengers show of a link."""
        return f"/logo/{self._name}-previa.png"

    @property
    def room(self) -> tuple[int, int]:
        return fitted_pixels(self.width, self.height, PAGE_ROOM)

    @property
    def _name(self) -> str:
        # The cell first, as in tokens: a request for it is led there.
        return f"{current_cell():03x}{self.digest.hex()}"


class Logo(Struct, frozen=True):
    """`image` is a PNG of our own (commands/merchants/profile/logo.py)."""

    width: int
    height: int
    image: bytes

    @property
    def room(self) -> tuple[int, int]:
        return fitted_pixels(self.width, self.height, PAGE_ROOM)

    @property
    def data_uri(self) -> str:
        return f"data:image/png;base64,{base64.b64encode(self.image).decode()}"


find_logo = sql.maybe("account.logo", Logo)
"""`account_id`: for its own people and for staff."""
find_logo_shown = sql.maybe("account.logo_shown", Logo)
"""`account_id`: for payers."""
_find_file = sql.maybe("account.logo_file", bytes)


async def logo_file(conn: Connection, name: str) -> bytes | None:
    """The PNG behind the last part of a path of LogoOnPage; None where there is none."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return await _find_file(conn, digest=bytes.fromhex(found[1]), preview=found[2] is not None)
