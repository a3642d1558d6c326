"""A form as it was filled in: what each field means, and what is wrong with it, in the words of whoever filled it in.

Nothing is thrown away: a form that cannot be taken is shown again as it was, with a sentence beside each field. What is
right or wrong is what the API says of the same things (contract sections 2, 5 and 6); only how an amount is written
differs.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Final

from domain.boleto.codes import LAST_DUE
from domain.brazilian import brl, parse_brl
from domain.documents import check_digits_hold, well_formed
from domain.instants import parse_day
from domain.payer import is_mail_address
from web.painel.page_request import PageRequest

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MARKS = re.compile(r"[.\-/ ]")
_REQUIRED: Final = "Preencha este campo."


class Filled:
    """`faults` are by field; what is not about one field stands under "form"."""

    def __init__(self, request: PageRequest | None = None, shown: Mapping[str, str] | None = None) -> None:
        """As it was sent with `request`; without one an empty form, in which `shown` stands."""
        self._request = request
        self._shown = shown or {}
        self.faults: dict[str, str] = {}

    def value(self, name: str) -> str:
        """As it was typed, for the field."""
        return self._shown.get(name, "") if self._request is None else self._request.field(name)

    def has(self, name: str) -> bool:
        """Whether a box is ticked."""
        return self.value(name) == "yes"

    def wrong(self, name: str, fault: str) -> None:
        self.faults.setdefault(name, fault)

    def text(self, name: str, length_max: int, *, required: bool = False) -> str | None:
        value = self.value(name)
        if not value:
            if required:
                self.wrong(name, _REQUIRED)
            return None
        if len(value) > length_max:
            self.wrong(name, f"Use até {length_max} caracteres.")
        elif _CONTROL.search(value):
            self.wrong(name, "Há caracteres que não podem ser usados.")
        return value

    def cents(self, name: str, cents_max: int, *, required: bool = True) -> int | None:
        value = self.value(name)
        if not value:
            if required:
                self.wrong(name, _REQUIRED)
            return None
        try:
            return parse_brl(value, cents_max=cents_max)
        except ValueError:
            self.wrong(name, f"Informe um valor como 10,50, maior que zero e até {brl(cents_max)}.")
            return None

    def day(self, name: str, *, first: date | None = None, required: bool = True) -> date | None:
        """Up to the last day a barcode carries; `first` is the earliest it may be."""
        value = self.value(name)
        if not value:
            if required:
                self.wrong(name, _REQUIRED)
            return None
        try:
            found = parse_day(value)
        except ValueError:
            self.wrong(name, "Não é uma data.")
            return None
        if first is not None and found < first:
            self.wrong(name, f"Escolha {first.day:02}/{first.month:02}/{first.year} ou um dia depois.")
        elif found > LAST_DUE:
            self.wrong(name, f"O último dia possível é {LAST_DUE.day:02}/{LAST_DUE.month:02}/{LAST_DUE.year}.")
        return found

    def choice(self, name: str, allowed: Iterable[str]) -> str:
        value = self.value(name)
        if value not in allowed:
            self.wrong(name, "Escolha uma das opções.")
        return value

    def whole(self, name: str, minimum: int, maximum: int) -> int | None:
        value = self.value(name)
        if not value:
            return None
        if not (value.isascii() and value.isdigit() and len(value) <= 9 and minimum <= int(value) <= maximum):
            self.wrong(name, f"Informe um número inteiro de {minimum} a {maximum}.")
            return None
        return int(value)

    def digits(self, name: str, length: int, what: str, *, required: bool = True) -> str | None:
        """So many digits, however they are punctuated."""
        value = _MARKS.sub("", self.value(name))
        if not value:
            if required:
                self.wrong(name, _REQUIRED)
            return None
        if not (value.isascii() and value.isdigit() and len(value) == length):
            self.wrong(name, what)
        return value

    def document(self, name: str, *, letters: bool, production: bool, required: bool) -> str | None:
        """A CPF or CNPJ, bare. Fictional ones will do in test, as for the API."""
        value = _MARKS.sub("", self.value(name)).upper()
        if not value:
            if required:
                self.wrong(name, _REQUIRED)
            return None
        if not well_formed(value, letters=letters):
            self.wrong(name, "Informe um CPF (11 dígitos) ou CNPJ (14).")
        elif production and not check_digits_hold(value):
            self.wrong(name, "Este CPF ou CNPJ não existe. Confira os dígitos.")
        return value

    def email(self, name: str, *, required: bool = False) -> str | None:
        value = self.value(name)
        if not value:
            if required:
                self.wrong(name, _REQUIRED)
            return None
        if not is_mail_address(value):
            self.wrong(name, "Não é um endereço de e-mail.")
        return value
