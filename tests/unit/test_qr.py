"""QR symbols: the same modules as segno's, in a valid PNG."""

import base64
import io
import random
import struct
import zlib

import pytest
import segno
from PIL import Image

from domain.pix.qr import BYTES_MAX, MASK, QUIET_MODULES, SCALE, png, png_data_uri, symbol
from tests.support.code_reader import qr_text

BR_CODE = (
    "00020101021226760014br.gov.bcb.pix2554pix.example.com/qr/v2/8b3da2f39a4140d1a91abd93113bd4"
    "415204000053039865406123.455802BR5913Fulano de Tal6008BRASILIA62070503***63041D3D"
)


def test_symbols_of_every_payload_length_equal_segnos_module_by_module() -> None:
    rnd = random.Random(18004)
    for length in range(1, BYTES_MAX + 1):
        payload = rnd.randbytes(length)
        code = segno.make_qr(payload, error="m", boost_error=False, mode="byte", mask=MASK)
        assert symbol(payload) == (len(code.matrix), tuple(bytes(row) for row in code.matrix)), length


@pytest.mark.parametrize("byte", [0x00, 0x20, 0x7E, 0x80, 0xFF])
@pytest.mark.parametrize("length", [152, 153, 180, 181, 213, 214])  # the longest and shortest of versions 8 to 11
def test_symbols_at_the_edges_of_a_version_equal_segnos(length: int, byte: int) -> None:
    payload = bytes([byte]) * length
    code = segno.make_qr(payload, error="m", boost_error=False, mode="byte", mask=MASK)
    assert symbol(payload).rows == tuple(bytes(row) for row in code.matrix)


def test_another_decoder_reads_payloads_of_every_length() -> None:
    rnd = random.Random(7)
    for length in range(1, BYTES_MAX + 1, 5):
        text = "".join(rnd.choices([chr(sign) for sign in range(0x20, 0x7F)], k=length))
        assert qr_text(png(text)) == text


def test_the_image_shows_each_module_with_four_pixels_a_side_inside_a_quiet_zone() -> None:
    image = Image.open(io.BytesIO(png(BR_CODE)))
    image.load()
    assert (image.format, image.mode) == ("PNG", "1")
    size, rows = symbol(BR_CODE.encode())
    assert image.size == ((size + 2 * QUIET_MODULES) * SCALE,) * 2
    dark = {(i, j) for i in range(size) for j in range(size) if rows[i][j]}
    for y in range(image.height):
        for x in range(image.width):
            module = (y // SCALE - QUIET_MODULES, x // SCALE - QUIET_MODULES)
            assert (image.getpixel((x, y)) == 0) == (module in dark)


def test_the_image_of_every_version_equals_segnos_pixel_by_pixel() -> None:
    # Each width of scanline is compressed with other repeat codes; one wrong bit in them shifts everything after it.
    rnd = random.Random(1951)
    seen = set()
    for length in range(1, BYTES_MAX + 1, 7):
        text = "".join(rnd.choices([chr(sign) for sign in range(0x20, 0x7F)], k=length))
        code = segno.make_qr(text.encode(), error="m", boost_error=False, mode="byte", mask=MASK)
        theirs = io.BytesIO()
        code.save(theirs, kind="png", scale=SCALE, border=QUIET_MODULES)
        with Image.open(theirs) as expected, Image.open(io.BytesIO(png(text))) as image:
            assert image.tobytes() == expected.convert("1").tobytes(), length
        seen.add(code.version)
    assert seen == set(range(1, 19))


def test_the_png_holds_every_scanline_and_its_checksums() -> None:
    # Lenient readers accept a truncated file or a wrong checksum; browsers and mail programs may not.
    data = png(BR_CODE)
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length) == (zlib.crc32(kind + body),)
        chunks[kind], at = body, at + 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (width, rest) == (height, [1, 0, 0, 0, 0])
    assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + (width + 7) // 8)


def test_the_data_uri_holds_the_png() -> None:
    scheme, _, encoded = png_data_uri(BR_CODE).partition(",")
    assert scheme == "data:image/png;base64"
    assert base64.b64decode(encoded, validate=True) == png(BR_CODE)


def test_the_same_payload_gives_the_same_bytes() -> None:
    assert png(BR_CODE) == png(BR_CODE)


def test_text_that_cannot_be_a_br_code_is_refused() -> None:
    with pytest.raises(ValueError, match="ascii"):
        png("Bras\u00edlia")
    for length in (0, BYTES_MAX + 1):
        with pytest.raises(AssertionError):
            symbol(bytes(length))
