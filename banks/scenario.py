"""A bank that plays the scenario of a merchant's test: header X-Sandbox-Bank (contract section 14), per order."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar, cast

from msgspec import Struct

from banks.protocol import Bank, BoletoBank, CobvBank, PixBank, Rejected, TransferBank, Unknown

SCENARIOS: Final = ("unavailable", "slow", "lost_reply", "refuse")
SLOW_S = 3.0
UNAVAILABLE_ATTEMPTS = 2
LOST_ATTEMPTS = 1

Answer = TypeVar("Answer")


class _Rule(Struct, frozen=True):
    refusal: str | None = None
    """The code with which `refuse` rejects; None: the operation is performed all the same."""
    lasting: bool = False
    """`unavailable` does not end after two attempts."""


# For boletos, whose merchant waits for the bank, `unavailable` lasts as long as the order is tried. So it does for the
# payment of a test charge, where the payer's bank plays the scenario.
_BOLETO: Final = _Rule("4678420", lasting=True)
# Methods not listed here answer as the bank does: those that only read, and those that create a location or register a
# callback, whose outcome no merchant sees.
_RULES: Final = {
    "put_cob": _Rule("CobOperacaoInvalida"),
    "remove_cob": _Rule(),
    "revise_cob": _Rule(),
    "put_cobv": _Rule("CobVOperacaoInvalida"),
    "remove_cobv": _Rule(),
    "revise_cobv": _Rule(),
    "return_pix": _Rule("PixDevolucaoInvalida"),
    "send_pix": _Rule("TransferenciaInvalida"),
    "register_boleto": _BOLETO,
    "redate_boleto": _BOLETO,
    "write_off_boleto": _BOLETO,
}


def acting(bank: Bank, scenario: str | None, *, attempt: int) -> Bank:
    """Return `bank` as it acts at attempt number `attempt` (from 1) of an order with this scenario."""
    return bank if scenario is None else Acting(bank, scenario, attempt)


class Acting:
    """A bank that plays a scenario. unavailable: the first two attempts do nothing. slow: each call takes 3 s longer.
    lost_reply: the first attempt is performed, but its answer is lost. refuse: a call whose rule has a refusal is
    rejected."""

    def __init__(self, bank: Bank, scenario: str, attempt: int) -> None:
        self._scenario = scenario
        self._attempt = attempt
        self.pix = cast(PixBank, _ActingPart(bank.pix, self._act))
        self.cobvs = cast(CobvBank, _ActingPart(bank.cobvs, self._act))
        self.boletos = cast(BoletoBank, _ActingPart(bank.boletos, self._act))
        self.transfers = cast(TransferBank, _ActingPart(bank.transfers, self._act))

    async def pay(self, call: Callable[[], Awaitable[Answer]]) -> Answer | Rejected | Unknown:
        """Play the scenario at the payer's bank. It is not behind the port, so the caller passes the call itself."""
        return await self._act(_BOLETO, call)

    async def _act(self, rule: _Rule, call: Callable[[], Awaitable[Answer]]) -> Answer | Rejected | Unknown:
        if self._scenario == "refuse" and rule.refusal is not None:
            return Rejected(rule.refusal, "The sandbox bank was asked to refuse (X-Sandbox-Bank).")
        if self._scenario == "unavailable" and (rule.lasting or self._attempt <= UNAVAILABLE_ATTEMPTS):
            return Unknown("sandbox: unavailable")
        if self._scenario == "slow":
            await asyncio.sleep(SLOW_S)
        answer = await call()
        if self._scenario == "lost_reply" and self._attempt <= LOST_ATTEMPTS:
            return Unknown("sandbox: lost reply")
        return answer


class _ActingPart:
    """One part of the bank (pix, boletos, ...); its methods that have a rule play the scenario."""

    def __init__(self, part: object, act: Callable[[_Rule, Callable[[], Awaitable[Any]]], Awaitable[Any]]) -> None:
        self._part = part
        self._act = act

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method: Callable[..., Awaitable[Any]] = getattr(self._part, name)
        rule = _RULES.get(name)
        if rule is None:
            return method
        return lambda *given, **named: self._act(rule, partial(method, *given, **named))
