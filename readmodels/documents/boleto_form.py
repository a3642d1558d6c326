"""What all boletos of a kind have in common, as a PDF: rendered by xhtml2pdf from boleto_form.html, and brought into
its final shape by pypdf.

`python -m readmodels.documents.boleto_form` writes the forms of all kinds to its standard output. A process that prints
boletos runs it (readmodels/documents/forms.py) and reads them: these libraries take 48 MB and a second.
"""

import io
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DictionaryObject, NameObject, TextStringObject
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from xhtml2pdf import pisa

from readmodels.documents.content_stream import FONTS, PAGE_MM, Box
from readmodels.documents.forms import KINDS, Form, Kind

_TEMPLATE = Path(__file__).with_name("boleto_form.html")
_BLACK = "#14201b"
_SHADE = "#eaeeec"
_WATERMARK = "#e3e7e5"


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

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text("utf-8"))
    html = template.render(layout=kind.layout.value, test=kind.test, area=area, box=box, labels=labels)
    printed = io.BytesIO()
    outcome = pisa.CreatePDF(html, dest=printed, encoding="utf-8")
    assert not outcome.err, "xhtml2pdf refuses our own template"
    return _form_of(boxes, printed.getvalue(), _background(boxes, kind))


def _background(boxes: dict[str, Box], kind: Kind) -> bytes:
    """What lies under the form: the shaded boxes and, in sandbox, the watermark."""
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


def _form_of(boxes: dict[str, Box], printed: bytes, background: bytes) -> Form:
    """The form as a file that is the same in every process: no dates, one compressed stream, our fonts' names in it."""
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


def _read_form(boxes: dict[str, Box], file: bytes) -> Form:
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
    return Form(
        boxes=boxes,
        file=file if file.endswith(b"\n") else file + b"\n",
        page=b"%d 0 obj\n%b[%d 0 R " % (number, before, contents),
        page_rest=b" 0 R]%b\nendobj\n" % after,
        page_number=int(number),
        next_number=int(trailer["/Size"]),
        root_number=int(trailer.raw_get("/Root").idnum),
        xref_at=int(xref_at.group(1)),
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.msgpack.encode([(kind, render(kind)) for kind in KINDS]))
