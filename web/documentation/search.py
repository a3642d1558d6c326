"""What the documentation can be searched for: every page and section with the words beneath it, as one plain list. A
small script narrows it while somebody types; without scripts the browser's own search does.

Either language finds what is written in the other: code and errors are English, and whoever reads them may not be.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from domain.errors import Code
from web.documentation.guides import GUIDES, ROOTS, START, Language
from web.documentation.markdown import headings
from web.documentation.portuguese import say
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


def entries(read: Callable[[Language], Reference | None], language: Language, start: str) -> list[SearchEntry]:
    """Of the pages in `language`. `read` gives the reference, None in a process without one."""
    return [*_guides(language, start), *_reference(read, language), *_errors(language)]


def _other(language: Language) -> Language:
    return "en" if language == "pt" else "pt"


def _guides(language: Language, start: str) -> Iterator[SearchEntry]:
    for guide in GUIDES[language].values():
        path = start if guide.name == START else f"{ROOTS[language]}/{guide.name}"
        other = GUIDES[_other(language)][guide.name]
        # Outside of code: a line of a shell that begins with ## is no heading.
        prose = re.sub(r"^```.*?^```$", "", guide.text, flags=re.M | re.S)
        first, *parts = re.split(r"^## .*$", prose, flags=re.M)
        yield SearchEntry(path, guide.title, "", _plain(f"{other.title} {first}"))
        of_both = zip(headings(guide.text, level=2), headings(other.text, level=2), parts, strict=True)
        for (name, title), (_, other_title), words in of_both:
            yield SearchEntry(f"{path}#{name}", title, guide.title, _plain(f"{other_title} {words}"))


def _reference(read: Callable[[Language], Reference | None], language: Language) -> Iterator[SearchEntry]:
    found, other = read(language), read(_other(language))
    if found is None or other is None:
        return
    root = ROOTS[language]
    for tag, (title, operations) in found.tags.items():
        for each, again in zip(operations, other.tags[tag][1], strict=True):
            words = " ".join([each.path, each.notes, again.summary, *(field.name for field in each.body_fields)])
            yield SearchEntry(
                f"{root}/api/{tag}#{each.id}", f"{each.method} {each.path}", title, _plain(f"{each.summary} {words}")
            )
    for event, same in zip(found.events, other.events, strict=True):
        words = _plain(f"{event.when} {same.when}")
        yield SearchEntry(f"{root}/events#{event.kind}", event.kind, "Webhooks", words)


def _errors(language: Language) -> Iterator[SearchEntry]:
    for code in Code:
        words = _plain(f"{code.status} {code.message} {say(code.message)} {REMEDIES[code]} {REMEDIES_PT[code]}")
        yield SearchEntry(f"{ROOTS[language]}/errors/{code.name}", code.name, str(code.status), words)


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"[`*|#\[\]]", " ", text)).strip().lower()[:_WORDS_MAX]
