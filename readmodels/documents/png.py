"""A PNG as a PDF image. PDF's Flate filter with PNG predictors reads a PNG's compressed rows, so they are copied
unchanged (ISO 32000-1, 7.4.4.4)."""

import struct
from typing import Final

_HEADER: Final = struct.Struct(">LLBBBBB")
_CHUNK: Final = struct.Struct(">L4s")
_RGB, _PALETTE = 2, 3


def image_object(number: int, png: bytes) -> bytes:
    """The image as the PDF object with this number. The PNG is made by us: RGB or with a palette, opaque, not
    interlaced."""
    offset, palette, rows = 8, b"", []
    while offset < len(png):
        length, kind = _CHUNK.unpack_from(png, offset)
        data = png[offset + 8 : offset + 8 + length]
        offset += 12 + length
        if kind == b"IHDR":
            width, height, bits, colours, _, _, interlaced = _HEADER.unpack(data)
        elif kind == b"PLTE":
            palette = data
        elif kind == b"IDAT":
            rows.append(data)
    assert colours in (_RGB, _PALETTE), "commands/merchants/profile/logo.py makes no others"
    assert not interlaced
    space, components = b"/DeviceRGB", 3
    if colours == _PALETTE:
        space, components = b"[/Indexed/DeviceRGB %d<%b>]" % (len(palette) // 3 - 1, palette.hex().encode()), 1
    stream = b"".join(rows)
    decode_parameters = b"<</Predictor 15/Colors %d/BitsPerComponent %d/Columns %d>>" % (components, bits, width)
    return (
        b"%d 0 obj\n<</Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace%b/BitsPerComponent %d"
        b"/Filter/FlateDecode/DecodeParms%b/Length %d>>stream\n%b\nendstream\nendobj\n"
        % (number, width, height, space, bits, decode_parameters, len(stream), stream)
    )
