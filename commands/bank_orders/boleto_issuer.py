"""Where orders about boletos are waited for: written, a worker woken, and the outcome awaited or the order given up.

A request that gives its order up is told so, and then nothing stays: in the same statement an order is left to undo
what the bank may have done (sql/queries/charges/boleto.sql, give_up). No transaction is open while the bank thinks.
"""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from datetime import date, datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
import structlog
from msgspec import Struct

from banks.banco_do_brasil.agreement import boleto_codes
from banks.banco_do_brasil.nosso_numero import number_at_bank
from banks.banco_do_brasil.seu_numero import seu_numero
from banks.boletos import NUMBER_TAKEN, BoletoPayer
from banks.protocol import Location
from commands.bank_orders.boleto_orders import Outcome, give_up, look, place_change
from commands.bank_orders.kinds import Pay, Payload, PixLeg, Redate, Registration, WriteOff, kind_of
from commands.bank_orders.pix_locations import LocationReserve
from commands.charges.create_boleto import (
    CONTROLS_A_BLOCK,
    RegistrationOrder,
    take_numbers,
)
from commands.charges.issuer import Issuer
from domain.boleto.business_days import effective_due_date, expires_at
from domain.charge import DUAL, Status
from domain.errors import Code, Refused
from domain.instants import iso
from domain.mode import Mode, Owner
from domain.pix.br_code import dynamic_br_code
from readmodels.charges.charge import BoletoDoc, ChargeDoc
from runtime.ids import new_id, new_token
from runtime.jobs import BOLETO_ORDERS, Jobs
from runtime.postgres import Pool, session, transaction
from runtime.replies import Replies
from runtime.seal import Seal
from runtime.settings import Settings
from sql import Connection

DEADLINE_S: Final = 10.0
"""How long a request waits for the bank."""
RETRY_AFTER_S: Final = 2
_NUMBERS_MAX = 3  # tried for one boleto, when others are at home in our agreement

_log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode
_read_outcome = msgspec.json.Decoder(Outcome).decode


class BoletoRequest(Struct, frozen=True, gc=False, kw_only=True):
    """A valid request to issue a boleto. The payer's document is kept in the clear nowhere but in `payer`."""

    issuer: Issuer
    key: str
    fingerprint: bytes
    request_id: str
    kind: str
    amount_cents: int
    due_on: date
    payer: BoletoPayer
    external_id: str | None
    description: str | None
    integrador_code: str | None
    scenario: str | None
    send_email: bool = False
    pix_lifetime_s: int | None = None
    """Of a dual charge whose PIX leg has a time of its own."""


class BoletoIssuer:
    """One for each process that takes orders; it has a block of control numbers in hand."""

    def __init__(
        self,
        settings: Settings,
        pool: Pool,
        jobs: Jobs,
        replies: Replies,
        reserve: LocationReserve,
        now: Callable[[], datetime],
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._jobs = jobs
        self._replies = replies
        self._reserve = reserve
        self._seal = Seal(settings.secret_key)
        self._now = now
        self._numbers: list[int] = []
        self._taking = asyncio.Lock()

    async def issue(
        self, wanted: BoletoRequest, write: Callable[[RegistrationOrder], Awaitable[bool]], *, until: float
    ) -> UUID | None:
        """The id of the charge made of the boleto that the bank has registered; None when its key belongs to another.

        `write` stores the order, or answers False when the key made something before or is at work. `until` is in the
        loop's time. Refused(BANK_UNAVAILABLE) when the bank did not say yes in time: then nothing stays registered.
        """
        loop = asyncio.get_running_loop()
        place = None
        if wanted.kind == DUAL:
            # Not given back once it was ordered: a creation that failed may be found paid, with this QR Code.
            (place,) = await self._reserve.take(wanted.issuer.mode, 1)
        for _ in range(_NUMBERS_MAX):
            order = await self._order(wanted, place, until - loop.time())
            if not await write(order):
                if place is not None:
                    self._reserve.give_back(wanted.issuer.mode, [place])
                return None
            outcome = await self.wait(order.order_id, until - loop.time())
            if not outcome.refused:
                return order.charge_id
            if outcome.refused != NUMBER_TAKEN:
                break
            _log.warning("boleto_number_taken", number=_boleto_of(order).nosso_numero)
        raise Refused(Code.BANK_UNAVAILABLE, retry_after_s=RETRY_AFTER_S)

    async def place(
        self,
        conn: Connection,
        order_id: UUID,
        charge_id: UUID,
        owner: Owner,
        request: WriteOff | Redate | Pay,
        *,
        left_s: float,
    ) -> bool:
        """Order a change of a boleto, waited for `left_s` at most; False while another change of it is under way.

        After the commit the caller wakes BOLETO_ORDERS.
        """
        now = self._now()
        placed = await place_change(
            conn,
            order_id=order_id,
            kind=kind_of(request),
            charge_id=charge_id,
            account_id=owner.account_id,
            test=owner.test,
            request=_encode(request),
            now=now,
            deadline=now + timedelta(seconds=max(left_s, 0.0)),
            reply_to=self._replies.reply_to,
        )
        return placed is not None

    async def changed(self, order_id: UUID, left_s: float) -> None:
        """Wait for the end of a change; Refused as the bank or the charge's state says."""
        outcome = await self.wait(order_id, left_s)
        if not outcome.refused:
            return
        code = Code[outcome.refused]
        retry_after_s = outcome.retry_after_s or RETRY_AFTER_S
        raise Refused(code, retry_after_s=retry_after_s if code is Code.BANK_UNAVAILABLE else None)

    def wake(self, mode: Mode) -> None:
        """There are orders: a worker is to look."""
        self._jobs.wake(BOLETO_ORDERS[mode])

    async def wait(self, order_id: UUID, left_s: float) -> Outcome:
        """How the order ended; given up at the deadline."""
        said = await self._replies.wait(order_id, deadline_s=left_s, look=look)
        if said is None:
            said = await self._give_up(order_id)
        return _read_outcome(said)

    async def _give_up(self, order_id: UUID) -> bytes:
        unavailable = _encode(Outcome(refused=Code.BANK_UNAVAILABLE.name))
        async with transaction(self._pool) as conn:
            if await give_up(conn, order_id, reconcile_id=new_id(), outcome=unavailable, now=self._now()):
                return unavailable
            return await look(conn, order_id) or unavailable

    async def _order(self, wanted: BoletoRequest, place: Location | None, left_s: float) -> RegistrationOrder:
        settings = self._settings
        control = await self._control()
        number = number_at_bank(settings.bank_convenio, control)
        barcode, line = boleto_codes(
            number, due_on=wanted.due_on, amount_cents=wanted.amount_cents, carteira=settings.bank_carteira
        )
        now = self._now()
        issuer = wanted.issuer
        charge_id = new_id()
        seal = self._seal
        pix, br_code = None, None
        if place is not None:
            br_code = dynamic_br_code(
                location=place.location, amount_cents=wanted.amount_cents, name=issuer.name, city=issuer.city
            )
            pix = PixLeg(
                location_id=place.location_id,
                location=place.location,
                pix_key=issuer.pix_key,
                lifetime_s=wanted.pix_lifetime_s,
            )
        doc = ChargeDoc(
            account_id=str(issuer.account_id),
            charge_id=str(charge_id),
            test=issuer.test,
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
            account_id=issuer.account_id,
            charge_id=charge_id,
            test=issuer.test,
            created_at=now,
            deadline=now + timedelta(seconds=max(left_s, 0.0)),
            reply_to=self._replies.reply_to,
            request=Registration(
                key=wanted.key,
                fingerprint=wanted.fingerprint.hex(),
                actor=issuer.actor,
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
                async with session(self._pool) as conn:
                    first = (await take_numbers(conn)).control
                self._numbers = list(range(first + CONTROLS_A_BLOCK - 1, first - 1, -1))
            return self._numbers.pop()


def _boleto_of(order: RegistrationOrder) -> BoletoDoc:
    boleto = order.request.payload.charge.boleto
    assert boleto is not None
    return boleto
