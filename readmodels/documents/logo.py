"""A merchant's logo: the addresses of its files, and its pixels for boletos, mails and the dashboard."""

import base64
import re
from typing import Final

from msgspec import Struct

import sql
from domain.merchants.logo import PAGE_ROOM, fitted_pixels
from runtime.cells.number import current_cell
from sql import Connection

_FILE_NAME: Final = re.compile(r"[0-9a-f]{3}([0-9a-f]{32})(-previa)?\.png")


class LogoOnPage(Struct, frozen=True):
    """A logo on a page: its address, and its size in CSS pixels, so that the layout does not shift when it loads."""

    digest: bytes
    width: int
    height: int

    @property
    def path(self) -> str:
        return f"/logo/{self._file_stem}.png"

    @property
    def preview_path(self) -> str:
        """The image that messengers show as a link's preview."""
        return f"/logo/{self._file_stem}-previa.png"

    @property
    def room(self) -> tuple[int, int]:
        return fitted_pixels(self.width, self.height, PAGE_ROOM)

    @property
    def _file_stem(self) -> str:
        # The name begins with the cell's number, as tokens do, so that a request for the file is routed to that cell.
        return f"{current_cell():03x}{self.digest.hex()}"


class Logo(Struct, frozen=True):
    """A stored logo; `image` is a PNG made by us (commands/merchants/profile/logo.py)."""

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
"""The logo as shown to the account's people and to staff. Takes `account_id`."""
find_logo_shown = sql.maybe("account.logo_shown", Logo)
"""The logo as shown to payers. Takes `account_id`."""
_find_file = sql.maybe("account.logo_file", bytes)


async def logo_file(conn: Connection, name: str) -> bytes | None:
    """The PNG with this file name, the last part of a path of LogoOnPage; None if there is none."""
    parsed = _FILE_NAME.fullmatch(name)
    if parsed is None:
        return None
    return await _find_file(conn, digest=bytes.fromhex(parsed[1]), preview=parsed[2] is not None)
