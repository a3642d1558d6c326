"""Issuing boletos through a worker with a bank that takes 200 ms, and printing boletos."""

import io
import itertools
import json
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace
from PIL import Image
from pypdf import PdfReader, PdfWriter
from reportlab.pdfgen.canvas import Canvas

from banks.banco_do_brasil.agreement import boleto_codes
from banks.banco_do_brasil.nosso_numero import number_at_bank, printed_number
from bench.client import connect, http, status, window
from bench.environment import BenchEnvironment, Merchant
from bench.report import Finding, within
from commands.merchants.profile.logo_pixels import read_logo
from domain.mode import Mode
from domain.pix.br_code import dynamic_br_code
from readmodels.documents import boleto_pdf
from readmodels.documents.boleto_form import render
from readmodels.documents.boleto_pdf import BoletoPrinter, PrintedBoleto
from readmodels.documents.content_stream import FONTS, ContentStream
from readmodels.documents.forms import Form, Kind, Layout, form_of
from readmodels.documents.logo import Logo
from readmodels.documents.typeface import BOLD

BANK_MS = 200
ADDED_MS_MAX = 15
BOLETOS_PER_S = 400
P99_MAX = 1.5
_BUSY_CONNECTIONS = 192  # connections; more than the concurrent calls of a worker
_SETTLE_S = 12.0
"""By then all processes have read the bank calendar, which takes half a second some seconds after their start."""
_WARM_UP_S = 3.0
_BOLETOS = 300
_RENDERED = 5
_MERGED = 3


async def boletos(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """The latency that we add to the bank's, for a lone boleto and at half load; and the most that one worker process
    issues."""
    with _slow_bank(environment), environment.worker():
        async with environment.database() as pool:
            merchant = await environment.merchant(pool, Mode.PRODUCTION)
        request, check = _issue_requests(merchant), status(201)
        lone = await connect(environment.port, 1, processes=1)
        await window(lone, request, check, seconds=_SETTLE_S)
        alone = await window(lone, request, check, seconds=seconds / 3)
        busy = await connect(environment.port, _BUSY_CONNECTIONS, processes=environment.processes)
        await window(busy, request, check, seconds=_WARM_UP_S)
        full = await window(busy, request, check, seconds=seconds / 3)
        # By Little's law, half of the full rate has this many requests under way when each takes the bank's time.
        half_connections = busy[: max(1, int(full.per_s / 2 * BANK_MS / 1000))]
        half = await window(half_connections, request, check, seconds=seconds / 3)
        for connection in (*lone, *busy):
            connection.close()
    added_ms = alone.percentile_ms(0.5) - BANK_MS
    return [
        Finding(
            "a lone boleto, added to the bank's 200 ms (median)", added_ms, "ms", note=within(added_ms, ADDED_MS_MAX)
        ),
        Finding(
            "boletos with one worker process",
            full.per_s,
            "/s",
            target=BOLETOS_PER_S,
            note=f"{_BUSY_CONNECTIONS} connections",
        ),
        Finding(
            "p99 at half load / the bank's time",
            half.percentile_ms(0.99) / BANK_MS,
            "x",
            note=f"{within(half.percentile_ms(0.99) / BANK_MS, P99_MAX)}; {half.per_s:.0f}/s",
        ),
    ]


async def printing(environment: BenchEnvironment, seconds: float) -> list[Finding]:
    """Stamping a boleto into its form, compared with the same by reportlab and pypdf, and with rendering the whole page
    by xhtml2pdf; in CPU time of this process."""
    printer = BoletoPrinter()
    printer.prepare()
    samples = [_printed_boleto(number) for number in range(1, _BOLETOS + 1)]
    logo = _logo()
    stamped, with_logo, merged, rendered = [], [], [], []
    for number in range(_RENDERED):
        # Only the empty form is rendered: the boleto's own data would come on top, so this is xhtml2pdf's lower bound.
        began = time.process_time()
        render(_HYBRID)
        rendered.append(time.process_time() - began)
        part = samples[number * _BOLETOS // _RENDERED : (number + 1) * _BOLETOS // _RENDERED]
        began = time.process_time()
        for boleto in part:
            printer.stamp(boleto)
        stamped.append((time.process_time() - began) / len(part))
        with_logos = [replace(boleto, logo=logo) for boleto in part]
        began = time.process_time()
        for boleto in with_logos:
            printer.stamp(boleto)
        with_logo.append((time.process_time() - began) / len(part))
        form = form_of(_HYBRID)
        began = time.process_time()
        for boleto in part[:_MERGED]:
            _merge(form, boleto)
        merged.append((time.process_time() - began) / _MERGED)
    stamped_ms, with_logo_ms, merged_ms, rendered_ms = (
        statistics.median(samples) * 1000 for samples in (stamped, with_logo, merged, rendered)
    )
    return [
        Finding("a boleto rendered whole / a boleto stamped", rendered_ms / stamped_ms, "x", target=10),
        Finding("  stamped", stamped_ms, "ms", note=within(stamped_ms, 10)),
        Finding(
            f"  stamped with a logo of {len(logo.image) // 1024} KB", with_logo_ms, "ms", note=within(with_logo_ms, 10)
        ),
        Finding(
            "  its file",
            len(printer.stamp(samples[0])) / 1024,
            "KB",
            note=within(len(printer.stamp(samples[0])) / 1024, 40),
        ),
        Finding("  drawn with reportlab, merged with pypdf", merged_ms, "ms"),
        Finding("  rendered whole", rendered_ms, "ms"),
    ]


_HYBRID = Kind(Layout.HYBRID, test=False)


class _Drawing(ContentStream):
    """Draws the same texts and shapes at the same places on reportlab's canvas."""

    def __init__(self, form: Form, canvas: Canvas) -> None:
        super().__init__(form.boxes, form.marks)
        self._canvas = canvas

    def _show(self, encoded: bytes, font: Any, size: float, x: float, y: float, *, end: bytes = b" ") -> None:
        self._canvas.setFont("Helvetica-Bold" if font.name == FONTS[BOLD.name] else "Helvetica", size)
        self._canvas.drawString(x, y, encoded.decode("cp1252"))

    def _shapes(self, shapes: list[bytes], x_scale: float, y_scale: float, x: float, y: float) -> None:
        path = self._canvas.beginPath()
        for left, bottom, width, height in (map(int, shape.split()[:4]) for shape in shapes):
            path.rect(x + left * x_scale, y + bottom * y_scale, width * x_scale, height * y_scale)
        self._canvas.drawPath(path, stroke=0, fill=1)


def _merge(form: Form, boleto: PrintedBoleto) -> bytes:
    drawn, file = io.BytesIO(), io.BytesIO()
    canvas = Canvas(drawn, invariant=1)
    drawing = _Drawing(form, canvas)
    boleto_pdf._write_ficha(drawing, boleto)
    boleto_pdf._write_recibo(drawing, boleto)
    canvas.save()
    writer = PdfWriter(io.BytesIO(form.file))
    writer.pages[0].merge_page(PdfReader(drawn).pages[0])
    writer.write(file)
    return file.getvalue()


def _logo() -> Logo:
    """A logo of the largest kind that is stored: full size, with many colours."""
    file = io.BytesIO()
    Image.effect_noise((800, 400), 60).convert("RGB").save(file, "PNG")
    pixels = read_logo(file.getvalue())
    return Logo(pixels.width, pixels.height, pixels.image)


@contextmanager
def _slow_bank(environment: BenchEnvironment) -> Iterator[None]:
    port = urlsplit(environment.settings.bank_url).port
    bank = subprocess.Popen([sys.executable, "-m", "bench.slow_bank", str(port), str(BANK_MS)], env=environment.env)
    try:
        yield
    finally:
        bank.terminate()
        bank.wait(10)


def _issue_requests(merchant: Merchant) -> Callable[[], bytes]:
    """Gives POST requests for a boleto, each with an idempotency key of its own."""
    body = {
        "tipo": "boleto",
        "valorCents": "149.90",
        "dataVencimento": (datetime.now(UTC).date() + timedelta(days=10)).isoformat(),
        "pagador": {
            "nome": "Maria da Silva", "documento": "52998224725", "tipoPessoa": "PESSOA_FISICA", "cep": "01310100",
            "logradouro": "Avenida Paulista", "numero": "1578", "cidade": "Sao Paulo", "uf": "SP",
        },
    }  # fmt: skip
    run = secrets.token_hex(4)
    template = http(
        "POST", "/v1/charges/boleto", token=merchant.token, key=f"{run}-%012d", body=json.dumps(body).encode()
    )
    numbers = itertools.count()
    return lambda: template % next(numbers)


def _printed_boleto(control: int) -> PrintedBoleto:
    number = number_at_bank("3128557", control)
    due = datetime.now(UTC).date() + timedelta(days=10)
    barcode, line = boleto_codes(number, due_on=due, amount_cents=14990 + control)
    return PrintedBoleto(
        bank_name="Banco do Brasil",
        bank_code="001-9",
        carteira="17",
        beneficiary_name="Padaria Aurora Ltda",
        beneficiary_document="12345678000195",
        beneficiary_address="Rua das Palmeiras 100, Centro, Sao Paulo SP, 01001-000",
        agency_code="0452-9 / 123873-5",
        payer_name="Maria da Silva",
        payer_document="52998224725",
        payer_address="Avenida Paulista 1578, Sao Paulo SP, 01310-100",
        nosso_numero=printed_number(number),
        seu_numero=str(control),
        document_date=due,
        processing_date=due,
        due_date=due,
        effective_due_date=due,
        amount_cents=14990 + control,
        line=line,
        barcode=barcode,
        qr_code=dynamic_br_code(
            location=f"pix.example.com/qr/v2/cobv/{control:032x}",
            amount_cents=14990 + control,
            name="Padaria Aurora",
            city="Sao Paulo",
        ),
        test=False,
    )
