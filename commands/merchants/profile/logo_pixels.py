"""Turn an uploaded logo file into the images that are stored.

Pillow adds two megabytes to a process, so a server imports this module only when a file is uploaded.

Nothing but the pixels of the file is used: they are decoded, put on white and encoded anew, once for pages, paper and
mails, and once for the link previews of messengers. The images are opaque, because they are shown on white paper and on
dark screens.
"""

import struct
import zlib
from io import BytesIO
from typing import Final

from PIL import Image, ImageChops, ImageOps

from commands.merchants.profile.logo import StoredLogo
from domain.errors import Code, Refused
from domain.merchants.logo import (
    BYTES_MAX,
    HEIGHT_MAX,
    PREVIEW_ROOM,
    PREVIEW_SIZE,
    SENT_BYTES_MAX,
    SENT_PIXELS_MAX,
    SENT_SIDE_MAX,
    SENT_SIDE_MIN,
    WIDTH_MAX,
    fitted_pixels,
)

# The errors that Pillow's readers raise for bytes that are no image; a test feeds them many such files.
_DECODE_ERRORS: Final = (
    OSError, SyntaxError, ValueError, TypeError, ArithmeticError, LookupError, EOFError, AssertionError,
    NotImplementedError, struct.error, zlib.error, Image.DecompressionBombError,
)  # fmt: skip
_READABLE_MODES: Final = frozenset(("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK"))
_WHITE: Final = (255, 255, 255)
_NEARLY_WHITE: Final = 12
"""Out of 255: scanned images and JPEGs have no pure white around the drawing."""
_SCANS_MAX: Final = 100
"""Scans of one JPEG; programs write ten. Decoding a scan of a dozen bytes goes over the whole picture, and one MB holds
65,000 of them."""
_SCAN: Final = b"\xff\xda"
"""The marker of a scan. Compressed data cannot contain it, because a byte 255 is followed by 0 there."""
_SCALES: Final = (1.0, 0.75, 0.5, 0.35)
"""The scales tried until the image is small enough. The smallest has 10 kB uncompressed in 256 colours."""


def read_logo(raw: bytes) -> StoredLogo:
    """Returns the logo to store; takes up to half a second of CPU. Refused(VALIDATION_ERROR) with fields.logo: `bytes`,
    `kind`, `size` or `blank`."""
    if len(raw) > SENT_BYTES_MAX:
        raise _refusal("bytes")
    try:
        drawn = _flatten_on_white(raw)
    except _DECODE_ERRORS:
        raise _refusal("kind") from None
    bounds = _drawn_bounds(drawn)
    if bounds is None:
        raise _refusal("blank")
    drawn = drawn.crop(bounds)
    image, size = _small_png(drawn, fitted_pixels(*drawn.size, (WIDTH_MAX, HEIGHT_MAX)), None)
    preview, _ = _small_png(drawn, fitted_pixels(*drawn.size, PREVIEW_ROOM), PREVIEW_SIZE)
    return StoredLogo(*size, image, preview)


def _refusal(why: str) -> Refused:
    return Refused(Code.VALIDATION_ERROR, fields={"logo": why})


def _flatten_on_white(raw: bytes) -> Image.Image:
    """Returns the first picture of the file on white, in a new image without profiles, texts and dates. The picture's
    size is checked before a pixel is decoded, and structures that cost much work for few bytes before anything else."""
    if raw.count(_SCAN) > _SCANS_MAX or raw.count(b"iCCP") > 1:  # Pillow unpacks each profile as it meets it
        raise _refusal("kind")
    opened = Image.open(BytesIO(raw), formats=("PNG", "JPEG"))
    width, height = opened.size
    if (
        max(width, height) > SENT_SIDE_MAX
        or width * height > SENT_PIXELS_MAX
        or min(width, height) < SENT_SIDE_MIN
        or min(fitted_pixels(width, height, (WIDTH_MAX, HEIGHT_MAX))) < SENT_SIDE_MIN
    ):
        raise _refusal("size")
    if opened.mode not in _READABLE_MODES:
        raise _refusal("kind")
    # A JPEG is decoded at a reduced size: at least twice the wanted one, or its full size.
    opened.draft("RGB", (2 * WIDTH_MAX, 2 * HEIGHT_MAX))
    turned = ImageOps.exif_transpose(opened)
    if turned.mode == "CMYK":
        turned = turned.convert("RGB")
    layer = turned.convert("RGBA")
    paper = Image.new("RGB", layer.size, _WHITE)
    paper.paste(layer, mask=layer.getchannel("A"))
    return paper


def _drawn_bounds(image: Image.Image) -> tuple[int, int, int, int] | None:
    """Returns the bounds of the part that is not white; None for an image that is all white."""
    darker = ImageChops.invert(image.convert("L"))
    coloured = ImageChops.difference(image, Image.new("RGB", image.size, _WHITE)).convert("L")
    return ImageChops.lighter(darker, coloured).point(lambda value: 255 if value > _NEARLY_WHITE else 0).getbbox()


def _small_png(
    drawn: Image.Image, size: tuple[int, int], paper: tuple[int, int] | None
) -> tuple[bytes, tuple[int, int]]:
    """Returns a PNG of at most BYTES_MAX and its size: in all colours if that is small enough, else in 256 colours,
    else in fewer pixels. With `paper`, the image is centred on a white sheet of that size."""
    for scale in _SCALES:
        scaled = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
        picture = drawn.resize(scaled, Image.Resampling.LANCZOS, reducing_gap=2.0) if scaled != drawn.size else drawn
        if paper is not None:
            sheet = Image.new("RGB", paper, _WHITE)
            sheet.paste(picture, ((paper[0] - scaled[0]) // 2, (paper[1] - scaled[1]) // 2))
            picture = sheet
        for variant in (picture, picture.quantize(256)):
            encoded = BytesIO()
            variant.save(encoded, "PNG", optimize=True)
            if encoded.tell() <= BYTES_MAX:
                return encoded.getvalue(), picture.size
    raise AssertionError("256 colours of so few pixels are small enough")
