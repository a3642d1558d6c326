"""Amounts as people here type them, and as they are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from web.brazilian import brl, parse_brl

MOST = 10**12 - 1


@pytest.mark.parametrize(
    ("text", "cents"),
    [
        ("10", 10_00),
        ("10,5", 10_50),
        ("10,50", 10_50),
        ("0,01", 1),
        ("1.234,56", 1_234_56),
        ("1234,56", 1_234_56),
        ("1.234", 1_234_00),
        ("R$ 1.234,56", 1_234_56),
        ("R$\u00a012", 12_00),
        ("9.999.999.999,99", MOST),
    ],
)
def test_an_amount_is_read_as_it_is_written_here(text: str, cents: int) -> None:
    assert parse_brl(text, most_cents=MOST) == cents


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.50",
        "1.23",
        "12.34,5",
        "1,234.56",
        "1,234",
        "0",
        "0,00",
        "-5",
        "+5",
        "1e3",
        "٣",
        "10,",
        ",50",
        "1 000",
        "R$",
        "$5",
    ],
)
def test_what_could_be_two_amounts_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="amount"):
        parse_brl(text, most_cents=MOST)


def test_an_amount_ends_at_its_bound() -> None:
    assert parse_brl("100", most_cents=100_00) == 100_00
    with pytest.raises(ValueError, match="bounds"):
        parse_brl("100,01", most_cents=100_00)


@given(st.integers(1, MOST))
def test_every_amount_that_is_shown_can_be_typed(cents: int) -> None:
    assert parse_brl(brl(cents), most_cents=MOST) == cents
