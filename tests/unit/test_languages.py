"""Every sentence of the payer's page exists in each of its languages."""

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment
from jinja2.ext import extract_from_ast

import web
from web.languages import LANGUAGES, PORTUGUESE, SENTENCES, language_of
from web.payer import SENTENCES as SENTENCES_OF_THE_MODULE

TEMPLATES = Path(web.__file__).parent / "templates"
_PLACEHOLDER_OR_TAG = re.compile(r"%\(\w+\)s|\{\w+\}|</?\w+[^>]*>")


def sentences_of_the_templates() -> set[str]:
    """The sentences that Jinja's own extraction finds."""
    reader: Any = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.i18n"])
    reader.newstyle_gettext = True
    found = set()
    for name in ("payer.html", "payer_state.html"):
        said: Any
        for _, _, said in extract_from_ast(reader.parse((TEMPLATES / name).read_text(encoding="utf-8"))):
            found.add(said if isinstance(said, str) else said[0])
    return found


def test_the_translated_sentences_are_exactly_those_of_templates_and_module() -> None:
    assert set(SENTENCES) == sentences_of_the_templates() | set(SENTENCES_OF_THE_MODULE)


def test_a_template_has_no_text_outside_of_translations() -> None:
    for name in ("payer.html", "payer_state.html"):
        text = (TEMPLATES / name).read_text(encoding="utf-8")
        bare = re.sub(r"\{%-? trans.*?endtrans %\}|\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", "", text, flags=re.DOTALL)
        said = {each.strip() for each in re.findall(r">([^<>]*[A-Za-zÀ-ú]{2}[^<>]*)<", bare)}
        assert said <= {"WhatsApp"}, name
        assert not re.search(r'(?:aria-label|alt|data-done)="[^"]*[A-Za-zÀ-ú]{2}', bare), name


@pytest.mark.parametrize("code", ["en", "es"])
def test_a_translation_has_the_placeholders_and_tags_of_its_sentence(code: str) -> None:
    for text, said in SENTENCES.items():
        assert sorted(_PLACEHOLDER_OR_TAG.findall(said[code])) == sorted(_PLACEHOLDER_OR_TAG.findall(text)), text


def test_an_unknown_language_falls_back_to_portuguese() -> None:
    assert {language_of(each).code for each in (None, "", "pt", "fr", "EN", "en-US", "<b>")} == {"pt"}
    assert PORTUGUESE.say("Vencimento") == "Vencimento"


def test_dates_in_english_and_spanish_name_the_month_so_it_is_not_read_as_the_day() -> None:
    at, now = datetime(2026, 12, 3, 2, 5, tzinfo=UTC), datetime(2026, 12, 1, 12, tzinfo=UTC)
    english, spanish = LANGUAGES["en"], LANGUAGES["es"]
    assert (english.day(date(2026, 3, 4)), spanish.day(date(2026, 1, 4))) == ("4 Mar 2026", "4 ene 2026")
    assert (english.moment(at), PORTUGUESE.moment(at)) == ("2 Dec 2026, 23:05", "02/12/2026 às 23:05")
    assert english.moment_near(at, now=now) == "2 Dec 2026, 23:05"
    assert (english.moment_near(at, now=at), spanish.moment_near(at, now=at)) == ("today at 23:05", "hoy a las 23:05")
