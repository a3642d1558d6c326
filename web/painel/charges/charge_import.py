"""Charges from a spreadsheet: the sheet is uploaded, its rows are checked, and then the charges are created.

The form of a new charge checks each row, and faults are shown with the sheet's column names before anything is created;
a sheet with a fault creates nothing. Each row creates its charge as the form does. The Idempotency-Key is derived from
the account and from what the row asks for. When a sheet is sent again, corrected or not, the rows that have a charge
already are shown as such and create nothing, unless the person who confirms wants them once more.
"""

import asyncio
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec
from litestar.response import Response
from msgspec import Struct
from msgspec.structs import replace

from commands.people.audit import AlreadySent
from domain.errors import Code, Refused
from domain.identifiers import parse_id
from readmodels.charges.conditions import portuguese_conditions
from readmodels.dashboard.overview import find_created_by_keys
from runtime.ids import new_id
from runtime.postgres import session
from web.painel.charges import new_charge
from web.painel.charges.boleto_terms import FIELDS
from web.painel.charges.sheets.fault import SheetFault
from web.painel.charges.sheets.rows import BYTES_MAX, COLUMNS, IN_REAIS, ROWS_MAX, SheetRow, read_sheet
from web.painel.charges.sheets.workbook import is_workbook
from web.painel.fields import NO_OPTION, Filled
from web.painel.labels import REFUSED, refusal
from web.painel.page_request import PageRequest

TOGETHER: Final = 10
"""Rows whose charges are created concurrently: boletos wait for the bank."""
BEGIN_S_MAX: Final = 30.0
"""Rows not begun within this time are left for the next submission: a silent bank delays each row."""
_COLUMN_BY_FIELD: Final = {field: column for column, field in COLUMNS.items()}
# Faults for cells whose field is a list in the form: a sheet offers no list to choose from.
_OPTION_FAULTS: Final = {
    "state": "Use a sigla do estado, como SP.",
    "lifetime": "Use 1, 3, 7 ou 30.",
    "discount_kind": "Use % ou deixe em branco, para descontos em reais.",
}
_NOT_BEGUN: Final = "Não enviada: o banco demorou. Crie o que falta; o que já foi criado não se repete."


class CheckedRow(Struct, frozen=True):
    """A row, what it asks for, and its faults by column of the sheet."""

    row: SheetRow
    cents: int
    faults: dict[str, str]
    asks: bytes
    """All that the row asks for, encoded the same however its cells were written."""
    due_on: date | None = None
    conditions: tuple[str, ...] = ()
    """For a boleto with a fine, interest or discount: the sentences about them that the payer will read."""
    name: str = ""
    """Identifies the row: what it asks for, and its number among the sheet's rows that ask for the same."""
    before: UUID | None = None
    """The charge that the row created when it was sent before."""


class ImportedRow(Struct, frozen=True):
    """The outcome of a row: the charge it created, now or when it was sent before; otherwise `fault` says why none."""

    row: SheetRow
    charge_id: UUID | None = None
    before: bool = False
    fault: str = ""


async def show(request: PageRequest) -> Response[Any]:
    return _upload_form(request)


async def create(request: PageRequest) -> Response[Any]:
    """Answers the sheet with the faults of each row; when its box is ticked, creates the charges."""
    raw = _sent_sheet(request)
    if raw is None:
        return _upload_form(request, "Escolha um arquivo .xlsx ou CSV.")
    if is_workbook(raw):
        request.spend("files_per_min")
    try:
        async with request.file_turn():
            rows = await asyncio.to_thread(read_sheet, raw)
    except SheetFault as fault:
        return _upload_form(request, str(fault))
    checked = [await _check_row(request, row) for row in rows]
    faulty_count = sum(bool(each.faults) for each in checked)
    if not faulty_count:
        checked = await _with_earlier_charges(request, checked)
    if faulty_count or request.field("sure") != "yes":
        new_rows = [each for each in checked if each.before is None]
        values = {
            "checked": checked,
            "wrong": faulty_count,
            "cents": sum(each.cents for each in checked),
            "new": len(new_rows),
            "new_cents": sum(each.cents for each in new_rows),
            "boletos": any(each.due_on is not None for each in new_rows),
            "sheet": b64encode(raw).decode(),
            "again": new_id(),
            "sure_fault": "Confirme que quer criar." if request.field("confirmed") and not faulty_count else "",
            "waiting": not request.test and request.session.kyc != "approved",
        }
        return request.show("import_preview.html", values, status=400 if faulty_count or values["sure_fault"] else 200)
    if not is_workbook(raw):
        request.spend("files_per_min")
    deadline = asyncio.get_running_loop().time() + BEGIN_S_MAX
    slots = asyncio.Semaphore(TOGETHER)

    # The id of the page that confirmed, also carried by later pages that ask for the missing rows: under it each row
    # that had a charge already creates one more, once.
    again = parse_id(request.field("again"))

    async def import_row(each: CheckedRow) -> ImportedRow:
        if each.before is not None and again is None:
            return ImportedRow(each.row, each.before, before=True)
        async with slots:
            if asyncio.get_running_loop().time() > deadline:
                return ImportedRow(each.row, fault=_NOT_BEGUN)
            return await _create_charge(
                each.row, _row_request(request, each, again=None if each.before is None else again)
            )

    imported = await asyncio.gather(*map(import_row, checked))
    values = {
        "ended": imported,
        "made": sum(not each.fault for each in imported),
        "sheet": b64encode(raw).decode(),
        "again": again,
    }
    return request.show("import_made.html", values)


def _sent_sheet(request: PageRequest) -> bytes | None:
    """Returns the uploaded file or, from the page that confirms, the file that the page carries as base64."""
    if sheet := request.field("sheet"):
        try:
            return b64decode(sheet, validate=True)
        except ValueError:  # binascii.Error is a ValueError; text that is not ASCII raises ValueError itself
            return None
    return request.files.get("file") or None


def _row_request(request: PageRequest, checked: CheckedRow, *, again: UUID | None = None) -> PageRequest:
    """Returns a request for this row, with the row's fields as the form. Its key is derived from the row or, when the
    row is created once more, also from the page that asked for that."""
    key = uuid5(again or request.session.account_id, checked.name)
    return request.part(checked.name, checked.row.fields, key=key)


async def _with_earlier_charges(request: PageRequest, checked: Sequence[CheckedRow]) -> list[CheckedRow]:
    """Returns the rows with their names, and with the charges that they created before."""
    occurrences: Counter[bytes] = Counter()
    named_rows = []
    for each in checked:
        occurrences[each.asks] += 1
        # A keyed fingerprint: the row has the payer's data, and the key of the charge stays when these are erased.
        name = f"{request.mode} {request.seal.blind(each.asks.decode())} {occurrences[each.asks]}"
        named_rows.append(replace(each, name=name))
    keys = [_row_request(request, each).key for each in named_rows]
    async with session(request.pool) as conn:
        creations = await find_created_by_keys(
            conn, account_id=request.session.account_id, test=request.test, keys=keys
        )
    charge_by_key = {each.key: each.resource_id for each in creations}
    return [replace(each, before=charge_by_key.get(key)) for each, key in zip(named_rows, keys, strict=True)]


async def _check_row(request: PageRequest, row: SheetRow) -> CheckedRow:
    row_request = request.part(str(row.number), row.fields)
    filled = Filled(row_request)
    charge_fields: new_charge.PixFields | new_charge.BoletoFields | None = None
    kind = row.fields["kind"]
    due_on: date | None = None
    conditions: tuple[str, ...] = ()
    if kind != "pix" and kind not in new_charge.BOLETOS:
        filled.wrong("kind", "Use pix, boleto, boleto_hibrido ou boleto_pix.")
    elif kind == "pix":
        if row.fields["due_date"]:
            filled.wrong("due_date", "Cobranças Pix não têm vencimento: use validade_dias.")
        for name in (*FIELDS, *IN_REAIS):
            if row.fields.get(name):
                filled.wrong(name, "Multa, juros e desconto são de boletos.")
        charge_fields = new_charge.read_pix(row_request, filled)
    else:
        for name, percent_field in IN_REAIS.items():
            if row.fields[name]:
                filled.wrong(name, f"Preencha esta coluna ou {_COLUMN_BY_FIELD[percent_field]}, não as duas.")
        charge_fields = boleto = new_charge.read_boleto(row_request, filled)
        due_on = boleto.due_on
        if boleto.terms is not None and boleto.amount_cents is not None and due_on is not None:
            conditions = portuguese_conditions(boleto.terms, amount_cents=boleto.amount_cents, due=due_on)
    names = _COLUMN_BY_FIELD | {
        percent_field: _COLUMN_BY_FIELD[name]
        for name, percent_field in IN_REAIS.items()
        if row.fields[f"{percent_field}_kind"] == "amount"
    }
    faults = {
        names.get(name, name): _OPTION_FAULTS.get(name, fault) if fault == NO_OPTION else fault
        for name, fault in filled.faults.items()
    }
    cents = 0 if charge_fields is None else charge_fields.amount_cents or 0
    return CheckedRow(row, cents, faults, msgspec.json.encode(charge_fields), due_on, conditions)


async def _create_charge(row: SheetRow, row_request: PageRequest) -> ImportedRow:
    filled = Filled(row_request)
    earlier_id = await new_charge.charge_made_by_key(row_request)
    if earlier_id is not None:
        return ImportedRow(row, earlier_id, before=True)
    try:
        create = new_charge.create_pix_charge if row.fields["kind"] == "pix" else new_charge.create_boleto_charge
        charge_id = await create(row_request, filled)
    except (AlreadySent, Refused) as error:
        if (earlier_id := await new_charge.charge_made_by_key(row_request)) is not None:
            return ImportedRow(row, earlier_id, before=True)
        fault = refusal(error.code) if isinstance(error, Refused) else REFUSED[Code.BANK_UNAVAILABLE][0]
        return ImportedRow(row, fault=fault)
    if charge_id is None:
        return ImportedRow(row, fault=" ".join(filled.faults.values()))
    return ImportedRow(row, charge_id)


def _upload_form(request: PageRequest, fault: str = "") -> Response[Any]:
    values: dict[str, object] = {
        "fault": fault,
        "columns": COLUMNS,
        "rows_max": ROWS_MAX,
        "kilobytes_max": BYTES_MAX // 1024,
        "waiting": not request.test and request.session.kyc != "approved",
    }
    return request.show("import.html", values, status=400 if fault else 200)
