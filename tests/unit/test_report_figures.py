"""How a report's numbers read on a page: durations in a unit that tells them, and growth from nothing in words."""

import pytest

from readmodels.reports.remade import half_up
from readmodels.reports.report import Column, ColumnKind, Report
from readmodels.reports.reports import REPORTS
from web.plataforma.reports.figures import cells, compared, heading

CONVERSION: Report = REPORTS["conversion"]


@pytest.mark.parametrize(("seconds", "shown"), [(45, "45 s"), (2_340, "39 min"), (18_100, "5 h"), (None, "")])
def test_a_duration_has_its_unit_in_the_cell_and_not_in_the_heading(seconds: int | None, shown: str) -> None:
    row = tuple(seconds if each.name == "median_seconds" else None for each in CONVERSION.columns)
    at = [each.name for each in CONVERSION.columns].index("median_seconds")
    assert (cells(CONVERSION, row)[at], heading(CONVERSION.columns[at])) == (shown, "Mediana")


@pytest.mark.parametrize(
    ("now", "was", "change"), [(110, 100, "+10,0 %"), (95, 100, "−5,0 %"), (3, 0, "novo"), (0, 0, "igual")]
)
def test_a_number_is_compared_with_that_of_the_period_before(now: int, was: int, change: str) -> None:
    report = CONVERSION._replace(columns=(Column("charges", "Emitidas", ColumnKind.COUNT),))
    (line,) = compared(report, (now,), (was,))
    assert (line.heading, line.now, line.change) == ("Emitidas", str(now), change)


@pytest.mark.parametrize(("rate", "shown"), [(9_750, "97,50"), (5, "0,05"), (-5, "−0,05"), (-110, "−1,10")])
def test_a_share_below_zero_is_shown_as_it_is(rate: int, shown: str) -> None:
    """What was given back of fees in a month may be more than what was charged in it."""
    fees = REPORTS["fees"]
    at = [each.name for each in fees.columns].index("rate")
    row = tuple(rate if each.name == "rate" else None for each in fees.columns)
    assert cells(fees, row)[at] == shown


@pytest.mark.parametrize(("part", "rounded"), [(1, 1), (-1, -1), (3, 2), (-3, -2), (0, 0)])
def test_a_half_is_rounded_away_from_nothing_as_one_database_rounds_it(part: int, rounded: int) -> None:
    assert half_up(part, 2) == rounded
