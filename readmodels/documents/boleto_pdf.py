"""The boleto as a PDF: one A4 page, the payer's receipt above, the bank's part with its barcode below.

xhtml2pdf renders the form of each kind of boleto, in a process of its own (readmodels/documents/forms.py). A boleto is
this form plus one incremental update (ISO 32000-1, 7.5.6) with the boleto's own content stream, which takes 1 ms
instead of 80 (docs/decisions/0018-boleto-pdf.md). The beneficiary is part of the update, not of the form: with a form
per merchant, each merchant's first payer would wait for a rendering.
"""

import asyncio
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from domain.boleto.codes import barcode_of_line, printed_line
from domain.brazilian import amount, day, document
from domain.money import BOLETO_CENTS_MAX
from readmodels.documents.content_stream import ContentStream, Paragraph
from readmodels.documents.forms import KINDS, Form, Kind, Layout, form_of
from readmodels.documents.logo import Logo
from readmodels.documents.png import image_object


class Void(Struct, frozen=True):
    """Why a boleto must not be paid any more: the word printed across it, and the sentence that explains it."""

    word: str
    text: str


class PrintedBoleto(Struct, frozen=True, kw_only=True):
    """Everything that is printed on a boleto. Documents are bare digits; names and addresses are as given, on one line.

    Characters that cp1252 lacks lose their accents, or become a question mark.
    """

    beneficiary_name: str
    beneficiary_document: str
    beneficiary_address: str
    agency_code: str  # agency and beneficiary code as printed: "0452-9 / 123873-5"
    payer_name: str
    payer_document: str
    payer_address: str
    nosso_numero: str  # as printed
    seu_numero: str
    document_date: date
    processing_date: date
    due_date: date
    effective_due_date: date  # last day without fine or interest; after due_date when banks are closed on due_date
    amount_cents: int
    asked_cents: int | None = None  # the amount to pay on the day of printing, if the terms make it depend on the day
    asked_on: date | None = None  # the day of printing, with asked_cents
    line: str  # 47 digits
    barcode: str  # 44 digits
    qr_code: str | None  # the BR Code of a hybrid boleto, or of a dual charge's PIX
    instructions: tuple[str, ...] = ()
    description: str | None = None
    test: bool
    changed: int = 0  # how often the due date was changed after the registration
    void: Void | None = None  # if set, no code is printed, so that nothing can be scanned, typed or copied
    logo: Logo | None = None
    bank_name: str
    bank_code: str  # as printed: "001-9"
    carteira: str
    file_name: str = "boleto.pdf"  # of the download; not printed


_BELOW_LOGO_MM: Final = 16
WAITING_MAX: Final = 500  # two seconds of work


class BoletoPrinter:
    """Prints boletos: one printer per process, for all its tasks and threads.

    An event loop awaits `printed`, which runs `stamp` in the printer's single thread. `stamp` holds the interpreter's
    lock for a millisecond, so one thread is as fast as many. The loop's delay with 8 callers at once (medians, two busy
    cores) is 1 ms; with asyncio.to_thread 3 ms; on the loop itself 100 ms; with a separate process 0.4 ms, at a cost of
    70 MB and a second at start.
    """

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(WAITING_MAX)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="boletos")

    def prepare(self) -> None:
        """Render the forms now instead of with the first boleto."""
        form_of(KINDS[0])

    async def printed(self, boleto: PrintedBoleto) -> bytes:
        """`stamp`, run off the event loop; OverflowError when WAITING_MAX boletos are waiting."""
        if self._room.locked():
            raise OverflowError("too many boletos to print")
        async with self._room:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self.stamp, boleto)

    def stamp(self, boleto: PrintedBoleto) -> bytes:
        """The boleto's PDF. The same boleto gives the same bytes in every process."""
        assert barcode_of_line(boleto.line) == boleto.barcode, "what is scanned and what is typed is one boleto"
        assert 0 < boleto.amount_cents <= BOLETO_CENTS_MAX, "the barcode has ten digits for the amount"
        form = form_of(Kind(_layout(boleto), boleto.test))
        content = ContentStream(form.boxes, form.marks)
        _write_ficha(content, boleto)
        _write_recibo(content, boleto)
        return _with_update(form, content.written(), boleto)


# -- The boxes and their contents -----------------------------------------------------------------------------------


def _write_ficha(content: ContentStream, boleto: PrintedBoleto) -> None:
    content.text("ficha_bank", boleto.bank_name, 11, bold=True, up=2.2, inset=0)
    content.text("ficha_code", boleto.bank_code, 16, bold=True, up=1.7, align="center")
    # At 13.85 pt digits are 3.5 mm high. The widest linha digitavel at this size takes 137 mm of the box's 140.
    content.text("ficha_line", _line_or_void(boleto), 13.85, bold=True, up=2.2, align="right", inset=0)
    content.text("ficha_due", day(boleto.due_date), 10, bold=True, align="right")
    _write_grace(content, "ficha_grace", boleto)
    content.party(
        "ficha_beneficiary", boleto.beneficiary_name, document(boleto.beneficiary_document), boleto.beneficiary_address
    )
    content.text("ficha_agency", boleto.agency_code, 9, align="right")
    content.text("ficha_document_date", day(boleto.document_date), 8.5)
    content.text("ficha_seu_numero", boleto.seu_numero, 8.5)
    content.text("ficha_especie_doc", "DM", 8.5)
    content.text("ficha_aceite", "N", 8.5)
    content.text("ficha_processing_date", day(boleto.processing_date), 8.5)
    content.text("ficha_nosso_numero", boleto.nosso_numero, 9, align="right")
    content.text("ficha_carteira", boleto.carteira, 8.5)
    content.text("ficha_currency", "R$", 8.5)
    content.text("ficha_amount", amount(boleto.amount_cents), 10, bold=True, align="right")
    instructions = _instructions(boleto) if boleto.void is None else (boleto.void.text,)
    content.paragraphs("ficha_instructions", [Paragraph(line) for line in instructions], 8, 3.35, down=5.8)
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
    content.text("recibo_line", _line_or_void(boleto), 13.85, bold=True, up=2.6, align="center")
    if boleto.logo is not None:
        content.logo("logo", boleto.logo.width, boleto.logo.height)
    # Text that does not fit is cut from the end. The description comes last, so that it is cut before the terms.
    text = []
    instructions = [Paragraph(line) for line in _instructions(boleto)]
    if instructions and boleto.void is None:
        text += [Paragraph("Instruções", bold=True), *instructions]
    if boleto.description:
        text += [Paragraph("Descrição", bold=True), Paragraph(boleto.description, lines_max=4)]
    below = _BELOW_LOGO_MM if boleto.logo is not None and boleto.void is None else 0
    content.paragraphs("text", text, 8.5, 4.3, down=3 + below, inset=0)
    if boleto.void is not None:
        content.mark("mark", boleto.void.word, 46)
        content.text("mark_text", boleto.void.text, 11, bold=True, up=3, align="center")
    elif boleto.qr_code is not None:
        content.symbol("qr", boleto.qr_code)
        content.text("pix_amount", _pix_amount(boleto), 13, bold=True, up=2, align="center")
        content.copyable("pix_copy", boleto.qr_code)


def _write_grace(content: ContentStream, box: str, boleto: PrintedBoleto) -> None:
    if boleto.effective_due_date != boleto.due_date and boleto.void is None:
        content.text(box, f"pagável até {day(boleto.effective_due_date)}", 6, align="right", up=0.65)


def _instructions(boleto: PrintedBoleto) -> Iterator[str]:
    if boleto.changed:
        yield f"Vencimento alterado para {day(boleto.due_date)}: esta via substitui as anteriores."
    if boleto.asked_on is not None and boleto.asked_cents not in (None, boleto.amount_cents):
        yield f"Se pago em {day(boleto.asked_on)}: R$ {amount(boleto.asked_cents or 0)}."
    yield from boleto.instructions


def _pix_amount(boleto: PrintedBoleto) -> str:
    """The amount of the PIX, which the payer compares with the bank's screen; with its day if it depends on the day."""
    if boleto.asked_on is None or boleto.asked_cents is None:
        return f"R$ {amount(boleto.amount_cents)}"
    return f"R$ {amount(boleto.asked_cents)} em {day(boleto.asked_on)}"


def _line_or_void(boleto: PrintedBoleto) -> str:
    return printed_line(boleto.line) if boleto.void is None else boleto.void.word


def _layout(boleto: PrintedBoleto) -> Layout:
    if boleto.void is not None:
        return Layout.VOID
    return Layout.PLAIN if boleto.qr_code is None else Layout.HYBRID


def _with_update(form: Form, ops: bytes, boleto: PrintedBoleto) -> bytes:
    """The form's file with the boleto's incremental update appended: its content stream, the page that shows the
    stream, the file's title and, for a merchant with a logo, the image and its alternative text in the structure."""
    content, info, image = range(form.next_number, form.next_number + 3)
    stream = zlib.compress(ops, 5)
    objects = {
        form.page_number: (form.page if boleto.logo is None else form.page_with_logo)
        % {b"content": content, b"image": image},
        content: b"%d 0 obj\n<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream\nendobj\n"
        % (content, len(stream), stream),
        info: b"%d 0 obj\n<</Title<%b>/Producer(quita)/CreationDate(D:%04d%02d%02d)>>\nendobj\n"
        % (
            info,
            _hex_text(f"Boleto {boleto.nosso_numero} - {boleto.beneficiary_name}"),
            *boleto.processing_date.timetuple()[:3],
        ),
    }
    if boleto.logo is not None:
        objects[form.logo_number] = form.logo % {b"alt": _hex_text(f"Logotipo de {boleto.beneficiary_name}")}
        objects[image] = image_object(image, boleto.logo.image)
    offset, xref_table = len(form.file), [b"xref\n0 1\n0000000000 65535 f \n"]
    for number in sorted(objects):
        xref_table.append(b"%d 1\n%010d 00000 n \n" % (number, offset))
        offset += len(objects[number])
    identity = blake2b(ops, digest_size=16).hexdigest().encode("ascii")
    return b"".join(
        (
            form.file,
            *(objects[number] for number in sorted(objects)),
            *xref_table,
            b"trailer\n<</Size %d/Root %d 0 R/Info %d 0 R/Prev %d/ID[<%b><%b>]>>\nstartxref\n%d\n%%%%EOF\n"
            % (max(objects) + 1, form.root_number, info, form.xref_at, identity, identity, offset),
        )
    )


def _hex_text(text: str) -> bytes:
    """The text as UTF-16 in hexadecimal: PDF reads titles in another 8-bit encoding than the page's texts."""
    return f"\ufeff{text}".encode("utf-16-be", "replace").hex().encode("ascii")
