"""Texts in the letters that the bank takes, and amounts as it writes them.

The set that passes in every text field of Banco do Brasil's APIs is small; anything else costs the registration.
"""

import re
import unicodedata
from datetime import date
from typing import Final

from domain.money import PIX_CENTS_MAX, parse_amount
from domain.pix.br_code import ascii_fold

_UNSAFE = re.compile(r"[^A-Za-z0-9 .,/&-]+")
_ALLOWED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,/&-")


def fold_for_bank(text: str, length_max: int) -> str:
    """Up to `length_max` characters of `A-Z 0-9 blank . , / & -`: "João  d'Ávila – Nº 3" -> "JOAO D AVILA - NO 3".

    Accents go, letters without a plain form go, dashes become hyphens, every other sign a blank; blanks collapse.
    Empty when nothing is left (a name in another script): what stands in for it is the caller's to say.
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
    # Cut first, strip after: the cut may fall right behind a word.
    return " ".join("".join(signs).split())[:length_max].rstrip()


def safe_text(text: str, length_max: int) -> str:
    """What API Pix takes anywhere: letters without accents, digits and a few signs; may be empty."""
    folded = ascii_fold(text, len(text) * 4 + 1, otherwise=" ")
    return " ".join(_UNSAFE.sub(" ", folded).split())[:length_max].rstrip()


def day_text(day: date) -> str:
    """As the bank's API of boletos writes days."""
    return day.strftime("%d.%m.%Y")


def pix_cents(text: str) -> int | None:
    """Cents of an amount of API Pix ("12.34"); None when it is none."""
    try:
        return parse_amount(text, cents_max=PIX_CENTS_MAX)
    except ValueError:
        return None
