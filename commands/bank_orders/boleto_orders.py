"""Orders about boletos: place them, give them up, find their outcome."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

import sql
from commands.bank_orders.kinds import CLOSE
from sql import Connection


class Outcome(Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of an order. `refused` names a Code of domain/errors.py, or is NUMBER_TAKEN; empty when the order was
    done."""

    refused: str = ""
    retry_after_s: int | None = None


class IssuingTerms(Struct, frozen=True):
    """The facts that decide whether an account may issue a boleto."""

    approved: bool
    address: bytes | None
    integrator_active: bool


class Number(Struct, frozen=True):
    number: str
    payment_method: str


find_number = sql.maybe("boleto.number_of_charge", Number)
find_terms = sql.maybe("boleto.terms", IssuingTerms)
place_change = sql.maybe("boleto.order_change", UUID)
_give_up = sql.maybe("boleto.give_up", UUID)
_find_outcome = sql.maybe("boleto.outcome", bytes)
order_reconciliation = sql.run("boleto.order_reconciliation")


async def give_up(
    conn: Connection,
    order_id: UUID,
    *,
    reconcile_id: UUID,
    outcome: bytes,
    now: datetime,
    attempts: int | None = None,
    untouched: int = 0,
) -> bool:
    """Abandon an order that no request waits for any more; False when it has ended meanwhile.

    When the bank may have been asked, or the charge exists, an order to reconcile is written. A worker identifies its
    lease by `attempts`; `untouched` is the number of attempts that never reached the bank.
    """
    given_up = await _give_up(
        conn,
        order_id=order_id,
        reconcile_id=reconcile_id,
        outcome=outcome,
        now=now,
        attempts=attempts,
        untouched=untouched,
        closing=CLOSE.after,
    )
    return given_up is not None


async def look(conn: Connection, order_id: UUID) -> bytes | None:
    """Returns the outcome of an order that has ended, else None."""
    return await _find_outcome(conn, order_id=order_id)
