"""The cell that this process, or this request, works for; and the cell that an id or a token was made in.

A cell is a number of 12 bits. It stands where a UUIDv7 has `rand_a` (RFC 9562 section 5.7), and in the first 12 bits of
every token and client_id: a request is led to its cell by the ids it carries, without a look into any directory. Cell 0
is home, with which an installation begins.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final
from uuid import UUID

CELLS_MAX: Final = 4096
HOME: Final = 0
_HEX_CELL: Final = re.compile(r"[0-9a-f]{3}")

_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_CHARACTER_VALUES: Final = {character: value for value, character in enumerate(_ALPHABET)}

# A request's tasks run in the context of the request, so background tasks of a cell stay in the cell.
_cell: ContextVar[int] = ContextVar("cell", default=HOME)
current_cell = _cell.get


def enter_cell(number: int) -> None:
    """From here on, in this context and in the tasks it starts, ids and tokens are made for this cell."""
    assert 0 <= number < CELLS_MAX, "a cell's number has 12 bits"
    _cell.set(number)


@contextmanager
def in_cell(number: int) -> Iterator[None]:
    """As `enter_cell`, for a block."""
    assert 0 <= number < CELLS_MAX, "a cell's number has 12 bits"
    token = _cell.set(number)
    try:
        yield
    finally:
        _cell.reset(token)


def cell_of(id: UUID) -> int:
    """The cell that a UUIDv7 of ours was made in; any number, for a UUID that is not ours."""
    return (id.int >> 64) & 0xFFF


def marked(random: bytes) -> bytes:
    """Random bytes whose first twelve bits are this cell: in hex its first three digits, in base 64 two characters."""
    head = current_cell() << 4 | random[1] & 0x0F
    return head.to_bytes(2) + random[2:]


def cell_of_token(token: str) -> int | None:
    """The cell of a token in base 64 (also of a public_id and of a mailed link); None for what cannot be one."""
    high, low = _CHARACTER_VALUES.get(token[:1]), _CHARACTER_VALUES.get(token[1:2])
    return None if high is None or low is None else high << 6 | low


def cell_of_hex(text: str) -> int | None:
    """The cell of a token in hex: a session's cookie, or a client_id such as test_00a1b2, whose mode is skipped; None
    for what cannot be one."""
    digits = text.rpartition("_")[2][:3]
    return int(digits, 16) if _HEX_CELL.fullmatch(digits) else None
