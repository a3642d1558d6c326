"""The languages of the payer's page: Portuguese as in its templates, and the translations of templates/payer.toml.

Only the payer's own choice (`?lang=`) counts: the browser's preferred languages say little about a payer who uses
somebody else's device. Amounts are written as the payer's bank writes them, so that the payer can compare the two.
"""

import tomllib
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import pass_context
from jinja2.runtime import Context

from domain import brazilian
from domain.instants import SAO_PAULO, day_of


class PayerLanguage:
    """Portuguese, and the base of the other languages. `code` is the value of `lang`, `tag` the BCP 47 tag, `name` the
    language's own name, `query` the query string that selects it."""

    code = "pt"
    tag = "pt-BR"
    name = "Português"
    query = ""

    def say(self, text: str) -> str:
        """A sentence of the templates in this language. KeyError if it is not translated; a test checks all of them."""
        return text

    def day(self, at: date) -> str:
        """A date: "21/11/2026", "21 Nov 2026", "21 nov 2026"."""
        return brazilian.day(at)

    def percent(self, bps: int) -> str:
        """Basis points as a percentage: "2,00", "2.00"."""
        return brazilian.amount(bps)

    def moment(self, at: datetime) -> str:
        """An instant in Brasília time: "21/11/2026 às 18:42", "21 Nov 2026, 18:42"."""
        return brazilian.moment(at)

    def moment_near(self, at: datetime, *, now: datetime) -> str:
        """As `moment`, but "hoje às 18:42", "today at 18:42" when it is today in Brasília."""
        return brazilian.moment_near(at, now=now)


class Translation(PayerLanguage):
    """A language translated in templates/payer.toml. Months are written as names, so that nobody mistakes a month for
    the day."""

    def __init__(self, code: str, name: str, *, months: Sequence[str], today: str, decimal: str = ",") -> None:
        self.code = self.tag = code
        self.name = name
        self.query = f"?lang={code}"
        self._sentences = {text: translations[code] for text, translations in SENTENCES.items()}
        self._months = months
        self._today = today
        self._decimal = decimal

    def say(self, text: str) -> str:
        return self._sentences[text]

    def day(self, at: date) -> str:
        return f"{at.day} {self._months[at.month - 1]} {at.year}"

    def percent(self, bps: int) -> str:
        # A percentage is at most 100, so it has no thousands separator.
        return super().percent(bps).replace(",", self._decimal)

    def moment(self, at: datetime) -> str:
        local = at.astimezone(SAO_PAULO)
        return f"{self.day(local)}, {local:%H:%M}"

    def moment_near(self, at: datetime, *, now: datetime) -> str:
        local = at.astimezone(SAO_PAULO)
        if local.date() == day_of(now):
            return f"{self._today} {local:%H:%M}"
        return self.moment(at)


def _read_translations() -> dict[str, dict[str, str]]:
    """The translations of every sentence, by the Portuguese sentence."""
    path = Path(__file__).parent / "templates" / "payer.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


SENTENCES: Final = _read_translations()


PORTUGUESE: Final = PayerLanguage()
_ENGLISH: Final = Translation(
    "en", "English", today="today at", decimal=".",
    months=("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)  # fmt: skip
_SPANISH: Final = Translation(
    "es", "Español", today="hoy a las",
    months=("ene", "feb", "mar", "abr", "may", "jun", "jul", "ago", "sep", "oct", "nov", "dic"),
)  # fmt: skip
LANGUAGES: Final = {each.code: each for each in (PORTUGUESE, _ENGLISH, _SPANISH)}


def language_of(code: str | None) -> PayerLanguage:
    """The language with this code; Portuguese for any other value."""
    return LANGUAGES.get(code or "", PORTUGUESE)


@pass_context
def gettext(context: Context, text: str) -> str:
    """Jinja's `_()` and `{% trans %}`, in the language that the template is rendered with as `words`."""
    language: Any = context.get("words", PORTUGUESE)
    sentence: str = language.say(text)
    return sentence


# Jinja requires both functions.
@pass_context
def ngettext(context: Context, one: str, many: str, number: int) -> str:
    return str(context.call(gettext, one if number == 1 else many))
