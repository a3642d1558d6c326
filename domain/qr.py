"""QR symbols of BR Codes and their PNG, a few hundred times faster than encoding each of them from nothing.

At a fixed version, error level and mask, a symbol is affine over GF(2) in the bits of its payload: error
correction is a linear code, placement a permutation, masking adds a constant. So the symbol of a payload is
the symbol of as many zero bytes, XORed with one precomputed integer per (position, byte). Symbol of zeros,
placement and error correction come from segno; of ISO 18004 only the interleaving is told again.

A symbol is held as a canvas: one integer whose binary digits, a 1 being hexadecimal f, are the first scanline
of every row of modules in the finished PNG. A pixel is one bit and the scale is 4, so a module is one digit.
"""

import struct
import zlib
from binascii import b2a_base64, unhexlify
from functools import lru_cache, reduce
from itertools import chain, zip_longest
from operator import getitem, xor
from typing import Any, NamedTuple

import segno
from segno import consts, encoder

MOST_BYTES = 512  # of a BR Code; version 18 holds 560
SCALE = 4  # pixels per module; the canvas above knows no other
QUIET_MODULES = 4  # ISO 18004: white on each side
# Chosen once and for all: choosing is 80 % of segno's time. Of the eight, 2 has by far the lowest penalty for
# BR Codes: segno, left to itself, chooses it too (40 of 40 tried).
MASK = 2

# Digits before the first module of a canvas row: the byte of the scanline's filter, then the quiet zone.
_MARGIN = 2 + QUIET_MODULES
# Behind the last module: the quiet zone, and one digit that makes whole bytes (the side is always odd).
_GUTTER = QUIET_MODULES + 1
_RUN = 8  # bytes of the payload looked up together
_MOST_RUNS = 512  # kept of each place: at most 5 MB for version 9
_DARK_IS_ONE = bytes.maketrans(b"01", b"\1\0")
_ONE_IS_F = bytes.maketrans(b"1", b"f")  # a table has no branch: four times faster than replace() on noise

# segno's encoder has no types and is no public API: the lock pins its version, and tests/unit/test_qr.py
# compares every module, for every length, with what the public API gives.
_segno: Any = encoder
_consts: Any = consts
_ERROR_LEVEL = _consts.ERROR_LEVEL_M  # 15 %, what readers of BR Codes expect


class Symbol(NamedTuple):
    """A symbol without its quiet zone: `size` rows from the top, each of `size` bytes, 1 where it is dark."""

    size: int
    rows: tuple[bytes, ...]


def symbol(payload: bytes) -> Symbol:
    """The symbol of 1 to 512 bytes: byte mode, error level M, the smallest version that holds them."""
    canvas, frame = _canvas(payload)
    modules = frame.digits(canvas).translate(_DARK_IS_ONE)
    starts = range(_MARGIN, len(modules), frame.row_digits)
    return Symbol(frame.size, tuple(modules[start : start + frame.size] for start in starts))


def png(payload: str) -> bytes:
    """The symbol of 1 to 512 ASCII characters as PNG: 1 bit greyscale, 4 pixels a module, quiet zone of 4.

    UnicodeEncodeError, a ValueError, for other characters: a BR Code has none.
    """
    canvas, frame = _canvas(payload.encode("ascii"))
    scanlines = frame.scanlines.unpack(unhexlify(frame.digits(canvas).translate(_ONE_IS_F)))
    # The symbol itself is noise, only the runs of zeros between its scanlines are worth finding, and Z_RLE
    # looks for no more. With 4 KiB of window and little memory to clear: a third of zlib.compress()'s time.
    deflate = zlib.compressobj(1, zlib.DEFLATED, 12, 6, zlib.Z_RLE)
    pixels = deflate.compress(frame.repeats.join((*frame.quiet, *scanlines, *frame.quiet)) + frame.repeats)
    return frame.head + _chunk(b"IDAT", pixels + deflate.flush()) + _IEND


@lru_cache(maxsize=4096)  # 6 MB: a charge just made is looked up again and again until it is paid
def png_data_uri(payload: str) -> str:
    """`png` as a data: URI, ready for an <img>."""
    return "data:image/png;base64," + b2a_base64(png(payload), newline=False).decode("ascii")


def prepare(lengths: range) -> None:
    """Make the tables for payloads of these many bytes now, at start, instead of while somebody waits."""
    for length in lengths:
        _blank(length)


class _Contribution(dict[int, int]):
    """What each byte does to the canvas when it stands at one position of the payload.

    Made from its bits when a byte is first seen there: most positions of a BR Code only ever hold a few
    characters, and all 256 at every position would be 22 MB for version 9.
    """

    __slots__ = ("_bits",)

    def __init__(self, bits: tuple[int, ...]) -> None:
        self._bits = bits  # most significant first, as in the symbol

    def __missing__(self, byte: int) -> int:
        made = reduce(xor, (column for k, column in enumerate(self._bits) if byte & (0x80 >> k)), 0)
        self[byte] = made
        return made


class _Run(dict[bytes, int]):
    """What a run of bytes does to the canvas when it stands at one place of the payload.

    Two thirds of a BR Code are the same in all charges of a merchant: those runs are found here, ready.
    """

    __slots__ = ("_contributions",)

    def __init__(self, contributions: tuple[_Contribution, ...]) -> None:
        self._contributions = contributions

    def __missing__(self, run: bytes) -> int:
        made = reduce(xor, map(getitem, self._contributions, run), 0)
        if len(self) >= _MOST_RUNS:
            self.clear()  # what every charge has comes back at once, what only one had does not
        self[run] = made
        return made


class _Frame(NamedTuple):
    """All that symbols of one version have in common."""

    size: int  # modules a side
    row_digits: int  # of the canvas
    runs: tuple[_Run, ...]  # by place in the payload, _RUN bytes each
    binary: str  # format of a canvas, leading zeros kept
    head: bytes  # of the PNG, up to its pixels
    quiet: tuple[bytes, ...]  # scanlines of the quiet zone, one per row of modules
    repeats: bytes  # three scanlines equal to the one above
    scanlines: struct.Struct  # splits the bytes of a canvas

    def digits(self, canvas: int) -> bytes:
        return format(canvas, self.binary).encode("ascii")


def _canvas(payload: bytes) -> tuple[int, _Frame]:
    canvas, frame = _blank(len(payload))
    for start, run in zip(range(0, len(payload), _RUN), frame.runs, strict=False):
        canvas ^= run[payload[start : start + _RUN]]
    return canvas, frame


@lru_cache(maxsize=MOST_BYTES)  # bounded by the lengths there are
def _blank(length: int) -> tuple[int, _Frame]:
    """The canvas of that many zero bytes: length field, padding, mask and function patterns are in here."""
    assert 0 < length <= MOST_BYTES, "a BR Code has 1 to 512 characters"
    code = segno.make_qr(bytes(length), error="m", mode="byte", mask=MASK, boost_error=False)
    light_is_one = bytes.maketrans(b"\0\1", b"10")
    rows = (row.translate(light_is_one).decode("ascii") for row in code.matrix)
    left, right = "00" + "1" * QUIET_MODULES, "1" * _GUTTER
    assert isinstance(code.version, int), "make_qr makes no Micro QR"
    return int("".join(left + row + right for row in rows), 2), _frame(code.version)


@lru_cache(maxsize=40)  # bounded by the versions there are; charges need 7 to 11
def _frame(version: int) -> _Frame:
    size = _segno.calc_matrix_size(version)
    row_digits = _MARGIN + size + _GUTTER
    row_bytes = row_digits // 2
    side = (size + 2 * QUIET_MODULES) * SCALE
    columns = _columns(version)
    # Byte mode: four bits of mode and the length come first, so payload bytes straddle two codewords.
    first = 4 + _consts.CHAR_COUNT_INDICATOR_LENGTH[_consts.MODE_BYTE][_segno.version_range(version)]
    starts = range(first, len(columns) - 7, 8)
    contributions = tuple(_Contribution(tuple(columns[start : start + 8])) for start in starts)
    return _Frame(
        size=size,
        row_digits=row_digits,
        runs=tuple(_Run(contributions[at : at + _RUN]) for at in range(0, len(contributions), _RUN)),
        binary=f"0{row_digits * size}b",
        head=b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)),
        quiet=(b"\0" + b"\xff" * (row_bytes - 1),) * QUIET_MODULES,
        # Filter 2 (Up) over zeros repeats the scanline above: long runs of zeros cost zlib nearly nothing.
        repeats=(b"\2" + bytes(row_bytes - 1)) * (SCALE - 1),
        scanlines=struct.Struct(f"{row_bytes}s" * size),
    )


def _columns(version: int) -> list[int]:
    """The columns of the linear map: the digits of the canvas each data bit flips, parity included."""
    ec_infos = _consts.ECC[version][_ERROR_LEVEL]
    infos = [info for info in ec_infos for _ in range(info.num_blocks)]
    blocks: list[range] = []  # the data codewords of each block, numbered through
    for info in infos:
        start = blocks[-1].stop if blocks else 0
        blocks.append(range(start, start + info.num_data))
    # ISO 18004, 7.6: the message takes one codeword of each block in turn, first data, then error correction.
    order = [word for word in chain.from_iterable(zip_longest(*blocks)) if word is not None]
    slots = {word: slot for slot, word in enumerate(order)}
    flips = _flips(version, sum(info.num_total for info in infos))
    parities = {info.num_data: _parities(info) for info in ec_infos}
    columns: list[int] = []
    for number, block in enumerate(blocks):
        ec_slots = range(len(order) + number, len(flips) // 8, len(blocks))
        for bit, parity in enumerate(parities[len(block)]):
            column = flips[8 * slots[block[bit // 8]] + bit % 8]
            for slot, byte in zip(ec_slots, parity, strict=True):
                for k in range(8):
                    if byte & (0x80 >> k):
                        column ^= flips[8 * slot + k]
            columns.append(column)
    return columns


def _parities(info: Any) -> list[bytearray]:
    """For each data bit of a block: its error correction codewords when that bit alone is set."""
    parities = []
    for bit in range(8 * info.num_data):
        bits = bytearray(8 * info.num_data)
        bits[bit] = 1
        _, (parity,) = _segno.make_blocks((info._replace(num_blocks=1),), _segno.Buffer(bits))
        parities.append(parity)
    return parities


def _flips(version: int, codewords: int) -> list[int]:
    """For each bit of the message: the canvas digit of the module that shows it, as a power of two."""
    size = _segno.calc_matrix_size(version)
    matrix = _segno.make_matrix(size, size)
    _segno.add_finder_patterns(matrix, size, size)
    _segno.add_alignment_patterns(matrix, size, size)
    # segno places whatever it is given wherever the matrix says 2, so it is given serial numbers, from 3 on.
    numbered = [list(row) for row in matrix]
    _segno.add_codewords(numbered, range(3, 3 + 8 * codewords), version)
    row_digits = _MARGIN + size + _GUTTER
    last = row_digits * size - 1
    flips = [0] * (8 * codewords)
    for i, row in enumerate(numbered):
        for j, number in enumerate(row):
            if number > 2:
                flips[number - 3] = 1 << (last - i * row_digits - _MARGIN - j)
    return flips


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


_IEND = _chunk(b"IEND", b"")
