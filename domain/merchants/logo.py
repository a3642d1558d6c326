"""A merchant's logo: how large it may be, as it is sent and as it is kept, and the room it takes where it is shown."""

from typing import Final

SENT_BYTES_MAX: Final = 1024 * 1024
SENT_SIDE_MAX: Final = 4_000
SENT_PIXELS_MAX: Final = 4_000_000
"""Decoded they are 16 MB."""
SENT_SIDE_MIN: Final = 16
"""Of a smaller one nothing is recognised."""

WIDTH_MAX: Final = 400
HEIGHT_MAX: Final = 200
BYTES_MAX: Final = 32 * 1024
"""Of what is kept: it goes out with every boleto and every mail."""

PREVIEW_SIZE: Final = (600, 315)
"""What messengers show of a link (Open Graph, 1.91 : 1)."""
PREVIEW_ROOM: Final = (300, 220)
"""In its middle: some messengers cut a square out of it."""
PAGE_ROOM: Final = (160, 48)
"""CSS pixels on a payer's page and in a mail: a telephone's screen still shows the button to copy."""


def fitted(width: float, height: float, room: tuple[float, float]) -> tuple[float, float]:
    """As large as it gets in `room` with its shape kept, and no larger than it is."""
    scale = min(1.0, room[0] / width, room[1] / height)
    return width * scale, height * scale


def fitted_pixels(width: int, height: int, room: tuple[int, int]) -> tuple[int, int]:
    """`fitted` in whole pixels, one at least."""
    wide, high = fitted(width, height, room)
    return max(1, round(wide)), max(1, round(high))
