"""Book the PIX that a bank of production says it received, each once."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct

import sql
from banks.protocol import Bank, CobState, NotFound, Unknown
from banks.received import ReceivedPix
from commands.charges.agreed_amount import Agreed, Owed, Parts, lock_agreed_amounts
from commands.charges.pay import Confirmation, confirm_payments
from commands.money.reversals import BankReturn, book_reversals
from commands.money.suspense import SuspendedMoney, lock_returned, note_returned, suspend_money
from domain.charge import Charge
from domain.errors import Refused
from domain.mode import Mode
from runtime.coordination.lanes import BOLETO_ORDERS, WEBHOOKS
from runtime.ids import new_id
from runtime.postgres import transaction
from runtime.seal import SUSPENDED_PAYER, Seal
from workers.context import Context
from workers.incoming.own_share import read_share
from workers.incoming.suspended import report_suspended

_BOOKED_MAX: Final = 100  # one transaction; commands/charges/change.py takes twice as many

_log = structlog.get_logger()


class _Unbooked(Struct, frozen=True, gc=False):
    end_to_end_id: str
    known: bool
    integrador_code: str | None
    dual: bool


find_unbooked = sql.many("reconciled.unbooked_pix", _Unbooked)


async def book_pix(
    context: Context, bank: str, received: Sequence[ReceivedPix], *, request_ids: Mapping[str, str | None] = {}
) -> int:
    """Book the PIX that a bank of production says it received and that are not booked yet; returns how many those were.
    `request_ids`: the request ids of the callbacks that reported them, by endToEndId.

    Money that fits no charge goes into suspense. Money that went back without a refund of ours is taken from the wallet
    it was credited to. A PIX that paid a boleto is booked with its boleto (boleto_payments.py).
    """
    by_end_to_end_id = {pix.end_to_end_id: pix for pix in received if pix.boleto_number is None}
    ids = sorted(by_end_to_end_id)
    booked = 0
    for start in range(0, len(ids), _BOOKED_MAX):
        batch = [by_end_to_end_id[each] for each in ids[start : start + _BOOKED_MAX]]
        booked += await _book_batch(context, bank, batch, request_ids)
    await _book_returns(context, bank, [pix for pix in received if pix.returned])
    return booked


async def _book_batch(
    context: Context, bank: str, batch: Sequence[ReceivedPix], request_ids: Mapping[str, str | None]
) -> int:
    by_end_to_end_id = {pix.end_to_end_id: pix for pix in batch}
    async with transaction(context.pool) as conn:
        rows = await find_unbooked(
            conn,
            bank=bank,
            charge_ids=[charge_id_from_txid(pix.txid) for pix in batch],
            end_to_end_ids=list(by_end_to_end_id),
        )
        known = [row for row in rows if row.known]
        new = [by_end_to_end_id[row.end_to_end_id] for row in known]
        # Locks the charges of all of them, not of dual ones alone: two batches might wait for each other's charges.
        locked_ids = (charge_id_from_txid(pix.txid) for pix in new) if any(row.dual for row in known) else ()
        agreed = await lock_agreed_amounts(conn, {each for each in locked_ids if each is not None})
        confirmations = [
            _confirmation(pix, row.integrador_code, request_ids.get(pix.end_to_end_id), agreed)
            for pix, row in zip(new, known, strict=True)
        ]
        outcomes = await confirm_payments(
            conn, confirmations, now=context.now(), seal=context.seal, fees=context.settings.fees
        )
        unknown = [by_end_to_end_id[row.end_to_end_id] for row in rows if not row.known]
        if unknown:
            share = await read_share(conn)
            unknown = [pix for pix in unknown if share.has_charge(charge_id_from_txid(pix.txid))]
        suspended = [_suspended_money(pix, context.seal) for pix in unknown]
        added = await suspend_money(conn, suspended, bank=bank, now=context.now())
    report_suspended(bank, added)
    for pix, outcome in zip(new, outcomes, strict=True):
        if isinstance(outcome, Refused):
            _log.error("pix_not_booked", end_to_end_id=pix.end_to_end_id, code=outcome.code.name)
    if new:
        context.jobs.wake(WEBHOOKS)
    if any(isinstance(outcome, Charge) and outcome.dual for outcome in outcomes):
        context.jobs.wake(BOLETO_ORDERS[Mode.PRODUCTION])  # the boleto beside the PIX is to be written off
    return len(new)


async def _book_returns(context: Context, bank: str, returned: Sequence[ReceivedPix]) -> None:
    # A page may name a PIX twice, or a return of it.
    listed = {(pix.end_to_end_id, each.id): (pix, each) for pix in returned for each in pix.returned}
    returns = [
        BankReturn(
            position=position,
            charge_id=charge_id_from_txid(pix.txid),
            boleto_number=pix.boleto_number,
            end_to_end_id=pix.end_to_end_id,
            refund_id=charge_id_from_txid(each.id),  # the ids of our refunds are written as our txids are
            bank_id=each.id,
            return_id=each.return_id,
            amount_cents=each.amount_cents,
            paid_at=pix.paid_at,
        )
        for position, (pix, each) in enumerate(listed.values())
    ]
    for start in range(0, len(returns), _BOOKED_MAX):
        batch = returns[start : start + _BOOKED_MAX]
        async with transaction(context.pool) as conn:
            await lock_returned(conn, batch, bank=bank)
            booked = await book_reversals(conn, batch, bank=bank, now=context.now())
            await note_returned(conn, batch, bank=bank, now=context.now())
        if booked:
            _log.warning("bank_took_back", bank=bank, count=booked)


def _suspended_money(pix: ReceivedPix, seal: Seal) -> SuspendedMoney:
    payer = {"name": pix.payer_name, "document": pix.payer_document}
    return SuspendedMoney(
        suspense_id=new_id(),
        kind="pix_without_txid" if pix.txid is None else "pix_unknown_txid",
        source=pix.end_to_end_id,
        reference=pix.txid,
        amount_cents=pix.amount_cents,
        received_at=pix.paid_at,
        payer_sealed=seal.seal(msgspec.json.encode(payer), SUSPENDED_PAYER, pix.end_to_end_id),
    )


async def charge_at_bank(bank: Bank, txid: str) -> CobState | NotFound | Unknown:
    """A charge of API Pix as a bank has it: a cob, or a cobv for a dual charge with terms."""
    state = await bank.pix.get_cob(txid)
    if isinstance(state, NotFound) and charge_id_from_txid(txid) is not None:
        return await bank.cobvs.get_cobv(txid)
    return state


def charge_id_from_txid(txid: str | None) -> UUID | None:
    """The charge that a txid of ours stands for; None for a txid that is not ours."""
    if txid is None or len(txid) != 32:
        return None
    try:
        return UUID(txid)
    except ValueError:
        return None


def _confirmation(
    pix: ReceivedPix, integrador_code: str | None, request_id: str | None, agreed: Mapping[UUID, Agreed]
) -> Confirmation:
    charge_id = charge_id_from_txid(pix.txid)
    assert charge_id is not None
    owed = Owed()
    if charge_id in agreed:
        parts = Parts(pix.interest_cents, pix.fine_cents, pix.discount_cents)
        owed = agreed[charge_id].owed(pix.amount_cents, pix.paid_at, parts if any(parts) else None)
    return Confirmation(
        charge_id=charge_id,
        end_to_end_id=pix.end_to_end_id,
        amount_cents=pix.amount_cents,
        paid_at=pix.paid_at,
        payer_name=pix.payer_name,
        payer_document=pix.payer_document,
        owed=owed,
        integrador_code=integrador_code,
        request_id=request_id,
    )
