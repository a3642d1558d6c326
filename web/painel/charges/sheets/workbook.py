"""Reads the cells of an .xlsx file, as Excel, LibreOffice and Google write it: text, numbers, days of the first sheet.

The file is untrusted, and a workbook is a ZIP of XML. Before openpyxl reads the file, everything in it is bounded, and
what a sheet of charges does not need is refused: macros, other compressions, document types (and so all entities).
A formula has the value that was computed by the program that saved the file; nothing is computed here.
"""

import io
import re
import warnings
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from domain.brazilian import thousands
from web.painel.charges.sheets.fault import SheetFault

Value = str | Decimal | date
"""The value of a cell; '' for an empty cell."""
PARTS_MAX: Final = 200
UNPACKED_MAX: Final = 2 * 1024 * 1024
"""Bytes of all parts together: a sheet of a hundred charges has some 100 KB of them, its styles a few hundred."""
LINES_MAX: Final = 20_000
"""Empty lines included: a sheet extends as far as any cell was formatted."""
COLUMNS_MAX: Final = 40
TEXT_MAX: Final = 4_096
"""Characters in a cell: as many as a field of the form takes. The file has a text once, however many cells refer to it,
so the size of the file does not bound them."""
FORMAT_MAX: Final = 255
"""Characters of a number format, as in Excel. The format is searched for each cell, so its length must be bounded."""
_SIGNIFICANT_DIGITS: Final = 15
"""Digits that Excel keeps and shows: 0.1+0.2 is 0.3 to the person who typed it."""
_ZEROS_FORMAT: Final = re.compile(r'(?:0|\\.|"[^"]*"|[-/() ])+')
_LITERAL: Final = re.compile(r'\\.|"[^"]*"')
_FORMULA: Final = re.compile(rb"<(?:[\w.-]+:)?f[\s/>]")
_OLE_MAGIC: Final = b"\xd0\xcf\x11\xe0"
_UNREADABLE: Final = "O arquivo .xlsx não pôde ser lido: salve-o de novo, como .xlsx ou como CSV."
_OTHER_KINDS: Final = {
    "xl/workbook.bin": "Isto é uma planilha binária (.xlsb): salve-a como .xlsx ou como CSV.",
    "content.xml": "Isto é uma planilha do LibreOffice (.ods): salve-a como .xlsx ou como CSV.",
}
# openpyxl's warnings about styles and extensions that it leaves out would write a merchant's cells into our log.
warnings.filterwarnings("ignore", category=UserWarning, module="openpyxl")


def is_workbook(raw: bytes) -> bool:
    """Whether the file is read here: a ZIP, or the old .xls format, for which read_workbook has a fault of its own."""
    return raw[:4] in (b"PK\x03\x04", _OLE_MAGIC)


def read_workbook(raw: bytes) -> list[list[Value]]:
    """Returns the lines of the first visible sheet, from the top; SheetFault with the reason when it cannot be read."""
    if raw[:4] == _OLE_MAGIC:
        raise SheetFault("Isto é um .xls antigo, ou tem senha: salve como .xlsx sem senha, ou como CSV.")
    has_formulas = _check_archive(raw)
    lines = list(_read_lines(raw, values=True))
    if has_formulas:
        # A formula that was never computed reads as an empty cell.
        for number, (results, formulas) in enumerate(zip(lines, _read_lines(raw, values=False), strict=False), 1):
            if any(
                result == "" and str(formula).startswith("=")
                for result, formula in zip(results, formulas, strict=False)
            ):
                raise SheetFault(
                    f"Há uma fórmula sem resultado na linha {number}: abra a planilha, salve e envie de novo."
                )
    return lines


def _check_archive(raw: bytes) -> bool:
    """Returns whether a sheet has formulas; SheetFault for a file that must not be opened."""
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
            has_formulas = False
            for part in parts:
                if part.flag_bits & 1 or part.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                    raise SheetFault(_UNREADABLE)
                # Every part is searched, because any part may be a sheet, whatever its name. Without NULs, UTF-16 reads
                # like ASCII.
                text = book.read(part).replace(b"\0", b"")
                if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
                    raise SheetFault(_UNREADABLE)
                has_formulas = has_formulas or _FORMULA.search(text) is not None
            return has_formulas
    except SheetFault:
        raise
    # zipfile raises any of a dozen exceptions for a broken ZIP.
    except Exception as error:
        raise SheetFault(_UNREADABLE) from error


def _read_lines(raw: bytes, *, values: bool) -> Iterator[list[Value]]:
    """Yields the lines of the sheet: with the results of formulas if `values`, else with the formulas themselves."""
    import openpyxl  # takes 9 MB of each process, and most processes never read a workbook

    try:
        book = openpyxl.load_workbook(io.BytesIO(raw), read_only=True, data_only=values, keep_links=False)
        sheet = next((each for each in book.worksheets if each.sheet_state == "visible"), None)
        if sheet is None:
            raise SheetFault("A planilha não tem nenhuma folha visível.")
        # The dimensions that the file states are not always right.
        sheet.reset_dimensions()
        for number, cells in enumerate(sheet.iter_rows(max_col=COLUMNS_MAX + 1), 1):
            if number > LINES_MAX:
                raise SheetFault(
                    f"A primeira folha passa de {thousands(LINES_MAX)} linhas: apague as vazias, ou copie as outras."
                )
            line = [_cell_value(cell) for cell in cells]
            if line[COLUMNS_MAX:] not in ([], [""]):
                raise SheetFault(f"A primeira folha tem mais de {COLUMNS_MAX} colunas.")
            yield line[:COLUMNS_MAX]
    except SheetFault:
        raise
    # openpyxl too raises many different exceptions for a broken workbook.
    except Exception as error:
        raise SheetFault(_UNREADABLE) from error


def _cell_value(cell: Any) -> Value:
    if cell.data_type == "e":
        raise SheetFault(f"A célula {cell.coordinate} tem um erro: {cell.value}.")
    match cell.value:
        case None:
            return ""
        case bool():
            return "VERDADEIRO" if cell.value else "FALSO"
        case int() | float():
            return _number_value(Decimal(f"{cell.value:.{_SIGNIFICANT_DIGITS}g}"), _number_format(cell))
        case date():
            return _day_value(cell.value, _number_format(cell))
        case time() | timedelta():
            return str(cell.value)
    text = str(cell.value)
    if len(text) > TEXT_MAX:
        raise SheetFault(f"A célula {cell.coordinate} tem mais de {thousands(TEXT_MAX)} caracteres.")
    return text


def _number_format(cell: Any) -> str:
    number_format = str(cell.number_format)
    if len(number_format) > FORMAT_MAX:
        raise SheetFault(_UNREADABLE)
    return number_format


def _day_value(value: date, number_format: str) -> Value:
    """Returns the day; text for a month alone, as Excel stores a typed nov/2026. Excel stores the first of that month,
    which nobody typed and which would become a due date."""
    signs = set(_LITERAL.sub("", number_format).casefold())
    if {"m", "y"} <= signs and "d" not in signs:
        return f"{value:%m/%Y}"
    return value.date() if isinstance(value, datetime) else value


def _number_value(value: Decimal, number_format: str) -> Value:
    """Returns the number as the sheet shows it: times 100 in a percent format, and text with leading zeros in a format
    of zeros alone (CEP, CPF, 00123)."""
    if "%" in number_format:
        return value * 100
    digits = _LITERAL.sub("", number_format).count("0")
    if digits > 1 and _ZEROS_FORMAT.fullmatch(number_format) and value >= 0 and value == value.to_integral_value():
        return f"{int(value):0{digits}}"
    return value
