"""Store what was decided of refunds: their rows, and what of their payments and charges is back or on its way.

All of it belongs to charges that the transaction has locked.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

import sql
from commands.money.partner_shares import RefundedShare, take_shares_back
from domain.refund import RefundStatus
from sql import Connection

if TYPE_CHECKING:
    from commands.charges.change import ChargeChange

insert_refunds = sql.run("refund.insert")
end_refunds = sql.run("refund.end")
store_funds = sql.run("refund.store_funds")
store_refunded = sql.run("refund.store_refunded")
_encode = msgspec.json.Encoder().encode


async def store_refunds(conn: Connection, changes: Sequence[ChargeChange], *, now: datetime) -> None:
    """Steps come in order; of a payment or charge that stands in several, the last one tells how it is now.

    What a partner was given of a payment is taken back when money of it is back, not when it is asked for.
    """
    if not changes:
        return
    refunds = [change.refund for change in changes if change.refund is not None]
    begun = [refund for refund in refunds if refund.status == RefundStatus.PENDING]
    if begun:
        await insert_refunds(conn, items=[_encode(refund) for refund in begun])
    ended = [refund for refund in refunds if refund.status != RefundStatus.PENDING]
    if ended:
        await end_refunds(
            conn,
            refund_ids=[refund.refund_id for refund in ended],
            account_ids=[refund.account_id for refund in ended],
            statuses=[refund.status for refund in ended],
        )
    funds = list({change.fund.payment_id: change.fund for change in changes if change.fund is not None}.values())
    await store_funds(
        conn,
        payment_ids=[fund.payment_id for fund in funds],
        account_ids=[fund.account_id for fund in funds],
        refunded_cents=[fund.refunded_cents for fund in funds],
        refunding_cents=[fund.refunding_cents for fund in funds],
    )
    charges = list({change.charge.charge_id: change.charge for change in changes}.values())
    if ended:
        await store_refunded(
            conn,
            charge_ids=[charge.charge_id for charge in charges],
            account_ids=[charge.account_id for charge in charges],
            refunded_cents=[charge.refunded_cents for charge in charges],
        )
        await take_shares_back(conn, [back for change in changes if (back := _back(change)) is not None], now=now)


def _back(change: ChargeChange) -> RefundedShare | None:
    refund, fund = change.refund, change.fund
    if refund is None or fund is None or refund.status != RefundStatus.SUCCEEDED:
        return None
    return RefundedShare(
        refund.account_id, refund.payment_id, refund.refund_id, refund.amount_cents, refunded_cents=fund.refunded_cents
    )
