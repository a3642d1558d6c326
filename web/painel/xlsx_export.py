"""A list as an Excel sheet: amounts are numbers, days are days, and a boleto's number keeps its zeros.

Rows are written to a temporary file page by page, in constant memory, and the file is sent once it is complete. A sheet
has at most 100,000 rows; the CSV file of the same list has more.
"""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from litestar.response import Response, Stream

from domain.brazilian import thousands
from domain.instants import SAO_PAULO
from readmodels.reports.csv_lines import BasisPoints, Cents, Field
from web.painel.csv_export import Columns, attachment
from web.painel.page_request import PAGE_HEADERS, PageRequest

ROWS_MAX: Final = 100_000
MEDIA_TYPE: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_TRUNCATED: Final = f"Limite de {thousands(ROWS_MAX)} linhas: use um filtro de datas, ou baixe o CSV."
_CHUNK_BYTES: Final = 256 * 1024
_WIDTH: Final = 20  # characters
_FOLDER: Final = "quita-sheet-"

Item = TypeVar("Item")


async def xlsx_answer(
    request: PageRequest, name: str, columns: Columns[Item], pages: AsyncIterator[Sequence[Item]]
) -> Response[Any]:
    """Answers the file, once it is complete."""
    return await xlsx_file(attachment(request, name, "xlsx"), columns, pages)


async def xlsx_file(disposition: str, columns: Columns[Item], pages: AsyncIterator[Sequence[Item]]) -> Response[Any]:
    """Answers the file under a name that the caller chooses: `disposition` is the Content-Disposition header."""
    # The file never has a name on disk: nothing is left of it when the browser disconnects or the process dies.
    file = tempfile.TemporaryFile(prefix="quita-")  # noqa: SIM115 - closed when the last of it was sent
    try:
        with _open_sheet(file, list(columns)) as sheet:
            async for items in pages:
                lines = [[read(item) for read in columns.values()] for item in items]
                if not await asyncio.to_thread(sheet.add, lines):
                    break
            await asyncio.to_thread(sheet.close)
        length = file.tell()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    headers = {
        **PAGE_HEADERS,
        "Content-Disposition": disposition,
        "Content-Length": str(length),
    }
    return Stream(_chunks(file), media_type=MEDIA_TYPE, headers=headers)


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
            yield chunk


@contextmanager
def _open_sheet(file: IO[bytes], headings: Sequence[str]) -> Iterator["_Sheet"]:
    """xlsxwriter keeps the rows, which hold payers' data, in files of its own and removes them once the workbook is
    written. When writing ends early, they are removed here; when the process is killed, by `remove_leftovers`."""
    with _own_folder() as folder:
        sheet = _Sheet(file, headings, folder)
        try:
            yield sheet
        finally:
            sheet.discard()


def remove_leftovers() -> None:
    """Removes the folders of workbooks whose process was killed while it wrote them: nobody holds their lock."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with suppress(OSError), _locked(folder):
            shutil.rmtree(folder)


@contextmanager
def _own_folder() -> Iterator[str]:
    """A new folder. It gets the name that `remove_leftovers` looks for once it is locked: a process that started in
    between would remove it."""
    new = Path(tempfile.mkdtemp(prefix="quita-new-"))
    folder = new.with_name(_FOLDER + new.name)
    with _locked(new):
        new.rename(folder)
        try:
            yield str(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Holds the folder's lock, which ends with the process. BlockingIOError while another holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


class _Sheet:
    def __init__(self, file: IO[bytes], headings: Sequence[str], folder: str) -> None:
        import xlsxwriter  # takes 3 MB of each process, and most processes never write a sheet

        # Text is written as text: nothing is taken for a formula, a link or a number.
        self._book = xlsxwriter.Workbook(
            file, {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "tmpdir": folder}
        )
        self._sheet = self._book.add_worksheet("Dados")
        self._amount = self._book.add_format({"num_format": "#,##0.00"})
        self._day = self._book.add_format({"num_format": "dd/mm/yyyy"})
        self._moment = self._book.add_format({"num_format": "dd/mm/yyyy hh:mm:ss"})
        self._rows = 1
        self._sheet.set_column(0, len(headings) - 1, _WIDTH)
        self._sheet.freeze_panes(1, 0)
        bold = self._book.add_format({"bold": True})
        for column, heading in enumerate(headings):
            self._sheet.write_string(0, column, heading, bold)

    def add(self, lines: Sequence[Sequence[Field]]) -> bool:
        """Writes `lines`; returns whether the sheet has room for more."""
        for line in lines:
            if self._rows > ROWS_MAX:
                self._sheet.write_string(self._rows, 0, _TRUNCATED)
                return False
            for column, value in enumerate(line):
                self._write(column, value)
            self._rows += 1
        return True

    def close(self) -> None:
        self._book.close()

    def discard(self) -> None:
        self._sheet.row_data_fh.close()

    def _write(self, column: int, value: Field) -> None:
        match value:
            case None:
                pass
            case str():
                # A cell holds 32,767 characters, and no control characters.
                self._sheet.write_string(self._rows, column, value.replace("\0", "")[:32_767])
            case Cents() | BasisPoints():
                self._sheet.write_number(self._rows, column, int(value) / 100, self._amount)
            case datetime():
                local = value.astimezone(SAO_PAULO).replace(tzinfo=None)
                self._sheet.write_datetime(self._rows, column, local, self._moment)
            case date():
                self._sheet.write_datetime(self._rows, column, datetime(value.year, value.month, value.day), self._day)  # noqa: DTZ001 - a sheet's days have no zone
            case _:
                self._sheet.write_number(self._rows, column, int(value))
