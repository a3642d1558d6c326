"""The forms that boletos are written into, made by a process of their own (readmodels/documents/boleto_form.py)."""

import subprocess
import sys
import threading
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from readmodels.documents.content_stream import Box

_RENDERED_S_MAX: Final = 60.0


class Layout(Enum):
    PLAIN = "plain"
    HYBRID = "hybrid"
    VOID = "void"


class Kind(NamedTuple):
    layout: Layout
    test: bool


class Form(NamedTuple):
    """`page`, `page_with_logo` and `logo` are objects of the file as an update writes them anew, with %(content)d and
    %(image)d for the numbers of what it adds, and %(alt)b for what the logo is called, in hexadecimal."""

    boxes: dict[str, Box]
    marks: dict[str, int]
    """The number of each box that is written into."""
    file: bytes
    """A whole PDF."""
    page: bytes
    page_with_logo: bytes
    page_number: int
    logo: bytes
    """Its place in the structure."""
    logo_number: int
    next_number: int
    root_number: int
    xref_at: int


KINDS: Final = tuple(Kind(layout, test) for layout in Layout for test in (False, True))
_read = msgspec.msgpack.Decoder(list[tuple[Kind, Form]]).decode
_made: dict[Kind, Form] = {}
_making = threading.Lock()


def form_of(kind: Kind) -> Form:
    """Made for all kinds when it is first asked for: about a second, off this process. Others who ask wait for that.

    Raises CalledProcessError or TimeoutExpired when the forms cannot be made; who asks next tries again.
    """
    if not _made:
        with _making:
            if not _made:
                _made.update(_rendered())
    return _made[kind]


def _rendered() -> dict[Kind, Form]:
    command = [sys.executable, "-m", "readmodels.documents.boleto_form"]
    root = Path(__file__).parents[2]
    rendering = subprocess.run(  # noqa: S603
        command, cwd=root, capture_output=True, timeout=_RENDERED_S_MAX, check=True
    )
    return dict(_read(rendering.stdout))
