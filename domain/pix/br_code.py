"""BR Code: the text of a PIX QR (EMV QRCPS-MPM, Manual do BR Code 2.0.1).

Every object is an id of two digits, a length of two digits and a value. Lengths count characters, so everything is
written in ASCII; payers' banks refuse other characters.
"""

import unicodedata
from binascii import crc_hqx
from functools import lru_cache

from domain.money import reais

LOCATION_CHARACTERS_MAX = 77  # what template 26 leaves for its url: 99 - 18 - 4
NAME_CHARACTERS_MAX = 25
CITY_CHARACTERS_MAX = 15

_GUI = "br.gov.bcb.pix"


def dynamic_br_code(*, location: str, amount_cents: int | None, name: str, city: str) -> str:
    """Returns the BR Code of one charge: at most 220 characters, all ASCII (contract, section 5).

    `location` is host and path without a scheme; `name` and `city` are the merchant's as registered and are folded
    here. The amount is only displayed: a payer's bank uses the signed payload at the location. It is None for a charge
    whose amount depends on the day.
    """
    assert 0 < len(location) <= LOCATION_CHARACTERS_MAX, "a location has 1 to 77 characters"
    assert "://" not in location, "a location carries no scheme"
    assert amount_cents is None or amount_cents > 0, "a charge asks for something"
    amount = "" if amount_cents is None else reais(amount_cents)
    assert len(amount) <= 13, "tag 54 has room for ten digits of reais"
    amount_object = f"54{len(amount):02}{amount}" if amount else ""
    text = (
        f"00020101021226{len(location) + 22}0014{_GUI}25{len(location):02}{location}"
        f"520400005303986{amount_object}{_merchant_objects(name, city)}6304"
    )
    return f"{text}{_crc(text)}"


def is_br_code(text: str) -> bool:
    """Whether a text from outside begins like a BR Code and ends with its own checksum (its last four characters)."""
    begins = text.isascii() and text.startswith("000201") and text[-8:-4] == "6304"
    return begins and text[-4:].upper() == _crc(text[:-4])


def _crc(text: str) -> str:
    return f"{crc_hqx(text.encode('ascii'), 0xFFFF):04X}"


@lru_cache(maxsize=16_384)  # about 4 MB; one entry for each merchant, so that names are not folded for every charge
def _merchant_objects(name: str, city: str) -> str:
    name = ascii_fold(name, NAME_CHARACTERS_MAX, otherwise="RECEBEDOR")
    city = ascii_fold(city, CITY_CHARACTERS_MAX, otherwise="BRASIL")
    return f"5802BR59{len(name):02}{name}60{len(city):02}{city}62070503***"


def ascii_fold(text: str, length_max: int, *, otherwise: str) -> str:
    """Returns printable ASCII of 1 to `length_max` characters: "São  Paulo" -> "Sao Paulo".

    Accents and letters without an ASCII form are removed, every other sign becomes a blank; blanks collapse.
    `otherwise` is used when nothing is left (a name in another script).
    """
    characters = []
    for character in unicodedata.normalize("NFKD", text):
        if " " <= character <= "~":
            characters.append(character)
        elif unicodedata.category(character)[0] not in "LM":  # neither letter nor mark: a dash, a tab, an emoji
            characters.append(" ")
    # Cut first, then strip: the cut may leave a blank at the end.
    return " ".join("".join(characters).split())[:length_max].rstrip() or otherwise[:length_max]
