"""Payments received, page by page, in the order of paid_at."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Struct, structs

import sql
from domain.charge import Anomaly
from domain.mode import Owner
from readmodels.charges.charge import Payer, PaymentDoc, present_payment
from readmodels.filters import OneOf
from readmodels.page import BEGINNING, END, DocRow, ListFilters, TimePosition, time_page
from readmodels.spans import totals_are_fresh
from runtime.seal import Seal
from sql import Connection

METHODS = ("pix", "boleto")
ANOMALIES = tuple(each.value for each in Anomaly)


class PaymentFilters(ListFilters, frozen=True, kw_only=True):
    paid_from: datetime | None = None
    paid_to: datetime | None = None
    charge_id: UUID | None = None
    external_id: str | None = None
    method: Annotated[str | None, OneOf(METHODS)] = None
    anomaly: Annotated[str | None, OneOf(ANOMALIES)] = None


class PaymentItem(Struct, frozen=True, gc=False, kw_only=True):
    """A payment and the charge that it belongs to (contract section 7). `refunded_amount` counts refunds that
    succeeded."""

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


class PaymentSum(Struct, frozen=True, gc=False):
    """The number of payments, the sum of their amounts, and the sum of their fees."""

    count: int
    cents: int
    fee_cents: int

    @property
    def net_cents(self) -> int:
        return self.cents - self.fee_cents


_page = sql.list_of("read_payment.page", DocRow)
_sum = sql.list_of("read_payment.sum", PaymentSum)
_sum_from_totals = sql.one("read_payment.sum_of_all", PaymentSum)
_read_payment_doc = msgspec.json.Decoder(PaymentDoc).decode


async def payment_page(
    conn: Connection,
    owner: Owner,
    filters: PaymentFilters,
    after: TimePosition | None,
    limit: int,
    *,
    seal: Seal,
) -> tuple[list[PaymentItem], TimePosition | None]:
    """One page in the order (paid_at, payment_id), and the position after which the next page begins."""
    rows, last = await time_page(
        _page, conn, filters.order, after, limit,
        since=filters.paid_from, before=filters.paid_to, **_filter_parameters(owner, filters),
    )  # fmt: skip
    return [read_payment(row.doc, owner, seal) for row in rows], last


async def payment_sum(conn: Connection, owner: Owner, filters: PaymentFilters) -> PaymentSum:
    """The sum of the payments that the filters select. Totals are stored by the day of the credit, not of the payment.
    So with a range of paid_at, or any filter but `method`, the sum adds up single payments."""
    narrowing = (filters.paid_from, filters.paid_to, filters.charge_id, filters.external_id, filters.anomaly)
    if not owner.test and all(each is None for each in narrowing) and await totals_are_fresh(conn):
        methods = METHODS if filters.method is None else (filters.method,)
        return await _sum_from_totals(conn, account_id=owner.account_id, methods=methods)
    (total,) = await _sum(conn, **_filter_parameters(owner, filters))
    return total


def _filter_parameters(owner: Owner, filters: PaymentFilters) -> dict[str, object]:
    return {
        "account_id": owner.account_id,
        "test": owner.test,
        "charge_id": filters.charge_id,
        "external_id": filters.external_id,
        "method": filters.method,
        "anomaly": filters.anomaly,
        "paid_from": filters.paid_from or BEGINNING,
        "paid_to": filters.paid_to or END,
    }


def read_payment(document: bytes, owner: Owner, seal: Seal) -> PaymentItem:
    """One of the account's payments as the list shows it; `document` is as in payment_view."""
    doc = _read_payment_doc(document)
    return PaymentItem(
        **structs.asdict(present_payment(doc, seal)),
        charge_id=doc.charge_id,
        external_id=doc.external_id,
        account_id=str(owner.account_id),
        payment_method=doc.payment_method,
        txid=doc.txid,
        nosso_numero=doc.nosso_numero,
        integrador_code=doc.integrador_code,
        anomaly=doc.anomaly,
        test=owner.test,
    )
