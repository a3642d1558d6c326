"""Cursors: the position reached in a list. Opaque to callers, signed, and bound to list, account, mode and filters.

A cursor is base64url of the position (JSON) and 16 bytes of HMAC-SHA256 over the position and everything the cursor is
bound to. A text that was not written here for exactly this list and these filters is Refused(CURSOR_INVALID).
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

_MAC_BYTES = 16
_TEXT_MAX = 512
_encode = msgspec.json.Encoder(order="deterministic").encode


class Cursors:
    def __init__(self, keys: Sequence[bytes]) -> None:
        """The first key signs; cursors signed with one of the other keys are accepted too (runtime/seal.py)."""
        self._keys = keys

    def write(self, position: Struct, bound_to: object) -> str:
        plain = _encode(position)
        return urlsafe_b64encode(plain + self._macs(plain, bound_to)[0]).decode().rstrip("=")

    def read(self, text: str, position: type[Position], bound_to: object) -> Position:
        # The alphabet is checked here, because Python's decoder skips characters outside it.
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
        plain, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        # Base64 leaves spare bits in the last character, so several texts decode alike: only the one we wrote is valid.
        if (
            not any(hmac.compare_digest(mac, each) for each in self._macs(plain, bound_to))
            or urlsafe_b64encode(raw).decode().rstrip("=") != text
        ):
            raise Refused(Code.CURSOR_INVALID)
        return msgspec.json.decode(plain, type=position)

    def _macs(self, plain: bytes, bound_to: object) -> list[bytes]:
        signed = plain + b"\0" + _encode(bound_to)
        return [hmac.new(key, signed, sha256).digest()[:_MAC_BYTES] for key in self._keys]
