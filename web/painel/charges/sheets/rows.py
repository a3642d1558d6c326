"""Reads a spreadsheet of charges, .xlsx or CSV: each row becomes the fields of the form of a new charge.

Accepts what spreadsheets write in Brazil. A CSV may have `;` or `,` between fields, UTF-8 or Windows' Latin-1, amounts
as 1.234,56 or 1234.56, days as 31/12/2026, 31/12/26 or 2026-12-31; an .xlsx may have the same as text, or numbers and
days. The form of a new charge decides what a row means and what is wrong with it.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Sequence
from datetime import date
from typing import Final

from msgspec import Struct

from domain.brazilian import iso_day, thousands
from web.painel.charges.boleto_terms import DEFAULTS
from web.painel.charges.sheets.fault import SheetFault
from web.painel.charges.sheets.workbook import TEXT_MAX, Value, is_workbook, read_workbook

BYTES_MAX: Final = 128 * 1024
ROWS_MAX: Final = 100
# Each column of the sheet, and its field in the form; faults name the column.
COLUMNS: Final[dict[str, str]] = {
    "tipo": "kind", "valor": "amount", "vencimento": "due_date", "validade_dias": "lifetime",
    "referencia": "external_id", "descricao": "description", "nome": "payer_name", "documento": "payer_document",
    "email": "payer_email", "telefone": "payer_phone", "cep": "zip_code", "rua": "street", "numero": "number",
    "cidade": "city", "estado": "state", "multa_percentual": "fine", "multa_valor": "fine_amount",
    "juros_percentual_mes": "interest", "juros_valor_dia": "interest_amount", "pagavel_dias_depois": "payable_days",
    "desconto_em": "discount_kind", "desconto": "discount_first", "desconto_ate": "discount_first_until",
    "desconto_2": "discount_second", "desconto_2_ate": "discount_second_until",
    "desconto_3": "discount_third", "desconto_3_ate": "discount_third_until",
}  # fmt: skip
# Columns for an amount in reais beside one for a percentage; the form has one field for both, and a field for the kind.
IN_REAIS: Final = {"fine_amount": "fine", "interest_amount": "interest"}
_DISCOUNT_KINDS: Final = {
    "": "amount", "r": "amount", "reais": "amount", "valor": "amount", "percentual": "percent",
    "porcentagem": "percent",
}  # fmt: skip
REQUIRED: Final = ("tipo", "valor")
KINDS: Final = {
    "pix": "pix",
    "boleto": "boleto",
    "boleto_hibrido": "boleto_hibrido",
    "boleto_com_pix": "boleto_hibrido",
    "boleto_pix": "boleto_pix",
    "boleto_e_pix": "boleto_pix",
}
_COLUMN_ALIASES: Final = {
    "cpf": "documento",
    "cnpj": "documento",
    "cpf_ou_cnpj": "documento",
    "cpf_cnpj": "documento",
    "e_mail": "email",
    "uf": "estado",
}
_DOT_DECIMAL: Final = re.compile(r"(\d+)\.(\d{1,2})")
AMOUNT_COLUMNS: Final = (
    "valor", "multa_percentual", "multa_valor", "juros_percentual_mes", "juros_valor_dia", "desconto", "desconto_2",
    "desconto_3",
)  # fmt: skip
DAY_COLUMNS: Final = ("vencimento", "desconto_ate", "desconto_2_ate", "desconto_3_ate")
_DIGIT_COUNTS: Final[dict[str, tuple[int, ...]]] = {"documento": (11, 14), "cep": (8,)}
_ZEROS_LOST_MAX: Final = 2
_CENT_PLACES: Final = 2
_LIFETIME_FORMAT: Final = re.compile(r"[1-9]\d{0,2}")
_LIFETIME_DAYS_DEFAULT: Final = "7"


class SheetRow(Struct, frozen=True):
    """A row: `number` is its line as a spreadsheet counts it, headings included; `fields` are those of the form."""

    number: int
    fields: dict[str, str]


def read_sheet(raw: bytes) -> list[SheetRow]:
    """Returns the rows that are not empty, at most ROWS_MAX; SheetFault for a sheet that cannot be read."""
    if len(raw) > BYTES_MAX:
        raise SheetFault(f"O arquivo passa de {BYTES_MAX // 1024} KB: divida-o.")
    workbook = is_workbook(raw)
    lines: Sequence[Sequence[Value]] = read_workbook(raw) if workbook else _read_csv(raw)
    heading_index = next((heading_index for heading_index, line in enumerate(lines) if _has_text(line)), None)
    if heading_index is None:
        raise SheetFault("A primeira folha está vazia." if workbook else "O arquivo está vazio.")
    names = _column_names([str(each) for each in lines[heading_index]])
    if not workbook:
        _check_widths(lines, heading_index)
    filled_lines = [
        (number, line)
        for number, line in enumerate(lines[heading_index + 1 :], heading_index + 2)
        if _has_text(line[: len(names)])
    ]
    if not filled_lines:
        raise SheetFault("Não há nenhuma linha abaixo dos títulos.")
    if len(filled_lines) > ROWS_MAX:
        raise SheetFault(f"São {thousands(len(filled_lines))} linhas; cada arquivo leva até {ROWS_MAX}: divida-o.")
    return [SheetRow(number, _form_fields(names, line)) for number, line in filled_lines]


def _has_text(line: Sequence[Value]) -> bool:
    return any(str(each).strip() for each in line)


def _check_widths(lines: Sequence[Sequence[Value]], heading_index: int) -> None:
    """Raises SheetFault for a row with more fields than there are headings: a value was split, such as 10,50 where
    commas separate fields, and all later values are in the wrong columns."""
    for number, line in enumerate(lines[heading_index + 1 :], heading_index + 2):
        if len(line) > len(lines[heading_index]) and _has_text(line):
            raise SheetFault(
                f"A linha {number} tem {len(line)} campos, e a dos títulos {len(lines[heading_index])}: ponha ; entre "
                "os campos, ou aspas em volta do que tem vírgula ou ponto e vírgula."
            )


def _read_csv(raw: bytes) -> list[list[str]]:
    text = _decode(raw)
    # The headings' line: lines before it may be empty, or have separators alone, as spreadsheets write empty rows.
    headings = next((line for line in io.StringIO(text, newline=None) if any(map(str.isalnum, line))), "")
    separator = ";" if headings.count(";") >= headings.count(",") else ","
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise SheetFault("O arquivo não é um CSV: há aspas que não fecham.") from error
    for number, line in enumerate(lines, 1):
        # Unicode normalization takes time quadratic in the number of accents, and holds the GIL meanwhile.
        if any(len(each) > TEXT_MAX for each in line):
            raise SheetFault(f"Um campo da linha {number} tem mais de {thousands(TEXT_MAX)} caracteres.")
    return lines


def _decode(raw: bytes) -> str:
    """Decodes UTF-8, with or without a byte order mark; text that is not UTF-8 is taken for Windows' cp1252."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    if "\0" in text:
        raise SheetFault("O arquivo não é um CSV: salve a planilha como .xlsx ou como CSV.")
    return text


def _column_names(headings: Sequence[str]) -> list[str]:
    names = [_normalized(each) for each in headings]
    names = [_COLUMN_ALIASES.get(name, name) for name in names]
    if unknown := [heading for heading, name in zip(headings, names, strict=True) if name and name not in COLUMNS]:
        raise SheetFault(f"Coluna desconhecida: {unknown[0].strip()[:40]}. As colunas são {', '.join(COLUMNS)}.")
    if len(set(filter(None, names))) != len(list(filter(None, names))):
        raise SheetFault("Há duas colunas com o mesmo nome.")
    if missing := [name for name in REQUIRED if name not in names]:
        raise SheetFault(
            f"Falta a coluna {missing[0]}. A primeira linha tem os nomes das colunas, e só a primeira folha é lida."
        )
    return names


def _normalized(heading: str) -> str:
    """ "Descrição " -> "descricao"."""
    bare = "".join(each for each in unicodedata.normalize("NFKD", heading) if not unicodedata.combining(each))
    return re.sub(r"[^a-z0-9]+", "_", bare.casefold()).strip("_")


def _form_fields(names: Sequence[str], line: Sequence[Value]) -> dict[str, str]:
    cells = {name: _cell_text(name, value) for name, value in zip(names, line, strict=False) if name}
    fields = dict.fromkeys(COLUMNS.values(), "") | {COLUMNS[name]: value for name, value in cells.items()}
    kind = KINDS.get(_normalized(fields["kind"]), fields["kind"])
    discount_kind = "percent" if fields["discount_kind"] == "%" else _normalized(fields["discount_kind"])
    fields |= DEFAULTS | {"kind": kind, "discount_kind": _DISCOUNT_KINDS.get(discount_kind, discount_kind)}
    fields["forma"] = "pix" if kind == "pix" else "boleto"
    for name, percent_field in IN_REAIS.items():
        if fields[name] and not fields[percent_field]:
            fields |= {percent_field: fields[name], f"{percent_field}_kind": "amount", name: ""}
    for name in map(COLUMNS.__getitem__, AMOUNT_COLUMNS):
        if decimal := _DOT_DECIMAL.fullmatch(fields[name]):
            fields[name] = f"{decimal[1]},{decimal[2]}"
    for name in map(COLUMNS.__getitem__, DAY_COLUMNS):
        fields[name] = iso_day(fields[name])
    days = fields["lifetime"] or _LIFETIME_DAYS_DEFAULT
    fields["lifetime"] = str(int(days) * 86_400) if _LIFETIME_FORMAT.fullmatch(days) else days
    # An apostrophe, which spreadsheets and this dashboard's own files put before digits that are text.
    for name in ("external_id", "payer_document", "zip_code", "number", "payer_phone"):
        fields[name] = fields[name].removeprefix("'").strip()
    return fields


def _cell_text(column: str, value: Value) -> str:
    """Returns the text that a person would type into the form for the cell's number or day."""
    match value:
        case str():
            return value.strip()
        case date():
            return value.isoformat() if column in DAY_COLUMNS else value.strftime("%d/%m/%Y")
    text = f"{value.normalize():f}"
    if column in AMOUNT_COLUMNS:
        # Not rounded: rounding would fail with too many digits, and the form refuses what is no amount.
        has_cents_only = len(text.partition(".")[2]) <= _CENT_PLACES
        return (f"{value:.{_CENT_PLACES}f}" if has_cents_only else text).replace(".", ",")
    # A spreadsheet that took a document or CEP for a number has dropped its leading zeros.
    for length in _DIGIT_COUNTS.get(column, ()):
        if length - _ZEROS_LOST_MAX <= len(text) <= length and text.isdigit():
            return text.zfill(length)
    return text.replace(".", ",")
