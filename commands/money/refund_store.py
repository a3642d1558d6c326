"""Store the decided changes of refunds: their rows, and the refunded and pending sums of their payments and charges.

The transaction has locked the charges concerned.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

import sql
from commands.money.partner_shares import RefundedShare, take_shares_back
from domain.charge import Charge
from domain.instants import iso
from domain.refund import Refund, RefundablePayment, RefundStatus
from sql import Connection


class RefundChange(Struct, frozen=True, gc=False):
    """A refund and its payment after the change, and the refund's document: the whole document when the refund begins,
    afterwards its changed fields."""

    refund: Refund
    fund: RefundablePayment
    fields: dict[str, Any]


insert_refunds = sql.run("refund.insert")
end_refunds = sql.run("refund.end")
store_funds = sql.run("refund.store_funds")
store_refunded = sql.run("refund.store_refunded")
_encode = msgspec.json.Encoder().encode


async def store_refunds(conn: Connection, changes: Sequence[tuple[Charge, RefundChange]], *, now: datetime) -> None:
    """Store the changes, each with its charge. Of a payment or charge in several changes, the last state is stored.

    A partner's share is taken back when a refund has succeeded, not when the refund is requested.
    """
    if not changes:
        return
    refunds = [change.refund for _, change in changes]
    begun = [refund for refund in refunds if refund.status == RefundStatus.PENDING]
    if begun:
        await insert_refunds(conn, items=[_encode(refund) for refund in begun])
    funds = list({change.fund.payment_id: change.fund for _, change in changes}.values())
    await store_funds(conn, funds=funds)
    ended = [refund for refund in refunds if refund.status != RefundStatus.PENDING]
    if not ended:
        return
    await end_refunds(conn, ended=ended)
    charges = list({charge.charge_id: charge for charge, _ in changes}.values())
    await store_refunded(conn, charges=charges)
    taken_back = [
        RefundedShare(
            change.refund.account_id,
            change.refund.payment_id,
            change.refund.refund_id,
            change.refund.amount_cents,
            refunded_cents=change.fund.refunded_cents + change.fund.reversed_cents,
        )
        for _, change in changes
        if change.refund.status == RefundStatus.SUCCEEDED
    ]
    await take_shares_back(conn, taken_back, now=now)


def fund_fields(fund: RefundablePayment) -> dict[str, Any]:
    """Returns the refund fields of a payment's document, with the key by which the projection finds its read row."""
    return {
        "payment_id": fund.payment_id,
        "paid_at": iso(fund.paid_at),
        "refunded_cents": fund.refunded_cents,
        "refunding_cents": fund.refunding_cents,
    }
