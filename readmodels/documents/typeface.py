"""The typeface of boletos: the font files that are embedded, and the widths of their characters.

Every form embeds all of cp1252 in regular and bold (readmodels/documents/fonts/README.md), so that a boleto's texts can
use any of these characters.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

_FONTS_FOLDER: Final = Path(__file__).with_name("fonts")
_WIN_UNICODE: Final = (3, 1)
_CAP_HEIGHT_AT: Final = 88  # in OS/2, from its version 2 on
_DRAWN_AS: Final = {0xA0: 0x20, 0xAD: 0x2D}
"""As in WinAnsiEncoding (ISO 32000-1, D.1), the no-break space is drawn as a space and the soft hyphen as a hyphen."""


class Face(NamedTuple):
    """A font file. Measures are thousandths of the font size; `widths` is by cp1252 byte, 0 for a byte without a
    character."""

    name: str
    file: bytes
    widths: tuple[int, ...]
    ascent: int
    descent: int
    cap_height: int
    bounds: tuple[int, int, int, int]


def _read_face(name: str) -> Face:
    """Read the measures of a TrueType file (OpenType 1.9). The file is part of the product, so its form is not
    checked."""
    file = (_FONTS_FOLDER / f"{name}.ttf").read_bytes()
    (count,) = struct.unpack_from(">H", file, 4)
    tables = {}
    for number in range(count):
        tag, _, offset, _ = struct.unpack_from(">4sLLL", file, 12 + 16 * number)
        tables[tag.decode("ascii")] = offset
    (units_per_em,) = struct.unpack_from(">H", file, tables["head"] + 18)

    def thousandths(value: int) -> int:
        return round(value * 1000 / int(units_per_em))

    bounds = struct.unpack_from(">4h", file, tables["head"] + 36)
    ascent, descent = struct.unpack_from(">2h", file, tables["hhea"] + 4)
    (measured_glyphs,) = struct.unpack_from(">H", file, tables["hhea"] + 34)
    glyphs = _glyphs(file, tables["cmap"])

    def width(byte: int) -> int:
        sign = bytes((_DRAWN_AS.get(byte, byte),)).decode("cp1252", "ignore")
        glyph = glyphs.get(ord(sign)) if sign else None
        if glyph is None:
            return 0
        (advance,) = struct.unpack_from(">H", file, tables["hmtx"] + 4 * min(glyph, measured_glyphs - 1))
        return thousandths(advance)

    return Face(
        name,
        file,
        tuple(width(byte) for byte in range(256)),
        thousandths(ascent),
        thousandths(descent),
        thousandths(struct.unpack_from(">h", file, tables["OS/2"] + _CAP_HEIGHT_AT)[0]),
        tuple(map(thousandths, bounds)),  # type: ignore[arg-type]
    )


def _glyphs(file: bytes, cmap: int) -> dict[int, int]:
    """Glyphs by code point, from the font's Unicode table (format 4)."""
    (count,) = struct.unpack_from(">H", file, cmap + 2)
    subtables = (struct.unpack_from(">HHL", file, cmap + 4 + 8 * number) for number in range(count))
    table_at = cmap + next(place for *kind, place in subtables if tuple(kind) == _WIN_UNICODE)
    (double_segments,) = struct.unpack_from(">H", file, table_at + 6)
    ends, starts, deltas, offsets = (
        struct.unpack_from(f">{double_segments // 2}{kind}", file, table_at + 14 + place)
        for place, kind in (
            (0, "H"),
            (double_segments + 2, "H"),
            (2 * double_segments + 2, "h"),
            (3 * double_segments + 2, "H"),
        )
    )
    glyphs = {}
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for code in range(start, end + 1):
            glyph = code
            if offsets[number]:
                place = table_at + 14 + 3 * double_segments + 2 + 2 * number + offsets[number] + 2 * (code - start)
                (glyph,) = struct.unpack_from(">H", file, place)
            if glyph:
                glyphs[code] = (glyph + deltas[number]) & 0xFFFF
    return glyphs


TEXT: Final = _read_face("Arimo-Regular")
BOLD: Final = _read_face("Arimo-Bold")
