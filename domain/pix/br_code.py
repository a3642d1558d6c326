"""BR Code: the text behind a PIX QR (EMV QRCPS-MPM, Manual do BR Code 2.0.1), written and strictly read.

Every object is an id of two digits, a length of two digits and a value. Lengths count characters, so all
that is written is ASCII; payers' banks refuse the rest.
"""

import re
import unicodedata
from binascii import crc_hqx
from datetime import UTC, datetime
from functools import lru_cache

from domain.money import reais

CHARACTERS_MAX = 512  # of a whole BR Code: pixCopiaECola of API Pix
LOCATION_CHARACTERS_MAX = 77  # what template 26 leaves for its url: 99 - 18 - 4
NAME_CHARACTERS_MAX = 25
CITY_CHARACTERS_MAX = 15

_GUI = "br.gov.bcb.pix"
_PRINTABLE_ASCII = re.compile(r"[ -~]+")
_HEADER = re.compile(r"[0-9]{4}")

# What each object must match. Paths are written as the manuals do: "62-05" is object 05 inside template 62.
_OBJECTS = {
    "00": re.compile(r"01"),
    "01": re.compile(r"1[12]"),
    "52": re.compile(r"[0-9]{4}"),
    "53": re.compile(r"986"),
    "54": re.compile(r"[0-9]{1,10}(\.[0-9]{1,2})?"),
    "58": re.compile(r"BR"),
    "59": re.compile(r".{1,25}"),
    "60": re.compile(r".{1,15}"),
    "61": re.compile(r".{1,10}"),
    "62-05": re.compile(r"\*\*\*|[^*]+"),  # junk in a txid is read, as payers' banks do, but never written
    "63": re.compile(r"[0-9A-F]{4}"),
}
_NEEDED = ("00", "52", "53", "58", "59", "60", "62", "63")
# Inside the PIX template, which may be any of 26 to 51.
_PIX_OBJECTS = {
    "01": re.compile(r".{1,77}"),
    "02": re.compile(r".{1,72}"),
    "03": re.compile(r"[0-9]{8}"),
    "25": re.compile(r"(?!.*://).{1,77}"),
}


def dynamic_br_code(*, location: str, amount_cents: int, name: str, city: str) -> str:
    """The BR Code of one charge: at most 220 characters, all ASCII (contract, section 5).

    `location` is host and path without a scheme; `name` and `city` are the merchant's as registered and are
    folded here. The amount is for the eye: a payer's bank trusts the signed payload at the location.
    """
    assert 0 < len(location) <= LOCATION_CHARACTERS_MAX, "a location has 1 to 77 characters"
    assert "://" not in location, "a location carries no scheme"
    assert amount_cents > 0, "a charge asks for something"
    amount = reais(amount_cents)
    assert len(amount) <= 13, "tag 54 has room for ten digits of reais"
    text = (
        f"00020101021226{len(location) + 22}0014{_GUI}25{len(location):02}{location}"
        f"52040000530398654{len(amount):02}{amount}{_merchant_objects(name, city)}6304"
    )
    return f"{text}{crc_hqx(text.encode('ascii'), 0xFFFF):04X}"


@lru_cache(maxsize=16_384)  # about 4 MB; one entry per merchant, whose name is folded once and not per charge
def _merchant_objects(name: str, city: str) -> str:
    name = ascii_fold(name, NAME_CHARACTERS_MAX, otherwise="RECEBEDOR")
    city = ascii_fold(city, CITY_CHARACTERS_MAX, otherwise="BRASIL")
    return f"5802BR59{len(name):02}{name}60{len(city):02}{city}62070503***"


def ascii_fold(text: str, most: int, *, otherwise: str) -> str:
    """Printable ASCII of 1 to `most` characters: "São  Paulo" -> "Sao Paulo".

    Accents go, letters without an ASCII form go, every other sign becomes a blank; blanks collapse.
    `otherwise` stands in when nothing is left (a name in another script).
    """
    signs = []
    for sign in unicodedata.normalize("NFKD", text):
        if " " <= sign <= "~":
            signs.append(sign)
        elif unicodedata.category(sign)[0] not in "LM":  # neither letter nor mark: a dash, a tab, an emoji
            signs.append(" ")
    # Cut first, strip after: the cut may fall right behind a word.
    return " ".join("".join(signs).split())[:most].rstrip() or otherwise[:most]


def parse_br_code(text: str) -> dict[str, str]:
    """The objects of a PIX BR Code by path: {"00": "01", "26": "0014...", "26-00": "br.gov.bcb.pix", ...}.

    A template is there whole and object by object. ValueError, with the reason, unless structure, CRC and the
    limits of the manual hold and it asks for a payment: a code with only a recurrence (80 to 99) is refused.
    """
    if len(text) > CHARACTERS_MAX:
        raise ValueError(f"more than {CHARACTERS_MAX} characters")
    if _PRINTABLE_ASCII.fullmatch(text) is None:
        raise ValueError("not printable ASCII")
    if text[-8:-4] != "6304" or text[-4:] != f"{crc_hqx(text[:-4].encode('ascii'), 0xFFFF):04X}":
        raise ValueError("CRC does not hold")
    objects = _objects(text, within="")
    paths = list(objects)
    if paths[0] != "00" or paths[-1] != "63":
        raise ValueError("object 00 must be first and 63 last")
    for path in paths:
        if "26" <= path <= "51" or path == "62" or "80" <= path <= "99":
            objects |= _objects(objects[path], within=path + "-")
    _check(objects, _OBJECTS, within="")
    for path in _NEEDED:
        if path not in objects:
            raise ValueError(f"object {path} is missing")
    pix = [path for path in paths if "26" <= path <= "51" and objects.get(path + "-00", "").lower() == _GUI]
    if len(pix) != 1:
        raise ValueError(f"{len(pix)} templates of PIX instead of one")
    _check(objects, _PIX_OBJECTS, within=pix[0] + "-")
    if (pix[0] + "-01" in objects) == (pix[0] + "-25" in objects):
        raise ValueError("either a key or a location, and only one of them")
    return objects


def end_to_end_id(ispb: str, at: datetime, tail: str) -> str:
    """The endToEndId of one PIX, 32 characters: E, ISPB of the payer's bank, UTC minute, a tail of 11.

    `at` is any aware instant; the SPI refuses stale ones.
    """
    assert re.fullmatch(r"[0-9]{8}", ispb), "an ISPB has eight digits"
    assert at.tzinfo is not None, "an instant without a zone is no instant"
    assert re.fullmatch(r"[0-9A-Za-z]{11}", tail), "a tail has eleven letters or digits"
    return f"E{ispb}{at.astimezone(UTC):%Y%m%d%H%M}{tail}"


def _objects(text: str, *, within: str) -> dict[str, str]:
    objects: dict[str, str] = {}
    start = 0
    while start < len(text):
        header, value_at = text[start : start + 4], start + 4
        if _HEADER.fullmatch(header) is None:
            raise ValueError(f"no id and length at character {start} of {within or 'the text'}")
        path, length = within + header[:2], int(header[2:])
        value = text[value_at : value_at + length]
        if length == 0 or len(value) != length:
            raise ValueError(f"object {path} does not have its {length} characters")
        if path in objects:
            raise ValueError(f"object {path} is there twice")
        objects[path] = value
        start = value_at + length
    return objects


def _check(objects: dict[str, str], rules: dict[str, re.Pattern[str]], *, within: str) -> None:
    for path, rule in rules.items():
        value = objects.get(within + path)
        if value is not None and rule.fullmatch(value) is None:
            raise ValueError(f"object {within + path} is not as the manual asks")
