"""The form shared by all boletos of a kind, as a PDF: rendered from boleto_form.html by xhtml2pdf, and finished by
pypdf.

`python -m readmodels.documents.boleto_form` writes the forms of all kinds to its standard output. A process that prints
boletos runs this command (readmodels/documents/forms.py) and reads the forms, because the two libraries would cost it
48 MB and a second.
"""

import io
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, NameObject, NumberObject, StreamObject
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from xhtml2pdf import pisa

from readmodels.documents.boleto_marks import mark_texts
from readmodels.documents.boleto_structure import DRAWN, FIGURES, add_structure, as_figure, filled_boxes
from readmodels.documents.content_stream import FONTS, LOGO, PAGE_MM, Box
from readmodels.documents.forms import KINDS, Form, Kind, Layout
from readmodels.documents.typeface import BOLD, TEXT, Face

_TEMPLATE_FILE = Path(__file__).with_name("boleto_form.html")
_BLACK = "#14201b"
_SHADE = "#eaeeec"
_WATERMARK = "#e3e7e5"
_FACE_OF_FONT = {"/Helvetica": TEXT.name, "/Helvetica-Bold": BOLD.name}
_STEM_WIDTHS = {TEXT.name: 88, BOLD.name: 140}
"""The width of vertical stems, which a PDF font descriptor requires: Helvetica's (Adobe's AFM), which Arimo
resembles."""
_SUBSET_TAG = "QUITAA"
"""The tag that marks a font as a subset (ISO 32000-1, 9.6.4)."""
_NONSYMBOLIC = 32
_FIRST_CHARACTER = 32
_PLACEHOLDERS = {b"/CONTENT": b"%(content)d 0 R", b"/IMAGE": b"%(image)d 0 R", b"/ALT": b"<%(alt)b>"}


def render(kind: Kind) -> Form:
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

    html = _compiled_template().render(layout=kind.layout.value, test=kind.test, area=area, box=box, labels=labels)
    pdf = io.BytesIO()
    outcome = pisa.CreatePDF(html, dest=pdf, encoding="utf-8")
    assert not outcome.err, "xhtml2pdf refuses our own template"
    return _finished_form(boxes, pdf.getvalue(), _background(boxes, kind), kind)


@cache
def _compiled_template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_TEMPLATE_FILE.read_text("utf-8"))


def _background(boxes: dict[str, Box], kind: Kind) -> bytes:
    """The drawing under the form, which is not read aloud: shaded boxes, lines, scissors and, in sandbox, the
    watermark."""
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
    _draw_scissors(canvas, boxes["scissors"])
    canvas.save()
    return paper.getvalue()


def _draw_scissors(canvas: Canvas, box: Box) -> None:
    canvas.setLineWidth(0.7)
    left, middle = box.left * mm, (box.bottom + box.height / 2) * mm
    for up in (1, -1):
        canvas.circle(left + 1.6, middle + up * 2.1, 1.4, stroke=1, fill=0)
        canvas.line(left + 2.8, middle + up * 1.4, left + 10, middle - up * 2.4)


def _finished_form(boxes: dict[str, Box], form_pdf: bytes, background: bytes, kind: Kind) -> Form:
    """The form as a file that is the same in every process: without dates, with one compressed stream and our fonts."""
    writer = PdfWriter()
    writer.pdf_header = "%PDF-1.7"
    writer.metadata = None
    paper = PdfReader(io.BytesIO(form_pdf)).pages[0]
    content, marked_boxes = mark_texts(paper, boxes, DRAWN)
    _set_content(paper, content)
    page = writer.add_page(paper)
    backdrop: Any = PdfReader(io.BytesIO(background)).pages[0]
    _set_content(backdrop, b"/Artifact BMC\n" + backdrop.get_contents().get_data() + b"\nEMC\n")
    page.merge_page(backdrop, over=False)
    for unused in ("/Trans", "/Rotate"):
        page.pop(NameObject(unused), None)
    _set_fonts(writer, page)
    page.compress_content_streams()
    marks = {name: number for number, name in enumerate(filled_boxes(boxes), len(marked_boxes))}
    # A void boleto has words in place of its QR Code and barcode.
    figures = {} if kind.layout is Layout.VOID else FIGURES
    logo = add_structure(writer, page, boxes, marked_boxes, marks, figures)
    writer.compress_identical_objects()
    file = io.BytesIO()
    writer.write(file)
    return _read_form(boxes, marks, file.getvalue(), logo.idnum)


def _read_form(boxes: dict[str, Box], marks: dict[str, int], file: bytes, logo: int) -> Form:
    reader = PdfReader(io.BytesIO(file))
    page: Any = reader.pages[0]
    trailer: Any = reader.trailer
    assert len(reader.pages) == 1, "the form is one page"
    page[NameObject("/Contents")] = ArrayObject([page.raw_get("/Contents"), NameObject("/CONTENT")])
    page_template = _object_template(page)
    page["/Resources"][NameObject("/XObject")] = _dictionary({LOGO.decode(): NameObject("/IMAGE")})
    element = as_figure(reader.get_object(logo), boxes["logo"], NameObject("/ALT"))
    xref_at = re.search(rb"startxref\s+(\d+)\s+%%EOF\s*$", file)
    assert xref_at is not None, "pypdf wrote a file without an end"
    return Form(
        boxes=boxes,
        marks=marks,
        file=file if file.endswith(b"\n") else file + b"\n",
        page=page_template,
        page_with_logo=_object_template(page),
        page_number=int(page.indirect_reference.idnum),
        logo=_object_template(element),
        logo_number=logo,
        next_number=int(trailer["/Size"]),
        root_number=int(trailer.raw_get("/Root").idnum),
        xref_at=int(xref_at.group(1)),
    )


def _object_template(value: Any) -> bytes:
    """An object of the file as a template: each name of _PLACEHOLDERS becomes a placeholder that an update fills in."""
    buffer = io.BytesIO()
    value.write_to_stream(buffer)
    text = buffer.getvalue().replace(b"%", b"%%")
    for name, placeholder in _PLACEHOLDERS.items():
        text = text.replace(name, placeholder)
    return b"%d 0 obj\n%b\nendobj\n" % (value.indirect_reference.idnum, text)


def _set_content(page: Any, content: bytes) -> None:
    stream = StreamObject()
    stream.set_data(content)
    page[NameObject("/Contents")] = stream


def _set_fonts(writer: PdfWriter, page: Any) -> None:
    """Embeds our fonts: under their own names for the texts of each boleto, and in place of the form's Helvetica, whose
    characters have the same widths."""
    embedded_fonts = {face.name: _embed_font(writer, face) for face in (TEXT, BOLD)}
    fonts = page["/Resources"]["/Font"]
    for name, font in list(fonts.items()):
        fonts[NameObject(name)] = embedded_fonts[_FACE_OF_FONT[font.get_object()["/BaseFont"]]]
    for face, name in FONTS.items():
        fonts[NameObject(name.decode())] = embedded_fonts[face]


def _embed_font(writer: PdfWriter, face: Face) -> IndirectObject:
    """The font as a page resource: the whole file embedded, encoded as cp1252 (ISO 32000-1, 9.6.3)."""
    file = StreamObject()
    file.set_data(face.file)
    compressed = file.flate_encode(9)
    compressed[NameObject("/Length1")] = NumberObject(len(face.file))
    descriptor = {
        "/Type": NameObject("/FontDescriptor"),
        "/FontName": NameObject(f"/{_SUBSET_TAG}+{face.name}"),
        "/Flags": NumberObject(_NONSYMBOLIC),
        "/FontBBox": ArrayObject(map(NumberObject, face.bounds)),
        "/ItalicAngle": NumberObject(0),
        "/Ascent": NumberObject(face.ascent),
        "/Descent": NumberObject(face.descent),
        "/CapHeight": NumberObject(face.cap_height),
        "/StemV": NumberObject(_STEM_WIDTHS[face.name]),
        "/FontFile2": writer._add_object(compressed),
    }
    font = {
        "/Type": NameObject("/Font"),
        "/Subtype": NameObject("/TrueType"),
        "/BaseFont": NameObject(f"/{_SUBSET_TAG}+{face.name}"),
        "/FirstChar": NumberObject(_FIRST_CHARACTER),
        "/LastChar": NumberObject(255),
        "/Widths": ArrayObject(map(NumberObject, face.widths[_FIRST_CHARACTER:])),
        "/Encoding": NameObject("/WinAnsiEncoding"),
        "/FontDescriptor": writer._add_object(_dictionary(descriptor)),
    }
    return writer._add_object(_dictionary(font))


def _dictionary(entries: dict[str, Any]) -> DictionaryObject:
    return DictionaryObject({NameObject(name): value for name, value in entries.items()})


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.msgpack.encode([(kind, render(kind)) for kind in KINDS]))
