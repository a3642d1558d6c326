"""Cursors: where a walk over a list stands. Opaque to callers, signed, and bound to list, account, mode and filters.

base64url of the position (JSON) and 16 bytes of HMAC-SHA256 over position and everything it is bound
to. Anything not made here for exactly this walk is Refused(CURSOR_INVALID).
"""

import hmac
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from hashlib import sha256
from typing import TypeVar

import msgspec
from msgspec import Struct

from domain.errors import Code, Refused

Position = TypeVar("Position", bound=Struct)

_MAC = 16
_TEXT_MAX = 512
_encode = msgspec.json.Encoder(order="deterministic").encode


class Cursors:
    def __init__(self, keys: Sequence[bytes]) -> None:
        """The first one signs; what another has signed is taken as well (runtime/seal.py)."""
        self._keys = keys

    def write(self, position: Struct, bound_to: object) -> str:
        plain = _encode(position)
        return urlsafe_b64encode(plain + self._macs(plain, bound_to)[0]).decode().rstrip("=")

    def read(self, text: str, position: type[Position], bound_to: object) -> Position:
        # The alphabet is checked strictly: Python's decoder skips over junk.
        if (
            not text
            or len(text) > _TEXT_MAX
            or not text.isascii()
            or not text.replace("-", "").replace("_", "").isalnum()
        ):
            raise Refused(Code.CURSOR_INVALID)
        try:
            raw = b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (Base64Error, ValueError):
            raise Refused(Code.CURSOR_INVALID) from None
        plain, mac = raw[:-_MAC], raw[-_MAC:]
        # The last character's spare bits could vary unnoticed: only the very text we wrote is taken.
        if (
            not any(hmac.compare_digest(mac, each) for each in self._macs(plain, bound_to))
            or urlsafe_b64encode(raw).decode().rstrip("=") != text
        ):
            raise Refused(Code.CURSOR_INVALID)
        return msgspec.json.decode(plain, type=position)

    def _macs(self, plain: bytes, bound_to: object) -> list[bytes]:
        signed = plain + b"\0" + _encode(bound_to)
        return [hmac.new(key, signed, sha256).digest()[:_MAC] for key in self._keys]
