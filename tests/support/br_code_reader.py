"""A strict parser of PIX BR Codes (EMV QRCPS-MPM, Manual do BR Code 2.0.1), to verify those that the service writes."""

import re
from binascii import crc_hqx

CHARACTERS_MAX = 512  # of a whole BR Code: pixCopiaECola of API Pix
_GUI = "br.gov.bcb.pix"
_PRINTABLE_ASCII = re.compile(r"[ -~]+")
_HEADER = re.compile(r"[0-9]{4}")

# The pattern of each object. Paths are written as in the manuals: "62-05" is object 05 inside template 62.
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
    "62-05": re.compile(r"\*\*\*|[^*]+"),  # other characters are accepted, as payers' banks do, but never written
    "63": re.compile(r"[0-9A-F]{4}"),
}
_REQUIRED = ("00", "52", "53", "58", "59", "60", "62", "63")
# Inside the PIX template, which may be any of 26 to 51.
_PIX_OBJECTS = {
    "01": re.compile(r".{1,77}"),
    "02": re.compile(r".{1,72}"),
    "03": re.compile(r"[0-9]{8}"),
    "25": re.compile(r"(?!.*://).{1,77}"),
}


def parse_br_code(text: str) -> dict[str, str]:
    """The objects of a PIX BR Code by path: {"00": "01", "26": "0014...", "26-00": "br.gov.bcb.pix", ...}.

    A template is contained whole and object by object. ValueError, with the reason, unless structure, CRC and the
    limits of the manual hold and the code asks for a payment: one with only a recurrence (80 to 99) is refused.
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
    for path in _REQUIRED:
        if path not in objects:
            raise ValueError(f"object {path} is missing")
    pix = [path for path in paths if "26" <= path <= "51" and objects.get(path + "-00", "").lower() == _GUI]
    if len(pix) != 1:
        raise ValueError(f"{len(pix)} templates of PIX instead of one")
    _check(objects, _PIX_OBJECTS, within=pix[0] + "-")
    if (pix[0] + "-01" in objects) == (pix[0] + "-25" in objects):
        raise ValueError("either a key or a location, and only one of them")
    return objects


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
