"""A bank that acts as a merchant's test asked for: header X-Sandbox-Bank (contract section 14), per order."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date, datetime
from typing import Final, TypeVar

from banks.boletos import BoletoState, NewBoleto, NotYet, PaidBoleto, RegisteredBoleto
from banks.protocol import Bank, Cob, CobState, Done, Location, NotFound, Rejected, Unknown
from banks.received import ReceivedPix
from banks.transfers import Return, Sent, Transfer

SCENARIOS: Final = ("unavailable", "slow", "lost_reply", "refuse")
SLOW_S = 3.0
UNAVAILABLE_ATTEMPTS = 2
LOST_ATTEMPTS = 1

Answer = TypeVar("Answer")


def acting(bank: Bank, scenario: str | None, *, attempt: int) -> Bank:
    """`bank` for the `attempt`th (from 1) try of an order with this scenario."""
    return bank if scenario is None else Acting(bank, scenario, attempt)


class Acting:
    """unavailable: nothing happens, twice. slow: 3 s. lost_reply: done, but unheard, once. refuse: no.

    For boletos, whose merchant waits for the bank, unavailable lasts as long as his request is asked for. So it does
    for the payer of a test charge, whose own bank is the one that acts then.
    """

    def __init__(self, bank: Bank, scenario: str, attempt: int) -> None:
        self._bank = bank
        self._scenario = scenario
        self._attempt = attempt

    async def put_cob(self, cob: Cob) -> Done[CobState] | Rejected | Unknown:
        if self._scenario == "refuse":
            return Rejected("CobOperacaoInvalida", "The sandbox bank was asked to refuse (X-Sandbox-Bank).")
        return await self._act(lambda: self._bank.put_cob(cob))

    async def get_cob(self, txid: str) -> CobState | NotFound | Unknown:
        return await self._bank.get_cob(txid)

    async def remove_cob(self, txid: str) -> Done[None] | NotFound | Rejected | Unknown:
        return await self._act(lambda: self._bank.remove_cob(txid))

    async def revise_cob(self, txid: str, expires_at: datetime) -> Done[None] | NotFound | Rejected | Unknown:
        return await self._act(lambda: self._bank.revise_cob(txid, expires_at))

    async def create_locations(self, count: int) -> Done[list[Location]] | Rejected | Unknown:
        return await self._act(lambda: self._bank.create_locations(count))

    async def received(self, since: datetime, until: datetime) -> Done[list[ReceivedPix]] | Unknown:
        return await self._bank.received(since, until)

    async def register_callback(self, pix_key: str, url: str) -> Done[None] | Rejected | Unknown:
        return await self._bank.register_callback(pix_key, url)

    async def return_pix(self, asked: Return) -> Done[Sent] | Rejected | Unknown:
        if self._scenario == "refuse":
            return Rejected("PixDevolucaoInvalida", "The sandbox bank was asked to refuse (X-Sandbox-Bank).")
        return await self._act(lambda: self._bank.return_pix(asked))

    async def find_return(self, end_to_end_id: str, id: str) -> Sent | NotFound | Unknown:
        return await self._bank.find_return(end_to_end_id, id)

    async def send_pix(self, asked: Transfer) -> Done[Sent] | Rejected | Unknown:
        if self._scenario == "refuse":
            return Rejected("TransferenciaInvalida", "The sandbox bank was asked to refuse (X-Sandbox-Bank).")
        return await self._act(lambda: self._bank.send_pix(asked))

    async def find_transfer(self, id: str) -> Sent | NotFound | Unknown:
        return await self._bank.find_transfer(id)

    async def register_boleto(self, boleto: NewBoleto) -> Done[RegisteredBoleto] | Rejected | Unknown:
        return await self._act_on_boleto(lambda: self._bank.register_boleto(boleto))

    async def find_boleto(self, number: str) -> BoletoState | NotFound | Unknown:
        return await self._bank.find_boleto(number)

    async def redate_boleto(
        self, number: str, due_on: date, *, registered_at: datetime | None = None
    ) -> Done[None] | Rejected | NotYet | Unknown:
        return await self._act_on_boleto(lambda: self._bank.redate_boleto(number, due_on, registered_at=registered_at))

    async def write_off_boleto(
        self, number: str, *, registered_at: datetime | None = None
    ) -> Done[None] | Rejected | NotYet | Unknown:
        return await self._act_on_boleto(lambda: self._bank.write_off_boleto(number, registered_at=registered_at))

    async def boletos_paid(self, since: date, until: date) -> Done[list[PaidBoleto]] | Unknown:
        return await self._bank.boletos_paid(since, until)

    async def pay(self, call: Callable[[], Awaitable[Answer]]) -> Answer | Rejected | Unknown:
        """A payer's bank: it is beyond the port, so what it is to do comes along."""
        return await self._act_on_boleto(call)

    async def _act_on_boleto(self, call: Callable[[], Awaitable[Answer]]) -> Answer | Rejected | Unknown:
        if self._scenario == "refuse":
            return Rejected("4678420", "The sandbox bank was asked to refuse (X-Sandbox-Bank).")
        if self._scenario == "unavailable":
            return Unknown("sandbox: unavailable")
        return await self._act(call)

    async def _act(self, call: Callable[[], Awaitable[Answer]]) -> Answer | Unknown:
        if self._scenario == "unavailable" and self._attempt <= UNAVAILABLE_ATTEMPTS:
            return Unknown("sandbox: unavailable")
        if self._scenario == "slow":
            await asyncio.sleep(SLOW_S)
        answer = await call()
        if self._scenario == "lost_reply" and self._attempt <= LOST_ATTEMPTS:
            return Unknown("sandbox: lost reply")
        return answer
