"""What decides about the transfers of one batch of refunds (domain/refund.py): payers, registrations, the day's sums.

The accounts are locked before any charge is. So of an account's refunds that are asked for at once, in whatever
processes, each is decided knowing what the others send.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from domain.charge import Charge
from domain.instants import SAO_PAULO
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
    """The terms of each transfer as those before it leave them."""

    def __init__(self, *, cents_max: int) -> None:
        """`cents_max`: what transfers of an account may come to in a day with nobody looking at them."""
        self._cents_max = cents_max
        self._approved: set[UUID] = set()
        self._sent_cents: dict[UUID, int] = {}
        self._payers: dict[UUID, _Payer] = {}

    async def hold(self, conn: Connection, account_ids: Sequence[UUID], *, now: datetime) -> None:
        """Lock these accounts of production until the transaction ends, before any charge, and see what they have sent
        on this day."""
        if not account_ids:
            return
        ordered = sorted(set(account_ids))
        held = await hold_accounts(conn, account_ids=ordered)
        self._approved = {each.account_id for each in held if each.approved}
        day = now.astimezone(SAO_PAULO).date()
        sent = await find_transferred(conn, account_ids=ordered, day=day)
        self._sent_cents = {each.account_id: each.cents for each in sent}

    async def read_payers(self, conn: Connection, charge_ids: Sequence[UUID]) -> None:
        """Of charges that are locked."""
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
            before = self._sent_cents.get(refund.account_id, 0)
            self._sent_cents[refund.account_id] = before + refund.amount_cents
