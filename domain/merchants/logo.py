"""Sizes of a merchant's logo: the limits of the uploaded file, the stored images, and the room where they are shown."""

from typing import Final

SENT_BYTES_MAX: Final = 1024 * 1024
SENT_SIDE_MAX: Final = 4_000
SENT_PIXELS_MAX: Final = 4_000_000
"""Decoded, so many pixels take 16 MB."""
SENT_SIDE_MIN: Final = 16
"""Nothing can be recognised on a smaller logo."""

WIDTH_MAX: Final = 400
HEIGHT_MAX: Final = 200
BYTES_MAX: Final = 32 * 1024
"""Bytes of a stored image, which is sent with every boleto and every mail."""

PREVIEW_SIZE: Final = (600, 315)
"""The image that messengers show with a link (Open Graph, 1.91 : 1)."""
PREVIEW_ROOM: Final = (300, 220)
"""The room of the logo in the middle of the preview, because some messengers cut a square out of the image."""
PAGE_ROOM: Final = (160, 48)
"""CSS pixels on the payer page and in a mail: small enough that a telephone's screen still shows the copy button."""


def fitted(width: float, height: float, room: tuple[float, float]) -> tuple[float, float]:
    """Returns the largest size that fits into `room` and keeps the proportions, never larger than the original."""
    scale = min(1.0, room[0] / width, room[1] / height)
    return width * scale, height * scale


def fitted_pixels(width: int, height: int, room: tuple[int, int]) -> tuple[int, int]:
    """Returns `fitted` in whole pixels, at least one each way."""
    wide, high = fitted(width, height, room)
    return max(1, round(wide)), max(1, round(high))
