"""The boleto on paper: one A4 page, the payer's receipt above, the bank's part with its barcode below.

xhtml2pdf renders the form once per kind of boleto (boleto_form.html) and pypdf brings it into its final shape. A boleto
is that form and one incremental update (ISO 32000-1, 7.5.6) with a content stream of its own: 1 ms instead of 80
(docs/decisions/0018-boleto-pdf.md). The beneficiary is part of the update, not of the form: a form per merchant would
make the first payer of each wait for a rendering.
"""

import asyncio
import io
import re
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from msgspec import Struct
from reportlab.lib.units import mm

from domain.boleto.codes import barcode_of_line, printed_line
from domain.brazilian import amount, day, document
from domain.money import BOLETO_CENTS_MAX
from readmodels.documents.content_stream import FONTS, PAGE_MM, Box, ContentStream, Paragraph

_FORM = Path(__file__).with_name("boleto_form.html")
_BLACK = "#14201b"
_SHADE = "#eaeeec"
_WATERMARK = "#e3e7e5"


class Void(Struct, frozen=True):
    """Why a boleto is no longer to be paid: what stands across it, one word, and the sentence that says it in full."""

    word: str
    text: str


class PrintedBoleto(Struct, frozen=True, kw_only=True):
    """Everything that is printed. Documents as bare digits, names and addresses as they were given, one line each.

    Characters that cp1252 lacks lose their accents, or become a question mark.
    """

    beneficiary_name: str
    beneficiary_document: str
    beneficiary_address: str
    agency_code: str  # agency and beneficiary's code as printed: "0452-9 / 123873-5"
    payer_name: str
    payer_document: str
    payer_address: str
    nosso_numero: str  # as printed
    seu_numero: str
    document_date: date
    processing_date: date
    due_date: date
    effective_due_date: date  # the last day it can be paid without charges; later than due_date on a day without banks
    amount_cents: int
    line: str  # 47 digits
    barcode: str  # 44 digits
    qr_code: str | None  # the BR Code of a hybrid boleto, or of the PIX beside it
    instructions: tuple[str, ...] = ()
    description: str | None = None
    test: bool
    changed: int = 0  # how often the due date was changed after the registration
    void: Void | None = None  # then no code is printed: nothing can be scanned, typed or copied
    bank_name: str
    bank_code: str  # as printed: "001-9"
    carteira: str
    especie_doc: str = "DM"
    aceite: str = "N"
    file_name: str = "boleto.pdf"  # under which it is handed out; not printed


WAITING_MAX: Final = 500  # two seconds of work


class BoletoPrinter:
    """Prints boletos: one per process, for all its tasks and threads.

    An event loop awaits `printed`, which stamps in the printer's one thread. A stamp holds the interpreter's lock for a
    millisecond, so one thread is as fast as many. The loop's delay with 8 callers at once (medians, two busy cores):
    1 ms; with asyncio.to_thread 3 ms; on the loop itself 100 ms; with a process 0.4 ms, at 70 MB and a second at start.
    """

    def __init__(self) -> None:
        self._forms: dict[_Kind, _Form] = {}  # bounded by the kinds there are: six
        self._rendering = threading.Lock()
        self._room = asyncio.Semaphore(WAITING_MAX)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="boletos")

    def prepare(self) -> None:
        """Render all forms now (a second, most of it the import of xhtml2pdf) instead of with the first boleto."""
        for layout in _Layout:
            for test in (False, True):
                self._form(_Kind(layout, test))

    async def printed(self, boleto: PrintedBoleto) -> bytes:
        """`stamp`, off the event loop; OverflowError when too many wait."""
        if self._room.locked():
            raise OverflowError("too many boletos to print")
        async with self._room:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self.stamp, boleto)

    def stamp(self, boleto: PrintedBoleto) -> bytes:
        """The PDF. The same boleto gives the same bytes, in whatever process."""
        assert barcode_of_line(boleto.line) == boleto.barcode, "what is scanned and what is typed is one boleto"
        assert 0 < boleto.amount_cents <= BOLETO_CENTS_MAX, "the barcode has ten digits for the amount"
        form = self._form(_Kind(_layout(boleto), boleto.test))
        content = ContentStream(form.boxes)
        _write_ficha(content, boleto)
        _write_recibo(content, boleto)
        return _updated(form, b"".join(content.ops), boleto)

    def _form(self, kind: "_Kind") -> "_Form":
        form = self._forms.get(kind)
        if form is None:
            with self._rendering:  # a second caller waits: rendering its own would not be faster
                form = self._forms.get(kind)
                if form is None:
                    form = self._forms[kind] = _render(kind)
        return form


# -- What is written where ------------------------------------------------------------------------------------------


def _write_ficha(content: ContentStream, boleto: PrintedBoleto) -> None:
    content.text("ficha_bank", boleto.bank_name, 11, bold=True, up=2.2, inset=0)
    content.text("ficha_code", boleto.bank_code, 16, bold=True, up=1.7, align="center")
    # 13.85 pt: digits 3.5 mm high. The widest line at that size has 137 mm, the box 140.
    content.text("ficha_line", _line(boleto), 13.85, bold=True, up=2.2, align="right", inset=0)
    content.text("ficha_due", day(boleto.due_date), 10, bold=True, align="right")
    _write_grace(content, "ficha_grace", boleto)
    content.party(
        "ficha_beneficiary", boleto.beneficiary_name, document(boleto.beneficiary_document), boleto.beneficiary_address
    )
    content.text("ficha_agency", boleto.agency_code, 9, align="right")
    content.text("ficha_document_date", day(boleto.document_date), 8.5)
    content.text("ficha_seu_numero", boleto.seu_numero, 8.5)
    content.text("ficha_especie_doc", boleto.especie_doc, 8.5)
    content.text("ficha_aceite", boleto.aceite, 8.5)
    content.text("ficha_processing_date", day(boleto.processing_date), 8.5)
    content.text("ficha_nosso_numero", boleto.nosso_numero, 9, align="right")
    content.text("ficha_carteira", boleto.carteira, 8.5)
    content.text("ficha_currency", "R$", 8.5)
    content.text("ficha_amount", amount(boleto.amount_cents), 10, bold=True, align="right")
    instructions = _instructions(boleto) if boleto.void is None else (boleto.void.text,)
    content.paragraphs("ficha_instructions", [Paragraph(line) for line in instructions], 8, 3.6, down=5.8)
    content.party("ficha_payer", boleto.payer_name, document(boleto.payer_document), boleto.payer_address)
    if boleto.void is None:
        content.bars("bars", boleto.barcode)
    else:
        content.paragraphs("bars", [Paragraph(boleto.void.text, bold=True)], 9, 4.2, down=5)


def _write_recibo(content: ContentStream, boleto: PrintedBoleto) -> None:
    content.text("recibo_bank", boleto.bank_name, 11, bold=True, up=2.2, inset=0)
    content.text("recibo_code", boleto.bank_code, 16, bold=True, up=1.7, align="center")
    if boleto.changed and boleto.void is None:
        content.text(
            "recibo_mark", f"Vencimento alterado - {boleto.changed + 1}ª versão", 8.5, bold=True, up=2.2, align="center"
        )
    content.party(
        "recibo_beneficiary",
        boleto.beneficiary_name,
        document(boleto.beneficiary_document),
        boleto.beneficiary_address,
    )
    content.text("recibo_due", day(boleto.due_date), 14, bold=True, up=2.2, align="right")
    _write_grace(content, "recibo_grace", boleto)
    content.party("recibo_payer", boleto.payer_name, document(boleto.payer_document), boleto.payer_address)
    content.text("recibo_amount", f"R$ {amount(boleto.amount_cents)}", 14, bold=True, up=2.2, align="right")
    content.text("recibo_nosso_numero", boleto.nosso_numero, 9)
    content.text("recibo_seu_numero", boleto.seu_numero, 9)
    content.text("recibo_document_date", day(boleto.document_date), 9)
    content.text("recibo_processing_date", day(boleto.processing_date), 9)
    content.text("recibo_agency", boleto.agency_code, 9, align="right")
    content.text("recibo_line", _line(boleto), 13.85, bold=True, up=2.6, align="center")
    text = []
    if boleto.description:
        text += [Paragraph("Descrição", bold=True), Paragraph(boleto.description, lines_max=4)]
    instructions = [Paragraph(line) for line in _instructions(boleto)]
    if instructions and boleto.void is None:
        text += [Paragraph("Instruções", bold=True), *instructions]
    content.paragraphs("text", text, 8.5, 4.3, down=3, inset=0)
    if boleto.void is not None:
        content.mark("mark", boleto.void.word, 46)
        content.text("mark_text", boleto.void.text, 11, bold=True, up=3, align="center")
    elif boleto.qr_code is not None:
        content.symbol("qr", boleto.qr_code)
        content.text("pix_amount", f"R$ {amount(boleto.amount_cents)}", 13, bold=True, up=2, align="center")
        content.copyable("pix_copy", boleto.qr_code)


def _write_grace(content: ContentStream, box: str, boleto: PrintedBoleto) -> None:
    if boleto.effective_due_date != boleto.due_date and boleto.void is None:
        content.text(box, f"pagável até {day(boleto.effective_due_date)}", 6, align="right", up=0.65)


def _instructions(boleto: PrintedBoleto) -> Iterator[str]:
    if boleto.changed:
        yield f"Vencimento alterado para {day(boleto.due_date)}: esta via substitui as anteriores."
    yield from boleto.instructions


def _line(boleto: PrintedBoleto) -> str:
    return printed_line(boleto.line) if boleto.void is None else boleto.void.word


# -- The form ---------------------------------------------------------------------------------------------------------


class _Layout(Enum):
    PLAIN = "plain"
    HYBRID = "hybrid"
    VOID = "void"


class _Kind(NamedTuple):
    layout: _Layout
    test: bool


def _layout(boleto: PrintedBoleto) -> _Layout:
    if boleto.void is not None:
        return _Layout.VOID
    return _Layout.PLAIN if boleto.qr_code is None else _Layout.HYBRID


class _Form(NamedTuple):
    boxes: dict[str, Box]
    file: bytes  # a whole PDF
    page: bytes  # the page object, cut where the reference to the boleto's stream comes
    page_rest: bytes
    page_number: int
    next_number: int
    root_number: int
    xref_at: int


def _render(kind: _Kind) -> _Form:
    # Here and not above: one second and 20 MB that a process which prints nothing can do without.
    from xhtml2pdf import pisa

    boxes: dict[str, Box] = {}
    labels: dict[str, str] = {}

    def area(name: str, left: float, top: float, width: float, height: float) -> str:
        assert name not in boxes, "each box has a name of its own"
        boxes[name] = Box(left, top, width, height)
        return Markup(  # noqa: S704 - names and numbers of our own template
            f"@frame {name} {{ -pdf-frame-content: {name}; "
            f"left: {left}mm; top: {top}mm; width: {width}mm; height: {height}mm; }}"
        )

    def box(
        name: str, left: float, top: float, width: float, height: float, label: str, *, shaded: bool = False
    ) -> str:
        frame = area(name, left, top, width, height)
        boxes[name] = Box(left, top, width, height, shaded)
        labels[name] = label
        return frame.replace("; }", "; -pdf-frame-border: 1; border-width: 0.4pt; border-color: " + _BLACK + "; }")

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_FORM.read_text("utf-8"))
    html = template.render(layout=kind.layout.value, test=kind.test, area=area, box=box, labels=labels)
    printed = io.BytesIO()
    outcome = pisa.CreatePDF(html, dest=printed, encoding="utf-8")
    assert not outcome.err, "xhtml2pdf refuses our own template"
    return _form_of(boxes, printed.getvalue(), _background(boxes, kind))


def _background(boxes: dict[str, Box], kind: _Kind) -> bytes:
    """What lies under the form: the shaded boxes and, in sandbox, the watermark."""
    from reportlab.pdfgen.canvas import Canvas

    paper = io.BytesIO()
    canvas = Canvas(paper, pagesize=(210 * mm, PAGE_MM * mm), invariant=1)
    canvas.setFillColor(_SHADE)
    for box in boxes.values():
        if box.shaded:
            canvas.rect(*box.corners, stroke=0, fill=1)
    if kind.test:
        canvas.setFillColor(_WATERMARK)
        canvas.setFont("Helvetica-Bold", 30)
        for name in ("watermark", "ficha_instructions"):
            box = boxes[name]
            canvas.saveState()
            canvas.translate((box.left + box.width / 2) * mm, (box.bottom + box.height / 2) * mm)
            canvas.rotate(10)
            canvas.drawCentredString(0, -11, "TESTE - SEM VALOR")
            canvas.restoreState()
    canvas.setStrokeColor(_BLACK)
    canvas.setLineWidth(1.2)
    for name in ("recibo_code", "ficha_code"):
        box = boxes[name]
        for x in (box.left, box.left + box.width):
            canvas.line(x * mm, box.bottom * mm, x * mm, (box.bottom + box.height) * mm)
    canvas.setFillColor(_BLACK)
    canvas.setFont("ZapfDingbats", 10)
    canvas.drawString(boxes["scissors"].left * mm, boxes["scissors"].bottom * mm, "\u2702")
    canvas.save()
    return paper.getvalue()


def _form_of(boxes: dict[str, Box], printed: bytes, background: bytes) -> _Form:
    """The form as a file that is the same in every process: no dates, one compressed stream, our fonts' names in it."""
    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import DictionaryObject, NameObject, TextStringObject

    writer = PdfWriter()
    writer.pdf_header = "%PDF-1.7"
    writer.metadata = None
    page = writer.add_page(PdfReader(io.BytesIO(printed)).pages[0])
    page.merge_page(PdfReader(io.BytesIO(background)).pages[0], over=False)
    for unused in ("/Trans", "/Rotate"):
        page.pop(NameObject(unused), None)
    resources: Any = page["/Resources"]
    fonts = resources["/Font"]
    for face, name in FONTS.items():
        font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": f"/{face}", "/Encoding": "/WinAnsiEncoding"}
        fonts[NameObject(name.decode())] = writer._add_object(
            DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
        )
    page.compress_content_streams()
    writer.root_object[NameObject("/Lang")] = TextStringObject("pt-BR")
    writer.compress_identical_objects()
    file = io.BytesIO()
    writer.write(file)
    return _read_form(boxes, file.getvalue())


def _read_form(boxes: dict[str, Box], file: bytes) -> _Form:
    from pypdf import PdfReader
    from pypdf.generic import NameObject

    reader = PdfReader(io.BytesIO(file))
    page: Any = reader.pages[0]
    trailer: Any = reader.trailer
    assert len(reader.pages) == 1, "the form is one page"
    number = page.indirect_reference.idnum
    contents = page.raw_get("/Contents").idnum
    page[NameObject("/Contents")] = NameObject("/HERE")
    described = io.BytesIO()
    page.write_to_stream(described)
    before, after = described.getvalue().split(b"/HERE")
    xref_at = re.search(rb"startxref\s+(\d+)\s+%%EOF\s*$", file)
    assert xref_at is not None, "pypdf wrote a file without an end"
    return _Form(
        boxes=boxes,
        file=file if file.endswith(b"\n") else file + b"\n",
        page=b"%d 0 obj\n%b[%d 0 R " % (number, before, contents),
        page_rest=b" 0 R]%b\nendobj\n" % after,
        page_number=number,
        next_number=trailer["/Size"],
        root_number=trailer.raw_get("/Root").idnum,
        xref_at=int(xref_at.group(1)),
    )


def _updated(form: _Form, ops: bytes, boleto: PrintedBoleto) -> bytes:
    """The form's file and behind it what a boleto changes: its stream, the page that shows it, the file's title."""
    content, info = form.next_number, form.next_number + 1
    stream = zlib.compress(ops, 3)
    # UTF-16 in hexadecimal: the encoding of the page's texts means other signs in a title.
    title = f"\ufeffBoleto {boleto.nosso_numero} - {boleto.beneficiary_name}".encode("utf-16-be", "replace").hex()
    page = form.page + b"%d" % content + form.page_rest
    body = b"%d 0 obj\n<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream\nendobj\n" % (
        content,
        len(stream),
        stream,
    )
    about = b"%d 0 obj\n<</Title<%b>/Producer(quita)/CreationDate(D:%04d%02d%02d)>>\nendobj\n" % (
        info,
        title.encode("ascii"),
        *boleto.processing_date.timetuple()[:3],
    )
    at = len(form.file)
    identity = blake2b(ops, digest_size=16).hexdigest().encode("ascii")
    end = at + len(page) + len(body) + len(about)
    return b"".join(
        (
            form.file,
            page,
            body,
            about,
            b"xref\n0 1\n0000000000 65535 f \n%d 1\n%010d 00000 n \n" % (form.page_number, at),
            b"%d 2\n%010d 00000 n \n%010d 00000 n \n" % (content, at + len(page), at + len(page) + len(body)),
            b"trailer\n<</Size %d/Root %d 0 R/Info %d 0 R/Prev %d/ID[<%b><%b>]>>\nstartxref\n%d\n%%%%EOF\n"
            % (info + 1, form.root_number, info, form.xref_at, identity, identity, end),
        )
    )
