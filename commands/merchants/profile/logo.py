"""A merchant's logo as it is stored, made from the uploaded file (logo_pixels.py)."""

from datetime import datetime
from hashlib import sha256
from uuid import UUID

from msgspec import Struct

import sql
from sql import Connection


class StoredLogo(Struct, frozen=True):
    """PNGs, opaque and not interlaced, of at most BYTES_MAX. `width` and `height` are the image's."""

    width: int
    height: int
    image: bytes
    preview: bytes

    @property
    def digest(self) -> bytes:
        """The digest of both images. It is part of their URL, so a URL always has the same bytes."""
        return sha256(self.image + self.preview).digest()[:16]


_store_logo = sql.run("account.set_logo")
_remove_logo = sql.maybe("account.remove_logo", UUID)


async def set_logo(conn: Connection, account_id: UUID, logo: StoredLogo, *, now: datetime) -> None:
    """Store the logo, in place of the previous one."""
    await _store_logo(
        conn,
        account_id=account_id,
        digest=logo.digest,
        width=logo.width,
        height=logo.height,
        image=logo.image,
        preview=logo.preview,
        now=now,
    )


async def remove_logo(conn: Connection, account_id: UUID) -> bool:
    """Remove the logo; returns whether there was one."""
    return await _remove_logo(conn, account_id=account_id) is not None
