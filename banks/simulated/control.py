"""The simulated bank's control API (pay, make the bank fail), and its callbacks to receivers."""

import asyncio
from typing import Any
from uuid import UUID

import aiohttp
import structlog
from aiohttp import web

from banks.simulated import FAULTS
from banks.simulated.bank import BookedCob, PayerPix, PlayedFault, SimulatedBank
from banks.simulated.boleto_control import TOLD_AT_ONCE, is_of_boleto, pay_boleto, post_by_url, tell_boletos
from banks.simulated.boletos import new_end_to_end_id
from banks.simulated.requests import Wrong, asked_amount, asked_body, asked_times
from banks.simulated.shown import shown_pix
from banks.simulated.wire import Wire
from domain.boleto.terms import AmountDue
from domain.instants import iso, to_millisecond
from domain.money import PIX_CENTS_MAX, reais
from runtime.postgres import DB_UNAVAILABLE

REGISTERED_S_MAX = 5.0
"""How long a payment waits for its cob, which a worker may still be registering."""

DELAY_MS_MAX = 60_000

_LOOK_S = 0.05
_TELL_EVERY_S = 0.5
_TELL_AT_ONCE = 200
_TELL_ATTEMPTS = 12

_log = structlog.get_logger()


class ControlRoutes:
    def __init__(self, bank: SimulatedBank, wire: Wire, teller: "Teller") -> None:
        self._bank = bank
        self._wire = wire
        self._teller = teller

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/simulated/pay", self.pay),
            web.post("/simulated/fault", self.set_fault),
            web.get("/simulated/fault", self.get_fault),
        ]

    async def pay(self, request: web.Request) -> web.Response:
        """{charge_id or txid, amount?, times?, force?}; returns {payments: [{end_to_end_id, txid, amount, paid_at}]}.

        {amount, txid?, stray: true}: pays directly to the key, or with a txid that no cob has; `garbled: true`: the PIX
        is listed in an unreadable form.

        A payer's bank checks before it pays: the cob must be ATIVA and not expired, unless `force` says that the money
        was under way already. A boleto is named by number or line instead (`pay_boleto`).
        """
        body = await asked_body(request)
        if is_of_boleto(body):
            of_boleto = await pay_boleto(self._bank.boletos, body)
            self._teller.wake()
            return web.json_response({"payments": of_boleto})
        paid = await self._pay(body)
        self._teller.wake()
        payments = [
            {
                "end_to_end_id": each.end_to_end_id,
                "txid": each.txid,
                "amount": reais(each.amount_cents),
                "paid_at": iso(each.paid_at),
            }
            for each in paid
        ]
        return web.json_response({"payments": payments})

    async def _pay(self, body: dict[str, Any]) -> list[PayerPix]:
        if body.get("stray") is True:
            return await self._pay_stray(body)
        txid = _txid(body)
        times = asked_times(body)
        amount_cents = asked_amount(body, cents_max=PIX_CENTS_MAX)
        cob = await self._registered(txid)
        if body.get("force") is not True:
            self._check_payable(cob)
        # To the millisecond, as in the SPI; the payments of one request have the same instant.
        now = to_millisecond(self._bank.now())
        asked = cob.due(now) if amount_cents is None else AmountDue(total_cents=amount_cents)
        paid = [
            PayerPix(
                end_to_end_id=new_end_to_end_id(now),
                txid=txid,
                amount_cents=asked.total_cents,
                paid_at=now,
                interest_cents=asked.interest_cents,
                fine_cents=asked.fine_cents,
                discount_cents=asked.discount_cents,
            )
            for _ in range(times)
        ]
        await self._bank.receive(paid, tell=True)
        return paid

    async def _pay_stray(self, body: dict[str, Any]) -> list[PayerPix]:
        txid, amount_cents = body.get("txid"), asked_amount(body, cents_max=PIX_CENTS_MAX)
        if amount_cents is None or not (txid is None or isinstance(txid, str)):
            raise Wrong(400, "give an amount, and a txid or none")
        now = to_millisecond(self._bank.now())
        paid = [
            PayerPix(
                end_to_end_id=new_end_to_end_id(now),
                txid=txid,
                amount_cents=amount_cents,
                paid_at=now,
                garbled=body.get("garbled") is True,
            )
            for _ in range(asked_times(body))
        ]
        await self._bank.receive(paid, tell=False)
        return paid

    async def _registered(self, txid: str) -> BookedCob:
        deadline = asyncio.get_running_loop().time() + REGISTERED_S_MAX
        while (cob := await self._bank.booked(txid)) is None:
            if asyncio.get_running_loop().time() >= deadline:
                raise Wrong(404, "the bank has no such charge")
            await asyncio.sleep(_LOOK_S)
        return cob

    def _check_payable(self, cob: BookedCob) -> None:
        if cob.status != "ATIVA":
            raise Wrong(409, f"the charge is {cob.status} at the bank")
        if cob.ends_at <= self._bank.now():
            raise Wrong(409, "the charge's time has passed")

    async def set_fault(self, request: web.Request) -> web.Response:
        """{fault: one of FAULTS, ms?: the delay of each answer for slow}: the bank's behaviour from now on, also after
        a restart."""
        asked = await asked_body(request)
        fault, ms = asked.get("fault"), asked.get("ms")
        if fault not in FAULTS:
            raise Wrong(400, f"fault must be one of {', '.join(FAULTS)}")
        if ms is not None and (fault != "slow" or type(ms) is not int or not 1 <= ms <= DELAY_MS_MAX):
            raise Wrong(400, f"ms is of slow, and a whole number from 1 to {DELAY_MS_MAX}")
        played = PlayedFault(fault, ms)
        await self._bank.set_fault(played)
        self._wire.play(played)
        self._teller.wake()
        return web.json_response(asked)

    async def get_fault(self, request: web.Request) -> web.Response:
        return web.json_response({"fault": self._wire.fault})


class Teller:
    """Calls receivers back: POSTs received PIX to {webhookUrl}/pix until the answer is 200, at most 12 times."""

    def __init__(self, bank: SimulatedBank, wire: Wire, http: aiohttp.ClientSession) -> None:
        self._bank = bank
        self._wire = wire
        self._http = http
        self._rung = asyncio.Event()

    def wake(self) -> None:
        self._rung.set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._rung.clear()
            more = False
            try:
                # A bank that is down sends no callbacks.
                if self._wire.fault != "down":
                    more = await self.tell() == _TELL_AT_ONCE
                    more = await tell_boletos(self._bank.boletos, self._http) == TOLD_AT_ONCE or more
            except DB_UNAVAILABLE as gone:
                _log.warning("callbacks_wait", error=type(gone).__name__)
            except Exception:
                _log.exception("callbacks_failed")
            if not more:
                try:
                    async with asyncio.timeout(_TELL_EVERY_S):
                        await self._rung.wait()
                except TimeoutError:
                    pass

    async def tell(self) -> int:
        """Make the due callbacks, the PIX of one address together; returns how many PIX were due."""
        due = await self._bank.claim_untold(limit=_TELL_AT_ONCE, attempts_max=_TELL_ATTEMPTS)
        told = await post_by_url(
            self._http,
            due,
            lambda part: {"pix": [shown_pix(each) for each in part]},
            path="/pix",
            taken=range(200, 201),
        )
        if told:
            await self._bank.mark_told([each.end_to_end_id for each in told])
        return len(due)


def _txid(body: dict[str, Any]) -> str:
    txid, charge_id = body.get("txid"), body.get("charge_id")
    if isinstance(txid, str) and charge_id is None:
        return txid
    try:
        if not isinstance(charge_id, str) or txid is not None:
            raise ValueError
        return UUID(charge_id).hex
    except ValueError:
        raise Wrong(400, "give exactly one of charge_id and txid") from None
