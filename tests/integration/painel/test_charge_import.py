"""Charges from a spreadsheet: previewed first, and each row creates one charge however often the sheet is sent."""

import asyncio
import io
import re
import sys
import traceback
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import aiohttp
import openpyxl
import pytest
import pytest_asyncio

from commands.bank_orders.pix_locations import add_to_pool
from domain.errors import Code
from domain.instants import SAO_PAULO
from domain.mode import Mode
from runtime.ids import new_token
from runtime.seal import Seal
from tests.support.banking import BANK, new_locations
from tests.support.dashboard import (
    Books,
    Person,
    Seen,
    a_merchant,
    colleague_in_browser,
    owner_in_browser,
    settings_with,
)
from tests.support.pages import serving
from web.painel.charges.sheets.fault import SheetFault
from web.painel.charges.sheets.rows import ROWS_MAX, read_sheet
from web.painel.labels import refusal

SETTINGS = settings_with()
IMPORT = "/painel/cobrancas/importar"
SHEET = (
    "tipo;valor;referência;descrição;nome;documento;validade_dias\r\n"
    "pix;1.234,56;ped-1;Mensalidade;João d'Ávila;529.982.247-25;30\r\n"
    "Pix;10.50;ped-2;;;;\r\n"
    ";;;;;;\r\n"
    "pix;7;ped-3;;;;1\r\n"
)


@pytest_asyncio.fixture(loop_scope="session")
async def shop(pool: Any) -> AsyncIterator[Any]:
    merchant = await a_merchant(pool)
    async with pool.acquire() as conn:
        await add_to_pool(conn, Mode.PRODUCTION, BANK, new_locations(30))
    async with (
        serving(pool, lambda: datetime.now(UTC), SETTINGS) as address,
        owner_in_browser(address, merchant) as owner,
    ):
        yield owner, Books(pool, merchant.account_id, Seal(SETTINGS.secret_key)), address, merchant


async def upload(person: Person, sheet: bytes | str, path: str = IMPORT) -> Seen:
    """The answer to uploading this sheet."""
    data = aiohttp.FormData((await person.opened(path)).hidden())
    data.add_field("file", sheet if isinstance(sheet, bytes) else sheet.encode(), filename="c.csv")
    return await person.ask("POST", path, data=data)


async def confirm(person: Person, page: Seen, path: str = IMPORT, *, again: bool = False) -> Seen:
    """The answer to confirming the preview; `again` also ticks that charges created before are to be created again."""
    carried = re.search(r'name="sheet" value="([^"]+)"', page.html)
    assert carried, page.text[:600]
    more = re.search(r'name="again"[^>]* value="([^"]+)"', page.html)
    assert more or not again, page.text[:600]
    ticks = {"sure": "yes", "again": more[1] if more and again else ""}
    data = aiohttp.FormData({**page.hidden(), "sheet": carried[1], **ticks})
    data.add_field("x", "", content_type="text/plain")  # as multipart, as the page sends it
    return await person.ask("POST", path, data=data)


async def charges_of(books: Books) -> list[tuple[str, int]]:
    rows = await books.pool.fetch(
        "SELECT external_id, amount_cents FROM charge WHERE account_id = $1 ORDER BY external_id, amount_cents",
        books.account_id,
    )
    return [tuple(row) for row in rows]


async def test_workbooks_that_take_long_are_read_one_at_a_time(shop: Any) -> None:
    """Reading a file of 5 KB can occupy a core for seconds: six at once would leave none for payments."""
    owner, *_ = shop
    book, saved = openpyxl.Workbook(), io.BytesIO()
    for row in (("tipo", "valor"), *(["pix"] * 30 for _ in range(1_000))):
        book.active.append(row)
    book.save(saved)
    form = (await owner.opened(IMPORT)).hidden()

    async def send() -> Seen:
        data = aiohttp.FormData(form)
        data.add_field("file", saved.getvalue(), filename="c.xlsx")
        page: Seen = await owner.ask("POST", IMPORT, data=data)
        return page

    def threads_reading() -> int:
        stacks = [traceback.extract_stack(frame) for frame in sys._current_frames().values()]
        return sum(any(line.name == read_sheet.__name__ for line in stack) for stack in stacks)

    sending = asyncio.gather(*(send() for _ in range(4)))
    at_once = []
    while not sending.done():
        await asyncio.sleep(0.01)
        at_once.append(threads_reading())
    assert {page.status for page in await sending} <= {400, 429}
    assert max(at_once) == 1


@pytest.mark.parametrize("carried", ["\ufdd0", "not base64", "=", "AA="])
async def test_a_tampered_sheet_in_the_confirmation_form_must_be_uploaded_again(shop: Any, carried: str) -> None:
    owner, books, *_ = shop
    data = aiohttp.FormData({**(await owner.opened(IMPORT)).hidden(), "sheet": carried, "sure": "yes"})
    data.add_field("x", "", content_type="text/plain")
    page = await owner.ask("POST", IMPORT, data=data)
    assert (page.status, "Escolha um arquivo" in page.text) == (400, True), page.text[:600]
    assert await charges_of(books) == []


async def test_a_number_of_44_digits_in_the_amount_column_is_refused_as_an_amount(shop: Any) -> None:
    owner, books, *_ = shop
    book, saved = openpyxl.Workbook(), io.BytesIO()
    for row in (("tipo", "valor"), ("pix", 10), ("pix", 23793381286008200000000000000000000000000000)):
        book.active.append(row)
    book.save(saved)
    page = await upload(owner, saved.getvalue())
    assert (page.status, "maior que zero" in page.text) == (400, True), page.text[:600]
    assert await charges_of(books) == []


async def test_a_sheet_is_previewed_confirmed_and_sent_again_without_duplicate_charges(shop: Any) -> None:
    owner, books, *_ = shop
    page = await upload(owner, SHEET)
    assert page.status == 200, page.text[:600]
    assert "3 cobranças, R$\u00a01.252,06" in page.text
    assert "O banco registra" not in page.text, "no boleto is in the sheet"
    assert await charges_of(books) == [], "no charge is created before the sheet is confirmed"
    done = await asyncio.gather(*(confirm(owner, page) for _ in range(3)))
    assert all("3 de 3 cobranças estão na lista" in each.text for each in done), [each.text[:500] for each in done]
    wanted = [("ped-1", 1234_56), ("ped-2", 10_50), ("ped-3", 7_00)]
    assert await charges_of(books) == wanted
    again = await confirm(owner, await upload(owner, SHEET))
    assert again.text.count("Já criada") == 3
    assert await charges_of(books) == wanted
    listed = await owner.opened("/painel/cobrancas")
    assert "João d'Ávila" in listed.text
    assert (await owner.opened("/painel/auditoria")).text.count("Criou uma cobrança") == 3
    # A sheet with other references creates its own charges.
    assert "3 de 3" in (await confirm(owner, await upload(owner, SHEET.replace("ped-", "novo-")))).text
    assert len(await charges_of(books)) == 6


async def test_a_corrected_sheet_creates_only_the_changed_and_added_rows(shop: Any) -> None:
    owner, books, *_ = shop
    assert "3 de 3" in (await confirm(owner, await upload(owner, SHEET))).text
    # One amount changed, one row added in between, the other cells written in another format.
    head, first, second, _, third, _ = SHEET.split("\r\n")
    first = first.replace("1.234,56", "1234,56").replace("529.982.247-25", "52998224725")
    page = await upload(owner, "\r\n".join((head, second.replace("10.50", "10.60"), "pix;9;ped-4;;;;", third, first)))
    assert page.html.count("Já criada") == 2, page.text[:900]
    assert "2 cobranças iguais já foram criadas" in page.text
    assert "Faltam 2, R$\u00a019,60" in page.text
    done = await confirm(owner, page)
    assert ("4 de 4" in done.text, done.text.count("Já criada")) == (True, 2), done.text[:900]
    assert await charges_of(books) == [
        ("ped-1", 1234_56),
        ("ped-2", 10_50),
        ("ped-2", 10_60),
        ("ped-3", 7_00),
        ("ped-4", 9_00),
    ]


async def test_each_of_several_equal_rows_creates_one_charge_and_an_added_row_one_more(shop: Any) -> None:
    owner, books, *_ = shop
    assert "2 de 2" in (await confirm(owner, await upload(owner, "tipo;valor\npix;5\npix;5\n"))).text
    assert "3 de 3" in (await confirm(owner, await upload(owner, "tipo;valor\npix;5\npix;5,00\npix;5\n"))).text
    assert [cents for _, cents in await charges_of(books)] == [5_00] * 3


async def test_rows_created_before_are_created_again_only_when_the_user_ticks_it(shop: Any) -> None:
    """Next month's sheet may have the same rows as this month's."""
    owner, books, *_ = shop
    sheet = "tipo;valor;referencia\npix;5;mensal\n"
    assert "1 de 1" in (await confirm(owner, await upload(owner, sheet))).text
    for times in (2, 3):
        page = await upload(owner, sheet)
        assert "Não falta nenhuma" in page.text
        done = await asyncio.gather(*(confirm(owner, page, again=True) for _ in range(3)))
        assert all("1 de 1" in each.text for each in done), done[0].text[:600]
        assert await charges_of(books) == [("mensal", 5_00)] * times


@pytest.mark.parametrize("again", [False, True])
async def test_rows_left_when_time_ran_out_are_created_from_the_result_page_without_duplicates(
    shop: Any, monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    """When a sheet is created once more, uploading its file would create all of its rows, not only those left."""
    owner, books, *_ = shop
    sheet = "tipo;valor;referencia\npix;5;a\npix;6;b\n"
    if again:
        assert "2 de 2" in (await confirm(owner, await upload(owner, sheet))).text
    before = await charges_of(books)
    asked = await upload(owner, sheet)
    monkeypatch.setattr("web.painel.charges.charge_import.BEGIN_S_MAX", -1.0)
    page = await confirm(owner, asked, again=again)
    assert "0 de 2" in page.text
    monkeypatch.undo()
    for _ in range(2):
        fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page.html))
        data = aiohttp.FormData(fields)
        data.add_field("x", "", content_type="text/plain")  # as multipart, as the page sends it
        assert "2 de 2" in (await owner.ask("POST", IMPORT, data=data)).text
    assert await charges_of(books) == sorted([*before, ("a", 5_00), ("b", 6_00)])


async def test_an_account_blocked_during_an_import_is_told_of_the_block_not_of_a_pix_suspension(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, books, *_ = shop
    page = await upload(owner, "tipo;valor\npix;5\n")
    # The page checked the approval a moment before the block.
    monkeypatch.setattr("web.painel.charges.new_charge.check_approved", lambda request: None)
    await books.pool.execute("UPDATE account SET kyc = 'blocked' WHERE account_id = $1", books.account_id)
    done = await confirm(owner, page)
    assert "0 de 1" in done.text
    assert refusal(Code.KYC_REQUIRED) in done.text
    assert await charges_of(books) == []


def workbook(*rows: Any) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.properties.description = new_token()
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


async def test_a_workbook_creates_its_charges_once_however_often_it_is_saved(shop: Any) -> None:
    owner, books, *_ = shop
    rows = [("tipo", "valor", "referencia", "nome"), ("pix", 1234.56, 1001, "Ana"), ("pix", 7, "ped-2", None)]
    first, second = workbook(*rows), workbook(*rows)
    assert first != second
    page = await upload(owner, first)
    assert (page.status, "2 cobranças, R$\u00a01.241,56" in page.text) == (200, True), page.text[:600]
    assert await charges_of(books) == []
    assert "2 de 2 cobranças estão na lista" in (await confirm(owner, page)).text
    again = await confirm(owner, await upload(owner, second))
    assert again.text.count("Já criada") == 2
    assert await charges_of(books) == [("1001", 1234_56), ("ped-2", 7_00)]
    wrong = await upload(owner, workbook(rows[0], ("pix", "dez", None, None), ("pix", 10.505, None, None)))
    assert (wrong.status, "2 linhas não podem ser aceitas" in wrong.text) == (400, True), wrong.text[:600]


async def test_the_template_sheet_can_be_downloaded_and_is_read_as_a_sheet_without_rows(shop: Any, pool: Any) -> None:
    owner, _, address, merchant = shop
    page = await owner.opened(IMPORT)
    for kind, media_type in (("xlsx", "spreadsheetml"), ("csv", "text/csv")):
        path = f"{IMPORT}/modelo.{kind}"
        assert f'href="{path}"' in page.html
        async with owner.http.get(address + path) as answer:
            assert (answer.status, media_type in answer.headers["Content-Type"]) == (200, True)
            assert f'filename="cobrancas-modelo.{kind}"' in answer.headers["Content-Disposition"]
            blank = await answer.read()
        assert "nenhuma linha" in (await upload(owner, blank)).text
    async with colleague_in_browser(pool, address, merchant, "developer") as developer:
        assert (await developer.get(f"{IMPORT}/modelo.xlsx")).status == 403
        assert (await developer.get("/painel/teste/cobrancas/importar/modelo.xlsx")).status == 200


async def test_faults_of_a_sheet_are_reported_by_row_and_column_and_nothing_is_created(shop: Any) -> None:
    owner, books, *_ = shop
    past = (datetime.now(SAO_PAULO).date() - timedelta(days=1)).strftime("%d/%m/%Y")
    sheet = (
        "Tipo,Valor,Vencimento,Nome,CPF,CEP,Rua,Cidade,UF,validade_dias\n"
        "pix,10,,,,,,,,\n"
        "pix,dez,,,,,,,,5\n"
        "pix,10,31/12/2040,,,,,,,\n"
        f"boleto,10,{past},Ana,111.111.111-11,123,Rua A,Olinda,XX,\n"
        "carnê,10,,,,,,,,\n"
    )
    page = await upload(owner, sheet)
    assert page.status == 400
    assert "4 linhas não podem ser aceitas" in page.text
    said = re.findall(r'<p class="fault"><code>([a-z_]+)</code> ([^<]+)</p>', page.html)
    assert [name for name, _ in said] == [
        "valor", "validade_dias", "vencimento", "vencimento", "documento", "cep", "estado", "tipo",
    ], said  # fmt: skip
    assert (dict(said)["estado"], dict(said)["validade_dias"]) == (
        "Use a sigla do estado, como SP.", "Use 1, 3, 7 ou 30.",
    )  # fmt: skip
    assert 'name="sheet"' not in page.html
    assert await charges_of(books) == []


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "Escolha um arquivo"),
        (b"PK\x03\x04....", "não pôde ser lido"),
        (b"tipo;valor\n", "nenhuma linha"),
        (b"valor\n10\n", "Falta a coluna tipo"),
        (b"tipo;valor;saldo\npix;1;2\n", "Coluna desconhecida: saldo"),
        (b"tipo;valor;valor\npix;1;2\n", "duas colunas"),
        (b'tipo;valor\npix;"1\n', "aspas"),
        (("tipo;valor\npix;1\na" + "\u0301\u0323" * 2_048 + ";1").encode(), "campo da linha 3 tem mais de 4.096"),
        (b"tipo;valor\npi\0x;1\n", "não é um CSV: salve"),
        (b"tipo;valor\n" + b"pix;1\n" * (ROWS_MAX + 1), f"até {ROWS_MAX}"),
        (b"tipo;valor\n" + b"pix;1 " * 25_000, "KB"),
    ],
)
async def test_a_file_that_is_not_a_sheet_of_charges_is_refused_with_the_reason(
    shop: Any, raw: bytes, words: str
) -> None:
    owner, books, *_ = shop
    seen = await upload(owner, raw)
    assert (seen.status, words in seen.text) == (400, True), seen.text[:800]
    assert await charges_of(books) == []


async def test_the_preview_shows_dates_and_terms_as_the_payer_will_read_them(shop: Any) -> None:
    owner, *_ = shop
    due = datetime.now(SAO_PAULO).date() + timedelta(days=40)
    payer = "Ana Lima;52998224725;01310100;Avenida Paulista;São Paulo;SP"
    sheet = (
        "tipo;valor;vencimento;multa_percentual;juros_valor_dia;nome;documento;cep;rua;cidade;estado\n"
        f"boleto e pix;100,00;{due:%d/%m/%Y};2,00;0,03;{payer}\n"
    )
    page = await upload(owner, sheet)
    assert page.status == 200, page.text[:600]
    assert f"{due:%d/%m/%Y}" in page.text
    assert f'<span class="narrow soft">vence {due:%d/%m/%Y}</span>' in page.html, "narrow screens show the due date too"
    assert str(due) not in page.text
    assert "Boleto e Pix" in page.text
    assert "O banco registra cada boleto primeiro" in page.text
    assert "multa de 2,00% (R$\u00a02,00)" in page.text
    assert "juros de R$\u00a00,03 por dia de atraso" in page.text


def test_sheets_are_read_in_the_encodings_separators_and_formats_used_in_brazil() -> None:
    for raw in (
        "tipo;valor;descrição\npix;1.234,56;Açaí\n".encode("cp1252"),
        "\ufefftipo;valor;descrição\r\npix;1.234,56;Açaí\r\n".encode(),
        'tipo,valor,descricao\npix,"1.234,56",Açaí\n'.encode(),
        "TIPO; Valor ;Descrição;\nPIX;1234.56;Açaí;\n".encode(),
    ):
        (row,) = read_sheet(raw)
        assert (row.number, row.fields["kind"], row.fields["description"]) == (2, "pix", "Açaí"), raw
        assert row.fields["amount"] in ("1.234,56", "1234,56")
    for empty in (b"\r\n", b",,,\n", b"  \n,\n"):
        (row,) = read_sheet(empty + b"tipo,valor\npix,10\n")
        assert (row.number, row.fields["amount"]) == (empty.count(b"\n") + 2, "10"), empty
    for day in (b"1/2/2030", b"01/02/30", b"2030-02-01"):
        (row,) = read_sheet(b"tipo,valor,vencimento,CPF/CNPJ\nBoleto com Pix,10," + day + b",123\n")
        assert (row.fields["kind"], row.fields["due_date"]) == ("boleto_hibrido", "2030-02-01")
        assert row.fields["payer_document"] == "123"
    with pytest.raises(SheetFault):
        read_sheet(b"\n\n")


@pytest.mark.parametrize(
    "raw",
    [
        b"tipo,valor,nome\npix,10.50,Ana\npix,10,50,Ana\n",
        b"tipo,valor,nome\npix,10.50,Ana\npix,1.234,56,\n",  # 1.234 would be 1.234,00
        b"tipo;valor;descricao;referencia\npix;1;a;1\npix;1;Aula; turma B;2\n",
    ],
)
def test_a_row_split_by_a_separator_in_its_text_is_refused(raw: bytes) -> None:
    with pytest.raises(SheetFault, match=r"A linha 3 tem . campos"):
        read_sheet(raw)


async def test_an_upload_needs_the_form_token_the_role_and_a_size_within_the_limit(shop: Any, pool: Any) -> None:
    owner, books, address, merchant = shop
    foreign = aiohttp.FormData({"csrf": "x", "once": str(uuid4())})
    foreign.add_field("file", SHEET.encode(), filename="c.csv")
    assert (await owner.ask("POST", IMPORT, data=foreign)).status == 403
    async with colleague_in_browser(pool, address, merchant, "developer") as developer:
        assert (await developer.get(IMPORT)).status == 403
        assert "Importar planilha" not in (await developer.opened("/painel/cobrancas")).text
    large = await upload(owner, b"x" * 600_000)
    assert large.status == 413
    pending = await a_merchant(pool, kyc="pending")
    async with owner_in_browser(address, pending) as other:
        seen = await upload(other, SHEET, "/painel/teste/cobrancas/importar")
        assert (seen.status, "3 cobranças" in seen.text) == (200, True)
        assert "Cadastro em análise" in (await other.opened(IMPORT)).text
    assert await charges_of(books) == []
