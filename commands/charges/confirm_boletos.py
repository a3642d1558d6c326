"""Book the money that a bank says it received for boletos.

A bank reports a boleto's total, not its payments. The new money is that total less the cents already booked, computed
under the charge's lock. A payment is identified by its boleto and the total reached with it, so a total that is
reported twice makes one payment.

Each PIX that the bank lists for the boleto is a payment of its own and can be returned to its sender. The rest of the
new money is one payment, or several when callbacks announced that many and it is that multiple of the boleto's amount.
Money that the bank's list of PIX does not explain never gets an endToEndId.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from uuid import UUID

from msgspec import Struct

import sql
from banks.boletos import BoletoState
from banks.received import ReceivedPix
from commands.charges.agreed_amount import Agreed, Parts, read_terms
from commands.charges.change import COMMANDS_MAX, Outcome, lock_charges
from commands.charges.pay import BoletoPaymentFacts, Confirmation, confirm_payments
from commands.money.suspense import leave_suspense
from domain.charge import Charge
from domain.instants import day_begins, day_ends, to_millisecond
from domain.merchants.fees import FeeTerms
from runtime.seal import Seal
from sql import Connection

_MILLISECOND = timedelta(milliseconds=1)


class _BoletoCharge(Struct, frozen=True, gc=False):
    number: str
    charge_id: UUID


class _BookedBoleto(Struct, frozen=True, gc=False):
    number: str
    charge_id: UUID
    due_on: date
    terms: bytes | None
    booked_cents: int
    integrador_code: str | None
    named: list[str]
    unnamed_cents: int


class Part(Struct, frozen=True):
    """One payment of a boleto. `by_pix`: the payment was a PIX whose endToEndId the bank does not tell."""

    amount_cents: int
    pix: ReceivedPix | None
    by_pix: bool = False


find_boletos_by_number = sql.many("boleto.of_numbers", _BoletoCharge)
find_standing = sql.many("boleto.standing", _BookedBoleto)
store_booked_totals = sql.run("boleto.booked")


async def confirm_boletos(
    conn: Connection,
    states: Sequence[BoletoState],
    *,
    bank: str,
    now: datetime,
    seal: Seal,
    fees: FeeTerms,
    announced: Mapping[str, int] = {},
    patient: Collection[str] = (),
    request_ids: Mapping[str, str | None] = {},
) -> dict[str, Outcome]:
    """Book the new money of these boletos of one bank. Returns, by number, the charge afterwards (or the refusal) for
    each boleto that a payment was booked for. Numbers that are no boleto of this database are skipped.

    `announced` is the number of payments that callbacks reported, by number: it divides money that the bank confirmed
    and adds none. For a number in `patient`, nothing is booked while its money may be more payments than were announced
    so far. `request_ids` are those of the callbacks that reported the boletos, by number.
    """
    assert len(states) <= COMMANDS_MAX
    now = to_millisecond(now)
    received = {state.number: state for state in states if state.paid_cents > 0}
    if not received:
        return {}
    charges, boletos = await _lock_boletos(conn, sorted(received), bank=bank)
    with_new_money = [each for each in boletos if received[each.number].paid_cents > each.booked_cents]
    confirmations: list[Confirmation] = []
    numbers: list[str] = []  # of each confirmation
    booked_totals = {}
    for each in with_new_money:
        state, charge = received[each.number], charges[each.charge_id]
        agreed, clock = _agreed_amount(each, charge.amount_cents), charge.clock(now)
        amount_cents = agreed.on(_paid_at(state, clock)).total_cents
        parts = split(
            state,
            amount_cents=amount_cents,
            booked_cents=each.booked_cents,
            named=each.named,
            unnamed_cents=each.unnamed_cents,
            announced=announced.get(each.number, 1),
            limit=COMMANDS_MAX // len(with_new_money),
        )
        if each.number in patient and any(_may_be_several(part, amount_cents) for part in parts):
            continue
        confirmations += _confirmations(state, each, parts, agreed, clock, request_id=request_ids.get(each.number))
        numbers += [each.number] * len(parts)
        booked_totals[each.number] = state.paid_cents
    if not booked_totals:
        return {}
    outcomes = await confirm_payments(conn, confirmations, now=now, seal=seal, fees=fees)
    await store_booked_totals(conn, bank=bank, numbers=list(booked_totals), booked_cents=list(booked_totals.values()))
    return dict(zip(numbers, outcomes, strict=True))


async def _lock_boletos(
    conn: Connection, numbers: Sequence[str], *, bank: str
) -> tuple[dict[UUID, Charge], Sequence[_BookedBoleto]]:
    """Lock the charges of those boletos that are ours; returns the charges and what was booked for each so far."""
    ours = await find_boletos_by_number(conn, bank=bank, numbers=numbers)
    # When the answer to a registration was lost, the bank may have listed the boleto as paid before its charge was
    # made. That money is in suspense.
    kept_cents = await leave_suspense(conn, [each.number for each in ours], bank=bank)
    locked = await lock_charges(conn, charge_ids=sorted(each.charge_id for each in ours))
    if kept_cents:
        await store_booked_totals(conn, bank=bank, numbers=list(kept_cents), booked_cents=list(kept_cents.values()))
    standing = await find_standing(conn, bank=bank, numbers=[each.number for each in ours])
    return {charge.charge_id: charge for charge in locked}, standing


def split(
    state: BoletoState,
    *,
    amount_cents: int,
    booked_cents: int,
    named: Collection[str],
    unnamed_cents: int,
    announced: int,
    limit: int,
) -> list[Part]:
    """Returns the payments that make up a boleto's new money, in the order in which they are booked: 1 to `limit`.

    `amount_cents` is the amount due on the day of the last payment; `named`, the endToEndIds booked for the boleto
    before; `unnamed_cents`, the money booked as PIX without an endToEndId because the bank did not tell it;
    `announced`, the number of payments that callbacks reported.
    """
    left_cents = state.paid_cents - booked_cents
    assert left_cents > 0
    parts: list[Part] = []
    for pix in sorted(state.pix, key=lambda pix: (pix.paid_at, pix.end_to_end_id)):
        if pix.end_to_end_id in named:
            continue
        if unnamed_cents > 0:
            # The oldest PIX whose endToEndIds were not booked are the money that was booked without one.
            unnamed_cents -= pix.amount_cents
        elif pix.amount_cents <= left_cents and (len(parts) + 1 < limit or pix.amount_cents == left_cents):
            parts.append(Part(pix.amount_cents, pix))
            left_cents -= pix.amount_cents
        else:
            # This PIX is newer than the total, which is up to half a minute old. It is booked once the total has it.
            break
    if left_cents == 0:
        return parts
    by_pix = state.paid_by_pix and not parts
    count = _payment_count(left_cents, amount_cents, limit=min(announced, limit) - len(parts))
    rest = [Part(left_cents // count, None, by_pix=by_pix)] * count
    return rest + parts if state.paid_by_pix else parts + rest


def _payment_count(new_cents: int, amount_cents: int, *, limit: int) -> int:
    """Returns how many payments the money that no PIX explains is: one, unless it is a multiple of the boleto's amount
    and `limit` allows that many payments."""
    count, rest = divmod(new_cents, amount_cents)
    return count if rest == 0 and 1 < count <= limit else 1


def _may_be_several(part: Part, amount_cents: int) -> bool:
    return part.pix is None and part.amount_cents > amount_cents and part.amount_cents % amount_cents == 0


def _agreed_amount(boleto: _BookedBoleto, amount_cents: int) -> Agreed:
    return Agreed(amount_cents, boleto.due_on, None if boleto.terms is None else read_terms(boleto.terms))


def _confirmations(
    state: BoletoState,
    boleto: _BookedBoleto,
    parts: Sequence[Part],
    agreed: Agreed,
    now: datetime,
    *,
    request_id: str | None,
) -> list[Confirmation]:
    confirmations = []
    total_cents = boleto.booked_cents
    for part in parts:
        pix, by_pix = part.pix, part.pix is not None or part.by_pix
        paid_at = _paid_at(state, now) if pix is None else min(pix.paid_at, now)
        # The interest, fine and discount that the bank reports for the boleto belong to its first payment.
        reported = Parts(state.interest_cents, state.fine_cents, state.discount_cents) if total_cents == 0 else None
        total_cents += part.amount_cents
        confirmation = Confirmation(
            charge_id=boleto.charge_id,
            end_to_end_id=None if pix is None else pix.end_to_end_id,
            amount_cents=part.amount_cents,
            paid_at=paid_at,
            payer_name=None if pix is None else pix.payer_name,
            payer_document=None if pix is None else pix.payer_document,
            boleto=BoletoPaymentFacts(
                source=f"{state.number}/{total_cents}",
                method="pix" if by_pix else "boleto",
                nosso_numero=state.number,
                txid=state.txid if by_pix else None,
            ),
            owed=agreed.owed(part.amount_cents, paid_at, reported),
            integrador_code=boleto.integrador_code,
            request_id=request_id,
        )
        confirmations.append(confirmation)
    return confirmations


def _paid_at(state: BoletoState, now: datetime) -> datetime:
    """Returns the instant of a payment of which the bank reports only the day: `now` when that day is today, else the
    instant of that day nearest to `now`."""
    if state.paid_on is None:
        return now
    return max(day_begins(state.paid_on), min(now, day_ends(state.paid_on) - _MILLISECOND))
