"""What a payer sees of a charge, by the public id in the link he was sent.

The same row serves the page, the fragment that replaces its middle, and the small answer a page polls.
"""

import re
from datetime import date, datetime

import msgspec
from msgspec import Struct

import sql
from domain.charge import Status
from runtime.postgres import Connection

# new_token gives 22 of these. Anything else is no link of ours and is not worth a question to PostgreSQL,
# which would also refuse NUL and lone surrogates with an error.
_PUBLIC_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class Paid(Struct, frozen=True):
    """The part of a payment that may be shown to whoever has the link: nothing about the person who paid."""

    amount_cents: int | None = None
    paid_at: datetime | None = None
    end_to_end_id: str | None = None
    method: str | None = None


class _Told(Struct, frozen=True):
    """The fields of read_charge.doc that the page uses; the others are skipped."""

    description: str | None = None
    qr_code: str | None = None
    linha_digitavel: str | None = None
    expires_at: datetime | None = None
    paid_at: datetime | None = None
    cancelled_at: datetime | None = None
    cancel_reason: str | None = None
    refunded_cents: int = 0
    payment: Paid | None = None


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


class PayerPage(Struct, frozen=True, kw_only=True):
    """Amounts in cents, instants in UTC."""

    merchant: str
    merchant_document: str
    test: bool
    status: Status
    payment_method: str
    amount_cents: int
    refunded_cents: int
    due_date: date | None
    version: int
    description: str | None
    qr_code: str | None
    linha_digitavel: str | None
    expires_at: datetime | None
    paid_at: datetime | None
    cancelled_at: datetime | None
    cancel_reason: str | None
    payment: Paid | None


_find = sql.maybe("payer_page.by_public_id", _Row)
_told = msgspec.json.Decoder(_Told)


async def payer_page(conn: Connection, public_id: str, *, now: datetime) -> PayerPage | None:
    """The charge behind a link as it stands at `now`, or None.

    A pending charge whose time has passed is already shown as expired: nobody is invited to pay it
    while the sweeper is on its way (contract section 5).
    """
    if not _PUBLIC_ID.fullmatch(public_id):
        return None
    row = await _find(conn, public_id=public_id)
    if row is None:
        return None
    told = _told.decode(row.doc)
    status = Status(row.status)
    if status is Status.PENDING and told.expires_at is not None and told.expires_at <= now:
        status = Status.EXPIRED
    return PayerPage(
        merchant=row.name,
        merchant_document=row.document,
        test=row.test,
        status=status,
        payment_method=row.payment_method,
        amount_cents=row.amount_cents,
        refunded_cents=told.refunded_cents,
        due_date=row.due_date,
        version=row.version,
        description=told.description,
        qr_code=told.qr_code,
        linha_digitavel=told.linha_digitavel,
        expires_at=told.expires_at,
        paid_at=told.payment.paid_at if told.payment and told.payment.paid_at else told.paid_at,
        cancelled_at=told.cancelled_at,
        cancel_reason=told.cancel_reason,
        payment=told.payment,
    )
