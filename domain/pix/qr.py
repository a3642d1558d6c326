"""QR symbols of BR Codes and their PNG, a few hundred times faster than encoding each symbol anew.

At a fixed version, error level and mask, a symbol is affine over GF(2) in the bits of its payload: error correction is
a linear code, placement a permutation, and masking adds a constant. So the symbol of a payload is the symbol of as many
zero bytes, XORed with one precomputed integer for each (position, byte). The symbol of zeros, placement and error
correction come from segno; of ISO 18004 this module implements only the interleaving.

The image is affine too. A pixel is one bit and the scale is 4, so two modules make one of the bytes 00, 0f, f0 and ff.
In a deflate block (RFC 1951) whose Huffman code gives these four bytes the codes 100, 101, 110 and 111, a module is one
bit at a fixed place of the compressed stream; a row of modules is its first scanline and a match that repeats it three
times. So the XORed integers are the compressed pixels themselves, and nothing is left to compress. That takes half the
time of passing scanlines to zlib, and the file is smaller.
"""

import struct
import zlib
from binascii import b2a_base64
from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import chain, cycle, groupby, zip_longest
from operator import getitem, xor
from typing import Any, NamedTuple

import segno
from segno import consts, encoder

BYTES_MAX = 512  # of a BR Code; version 18 holds 560
SCALE = 4  # pixels per module; the stream above knows no other
QUIET_MODULES = 4  # ISO 18004: white on each side
# A fixed mask, because choosing one takes 80 % of segno's time. Of the eight masks, 2 has by far the lowest penalty for
# BR Codes: segno chooses it too (40 of 40 tried).
MASK = 2

_BYTE_MODE = "0100"
_CHECKSUM_BYTES = 4  # at the end of a BR Code
_COUNTRY = b"5802BR"  # in a BR Code the merchant's name and city follow it
# Codes are written with their most significant bit first.
_LITERALS = {0x00: "100", 0x0F: "101", 0xF0: "110", 0xFF: "111"}
_DARK_IS_ONE = bytes.maketrans(b"0f", b"\1\0")

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
    """Returns the symbol of 1 to 512 bytes: byte mode, error level M, the smallest version that holds them."""
    stream, frame = _stream(payload)
    layout = frame.layout
    pixels = zlib.decompress(stream.to_bytes(layout.stream_bytes, "little"), _RAW_WBITS, layout.pixel_bytes)
    step = layout.row_bytes * SCALE
    starts = range(step * QUIET_MODULES, step * (QUIET_MODULES + layout.size), step)
    digits = (pixels[start : start + layout.row_bytes].hex().encode() for start in starts)
    first = 2 + QUIET_MODULES  # after the filter byte of the scanline
    return Symbol(layout.size, tuple(row[first : first + layout.size].translate(_DARK_IS_ONE) for row in digits))


def png(payload: str) -> bytes:
    """Returns the symbol of 1 to 512 ASCII characters as PNG: 1 bit greyscale, 4 pixels a module, quiet zone of 4.

    UnicodeEncodeError, a ValueError, for other characters, which no BR Code contains.
    """
    stream, frame = _stream(payload.encode("ascii"))
    deflated = stream.to_bytes(frame.layout.stream_bytes, "little")
    # The checksum is the only part that is not affine. Decompressing the stream is the cheapest way to the pixels that
    # it covers.
    checksum = zlib.adler32(zlib.decompress(deflated, _RAW_WBITS, frame.layout.pixel_bytes))
    data = b"IDAT" + _ZLIB_HEADER + deflated + checksum.to_bytes(4, "big")
    return frame.head + data + zlib.crc32(data).to_bytes(4, "big") + _IEND


@lru_cache(maxsize=4096)  # 6 MB: a new charge is looked up again and again until it is paid
def png_data_uri(payload: str) -> str:
    """Returns `png` as a data: URI, ready for an <img>."""
    return "data:image/png;base64," + b2a_base64(png(payload), newline=False).decode("ascii")


def side(payload: str) -> int:
    """Returns the width, equal to the height, of the image of `png`, in pixels."""
    _, frame = _stream(payload.encode("ascii"))
    return SCALE * (frame.layout.size + 2 * QUIET_MODULES)


def prepare(lengths: range) -> None:
    """Make the tables for payloads of these lengths, so that no request has to."""
    for length in lengths:
        _blank(length)


class _Contribution(dict[int, int]):
    """The change that each byte at one position of the payload makes to the stream.

    An entry is made from the byte's bits when the byte is first seen at the position: most positions of a BR Code only
    ever hold a few characters, and all 256 at every position would take 22 MB for version 9.
    """

    __slots__ = ("_bits",)

    def __init__(self, bits: tuple[int, ...]) -> None:
        self._bits = bits  # most significant first, as in the symbol

    def __missing__(self, byte: int) -> int:
        change = reduce(xor, (column for k, column in enumerate(self._bits) if byte & (0x80 >> k)), 0)
        self[byte] = change
        return change


class _Layout(NamedTuple):
    """The layout of the compressed pixels of one version. Bits count from the first bit of the stream."""

    size: int  # modules a side
    row_bytes: int  # of a scanline, its filter included
    pixel_bytes: int
    stream_bytes: int
    light: int  # the stream of an image without a dark module, as a little-endian integer
    first: int  # the bit of the module at the top left
    stride: int  # bits from one row of modules to the next

    def bit(self, i: int, j: int) -> int:
        """Returns, as a power of two, the bit that is 1 when module j of row i is light."""
        byte, low = divmod(QUIET_MODULES + j, 2)
        return 1 << (self.first + i * self.stride + 3 * byte + low)


class _Frame(NamedTuple):
    """The data that all symbols of one version have in common."""

    layout: _Layout
    empty: int  # the stream of a symbol all of whose data bits are 0
    columns: tuple[int, ...]  # the bits of the stream that each data bit flips
    first: int  # the data bit at which the payload begins
    contributions: tuple[_Contribution, ...]  # by position in the payload
    head: bytes  # of the PNG, up to and including the length of its pixel data


def _stream(payload: bytes) -> tuple[int, _Frame]:
    """Returns the compressed pixels of a payload, as a little-endian integer, and the frame of its version.

    The BR Codes of a merchant differ from the last segment of the location to the amount, and in the checksum. What
    the rest contributes is cached. Any other payload gives the same symbol as slowly as if nothing were cached.
    """
    length = len(payload)
    checksum_at = max(0, length - _CHECKSUM_BYTES)
    tail_at = payload.rfind(_COUNTRY, 0, checksum_at)
    if tail_at < 0:
        tail_at = checksum_at
    segment_at = payload.rfind(b"/", 0, tail_at) + 1
    stream, frame = _with_head(payload[:segment_at], length)
    stream ^= _tail_change(payload[tail_at:checksum_at], length)
    stream = _change(stream, frame, payload[segment_at:tail_at], segment_at)
    return _change(stream, frame, payload[checksum_at:], checksum_at), frame


@lru_cache(maxsize=256)  # a bank's host, for each length of a payload
def _with_head(head: bytes, length: int) -> tuple[int, _Frame]:
    """Returns the stream of a payload of `length` bytes that begins with `head`, the rest being zeros."""
    stream, frame = _blank(length)
    return _change(stream, frame, head, 0), frame


@lru_cache(maxsize=4096)  # 5 MB: a merchant's name and city, for each length of a payload
def _tail_change(tail: bytes, length: int) -> int:
    """Returns the change that `tail`, which ends where the checksum begins, makes to the stream of zeros."""
    _, frame = _blank(length)
    return _change(0, frame, tail, length - _CHECKSUM_BYTES - len(tail))


def _change(stream: int, frame: _Frame, part: bytes, start: int) -> int:
    """Returns `stream` with the bytes of `part` in place of the zero bytes from `start` on."""
    return reduce(xor, map(getitem, frame.contributions[start : start + len(part)], part), stream)


@lru_cache(maxsize=BYTES_MAX)  # bounded by the lengths there are
def _blank(length: int) -> tuple[int, _Frame]:
    """Returns the stream of `length` zero bytes, including length field, padding, mask and function patterns."""
    assert 0 < length <= BYTES_MAX, "a BR Code has 1 to 512 characters"
    capacity = _consts.SYMBOL_CAPACITY  # in bits
    frame = _frame(
        next(
            version
            for version in range(1, 41)
            if _payload_start(version) + 8 * length <= capacity[version][_ERROR_LEVEL]
        )
    )
    return frame.empty ^ _zeros_change(length, frame.columns, frame.first), frame


def _payload_start(version: int) -> int:
    """Returns the data bit at which a payload begins, after its mode and its length."""
    length_bits: int = _consts.CHAR_COUNT_INDICATOR_LENGTH[_consts.MODE_BYTE][_segno.version_range(version)]
    return len(_BYTE_MODE) + length_bits


def _zeros_change(length: int, columns: Sequence[int], first: int) -> int:
    """Returns the change that `length` zero bytes, beginning at data bit `first`, make to a symbol without data."""
    stream = _xor_of_set_bits(columns[:first], f"{_BYTE_MODE}{length:0{first - len(_BYTE_MODE)}b}")
    # ISO 18004, 7.4.9 and 7.4.10: four zero bits end the data, and with it a codeword; two alternating codewords fill
    # the rest. segno writes one codeword of zeros before them, which readers ignore.
    for at, codeword in zip(range(first + 8 * length + 12, len(columns), 8), cycle((0xEC, 0x11)), strict=False):
        stream ^= _xor_of_set_bits(columns[at : at + 8], f"{codeword:08b}")
    return stream


def _xor_of_set_bits(columns: Sequence[int], bits: str) -> int:
    return reduce(xor, (column for column, bit in zip(columns, bits, strict=True) if bit == "1"), 0)


@lru_cache(maxsize=40)  # bounded by the versions there are; charges need 7 to 11
def _frame(version: int) -> _Frame:
    layout = _layout(_segno.calc_matrix_size(version))
    side = (layout.size + 2 * QUIET_MODULES) * SCALE
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
    data_bytes = len(_ZLIB_HEADER) + layout.stream_bytes + 4  # 4 bytes of checksum
    columns = tuple(_columns(version, layout))
    first = _payload_start(version)  # not a multiple of 8, so payload bytes straddle two codewords
    starts = range(first, len(columns) - 7, 8)
    contributions = tuple(_Contribution(tuple(columns[start : start + 8])) for start in starts)
    qr = segno.make_qr(bytes(1), version=version, error="m", mode="byte", mask=MASK, boost_error=False)
    stream = layout.light
    for i, row in enumerate(qr.matrix):
        for j, dark in enumerate(row):
            if dark:
                stream ^= layout.bit(i, j)
    return _Frame(
        layout=layout,
        empty=stream ^ _zeros_change(1, columns, first),
        columns=columns,
        first=first,
        contributions=contributions,
        head=b"\x89PNG\r\n\x1a\n" + header + struct.pack(">I", data_bytes),
    )


def _layout(size: int) -> _Layout:
    """One deflate block: a literal for each byte of a row's first scanline, then a match for its repetitions."""
    row_bytes = 1 + (size + 2 * QUIET_MODULES + 1) // 2  # the side is always odd: half a byte is left over
    head, repeat, end = _block(row_bytes)
    row = _LITERALS[0x00] + _LITERALS[0xFF] * (row_bytes - 1)
    quiet = row + repeat * (1 + (QUIET_MODULES - 1) * SCALE // (SCALE - 1))  # 1 + 3 + 12 scanlines
    bits = head + quiet + (row + repeat) * size + quiet + end
    return _Layout(
        size=size,
        row_bytes=row_bytes,
        pixel_bytes=row_bytes * SCALE * (size + 2 * QUIET_MODULES),
        stream_bytes=(len(bits) + 7) // 8,
        light=int(bits[::-1], 2),
        first=len(head + quiet) + len(_LITERALS[0x00]) + 1,  # after the filter, and the 1 that begins every literal
        stride=len(row + repeat),
    )


def _block(row_bytes: int) -> tuple[str, str, str]:
    """Returns the bits of the block's head, of the match that repeats the last scanline three times, and of the block's
    end (RFC 1951, 3.2.7).

    The Huffman code: EOB 00, the only length 01, the four literals 1xx, the only distance 0. The code is complete, as
    readers demand.
    """
    length_symbol, length_extra = _symbol_and_extra_bits(row_bytes * (SCALE - 1) - 3, 4, 257)
    distance_symbol, distance_extra = _symbol_and_extra_bits(row_bytes - 1, 2, 0)
    lengths = [0] * (length_symbol + 1 + distance_symbol + 1)
    for literal in _LITERALS:
        lengths[literal] = 3
    lengths[256] = lengths[length_symbol] = 2
    lengths[-1] = 1
    # The code lengths are written so: 2 as 00, 3 as 01, eleven and more zeros as 10, 1 as 110, up to ten zeros as 111.
    code_lengths = {18: 2, 2: 2, 17: 3, 3: 2, 1: 3}
    order = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1)
    bits = "1" + _lsb_first(2, 2) + _lsb_first(length_symbol - 256, 5) + _lsb_first(distance_symbol, 5)
    bits += _lsb_first(len(order) - 4, 4) + "".join(_lsb_first(code_lengths.get(each, 0), 3) for each in order)
    for length, group in groupby(lengths):
        count = len(list(group))
        if length:
            bits += {1: "110", 2: "00", 3: "01"}[length] * count
            continue
        while count:
            zeros = min(count, 138)
            assert zeros > 2, "fewer zeros have no code here"
            bits += "10" + _lsb_first(zeros - 11, 7) if zeros > 10 else "111" + _lsb_first(zeros - 3, 3)
            count -= zeros
    return bits, f"01{length_extra}0{distance_extra}", "00"


def _symbol_and_extra_bits(value: int, per_step: int, first: int) -> tuple[int, str]:
    """Returns the symbol and the extra bits of `value`: a length less 3 (four symbols for each number of extra bits),
    or a distance less 1 (two symbols)."""
    extra = max(0, (value // per_step).bit_length() - 1)
    return first + extra * per_step + (value >> extra), _lsb_first(value & ((1 << extra) - 1), extra)


def _lsb_first(value: int, bits: int) -> str:
    """Returns a number with its least significant bit first, as the stream has numbers, unlike codes."""
    return f"{value:0{bits}b}"[::-1] if bits else ""


def _columns(version: int, layout: _Layout) -> list[int]:
    """Returns the columns of the linear map: the bits of the stream that each data bit flips, parity included."""
    ec_infos = _consts.ECC[version][_ERROR_LEVEL]
    infos = [info for info in ec_infos for _ in range(info.num_blocks)]
    blocks: list[range] = []  # the data codewords of each block, numbered through
    for info in infos:
        start = blocks[-1].stop if blocks else 0
        blocks.append(range(start, start + info.num_data))
    # ISO 18004, 7.6: the message takes one codeword of each block in turn, first data, then error correction.
    order = [word for word in chain.from_iterable(zip_longest(*blocks)) if word is not None]
    slots = {word: slot for slot, word in enumerate(order)}
    flips = _module_bits(version, layout, sum(info.num_total for info in infos))
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


def _parities(info: Any) -> list[bytes]:
    """Returns, for each data bit of a block, the error correction codewords when that bit alone is set."""
    last_parities = [_parity(info, 8 * info.num_data - 1 - bit) for bit in range(8)]  # least significant first
    codewords = info.num_total - info.num_data
    parities = last_parities[:]
    # Moving a codeword ahead by one place multiplies its parity by x, modulo the generator. The codeword that comes out
    # at the top counts as a data codeword at the last place.
    for _ in range(8 * (info.num_data - 1)):
        top, rest = divmod(parities[-8] << 8, 1 << 8 * codewords)
        parities.append(reduce(xor, (last_parities[bit] for bit in range(8) if top >> bit & 1), rest))
    return [parity.to_bytes(codewords, "big") for parity in reversed(parities)]


def _parity(info: Any, bit: int) -> int:
    bits = bytearray(8 * info.num_data)
    bits[bit] = 1
    _, (parity,) = _segno.make_blocks((info._replace(num_blocks=1),), _segno.Buffer(bits))
    return int.from_bytes(parity, "big")


def _module_bits(version: int, layout: _Layout, codewords: int) -> list[int]:
    """Returns, for each bit of the message, the bit of the module that shows it, as a power of two."""
    size = layout.size
    matrix = _segno.make_matrix(size, size)
    _segno.add_finder_patterns(matrix, size, size)
    _segno.add_alignment_patterns(matrix, size, size)
    # segno places the given values where the matrix has a 2, so it is given serial numbers from 3 on.
    numbered = [list(row) for row in matrix]
    _segno.add_codewords(numbered, range(3, 3 + 8 * codewords), version)
    flips = [0] * (8 * codewords)
    for i, row in enumerate(numbered):
        for j, number in enumerate(row):
            if number > 2:
                flips[number - 3] = layout.bit(i, j)
    return flips


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


_IEND = _chunk(b"IEND", b"")
_ZLIB_HEADER = b"\x78\x01"  # the RFC 1950 header: deflate, a window of 32 KiB, and the check of these two bytes
_RAW_WBITS = -zlib.MAX_WBITS  # the same window, without the header
