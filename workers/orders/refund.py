"""Have the bank send a refund: return the PIX, or send a PIX to refund a boleto (workers/orders/outgoing.py).

The outcome is stored in one transaction with its effect on refund, charge and wallet.
"""

from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from banks.protocol import Bank
from banks.scenario import acting
from banks.transfers import Return, Transfer
from commands.bank_orders.kinds import OrderKind, OrderLane, RefundReturn, RefundTransfer
from commands.money.refund import TransferDestination
from commands.money.refund_end import Ending, end_refunds
from domain.instants import to_millisecond
from domain.mode import Mode
from runtime.batching import Batcher
from runtime.coordination.lanes import WEBHOOKS
from runtime.postgres import transaction
from runtime.seal import DESTINATION
from workers.context import Context
from workers.orders.lease import Later, drain_lanes, read_request_id
from workers.orders.outgoing import (
    Answer,
    MoneyOrder,
    MoneyOutcome,
    claim_money,
    find_earlier_send,
    judge,
    last_unanswered_at,
    put_off_money,
    settle_money_orders,
)
from workers.orders.queue_head import QueueHead, QueueHeads

LANES: Final = (OrderLane.REFUND, OrderLane.TRANSFER)
"""Apart, because PIX are returned by one API of the bank and sent by another, which may hang by itself."""
_ENDED_MAX = 50

Request = RefundReturn | RefundTransfer

_read_destination = msgspec.json.Decoder(TransferDestination).decode
_READ_REQUEST: Final[dict[str, Callable[[bytes], Request]]] = {
    OrderKind.REFUND_RETURN: msgspec.json.Decoder(RefundReturn).decode,
    OrderKind.REFUND_TRANSFER: msgspec.json.Decoder(RefundTransfer).decode,
}


class RefundOrderWorker:
    """Carries out the orders about refunds of one mode. Outcomes are stored in batches."""

    def __init__(self, context: Context, mode: Mode) -> None:
        self._context = context
        self._mode = mode
        self._queue_heads: QueueHeads = defaultdict(QueueHead)
        self._end_batcher: Batcher[tuple[MoneyOrder, MoneyOutcome], None] = Batcher(
            self._end_refunds, lanes=2, batch_max=_ENDED_MAX
        )

    async def drain(self) -> int:
        at_once = self._context.settings.pace.bank_refund_calls
        claims = [partial(self._claim, lane) for lane in LANES]
        return await drain_lanes(self._context, *claims, ask=self._ask, store=self._store, at_once=at_once)

    async def _claim(self, lane: OrderLane, limit: int) -> Sequence[MoneyOrder]:
        return await claim_money(self._context, lane, self._mode, limit, self._queue_heads[lane])

    async def _ask(self, order: MoneyOrder) -> MoneyOutcome | Later:
        lost_at = last_unanswered_at(order, now=self._context.now())
        request = _READ_REQUEST[order.kind](order.request)
        bank = acting(self._context.banks.of(order.mode, order.bank), request.scenario, attempt=order.attempts)
        match request:
            case RefundReturn():
                answer = await self._return_pix(bank, order, request)
            case RefundTransfer():
                answer = await self._send_transfer(bank, order, request)
        return judge(order, answer, request.amount_cents, lost_at, now=self._context.now())

    async def _return_pix(self, bank: Bank, order: MoneyOrder, request: RefundReturn) -> Answer:
        id = request.refund_id.hex
        if earlier := await find_earlier_send(order, partial(bank.transfers.find_return, request.end_to_end_id, id)):
            return earlier
        return await bank.transfers.return_pix(
            Return(
                id=id,
                end_to_end_id=request.end_to_end_id,
                amount_cents=request.amount_cents,
                description=request.description,
            )
        )

    async def _send_transfer(self, bank: Bank, order: MoneyOrder, request: RefundTransfer) -> Answer:
        id = request.refund_id.hex
        if earlier := await find_earlier_send(order, partial(bank.transfers.find_transfer, id)):
            return earlier
        destination = _read_destination(
            self._context.seal.open(b64decode(request.destination_sealed), DESTINATION, request.refund_id)
        )
        return await bank.transfers.send_pix(
            Transfer(
                id=id,
                pix_key=destination.pix_key,
                document=destination.document,
                amount_cents=request.amount_cents,
                description=request.description,
            )
        )

    async def _store(self, order: MoneyOrder, result: MoneyOutcome | Later) -> None:
        if isinstance(result, Later):
            await put_off_money(self._context, order, result)
            return
        await self._end_batcher.submit((order, result))
        self._context.jobs.wake(WEBHOOKS)

    async def _end_refunds(self, known: Sequence[tuple[MoneyOrder, MoneyOutcome]]) -> list[None]:
        now = self._context.now()
        async with transaction(self._context.pool) as conn:
            endings = [_refund_ending(order, each) for order, each in await settle_money_orders(conn, known, now=now)]
            if endings:
                await end_refunds(conn, endings, now=to_millisecond(now))
        return [None] * len(known)


def _refund_ending(order: MoneyOrder, known: MoneyOutcome) -> Ending:
    assert order.charge_id is not None
    is_return = order.kind == OrderKind.REFUND_RETURN
    return Ending(
        charge_id=order.charge_id,
        refund_id=_READ_REQUEST[order.kind](order.request).refund_id,
        end_to_end_id=None if is_return else known.reference,
        return_id=known.reference if is_return else None,
        failure=known.failure,
        request_id=read_request_id(order.request),
    )
