"""Texts in the characters that the bank accepts, and amounts and days in its notation.

Every text field of Banco do Brasil's APIs accepts a small set of characters; any other makes the registration fail.
"""

import re
import unicodedata
from datetime import date
from typing import Final

from domain.money import PIX_CENTS_MAX, parse_amount
from domain.pix.br_code import ascii_fold

END_TO_END_ID: Final = re.compile(r"[0-9A-Za-z]{1,64}")

_IDENTIFIER_CHARACTERS_MAX: Final = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9 .,/&-]+")
_SURROGATES = re.compile(rb"(\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})|\\ud[89a-f][0-9a-f]{2}", re.IGNORECASE)
_ALLOWED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,/&-")


def fold_for_bank(text: str, length_max: int) -> str:
    """Fold a text to `length_max` characters of `A-Z 0-9 blank . , / & -`: "João  d'Ávila – Nº 3" ->
    "JOAO D AVILA - NO 3".

    Accents and letters without a plain form are dropped, dashes become hyphens, any other sign becomes a blank, and
    blanks collapse. Empty if nothing is left (a name in another script); the caller chooses a substitute.
    """
    assert length_max > 0, "a field has room for something"
    signs = []
    for sign in unicodedata.normalize("NFKD", text).upper():
        category = "" if sign in _ALLOWED else unicodedata.category(sign)
        if not category:
            signs.append(sign)
        elif category == "Pd":
            signs.append("-")
        elif category[0] not in "LM" and category != "Cf":  # soft hyphens and joiners stand inside words
            signs.append(" ")
    # Cut first, then strip: the cut may fall right after a word.
    return " ".join("".join(signs).split())[:length_max].rstrip()


def safe_text(text: str, length_max: int) -> str:
    """Fold a text to what every field of API Pix accepts: letters without accents, digits and a few signs. May be
    empty."""
    folded = ascii_fold(text, len(text) * 4 + 1, otherwise=" ")
    return " ".join(_UNSAFE.sub(" ", folded).split())[:length_max].rstrip()


def printable(said: str, length_max: int) -> str:
    """Return a message of the bank, cut, with blanks in place of control characters: no column can store NUL."""
    return "".join(each if each.isprintable() else " " for each in said[:length_max])


def without_lone_surrogates(json: bytes) -> bytes:
    """Replace each surrogate escape of a JSON text that has no partner. A bank writes one where it cuts a payer's text
    within an emoji, and no reader accepts the whole answer then."""
    return _SURROGATES.sub(lambda found: found[1] or rb"\ufffd", json)


def identifier(said: str | None) -> str | None:
    """Return an identifier; None if a column (NUL) or an index (length) could not store it. The money that it belongs
    to moved all the same."""
    text = (said or "").strip()
    return text if text.isprintable() and 0 < len(text) <= _IDENTIFIER_CHARACTERS_MAX else None


def day_text(day: date) -> str:
    """Return a day in the notation of the bank's boleto API."""
    return day.strftime("%d.%m.%Y")


def pix_cents(text: str) -> int | None:
    """Return the cents of an amount of API Pix ("12.34"); None if it is malformed."""
    try:
        return parse_amount(text, cents_max=PIX_CENTS_MAX)
    except ValueError:
        return None
