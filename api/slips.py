"""The door's side of slips: an order is written, a worker rung for, and its outcome waited for.

A request that gives its order up answers 502, and then nothing stays: in the same statement an order is left to undo
what the bank may have done (sql/queries/slip.sql, give_up).
"""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct

from api.callers import Caller
from api.door import Door, UsedKey
from api.once import Once
from banks.base import Location
from banks.slips import NUMBER_TAKEN, SlipPayer, slip_codes
from commands.create_slip import (
    CONTROLS_A_BLOCK,
    MOST_ORDERED,
    Payload,
    PixLeg,
    Registration,
    RegistrationOrder,
    order_slips,
    take_numbers,
)
from commands.slip_orders import Outcome, Pay, Redate, WriteOff, give_up, look, place_change
from domain.br_code import dynamic_br_code
from domain.business_days import effective_due_date, expires_at
from domain.charge import DUAL, Status
from domain.errors import Code, Refused
from domain.instants import iso
from domain.nosso_numero import number_at_bank
from domain.seu_numero import seu_numero
from readmodels.charge import BoletoDoc, ChargeDoc
from runtime.batching import Batcher
from runtime.bell import SLIP_ORDERS, WEBHOOKS
from runtime.ids import new_id, new_token
from runtime.postgres import session, transaction

DEADLINE_S: Final = 10.0
"""How long a request waits for the bank."""
RETRY_AFTER_S: Final = 2
_NUMBERS_MOST = 3  # tried for one slip, when others are at home in our agreement
_TURN_S = 0.05  # between looks whether another change of the same slip is over

_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode
_read_outcome = msgspec.json.Decoder(Outcome).decode


class Wanted(Struct, frozen=True, gc=False, kw_only=True):
    """A valid request to issue a slip. The payer's document is kept in the clear nowhere but in `payer`."""

    caller: Caller
    key: str
    fingerprint: bytes
    request_id: str
    kind: str
    amount_cents: int
    due_on: date
    payer: SlipPayer
    external_id: str | None
    description: str | None
    integrador_code: str | None
    scenario: str | None
    send_email: bool = False
    pix_lifetime_s: int | None = None
    """Of a dual charge whose PIX leg has a time of its own."""


class Slips:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._once = Once(door)
        self._numbers: list[int] = []
        self._taking = asyncio.Lock()
        self._orders: Batcher[RegistrationOrder, bool] = Batcher(self._write, lanes=2, most=MOST_ORDERED)

    async def close(self) -> None:
        await self._orders.close()

    async def issue(self, wanted: Wanted) -> ChargeDoc | UsedKey:
        """The charge the bank registered a slip for, or the row of a key that made one before.

        Refused(BANK_UNAVAILABLE) when the bank did not say yes in time: then nothing stays registered.
        """

        async def work(deadline: float) -> ChargeDoc | None:
            return await self._issue(wanted, deadline)

        return await self._once.run((*wanted.caller.owner, wanted.key), work)

    async def cancel(
        self, charge_id: UUID, caller: Caller, *, reason: str, request_id: str, scenario: str | None
    ) -> None:
        """Have the slip written off and its charge cancelled."""
        request = WriteOff(reason=reason, actor=caller.client_id, request_id=request_id, scenario=scenario)
        await self._change("slip_write_off", charge_id, caller, _encode(request))

    async def redate(
        self, charge_id: UUID, caller: Caller, due_on: date, *, request_id: str, scenario: str | None
    ) -> None:
        request = Redate(due_date=due_on.isoformat(), actor=caller.client_id, request_id=request_id, scenario=scenario)
        await self._change("slip_redate", charge_id, caller, _encode(request))

    async def simulate_payment(self, charge_id: UUID, caller: Caller, *, request_id: str) -> None:
        """A sandbox payer pays the whole slip at the simulated bank, which decides whether it can still be paid."""
        await self._change("slip_pay", charge_id, caller, _encode(Pay(actor=caller.client_id, request_id=request_id)))

    async def sandbox_pay(self, charge_id: UUID, caller: Caller, pay: Pay) -> None:
        """Money that was on its way arrives, whatever has become of the slip."""
        await self._change("slip_pay", charge_id, caller, _encode(pay), pending_only=False)

    async def sandbox_fail(self, charge_id: UUID, caller: Caller, *, request_id: str) -> None:
        """Have the slip written off and its charge failed."""
        request = WriteOff(reason="cancelled", fail=True, actor=caller.client_id, request_id=request_id)
        await self._change("slip_write_off", charge_id, caller, _encode(request))

    async def _issue(self, wanted: Wanted, deadline: float) -> ChargeDoc | None:
        loop = asyncio.get_running_loop()
        until = min(loop.time() + DEADLINE_S, deadline)
        place = None
        if wanted.kind == DUAL:
            # Not given back once it was ordered: a creation that failed may be found paid, with this QR Code.
            (place,) = await self._door.reserve.take(wanted.caller.test, 1)
        for _ in range(_NUMBERS_MOST):
            order = await self._order(wanted, place, until - loop.time())
            if not await self._orders.submit(order):
                if place is not None:
                    self._door.reserve.give_back(wanted.caller.test, [place])
                return None
            outcome = await self._wait(order.order_id, until - loop.time())
            if not outcome.refused:
                # None: the key was used by another meanwhile, and the slip is being undone.
                return await self._door.charges.submit((order.charge_id, *wanted.caller.owner))
            if outcome.refused != NUMBER_TAKEN:
                break
            _log.warning("slip_number_taken", number=_slip_of(order).nosso_numero)
        raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)

    async def _order(self, wanted: Wanted, place: Location | None, left_s: float) -> RegistrationOrder:
        settings = self._door.settings
        control = await self._control()
        number = number_at_bank(settings.bank_convenio, control)
        barcode, line = slip_codes(
            number, due_on=wanted.due_on, amount_cents=wanted.amount_cents, carteira=settings.bank_carteira
        )
        now = self._door.now()
        caller = wanted.caller
        charge_id = new_id()
        seal = self._door.seal
        pix, br_code = None, None
        if place is not None:
            br_code = dynamic_br_code(
                location=place.location, amount_cents=wanted.amount_cents, name=caller.name, city=caller.city
            )
            pix = PixLeg(
                location_id=place.location_id,
                location=place.location,
                pix_key=caller.pix_key,
                lifetime_s=wanted.pix_lifetime_s,
            )
        doc = ChargeDoc(
            account_id=str(caller.account_id),
            charge_id=str(charge_id),
            test=caller.test,
            public_id=new_token(),
            external_id=wanted.external_id,
            payment_method=wanted.kind,
            status=Status.PENDING,
            version=1,
            amount_cents=wanted.amount_cents,
            description=wanted.description,
            payer_document_hash=seal.blind(wanted.payer.document),
            txid=None if place is None else charge_id.hex,
            qr_code=br_code,
            nosso_numero=number,
            boleto=BoletoDoc(
                nosso_numero=number,
                seu_numero=seu_numero(wanted.external_id, control=control),
                linha_digitavel=line,
                codigo_barras=barcode,
                tipo_cobranca=wanted.kind,
                data_vencimento=wanted.due_on.isoformat(),
            ),
            integrador_code=wanted.integrador_code,
            send_email=wanted.send_email,
            created_at=iso(now),
            due_date=wanted.due_on.isoformat(),
            effective_due_date=effective_due_date(wanted.due_on).isoformat(),
            expires_at=iso(expires_at(wanted.due_on)),
        )
        return RegistrationOrder(
            order_id=new_id(),
            account_id=caller.account_id,
            charge_id=charge_id,
            test=caller.test,
            created_at=now,
            deadline=now + timedelta(seconds=max(left_s, 0.0)),
            reply_to=self._door.replies.reply_to,
            request=Registration(
                key=wanted.key,
                fingerprint=wanted.fingerprint.hex(),
                actor=caller.client_id,
                request_id=wanted.request_id,
                payer_sealed=b64encode(seal.seal(_encode(wanted.payer))).decode(),
                payload=Payload(doc),
                scenario=wanted.scenario,
                pix=pix,
            ),
        )

    async def _control(self) -> int:
        """The next control number: committed by the sequence, so that no process ever has it too."""
        async with self._taking:
            if not self._numbers:
                async with session(self._door.pool) as conn:
                    first = (await take_numbers(conn)).control
                self._numbers = list(range(first + CONTROLS_A_BLOCK - 1, first - 1, -1))
            return self._numbers.pop()

    async def _write(self, orders: Sequence[RegistrationOrder]) -> list[bool]:
        async with session(self._door.pool) as conn:
            written = await order_slips(conn, orders)
        for test in {order.test for order in orders if order.order_id in written}:
            self._door.bell.ring(SLIP_ORDERS[test])
        return [order.order_id in written for order in orders]

    async def _change(
        self, kind: str, charge_id: UUID, caller: Caller, request: bytes, *, pending_only: bool = True
    ) -> None:
        """Have a pending slip changed at the bank and here; changes of one slip take turns."""
        loop = asyncio.get_running_loop()
        until = loop.time() + DEADLINE_S
        while True:
            doc = await self._door.charge(charge_id, caller.owner)
            if pending_only and doc.status != Status.PENDING:
                raise Refused(Code.CHARGE_NOT_PENDING, status=doc.status)
            order_id = new_id()
            if await self._place(order_id, kind, charge_id, caller, request, until - loop.time()):
                break
            if loop.time() >= until:
                raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)
            await asyncio.sleep(_TURN_S)
        outcome = await self._wait(order_id, until - loop.time())
        if not outcome.refused:
            self._door.bell.ring(WEBHOOKS)
            return
        code = Code[outcome.refused]
        retry_after_s = outcome.retry_after_s or RETRY_AFTER_S
        raise Refused(code, retry_after_s=retry_after_s if code is Code.BANK_UNAVAILABLE else None)

    async def _place(
        self, order_id: UUID, kind: str, charge_id: UUID, caller: Caller, request: bytes, left_s: float
    ) -> bool:
        now = self._door.now()
        async with session(self._door.pool) as conn:
            placed = await place_change(
                conn,
                order_id=order_id,
                kind=kind,
                charge_id=charge_id,
                account_id=caller.account_id,
                test=caller.test,
                request=request,
                now=now,
                deadline=now + timedelta(seconds=max(left_s, 0.0)),
                reply_to=self._door.replies.reply_to,
            )
        if placed is not None:
            self._door.bell.ring(SLIP_ORDERS[caller.test])
        return placed is not None

    async def _wait(self, order_id: UUID, left_s: float) -> Outcome:
        """How the order ended; given up at the deadline."""
        said = await self._door.replies.wait(order_id, deadline_s=left_s, look=look)
        if said is None:
            said = await self._give_up(order_id)
        return _read_outcome(said)

    async def _give_up(self, order_id: UUID) -> bytes:
        unavailable = _encode(Outcome(refused=Code.BANK_UNAVAILABLE.name))
        async with transaction(self._door.pool) as conn:
            if await give_up(conn, order_id, align_id=new_id(), outcome=unavailable, now=self._door.now()):
                return unavailable
            return await look(conn, order_id) or unavailable


def _slip_of(order: RegistrationOrder) -> BoletoDoc:
    slip = order.request.payload.charge.boleto
    assert slip is not None
    return slip
