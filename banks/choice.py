"""The table of banks, and the choice of the bank for an order. No other file outside a bank's package names a bank."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

import aiohttp
from msgspec import Struct

from banks.banco_do_brasil import adapter as banco_do_brasil
from banks.banco_do_brasil.agreement import COMPE as BANCO_DO_BRASIL
from banks.banco_do_brasil.nosso_numero import control_number, typed_number
from banks.boletos import Agreement
from banks.measured import MeasuredBank
from banks.protocol import Bank
from banks.simulated.bank import SANDBOX, SimulatedBank
from domain.boleto.codes import barcode_of_line
from domain.mode import Mode
from runtime.postgres import Pool
from runtime.seal import Seal
from runtime.settings import Settings
from runtime.tracing.traces import Traces

HintReader = Callable[[bytes], dict[str, str]]
"""Reads a callback's body into hints: from what identifies a hint to the txid or boleto number to ask the bank for."""


class BankEntry(NamedTuple):
    open: Callable[[Settings, aiohttp.ClientSession, Callable[[], datetime]], Bank]
    agreement: Callable[[Settings], Agreement]
    callbacks: Mapping[str, HintReader]
    """By the part of the callback path that follows the token; no two banks call the same path."""
    typed_number: Callable[[str], str | None]
    """Returns the bank's number of a boleto from the digits that a person typed; None if they are no such number."""
    control_number: Callable[[str], int | None]
    """Returns our control number from the bank's number of a boleto; None if the number is not ours."""


BANKS: Final[Mapping[str, BankEntry]] = {
    BANCO_DO_BRASIL: BankEntry(
        banco_do_brasil.open_bank,
        banco_do_brasil.agreement_of,
        banco_do_brasil.CALLBACKS,
        typed_number,
        control_number,
    ),
}
"""By COMPE code."""
CALLBACKS: Final = {path: (code, read) for code, entry in BANKS.items() for path, read in entry.callbacks.items()}


class Banks(Struct):
    """The simulated bank serves every test order, whichever bank's agreement it was made under."""

    sandbox: SimulatedBank
    production: dict[str, Bank]
    """By COMPE code."""

    def of(self, mode: Mode, code: str, *, ahead_s: int = 0) -> Bank:
        """Return the bank of a production order or, for a test order, the sandbox's bank with its clock `ahead_s`
        seconds ahead of real time, like the clock of the account's sandbox."""
        return self.sandbox.ahead(ahead_s) if mode is Mode.SANDBOX else self.production[code]


def agreement_of(settings: Settings, code: str) -> Agreement:
    """Return the agreement under which boletos are issued at this bank now."""
    return BANKS[code].agreement(settings)


def typed_numbers(bare: str) -> list[str]:
    """Return the boleto numbers that these digits may mean. The digits may be those of a linha digitavel, too."""
    with suppress(ValueError):
        bare = barcode_of_line(bare)
    return [number for entry in BANKS.values() if (number := entry.typed_number(bare)) is not None]


def control_of(bank: str, number: str) -> int | None:
    """Return the control number of a boleto at this bank; None if its number is not ours."""
    return BANKS[bank].control_number(number)


def open_banks(
    settings: Settings, pool: Pool, http: aiohttp.ClientSession, seal: Seal, traces: Traces | None = None
) -> Banks:
    """Open the simulated bank with its sandbox books, and the production banks that the setting BANKS names.

    ValueError for an unknown code, or if our client certificate cannot be read.
    """

    def now() -> datetime:
        return datetime.now(UTC)

    if unknown := set(settings.banks) - BANKS.keys():
        raise ValueError(f"BANKS names a bank that is not known here: {', '.join(sorted(unknown))}")
    return Banks(
        sandbox=SimulatedBank(pool, seal, world=SANDBOX, url=settings.app_url, now=now),
        production={code: MeasuredBank(code, BANKS[code].open(settings, http, now), traces) for code in settings.banks},
    )
