"""A search finds a boleto by any form of its number that a person types: nosso numero, barcode or line."""

from datetime import date

import pytest

from banks.banco_do_brasil.nosso_numero import free_field, number_at_bank, printed_number
from banks.choice import typed_numbers
from domain.boleto.codes import barcode, line

NUMBER = number_at_bank("3128557", 4711)
BARCODE = barcode(bank="001", free_field=free_field("3128557", 4711, "17"), due=date(2027, 3, 1), amount_cents=1250)


@pytest.mark.parametrize(
    "typed", [NUMBER, NUMBER[3:], printed_number(NUMBER).replace("-", ""), BARCODE, line(BARCODE)]
)  # fmt: skip
def test_each_form_of_a_boletos_number_finds_the_same_boleto(typed: str) -> None:
    assert typed_numbers(typed) == [NUMBER]


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "1",
        "52998224725",
        "0" * 20,
        "9" * 20,
        f"237{BARCODE[3:]}",
        BARCODE[:-1],
        line(BARCODE)[:-1],
        "٣" * 17,
        "00030000000000000000",
    ],
)
def test_a_number_that_is_no_boleto_of_a_known_bank_finds_none(typed: str) -> None:
    assert typed_numbers(typed) == []
