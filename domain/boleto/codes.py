"""The FEBRABAN boleto: barcode of 44 digits, linha digitavel of 47, and the factor that carries the due date.

Carta-Circular BCB 2.926/2000. Positions, as the manuals count them: bank 1-3, currency 4 (always 9, reais), general
check digit 5, due factor 6-9, cents 10-19, free field 20-44, whose content the bank defines. Functions that write
assert their arguments; functions that read take text from anyone, and raise ValueError with the reason.
"""

import re
from datetime import date
from operator import mul
from typing import Final

from domain.brazilian import boleto_line
from domain.money import BOLETO_CENTS_MAX

# The four digits of the factor were used up on 2025-02-21 and began again the day after (FEBRABAN FB-009/2023).
FIRST_DUE: Final = date(2025, 2, 22)
LAST_DUE: Final = date(2049, 10, 13)

_FIRST_FACTOR: Final = 1000

_BARCODE = re.compile(r"[0-9]{44}")  # [0-9] and not \d, which would accept the digits of other scripts
_LINE = re.compile(r"[0-9]{47}")
_FIELD = re.compile(r"[0-9]{1,46}")
_WITHOUT_CHECK_DIGIT = re.compile(r"[0-9]{43}")
_BANK = re.compile(r"[0-9]{3}")
_FREE_FIELD = re.compile(r"[0-9]{25}")

# The weights 2 to 9 repeat from the right; here they are listed from the left.
_MODULO_11_WEIGHTS: Final = tuple(2 + place % 8 for place in reversed(range(43)))
_DOUBLED_DIGIT_SUMS: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)  # the digit sum of twice the digit: 7 * 2 = 14 -> 5


def due_factor(due: date) -> int:
    """Returns the factor of a due date, from 1000 on 2025-02-22 to 9999 on 2049-10-13; ValueError for any other day,
    which no boleto of ours can carry."""
    if not FIRST_DUE <= due <= LAST_DUE:
        raise ValueError(f"no barcode carries {due}: its due factor reaches from {FIRST_DUE} to {LAST_DUE}")
    return _FIRST_FACTOR + (due - FIRST_DUE).days


def field_check_digit(field: str) -> int:
    """Returns the check digit of one field of the line: modulo 10, with the weights 2, 1, 2, 1... from the right."""
    assert _FIELD.fullmatch(field), "a field is digits"
    doubled = sum(_DOUBLED_DIGIT_SUMS[int(digit)] for digit in field[::-2])
    return -(doubled + sum(map(int, field[-2::-2]))) % 10


def general_check_digit(others: str) -> int:
    """Returns the general check digit, 1 to 9: modulo 11 of the 43 other digits of a barcode.

    It is never 0: a result of 0, 10 or 11 is written as 1. So the check digit misses a change of one digit that moves
    the result from one of these three to another; that is a limit of the standard.
    """
    assert _WITHOUT_CHECK_DIGIT.fullmatch(others), "a barcode without its check digit has 43 digits"
    digit = 11 - sum(map(mul, map(int, others), _MODULO_11_WEIGHTS)) % 11
    return digit if 2 <= digit <= 9 else 1


def barcode(*, bank: str, free_field: str, due: date, amount_cents: int) -> str:
    """Returns the 44 digits of a boleto's barcode; ValueError when the due factor cannot carry `due`."""
    assert _BANK.fullmatch(bank), "a bank has three digits"
    assert _FREE_FIELD.fullmatch(free_field), "a free field has 25 digits"
    assert 0 < amount_cents <= BOLETO_CENTS_MAX, "the barcode has ten digits of cents, and 0 would mean any amount"
    before, after = f"{bank}9", f"{due_factor(due)}{amount_cents:010}{free_field}"
    return f"{before}{general_check_digit(before + after)}{after}"


def check_barcode(barcode: str) -> None:
    """ValueError unless the text is the barcode of a boleto in reais, of any issuer, whose check digit holds."""
    if _BARCODE.fullmatch(barcode) is None:
        raise ValueError("a barcode has 44 digits")
    if barcode[3] != "9":
        raise ValueError("not a boleto in reais")
    if int(barcode[4]) != general_check_digit(barcode[:4] + barcode[5:]):
        raise ValueError("the general check digit does not hold")


def line(barcode: str) -> str:
    """Returns the linha digitavel, 47 digits without marks; ValueError for an invalid barcode."""
    check_barcode(barcode)
    fields = (barcode[:4] + barcode[19:24], barcode[24:34], barcode[34:44])
    checked = "".join(f"{field}{field_check_digit(field)}" for field in fields)
    return f"{checked}{barcode[4:19]}"


def barcode_of_line(line: str) -> str:
    """Returns the barcode of a linha digitavel of 47 digits; ValueError unless all four check digits hold.

    The line must be without marks. Bills of utilities and taxes (48 digits, an 8 in front) are not boletos.
    """
    if _LINE.fullmatch(line) is None:
        raise ValueError("a linha digitavel has 47 digits")
    for number, field in enumerate((line[:10], line[10:21], line[21:32]), start=1):
        if int(field[-1]) != field_check_digit(field[:-1]):
            raise ValueError(f"the check digit of field {number} does not hold")
    barcode = line[:4] + line[32:47] + line[4:9] + line[10:20] + line[21:31]
    check_barcode(barcode)
    return barcode


def printed_line(line: str) -> str:
    """Returns the line as it is printed: `AAAAA.AAAAA BBBBB.BBBBBB CCCCC.CCCCCC K UUUUVVVVVVVVVV`.

    ValueError for an invalid line, so that nothing is printed that a payer's bank would refuse.
    """
    barcode_of_line(line)
    return boleto_line(line)
