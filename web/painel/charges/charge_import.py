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
from readmodels.charges.conditions import told_conditions
from readmodels.dashboard.overview import made_of
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
BEGUN_WITHIN_S: Final = 30.0
"""Rows not begun within this time are left for the next submission: a silent bank delays each row."""
_NAMES: Final = {field: column for column, field in COLUMNS.items()}
# Faults for cells whose field is a list in the form: a sheet offers no list to choose from.
_OPTIONS: Final = {
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
    return _form(request)


async def create(request: PageRequest) -> Response[Any]:
    """Answers the sheet with the faults of each row; when its box is ticked, creates the charges."""
    raw = _raw(request)
    if raw is None:
        return _form(request, "Escolha um arquivo .xlsx ou CSV.")
    if is_workbook(raw):
        request.spend("files_per_min")
    try:
        async with request.file_turn():
            rows = await asyncio.to_thread(read_sheet, raw)
    except SheetFault as fault:
        return _form(request, str(fault))
    checked = [await _checked(request, row) for row in rows]
    wrong = sum(bool(each.faults) for each in checked)
    if not wrong:
        checked = await _recognized(request, checked)
    if wrong or request.field("sure") != "yes":
        new = [each for each in checked if each.before is None]
        values = {
            "checked": checked,
            "wrong": wrong,
            "cents": sum(each.cents for each in checked),
            "new": len(new),
            "new_cents": sum(each.cents for each in new),
            "sheet": b64encode(raw).decode(),
            "again": new_id(),
            "sure_fault": "Confirme que quer criar." if request.field("confirmed") and not wrong else "",
            "waiting": not request.test and request.session.kyc != "approved",
        }
        return request.show("import_preview.html", values, status=400 if wrong or values["sure_fault"] else 200)
    if not is_workbook(raw):
        request.spend("files_per_min")
    until = asyncio.get_running_loop().time() + BEGUN_WITHIN_S
    room = asyncio.Semaphore(TOGETHER)

    # The id of the page that confirmed, also carried by later pages that ask for the missing rows: under it each row
    # that had a charge already creates one more, once.
    again = parse_id(request.field("again"))

    async def made(each: CheckedRow) -> ImportedRow:
        if each.before is not None and again is None:
            return ImportedRow(each.row, each.before, before=True)
        async with room:
            if asyncio.get_running_loop().time() > until:
                return ImportedRow(each.row, fault=_NOT_BEGUN)
            return await _make(each.row, _part(request, each, again=None if each.before is None else again))

    ended = await asyncio.gather(*map(made, checked))
    values = {
        "ended": ended,
        "made": sum(not each.fault for each in ended),
        "sheet": b64encode(raw).decode(),
        "again": again,
    }
    return request.show("import_made.html", values)


def _raw(request: PageRequest) -> bytes | None:
    """Returns the uploaded file or, from the page that confirms, the file that the page carries as base64."""
    if sheet := request.field("sheet"):
        try:
            return b64decode(sheet, validate=True)
        except ValueError:  # binascii.Error is a ValueError; text that is not ASCII raises ValueError itself
            return None
    return request.files.get("file") or None


def _part(request: PageRequest, of: CheckedRow, *, again: UUID | None = None) -> PageRequest:
    """Returns a request for this row, with the row's fields as the form. Its key is derived from the row or, when the
    row is created once more, also from the page that asked for that."""
    key = uuid5(again or request.session.account_id, of.name)
    return request.part(of.name, of.row.fields, key=key)


async def _recognized(request: PageRequest, checked: Sequence[CheckedRow]) -> list[CheckedRow]:
    """Returns the rows with their names, and with the charges that they created before."""
    times: Counter[bytes] = Counter()
    named = []
    for each in checked:
        times[each.asks] += 1
        # A keyed fingerprint: the row has the payer's data, and the key of the charge stays when these are erased.
        name = f"{request.mode} {request.seal.blind(each.asks.decode())} {times[each.asks]}"
        named.append(replace(each, name=name))
    keys = [_part(request, each).key for each in named]
    async with session(request.pool) as conn:
        found = await made_of(conn, account_id=request.session.account_id, test=request.test, keys=keys)
    made = {each.key: each.resource_id for each in found}
    return [replace(each, before=made.get(key)) for each, key in zip(named, keys, strict=True)]


async def _checked(request: PageRequest, row: SheetRow) -> CheckedRow:
    part = request.part(str(row.number), row.fields)
    filled = Filled(part)
    asked: new_charge.PixFields | new_charge.BoletoFields | None = None
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
        asked = new_charge.read_pix(part, filled)
    else:
        for name, of in IN_REAIS.items():
            if row.fields[name]:
                filled.wrong(name, f"Preencha esta coluna ou {_NAMES[of]}, não as duas.")
        asked = boleto = new_charge.read_boleto(part, filled)
        due_on = boleto.due_on
        if boleto.terms is not None and boleto.amount_cents is not None and due_on is not None:
            conditions = told_conditions(boleto.terms, amount_cents=boleto.amount_cents, due=due_on)
    names = _NAMES | {of: _NAMES[name] for name, of in IN_REAIS.items() if row.fields[f"{of}_kind"] == "amount"}
    faults = {
        names.get(name, name): _OPTIONS.get(name, fault) if fault == NO_OPTION else fault
        for name, fault in filled.faults.items()
    }
    cents = 0 if asked is None else asked.amount_cents or 0
    return CheckedRow(row, cents, faults, msgspec.json.encode(asked), due_on, conditions)


async def _make(row: SheetRow, part: PageRequest) -> ImportedRow:
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
