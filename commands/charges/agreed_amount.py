"""The amount due on the day of a payment, and its parts, for charges whose amount depends on the day."""

from collections.abc import Collection
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

import sql
from commands.charges.change import lock_charges
from domain.boleto.business_days import effective_due_date
from domain.boleto.terms import AmountDue, PaymentTerms, amount_due
from domain.instants import day_ends, day_of
from sql import Connection


class Owed(Struct, frozen=True, kw_only=True):
    """The interest, fine and discount within a payment, in cents. `asked_cents` (the amount due) and `late_from` are
    set only for a charge with payment terms, as in domain.charge.Receipt."""

    interest_cents: int = 0
    fine_cents: int = 0
    discount_cents: int = 0
    asked_cents: int | None = None
    late_from: datetime | None = None


class Parts(NamedTuple):
    """The interest, fine and discount within an amount, in cents."""

    interest: int = 0
    fine: int = 0
    discount: int = 0


class Agreed(Struct, frozen=True):
    """The amount, due date and payment terms of a boleto, and of the PIX leg of a dual charge."""

    amount_cents: int
    due_on: date
    terms: PaymentTerms | None

    def on(self, at: datetime) -> AmountDue:
        day = day_of(at)
        return amount_due(self.terms, amount_cents=self.amount_cents, due=self.due_on, on=day)

    def owed(self, paid_cents: int, paid_at: datetime, reported: Parts | None) -> Owed:
        """Returns the parts and the amount due of one payment; `reported` is the parts that the bank reports, None when
        it reports none for this payment.

        The bank has the terms and asked the payer for the money. When the reported parts add up to the amount paid,
        they are what the bank asked for, even where it counts days differently from us. Otherwise (a PIX whose parts
        the bank does not report, several payments in one total, another amount) the payment is compared with the terms.
        """
        if self.terms is None:
            return _owed_from_parts(reported or Parts())
        late_from = day_ends(effective_due_date(self.due_on))
        if (
            reported is not None
            and self.amount_cents + reported.interest + reported.fine - reported.discount == paid_cents
        ):
            return _owed_from_parts(reported, asked_cents=paid_cents, late_from=late_from)
        due = self.on(paid_at)
        parts = Parts(due.interest_cents, due.fine_cents, due.discount_cents)
        # When another amount was paid, nobody can say which part of it is the fine.
        explained = parts if due.total_cents == paid_cents else Parts()
        return _owed_from_parts(explained, asked_cents=due.total_cents, late_from=late_from)


def _owed_from_parts(parts: Parts, *, asked_cents: int | None = None, late_from: datetime | None = None) -> Owed:
    return Owed(
        interest_cents=parts.interest,
        fine_cents=parts.fine,
        discount_cents=parts.discount,
        asked_cents=asked_cents,
        late_from=late_from,
    )


class _AgreedRow(Struct, frozen=True, gc=False):
    charge_id: UUID
    due_on: date
    terms: bytes


_find_agreed = sql.many("boleto.agreed", _AgreedRow)
read_terms = msgspec.json.Decoder(PaymentTerms).decode


async def lock_agreed_amounts(conn: Connection, charge_ids: Collection[UUID]) -> dict[UUID, Agreed]:
    """Lock the charges and return the agreed amounts of those that have terms; the lock keeps them as they are until
    the transaction ends."""
    if not charge_ids:
        return {}
    charges = {each.charge_id: each for each in await lock_charges(conn, charge_ids=sorted(charge_ids))}
    return {
        row.charge_id: Agreed(charges[row.charge_id].amount_cents, row.due_on, read_terms(row.terms))
        for row in await _find_agreed(conn, charge_ids=list(charges))
    }
