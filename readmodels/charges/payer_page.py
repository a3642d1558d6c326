"""The payer's view of a charge, found by the public id in the link.

One row serves the page and the fragment that replaces its middle; a short statement serves the state that open pages
poll.
"""

import re
from datetime import date, datetime

import msgspec
from msgspec import Struct

import sql
from domain.boleto.second_copy import may_be_asked
from domain.boleto.terms import AmountDue, PaymentTerms, amount_due
from domain.charge import Anomaly, Status
from domain.instants import day_of
from domain.sandbox_clock import on_clock
from readmodels.documents.logo import LogoOnPage
from runtime.postgres import Connection

# page_token makes 22 of these characters. Any other text is not one of our links and is not sent to PostgreSQL, which
# would answer NUL and lone surrogates with an error.
_PUBLIC_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


# The word by which `by_public_id` marks an anomalous payment that settled its charge: more was paid than asked.
_EXCESS = "excess"


class SettledView(Struct, frozen=True):
    """The part of a payment that any holder of the link may see: nothing about the person who paid."""

    amount_cents: int | None = None
    paid_at: datetime | None = None
    end_to_end_id: str | None = None
    nosso_numero: str | None = None
    """Set for a payment of the boleto, by its linha digitavel or by its own PIX QR Code."""
    method: str | None = None
    fine_cents: int = 0
    interest_cents: int = 0
    discount_cents: int = 0


class _Boleto(Struct, frozen=True):
    """The boleto's linha digitavel and barcode as bare digits, and the copy-and-paste code of a hybrid boleto."""

    linha_digitavel: str
    codigo_barras: str
    qr_code: str | None = None


class _PageDoc(Struct, frozen=True):
    """The fields of the charge's document that the page uses; the others are skipped."""

    external_id: str | None = None
    description: str | None = None
    qr_code: str | None = None
    boleto: _Boleto | None = None
    effective_due_date: date | None = None
    terms: PaymentTerms | None = None
    redated: int = 0
    expires_at: datetime | None = None
    pix_expires_at: datetime | None = None
    paid_at: datetime | None = None
    cancelled_at: datetime | None = None
    cancel_reason: str | None = None
    refunded_cents: int = 0
    payment: SettledView | None = None


class _Row(Struct, frozen=True):
    name: str
    document: str
    test: bool
    status: str
    payment_method: str
    amount_cents: int
    due_date: date | None
    version: int
    doc: bytes
    ahead_s: int
    suspended: bool
    contact_phone: str
    contact_whatsapp: bool
    contact_email: str
    logo: bytes | None
    logo_width: int
    logo_height: int
    anomalies: list[str]
    received_cents: int
    asked_times: int
    asked_on: date | None
    answered_by: str | None
    paid_bank: str | None


class SecondCopy(Struct, frozen=True):
    """The second copy of a boleto that can no longer be paid: whether the payer may ask for one now, the day they last
    did, and the public_id of the new charge that the merchant issued in answer."""

    may_be_asked: bool
    asked_on: date | None
    answered_by: str | None


class PayerPage(Struct, frozen=True, kw_only=True):
    """Everything the payer's page shows. Amounts in cents; instants in UTC, on the clock of the charge's account."""

    now: datetime
    merchant: str
    merchant_document: str
    contact_phone: str
    """The merchant's phone for questions, in E.164, or empty. Phone and e-mail of a blocked merchant are empty."""
    contact_whatsapp: bool
    contact_email: str
    logo: LogoOnPage | None
    test: bool
    status: Status
    suspended: bool
    """Whether the charge must not be paid although it is pending, because its merchant is blocked."""
    payment_method: str
    amount_cents: int
    refunded_cents: int
    """Returned of all payments of the charge."""
    received_cents: int
    """The sum of all payments of a charge that is paid or refunded; else 0."""
    due_date: date | None
    effective_due_date: date | None
    """The last day on which the boleto can be paid without fine or interest; later than the due date when banks are
    closed on the due date."""
    terms: PaymentTerms | None
    asked: AmountDue
    """The amount to pay on the day of `now`."""
    redated: int
    version: int
    """As in PageState."""
    external_id: str | None
    description: str | None
    anomaly: Anomaly | None
    """The latest anomaly whose money was not given back: paid twice, after cancellation, or with another amount."""
    excess: bool
    """Whether the anomaly is an excess: the payment settled the charge with more than its amount."""
    qr_code: str | None
    """None also when the PIX has expired although the boleto can still be paid."""
    pix_expires_at: datetime | None
    """When the PIX of a dual charge expires, if it expires before the boleto."""
    linha_digitavel: str | None
    """47 digits."""
    codigo_barras: str | None
    """44 digits."""
    expires_at: datetime | None
    paid_at: datetime | None
    cancelled_at: datetime | None
    cancel_reason: str | None
    payment: SettledView | None
    paid_bank: str | None
    """The COMPE code of the bank that issued the boleto, once the charge is paid."""
    second_copy: SecondCopy | None
    """Only for an expired boleto whose merchant is not blocked; else None."""


class PageState(Struct, frozen=True):
    """The state by which an open page learns whether it is out of date. `version` is the charge's version plus a count
    of the other changes that the page shows (second copies, payments that do not settle the charge), and negative while
    the charge is suspended, so that open pages change."""

    status: Status
    version: int


class _State(Struct, frozen=True):
    public_id: str
    status: str
    version: int
    suspended: bool
    expires_at: datetime | None


def is_public_id(text: str) -> bool:
    return _PUBLIC_ID.fullmatch(text) is not None


_find = sql.maybe("payer_page.by_public_id", _Row)
_find_states = sql.many("payer_page.states", _State)
_doc_decoder = msgspec.json.Decoder(_PageDoc)


async def payer_page(conn: Connection, public_id: str, *, now: datetime) -> PayerPage | None:
    """The charge behind a link as it is at the real instant `now`, or None.

    A pending charge past its expires_at is shown as expired at once, so that nobody is invited to pay it before the
    sweeper has recorded the expiry (contract section 5).
    """
    if not is_public_id(public_id):
        return None
    row = await _find(conn, public_id=public_id)
    if row is None:
        return None
    now = on_clock(now, row.ahead_s)
    doc = _doc_decoder.decode(row.doc)
    status = _status_at(row.status, doc.expires_at, now=now)
    pix_expires_at = doc.pix_expires_at
    if pix_expires_at is not None and doc.expires_at is not None and pix_expires_at >= doc.expires_at:
        pix_expires_at = None
    qr_code = doc.boleto.qr_code if doc.qr_code is None and doc.boleto is not None else doc.qr_code
    suspended = row.suspended and status is Status.PENDING
    if suspended or (pix_expires_at is not None and pix_expires_at <= now):
        qr_code = None
    boleto = None if suspended else doc.boleto
    return PayerPage(
        now=now,
        merchant=row.name,
        merchant_document=row.document,
        contact_phone="" if row.suspended else row.contact_phone,
        contact_whatsapp=row.contact_whatsapp,
        contact_email="" if row.suspended else row.contact_email,
        logo=None if row.logo is None else LogoOnPage(row.logo, row.logo_width, row.logo_height),
        test=row.test,
        status=status,
        suspended=suspended,
        payment_method=row.payment_method,
        amount_cents=row.amount_cents,
        refunded_cents=doc.refunded_cents,
        received_cents=row.received_cents,
        due_date=row.due_date,
        effective_due_date=doc.effective_due_date or row.due_date,
        terms=doc.terms,
        asked=_amount_due_now(row, doc.terms, now=now),
        redated=doc.redated,
        version=-row.version if suspended else row.version,
        external_id=doc.external_id,
        description=doc.description,
        anomaly=_anomaly(row),
        excess=row.anomalies == [_EXCESS],
        qr_code=qr_code,
        pix_expires_at=pix_expires_at,
        linha_digitavel=boleto.linha_digitavel if boleto is not None else None,
        codigo_barras=boleto.codigo_barras if boleto is not None else None,
        expires_at=doc.expires_at,
        paid_at=doc.payment.paid_at if doc.payment and doc.payment.paid_at else doc.paid_at,
        cancelled_at=doc.cancelled_at,
        cancel_reason=doc.cancel_reason,
        payment=doc.payment,
        paid_bank=row.paid_bank,
        second_copy=_second_copy(row, doc, status, now=now),
    )


def _anomaly(row: _Row) -> Anomaly | None:
    if row.anomalies == [_EXCESS]:
        return Anomaly.AMOUNT_MISMATCH
    return Anomaly(row.anomalies[-1]) if row.anomalies else None


def _second_copy(row: _Row, doc: _PageDoc, status: Status, *, now: datetime) -> SecondCopy | None:
    if status is not Status.EXPIRED or doc.boleto is None or row.suspended:
        return None
    today = day_of(now)
    may_ask = row.answered_by is None and may_be_asked(row.asked_on, row.asked_times, today=today)
    return SecondCopy(may_ask, row.asked_on, row.answered_by)


def _amount_due_now(row: _Row, terms: PaymentTerms | None, *, now: datetime) -> AmountDue:
    today = day_of(now)
    return amount_due(terms, amount_cents=row.amount_cents, due=row.due_date or today, on=today)


async def page_states(conn: Connection, public_ids: list[str], *, now: datetime) -> dict[str, PageState]:
    """The state of many links at once, at most a thousand a call; unknown links are left out."""
    rows = await _find_states(conn, public_ids=public_ids)
    return {row.public_id: _page_state(row, now=now) for row in rows}


def _page_state(row: _State, *, now: datetime) -> PageState:
    status = _status_at(row.status, row.expires_at, now=now)
    return PageState(status, -row.version if row.suspended and status is Status.PENDING else row.version)


def _status_at(status: str, expires_at: datetime | None, *, now: datetime) -> Status:
    stored = Status(status)
    return Status.EXPIRED if stored is Status.PENDING and expires_at is not None and expires_at <= now else stored
