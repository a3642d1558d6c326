"""The cells of an .xlsx file, as Excel, LibreOffice and Google write it: text, numbers and days of its first sheet.

The file is somebody's, and a workbook is a ZIP of XML: before openpyxl reads it, everything in it is bounded, and what
a sheet of charges does not need is refused: macros, other compressions, document types (and so entities of any kind).
Formulas count as what the program that saved them computed; nothing is computed here.
"""

import io
import re
import warnings
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from web.painel.charges.sheets.fault import SheetFault

Value = str | Decimal | date
"""What a cell holds; an empty one is ''."""
PARTS_MAX: Final = 200
UNPACKED_MAX: Final = 2 * 1024 * 1024
"""Bytes of all parts together: a sheet of a hundred charges has some 100 KB of them, its styles a few hundred."""
LINES_MAX: Final = 20_000
"""Empty ones included: sheets go on for as long as something was formatted."""
COLUMNS_MAX: Final = 40
TEXT_MAX: Final = 4_096
"""Signs in a cell: as many as a field of the form takes. A text is in the file once, however many cells name it."""
FORMAT_MAX: Final = 255
"""Signs of a number's format, as in Excel: it is looked through for each cell."""
_SIGNIFICANT: Final = 15
"""Digits: what Excel keeps and shows; 0.1+0.2 is 0.3 to whoever typed it."""
_ZEROS: Final = re.compile(r'(?:0|\\.|"[^"]*"|[-/() ])+')
_LITERAL: Final = re.compile(r'\\.|"[^"]*"')
_OLE: Final = b"\xd0\xcf\x11\xe0"
_UNREADABLE: Final = "O arquivo .xlsx não pôde ser lido: salve-o de novo, como .xlsx ou como CSV."
_OTHER_KINDS: Final = {
    "xl/workbook.bin": "Isto é uma planilha binária (.xlsb): salve-a como .xlsx ou como CSV.",
    "content.xml": "Isto é uma planilha do LibreOffice (.ods): salve-a como .xlsx ou como CSV.",
}
# What openpyxl says of styles and extensions it leaves out would put a merchant's cells into our logs.
warnings.filterwarnings("ignore", category=UserWarning, module="openpyxl")


def is_workbook(raw: bytes) -> bool:
    """Whether it is to be read here: a ZIP, or the old format, which is told of."""
    return raw[:4] in (b"PK\x03\x04", _OLE)


def read_workbook(raw: bytes) -> list[list[Value]]:
    """The lines of the first sheet that is shown, from the top; SheetFault with the reason otherwise."""
    if raw[:4] == _OLE:
        raise SheetFault("Isto é um .xls antigo, ou tem senha: salve como .xlsx sem senha, ou como CSV.")
    formulas = _checked(raw)
    lines = list(_lines(raw, values=True))
    if formulas:
        # A formula that was never computed reads as an empty cell.
        for at, (shown, typed) in enumerate(zip(lines, _lines(raw, values=False), strict=False), 1):
            if any(one == "" and str(other).startswith("=") for one, other in zip(shown, typed, strict=False)):
                raise SheetFault(f"Há uma fórmula sem resultado na linha {at}: abra a planilha, salve e envie de novo.")
    return lines


def _checked(raw: bytes) -> bool:
    """Whether a sheet has formulas. SheetFault for what is not opened at all."""
    try:
        with ZipFile(io.BytesIO(raw)) as book:
            parts = book.infolist()
            names = {part.filename.casefold() for part in parts}
            for name, fault in _OTHER_KINDS.items():
                if name in names:
                    raise SheetFault(fault)
            if any(name.endswith("vbaproject.bin") or "/macrosheets/" in name for name in names):
                raise SheetFault("A planilha tem macros: salve-a como .xlsx, sem macros, ou como CSV.")
            if len(parts) > PARTS_MAX or sum(part.file_size for part in parts) > UNPACKED_MAX:
                raise SheetFault(
                    "A planilha é grande demais por dentro: deixe nela só a folha das cobranças, sem imagens."
                )
            formulas = False
            for part in parts:
                if part.flag_bits & 1 or part.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                    raise SheetFault(_UNREADABLE)
                # Whatever it is called: a sheet is the part that the workbook names. Without NULs UTF-16 reads alike.
                text = book.read(part).replace(b"\0", b"")
                if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
                    raise SheetFault(_UNREADABLE)
                formulas = formulas or ("/worksheets/" in part.filename and b"<f" in text)
            return formulas
    except SheetFault:
        raise
    # A ZIP that is none fails in any of a dozen ways.
    except Exception as error:
        raise SheetFault(_UNREADABLE) from error


def _lines(raw: bytes, *, values: bool) -> Iterator[list[Value]]:
    """`values`: what formulas came to; else the formulas themselves."""
    import openpyxl  # nine megabytes of each process, and most never read a workbook

    try:
        book = openpyxl.load_workbook(io.BytesIO(raw), read_only=True, data_only=values, keep_links=False)
        sheet = next((each for each in book.worksheets if each.sheet_state == "visible"), None)
        if sheet is None:
            raise SheetFault("A planilha não tem nenhuma folha visível.")
        # What the file says of its size is not always so.
        sheet.reset_dimensions()
        for at, cells in enumerate(sheet.iter_rows(max_col=COLUMNS_MAX + 1), 1):
            if at > LINES_MAX:
                raise SheetFault(f"A primeira folha passa de {LINES_MAX} linhas: apague as vazias, ou copie as outras.")
            line = [_value(cell) for cell in cells]
            if line[COLUMNS_MAX:] not in ([], [""]):
                raise SheetFault(f"A primeira folha tem mais de {COLUMNS_MAX} colunas.")
            yield line[:COLUMNS_MAX]
    except SheetFault:
        raise
    # And so does a workbook.
    except Exception as error:
        raise SheetFault(_UNREADABLE) from error


def _value(cell: Any) -> Value:
    if cell.data_type == "e":
        raise SheetFault(f"A célula {cell.coordinate} tem um erro: {cell.value}.")
    match cell.value:
        case None:
            return ""
        case bool():
            return "VERDADEIRO" if cell.value else "FALSO"
        case int() | float():
            return _number(Decimal(f"{cell.value:.{_SIGNIFICANT}g}"), _shown_as(cell))
        case date():
            return _day(cell.value, _shown_as(cell))
        case time() | timedelta():
            return str(cell.value)
    text = str(cell.value)
    if len(text) > TEXT_MAX:
        raise SheetFault(f"A célula {cell.coordinate} tem mais de {TEXT_MAX} caracteres.")
    return text


def _shown_as(cell: Any) -> str:
    shown_as = str(cell.number_format)
    if len(shown_as) > FORMAT_MAX:
        raise SheetFault(_UNREADABLE)
    return shown_as


def _day(value: date, shown_as: str) -> Value:
    """A month alone, as Excel keeps what was typed as nov/2026, is text: its first day is no word of whoever typed it,
    and would be a due date."""
    signs = set(_LITERAL.sub("", shown_as).casefold())
    if {"m", "y"} <= signs and "d" not in signs:
        return f"{value:%m/%Y}"
    return value.date() if isinstance(value, datetime) else value


def _number(value: Decimal, shown_as: str) -> Value:
    """In percent it is as many hundredths; a format of zeros alone (CEP, CPF, 00123) is text of so many digits."""
    if "%" in shown_as:
        return value * 100
    digits = _LITERAL.sub("", shown_as).count("0")
    if digits > 1 and _ZEROS.fullmatch(shown_as) and value >= 0 and value == value.to_integral_value():
        return f"{int(value):0{digits}}"
    return value
