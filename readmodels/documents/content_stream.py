"""The PDF content stream that is written onto a form: texts that stay in their boxes, a barcode, a QR Code.

Its operators are written here and not by reportlab's canvas, for speed: see docs/decisions/0018-boleto-pdf.md. The
content of a box is marked with the box's number, by which the form's structure gives its kind and its place in the
reading order (ISO 32000-1, 14.7.4.2; docs/decisions/0056).
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from math import cos, radians, sin
from typing import NamedTuple

from reportlab.lib.units import mm

from domain.boleto.itf import bars
from domain.pix.qr import QUIET_MODULES, symbol
from readmodels.documents.typeface import BOLD, TEXT

PAGE_MM = 297.0  # A4


class Box(NamedTuple):
    """A box of the form, in millimetres from the page's upper left corner."""

    left: float
    top: float
    width: float
    height: float
    shaded: bool = False

    @property
    def bottom(self) -> float:
        """The distance of the box's lower edge from the page's lower edge, where PDF's coordinates begin."""
        return PAGE_MM - self.top - self.height

    @property
    def corners(self) -> tuple[float, float, float, float]:
        """Left, bottom, width and height in points."""
        return self.left * mm, self.bottom * mm, self.width * mm, self.height * mm


class _Font(NamedTuple):
    name: bytes  # of the resource
    widths: tuple[int, ...]  # thousandths of the size, by cp1252 byte


FONTS = {TEXT.name: b"/BoletoText", BOLD.name: b"/BoletoBold"}
LOGO = b"/Logo"
_TEXT, _BOLD = (_Font(FONTS[face.name], face.widths) for face in (TEXT, BOLD))
_ELLIPSIS = b"\x85"
_ESCAPES = {byte: f"\\{chr(byte)}".encode("ascii") for byte in b"\\()"}
_LABEL_MM = 2.6  # height of a box's label
_SHRINK_MIN = 0.72  # of the wanted size: 8.5 pt shrinks to 6.1 pt, still readable without glasses


class Paragraph(NamedTuple):
    text: str
    bold: bool = False
    lines_max: int = 20


class ContentStream:
    """Writes into the boxes of a form, into each once; `ops` are PDF operators. A text too long for its box is shrunk,
    then cut."""

    def __init__(self, boxes: dict[str, Box], marks: dict[str, int]) -> None:
        """`marks` has the number of each box that can be written into."""
        self.ops: list[bytes] = []
        self._boxes = boxes
        self._unwritten_marks = dict(marks)

    def written(self) -> bytes:
        """The whole stream. Boxes left empty are marked too, because the structure refers to them."""
        self.ops += [_BEGIN_MARK % mark + _END_MARK for mark in self._unwritten_marks.values()]
        return b"".join(self.ops)

    def _begin_mark(self, box: str) -> None:
        self.ops.append(_BEGIN_MARK % self._unwritten_marks.pop(box))

    def text(
        self,
        box: str,
        text: str,
        size: float,
        *,
        bold: bool = False,
        up: float = 1.5,
        align: str = "left",
        inset: float = 1.4,
    ) -> None:
        """Write one line of text, as `_write_line`."""
        self._begin_mark(box)
        self._write_line(box, text, size, bold=bold, up=up, align=align, inset=inset)
        self.ops.append(_END_MARK)

    def _write_line(
        self,
        box: str,
        text: str,
        size: float,
        *,
        bold: bool = False,
        up: float = 1.5,
        align: str = "left",
        inset: float = 1.4,
        right: float = 0,
        ends: tuple[str, ...] = (),
    ) -> None:
        """Write one line, its baseline `up` mm above the box's lower edge, leaving `right` mm free on the right.

        A text too long is cut before one of its `ends`, which is kept: the first that takes at most half of the line.
        """
        place = self._boxes[box]
        room = (place.width - 2 * inset - right) * mm
        font = _BOLD if bold else _TEXT
        encoded, size = _fit_line(_to_cp1252(text), font, size, room, [_to_cp1252(end) for end in ends])
        width = _width(encoded, font) * size
        left: float = (place.left + inset) * mm + {"left": 0.0, "center": (room - width) / 2, "right": room - width}[
            align
        ]
        self._show(encoded, font, size, left, (place.bottom + up) * mm)

    def party(self, box: str, name: str, document: str, address: str) -> None:
        """Write name and document on one line, and the address below: street and number, then town and zip code. The
        document (required by Lei 12.039/2009) is never cut, and the street is cut before town and zip code."""
        height = self._boxes[box].height
        first, second = (height - _LABEL_MM) * 0.61, (height - _LABEL_MM) * 0.16
        self._begin_mark(box)
        room_mm = self._boxes[box].width - 2.8
        document_mm = min(_width(_to_cp1252(document), _TEXT) * 8.5 / mm, room_mm)
        # In reading order: the name first.
        self._write_line(box, name, 8.5, bold=True, up=first, right=document_mm + 2)
        self._write_line(box, document, 8.5, up=first, align="right")
        place, _, zip_code = address.rpartition(", CEP ")
        town = place.rpartition(", ")[2]
        ends = (f", {town}, CEP {zip_code}", f", CEP {zip_code}") if place else ()
        self._write_line(box, address, 8, up=second, ends=ends)
        self.ops.append(_END_MARK)

    def paragraphs(
        self, box: str, paragraphs: list[Paragraph], size: float, leading: float, *, down: float, inset: float = 1.4
    ) -> None:
        """Write paragraphs, broken into lines `leading` mm apart, the first `down` mm below the box's top. Text that
        does not fit is cut."""
        place = self._boxes[box]
        room = (place.width - 2 * inset) * mm / size
        left, y, lowest = (place.left + inset) * mm, PAGE_MM - place.top - down, place.bottom + 0.6
        placed: list[tuple[bytes, _Font, float]] = []
        for text, bold, lines_max in paragraphs:
            font = _BOLD if bold else _TEXT
            if bold and placed:
                y -= leading / 2
            lines_left = min(lines_max, int((y - lowest) / leading) + 1 if y >= lowest else 0)
            if lines_left == 0 and placed:
                line, font, at = placed.pop()
                placed.append((_cut_to_width(line.rstrip(_ELLIPSIS), font, room, dropped=True), font, at))
                break
            for line in _break_at_blanks(_to_cp1252(text), font, room, lines_left):
                placed.append((line, font, y))
                y -= leading
        self._begin_mark(box)
        for line, font, at in placed:
            self._show(line, font, size, left, at * mm)
        self.ops.append(_END_MARK)

    def copyable(self, box: str, text: str) -> None:
        """Write a long code on three lines. /ActualText holds it whole, so that PDF viewers copy it without breaks."""
        place = self._boxes[box]
        encoded, room = text.encode("ascii"), (place.width - 2.8) * mm
        # The rest of a line into which the next character does not fit is less than 3 % of the line.
        size = int(min(8.0, 3 * 0.97 * room / _width(encoded, _TEXT)) * 100) / 100
        self._begin_mark(box)
        self.ops.append(b"/Span <</ActualText (%b)>> BDC\n" % _escape(encoded))
        for number, line in enumerate(_break_anywhere(encoded, _TEXT, room / size)):
            x, y = (place.left + 1.4) * mm, (PAGE_MM - place.top - 5.8 - number * 3.2) * mm
            self._show(line, _TEXT, size, x, y, end=b"")
        self.ops.append(_END_MARK + _END_MARK)

    def mark(self, box: str, word: str, size: float) -> None:
        """Write a word in a frame, tilted across the box like a rubber stamp."""
        place = self._boxes[box]
        encoded = _to_cp1252(word)
        width, height = _width(encoded, _BOLD) * size, size * 1.25
        self.ops.append(
            b"q %b rg %b RG 2.5 w %.4f %.4f %.4f %.4f %.2f %.2f cm /Artifact BMC %.2f %.2f %.2f %.2f re S EMC\n"
            % (
                _STAMP_COLOUR,
                _STAMP_COLOUR,
                *(_COS, _SIN, -_SIN, _COS),
                (place.left + place.width / 2) * mm,
                (place.bottom + place.height / 2) * mm,
                *(-width / 2 - size * 0.35, -height / 2, width + size * 0.7, height),
            )
        )
        self._begin_mark(box)
        # The baseline is half the height of capitals below the middle.
        self._show(encoded, _BOLD, size, -width / 2, -size * BOLD.cap_height / 2000)
        self.ops.append(_END_MARK + b"Q\n")

    def bars(self, box: str, digits: str) -> None:
        """Draw an Interleaved 2 of 5 barcode, as wide and high as the box: 405 modules of 0.254 mm for 44 digits."""
        place = self._boxes[box]
        bar_spans, modules = bars(digits)
        shapes = [b"%d 0 %d 1 re" % bar for bar in bar_spans]
        self._begin_mark(box)
        self._shapes(shapes, place.width * mm / modules, place.height * mm, place.left * mm, place.bottom * mm)
        self.ops.append(_END_MARK)

    def symbol(self, box: str, payload: str) -> None:
        """Draw the QR Code with its quiet zone, as large as the box. It is drawn as shapes, because viewers may blur an
        image."""
        place = self._boxes[box]
        size, rows = symbol(payload.encode("ascii"))
        side = place.width * mm / (size + 2 * QUIET_MODULES)
        # All rows are one path: if each were filled by itself, hairlines would show between adjacent rows.
        runs = [
            b"%d %d %d 1 re" % (run.start(), size - 1 - y, run.end() - run.start())
            for y, row in enumerate(rows)
            for run in _DARK_RUN.finditer(row)
        ]
        quiet = QUIET_MODULES * side
        self._begin_mark(box)
        self.ops.append(b"1 g %.3f %.3f %.3f %.3f re f 0 g\n" % place.corners)
        self._shapes(runs, side, side, place.left * mm + quiet, place.bottom * mm + quiet)
        self.ops.append(_END_MARK)

    def logo(self, box: str, width: int, height: int) -> None:
        """Draw the image that the page's resources name LOGO, as large as fits, in the box's upper left corner."""
        place = self._boxes[box]
        points = mm * min(place.width / width, place.height / height)
        wide, high = width * points, height * points
        top = (PAGE_MM - place.top) * mm
        self._begin_mark(box)
        self.ops.append(b"q %.3f 0 0 %.3f %.3f %.3f cm %b Do Q\n" % (wide, high, place.left * mm, top - high, LOGO))
        self.ops.append(_END_MARK)

    def _shapes(self, shapes: list[bytes], x_scale: float, y_scale: float, x: float, y: float) -> None:
        self.ops.append(b"q %.5f 0 0 %.5f %.4f %.4f cm\n%b\nf Q\n" % (x_scale, y_scale, x, y, b"\n".join(shapes)))

    def _show(self, encoded: bytes, font: _Font, size: float, x: float, y: float, *, end: bytes = b" ") -> None:
        """Show one line of text. `end` separates its last word from the next line's first in programs that join
        lines."""
        operands = (font.name, size, x, y, _escape(encoded), end)
        self.ops.append(b"BT %b %.2f Tf %.2f %.2f Td (%b%b) Tj ET\n" % operands)


_BEGIN_MARK = b"/P <</MCID %d>> BDC\n"
_END_MARK = b"EMC\n"
_DARK_RUN = re.compile(b"\x01+")
_WITHOUT_A_SHAPE = ("Mn", "Cf")
"""The Unicode categories of accents, joiners and marks of direction."""
_STAMP_COLOUR = b"0.63 0.16 0.14"  # red, dark enough to be read on a black-and-white copy
_COS, _SIN = cos(radians(8)), sin(radians(8))


def _to_cp1252(text: str) -> bytes:
    """The text in cp1252, the encoding of the fonts; other characters as close as possible."""
    text = " ".join(text.split())
    try:
        return text.encode("cp1252")
    except UnicodeEncodeError:
        return _transliterate(text)


def _transliterate(text: str) -> bytes:
    encoded = bytearray()
    for sign in unicodedata.normalize("NFC", text):
        try:
            encoded += sign.encode("cp1252")
        except UnicodeEncodeError:
            plain = unicodedata.normalize("NFKD", sign).encode("ascii", "ignore")
            encoded += plain or (b"" if unicodedata.category(sign) in _WITHOUT_A_SHAPE else b"?")
    return bytes(encoded)


def _escape(encoded: bytes) -> bytes:
    if b"(" in encoded or b")" in encoded or b"\\" in encoded:
        return b"".join(_ESCAPES.get(byte, bytes((byte,))) for byte in encoded)
    return encoded


def _width(encoded: bytes, font: _Font) -> float:
    """The text's width at font size 1."""
    return sum(map(font.widths.__getitem__, encoded)) / 1000


def _fit_line(encoded: bytes, font: _Font, size: float, room: float, ends: Sequence[bytes] = ()) -> tuple[bytes, float]:
    wide = _width(encoded, font)
    if wide * size <= room:
        return encoded, size
    smaller = max(room / wide, size * _SHRINK_MIN)
    # Rounded down to the two decimals that are written, so that the text does not get wider.
    smaller = int(smaller * 100) / 100
    room /= smaller
    end = next((end for end in ends if _width(end, font) <= room / 2), b"") if wide > room else b""
    return _cut_to_width(encoded.removesuffix(end), font, room - _width(end, font)) + end, smaller


def _cut_to_width(encoded: bytes, font: _Font, room: float, *, dropped: bool = False) -> bytes:
    """The part of the text that fits, with an ellipsis when the rest is cut, or when text after it was `dropped`."""
    if not dropped and _width(encoded, font) <= room:
        return encoded
    return _leading_part(encoded, font, room - font.widths[_ELLIPSIS[0]] / 1000).rstrip(b" .,-/") + _ELLIPSIS


def _leading_part(encoded: bytes, font: _Font, room: float) -> bytes:
    """The leading characters that fit into `room`."""
    used = 0
    for count, byte in enumerate(encoded):
        used += font.widths[byte]
        if used > room * 1000:
            return encoded[:count]
    return encoded


def _break_at_blanks(encoded: bytes, font: _Font, room: float, limit: int) -> Iterator[bytes]:
    """At most `limit` lines, broken at blanks; a word longer than a line is broken at the line's end."""
    for number in range(1, limit + 1):
        line = _leading_part(encoded, font, room)
        if len(line) == len(encoded) or number == limit:
            yield _cut_to_width(encoded, font, room)
            return
        if encoded[len(line) : len(line) + 1] != b" " and b" " in line:
            line = line[: line.rindex(b" ")]
        yield line.rstrip()
        encoded = encoded[len(line) :].lstrip()


def _break_anywhere(encoded: bytes, font: _Font, room: float) -> Iterator[bytes]:
    """Lines broken at any character, so that every character is kept, blanks included."""
    while encoded:
        line = _leading_part(encoded, font, room)
        yield line
        encoded = encoded[len(line) :]
