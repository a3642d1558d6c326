"""A form as it was filled in: what each field means, and what is wrong with it, in words for the person who typed it.

Nothing typed is lost: a form that cannot be accepted is shown again as it was filled in, with a sentence beside each
wrong field. The rules are those of the API (contract sections 2, 5 and 6); only amounts are written differently.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date

from domain.boleto.codes import LAST_DUE
from domain.brazilian import amount, brl, day, iso_day, parse_brl, thousands
from domain.documents import check_digits_hold, well_formed, without_marks
from domain.instants import parse_day
from domain.payer import is_mail_address
from web.painel.page_request import PageRequest

# Marks that people write into a PIX key that is a document or a telephone number.
_PUNCTUATION = str.maketrans("", "", ".-/() ")
_ZERO_AMOUNT = re.compile(r"(R\$)?[ \u00a0]*0{1,10}(,0{1,2})?[ \u00a0]*%?")
NO_OPTION = "Escolha uma das opções."
BAD_CHARACTERS = "Há caracteres que não podem ser usados."
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Filled:
    """A form that was sent, or is to be filled in. `faults` has a sentence by field; a fault of no single field is
    under "form"."""

    def __init__(self, request: PageRequest | None = None, shown: Mapping[str, str] | None = None) -> None:
        """Takes the fields as sent with `request`; without a request, the form is empty except for `shown`."""
        self._request = request
        self._initial = shown or {}
        self._meanings: dict[str, str] = {}
        self.faults: dict[str, str] = {}

    def value(self, name: str) -> str:
        """Returns the field as it was typed, to fill it again."""
        return self._initial.get(name, "") if self._request is None else self._request.field(name)

    def means(self, name: str, value: str) -> None:
        """Takes the field to mean `value`; the field goes on showing what was typed into it."""
        self._meanings[name] = value

    def has(self, name: str) -> bool:
        """Whether a box is ticked."""
        return self.value(name) == "yes"

    def wrong(self, name: str, fault: str) -> None:
        self.faults.setdefault(name, fault)

    def text(self, name: str, length_max: int, *, required: bool = False) -> str | None:
        value = self._meaning(name, required=required)
        if value is not None and len(value) > length_max:
            self.wrong(name, f"Use até {length_max} caracteres.")
        elif value is not None and CONTROL_CHARACTERS.search(value):
            self.wrong(name, BAD_CHARACTERS)
        return value

    def cents(self, name: str, cents_max: int, *, required: bool = True, zero: bool = False) -> int | None:
        """`zero`: whether it may be zero."""
        if zero and self.is_zero(name):
            return 0
        value = self._meaning(name, required=required)
        try:
            return None if value is None else parse_brl(value, cents_max=cents_max)
        except ValueError:
            least = "de zero" if zero else "maior que zero e"
            self.wrong(name, f"Informe um valor como 10,50, {least} até {brl(cents_max)}.")
            return None

    def is_zero(self, name: str) -> bool:
        """Whether the field means zero, as people type it: "0", "0,00", "R$ 0"."""
        return _ZERO_AMOUNT.fullmatch(self.value(name)) is not None

    def percent(self, name: str, bps_max: int) -> int | None:
        """Returns hundredths of a percent, typed like an amount: "2", "2,5"; None for an empty field."""
        value = self._meaning(name, required=False)
        try:
            return None if value is None else parse_brl(value.removesuffix("%").strip(), cents_max=bps_max)
        except ValueError:
            self.wrong(name, f"Informe um percentual como 2,00, maior que zero e até {amount(bps_max)}.")
            return None

    def day(self, name: str, *, first: date | None = None, required: bool = True) -> date | None:
        """Returns a day from `first` on, and up to LAST_DUE, the last day that a barcode can carry."""
        value = self._meaning(name, required=required)
        try:
            parsed = None if value is None else parse_day(iso_day(value))
        except ValueError:
            self.wrong(name, "Não é uma data como 31/12/2026.")
            return None
        if parsed is not None and first is not None and parsed < first:
            self.wrong(name, f"Escolha {day(first)} ou um dia depois.")
        elif parsed is not None and parsed > LAST_DUE:
            self.wrong(name, f"O último dia possível é {day(LAST_DUE)}.")
        return parsed

    def choice(self, name: str, allowed: Iterable[str]) -> str:
        value = self.value(name)
        if value not in allowed:
            self.wrong(name, NO_OPTION)
        return value

    def whole(self, name: str, x_min: int, x_max: int) -> int | None:
        value = self._meaning(name, required=False)
        if value is None:
            return None
        if not (value.isascii() and value.isdigit() and len(value) <= 9 and x_min <= int(value) <= x_max):
            self.wrong(name, f"Informe um número inteiro de {x_min} a {thousands(x_max)}.")
            return None
        return int(value)

    def digits(self, name: str, length: int, fault: str) -> str | None:
        """Returns a number of `length` digits, however it is punctuated."""
        value = self._meaning(name, required=True, bare=True)
        if value is not None and not (value.isascii() and value.isdigit() and len(value) == length):
            self.wrong(name, fault)
        return value

    def document(self, name: str, *, letters: bool, production: bool, required: bool) -> str | None:
        """Returns a CPF or CNPJ without punctuation. As in the API, test mode accepts fictional ones."""
        value = self._meaning(name, required=required, bare=True)
        if value is None:
            return None
        value = value.upper()
        if not well_formed(value, letters=letters):
            self.wrong(name, "Informe um CPF (11 dígitos) ou CNPJ (14).")
        elif production and not check_digits_hold(value):
            self.wrong(name, "Este CPF ou CNPJ não existe. Confira os dígitos.")
        return value

    def email(self, name: str, *, required: bool = False) -> str | None:
        value = self._meaning(name, required=required)
        if value is not None and not is_mail_address(value):
            self.wrong(name, "Não é um endereço de e-mail.")
        return value

    def _meaning(self, name: str, *, required: bool, bare: bool = False) -> str | None:
        """Returns what the field means; None for an empty field, a fault if `required`. `bare`: without punctuation."""
        value = self._meanings.get(name) or self.value(name)
        if bare:
            value = without_marks(value)
        if not value and required:
            self.wrong(name, "Preencha este campo.")
        return value or None


def typed_pix_key(typed: str) -> str:
    """Returns a PIX key as the DICT writes it: a document or a telephone number without punctuation, any other key in
    lower case."""
    bare = typed.translate(_PUNCTUATION)
    return bare if bare.removeprefix("+").isdigit() else typed.lower()
