"""The forms that boletos are written into, rendered by a process of its own (readmodels/documents/boleto_form.py)."""

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
    """A rendered form. `page`, `page_with_logo` and `logo` are templates of objects that an update writes anew:
    %(content)d and %(image)d are the numbers of the objects it adds, %(alt)b is the logo's alternative text in
    hexadecimal."""

    boxes: dict[str, Box]
    marks: dict[str, int]
    """The mark number of each box that a boleto writes into."""
    file: bytes
    """The form as a complete PDF."""
    page: bytes
    page_with_logo: bytes
    page_number: int
    logo: bytes
    """The logo's element in the structure."""
    logo_number: int
    next_number: int
    root_number: int
    xref_at: int


KINDS: Final = tuple(Kind(layout, test) for layout in Layout for test in (False, True))
_decode_forms = msgspec.msgpack.Decoder(list[tuple[Kind, Form]]).decode
_forms: dict[Kind, Form] = {}
_render_lock = threading.Lock()


def form_of(kind: Kind) -> Form:
    """The form of a kind. The first call renders the forms of all kinds, in another process, for about a second; other
    callers wait meanwhile.

    Raises CalledProcessError or TimeoutExpired when the forms cannot be rendered; the next call tries again.
    """
    if not _forms:
        with _render_lock:
            if not _forms:
                _forms.update(_render_forms())
    return _forms[kind]


def _render_forms() -> dict[Kind, Form]:
    command = [sys.executable, "-m", "readmodels.documents.boleto_form"]
    root = Path(__file__).parents[2]
    rendering = subprocess.run(  # noqa: S603
        command, cwd=root, capture_output=True, timeout=_RENDERED_S_MAX, check=True
    )
    return dict(_decode_forms(rendering.stdout))
