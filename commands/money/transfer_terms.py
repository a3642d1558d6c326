"""The facts that decide about the transfers of one batch of refunds (domain/refund.py): payers, approvals, and the
day's sums.

The accounts are locked before any charge. So when several processes begin refunds of one account at once, each refund
is decided on the sum that includes the others.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.charge import Charge
from domain.instants import day_of
from domain.refund import Refund, TransferTerms
from sql import Connection


class _Account(Struct, frozen=True, gc=False):
    account_id: UUID
    approved: bool


class _Payer(Struct, frozen=True, gc=False):
    charge_id: UUID
    document_hash: str | None
    freed: bool


class _Transferred(Struct, frozen=True, gc=False):
    account_id: UUID
    cents: int


hold_accounts = sql.many("refund.hold_accounts", _Account)
find_payers = sql.many("refund.payers", _Payer)
find_transferred = sql.many("refund.transferred", _Transferred)


class TransferLedger:
    """The terms of each transfer, including the sums of the transfers decided before it in the batch."""

    def __init__(self, *, cents_max: int) -> None:
        """`cents_max` is the sum that an account's transfers may reach in a day without a release by staff."""
        self._cents_max = cents_max
        self._approved: set[UUID] = set()
        self._sent_cents: dict[UUID, int] = {}
        self._payers: dict[UUID, _Payer] = {}

    async def hold(self, conn: Connection, account_ids: Sequence[UUID], *, now: datetime) -> None:
        """Lock these production accounts until the transaction ends, before any charge is locked, and read the sums
        that they have transferred on this day."""
        if not account_ids:
            return
        locked_ids = sorted(set(account_ids))
        held = await hold_accounts(conn, account_ids=locked_ids)
        self._approved = {each.account_id for each in held if each.approved}
        day = day_of(now)
        sent = await find_transferred(conn, account_ids=locked_ids, day=day)
        self._sent_cents = {each.account_id: each.cents for each in sent}

    async def read_payers(self, conn: Connection, charge_ids: Sequence[UUID]) -> None:
        """Read the payers of these charges, which the transaction has locked."""
        if charge_ids:
            self._payers = {
                each.charge_id: each for each in await find_payers(conn, charge_ids=sorted(set(charge_ids)))
            }

    def terms(self, charge: Charge) -> TransferTerms:
        payer = self._payers.get(charge.charge_id)
        return TransferTerms(
            payer_document_hash=None if payer is None else payer.document_hash,
            freed=payer is not None and payer.freed,
            approved=charge.account_id in self._approved,
            sent_cents=self._sent_cents.get(charge.account_id, 0),
            sent_cents_max=self._cents_max,
        )

    def count(self, refund: Refund) -> None:
        if refund.transfer_day is not None:
            sent_cents = self._sent_cents.get(refund.account_id, 0)
            self._sent_cents[refund.account_id] = sent_cents + refund.amount_cents
