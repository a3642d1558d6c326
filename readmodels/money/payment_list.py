"""Payments received, page by page, by the instant they were paid."""

from datetime import UTC, datetime
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from domain.mode import Owner
from domain.money import reais
from readmodels.charges.charge import Payer, PaymentDoc, open_payer
from readmodels.page import SortOrder, cut
from runtime.seal import Seal
from sql import Connection

_BEGINNING = datetime(1, 1, 2, tzinfo=UTC)
_END = datetime(9999, 12, 30, tzinfo=UTC)


class PaymentFilters(Struct, frozen=True, kw_only=True):
    paid_from: datetime | None = None
    paid_to: datetime | None = None
    charge_id: UUID | None = None
    external_id: str | None = None
    method: str | None = None
    anomaly: str | None = None
    order: SortOrder = SortOrder.DESC


class PaymentPosition(Struct, frozen=True, array_like=True):
    paid_at: datetime
    payment_id: UUID


class _Row(Struct, frozen=True, gc=False):
    payment_id: UUID
    paid_at: datetime
    doc: bytes


class PaymentItem(Struct, frozen=True, gc=False, kw_only=True):
    """The payment block and what it belongs to (contract section 7). `refunded_amount`: refunds that succeeded."""

    payment_id: str
    charge_id: str
    external_id: str | None
    account_id: str
    payment_method: str
    method: str
    amount: str
    fee: str
    net_amount: str
    paid_at: str
    credited_at: str
    end_to_end_id: str | None
    txid: str | None
    nosso_numero: str | None
    integrador_code: str | None
    payer: Payer
    interest: str
    fine: str
    discount: str
    late: bool
    refunded_amount: str
    anomaly: str | None
    test: bool


_PAGE = {
    (path, order): sql.many(f"read_payment.{path}_{order.value}", _Row)
    for path in ("page", "by_charge", "by_reference", "by_method", "by_anomaly")
    for order in SortOrder
}
_read = msgspec.json.Decoder(PaymentDoc).decode


async def payment_page(
    conn: Connection,
    owner: Owner,
    filters: PaymentFilters,
    after: PaymentPosition | None,
    limit: int,
    *,
    seal: Seal,
) -> tuple[list[PaymentItem], PaymentPosition | None]:
    """One page in the order (paid_at, payment_id), and where the next one begins."""
    ascending = filters.order is SortOrder.ASC
    rows, last = cut(
        await _PAGE[_path(filters), filters.order](
            conn,
            account_id=owner.account_id,
            test=owner.test,
            charge_id=filters.charge_id,
            external_id=filters.external_id,
            method=filters.method,
            anomaly=filters.anomaly,
            paid_from=filters.paid_from or _BEGINNING,
            paid_to=filters.paid_to or _END,
            at=after.paid_at if after else (_BEGINNING if ascending else _END),
            id=after.payment_id if after else UUID(int=0 if ascending else 2**128 - 1),
            most=limit + 1,
        ),
        limit,
    )
    items = [_present(_read(row.doc), owner, seal) for row in rows]
    return items, PaymentPosition(last.paid_at, last.payment_id) if last else None


def _path(filters: PaymentFilters) -> str:
    if filters.charge_id is not None:
        return "by_charge"
    if filters.external_id is not None:
        return "by_reference"
    if filters.anomaly is not None:
        return "by_anomaly"
    return "by_method" if filters.method is not None else "page"


def _present(doc: PaymentDoc, owner: Owner, seal: Seal) -> PaymentItem:
    return PaymentItem(
        payment_id=doc.payment_id,
        charge_id=doc.charge_id,
        external_id=doc.external_id,
        account_id=str(owner.account_id),
        payment_method=doc.payment_method,
        method=doc.method,
        amount=reais(doc.amount_cents),
        fee=reais(doc.fee_cents),
        net_amount=reais(doc.amount_cents - doc.fee_cents),
        paid_at=doc.paid_at,
        credited_at=doc.credited_at,
        end_to_end_id=doc.end_to_end_id,
        txid=doc.txid,
        nosso_numero=doc.nosso_numero,
        integrador_code=doc.integrador_code,
        payer=open_payer(doc, seal),
        interest=reais(doc.interest_cents),
        fine=reais(doc.fine_cents),
        discount=reais(doc.discount_cents),
        late=doc.late,
        refunded_amount=reais(doc.refunded_cents),
        anomaly=doc.anomaly,
        test=owner.test,
    )
