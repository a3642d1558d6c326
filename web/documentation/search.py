"""What the documentation can be searched for: every page and section with the words beneath it, as one plain list. A
small script narrows it while somebody types; without scripts the browser's own search does."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from domain.errors import Code
from web.documentation.guides import GUIDES, ROOTS, START, Language
from web.documentation.markdown import headings
from web.documentation.reference import Reference
from web.documentation.remedies import REMEDIES
from web.documentation.remedies_pt import REMEDIES_PT

_WORDS_MAX: Final = 1_500
"""Characters of a section that are searched."""


class SearchEntry(Struct, frozen=True):
    """`within` is the page; `words`, in lower case, are what is searched beside both titles."""

    path: str
    title: str
    within: str
    words: str


def entries(found: Reference | None, language: Language, start: str) -> list[SearchEntry]:
    return [*_guides(language, start), *_reference(found, language), *_errors(language)]


def _guides(language: Language, start: str) -> Iterator[SearchEntry]:
    for guide in GUIDES[language].values():
        path = start if guide.name == START else f"{ROOTS[language]}/{guide.name}"
        # Outside of code: a line of a shell that begins with ## is no heading.
        prose = re.sub(r"^```.*?^```$", "", guide.text, flags=re.M | re.S)
        first, *parts = re.split(r"^## .*$", prose, flags=re.M)
        yield SearchEntry(path, guide.title, "", _plain(first))
        for (name, title), words in zip(headings(guide.text, level=2), parts, strict=True):
            yield SearchEntry(f"{path}#{name}", title, guide.title, _plain(words))


def _reference(found: Reference | None, language: Language) -> Iterator[SearchEntry]:
    if found is None:
        return
    for tag, (title, operations) in found.tags.items():
        for each in operations:
            words = " ".join([each.path, each.notes, *(field.name for field in each.body_fields)])
            yield SearchEntry(
                f"/docs/api/{tag}#{each.id}", f"{each.method} {each.path}", title, _plain(f"{each.summary} {words}")
            )
    for event in found.events:
        yield SearchEntry(f"{ROOTS[language]}/events#{event.kind}", event.kind, "Webhooks", _plain(event.when))


def _errors(language: Language) -> Iterator[SearchEntry]:
    remedies = REMEDIES_PT if language == "pt" else REMEDIES
    for code in Code:
        words = _plain(f"{code.status} {code.message} {remedies[code]}")
        yield SearchEntry(f"{ROOTS[language]}/errors/{code.name}", code.name, str(code.status), words)


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"[`*|#\[\]]", " ", text)).strip().lower()[:_WORDS_MAX]
