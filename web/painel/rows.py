"""Rows of lists as templates want them: instants parsed, amounts in cents, names in Portuguese."""

from collections.abc import Sequence
from datetime import date, datetime
from uuid import UUID

from msgspec import Struct

from domain.brazilian import short_id
from domain.instants import parse_day
from domain.money import parse_amount
from readmodels.charges.charge import ChargeDoc, charges_by_id
from readmodels.dashboard.charge import payers_of
from readmodels.money.ledger import LedgerItem
from readmodels.money.payment_list import PaymentItem
from readmodels.money.refund import RefundProjection
from readmodels.reports.csv_lines import Cents
from sql import Connection
from web.painel.labels import ANOMALIES, ENTRY_TYPES, METHODS, REFUND_FAILURES, REFUND_STATES, STATUS
from web.painel.page_request import PageRequest

_CENTS_MAX = 10**15


class ChargeRow(Struct, frozen=True):
    link: str
    charge_id: str
    status: str
    status_text: str
    method: str
    amount_cents: int
    reference: str
    """The merchant's own, or what else tells this charge from the others."""
    created_at: datetime
    due_date: date | None
    expires_at: datetime | None


class PaymentRow(Struct, frozen=True):
    link: str
    payment_id: str
    method: str
    amount_cents: int
    refunded_cents: int
    paid_at: datetime
    payer: str
    reference: str
    end_to_end_id: str | None
    anomaly: str | None
    late: bool
    refund_link: str
    """Empty for who may not send it back."""


class EntryRow(Struct, frozen=True):
    """`link` is empty for a line that neither a charge nor a withdrawal caused."""

    link: str
    sequence: int
    type: str
    credit: bool
    amount_cents: int
    balance_cents: int
    negative: bool
    reference: str
    created_at: datetime


class ShownRefund(Struct, frozen=True):
    """`reference` is the refund's own, or what its charge is known by."""

    link: str
    refund_id: str
    charge_id: str
    amount_cents: int
    status: str
    status_text: str
    failure: str
    reason: str
    reference: str
    return_id: str
    created_at: datetime
    completed_at: datetime | None


def charge_row(doc: ChargeDoc, request: PageRequest) -> ChargeRow:
    return ChargeRow(
        link=request.here(f"/cobrancas/{doc.charge_id}"),
        charge_id=doc.charge_id,
        status=doc.status,
        status_text=STATUS[doc.status],
        method=METHODS[doc.payment_method],
        amount_cents=doc.amount_cents,
        reference=doc.external_id or doc.description or doc.nosso_numero or short_id(doc.charge_id),
        created_at=instant(doc.created_at),
        due_date=None if doc.due_date is None else parse_day(doc.due_date),
        expires_at=None if doc.expires_at is None else instant(doc.expires_at),
    )


async def payment_rows(conn: Connection, items: Sequence[PaymentItem], request: PageRequest) -> list[PaymentRow]:
    """Of a page of payments. A bank's receipt of a boleto paid on its line names nobody: then the row shows who was
    to pay, or else the merchant's own reference. The CSV and the charge's page keep to the receipt."""
    nameless = [UUID(item.charge_id) for item in items if not (item.payer.name or item.payer.document)]
    payers = await payers_of(conn, nameless, request.owner, seal=request.seal)
    names = {str(charge_id): payer.name for charge_id, payer in payers.items()}
    return [payment_row(item, names.get(item.charge_id), request) for item in items]


def payment_row(item: PaymentItem, charged: str | None, request: PageRequest) -> PaymentRow:
    """`charged`: the name of who was to pay."""
    return PaymentRow(
        link=request.here(f"/cobrancas/{item.charge_id}"),
        payment_id=item.payment_id,
        method=METHODS[item.method],
        amount_cents=cents(item.amount),
        refunded_cents=cents(item.refunded_amount),
        paid_at=instant(item.paid_at),
        payer=item.payer.name or item.payer.document or charged or item.external_id or "Ver cobrança",
        reference=item.external_id or item.nosso_numero or short_id(item.charge_id),
        end_to_end_id=item.end_to_end_id,
        anomaly=None if item.anomaly is None else ANOMALIES[item.anomaly],
        late=item.late,
        refund_link=(
            request.here(f"/cobrancas/{item.charge_id}/devolver?payment_id={item.payment_id}")
            if request.may(f"GET {request.here('/cobrancas/{charge_id:str}/devolver')}")
            else ""
        ),
    )


def entry_row(item: LedgerItem, request: PageRequest) -> EntryRow:
    link, known_by = "", item.charge_id or item.withdrawal_id
    if item.charge_id is not None:
        link = request.here(f"/cobrancas/{item.charge_id}")
    elif item.withdrawal_id is not None:
        link = request.here("/saques")
    return EntryRow(
        link=link,
        sequence=item.sequence,
        type=ENTRY_TYPES[item.type],
        credit=item.direction == "credit",
        amount_cents=cents(item.amount),
        balance_cents=cents(item.balance_after.removeprefix("-")),
        negative=item.balance_after.startswith("-"),
        reference=item.external_id or ("" if known_by is None else short_id(known_by)),
        created_at=instant(item.created_at),
    )


async def refund_rows(conn: Connection, items: Sequence[RefundProjection], request: PageRequest) -> list[ShownRefund]:
    """Of a page of refunds. One that was given no reference goes by its charge's: that is what a merchant knows."""
    docs = await charges_by_id(conn, [(UUID(item.charge_id), request.owner) for item in items])
    charged = {doc.charge_id: charge_row(doc, request).reference for doc in docs if doc is not None}
    return [refund_row(item, request, charged.get(item.charge_id, "")) for item in items]


def refund_row(item: RefundProjection, request: PageRequest, charged: str = "") -> ShownRefund:
    """`charged`: what the charge is known by."""
    failure = item.failure_code or ""
    return ShownRefund(
        link=request.here(f"/cobrancas/{item.charge_id}"),
        refund_id=item.refund_id,
        charge_id=item.charge_id,
        amount_cents=cents(item.amount),
        status=item.status,
        status_text=REFUND_STATES[item.status],
        failure=REFUND_FAILURES.get(failure, failure),
        reason=item.reason or "",
        reference=item.external_id or charged or short_id(item.charge_id),
        return_id=item.return_id or item.end_to_end_id or "",
        created_at=instant(item.created_at),
        completed_at=None if item.completed_at is None else instant(item.completed_at),
    )


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def signed(text: str) -> Cents:
    """Of a balance, which may be negative."""
    return Cents(-cents(text[1:]) if text.startswith("-") else cents(text))


def cents(text: str) -> int:
    """Of an amount as the read models write it; 0.00 is one."""
    return 0 if text == "0.00" else parse_amount(text, cents_max=_CENTS_MAX)
