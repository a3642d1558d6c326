"""Book what a bank says it received for slips.

A bank tells a slip's total, not its payments: what is new is the total less what was booked, decided under the
charge's lock. A payment is known by its slip and the total it made, so the same news told twice is one payment. A slip
paid twice between two looks is two payments, when that many were announced and the new money is the amount so often.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct

import sql
from banks.slips import SlipState
from commands.change import MOST_WISHES, Outcome, lock_charges
from commands.pay import Confirmation, OfSlip, confirm_payments
from domain.instants import day_begins, day_ends, to_millisecond
from runtime.seal import Seal
from sql import Connection

_INSTANT = timedelta(milliseconds=1)


class _Of(Struct, frozen=True, gc=False):
    number: str
    charge_id: UUID


class _Standing(Struct, frozen=True, gc=False):
    number: str
    charge_id: UUID
    account_id: UUID
    booked_cents: int
    integrador_code: str | None


find_of_numbers = sql.many("slip.of_numbers", _Of)
find_standing = sql.many("slip.standing", _Standing)
carry_over = sql.run("slip.booked")


async def confirm_slips(
    conn: Connection,
    states: Sequence[SlipState],
    *,
    now: datetime,
    seal: Seal,
    actor: str = "bank",
    announced: Mapping[str, int] = {},
) -> dict[str, Outcome]:
    """Book what is new of these slips; the charge as it then stands (or a refusal) for each slip something was booked
    for, by number. Numbers of no slip here are passed over.

    `announced` is how many payments callbacks tell of, by number: it parts money the bank confirmed, and adds none.
    """
    assert len(states) <= MOST_WISHES
    now = to_millisecond(now)
    received = {state.number: state for state in states if state.paid_cents > 0}
    if not received:
        return {}
    of = await find_of_numbers(conn, numbers=sorted(received))
    locked = await lock_charges(conn, charge_ids=sorted(each.charge_id for each in of))
    amounts = {charge.charge_id: charge.amount_cents for charge in locked}
    clocks = {charge.charge_id: charge.clock(now) for charge in locked}
    standing = await find_standing(conn, numbers=[each.number for each in of])
    news = [each for each in standing if received[each.number].paid_cents > each.booked_cents]
    if not news:
        return {}
    confirmations = {
        each.number: _confirmations(
            received[each.number],
            each,
            _count(
                received[each.number].paid_cents - each.booked_cents,
                amounts[each.charge_id],
                most=min(announced.get(each.number, 1), MOST_WISHES // len(news)),
            ),
            clocks[each.charge_id],
        )
        for each in news
    }
    booked = [each for several in confirmations.values() for each in several]
    outcomes = await confirm_payments(conn, booked, now=now, seal=seal, actor=actor)
    await carry_over(
        conn,
        numbers=[each.number for each in news],
        booked_cents=[received[each.number].paid_cents for each in news],
    )
    numbers = [number for number, several in confirmations.items() for _ in several]
    return dict(zip(numbers, outcomes, strict=True))


def _count(new_cents: int, amount_cents: int, *, most: int) -> int:
    """How many payments new money is: one, unless it is the slip's amount several times and so many can be meant."""
    count, rest = divmod(new_cents, amount_cents)
    return count if rest == 0 and 1 < count <= most else 1


def _confirmations(state: SlipState, booked: _Standing, count: int, now: datetime) -> list[Confirmation]:
    """The new money of a slip as `count` equal payments, in the order in which they make up its total."""
    part_cents = (state.paid_cents - booked.booked_cents) // count
    totals = range(booked.booked_cents + part_cents, state.paid_cents + 1, part_cents)
    return [_confirmation(state, booked, total_cents, part_cents, now) for total_cents in totals]


def _confirmation(
    state: SlipState, booked: _Standing, total_cents: int, part_cents: int, now: datetime
) -> Confirmation:
    first = total_cents == part_cents
    last = total_cents == state.paid_cents
    return Confirmation(
        charge_id=booked.charge_id,
        # The bank names the last PIX only.
        end_to_end_id=state.end_to_end_id if state.paid_by_pix and last else None,
        amount_cents=part_cents,
        paid_at=_paid_at(state, now),
        slip=OfSlip(
            source=f"{state.number}/{total_cents}",
            method="pix" if state.paid_by_pix else "boleto",
            nosso_numero=state.number,
            integrador_code=booked.integrador_code,
            txid=state.txid if state.paid_by_pix else None,
            interest_cents=state.interest_cents if first else 0,
            fine_cents=state.fine_cents if first else 0,
            discount_cents=state.discount_cents if first else 0,
        ),
    )


def _paid_at(state: SlipState, now: datetime) -> datetime:
    """The bank tells the day: the payment is of that day, and of now when that is today."""
    if state.paid_on is None:
        return now
    return max(day_begins(state.paid_on), min(now, day_ends(state.paid_on) - _INSTANT))
