"""Searches logs for what they must never contain: secrets, tokens, documents and e-mail addresses (runtime/log.py).

Known secrets are searched for literally; tokens, documents and e-mail addresses by their shape.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from domain.documents import check_digits_hold

_SECRETS: set[str] = set()
_SHAPES = {
    "bearer token": re.compile(r"[Bb]earer [A-Za-z0-9_-]{20,}"),
    "webhook secret": re.compile(r"whsec_[A-Za-z0-9+/=]{20,}"),
    "e-mail": re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9-]+\.[A-Za-z0-9.-]+"),
    "link of a payer": re.compile(r"/pagar/[A-Za-z0-9_-]{22}"),
    "password in an address": re.compile(r"://[^/\s:@\"]+:[^/\s:@\"]+@"),
}
# A separate number, as it is stored or as people write it; not a part of an identifier.
_DOCUMENT = re.compile(
    r"(?<![\w.-])(?:\d{11}|\d{14}|\d{3}\.\d{3}\.\d{3}-\d{2}|\d{2}\.\d{3}\.\d{3}/\d{4}-\d{2})(?![\w-])(?!\.\d)"
)
_SECRET_LENGTH_MIN = 8


def remember_secret(*secrets: str) -> None:
    """Search for these secrets too."""
    _SECRETS.update(secret for secret in secrets if len(secret) >= _SECRET_LENGTH_MIN)


def leaks_in(text: str) -> list[str]:
    """The kinds of leaks found in this text, each with its line."""
    found = []
    for line in text.splitlines():
        kinds = [kind for kind, shape in _SHAPES.items() if shape.search(line)]
        if any(secret in line for secret in _SECRETS):
            kinds.append("secret")
        if any(check_digits_hold(re.sub(r"\D", "", number)) for number in _DOCUMENT.findall(line)):
            kinds.append("document")
        found += [f"{kind}: {line[:300]}" for kind in kinds]
    return found


def leaks_in_files(files: Iterable[Path]) -> list[str]:
    return [
        f"{file.name}: {leak}"
        for file in files
        for leak in leaks_in(file.read_text(encoding="utf-8", errors="replace"))
    ]
