"""Identifiers: time-ordered UUIDs (version 7) and random tokens."""

import os
import time
from binascii import b2a_base64
from datetime import datetime
from typing import Final
from uuid import UUID

from asyncpg.pgproto import pgproto

from runtime.cells.number import current_cell

_BLOCK = 4096
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
# The UUID class of asyncpg's rows: like Python's, but in C. One is made in 0.1 us, one of Python's in 1.4 us.
_uuid: Final[type[UUID]] = pgproto.UUID


class _Randomness:
    """The kernel's random bytes, fetched a block at a time: a call for each id would cost more than all else here.

    Each byte is handed out once; a process that forks leaves its child none.
    """

    def __init__(self) -> None:
        self._block = b""
        self._offset = 0

    def take(self, count: int) -> bytes:
        if self._offset + count > len(self._block):
            self._block, self._offset = os.urandom(_BLOCK), 0
        start = self._offset
        self._offset = start + count
        return self._block[start : self._offset]

    def forget(self) -> None:
        self._block, self._offset = b"", 0


class _NeighbourTokens:
    """Tokens whose first three bytes are the cell and twelve random bits, which a thousand tokens of one process share.

    In a large index each wholly random key changes another page, and after a checkpoint the log holds that page whole;
    a thousand keys that begin alike change a dozen pages.
    """

    def __init__(self) -> None:
        self._shared_bits, self._tokens_left = 0, 0

    def take(self) -> bytes:
        if not self._tokens_left:
            self._shared_bits, self._tokens_left = int.from_bytes(_random_bytes(2)) & 0xFFF, 1024
        self._tokens_left -= 1
        return (current_cell() << 12 | self._shared_bits).to_bytes(3) + _random_bytes(13)

    def forget(self) -> None:
        self._tokens_left = 0


_randomness = _Randomness()
_random_bytes = _randomness.take
_neighbour_tokens = _NeighbourTokens()
os.register_at_fork(after_in_child=_randomness.forget)
os.register_at_fork(after_in_child=_neighbour_tokens.forget)


def new_id() -> UUID:
    """A UUIDv7: 48 bits of milliseconds, 12 of the cell, 62 random. New rows go to the right edge of an index."""
    random = int.from_bytes(_random_bytes(8)) & 0x3FFF_FFFF_FFFF_FFFF
    number = (time.time_ns() // 1_000_000) << 80 | 0x7 << 76 | current_cell() << 64 | 0x2 << 62 | random
    return _uuid(number.to_bytes(16))  # type: ignore[arg-type]  # this one takes bytes


def first_id(at: datetime) -> UUID:
    """The smallest UUIDv7 of an instant: ids from before it are smaller."""
    return UUID(int=int(at.timestamp() * 1000) << 80)


def new_token() -> str:
    """128 random bits as 22 URL-safe characters: nothing about the owner or the time can be read from it."""
    return _url_safe(_random_bytes(16))


def page_token() -> str:
    """22 URL-safe characters, 104 bits of them random for each token: a link cannot be guessed, even from another link.

    It reveals neither its owner nor its time, only its cell, and whether one process made it soon after another token.
    """
    return _url_safe(_neighbour_tokens.take())


def ordered_token() -> str:
    """A new id as 22 URL-safe characters, 62 bits of it random: tokens of one moment lie together in an index."""
    return _url_safe(new_id().bytes)


def _url_safe(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).translate(_URL_SAFE)[:22].decode()
