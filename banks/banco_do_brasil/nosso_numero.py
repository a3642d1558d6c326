"""Nosso numero at Banco do Brasil, for agreements (convenios) of seven digits, where we choose the numbers.

It has three forms: 20 characters in the API, 17 digits and a check digit on paper, and 17 digits in the barcode's free
field. Layouts: the bank's API guide and its carteira 17.
"""

import re
from typing import Final

CONTROL_MAX: Final = 9_999_999_999  # ten digits
NUMBER: Final = re.compile(r"000([1-9][0-9]{6})([0-9]{10})")
"""The 20 characters of the API, with agreement and control number."""

# Must not begin with 0: agreements of four and six digits have another layout, and the money would go astray.
_CONVENIO = re.compile(r"[1-9][0-9]{6}")
_CARTEIRA = re.compile(r"[0-9]{2}")
_ON_PAPER = re.compile(r"[0-9]{17}[0-9Xx]?")
_BARCODE = re.compile(r"001[0-9]{16}000000[0-9]{19}")  # the bank, 16 digits, then the free field


def number_at_bank(convenio: str, control: int) -> str:
    """Return the API's 20 characters of a boleto: "000", the agreement, our control number in ten digits.

    Control numbers begin at 1 and are never reused, even after a write-off.
    """
    return f"000{_seventeen(convenio, control)}"


def parse_number(number: str) -> tuple[str, int]:
    """Return agreement and control number of the 20 characters; ValueError if they are no number of ours."""
    match = NUMBER.fullmatch(number)
    control = int(match[2]) if match else 0
    if match is None or control == 0:
        raise ValueError("a nosso numero is 000, an agreement of seven digits and a control number of ten")
    return match[1], control


def control_number(number: str) -> int | None:
    """Return the control number in the 20 characters; None if they are no number of ours."""
    try:
        return parse_number(number)[1]
    except ValueError:
        return None


def printed_number(number: str) -> str:
    """Return the printed form of the 20 characters: "00034534810000000393" -> "34534810000000393-4".

    The check digit appears only on paper. ValueError if it is no number of ours.
    """
    return with_check_digit(_seventeen(*parse_number(number)))


def with_check_digit(digits: str) -> str:
    """Return a nosso numero, agency or account as the bank prints it: modulo 11, weights 9 down to 2 repeating from the
    right; the check digit is the remainder, and 10 is printed X."""
    remainder = sum(int(digit) * (9 - place % 8) for place, digit in enumerate(reversed(digits))) % 11
    return f"{digits}-{'X' if remainder == 10 else remainder}"


def free_field(convenio: str, control: int, carteira: str) -> str:
    """Return the barcode's free field, 25 digits defined by the bank: six zeros, the 17 digits, the carteira."""
    assert _CARTEIRA.fullmatch(carteira), "a carteira has two digits"
    return f"000000{_seventeen(convenio, control)}{carteira}"


def typed_number(bare: str) -> str | None:
    """Return the 20 characters of a boleto from what a person typed: the 20 characters themselves, the 17 printed
    digits with or without the check digit, or a barcode. None if it is no number of a seven-digit agreement."""
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
