"""Amounts, days, instants and durations in Brazilian notation: as people type them, and as pages show them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.brazilian import brl, iso_day, moment_exact, parse_brl, short_id, span, thousands
from runtime.ids import new_id

CENTS_MAX = 10**12 - 1


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
        ("9.999.999.999,99", CENTS_MAX),
    ],
)
def test_an_amount_in_brazilian_notation_is_parsed(text: str, cents: int) -> None:
    assert parse_brl(text, cents_max=CENTS_MAX) == cents


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
def test_an_ambiguous_or_malformed_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="amount"):
        parse_brl(text, cents_max=CENTS_MAX)


def test_an_amount_above_the_maximum_is_refused() -> None:
    assert parse_brl("100", cents_max=100_00) == 100_00
    with pytest.raises(ValueError, match="bounds"):
        parse_brl("100,01", cents_max=100_00)


@given(st.integers(1, CENTS_MAX))
def test_every_amount_that_is_shown_can_be_typed(cents: int) -> None:
    assert parse_brl(brl(cents), cents_max=CENTS_MAX) == cents


def test_an_instant_is_shown_to_the_second_in_brasilia_time() -> None:
    assert moment_exact(datetime(2026, 11, 22, 2, 59, 58, 999_000, UTC)) == "21/11/2026 às 23:59:58"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (7_199, "119 min"),
        (7_200, "2 h"),
        (172_799, "47 h"),
        (172_800, "2 dias"),
    ],
)
def test_a_duration_is_shown_in_one_unit(seconds: int, said: str) -> None:
    assert span(timedelta(seconds=seconds)) == said


def test_ids_made_at_the_same_time_have_different_short_forms() -> None:
    assert len({short_id(str(new_id())) for _ in range(100)}) == 100


def test_large_numbers_are_shown_with_points_between_the_thousands() -> None:
    assert [thousands(each) for each in (0, 999, 10_000, 1_234_567)] == ["0", "999", "10.000", "1.234.567"]


@pytest.mark.parametrize(
    ("typed", "iso"),
    [
        ("31/12/2026", "2026-12-31"),
        ("1/2/26", "2026-02-01"),
        ("2026-12-31", "2026-12-31"),
        ("31/12/202", "31/12/202"),
        ("٣١/12/2026", "٣١/12/2026"),
        ("", ""),
    ],
)
def test_a_day_in_brazilian_notation_becomes_iso_and_other_text_stays_as_it_is(typed: str, iso: str) -> None:
    assert iso_day(typed) == iso
