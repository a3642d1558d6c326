"""The boleto for screen readers and on every machine: tagged, in reading order, with embedded fonts; and its logo."""

import io
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PIL import Image, ImageChops
from pypdf import PdfReader
from reportlab.pdfbase import pdfmetrics

from commands.merchants.profile.logo_pixels import read_logo
from domain.boleto import codes
from readmodels.documents.boleto_pdf import BoletoPrinter, PrintedBoleto, Void
from readmodels.documents.boleto_structure import FIGURES
from readmodels.documents.logo import Logo
from readmodels.documents.typeface import BOLD, TEXT, Face
from tests.integration.readmodels.test_boleto_pdf import BOLETOS, DPI, HYBRID, PLAIN, expected, rendered
from tests.support.code_reader import printed_codes
from tests.support.pictures import draw_logo, encode_picture
from tests.support.tagged import Tagged, read_tagged

replace = msgspec.structs.replace
VOID = replace(HYBRID, void=Void("PAGO", "Pago em 20/11/2026. Não pague de novo."))
ALL = {**BOLETOS, "void": VOID, "changed": replace(HYBRID, changed=1)}
BYTES_MAX = 40 * 1024
PHOTO = Image.effect_noise((900, 300), 90).convert("RGB")


def logo_of(file: bytes) -> Logo:
    kept = read_logo(file)
    return Logo(kept.width, kept.height, kept.image)


@pytest.fixture(scope="module")
def printer() -> BoletoPrinter:
    return BoletoPrinter()


def read_structure(printer: BoletoPrinter, boleto: PrintedBoleto) -> Tagged:
    return read_tagged(printer.stamp(boleto))


@pytest.mark.parametrize("name", ALL)
def test_everything_printed_is_tagged_once_or_marked_as_decoration(name: str, printer: BoletoPrinter) -> None:
    found = read_structure(printer, ALL[name])
    assert found.unmarked == []
    assert found.twice == []
    assert found.parents_agree
    assert {each.kind for each in found.elements if each.drawn} <= {"/Figure"}
    assert all(each.drawn for each in found.elements if each.kind == "/Figure")


def test_a_screen_reader_reads_beneficiary_amount_due_date_and_codes_in_this_order(printer: BoletoPrinter) -> None:
    found = read_structure(printer, HYBRID)
    said = [each.text or each.alt for each in found.elements]
    wanted = [
        "Recibo do pagador",
        "Beneficiário Padaria Aurora Ltda CNPJ 12.345.678/0001-90 Rua das Laranjeiras, 1200, Laranjeiras,"
        " Rio de Janeiro - RJ, CEP 22240-003",
        "Pagador José da Conceição Araújo CPF 123.456.789-09 Av. São João, 45, apto 12, São Paulo - SP, CEP 01035-000",
        "Valor do documento R$ 1.234,56",
        "Vencimento 19/12/2026 pagável até 21/12/2026",
        f"Linha digitável {codes.printed_line(HYBRID.line)}",
        "Pague com Pix",
        FIGURES["qr"],
        f"Pix copia e cola {HYBRID.qr_code}",
        "Autenticação mecânica - Ficha de compensação",
        codes.printed_line(HYBRID.line),
        "Vencimento 19/12/2026 pagável até 21/12/2026",
        "(=) Valor do documento 1.234,56",
        FIGURES["bars"],
    ]
    # Each text comes after the one before.
    at = -1
    for each in wanted:
        assert each in said[at + 1 :], each
        at = said.index(each, at + 1)
    assert [each.text for each in found.elements if each.kind.startswith("/H")] == [
        "Recibo do pagador", "Pague com Pix", "Autenticação mecânica - Ficha de compensação",
    ]  # fmt: skip


def test_exactly_the_figures_that_are_drawn_have_alternative_texts(printer: BoletoPrinter) -> None:
    def figures(boleto: PrintedBoleto) -> list[str]:
        return [each.alt for each in read_structure(printer, boleto).elements if each.kind == "/Figure"]

    assert figures(HYBRID) == [FIGURES["qr"], FIGURES["bars"]]
    assert figures(PLAIN) == [FIGURES["bars"]]
    assert figures(VOID) == [], "a void boleto has no codes"
    named = replace(PLAIN, logo=logo_of(draw_logo()), beneficiary_name="Açaí (e) Cia \\ Иван")
    assert figures(named) == ["Logotipo de Açaí (e) Cia \\ Иван", FIGURES["bars"]]
    assert "PAGO Pago em 20/11/2026. Não pague de novo." in [
        each.text for each in read_structure(printer, VOID).elements
    ]


@pytest.mark.parametrize("name", ALL)
def test_the_file_declares_its_language_its_title_and_its_tags(name: str, printer: BoletoPrinter) -> None:
    root: Any = PdfReader(io.BytesIO(printer.stamp(ALL[name]))).trailer["/Root"]
    assert root["/Lang"] == "pt-BR"
    assert root["/MarkInfo"]["/Marked"]
    assert root["/ViewerPreferences"]["/DisplayDocTitle"], (
        "the window's title must be that of the boleto, not the file name"
    )


@pytest.mark.parametrize("name", ALL)
def test_every_font_is_embedded_and_the_file_stays_small(name: str, printer: BoletoPrinter) -> None:
    paper = printer.stamp(ALL[name])
    page: Any = PdfReader(io.BytesIO(paper)).pages[0]
    fonts = page["/Resources"]["/Font"]
    for font in (each.get_object() for each in fonts.values()):
        assert re.fullmatch(r"/[A-Z]{6}\+Arimo-(Regular|Bold)", font["/BaseFont"])
        assert len(font["/FontDescriptor"]["/FontFile2"].get_data()) > 10_000
    assert len(paper) < BYTES_MAX * (1.2 if name == "full" else 1), "a QR Code of 512 characters takes 6 KB more"


@pytest.mark.parametrize(("face", "helvetica"), [(TEXT, "Helvetica"), (BOLD, "Helvetica-Bold")])
def test_the_fonts_have_every_printable_character_in_the_width_of_the_form(face: Face, helvetica: str) -> None:
    signs = [byte for byte in range(32, 256) if byte not in (0x7F, 0x81, 0x8D, 0x8F, 0x90, 0x9D)]
    assert all(face.widths[byte] > 0 for byte in signs)
    other = pdfmetrics.getFont(helvetica).widths
    assert {bytes((byte,)).decode("cp1252") for byte in signs if face.widths[byte] != other[byte]} == set("¯±µ·÷")


@pytest.mark.skipif(shutil.which("pdfinfo") is None, reason="poppler-utils are not installed")
def test_poppler_finds_the_same_structure_and_fonts(printer: BoletoPrinter, tmp_path: Path) -> None:
    file = tmp_path / "boleto.pdf"
    file.write_bytes(printer.stamp(replace(HYBRID, logo=logo_of(draw_logo()))))

    def output_of(*command: str) -> str:
        done = subprocess.run([*command, str(file)], capture_output=True, text=True, timeout=60, check=True)
        assert done.stderr == ""
        return done.stdout

    assert re.search(r"^Tagged: +yes$", output_of("pdfinfo"), re.M)
    structure = output_of("pdfinfo", "-struct-text")
    assert structure.count("Figure") == 3
    assert structure.index("Padaria Aurora") < structure.index("R$ 1.234,56") < structure.index("00190.00009")
    fonts = output_of("pdffonts").splitlines()[2:]
    assert len(fonts) == 2
    assert all(re.search(r"TrueType +WinAnsi +yes yes", each) for each in fonts)


# The logo


@pytest.mark.parametrize(
    "file", [draw_logo(), draw_logo("JPEG", size=(500, 500)), encode_picture(PHOTO)], ids=["flat", "square", "photo"]
)
@pytest.mark.parametrize("name", ["hybrid", "plain", "sandbox hybrid", "full", "void"])
def test_the_logo_is_printed_on_the_receipt_and_covers_neither_codes_nor_text(
    name: str, file: bytes, printer: BoletoPrinter
) -> None:
    boleto = ALL[name]
    plain, paper = printer.stamp(boleto), printer.stamp(replace(boleto, logo=logo_of(file)))
    image = rendered(paper)
    assert printed_codes(image) == ({} if boleto.void else expected(boleto))
    difference = ImageChops.difference(image, rendered(plain)).getbbox()
    assert difference is not None
    per_mm = DPI / 25.4
    assert difference[1] > 65 * per_mm, "the logo must be below the boxes of the receipt"
    assert difference[3] < 140 * per_mm, "the logo must be above the cutting line"
    reader = PdfReader(io.BytesIO(paper), strict=True)
    assert len(reader.pages) == 1
    shown: Any = reader.pages[0].images[0]
    logo = logo_of(file)
    kept = Image.open(io.BytesIO(logo.image)).convert("RGB")
    assert ImageChops.difference(shown.image.convert("RGB"), kept).getbbox() is None
    found = read_tagged(paper)
    assert (found.unmarked, found.twice, found.parents_agree) == ([], [], True)
    assert len(paper) < len(plain) + len(logo.image) + 2_500


def test_a_boleto_with_a_logo_keeps_its_instructions(printer: BoletoPrinter) -> None:
    boleto = replace(BOLETOS["full"], logo=logo_of(draw_logo()))
    said = [each.text for each in read_structure(printer, boleto).elements]
    assert any(each.startswith("Instruções Vencimento alterado") for each in said)
