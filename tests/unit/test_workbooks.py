"""Sheets of charges as .xlsx: cells are read as a person would type them, and invalid or unsafe files are refused."""

import io
import re
import zipfile
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any, Final

import openpyxl
import pytest
import xlsxwriter
from openpyxl.styles import numbers

from domain.brazilian import parse_brl
from domain.money import PIX_CENTS_MAX
from web.painel.charges.sheets import blank, workbook
from web.painel.charges.sheets.fault import SheetFault
from web.painel.charges.sheets.rows import BYTES_MAX, COLUMNS, ROWS_MAX, read_sheet

HEADINGS: Final = ("tipo", "valor", "vencimento", "nome", "documento", "cep", "referencia", "multa_percentual")
_MAIN: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELS: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"


def workbook_by_openpyxl(*rows: Any, formats: Mapping[str, str] | None = None, sheets: tuple[str, ...] = ()) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cell, form in (formats or {}).items():
        book.active[cell].number_format = form
    for name in sheets:
        book.create_sheet(name)
    output = io.BytesIO()
    book.save(output)
    return output.getvalue()


def xlsx(
    rows: str, *, shared: str = "", more: Mapping[str, bytes] | None = None, how: int = zipfile.ZIP_DEFLATED
) -> bytes:
    """The smallest valid workbook; some programs write such files. `rows` is the XML of the sheet's rows."""
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/>'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/xl/workbook.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
        '<Override PartName="/xl/worksheets/sheet1.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
        '<Override PartName="/xl/sharedStrings.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{_RELS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELS}"><sheets>'
        '<sheet name="Página1" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_RELS}/worksheet" Target="worksheets/sheet1.xml"/>'
        f'<Relationship Id="rId2" Type="{_RELS}/sharedStrings" Target="sharedStrings.xml"/></Relationships>',
        "xl/sharedStrings.xml": f'<sst xmlns="{_MAIN}">{shared}</sst>',
        "xl/worksheets/sheet1.xml": _sheet(rows),
        **(more or {}),
    }
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", how) as book:
        for name, text in parts.items():
            book.writestr(name, text)
    return output.getvalue()


def _sheet(rows: str) -> str:
    return f'<worksheet xmlns="{_MAIN}"><sheetData>{rows}</sheetData></worksheet>'


def prefixed(rows: str) -> bytes:
    """The sheet's XML with a namespace prefix in each element's name, as the Open XML SDK writes it."""
    return re.sub(r"<(/?)", r"<\1x:", _sheet(rows)).replace("xmlns=", "xmlns:x=").encode()


def sheet_at(part: str, sheet: bytes) -> dict[str, bytes]:
    """The parts of a workbook whose sheet has another file name in the folder `xl`."""
    rels = (
        f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'<Relationship Id="rId1" Type="{_RELS}/worksheet" Target="{part}"/></Relationships>'
    )
    return {"xl/_rels/workbook.xml.rels": rels.encode(), f"xl/{part}": sheet}


def inline(*texts: str) -> str:
    return "<row>" + "".join(f'<c t="inlineStr"><is><t>{each}</t></is></c>' for each in texts) + "</row>"


def rows_of(raw: bytes) -> list[dict[str, str]]:
    return [row.fields for row in read_sheet(raw)]


def test_numbers_days_and_percents_are_read_as_a_person_would_type_them() -> None:
    raw = workbook_by_openpyxl(
        HEADINGS,
        ("boleto", 1234.5, datetime(2030, 2, 1), "Ana", 1234567890, 1310100, 123, 0.02),  # noqa: DTZ001
        ("Boleto", "1.234,56", "01/02/2030", "Ana", "529.982.247-25", "01310-100", "ped-1", 2),
        ("pix", 0.1 + 0.2, None, True, 60701190000104, None, 45.5, None),
        (None, "  ", None, None, None, None, None, None),
        ("pix", 10.505, time(12, 30), None, 5299822, "", 1e15, "2,5"),
        formats={"C2": numbers.FORMAT_DATE_DDMMYY, "H2": "0.00%", "G2": "00000"},
    )
    first, second, third, last = rows_of(raw)
    assert (first["kind"], first["amount"], first["due_date"]) == ("boleto", "1234,50", "2030-02-01")
    # A spreadsheet removes the leading zeros of a number; a number format of zeros restores them.
    assert (first["payer_document"], first["zip_code"], first["external_id"]) == ("01234567890", "01310100", "00123")
    assert (first["fine"], second["fine"], last["fine"]) == ("2,00", "2,00", "2,5")
    assert (second["amount"], second["due_date"], second["zip_code"]) == ("1.234,56", "2030-02-01", "01310-100")
    assert (third["amount"], third["payer_name"], third["external_id"]) == ("0,30", "VERDADEIRO", "45,5")
    assert third["payer_document"] == "60701190000104"
    # An amount with half a cent, and a document that lacks more than leading zeros, are not corrected.
    assert (last["amount"], last["payer_document"], last["external_id"]) == ("10,505", "5299822", "1000000000000000")
    assert [row.number for row in read_sheet(raw)] == [2, 3, 4, 6], "the row numbers are the sheet's own"


def test_a_number_that_is_not_a_valid_amount_is_passed_on_and_refused_by_the_form() -> None:
    # The first number is a linha digitavel in the wrong column, as Excel stores it.
    rows = "".join(
        f'<row><c t="str"><v>pix</v></c><c><v>{number}</v></c></row>'
        for number in ("2.37933812860082E+43", "1E+26", "1E+300", "-1E+300")
    )
    head = '<row><c t="str"><v>tipo</v></c><c t="str"><v>valor</v></c></row>'
    given = [each["amount"] for each in rows_of(xlsx(head + rows))]
    assert given[0] == "23793381286008200000000000000000000000000000,00"
    for amount in given:
        with pytest.raises(ValueError, match="not an amount"):
            parse_brl(amount, cents_max=PIX_CENTS_MAX)


def test_brazilian_formats_of_excel_and_other_writers_are_read() -> None:
    output = io.BytesIO()
    with xlsxwriter.Workbook(output, {"in_memory": True, "date_1904": True}) as book:
        sheet = book.add_worksheet("Cobranças")
        book.add_worksheet("resumo")
        sheet.write_row(0, 0, HEADINGS)
        sheet.write_row(1, 0, ("pix", 10))
        sheet.write_datetime(1, 2, datetime(2030, 12, 31), book.add_format({"num_format": "d \\d\\e mmmm"}))  # noqa: DTZ001
        sheet.write_number(1, 4, 191, book.add_format({"num_format": "000\\.000\\.000\\-00"}))
        sheet.write_number(1, 5, 1310100, book.add_format({"num_format": "00000\\-000"}))
        sheet.write_formula(1, 6, '="ped-"&A2', None, "ped-pix")
        sheet.write_formula(1, 7, "=1+1", None, 2)
    (row,) = rows_of(output.getvalue())
    assert (row["due_date"], row["payer_document"], row["zip_code"]) == ("2030-12-31", "00000000191", "01310100")
    assert (row["external_id"], row["fine"]) == ("ped-pix", "2,00")


def test_a_cell_formatted_as_a_month_is_read_as_text_and_not_as_its_first_day() -> None:
    headings = ("tipo", "valor", "vencimento", "referencia", "descricao", "nome")
    month = datetime(2030, 11, 1)  # noqa: DTZ001 - a sheet's days have no zone
    # The formats with which Excel and LibreOffice store "nov/2030" as typed, and a day in words.
    formats = {"C2": "mmm\\-yy", "D2": "mmm/yy;@", "E2": 'MMMM" de "YYYY', "F2": 'd" de "mmmm'}
    (row,) = rows_of(workbook_by_openpyxl(headings, ("pix", 10, month, month, month, month), formats=formats))
    assert [row[name] for name in ("due_date", "external_id", "description", "payer_name")] == [
        "11/2030", "11/2030", "11/2030", "01/11/2030",
    ]  # fmt: skip


def test_inline_shared_and_rich_strings_without_addresses_are_read() -> None:
    shared = "<si><t>tipo</t></si><si><r><t>va</t></r><r><rPr><b/></rPr><t>lor</t></r></si><si><t>pix</t></si>"
    rows = (
        '<row><c t="s"><v>0</v></c><c t="s"><v>1</v></c><c t="inlineStr"><is><t>descrição</t></is></c></row>'
        '<row r="5"><c r="A5" t="s"><v>2</v></c><c r="B5"><v>7</v></c>'
        '<c r="C5" t="str"><f>A1</f><v>Açaí &amp; cia</v></c></row>'
    )
    raw = xlsx(rows, shared=shared)
    (row,) = read_sheet(raw)
    assert (row.number, row.fields["kind"], row.fields["amount"]) == (5, "pix", "7,00")
    assert row.fields["description"] == "Açaí & cia"


def test_a_workbook_saved_by_another_program_has_the_same_rows() -> None:
    rows = [("tipo", "valor"), ("pix", 10), ("pix", 11.5)]
    one = read_sheet(workbook_by_openpyxl(*rows))
    assert read_sheet(workbook_by_openpyxl(*rows, sheets=("outra",))) == one
    assert read_sheet(xlsx(inline("tipo", "valor") + inline("pix", "10,00") + inline("pix", "11,50"))) == one


PIX: Final = inline("tipo", "valor") + inline("pix", "10")
DTD: Final = (
    b'<?xml version="1.0"?><!DOCTYPE sst [<!ENTITY x SYSTEM "file:///etc/hostname">]><sst><si><t>&x;</t></si></sst>'
)
NESTED_ENTITIES: Final = (
    b'<!DOCTYPE sst [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><sst><si><t>&b;</t></si></sst>'
)
SHEET_WITH_ENTITY: Final = (
    f'<!DOCTYPE worksheet [<!ENTITY a "pix">]><worksheet xmlns="{_MAIN}"><sheetData>'
    f"{inline('tipo', 'valor')}{inline('&a;', '10')}</sheetData></worksheet>"
).encode()
UNCOMPUTED: Final = inline("tipo", "valor") + '<row><c t="inlineStr"><is><t>pix</t></is></c><c><f>1+1</f></c></row>'


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"PK\x03\x04....", "não pôde ser lido"),
        (xlsx(PIX)[:700], "não pôde ser lido"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, ".xls antigo, ou tem senha"),
        (xlsx(PIX, more={"xl/vbaProject.bin": b"x"}), "tem macros"),
        (xlsx(PIX, more={"xl/macrosheets/sheet1.xml": b"<x/>"}), "tem macros"),
        (xlsx(PIX, more={"xl/workbook.bin": b"x"}), ".xlsb"),
        (xlsx(PIX, more={"content.xml": b"<x/>"}), "LibreOffice (.ods)"),
        (xlsx(PIX, more={"xl/sharedStrings.xml": DTD}), "não pôde ser lido"),
        (xlsx(PIX, more={"xl/sharedStrings.xml": NESTED_ENTITIES}), "não pôde ser lido"),
        (xlsx(PIX, more={"xl/sharedStrings.xml": DTD.decode().encode("utf-16")}), "não pôde ser lido"),
        (xlsx(PIX, more=sheet_at("worksheets/sheet1.dat", SHEET_WITH_ENTITY)), "não pôde ser lido"),
        (xlsx(PIX, more=sheet_at("worksheets/sheet1.png", SHEET_WITH_ENTITY.decode().encode("utf-16"))),
         "não pôde ser lido"),
        (xlsx(PIX, more={"xl/workbook.xml": b"<workbook"}), "não pôde ser lido"),
        (xlsx(PIX, how=zipfile.ZIP_BZIP2), "não pôde ser lido"),
        (xlsx(PIX, more={"xl/media/a.xml": b" " * (workbook.UNPACKED_MAX + 1)}), "grande demais por dentro"),
        (xlsx(PIX, more={f"xl/media/{at}.png": b"x" for at in range(workbook.PARTS_MAX)}), "grande demais"),
        (xlsx('<row><c t="inlineStr"><is><t>tipo</t></is></c></row><row r="999999999"><c><v>1</v></c></row>'),
         "passa de 20.000 linhas"),
        (xlsx('<row><c r="XFD1"><v>1</v></c></row>'), "está vazia"),
        (xlsx('<row><c r="AO1"><v>1</v></c></row>'), f"mais de {workbook.COLUMNS_MAX} colunas"),
        (xlsx(inline("tipo", "valor") + '<row><c t="inlineStr"><is><t>pix</t></is></c><c t="e"><v>#REF!</v></c>'
                 "</row>"),
         "A célula B2 tem um erro: #REF!"),
        (xlsx(UNCOMPUTED), "fórmula sem resultado na linha 2"),
        (xlsx(PIX, more=sheet_at("charges.xml", _sheet(UNCOMPUTED).encode())), "fórmula sem resultado na linha 2"),
        (xlsx(PIX, more=sheet_at("worksheets/sheet1.xml", prefixed(UNCOMPUTED))), "fórmula sem resultado na linha 2"),
        (xlsx('<row><c t="s"><v>7</v></c></row>'), "não pôde ser lido"),
        (xlsx('<row><c t="s"><v>0</v></c></row>', shared=f"<si><t>{'é' * (workbook.TEXT_MAX + 1)}</t></si>"),
         "A célula A1 tem mais de 4.096 caracteres"),
        (workbook_by_openpyxl(("tipo", "valor"), ("pix", 10), formats={"B2": "0" * (workbook.FORMAT_MAX + 1)}),
         "não pôde ser lido"),
        (xlsx(""), "está vazia"),
        (xlsx(inline("tipo", "valor")), "nenhuma linha"),
        (xlsx(inline("Mês", "Total") + inline("maio", "10")), "Coluna desconhecida: Mês"),
        (xlsx(inline("nome", "documento") + inline("Ana", "1")), "só a primeira folha é lida"),
        (xlsx(inline("tipo", "valor") + inline("pix", "1") * (ROWS_MAX + 1)), f"até {ROWS_MAX}"),
        (b"PK\x03\x04" + b"x" * BYTES_MAX, "KB"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)  # fmt: skip
def test_an_invalid_sheet_of_charges_is_refused_with_the_reason(raw: bytes, words: str) -> None:
    with pytest.raises(SheetFault) as fault:
        read_sheet(raw)
    assert words in str(fault.value)


def test_a_hidden_sheet_is_skipped_and_a_workbook_of_hidden_sheets_is_refused() -> None:
    book = openpyxl.Workbook()
    book.active.append(("segredo",))
    book.active.sheet_state = "hidden"
    shown = book.create_sheet("cobranças")
    shown.append(("tipo", "valor"))
    shown.append(("pix", date(2030, 1, 2)))
    output = io.BytesIO()
    book.save(output)
    assert rows_of(output.getvalue())[0]["amount"] == "02/01/2030", "the form refuses a day in the column of amounts"
    text = zipfile.ZipFile(output).read("xl/workbook.xml").replace(b'state="visible"', b'state="hidden"')
    again = io.BytesIO()
    with zipfile.ZipFile(output) as old, zipfile.ZipFile(again, "w") as new:
        for part in old.infolist():
            new.writestr(part.filename, text if part.filename == "xl/workbook.xml" else old.read(part))
    with pytest.raises(SheetFault, match="nenhuma folha visível"):
        read_sheet(again.getvalue())


def test_the_blank_sheet_has_every_column_and_no_charge_and_can_be_filled_in() -> None:
    book = openpyxl.load_workbook(io.BytesIO(blank.workbook()))
    assert book.sheetnames == ["cobrancas", "como preencher"]
    sheet = book["cobrancas"]
    assert [cell.value for cell in sheet[1]] == list(COLUMNS)
    with pytest.raises(SheetFault, match="nenhuma linha"):
        read_sheet(blank.workbook())
    assert sheet.data_validations.dataValidation[0].formula1 == '"pix,boleto,boleto_hibrido,boleto_pix"'
    sheet.append(["pix", 12.5])
    output = io.BytesIO()
    book.save(output)
    assert rows_of(output.getvalue())[0]["amount"] == "12,50"
