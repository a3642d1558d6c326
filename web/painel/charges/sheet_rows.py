"""A spreadsheet of charges, saved as CSV: its rows as the fields of the form of a new charge.

Takes what spreadsheets write here: `;` or `,` between fields, UTF-8 or Windows' Latin-1, amounts as 1.234,56 or
1234.56, days as 31/12/2026 or 2026-12-31. What a row means, and what is wrong with it, is the form's to say.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from web.painel.charges.boleto_terms import DEFAULTS

BYTES_MAX: Final = 128 * 1024
ROWS_MAX: Final = 100
# The sheet's column, and the form's field: errors are told by the former.
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
# What a sheet says in a column of its own, the form says in a field and its kind.
IN_REAIS: Final = {"fine_amount": "fine", "interest_amount": "interest"}
_DISCOUNT_KINDS: Final = {
    "": "amount", "r": "amount", "reais": "amount", "valor": "amount", "percentual": "percent",
    "porcentagem": "percent",
}  # fmt: skip
_AMOUNTS: Final = ("amount", "fine", "interest", "discount_first", "discount_second", "discount_third")
_DAYS_TYPED: Final = ("due_date", "discount_first_until", "discount_second_until", "discount_third_until")
REQUIRED: Final = ("tipo", "valor")
KINDS: Final = {
    "pix": "pix",
    "boleto": "boleto",
    "boleto_hibrido": "boleto_hibrido",
    "boleto_com_pix": "boleto_hibrido",
}
_OTHER_NAMES: Final = {
    "cpf": "documento",
    "cnpj": "documento",
    "cpf_ou_cnpj": "documento",
    "e_mail": "email",
    "uf": "estado",
}
_DAY: Final = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_PLAIN: Final = re.compile(r"(\d+)\.(\d{1,2})")
_DAYS: Final = re.compile(r"[1-9]\d{0,2}")
_LIFETIME_DAYS: Final = "7"


class SheetFault(Exception):
    """The sheet as a whole cannot be read; why, for whoever sent it."""


class SheetRow(Struct, frozen=True):
    """`number` is the line as a spreadsheet counts it, headings included; `fields` are the form's."""

    number: int
    fields: dict[str, str]


def read_sheet(raw: bytes) -> list[SheetRow]:
    """Rows that are not empty, at most ROWS_MAX; SheetFault otherwise."""
    if len(raw) > BYTES_MAX:
        raise SheetFault(f"O arquivo passa de {BYTES_MAX // 1024} KB: divida-o.")
    if raw[:4] == b"PK\x03\x04":
        raise SheetFault("Isto é uma pasta do Excel. Salve a planilha como CSV e envie o CSV.")
    text = _text(raw)
    separator = ";" if text.partition("\n")[0].count(";") >= text.partition("\n")[0].count(",") else ","
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise SheetFault("O arquivo não é um CSV: há aspas que não fecham.") from error
    if not lines:
        raise SheetFault("O arquivo está vazio.")
    names = _names(lines[0])
    rows = [
        SheetRow(number, _fields(names, line)) for number, line in enumerate(lines[1:], 2) if any(map(str.strip, line))
    ]
    if not rows:
        raise SheetFault("Não há nenhuma linha abaixo dos títulos.")
    if len(rows) > ROWS_MAX:
        raise SheetFault(f"São {len(rows)} linhas; cada arquivo leva até {ROWS_MAX}: divida-o.")
    return rows


def _text(raw: bytes) -> str:
    """UTF-8 with or without a mark, or what Windows writes: text that is no UTF-8 is that."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    if "\0" in text:
        raise SheetFault("O arquivo não é um texto.")
    return text


def _names(headings: Sequence[str]) -> list[str]:
    names = [_plain(each) for each in headings]
    names = [_OTHER_NAMES.get(name, name) for name in names]
    if unknown := [given for given, name in zip(headings, names, strict=True) if name and name not in COLUMNS]:
        raise SheetFault(f"Coluna desconhecida: {unknown[0].strip()[:40]}. As colunas são {', '.join(COLUMNS)}.")
    if len(set(filter(None, names))) != len(list(filter(None, names))):
        raise SheetFault("Há duas colunas com o mesmo nome.")
    if missing := [name for name in REQUIRED if name not in names]:
        raise SheetFault(f"Falta a coluna {missing[0]}. A primeira linha tem os nomes das colunas.")
    return names


def _plain(heading: str) -> str:
    """ "Descrição " -> "descricao"."""
    bare = "".join(each for each in unicodedata.normalize("NFKD", heading) if not unicodedata.combining(each))
    return re.sub(r"[^a-z0-9]+", "_", bare.casefold()).strip("_")


def _fields(names: Sequence[str], line: Sequence[str]) -> dict[str, str]:
    given = {name: value.strip() for name, value in zip(names, line, strict=False) if name}
    fields = dict.fromkeys(COLUMNS.values(), "") | {COLUMNS[name]: value for name, value in given.items()}
    kind = KINDS.get(_plain(fields["kind"]), fields["kind"])
    discount_kind = "percent" if fields["discount_kind"] == "%" else _plain(fields["discount_kind"])
    fields |= DEFAULTS | {"kind": kind, "discount_kind": _DISCOUNT_KINDS.get(discount_kind, discount_kind)}
    fields["forma"] = "pix" if kind == "pix" else "boleto"
    for name, of in IN_REAIS.items():
        if fields[name] and not fields[of]:
            fields |= {of: fields[name], f"{of}_kind": "amount", name: ""}
    for name in _AMOUNTS:
        if plain := _PLAIN.fullmatch(fields[name]):
            fields[name] = f"{plain[1]},{plain[2]}"
    for name in _DAYS_TYPED:
        if day := _DAY.fullmatch(fields[name]):
            fields[name] = f"{day[3]}-{day[2]:0>2}-{day[1]:0>2}"
    days = fields["lifetime"] or _LIFETIME_DAYS
    fields["lifetime"] = str(int(days) * 86_400) if _DAYS.fullmatch(days) else days
    # What a spreadsheet, or this dashboard's own files, put before text that is no number.
    for name in ("external_id", "payer_document", "zip_code", "number", "payer_phone"):
        fields[name] = fields[name].removeprefix("'").strip()
    return fields
