"""Amounts: the strings that the API accepts, and the strings it answers."""

import pytest

from domain.money import BOLETO_CENTS_MAX, PIX_CENTS_MAX, parse_amount, reais
from web.painel import rows


@pytest.mark.parametrize(
    ("text", "cents"),
    [
        ("0.01", 1),
        ("0.1", 10),
        ("1", 100),
        ("1.5", 150),
        ("12.34", 1234),
        ("0000000012.30", 1230),
        ("9999999999.99", PIX_CENTS_MAX),
    ],
)
def test_an_amount_is_read_to_the_cent(text: str, cents: int) -> None:
    assert parse_amount(text, cents_max=PIX_CENTS_MAX) == cents


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "0",
            "0.0",
            "0.00",
            "-1",
            "+1",
            "-0.01",
            "1,50",
            "1.",
            ".5",
            "1.234",
            "1.5.0",
            "1e3",
            "0x1",
        ),
        *(
            " 1",
            "1 ",
            "1\n",
            "1.5\n",
            "1_000",
            "1 000",
            "1\x00",
            "10000000000",
            "00000000001",
            "NaN",
            "Infinity",
        ),
        *(
            "R$ 1.00",
            "\u0661",
            "1.\u0665",
            "\uff11",
            "\u00b2",
            "\ud800",
        ),  # digits of other scripts, a lone surrogate
        *(None, True, 1, 1.0, b"1", ["1"], {}),
    ],
)
def test_an_invalid_amount_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="amount"):
        parse_amount(text, cents_max=PIX_CENTS_MAX)


def test_an_amount_above_the_limit_of_its_rail_is_refused() -> None:
    assert parse_amount("99999999.99", cents_max=BOLETO_CENTS_MAX) == BOLETO_CENTS_MAX
    with pytest.raises(ValueError, match=r"99999999\.99"):
        parse_amount("100000000.00", cents_max=BOLETO_CENTS_MAX)


@pytest.mark.parametrize(
    ("cents", "text"),
    [
        (0, "0.00"),
        (1, "0.01"),
        (10, "0.10"),
        (100, "1.00"),
        (-1, "-0.01"),
        (-5, "-0.05"),
        (-100, "-1.00"),
        (-1234, "-12.34"),
        (PIX_CENTS_MAX, "9999999999.99"),
    ],
)
def test_reais_always_have_two_decimals(cents: int, text: str) -> None:
    assert reais(cents) == text


def test_a_formatted_amount_is_parsed_back_unchanged() -> None:
    for cents in (*range(1, 12_000), *range(1, PIX_CENTS_MAX, 98_765_432_1)):
        assert parse_amount(reais(cents), cents_max=PIX_CENTS_MAX) == cents


@pytest.mark.parametrize("cents", [0, 5, -5, 100, 10**12 - 1, 10**12, -(10**12), 2**63 - 1])
def test_the_dashboard_parses_a_balance_of_any_size(cents: int) -> None:
    """A balance may exceed the largest amount of a payment, for example after ten such payments."""
    assert rows.cents(reais(cents)) == cents
