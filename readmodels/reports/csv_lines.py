"""Rows as CSV in the form that spreadsheets in Brazil open: UTF-8 with a byte order mark, `;` between fields, decimal
comma.

A file is the BOM, a line of headings, and a line for each row. All CSV of the project is written here.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime

from domain.instants import SAO_PAULO

BOM = b"\xef\xbb\xbf"
CONTENT_TYPE = "text/csv"  # the answer adds the character set
# Characters that begin a formula for a spreadsheet, full-width characters included.
_FORMULA_STARTS = frozenset("=+-@|%＝＋－＠")
_QUOTED_CHARACTERS = frozenset(';",\t\r\n')
# Text that a spreadsheet reads as a number or a date: it keeps fifteen digits, drops leading zeros, and reads 1E5 as
# 100000 and 10-12 as a day of December.
_NUMBERLIKE = re.compile(r"[0-9][0-9.,:/ -]*([eE][+-]?[0-9]+)?%?")
_EXACT_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")


class Cents(int):
    """Money in whole cents: Cents(-123456) is written -1234,56."""


class BasisPoints(int):
    """Hundredths of a percent: BasisPoints(9750) is written 97,50."""


Field = str | int | date | datetime | Cents | BasisPoints | None


def csv_line(values: Sequence[Field]) -> bytes:
    """One line with its CRLF. None is an empty field, an instant is a moment in Brasília (2026-11-21 18:42:05).

    Text that a spreadsheet would run as a formula (OWASP, CSV injection) gets an apostrophe in front. Digits that it
    would read as a number or a date and change (a boleto's number, 00123, 1E5) get a tab. Numbers get neither.
    """
    return (";".join([_field(value) for value in values]) + "\r\n").encode("utf-8", "replace")


def _field(value: Field) -> str:
    match value:
        case None:
            return ""
        case str():
            return _text_field(value)
        case Cents() | BasisPoints():
            whole, rest = divmod(abs(value), 100)
            return f"{'-' if value < 0 else ''}{whole},{rest:02}"
        case datetime():
            return f"{value.astimezone(SAO_PAULO):%Y-%m-%d %H:%M:%S}"
        case date():
            return value.isoformat()
        case _:
            return str(int(value))


def _text_field(text: str) -> str:
    # Some spreadsheets skip a leading space, tab or line break before a formula, so the test skips it too. Some end a
    # field at NUL.
    text = text.replace("\0", "")
    if text.lstrip()[:1] in _FORMULA_STARTS:
        text = "'" + text
    elif text[:1].isdigit() and _NUMBERLIKE.fullmatch(text) and not _EXACT_NUMBER.fullmatch(text):
        text = "\t" + text
    if _QUOTED_CHARACTERS.isdisjoint(text) and text == text.strip():
        return text
    return '"' + text.replace('"', '""') + '"'
