"""Book the PIX that a bank of production says it received, each once."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

import sql
from banks.received import ReceivedPix
from commands.charges.pay import Confirmation, confirm_payments
from domain.charge import Charge
from domain.errors import Refused
from domain.mode import Mode
from runtime.jobs import BOLETO_ORDERS, WEBHOOKS
from runtime.postgres import transaction
from workers.context import Context

_BOOK_AT_ONCE: Final = 100  # one transaction; commands.change takes twice as many

_log = structlog.get_logger()


class _Unbooked(Struct, frozen=True, gc=False):
    end_to_end_id: str
    known: bool
    integrador_code: str | None


find_unbooked = sql.many("bank_hint.unbooked", _Unbooked)


async def book_pix(context: Context, received: Sequence[ReceivedPix]) -> int:
    """Book what a bank of production says it received and is not on the books; answers how many payments that was.

    Money whose txid is no charge of ours stands in the log as an error: somebody has to look.
    """
    mine = {pix.end_to_end_id: pix for pix in received if charge_of_txid(pix.txid) is not None}
    booked = 0
    ids = sorted(mine)
    for start in range(0, len(ids), _BOOK_AT_ONCE):
        part = [mine[each] for each in ids[start : start + _BOOK_AT_ONCE]]
        async with transaction(context.pool) as conn:
            rows = await find_unbooked(
                conn,
                charge_ids=[charge_of_txid(pix.txid) for pix in part],
                end_to_end_ids=[pix.end_to_end_id for pix in part],
            )
            known = [row for row in rows if row.known]
            new = [mine[row.end_to_end_id] for row in known]
            confirmations = [_confirmation(pix, row.integrador_code) for pix, row in zip(new, known, strict=True)]
            outcomes = await confirm_payments(conn, confirmations, now=context.now(), seal=context.seal, actor="bank")
        for row in rows:
            if not row.known:
                _log.error("pix_without_charge", end_to_end_id=row.end_to_end_id)
        for pix, outcome in zip(new, outcomes, strict=True):
            if isinstance(outcome, Refused):
                _log.error("pix_not_booked", end_to_end_id=pix.end_to_end_id, code=outcome.code.name)
        booked += len(new)
        if new:
            context.jobs.wake(WEBHOOKS)
        if any(isinstance(outcome, Charge) and outcome.dual for outcome in outcomes):
            context.jobs.wake(BOLETO_ORDERS[Mode.PRODUCTION])  # the boleto beside the PIX is to be written off
    return booked


def charge_of_txid(txid: str) -> UUID | None:
    """The charge a txid of ours stands for; None for anybody else's."""
    if len(txid) != 32:
        return None
    try:
        return UUID(txid)
    except ValueError:
        return None


def _confirmation(pix: ReceivedPix, integrador_code: str | None) -> Confirmation:
    of = charge_of_txid(pix.txid)
    assert of is not None
    return Confirmation(
        charge_id=of,
        end_to_end_id=pix.end_to_end_id,
        amount_cents=pix.amount_cents,
        paid_at=pix.paid_at,
        payer_name=pix.payer_name,
        payer_document=pix.payer_document,
        integrador_code=integrador_code,
    )
