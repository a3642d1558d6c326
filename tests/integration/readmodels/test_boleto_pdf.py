"""The printed boleto: independent barcode, QR Code and PDF readers find on it exactly what was to be printed."""

import asyncio
import io
import logging
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import combinations
from logging.handlers import BufferingHandler
from pathlib import Path

import msgspec
import pypdfium2
import pytest
from PIL import Image, ImageOps
from pypdf import PdfReader

from banks.banco_do_brasil.nosso_numero import free_field, number_at_bank, printed_number
from domain.boleto import codes
from readmodels.documents import forms
from readmodels.documents.boleto_form import render
from readmodels.documents.boleto_pdf import BoletoPrinter, PrintedBoleto
from readmodels.documents.forms import Kind, Layout
from tests.support.code_reader import printed_code, printed_codes
from tests.support.counting import calls_made

DPI = 200
A4 = (595.2756, 841.8898)
BR_CODE = (
    "00020101021226850014br.gov.bcb.pix2563pix.example.com/qr/v2/cobv/8b3da2f39a4140d1a91abd93113bd441"
    "5204000053039865802BR5919PADARIA AURORA LTDA6009SAO PAULO62070503***63041D3D"
)
LONG_BR_CODE = "00020126" + "Ab9./" * 100 + "6304"  # 512 characters, the most a BR Code has
DUE = date(2026, 12, 19)  # a Saturday
BARCODE = codes.barcode(bank="001", free_field=free_field("3128557", 30000, "17"), due=DUE, amount_cents=123456)

HYBRID = PrintedBoleto(
    bank_name="Banco do Brasil",
    bank_code="001-9",
    carteira="17",
    beneficiary_name="Padaria Aurora Ltda",
    beneficiary_document="12345678000190",
    beneficiary_address="Rua das Laranjeiras, 1200, Laranjeiras, Rio de Janeiro - RJ, CEP 22240-003",
    agency_code="0452-9 / 123873-5",
    payer_name="José da Conceição Araújo",
    payer_document="12345678909",
    payer_address="Av. São João, 45, apto 12, São Paulo - SP, CEP 01035-000",
    nosso_numero=printed_number(number_at_bank("3128557", 30000)),
    seu_numero="PED-000123",
    document_date=date(2026, 11, 20),
    processing_date=date(2026, 11, 21),
    due_date=DUE,
    effective_due_date=date(2026, 12, 21),
    amount_cents=123456,
    line=codes.line(BARCODE),
    barcode=BARCODE,
    qr_code=BR_CODE,
    instructions=(
        "Após o vencimento, multa de 2,00% e juros de 1,00% ao mês.",
        "Não receber após 30 dias do vencimento.",
    ),
    description="Encomenda nº 88: bolo de aniversário e 60 salgados",
    test=False,
)
PLAIN = msgspec.structs.replace(HYBRID, qr_code=None)
SANDBOX = msgspec.structs.replace(HYBRID, test=True)
BARCODE_MAX = codes.barcode(bank="001", free_field=free_field("3128557", 1, "17"), due=DUE, amount_cents=9_999_999_999)
FULL = msgspec.structs.replace(  # Every text is as long as possible.
    HYBRID,
    beneficiary_name="Associação dos Produtores Independentes de Ações Culturais, Educação e Inovação da Região " * 3,
    beneficiary_address="Avenida Presidente Juscelino Kubitschek de Oliveira, 12345, Bloco C, Conjunto 1504, " * 3,
    agency_code="0452-9 / 123873-5 / 999999999999999999999",
    payer_name="Maria Aparecida da Conceição Gonçalves de Albuquerque e Vasconcelos Guimarães Çalışkan " * 4,
    payer_address="Rua Engenheiro Ângelo Muñoz " * 12,
    seu_numero="W" * 60,
    nosso_numero="W" * 40,
    amount_cents=9_999_999_999,
    barcode=BARCODE_MAX,
    line=codes.line(BARCODE_MAX),
    qr_code=LONG_BR_CODE,
    instructions=("Instrução muito longa " * 30, "InstruçãoSemEspaços" * 20, *("mais uma",) * 20),
    description="Descrição comprida " * 60,
    bank_name="Banco de Nome Muito Comprido S.A.",
    changed=12,
)
BOLETOS = {
    "hybrid": HYBRID,
    "plain": PLAIN,
    "sandbox hybrid": SANDBOX,
    "sandbox plain": msgspec.structs.replace(PLAIN, test=True),
    "erased payer": msgspec.structs.replace(
        PLAIN, payer_name="Dados do pagador apagados", payer_document="", payer_address=""
    ),
    "full": FULL,
    "full plain sandbox": msgspec.structs.replace(FULL, qr_code=None, test=True),
}


@pytest.fixture(scope="module")
def printer() -> BoletoPrinter:
    return BoletoPrinter()


@pytest.fixture(scope="module")
def papers(printer: BoletoPrinter) -> dict[str, bytes]:
    return {name: printer.stamp(boleto) for name, boleto in BOLETOS.items()}


@pytest.fixture(scope="module")
def images(papers: dict[str, bytes]) -> dict[str, Image.Image]:
    return {name: rendered(paper) for name, paper in papers.items()}


def rendered(paper: bytes) -> Image.Image:
    with pypdfium2.PdfDocument(paper) as document:
        image: Image.Image = document[0].render(scale=DPI / 72, grayscale=True).to_pil()
        image.load()
        return image


def expected(boleto: PrintedBoleto) -> dict[str, str]:
    return {"ITF": boleto.barcode} | ({"QRCode": boleto.qr_code} if boleto.qr_code is not None else {})


@pytest.mark.parametrize("name", BOLETOS)
def test_bars_and_qr_code_of_every_kind_of_boleto_are_read_at_200_dpi(
    name: str, images: dict[str, Image.Image]
) -> None:
    assert printed_codes(images[name]) == expected(BOLETOS[name])


@pytest.mark.skipif(shutil.which("zbarimg") is None, reason="zbar-tools are not installed")
@pytest.mark.parametrize("name", ["full", "sandbox hybrid"])
def test_zbar_reads_the_same_codes(name: str, images: dict[str, Image.Image], tmp_path: Path) -> None:
    images[name].save(tmp_path / "boleto.png")
    for symbology, text in (("i25", BOLETOS[name].barcode), ("qrcode", BOLETOS[name].qr_code)):
        command = [
            "zbarimg",
            "-q",
            "--nodbus",
            "--raw",
            "-Sdisable",
            f"-S{symbology}.enable",
            str(tmp_path / "boleto.png"),
        ]
        assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip() == text


@pytest.mark.parametrize(
    "line",  # boletos of other systems and years, from published examples
    [
        "34191090082233478123845678900007972560000030000",
        "00190500954014481606906809350314337370000000100",
        "10491234566000010004400000000992771150000080000",
    ],
)
def test_barcodes_of_published_example_boletos_are_read(line: str, printer: BoletoPrinter) -> None:
    boleto = msgspec.structs.replace(PLAIN, line=line, barcode=codes.barcode_of_line(line))
    assert printed_codes(rendered(printer.stamp(boleto))) == {"ITF": codes.barcode_of_line(line)}


@pytest.mark.parametrize("name", BOLETOS)
def test_the_file_is_one_a4_page_that_opens_without_a_warning(name: str, papers: dict[str, bytes]) -> None:
    said = BufferingHandler(1_000)
    logger = logging.getLogger("pypdf")
    logger.addHandler(said)
    try:
        reader = PdfReader(io.BytesIO(papers[name]), strict=True)
        (page,) = reader.pages
        page.extract_text()
    finally:
        logger.removeHandler(said)
    assert not said.buffer
    assert (float(page.mediabox.width), float(page.mediabox.height)) == pytest.approx(A4, abs=0.1)
    assert reader.metadata is not None
    assert reader.metadata.title == f"Boleto {BOLETOS[name].nosso_numero} - {BOLETOS[name].beneficiary_name}"


def test_everything_the_payer_and_the_bank_need_is_printed_as_text(papers: dict[str, bytes]) -> None:
    text = PdfReader(io.BytesIO(papers["hybrid"])).pages[0].extract_text()
    # Recibo and ficha both state beneficiary, amount, due date and line.
    for twice in (
        "Banco do Brasil",
        "001-9",
        codes.printed_line(HYBRID.line),
        "Padaria Aurora Ltda",
        "CNPJ 12.345.678/0001-90",
        "Rua das Laranjeiras, 1200, Laranjeiras, Rio de Janeiro - RJ, CEP 22240-003",
        "0452-9 / 123873-5",
        "José da Conceição Araújo",
        "CPF 123.456.789-09",
        "Av. São João, 45, apto 12, São Paulo - SP, CEP 01035-000",
        HYBRID.nosso_numero,
        "PED-000123",
        "1.234,56",
        "20/11/2026",
        "21/11/2026",
        "19/12/2026",
        "pagável até 21/12/2026",
        "Não receber após 30 dias do vencimento.",
    ):
        assert text.count(twice) >= 2, twice
    for once in ("Encomenda nº 88: bolo de aniversário e 60 salgados", "Pague com Pix", "DM", "R$"):
        assert once in text
    assert "TESTE" not in text
    assert "alterado" not in text


def test_the_ficha_has_every_box_of_the_febraban_layout(papers: dict[str, bytes]) -> None:
    text = " ".join(PdfReader(io.BytesIO(papers["plain"])).pages[0].extract_text().split())
    for label in (
        "Local de pagamento",
        "Vencimento",
        "Beneficiário",
        "Agência / Código do beneficiário",
        "Data do documento",
        "Nº do documento",
        "Espécie doc.",
        "Aceite",
        "Data do processamento",
        "Nosso número",
        "Uso do banco",
        "Carteira",
        "Espécie",
        "Quantidade",
        "(x) Valor",
        "(=) Valor do documento",
        "Instruções (texto de responsabilidade do beneficiário)",
        "(-) Desconto / Abatimento",
        "(-) Outras deduções",
        "(+) Mora / Multa",
        "(+) Outros acréscimos",
        "(=) Valor cobrado",
        "Pagador",
        "Sacador / Avalista",
        "Autenticação mecânica - Ficha de compensação",
        "Recibo do pagador",
    ):
        assert label in text, label
    assert "Pix" not in text


@pytest.mark.parametrize("name", ["sandbox hybrid", "sandbox plain"])
def test_a_sandbox_boleto_says_on_both_parts_that_it_is_worth_nothing(name: str, papers: dict[str, bytes]) -> None:
    text = PdfReader(io.BytesIO(papers[name])).pages[0].extract_text()
    assert text.count("TESTE - SEM VALOR") == 3


def test_a_boleto_with_a_new_due_date_says_so_on_both_parts(printer: BoletoPrinter) -> None:
    changed = msgspec.structs.replace(PLAIN, changed=1)
    text = PdfReader(io.BytesIO(printer.stamp(changed))).pages[0].extract_text()
    assert "Vencimento alterado - 2ª versão" in text
    assert text.count("Vencimento alterado para 19/12/2026") == 2


@pytest.mark.parametrize("name", ["hybrid", "plain", "full"])
def test_no_text_overlaps_another_one_or_leaves_the_paper(name: str, papers: dict[str, bytes]) -> None:
    # pdfium measures the texts: its fonts and boxes are independent of our layout.
    with pypdfium2.PdfDocument(papers[name]) as document:
        page = document[0].get_textpage()
        places = [page.get_rect(number) for number in range(page.count_rects())]
        texts = [page.get_text_bounded(*place) for place in places]
    assert len(places) > 80
    for left, bottom, right, top in places:
        assert left > 20
        assert right < A4[0] - 20
        assert bottom > 0
        assert top < A4[1]
    for (a, said), (b, other) in combinations(zip(places, texts, strict=True), 2):
        # pdfium's boxes reach up to half a point beyond the ink.
        across = min(a[2], b[2]) - max(a[0], b[0])
        along = min(a[3], b[3]) - max(a[1], b[1])
        assert across < 0.8 or along < 0.8, (said, other)


def test_long_texts_are_cut_with_an_ellipsis_but_documents_and_amounts_never_are(papers: dict[str, bytes]) -> None:
    text = PdfReader(io.BytesIO(papers["full"])).pages[0].extract_text()
    assert text.count("99.999.999,99") == 3  # recibo, ficha, beside the QR Code
    assert text.count("CNPJ 12.345.678/0001-90") == 2
    assert text.count("CPF 123.456.789-09") == 2
    assert text.count(codes.printed_line(FULL.line)) == 2
    assert text.count("…") >= 8
    assert "Instruções" in text  # A long description leaves room for the instructions.


def test_a_long_description_leaves_every_instruction_on_both_parts(printer: BoletoPrinter) -> None:
    terms = (
        "Se pago em 20/11/2026: R$ 1.184,56.", *(f"Até 0{day}/12/2026: desconto de R$ 50,00." for day in (1, 5, 9)),
        "Após 21/12/2026: multa de 2,00% (R$ 24,69).", "Após 21/12/2026: juros de 1,00% ao mês.",
        "Não receber após 21/12/2027.",
    )  # fmt: skip
    boleto = msgspec.structs.replace(HYBRID, instructions=terms, description="Mensalidade de novembro " * 20)
    text = PdfReader(io.BytesIO(printer.stamp(boleto))).pages[0].extract_text()
    assert {line: text.count(line) for line in terms} == dict.fromkeys(terms, 2)
    assert "Mensalidade de novembro" in text


@pytest.mark.parametrize(
    ("town", "shown"),
    [
        ("Vila Bela da Santíssima Trindade", "Vila Bela da Santíssima Trindade - MT, CEP 78245-000"),
        ("W" * 200, "CEP 78245-000"),
    ],
)
def test_a_long_address_is_cut_before_its_zip_code(printer: BoletoPrinter, town: str, shown: str) -> None:
    """Lei 12.039/2009 requires the beneficiary's address, FEBRABAN's ficha that of the payer. Without town and zip code
    neither is complete."""
    address = f"Rua Desembargador Ermelino {'de Leão Junior ' * 12}, 12345, {town} - MT, CEP 78245-000"
    paper = printer.stamp(msgspec.structs.replace(HYBRID, payer_address=address, beneficiary_address=address))
    text = PdfReader(io.BytesIO(paper)).pages[0].extract_text()
    assert text.count(f"…, {shown}") == 4, "both addresses on both parts"
    assert "Rua Desembargador Ermelino" in text


def test_names_outside_the_latin_alphabet_still_print(printer: BoletoPrinter) -> None:
    strange = msgspec.structs.replace(
        HYBRID,
        payer_name="A\u0301lvaro (Çağrı) \\ Dvo\u200břák\ufe0f\r\n\x00Ltda \U0001f600 Иван",
        payer_address=")(\\",
        description="",
        instructions=("",),
    )
    paper = printer.stamp(strange)
    text = PdfReader(io.BytesIO(paper), strict=True).pages[0].extract_text()
    # Signs without a shape, as names copied from a web page or a chat have them, leave no mark.
    assert text.count("Álvaro (Çagr? ) \\ Dvorák".replace("? ", "?")) == 2
    assert printed_codes(rendered(paper)) == expected(strange)


def test_the_qr_code_is_at_least_28_mm_inside_four_white_modules(images: dict[str, Image.Image]) -> None:
    for name, modules in (("hybrid", 53), ("full", 89), ("sandbox hybrid", 53)):
        image = images[name]
        found = printed_code(image, "QRCode")
        corners = found.position
        left, top, right = corners.top_left.x, corners.top_left.y, corners.top_right.x
        bottom = corners.bottom_left.y
        assert (right - left) * 25.4 / DPI > 28
        # Everything dark inside the quiet zone's outer edge lies inside the symbol.
        quiet = int(4 * (right - left) / modules) - 2
        around = image.crop((left - quiet, top - quiet, right + quiet, bottom + quiet))
        dark = ImageOps.invert(around).point(lambda value: 255 if value > 20 else 0).getbbox()
        assert dark is not None
        assert dark[0] >= quiet - 2
        assert dark[1] >= quiet - 2
        assert dark[2] <= around.width - quiet + 2
        assert dark[3] <= around.height - quiet + 2


def test_the_bars_are_103_by_13_mm_with_5_mm_of_white_at_both_ends(images: dict[str, Image.Image]) -> None:
    image = images["full"]
    found = printed_code(image, "ITF")
    middle = (found.position.top_left.y + found.position.bottom_left.y) // 2
    left, right = found.position.top_left.x, found.position.top_right.x
    per_mm = DPI / 25.4
    strip = image.crop((left - int(5 * per_mm), middle, right + int(5 * per_mm), middle + 1))
    first, _, last, _ = ImageOps.invert(strip).point(lambda value: 255 if value > 60 else 0).getbbox() or (0, 0, 0, 0)
    assert (last - first) / per_mm == pytest.approx(103, abs=0.4)
    assert first / per_mm == pytest.approx(5, abs=0.4)
    assert (strip.width - last) / per_mm == pytest.approx(5, abs=0.4)
    x = left + first - int(5 * per_mm)
    assert x / per_mm == pytest.approx(15, abs=0.4)  # 15 mm from the paper's edge are 5 mm inside the ficha.
    column = image.crop((x, middle - int(8 * per_mm), x + 1, middle + int(8 * per_mm)))
    _, upper, _, lower = ImageOps.invert(column).point(lambda value: 255 if value > 60 else 0).getbbox() or (0, 0, 0, 0)
    assert (lower - upper) / per_mm == pytest.approx(13, abs=0.4)


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler-utils are not installed")
@pytest.mark.parametrize("name", ["hybrid", "full"])
def test_the_line_and_the_pix_code_can_be_copied_from_the_file_in_one_piece(
    name: str, papers: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "boleto.pdf").write_bytes(papers[name])
    command = ["pdftotext", "-layout", str(tmp_path / "boleto.pdf"), "-"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    assert text.count(codes.printed_line(BOLETOS[name].line)) == 2
    assert str(BOLETOS[name].qr_code) in text


def test_the_same_boleto_is_the_same_file_whichever_thread_prints_it_first(
    papers: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "_forms", {})
    fresh = BoletoPrinter()
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(fresh.stamp, [PLAIN] * 16)) == {papers["plain"]}
    assert fresh.stamp(HYBRID) == papers["hybrid"]


async def test_the_event_loop_runs_while_a_first_boleto_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "_forms", {})
    printing = asyncio.create_task(BoletoPrinter().printed(SANDBOX))
    turns = 0
    while not printing.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert (await printing).startswith(b"%PDF-")
    assert turns > 3  # The printer renders the whole form meanwhile.


def test_a_line_that_does_not_match_the_barcode_is_never_printed(printer: BoletoPrinter) -> None:
    with pytest.raises(AssertionError):
        printer.stamp(msgspec.structs.replace(PLAIN, line=FULL.line))


def test_stamping_costs_less_than_a_twentieth_of_the_calls_of_rendering_the_form(printer: BoletoPrinter) -> None:
    printer.stamp(HYBRID)  # loads the form
    stamp = calls_made(lambda: printer.stamp(HYBRID))
    assert stamp * 20 < calls_made(lambda: render(Kind(Layout.HYBRID, test=False)))


async def test_the_queue_of_boletos_to_print_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("readmodels.documents.boleto_pdf.WAITING_MAX", 2)
    printer = BoletoPrinter()
    first = await printer.printed(HYBRID)
    found = await asyncio.gather(*(printer.printed(HYBRID) for _ in range(5)), return_exceptions=True)
    assert found[:2] == [first, first]
    assert [type(each) for each in found[2:]] == [OverflowError] * 3


def test_a_process_that_prints_does_not_load_the_libraries_that_render_forms() -> None:
    """The libraries that render forms would cost 48 MB in each process of the API and of the workers; those that read
    workbooks 9 MB in each process of the API."""
    program = (
        "import sys; from readmodels.documents.boleto_pdf import BoletoPrinter; BoletoPrinter().prepare();"
        "import cli.run.asgi_front; unwanted = {'xhtml2pdf', 'pypdf', 'html5lib', 'openpyxl', 'lxml'};"
        "print(sorted(unwanted & sys.modules.keys()))"
    )
    asked = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert asked.stdout.strip() == "[]"
