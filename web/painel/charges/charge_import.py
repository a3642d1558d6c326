"""Charges from a spreadsheet: sent, looked at row by row, then made.

What is wrong with a row is said by the form of a new charge, in the sheet's own column names, before anything is made;
a sheet with a fault makes nothing. Each row is made as the form makes it. Its Idempotency-Key follows from the account,
the sheet's digest and the row: a sheet that is sent again makes what is missing and leads to what is there.
"""

import asyncio
from base64 import b64decode, b64encode
from datetime import date
from typing import Any, Final
from uuid import UUID, uuid5

from litestar.response import Response
from msgspec import Struct

from commands.people.audit import AlreadySent
from domain.errors import Code, Refused
from readmodels.charges.conditions import told_conditions
from web.painel.charges import new_charge
from web.painel.charges.boleto_terms import FIELDS
from web.painel.charges.sheets.fault import SheetFault
from web.painel.charges.sheets.rows import BYTES_MAX, COLUMNS, IN_REAIS, ROWS_MAX, ChargeSheet, SheetRow, read_sheet
from web.painel.charges.sheets.workbook import is_workbook
from web.painel.fields import Filled
from web.painel.labels import REFUSED, refusal
from web.painel.page_request import PageRequest

TOGETHER: Final = 10
"""Rows made at a time: boletos wait for their bank."""
BEGUN_WITHIN_S: Final = 30.0
"""Rows that were not begun by then are left for the next sending: a silent bank holds each up."""
_NAMES: Final = {field: column for column, field in COLUMNS.items()}
_NOT_BEGUN: Final = "Não enviada: o banco demorou. Envie o mesmo arquivo de novo; o que já foi criado não se repete."


class CheckedRow(Struct, frozen=True):
    """A row, what it asks for, and what is wrong with it by the sheet's columns."""

    row: SheetRow
    cents: int
    faults: dict[str, str]
    due_on: date | None = None
    conditions: tuple[str, ...] = ()
    """Of a boleto with a fine, interest or discount: what its payer will read of them."""


class ImportedRow(Struct, frozen=True):
    """What a row made: a charge, now or when it was sent before; else `fault` says why not."""

    row: SheetRow
    charge_id: UUID | None = None
    before: bool = False
    fault: str = ""


async def show(request: PageRequest) -> Response[Any]:
    return _form(request)


async def create(request: PageRequest) -> Response[Any]:
    """The sheet with what is wrong in each row; with its tick the charges are made."""
    raw = _raw(request)
    if raw is None:
        return _form(request, "Escolha um arquivo .xlsx ou CSV.")
    if is_workbook(raw):
        request.spend("files_per_min")
    try:
        async with request.file_turn():
            sheet = await asyncio.to_thread(read_sheet, raw)
    except SheetFault as fault:
        return _form(request, str(fault))
    checked = [await _checked(request, sheet, row) for row in sheet.rows]
    wrong = sum(bool(each.faults) for each in checked)
    if wrong or request.field("sure") != "yes":
        values = {
            "checked": checked,
            "wrong": wrong,
            "cents": sum(each.cents for each in checked),
            "sheet": b64encode(raw).decode(),
            "sure_fault": "Confirme que quer criar." if request.field("confirmed") and not wrong else "",
            "waiting": not request.test and request.session.kyc != "approved",
        }
        return request.show("import_preview.html", values, status=400 if wrong or values["sure_fault"] else 200)
    if not is_workbook(raw):
        request.spend("files_per_min")
    until = asyncio.get_running_loop().time() + BEGUN_WITHIN_S
    room = asyncio.Semaphore(TOGETHER)

    async def made(row: SheetRow) -> ImportedRow:
        async with room:
            if asyncio.get_running_loop().time() > until:
                return ImportedRow(row, fault=_NOT_BEGUN)
            return await _make(request, sheet, row)

    ended = await asyncio.gather(*(made(row) for row in sheet.rows))
    return request.show("import_made.html", {"ended": ended, "made": sum(not each.fault for each in ended)})


def _raw(request: PageRequest) -> bytes | None:
    """The file that was sent, or, with the page that confirms, the one it carries."""
    if sheet := request.field("sheet"):
        try:
            return b64decode(sheet, validate=True)
        except ValueError:  # binascii's own is one; text that is not ASCII raises this
            return None
    return request.files.get("file") or None


def _part(request: PageRequest, sheet: ChargeSheet, row: SheetRow) -> PageRequest:
    """A request of its own for this row: the form's fields are the row's, the key is the sheet's and the row's."""
    name = f"{request.mode} {sheet.digest} {row.number}"
    return request.part(name, row.fields, key=uuid5(request.session.account_id, name))


async def _checked(request: PageRequest, sheet: ChargeSheet, row: SheetRow) -> CheckedRow:
    part = _part(request, sheet, row)
    filled = Filled(part)
    kind = row.fields["kind"]
    due_on: date | None = None
    conditions: tuple[str, ...] = ()
    if kind != "pix" and kind not in new_charge.BOLETOS:
        filled.wrong("kind", "Use pix, boleto, boleto_hibrido ou boleto_pix.")
        cents = None
    elif kind == "pix":
        if row.fields["due_date"]:
            filled.wrong("due_date", "Cobranças Pix não têm vencimento: use validade_dias.")
        for name in (*FIELDS, *IN_REAIS):
            if row.fields.get(name):
                filled.wrong(name, "Multa, juros e desconto são de boletos.")
        cents = new_charge.read_pix(part, filled).amount_cents
    else:
        for name, of in IN_REAIS.items():
            if row.fields[name]:
                filled.wrong(name, f"Preencha esta coluna ou {_NAMES[of]}, não as duas.")
        asked = new_charge.read_boleto(part, filled)
        cents, due_on = asked.amount_cents, asked.due_on
        if asked.terms is not None and cents is not None and due_on is not None:
            conditions = told_conditions(asked.terms, amount_cents=cents, due=due_on)
    names = _NAMES | {of: _NAMES[name] for name, of in IN_REAIS.items() if row.fields[f"{of}_kind"] == "amount"}
    faults = {names.get(name, name): fault for name, fault in filled.faults.items()}
    return CheckedRow(row, cents or 0, faults, due_on, conditions)


async def _make(request: PageRequest, sheet: ChargeSheet, row: SheetRow) -> ImportedRow:
    part = _part(request, sheet, row)
    filled = Filled(part)
    before = await new_charge.found_before(part)
    if before is not None:
        return ImportedRow(row, before, before=True)
    try:
        create = new_charge.create_pix_charge if row.fields["kind"] == "pix" else new_charge.create_boleto_charge
        charge_id = await create(part, filled)
    except AlreadySent:
        before = await new_charge.found_before(part)
        return (
            ImportedRow(row, before, before=True)
            if before
            else ImportedRow(row, fault=REFUSED[Code.BANK_UNAVAILABLE][0])
        )
    except Refused as refused:
        if (before := await new_charge.found_before(part)) is not None:
            return ImportedRow(row, before, before=True)
        return ImportedRow(row, fault=refusal(refused.code))
    if charge_id is None:
        return ImportedRow(row, fault=" ".join(filled.faults.values()))
    return ImportedRow(row, charge_id)


def _form(request: PageRequest, fault: str = "") -> Response[Any]:
    values: dict[str, object] = {
        "fault": fault,
        "columns": COLUMNS,
        "rows_max": ROWS_MAX,
        "kilobytes_max": BYTES_MAX // 1024,
        "waiting": not request.test and request.session.kyc != "approved",
    }
    return request.show("import.html", values, status=400 if fault else 200)
