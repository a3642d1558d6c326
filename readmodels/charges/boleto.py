"""A boleto as it is printed now: found by charge id for its owner, by the public id of the link for its payer.

A boleto can be printed in every status, as a record. A boleto that must not be paid (any more) says so across the page
and carries no linha digitavel, barcode or QR Code: a code on paper will be tried some day, and the payer's bank, not
we, would then decide whether to accept it.
"""

from datetime import date, datetime
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from banks.boletos import BoletoPayer
from banks.choice import agreement_of
from domain.boleto.terms import amount_due, last_day
from domain.brazilian import day
from domain.charge import CancelReason, Status
from domain.instants import day_of, iso, parse_day
from domain.mode import Owner
from domain.sandbox_clock import on_clock
from readmodels.charges.charge import ChargeDoc, read_doc
from readmodels.charges.conditions import printed_conditions
from readmodels.charges.payer_page import is_public_id
from readmodels.documents.boleto_pdf import PrintedBoleto, Void
from readmodels.documents.logo import Logo
from runtime.seal import CHARGE_PAYER, Seal
from runtime.settings import Settings
from sql import Connection

_PAYER_ERASED = "Dados do pagador apagados"


class _Address(Struct, frozen=True, kw_only=True):
    """The column account.address."""

    street: str
    number: str
    district: str
    city: str
    state: str
    zip_code: str


class _Row(Struct, frozen=True):
    doc: bytes
    bank: str
    payer_sealed: bytes | None
    name: str
    document: str
    address: bytes | None
    ahead_s: int
    logo: bytes | None
    logo_width: int
    logo_height: int


_find_of_owner = sql.maybe("boleto_print.of_owner", _Row)
_find_by_public_id = sql.maybe("boleto_print.by_public_id", _Row)
_read_payer = msgspec.json.Decoder(BoletoPayer).decode
_read_address = msgspec.json.Decoder(_Address).decode


async def boleto_to_print(
    conn: Connection, charge_id: UUID, owner: Owner, *, seal: Seal, settings: Settings, now: datetime
) -> PrintedBoleto | None:
    """The owner's boleto as it is at the real instant `now`; None for a charge that is no boleto, or that belongs to
    another owner."""
    row = await _find_of_owner(conn, charge_id=charge_id, account_id=owner.account_id, test=owner.test)
    return None if row is None else _printed_boleto(row, seal, settings, now)


async def boleto_of_link(
    conn: Connection, public_id: str, *, seal: Seal, settings: Settings, now: datetime
) -> PrintedBoleto | None:
    """The boleto behind a payer's link as it is at the real instant `now`; None for an unknown link, or a charge that
    is no boleto."""
    if not is_public_id(public_id):
        return None
    row = await _find_by_public_id(conn, public_id=public_id)
    return None if row is None else _printed_boleto(row, seal, settings, now)


def _printed_boleto(row: _Row, seal: Seal, settings: Settings, now: datetime) -> PrintedBoleto:
    doc = read_doc(row.doc)
    boleto = doc.boleto
    assert boleto is not None, "what has a nosso numero is a boleto"
    assert row.address is not None, "no boleto is made for a merchant without an address (MERCHANT_ADDRESS_REQUIRED)"
    address = _read_address(row.address)
    # No bank registers a boleto without a payer: a missing payer was erased (commands/payers/erase.py).
    payer_json = None if row.payer_sealed is None else seal.opened(row.payer_sealed, CHARGE_PAYER, doc.charge_id)
    payer = None if payer_json is None else _read_payer(payer_json)
    now = on_clock(now, row.ahead_s)
    issued_on, today = _day_of(doc.created_at), day_of(now)
    due = parse_day(boleto.data_vencimento)
    effective_due = due if doc.effective_due_date is None else parse_day(doc.effective_due_date)
    agreement = agreement_of(settings, row.bank)
    return PrintedBoleto(
        beneficiary_name=row.name,
        beneficiary_document=row.document,
        beneficiary_address=_address_line(
            address.street, address.number, address.district, address.city, address.state, address.zip_code
        ),
        logo=None if row.logo is None else Logo(row.logo_width, row.logo_height, row.logo),
        bank_name=agreement.bank_name,
        bank_code=agreement.printed_bank_code,
        agency_code=agreement.printed_account,
        payer_name=_PAYER_ERASED if payer is None else payer.name,
        payer_document="" if payer is None else payer.document,
        payer_address=""
        if payer is None
        else _address_line(payer.street, payer.number, "", payer.city, payer.state, payer.zip_code),
        nosso_numero=agreement.printed_number(boleto.nosso_numero),
        seu_numero=boleto.seu_numero,
        document_date=issued_on,
        processing_date=issued_on,
        due_date=due,
        effective_due_date=effective_due,
        amount_cents=doc.amount_cents,
        asked_cents=amount_due(doc.terms, amount_cents=doc.amount_cents, due=due, on=today).total_cents
        if doc.terms is not None
        else None,
        asked_on=None if doc.terms is None else today,
        line=boleto.linha_digitavel,
        barcode=boleto.codigo_barras,
        # A dual charge's PIX QR Code is printed too, unless it expires before the boleto does.
        qr_code=doc.qr_code if doc.qr_code is not None and doc.pix_expires_at is None else boleto.qr_code,
        # Only the terms registered at the bank.
        instructions=printed_conditions(doc.terms, amount_cents=doc.amount_cents, due=due),
        description=doc.description,
        test=doc.test,
        changed=doc.redated,
        void=_void(doc, last_day(doc.terms, due), now),
        carteira=agreement.carteira,
        file_name=f"boleto-{boleto.nosso_numero}.pdf",
    )


def _void(doc: ChargeDoc, last: date, now: datetime) -> Void | None:
    """Why the boleto must not be paid; None while it may be. A pending boleto past its expires_at counts as expired,
    whether or not the sweeper has recorded that yet."""
    match Status(doc.status):
        case Status.PENDING if not doc.overdue(iso(now)):
            return None
        case Status.PENDING | Status.EXPIRED:
            return Void(
                "VENCIDO", f"Pagável até {day(last)}. Não pode mais ser pago: peça um novo boleto a quem o emitiu."
            )
        case Status.PAID:
            return Void("PAGO", f"Pago{_on_day(doc.paid_at)}. Não pague de novo.")
        case Status.REFUNDED:
            return Void("DEVOLVIDO", "O pagamento deste boleto foi devolvido. Não pague de novo.")
        case Status.CANCELLED if doc.cancel_reason == CancelReason.PAID_EXTERNALLY:
            return Void("CANCELADO", f"Cancelado{_on_day(doc.cancelled_at)}: já foi pago de outra forma. Não pague.")
        case Status.CANCELLED:
            return Void("CANCELADO", f"Cancelado{_on_day(doc.cancelled_at)}. Não pague este boleto.")
        case Status.FAILED:
            return Void("SEM REGISTRO", "O banco não registrou este boleto. Não pague.")


def _on_day(at: str | None) -> str:
    return "" if at is None else f" em {day(_day_of(at))}"


def _day_of(instant: str) -> date:
    return day_of(datetime.fromisoformat(instant))


def _address_line(street: str, number: str, district: str, city: str, state: str, zip_code: str) -> str:
    address = ", ".join(part for part in (street, number, district, f"{city} - {state}") if part)
    return f"{address}, CEP {zip_code[:5]}-{zip_code[5:]}"
