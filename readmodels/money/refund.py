"""A refund as it is read: the document stored in read_refund, and the API's answer (contract section 11)."""

from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.mode import Owner
from domain.money import reais
from domain.refund import refundable_cents
from sql import Connection


class RefundDoc(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A refund as stored in read_refund.doc and, at its beginning, in the journal: cents and ISO instants."""

    refund_id: str
    charge_id: str
    payment_id: str
    test: bool
    amount_cents: int
    status: str
    way: str
    """`return` (devolucao of the PIX received) or `transfer` (a PIX to the given destination)."""
    held: bool = False
    """Whether the refund is, or was, held for staff to check before the bank is asked."""
    reason: str | None = None
    description: str | None = None
    external_id: str | None = None
    end_to_end_id: str | None = None
    return_id: str | None = None
    failure_code: str | None = None
    created_at: str
    completed_at: str | None = None


class RefundProjection(Struct, frozen=True, gc=False, kw_only=True):
    """A refund. `refunded_total` and `refundable_remaining` describe its payment as it is now; pending refunds count as
    refunded until the bank refuses them. `end_to_end_id` is that of the PIX being returned or, when a boleto was paid
    by its linha digitável, of the PIX sent to the destination; `return_id` is that of the devolução."""

    refund_id: str
    charge_id: str
    payment_id: str
    amount: str
    status: str
    reason: str | None
    description: str | None
    external_id: str | None
    end_to_end_id: str | None
    return_id: str | None
    failure_code: str | None
    refunded_total: str
    refundable_remaining: str
    created_at: str
    completed_at: str | None
    test: bool
    held: bool


class RefundRow(Struct, frozen=True, gc=False):
    """A refund, in the order in which refunds were requested, and the amounts of its payment as they are now."""

    at: datetime
    id: UUID
    doc: bytes
    paid_cents: int
    refunded_cents: int
    refunding_cents: int
    reversed_cents: int


find_refund = sql.maybe("read_refund.find", RefundRow)
read_refund_doc = msgspec.json.Decoder(RefundDoc).decode


async def refund_by_id(conn: Connection, refund_id: UUID, owner: Owner) -> RefundProjection | None:
    """The refund, or None when the account has no such refund in that mode."""
    row = await find_refund(conn, refund_id=refund_id, account_id=owner.account_id, test=owner.test)
    return None if row is None else present_refund(row)


def present_refund(row: RefundRow) -> RefundProjection:
    refunded_total_cents = row.refunded_cents + row.refunding_cents
    return project_refund(
        read_refund_doc(row.doc),
        refunded_total_cents=refunded_total_cents,
        remaining_cents=refundable_cents(row.paid_cents, refunded_total_cents, reversed_cents=row.reversed_cents),
    )


def project_refund(doc: RefundDoc, *, refunded_total_cents: int, remaining_cents: int) -> RefundProjection:
    return RefundProjection(
        refund_id=doc.refund_id,
        charge_id=doc.charge_id,
        payment_id=doc.payment_id,
        amount=reais(doc.amount_cents),
        status=doc.status,
        reason=doc.reason,
        description=doc.description,
        external_id=doc.external_id,
        end_to_end_id=doc.end_to_end_id,
        return_id=doc.return_id,
        failure_code=doc.failure_code,
        refunded_total=reais(refunded_total_cents),
        refundable_remaining=reais(remaining_cents),
        created_at=doc.created_at,
        completed_at=doc.completed_at,
        test=doc.test,
        held=doc.held,
    )
