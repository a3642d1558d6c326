"""Nosso numero at Banco do Brasil, for agreements (convenios) of seven digits, whose numbers are chosen by us.

Three forms of one thing: 20 characters for the API, 17 digits and a check digit on paper, and inside the barcode's
free field. Layouts: the bank's API guide and its carteira 17.
"""

import re
from typing import Final

CONTROL_MAX: Final = 9_999_999_999  # ten digits

# Not from 0: agreements of four and six digits are laid out otherwise, and the money would go astray.
_CONVENIO = re.compile(r"[1-9][0-9]{6}")
_CARTEIRA = re.compile(r"[0-9]{2}")
_NUMBER = re.compile(r"000([1-9][0-9]{6})([0-9]{10})")
_ON_PAPER = re.compile(r"[0-9]{17}[0-9Xx]?")
_BARCODE = re.compile(r"001[0-9]{16}000000[0-9]{19}")  # the bank, then 16 of any kind, then the free field


def number_at_bank(convenio: str, control: int) -> str:
    """The 20 characters by which the API knows a boleto: "000", the agreement, our control number in ten digits.

    A control number is used once for ever, also after a write-off; it counts from 1.
    """
    return f"000{_seventeen(convenio, control)}"


def parse_number(number: str) -> tuple[str, int]:
    """Agreement and control number of the 20 characters; ValueError when they are no number of ours."""
    match = _NUMBER.fullmatch(number)
    control = int(match[2]) if match else 0
    if match is None or control == 0:
        raise ValueError("a nosso numero is 000, an agreement of seven digits and a control number of ten")
    return match[1], control


def control_number(number: str) -> int | None:
    """The control number in the 20 characters; None when they are no number of ours."""
    try:
        return parse_number(number)[1]
    except ValueError:
        return None


def printed_number(number: str) -> str:
    """The 20 characters as they stand on paper: "00034534810000000393" -> "34534810000000393-4".

    The check digit is printed and used nowhere else: modulo 11, weights 9 down to 2 again and again from the
    right, the remainder itself; 10 is printed X. ValueError when it is no number of ours.
    """
    seventeen = _seventeen(*parse_number(number))
    remainder = sum(int(digit) * (9 - place % 8) for place, digit in enumerate(reversed(seventeen))) % 11
    return f"{seventeen}-{'X' if remainder == 10 else remainder}"


def free_field(convenio: str, control: int, carteira: str) -> str:
    """The 25 digits that the barcode leaves to the bank: six zeros, the 17 digits, the carteira."""
    assert _CARTEIRA.fullmatch(carteira), "a carteira has two digits"
    return f"000000{_seventeen(convenio, control)}{carteira}"


def typed_number(bare: str) -> str | None:
    """The 20 characters of a boleto of which somebody typed these: all of them, the 17 digits on paper with or without
    their check digit, or a barcode. None when it is none of an agreement of seven digits."""
    if _ON_PAPER.fullmatch(bare):
        number = f"000{bare[:17]}"
    elif _BARCODE.fullmatch(bare):
        number = f"000{bare[25:42]}"
    else:
        number = bare
    try:
        parse_number(number)
    except ValueError:
        return None
    return number


def _seventeen(convenio: str, control: int) -> str:
    assert _CONVENIO.fullmatch(convenio), "only agreements of seven digits are laid out like this"
    assert 0 < control <= CONTROL_MAX, "a control number has one to ten digits"
    return f"{convenio}{control:010}"
