"""The PDF of a boleto over the API: its owner gets it, and third-party readers find on it what the API says."""

import io
import secrets
import shutil
import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pypdfium2
import pytest
from msgspec.structs import replace
from pypdf import PdfReader

from banks.banco_do_brasil.nosso_numero import printed_number
from domain.boleto import codes
from domain.boleto.business_days import effective_due_date
from domain.instants import SAO_PAULO, iso, to_millisecond
from readmodels.charges.charge import ChargeDoc
from runtime.seal import Seal
from tests.support.boletos import PAYER, issue, record_boleto_change, redate
from tests.support.code_reader import printed_codes
from tests.support.in_process import Api, Reply

DPI = 200
# A due date in the past, and a Saturday four weeks or a little more from today.
LONG_AGO = date(2025, 10, 10)
_TODAY = datetime.now(SAO_PAULO).date()
SATURDAY = _TODAY + timedelta(days=28 + (5 - _TODAY.weekday()) % 7)
TUESDAY = SATURDAY + timedelta(days=3)


async def issue_boleto(api: Api, pool: Any, *, mode: str = "test", due: date = SATURDAY, **more: Any) -> ChargeDoc:
    async with pool.acquire() as conn, conn.transaction():
        seal = Seal(api.settings.secret_key)
        return await issue(conn, seal, api.first.account_id, test=mode == "test", due=due, now=now(), **more)


def now() -> datetime:
    return to_millisecond(datetime.now(UTC))


def path(charge_id: str) -> str:
    return f"/v1/charges/boleto/{charge_id}/pdf"


async def pdf_of(api: Api, doc: ChargeDoc) -> bytes:
    reply = await api.get(path(doc.charge_id), token=await api.token(mode="test" if doc.test else "production"))
    assert (reply.status, reply.header("content-type")) == (200, "application/pdf"), reply
    return reply.body


def text_of(file: bytes) -> str:
    (page,) = PdfReader(io.BytesIO(file), strict=True).pages
    return page.extract_text()


def codes_on(file: bytes) -> dict[str, str]:
    """The codes a third-party reader finds on the page at 200 dpi, by symbology."""
    with pypdfium2.PdfDocument(file) as document:
        image = document[0].render(scale=DPI / 72, grayscale=True).to_pil()
        return printed_codes(image)


def day(at: date) -> str:
    return at.strftime("%d/%m/%Y")


def line_of(doc: ChargeDoc) -> str:
    assert doc.boleto is not None
    return codes.printed_line(doc.boleto.linha_digitavel)


async def test_the_owner_gets_a_pdf_named_after_the_nosso_numero(api: Api, pool: Any) -> None:
    doc = await issue_boleto(api, pool)
    reply = await api.get(path(doc.charge_id), token=await api.token())
    assert reply.status == 200
    assert reply.header("content-type") == "application/pdf"
    assert reply.header("content-disposition") == f'attachment; filename="boleto-{doc.nosso_numero}.pdf"'
    assert reply.header("content-length") == str(len(reply.body))
    assert reply.header("x-request-id")
    assert reply.header("ratelimit-remaining")
    assert reply.body.startswith(b"%PDF-1.")
    assert reply.body.rstrip().endswith(b"%%EOF")
    assert (await pdf_of(api, doc)) == reply.body  # a second request returns the same bytes


@pytest.mark.parametrize("hybrid", [False, True])
async def test_the_pdf_carries_the_barcode_the_line_and_the_qr_code_of_the_api(
    api: Api, pool: Any, hybrid: bool
) -> None:
    doc = await issue_boleto(api, pool, hybrid=hybrid)
    told = (await api.get(f"/v1/charges/{doc.charge_id}", token=await api.token())).json()["boleto"]
    file = await pdf_of(api, doc)
    expected = {"ITF": told["codigo_barras"]} | ({"QRCode": told["qr_code"]} if hybrid else {})
    assert codes_on(file) == expected
    assert text_of(file).count(codes.printed_line(told["linha_digitavel"])) == 2


async def test_the_pdf_names_both_parties_the_numbers_and_the_dates(api: Api, pool: Any) -> None:
    doc = await issue_boleto(api, pool, description="Encomenda nº 88", payer=replace(PAYER, number=""))
    async with pool.acquire() as conn:
        document = await conn.fetchval("SELECT document FROM account WHERE account_id = $1", api.first.account_id)
    text = text_of(await pdf_of(api, doc))
    last = effective_due_date(SATURDAY)
    assert last > SATURDAY
    for twice in (
        "Loja Açaí & Cia",
        f"CNPJ {document[:2]}.{document[2:5]}.{document[5:8]}/{document[8:12]}-{document[12:]}",
        "Rua das Palmeiras, 100, Centro, São Paulo - SP, CEP 01001-000",
        "José da Conceição Araújo",
        "CPF 123.456.789-09",
        "Av. São João, São Paulo - SP, CEP 01035-000",
        "0452-9 / 123873-6",
        printed_number(str(doc.nosso_numero)),
        "PED-000123",
        "1.234,56",
        day(datetime.fromisoformat(doc.created_at).astimezone(SAO_PAULO).date()),
        day(SATURDAY),
        f"pagável até {day(last)}",
        f"Não receber após {day(last)}.",
    ):
        assert text.count(twice) >= 2, twice
    assert "Encomenda nº 88" in text


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler-utils are not installed")
async def test_pdftotext_reads_the_line_of_the_api(api: Api, pool: Any, tmp_path: Path) -> None:
    doc = await issue_boleto(api, pool, hybrid=True)
    (tmp_path / "boleto.pdf").write_bytes(await pdf_of(api, doc))
    command = ["pdftotext", "-layout", str(tmp_path / "boleto.pdf"), "-"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert text.count(line_of(doc)) == 2


async def test_a_redated_boleto_is_printed_with_only_its_new_due_date_and_line(api: Api, pool: Any) -> None:
    doc = await issue_boleto(api, pool, hybrid=True)
    before = text_of(await pdf_of(api, doc))
    assert "alterado" not in before
    async with pool.acquire() as conn, conn.transaction():
        changed = await redate(conn, doc, TUESDAY, now())
    file = await pdf_of(api, changed)
    text = text_of(file)
    assert line_of(changed) != line_of(doc)
    assert (text.count(line_of(changed)), text.count(line_of(doc))) == (2, 0)
    assert day(TUESDAY) in text
    assert day(SATURDAY) not in text
    assert "Vencimento alterado - 2ª versão" in text
    assert changed.boleto is not None
    assert codes_on(file) == {"ITF": changed.boleto.codigo_barras, "QRCode": changed.boleto.qr_code}


async def test_only_a_sandbox_boleto_is_marked_as_without_value(api: Api, pool: Any) -> None:
    of_test = text_of(await pdf_of(api, await issue_boleto(api, pool)))
    of_production = text_of(await pdf_of(api, await issue_boleto(api, pool, mode="production")))
    assert of_test.count("TESTE - SEM VALOR") == 3
    assert "TESTE" not in of_production


AT = datetime(2026, 11, 21, 2, 30, tzinfo=UTC)  # the 20th in São Paulo
STATES: dict[str, tuple[dict[str, Any], str, str]] = {
    "paid": ({"status": "paid", "paid_at": iso(AT)}, "PAGO", "Pago em 20/11/2026. Não pague de novo."),
    "expired": ({"status": "expired"}, "VENCIDO", "Não pode mais ser pago"),
    "cancelled": (
        {"status": "cancelled", "cancelled_at": iso(AT), "cancel_reason": "cancelled"},
        "CANCELADO",
        "Cancelado em 20/11/2026. Não pague este boleto.",
    ),
    "paid elsewhere": (
        {"status": "cancelled", "cancelled_at": iso(AT), "cancel_reason": "paid_externally"},
        "CANCELADO",
        "já foi pago de outra forma. Não pague.",
    ),
    "refunded": ({"status": "refunded"}, "DEVOLVIDO", "Não pague de novo."),
    "failed": ({"status": "failed"}, "SEM REGISTRO", "Não pague."),
}


def assert_void(file: bytes, doc: ChargeDoc, word: str, sentence: str) -> None:
    """The word stands across the page, the sentence on both parts, and nothing on the page can be paid."""
    text = text_of(file)
    assert text.count(word) == 3
    assert text.count(sentence) >= 2
    assert codes_on(file) == {}
    assert doc.boleto is not None
    for code in (line_of(doc), doc.boleto.linha_digitavel, "br.gov.bcb.pix", "Como pagar", "Pagável em qualquer"):
        assert code not in text
    # The page still records what was charged.
    assert "1.234,56" in text
    assert printed_number(doc.boleto.nosso_numero) in text


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("mode", ["test", "production"])
async def test_the_pdf_of_a_boleto_that_must_not_be_paid_says_so_and_carries_no_code(
    api: Api, pool: Any, mode: str, state: str
) -> None:
    fields, word, sentence = STATES[state]
    doc = await issue_boleto(api, pool, mode=mode, hybrid=mode == "test")
    async with pool.acquire() as conn, conn.transaction():
        await record_boleto_change(conn, doc, f"charge.{fields['status']}", now(), **fields)
    file = await pdf_of(api, doc)
    assert_void(file, doc, word, sentence)
    assert ("TESTE" in text_of(file)) == doc.test


async def test_a_pending_boleto_past_its_last_payable_day_is_printed_as_expired(api: Api, pool: Any) -> None:
    doc = await issue_boleto(api, pool, due=LONG_AGO)
    assert_void(await pdf_of(api, doc), doc, "VENCIDO", "Pagável até 10/10/2025. Não pode mais ser pago")


def comparable_parts(reply: Reply) -> tuple[int, bytes, str | None]:
    """The parts of an answer that must be equal to the byte, whoever asks."""
    request_id = reply.header("x-request-id") or ""
    return reply.status, reply.body.replace(request_id.encode(), b""), reply.header("content-type")


async def test_every_id_that_is_not_a_boleto_of_the_caller_gets_the_same_404(api: Api, pool: Any) -> None:
    doc, of_production = await issue_boleto(api, pool), await issue_boleto(api, pool, mode="production")
    pix = await api.create()
    token = await api.token()
    unknown = await api.get(path(str(uuid4())), token=token)
    assert (unknown.status, unknown.code()) == (404, "CHARGE_NOT_FOUND")
    named = (
        of_production.charge_id, pix["charge_id"], doc.charge_id.upper(), "x", "%00", "%ff", "..", "9" * 5000,
    )  # fmt: skip
    for each in named:
        assert comparable_parts(await api.get(path(each), token=token)) == comparable_parts(unknown), each
    # An id in the form of another identifier is answered alike, whether a boleto has it or not.
    others = (
        (doc.charge_id.replace("-", ""), uuid4().hex), (str(doc.nosso_numero), "9" * 20),
        (doc.public_id, secrets.token_urlsafe(16)),
    )  # fmt: skip
    for of_one, of_none in others:
        answers = [await api.get(path(each), token=token) for each in (of_one, of_none)]
        assert comparable_parts(answers[0]) == comparable_parts(answers[1])
        assert (answers[0].status, answers[0].code()) == (404, "CHARGE_NOT_FOUND")
    stranger = await api.token(api.second)
    assert comparable_parts(await api.get(path(doc.charge_id), token=stranger)) == comparable_parts(unknown)
    assert comparable_parts(await api.get(path(of_production.charge_id), token=stranger)) == comparable_parts(unknown)


async def test_a_token_without_charges_read_gets_no_pdf(api: Api, pool: Any) -> None:
    doc = await issue_boleto(api, pool)
    narrow = await api.token(scope="charges:create payments:read")
    assert (await api.get(path(doc.charge_id), token=narrow)).code() == "INSUFFICIENT_SCOPE"
    assert (await api.get(path(doc.charge_id), token=None)).code() == "UNAUTHENTICATED"
    enough = await api.token(scope="charges:read")
    assert (await api.get(path(doc.charge_id), token=enough)).status == 200


async def test_the_openapi_document_describes_the_pdf_and_its_headers(api: Api, pool: Any) -> None:
    document = (await api.get("/v1/openapi.json", token=None)).json()
    answers = document["paths"]["/v1/charges/boleto/{charge_id}/pdf"]["get"]["responses"]
    reply = await api.get(path((await issue_boleto(api, pool)).charge_id), token=await api.token())
    assert list(answers["200"]["content"]) == [reply.header("content-type")]
    for name in answers["200"]["headers"]:
        assert reply.header(name.lower()) is not None, name
    told = document["components"]["headers"]["Content-Disposition"]["schema"]
    assert pytest.importorskip("jsonschema_rs").is_valid(told, reply.header("content-disposition"))
    assert list(answers["404"]["content"]["application/json"]["examples"]) == ["CHARGE_NOT_FOUND"]
