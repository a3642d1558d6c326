"""Names, addresses and messages in the letters that the bank takes on a boleto.

The set that passes in every text field of Banco do Brasil's API is small; anything else costs the registration.
"""

import unicodedata
from typing import Final

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
