"""Decodes QR Codes and ITF barcodes in an image with another decoder, zxing-cpp.

Only these two: among thousands of modules, a decoder of every symbology sometimes finds a linear code that nobody
printed.
"""

import io
from base64 import b64decode
from collections.abc import Iterable

import zxingcpp
from PIL import Image

_QR = zxingcpp.BarcodeFormat.QRCode
_ITF = zxingcpp.BarcodeFormat.ITF


def qr_text(image: Image.Image | bytes | str) -> str:
    """The text of the only QR Code in an image, given as image, file content, or base64 of the file."""
    if isinstance(image, str):
        image = b64decode(image, validate=True)
    if isinstance(image, bytes):
        image = Image.open(io.BytesIO(image))
    (found,) = _read(image, [_QR])
    return found.text


def printed_codes(image: Image.Image) -> dict[str, str]:
    """The texts of the codes on a boleto's page by symbology, "QRCode" and "ITF"."""
    return {found.format.name: found.text for found in _read(image, [_QR, _ITF])}


def printed_code(image: Image.Image, symbology: str) -> zxingcpp.Barcode:
    """The only code of this symbology, with its position."""
    (found,) = (each for each in _read(image, [_QR, _ITF]) if each.format.name == symbology)
    return found


def _read(image: Image.Image, wanted: Iterable[zxingcpp.BarcodeFormat]) -> list[zxingcpp.Barcode]:
    return zxingcpp.read_barcodes(image.convert("L"), formats=zxingcpp.BarcodeFormats(list(wanted)))
