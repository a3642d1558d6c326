"""Orders about boletos, as the door writes them, waits for them and gives them up; and how they are put right."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from msgspec import Struct

import sql
from sql import Connection

WRITE_OFF = "boleto_write_off"
REDATE = "boleto_redate"
PAY = "boleto_pay"
REGISTER = "boleto_register"
ALIGN = "boleto_align"
"""Make the bank's books equal ours, after an answer that never came."""

CLOSE = b'{"after": "pix_paid", "request": {}}'
"""The request of an order to write a boleto off because its charge was settled, or has ended, by its PIX leg: it makes
the bank's books equal ours. When a change of the boleto is under way, that change's end sees to it instead."""


class WriteOff(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The request of an order to write a boleto off and cancel its charge, or in the sandbox to have it `fail`."""

    reason: str
    fail: bool = False
    actor: str
    request_id: str | None = None
    scenario: str | None = None
    realign: bool = False


class Redate(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The request of an order to change a boleto's due date (`YYYY-MM-DD`)."""

    due_date: str
    actor: str
    request_id: str | None = None
    scenario: str | None = None
    realign: bool = False


class Pay(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The request of an order to be the sandbox's payer: the boleto's whole amount, once, now, unless said otherwise.

    `force`: the money was on its way, whatever has become of the boleto.
    """

    actor: str
    request_id: str | None = None
    amount_cents: int | None = None
    paid_at: datetime | None = None
    times: int = 1
    rail: Literal["boleto", "pix"] = "boleto"
    force: bool = False
    scenario: str | None = None


class Outcome(Struct, frozen=True, gc=False, omit_defaults=True):
    """How an order ended. `refused` names a Code of domain/errors.py, or is NUMBER_TAKEN; empty when it was done."""

    refused: str = ""
    retry_after_s: int | None = None


class _Id(Struct, frozen=True):
    order_id: UUID


class _Found(Struct, frozen=True):
    outcome: bytes


class IssuingTerms(Struct, frozen=True):
    """What decides whether an account may issue a boleto."""

    address: bytes | None
    integrator_active: bool


class Number(Struct, frozen=True):
    number: str
    payment_method: str


find_number = sql.maybe("boleto.number_of_charge", Number)
find_terms = sql.maybe("boleto.terms", IssuingTerms)
place_change = sql.maybe("boleto.order_change", _Id)
_give_up = sql.maybe("boleto.give_up", _Id)
_find_outcome = sql.maybe("boleto.outcome", _Found)
put_right = sql.run("boleto.put_right")


async def give_up(
    conn: Connection,
    order_id: UUID,
    *,
    align_id: UUID,
    outcome: bytes,
    now: datetime,
    attempts: int | None = None,
    untouched: int = 0,
    align_at: datetime | None = None,
) -> bool:
    """Abandon an order nobody waits for; False when it has ended meanwhile.

    When the bank may have been asked, an order to put it right is left. A worker names its lease (`attempts`), and as
    `untouched` how many of the attempts never reached the bank.
    """
    given_up = await _give_up(
        conn,
        order_id=order_id,
        align_id=align_id,
        outcome=outcome,
        now=now,
        align_at=align_at or now,
        attempts=attempts,
        untouched=untouched,
    )
    return given_up is not None


async def look(conn: Connection, order_id: UUID) -> bytes | None:
    """The outcome of an order that has ended, else None."""
    found = await _find_outcome(conn, order_id=order_id)
    return None if found is None else found.outcome
