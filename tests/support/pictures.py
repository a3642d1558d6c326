"""Pictures for tests, drawn here so that the repository contains none."""

import io
import secrets
from typing import Any

from PIL import Image, ImageDraw


def draw_logo(kind: str = "PNG", *, size: tuple[int, int] = (900, 300), **saved: Any) -> bytes:
    """Draw a logo: a disc and a bar with a margin, transparent (white in a JPEG) behind. Each call draws another
    logo."""
    colour, transparent = f"#{secrets.token_hex(2)}20", kind == "PNG"
    image = Image.new("RGBA" if transparent else "RGB", size, (0, 0, 0, 0) if transparent else "white")
    draw = ImageDraw.Draw(image)
    width, height = size
    draw.ellipse((width * 0.1, height * 0.1, width * 0.1 + height * 0.8, height * 0.9), fill=colour)
    draw.rectangle((width * 0.5, height * 0.3, width * 0.9, height * 0.7), fill="#3c1e14")
    return encode_picture(image, kind, **saved)


def encode_picture(image: Image.Image, kind: str = "PNG", **saved: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **saved)
    return file.getvalue()
