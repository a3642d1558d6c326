"""The downloads of the documentation for a merchant's engineers: webhook receivers, and the command line.

A receiver is one file that runs as it is, with the signature verification copied into it. The command line is a zip
that Python runs, built from docs/cli.
"""

import io
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

from litestar import get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Response
from litestar.types import ControllerRouterHandler

_DOCS: Final = Path(__file__).parents[2] / "docs"
CLI: Final = "quita-cli.pyz"
# The verification that each receiver needs: its file, the receiver's line that imports it, and the part to leave out.
_RECEIVERS: Final = {
    "receiver.py": ("verify.py", r"^from verify import receive.*$", r"\Z"),
    "receiver.mjs": ("verify.mjs", r"^import \{ receiver \} from .*$", r"^export "),
    "receiver.php": ("verify.php", r"^require __DIR__ \. '/verify\.php';$", r"^<\?php\n"),
}
FILES: Final = (*_RECEIVERS, *(verify for verify, _, _ in _RECEIVERS.values()))
# A fixed date in every build, so that the download's bytes change only when its files do.
_ZIP_TIMESTAMP: Final = (2026, 1, 1, 0, 0, 0)


@cache
def receiver(name: str) -> bytes:
    """The file as it is downloaded; KeyError for a name that is not offered."""
    if name not in FILES:
        raise KeyError(name)
    text = (_DOCS / "receiver" / name).read_text(encoding="utf-8")
    if name in _RECEIVERS:
        verify, line, left_out = _RECEIVERS[name]
        verification = re.sub(
            left_out, "", (_DOCS / "receiver" / verify).read_text(encoding="utf-8"), flags=re.M
        ).strip("\n")
        text, replaced = re.subn(line, lambda _: verification, text, flags=re.M)
        assert replaced == 1, f"{name} brings {verify} in by one line"
    return text.encode()


@cache
def command_line() -> bytes:
    """The zip for `python3 quita-cli.pyz`: the package, and a module that runs it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        files = {f"quita_cli/{path.name}": path.read_bytes() for path in (_DOCS / "cli" / "quita_cli").glob("*.py")}
        files["__main__.py"] = b"import sys\n\nfrom quita_cli.main import main\n\nsys.exit(main())\n"
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _ZIP_TIMESTAMP), files[name], zipfile.ZIP_DEFLATED)
    return b"#!/usr/bin/env python3\n" + packed.getvalue()


@get("/docs/receiver/{name:str}", sync_to_thread=False)
def download_receiver(name: FromPath[str]) -> Response[bytes]:
    if name not in FILES:
        raise NotFoundException
    return _attachment(name, receiver(name), "text/plain")


@get(f"/docs/{CLI}", sync_to_thread=False)
def download_command_line() -> Response[bytes]:
    return _attachment(CLI, command_line(), "application/zip")


def _attachment(name: str, content: bytes, media_type: str) -> Response[bytes]:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "public, max-age=300"}
    return Response(content, headers=headers, media_type=media_type)


DOWNLOAD_HANDLERS: list[ControllerRouterHandler] = [download_receiver, download_command_line]
