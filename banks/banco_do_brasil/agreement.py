"""The agreement (convenio) under which boletos are issued at Banco do Brasil: numbers, codes and what is printed."""

from datetime import date
from typing import ClassVar, Final

from msgspec import Struct

from banks.banco_do_brasil.nosso_numero import (
    free_field,
    number_at_bank,
    parse_number,
    printed_number,
    with_check_digit,
)
from banks.banco_do_brasil.seu_numero import seu_numero
from domain.boleto.codes import barcode, line

COMPE: Final = "001"
"""The bank's code in the payment system."""


class ConvenioAgreement(Struct, frozen=True, kw_only=True):
    """An agreement (banks/boletos.py) of seven digits and type 4: we choose the control numbers.

    `agencia` and `conta` are without check digits.
    """

    bank: ClassVar[str] = COMPE
    bank_name: ClassVar[str] = "Banco do Brasil"
    printed_bank_code: ClassVar[str] = "001-9"

    convenio: str
    carteira: str
    variacao: int
    agencia: int
    conta: int

    @property
    def printed_account(self) -> str:
        return f"{with_check_digit(f'{self.agencia:04}')} / {with_check_digit(str(self.conta))}"

    def number(self, control: int) -> str:
        return number_at_bank(self.convenio, control)

    def printed_number(self, number: str) -> str:
        return printed_number(number)

    def seu_numero(self, external_id: str | None, *, control: int) -> str:
        return seu_numero(external_id, control=control)

    def codes(self, number: str, *, due_on: date, amount_cents: int) -> tuple[str, str]:
        return boleto_codes(number, due_on=due_on, amount_cents=amount_cents, carteira=self.carteira)


def boleto_codes(number: str, *, due_on: date, amount_cents: int, carteira: str = "17") -> tuple[str, str]:
    """Return the barcode and line that a boleto must have; ValueError for a malformed number or a day that a barcode
    cannot express."""
    convenio, control = parse_number(number)
    code = barcode(
        bank=COMPE, free_field=free_field(convenio, control, carteira), due=due_on, amount_cents=amount_cents
    )
    return code, line(code)
