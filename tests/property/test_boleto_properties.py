"""Boletos of every due date and any amount, number and bank are built and parsed back; mistyped digits are detected.

The check digits of the fields are compared with python-stdnum (modulo 10 is Luhn's). The general check digit is
verified by its definition: the weighted sum of the other digits plus the check digit is divisible by 11, unless a
result of 0, 10 or 11 was written as 1.
"""

from contextlib import suppress
from datetime import date, timedelta
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from stdnum import luhn

from banks.banco_do_brasil.nosso_numero import CONTROL_MAX, free_field, number_at_bank, parse_number, printed_number
from banks.banco_do_brasil.text import fold_for_bank
from domain.boleto.codes import (
    FIRST_DUE,
    LAST_DUE,
    barcode,
    barcode_of_line,
    due_factor,
    line,
    printed_line,
)
from domain.money import BOLETO_CENTS_MAX

SAME_EVERY_RUN: Any = {"derandomize": True, "deadline": None, "database": None}
ALL_DUE_DATES = [FIRST_DUE + timedelta(days=days) for days in range((LAST_DUE - FIRST_DUE).days + 1)]
FIELD = free_field("3128557", 1, "17")

dues = st.dates(FIRST_DUE, LAST_DUE)
# 1 to ten nines, each number of digits as often as the others: an even draw would hardly ever have less than nine.
amounts = st.tuples(st.integers(1, 10), st.integers(1, 10**10 - 1)).map(lambda drawn: drawn[1] % 10 ** drawn[0] or 1)
controls = amounts
convenios = st.integers(1_000_000, 9_999_999).map(str)
banks = st.integers(0, 999).map("{:03}".format)
free_fields = st.integers(0, 10**25 - 1).map("{:025}".format)
boletos = st.builds(
    lambda bank, field, due, cents: barcode(bank=bank, free_field=field, due=due, amount_cents=cents),
    banks,
    free_fields,
    dues,
    amounts,
)


def remainder(code: str) -> int:
    """The remainder by 11 of the weighted sum of a barcode's digits without the check digit."""
    weights = "4329876543298765432987654329876543298765432"  # as the manuals print them
    return sum(int(digit) * int(weight) for digit, weight in zip(code[:4] + code[5:], weights, strict=True)) % 11


def is_accepted(text: str) -> bool:
    try:
        barcode_of_line(text)
    except ValueError:
        return False
    return True


def test_every_due_date_has_its_own_factor() -> None:
    assert [due_factor(due) for due in ALL_DUE_DATES] == list(range(1000, 10_000))


def test_boletos_of_every_due_date_are_parsed_back_as_built() -> None:
    for number, due in enumerate(ALL_DUE_DATES):
        cents = 1 + number * 1_111_111  # from one cent to almost the largest amount
        code = barcode(bank="001", free_field=FIELD, due=due, amount_cents=cents)
        assert barcode_of_line(line(code)) == code
        assert code[:4] + code[5:] == f"0019{due_factor(due)}{cents:010}{FIELD}"


@settings(max_examples=300, **SAME_EVERY_RUN)
@given(convenio=convenios, control=controls, due=dues, cents=amounts)
@example(convenio="1000000", control=1, due=FIRST_DUE, cents=1)
@example(convenio="9999999", control=CONTROL_MAX, due=LAST_DUE, cents=BOLETO_CENTS_MAX)
def test_line_and_barcode_of_our_boletos_contain_what_they_were_built_from(
    convenio: str, control: int, due: date, cents: int
) -> None:
    code = barcode(bank="001", free_field=free_field(convenio, control, "17"), due=due, amount_cents=cents)
    text = line(code)
    assert (len(code), len(text)) == (44, 47)
    assert barcode_of_line(text) == code
    assert code[:3] == "001"
    assert code[5:19] == f"{due_factor(due)}{cents:010}"
    number = f"000{code[25:42]}"
    assert number == number_at_bank(convenio, control)
    assert parse_number(number) == (convenio, control)
    assert printed_number(number)[:-2] == number[3:]
    assert f"{printed_line(text)[:5]}{printed_line(text)[6:]}".replace(" ", "").replace(".", "") == text


@settings(max_examples=300, **SAME_EVERY_RUN)
@given(code=boletos)
def test_check_digits_follow_their_definitions(code: str) -> None:
    text = line(code)
    for field in (text[:10], text[10:21], text[21:32]):
        assert luhn.is_valid(field)
    digit, rest = int(code[4]), remainder(code)
    assert 1 <= digit <= 9
    assert (rest + digit) % 11 == 0 if rest not in (0, 1, 10) else digit == 1


@settings(max_examples=60, **SAME_EVERY_RUN)
@given(code=boletos)
@example(code="00191169500003327000000003453481000000039317")  # 10 written as 1
@example(code="34191999900000100001090022334521234567890000")
def test_one_wrong_digit_in_a_line_is_noticed_except_where_the_standard_cannot(code: str) -> None:
    text = line(code)
    for place in range(47):
        for digit in "0123456789":
            if digit == text[place]:
                continue
            mistyped = text[:place] + digit + text[place + 1 :]
            # In fields and check digits always; in factor and amount unless both sums give a digit written as 1.
            mistaken = code[: place - 28] + digit + code[place - 27 :] if place > 32 else ""
            undetected = bool(mistaken) and {remainder(code), remainder(mistaken)} <= {0, 1, 10}
            assert is_accepted(mistyped) is undetected, (place, digit)


@settings(max_examples=60, **SAME_EVERY_RUN)
@given(code=boletos)
@example(code="00191169500003327000000003453481000000039317")
def test_one_wrong_digit_in_a_barcode_is_noticed_except_where_the_standard_cannot(code: str) -> None:
    for place in range(44):
        for digit in "0123456789":
            if digit == code[place]:
                continue
            mistaken = code[:place] + digit + code[place + 1 :]
            undetected = place not in (3, 4) and {remainder(code), remainder(mistaken)} <= {0, 1, 10}
            try:
                line(mistaken)
                read = True
            except ValueError:
                read = False
            assert read is undetected, (place, digit)


@settings(max_examples=400, **SAME_EVERY_RUN)
@given(text=st.one_of(st.text(max_size=60), st.text("0123456789", min_size=44, max_size=48)))
def test_parsing_arbitrary_text_raises_only_value_errors(text: str) -> None:
    for read in (barcode_of_line, line, printed_line, parse_number, printed_number):
        with suppress(ValueError):
            read(text)


@settings(max_examples=400, **SAME_EVERY_RUN)
@given(
    text=st.one_of(st.text("ABCabc çãõáéíóúâêôàüÇÃÕÁÉÍÓÚ&-.,/'ºª–", max_size=80), st.text(max_size=80)),
    length_max=st.integers(1, 60),
)
def test_folded_text_is_within_its_length_idempotent_and_in_the_banks_letters(text: str, length_max: int) -> None:
    folded = fold_for_bank(text, length_max)
    assert len(folded) <= length_max
    assert set(folded) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,/&-")
    assert folded == " ".join(folded.split())
    assert fold_for_bank(folded, length_max) == folded
