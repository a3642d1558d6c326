"""The languages of the payer's page: Portuguese as its templates have it, and what templates/payer.toml makes of it.

A payer's own choice (`?lang=`) is the only one that counts: what a browser would like to read says little about who has
borrowed it to pay. Amounts stand as the payer's bank writes them, so that both can be compared.
"""

import tomllib
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import pass_context
from jinja2.runtime import Context

from domain import brazilian
from domain.instants import SAO_PAULO

_MONTHS: Final = {
    "en": ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    "es": ("ene", "feb", "mar", "abr", "may", "jun", "jul", "ago", "sep", "oct", "nov", "dic"),
}
_TODAY: Final = {"en": "today at", "es": "hoy a las"}


class Language:
    """`code` is the value of `lang`, `tag` the one of BCP 47, `name` how its speakers call it."""

    def __init__(self, code: str, tag: str, name: str, said: dict[str, str]) -> None:
        self.code = code
        self.tag = tag
        self.name = name
        self._said = said

    def say(self, text: str) -> str:
        """A sentence of the templates in this language. KeyError for one that is not translated: a test reads all."""
        return self._said[text] if self._said else text

    def day(self, at: date) -> str:
        """ "21/11/2026", "21 Nov 2026", "21 nov 2026"."""
        months = _MONTHS.get(self.code)
        return f"{at.day} {months[at.month - 1]} {at.year}" if months else brazilian.day(at)

    def moment(self, at: datetime) -> str:
        """In Brasília time: "21/11/2026 às 18:42", "21 Nov 2026, 18:42"."""
        if self.code not in _MONTHS:
            return brazilian.moment(at)
        local = at.astimezone(SAO_PAULO)
        return f"{self.day(local)}, {local:%H:%M}"

    def moment_near(self, at: datetime, *, now: datetime) -> str:
        """Like `moment`, but "today at 18:42" on the same day in Brasília."""
        if self.code not in _MONTHS:
            return brazilian.moment_near(at, now=now)
        local = at.astimezone(SAO_PAULO)
        if local.date() == now.astimezone(SAO_PAULO).date():
            return f"{_TODAY[self.code]} {local:%H:%M}"
        return self.moment(at)


def _read() -> dict[str, dict[str, str]]:
    """Every sentence, by its Portuguese."""
    path = Path(__file__).parent / "templates" / "payer.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


SENTENCES: Final = _read()


def _language(code: str, tag: str, name: str) -> Language:
    return Language(code, tag, name, {text: said[code] for text, said in SENTENCES.items()})


PORTUGUESE: Final = Language("pt", "pt-BR", "Português", {})
LANGUAGES: Final = {
    each.code: each for each in (PORTUGUESE, _language("en", "en", "English"), _language("es", "es", "Español"))
}


def language_of(asked: str | None) -> Language:
    """Portuguese for what is no language of the page."""
    return LANGUAGES.get(asked or "", PORTUGUESE)


@pass_context
def gettext(context: Context, text: str) -> str:
    """For Jinja's `_()` and `{% trans %}`: in the language that the template is rendered with as `words`."""
    language: Any = context.get("words", PORTUGUESE)
    said: str = language.say(text)
    return said


@pass_context
def ngettext(context: Context, one: str, many: str, number: int) -> str:
    return str(context.call(gettext, one if number == 1 else many))
