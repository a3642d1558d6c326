"""Which banks there are, and which serves which order. The only product file outside its package that knows a bank."""

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
"""Of a callback's body: hints, by what each is known by, with the txid or boleto number to ask the bank for."""


class BankEntry(NamedTuple):
    open: Callable[[Settings, aiohttp.ClientSession, Callable[[], datetime]], Bank]
    agreement: Callable[[Settings], Agreement]
    callbacks: Mapping[str, HintReader]
    """By what follows the token in the path the bank calls: no two banks call the same path."""
    typed_number: Callable[[str], str | None]
    """The number by which the bank knows a boleto, of digits as people have it."""
    control_number: Callable[[str], int | None]
    """The number that we handed out, in the one by which the bank knows a boleto; None in somebody else's."""


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
        """The bank of a production order; of a test order the sandbox's, so many seconds ahead of real time: it goes by
        the clock of whom it serves, as their charges do."""
        return self.sandbox.ahead(ahead_s) if mode is Mode.SANDBOX else self.production[code]


def agreement_of(settings: Settings, code: str) -> Agreement:
    """Under which that bank's boletos are issued now."""
    return BANKS[code].agreement(settings)


def typed_numbers(bare: str) -> list[str]:
    """The numbers of boletos that these digits may be, of a linha digitavel without its marks as well."""
    with suppress(ValueError):
        bare = barcode_of_line(bare)
    return [number for entry in BANKS.values() if (number := entry.typed_number(bare)) is not None]


def control_of(bank: str, number: str) -> int | None:
    """The control number that we gave a boleto of this bank; None when the number is none of ours."""
    return BANKS[bank].control_number(number)


def open_banks(
    settings: Settings, pool: Pool, http: aiohttp.ClientSession, seal: Seal, traces: Traces | None = None
) -> Banks:
    """The simulated bank's sandbox books, and the banks of production that BANKS names.

    ValueError for a code that is no bank's, or when the certificate we are to show cannot be read.
    """

    def now() -> datetime:
        return datetime.now(UTC)

    if unknown := set(settings.banks) - BANKS.keys():
        raise ValueError(f"BANKS names a bank that is not known here: {', '.join(sorted(unknown))}")
    return Banks(
        sandbox=SimulatedBank(pool, seal, world=SANDBOX, url=settings.app_url, now=now),
        production={code: MeasuredBank(code, BANKS[code].open(settings, http, now), traces) for code in settings.banks},
    )
