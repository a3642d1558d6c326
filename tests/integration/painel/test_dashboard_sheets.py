"""Lists as CSV and XLSX files: every row that the list has, in the dialect of Brazilian spreadsheets."""

import asyncio
import csv
import io
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

import aiohttp
import pytest
import pytest_asyncio
from openpyxl import load_workbook

from commands.merchants.merchants import MerchantCreated
from domain.instants import SAO_PAULO
from readmodels.reports.csv_lines import BOM
from runtime.postgres import Pool, open_pool
from runtime.seal import Seal
from tests.conftest import Servers
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
from web.painel.csv_export import ROWS
from web.painel.xlsx_export import MEDIA_TYPE, remove_leftovers, xlsx_file

SETTINGS = settings_with()
SEAL = Seal(SETTINGS.secret_key)
SHEETS = ("/painel/cobrancas.csv", "/painel/pagamentos.csv", "/painel/extrato.csv", "/painel/devolucoes.csv")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address(pool: Pool) -> AsyncIterator[str]:
    async with serving(pool, lambda: datetime.now(UTC), SETTINGS) as found:
        yield found


class Environment(NamedTuple):
    merchant: MerchantCreated
    books: Books
    owner: Person


@pytest_asyncio.fixture(loop_scope="session")
async def env(pool: Pool, address: str) -> AsyncIterator[Environment]:
    merchant = await a_merchant(pool)
    async with owner_in_browser(address, merchant) as owner:
        yield Environment(merchant, Books(pool, merchant.account_id, SEAL), owner)


def rows_in(seen: Seen) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(seen.html.removeprefix("\ufeff"), newline=""), delimiter=";", strict=True))


async def insert_ledger_entries(pool: Pool, account_id: UUID, lines: int) -> None:
    """Insert this many payments of one real into the account's statement."""
    await pool.execute(
        """INSERT INTO read_ledger (account_id, test, sequence, entry_id, type, amount_cents, balance_after_cents,
                                    created_at, external_id)
           SELECT $1, false, n, gen_random_uuid(), 'payment', 100, n * 100, now() - (($2 - n) || ' seconds')::interval,
                  'pedido-' || n
           FROM generate_series(1, $2::bigint) AS n""",
        account_id,
        lines,
    )


@asynccontextmanager
async def slow_reader(address: str, path: str, cookie: str) -> AsyncIterator[asyncio.StreamReader]:
    """A GET whose answer is read from a socket that buffers only 4 KiB of it."""
    url = urlsplit(address)
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, (url.hostname, url.port))
    reader, writer = await asyncio.open_connection(sock=narrow, limit=64 * 1024)
    head = [f"GET {path} HTTP/1.1", f"Host: {url.netloc}", f"Cookie: painel={cookie}", "Connection: close", "", ""]
    writer.write("\r\n".join(head).encode())
    try:
        yield reader
    finally:
        writer.close()


async def test_a_csv_file_has_the_dialect_and_headers_that_brazilian_spreadsheets_open(env: Environment) -> None:
    charge = await env.books.charge(1_234_56, external_id='=1+1;"x"', description="Bolo\nde açaí; e mais")
    await env.books.paid(charge)
    for path in SHEETS:
        seen = await env.owner.opened(path)
        assert seen.html.encode().startswith(BOM), path
        assert seen.headers["Content-Type"] == "text/csv; charset=utf-8"
        name = path.rpartition("/")[2].removesuffix(".csv")
        day = datetime.now(UTC).astimezone(SAO_PAULO).date().isoformat()
        assert seen.headers["Content-Disposition"] == f'attachment; filename="{name}-{day}.csv"'
        assert seen.headers["Cache-Control"] == "no-store"
        assert seen.headers["X-Content-Type-Options"] == "nosniff"
        assert seen.html.endswith("\r\n")
    (row,) = rows_in(await env.owner.opened("/painel/cobrancas.csv"))
    # A formula written by a payer or a merchant becomes text (OWASP, CSV injection).
    assert row["referencia"] == '\'=1+1;"x"'
    assert row["descricao"] == "Bolo\nde açaí; e mais"
    assert (row["valor"], row["valor_pago"], row["situacao"], row["forma"]) == ("1234,56", "1234,56", "Paga", "Pix")
    assert row["charge_id"] == charge.charge_id
    (paid,) = rows_in(await env.owner.opened("/painel/pagamentos.csv"))
    assert (paid["valor"], paid["documento"], paid["pagador"]) == ("1234,56", "***.456.789-**", "Fulana de Tal")
    (line,) = rows_in(await env.owner.opened("/painel/extrato.csv"))
    assert (line["numero"], line["valor"], line["saldo_depois"]) == ("1", "1234,56", "1234,56")


async def test_metadata_are_in_one_cell_of_the_file_and_on_the_page_of_their_charge(env: Environment) -> None:
    charge = await env.books.charge(metadata={"store": "recife-2", "cart": 'c "8812"'})
    await env.books.charge()
    without, row = rows_in(await env.owner.opened("/painel/cobrancas.csv"))
    assert (without["metadados"], row["metadados"]) == ("", '{"cart": "c \\"8812\\"", "store": "recife-2"}')
    page = await env.owner.opened(f"/painel/cobrancas/{charge.charge_id}")
    assert "<dt>store</dt><dd>recife-2</dd>" in page.html


async def test_a_csv_file_has_the_rows_that_its_list_shows_with_the_same_filters(env: Environment) -> None:
    for number in range(3):
        await env.books.paid(await env.books.charge(1_00 + number, external_id=f"paga-{number}"))
    await env.books.charge(9_00, external_id="aberta")
    await env.books.charge(7_00, external_id="de-teste", test=True)
    found = rows_in(await env.owner.opened("/painel/cobrancas.csv?status=paid&order=asc"))
    assert [row["referencia"] for row in found] == ["paga-0", "paga-1", "paga-2"]
    trial = await env.owner.opened("/painel/teste/cobrancas.csv")
    assert [row["referencia"] for row in rows_in(trial)] == ["de-teste"]
    assert "cobrancas-teste-" in trial.headers["Content-Disposition"]
    assert len(rows_in(await env.owner.opened("/painel/pagamentos.csv?external_id=paga-1"))) == 1
    assert rows_in(await env.owner.opened("/painel/extrato.csv?type=refund")) == []
    page = await env.owner.opened("/painel/cobrancas?status=paid")
    assert 'href="/painel/cobrancas.csv?status=paid"' in page.html
    wrong = await env.owner.get("/painel/cobrancas.csv?created_from=x")
    assert (wrong.status, wrong.where) == (303, "/painel/cobrancas?created_from=x")
    assert (await env.owner.get("/painel/cobrancas.csv?nada=1")).status == 400
    assert (await env.owner.get("/painel/teste/extrato.csv")).status == 404


@pytest.mark.parametrize("order", ["desc", "asc"])
async def test_a_csv_file_by_due_date_has_each_charge_once_and_in_order(
    env: Environment, pool: Pool, order: str
) -> None:
    today = datetime.now(SAO_PAULO).date()
    made: dict[str, Any] = {}
    for number in range(12):
        due = today + timedelta(days=number % 4)
        made[f"n{number}"] = due
        await env.books.charge(external_id=f"n{number}", due_date=due.isoformat())
    await env.books.charge(external_id="sem vencimento")
    first, last = today + timedelta(days=1), today + timedelta(days=2)
    found = rows_in(await env.owner.opened(f"/painel/cobrancas.csv?due_from={first}&due_to={last}&order={order}"))
    wanted = [name for name, due in made.items() if first <= due <= last]
    assert sorted(row["referencia"] for row in found) == sorted(wanted)
    days = [row["vencimento"] for row in found]
    assert days == sorted(days, reverse=order == "desc")


async def test_a_csv_file_of_many_pages_is_complete_and_in_order(env: Environment, pool: Pool) -> None:
    lines = 3 * ROWS + 7
    await insert_ledger_entries(pool, env.merchant.account_id, lines)
    found = rows_in(await env.owner.opened("/painel/extrato.csv"))
    assert [int(row["numero"]) for row in found] == list(range(lines, 0, -1))
    assert {row["valor"] for row in found} == {"1,00"}


async def test_a_csv_file_is_read_as_it_is_sent_and_holds_no_connection(env: Environment, servers: Servers) -> None:
    """A slow reader holds neither rows in memory nor a connection: pages are read when the socket has room."""
    lines = 60_000
    await insert_ledger_entries(env.books.pool, env.merchant.account_id, lines)
    pool_of_one = await open_pool(servers.database_url, name="sheets", size=1)
    try:
        async with (
            serving(pool_of_one, lambda: datetime.now(UTC), SETTINGS) as served_at,
            owner_in_browser(served_at, env.merchant) as owner,
        ):
            connection: Any = pool_of_one._holders[0]._con  # type: ignore[attr-defined]
            asked: list[str] = []
            connection.add_query_logger(lambda record: asked.append(record.query))
            async with slow_reader(served_at, "/painel/extrato.csv", owner.cookie()) as reader:
                assert BOM in await reader.readuntil(b"numero;")
                seen, before = -1, len(asked)
                while seen != before:
                    seen = before
                    await asyncio.sleep(0.2)
                    before = len(asked)
                assert before < lines / ROWS / 2, "the file is read from the database ahead of its reader"
                # The pool's only connection is free meanwhile: other pages open.
                assert await pool_of_one.fetchval("SELECT 1") == 1
                whole = await reader.read()
            assert whole.count(b";Pagamento recebido;") == lines
    finally:
        await pool_of_one.close()


async def test_csv_files_open_to_the_roles_of_their_lists_only(env: Environment, address: str) -> None:
    wanted = {"finance": (200, 200, 200, 200), "support": (200, 200, 403, 200), "developer": (200, 403, 403, 403)}
    for role, statuses in wanted.items():
        async with colleague_in_browser(env.books.pool, address, env.merchant, role) as person:
            assert tuple([(await person.get(path)).status for path in SHEETS]) == statuses, role
    stranger = Person(address, "nobody@example.com", "x")
    assert (await stranger.get(SHEETS[0])).where == "/painel/entrar"
    await stranger.http.close()


async def test_a_workbook_keeps_leading_zeros_as_text_and_amounts_as_numbers(env: Environment, address: str) -> None:
    """Another library reads the workbook: amounts are numbers, instants are dates, and text is text."""
    for external_id in ("00123", "1E5", "=1+1", "https://x.example"):
        await env.books.paid(await env.books.charge(1_234_56, external_id=external_id))
    http = aiohttp.ClientSession(cookies={"painel": env.owner.cookie()})
    async with http, http.get(f"{address}/painel/cobrancas.xlsx?status=paid&order=asc") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == MEDIA_TYPE
        assert answer.headers["Content-Disposition"].endswith('.xlsx"')
        assert answer.headers["Cache-Control"] == "no-store"
        sheet = load_workbook(io.BytesIO(await answer.read())).active
    assert sheet is not None
    assert sheet.title == "Dados"
    headings, *lines = [[cell.value for cell in row] for row in sheet.iter_rows()]
    rows = [dict(zip(headings, line, strict=True)) for line in lines]
    assert [row["referencia"] for row in rows] == ["00123", "1E5", "=1+1", "https://x.example"]
    assert {cell.data_type for cell in sheet["B"][1:]} == {"s"}
    assert sum(row["valor"] for row in rows) == pytest.approx(4 * 1234.56)
    assert all(isinstance(row["criada_em"], datetime) for row in rows)
    assert rows[0]["vencimento"] is None
    page = await env.owner.opened("/painel/cobrancas?status=paid")
    assert 'href="/painel/cobrancas.xlsx?status=paid"' in page.html


async def test_a_workbook_leaves_no_temporary_file(env: Environment, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    await env.books.charge(1_00)
    assert (await env.owner.get("/painel/cobrancas.xlsx")).status == 200
    assert list(tmp_path.iterdir()) == []


async def test_a_process_that_starts_takes_no_folder_from_a_workbook_that_begins(
    env: Environment, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make = tempfile.mkdtemp

    def make_while_another_starts(*args: Any, **kwargs: Any) -> str:
        folder: str = make(*args, **kwargs)
        remove_leftovers()
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", make_while_another_starts)
    assert (await env.owner.get("/painel/cobrancas.xlsx")).status == 200


async def test_a_workbook_cancelled_while_it_is_written_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """Nor does one whose process was killed, once another process starts."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    written = asyncio.Event()

    async def rows() -> AsyncIterator[list[str]]:
        yield ["Maria da Silva"] * ROWS
        written.set()
        await asyncio.Event().wait()

    made = asyncio.create_task(xlsx_file("attachment", {"pagador": str}, rows()))
    await written.wait()
    (folder,) = tmp_path.iterdir()
    assert list(folder.iterdir()) != []
    shutil.copytree(folder, tmp_path / f"{folder.name}of-a-killed-process")
    remove_leftovers()
    assert list(tmp_path.iterdir()) == [folder]
    made.cancel()
    with pytest.raises(asyncio.CancelledError):
        await made
    assert list(tmp_path.iterdir()) == []


async def test_a_csv_file_names_the_payer_of_the_charge_where_the_bank_named_nobody(env: Environment) -> None:
    charge = await env.books.charge(1_00, payer={"name": "Maria da Silva", "document": "52998224725"})
    await env.books.paid(charge, payer_name=None, payer_document=None)
    (paid,) = rows_in(await env.owner.opened("/painel/pagamentos.csv"))
    assert (paid["pagador"], paid["documento"]) == ("Maria da Silva", "***.982.247-**")
