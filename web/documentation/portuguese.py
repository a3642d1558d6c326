"""The OpenAPI document in Portuguese: the English document with its texts replaced from templates/reference.toml.

The document of /v1/openapi.json stays English, because programs and people of other countries read it. A text composed
of several (scopes and mode, the refusals of one status, when an event is sent) is translated part by part.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, Final

_FILE: Final = Path(__file__).parents[1] / "templates" / "reference.toml"
TEXTS: Final[dict[str, str]] = {
    english: translations["pt"] for english, translations in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}
_REFUSAL: Final = re.compile(r"([A-Z_]+): (.+)")
_SENTENCE_END: Final = re.compile(r"(?<=\.) (?=[A-Z])")
# Sentences with a variable part.
_PATTERNS: Final = (
    (re.compile(r"Scope: (.+)\."), "Escopo: {}."),
    (re.compile(r"Body of every refusal with status (\d+)\."), "O corpo de toda recusa com status {}."),
)


def in_portuguese(document: Any) -> Any:
    """The whole document in Portuguese; each tag gets its name for readers as `x-displayName`. KeyError: a text is not
    translated."""
    if isinstance(document, list):
        return [in_portuguese(each) for each in document]
    if not isinstance(document, dict):
        return document
    translated = {key: _translated_value(key, each) for key, each in document.items()}
    if isinstance(translated.get("tags"), list) and "openapi" in translated:
        translated["tags"] = [{**tag, "x-displayName": TEXTS[tag["name"]]} for tag in translated["tags"]]
    return translated


def _translated_value(key: str, value: Any) -> Any:
    if key in ("description", "summary") and isinstance(value, str):
        return say(value)
    # Examples of answers are not translated, because the API answers in English.
    return value if key in ("example", "examples") else in_portuguese(value)


def say(text: str) -> str:
    """A description or summary of the document in Portuguese. KeyError names a text that is not translated."""
    if text in TEXTS:
        return TEXTS[text]
    if not text:
        return ""
    refusals = [_REFUSAL.fullmatch(each) for each in text.split(" | ")]
    if all(refusals):
        return " | ".join(f"{refusal[1]}: {say(refusal[2])}" for refusal in refusals if refusal)
    return " ".join(map(_translated_sentence, _SENTENCE_END.split(text)))


def _translated_sentence(text: str) -> str:
    for pattern, portuguese in _PATTERNS:
        if matched := pattern.fullmatch(text):
            return portuguese.format(matched[1].replace(" or ", " ou "))
    return TEXTS[text]
