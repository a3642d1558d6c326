"""How a page shows the numbers of a report: durations with a fitting unit, and growth from zero in words."""

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
def test_a_negative_share_is_shown_with_its_sign(rate: int, shown: str) -> None:
    """In a month, more fees may be returned than charged."""
    fees = REPORTS["fees"]
    at = [each.name for each in fees.columns].index("rate")
    row = tuple(rate if each.name == "rate" else None for each in fees.columns)
    assert cells(fees, row)[at] == shown


@pytest.mark.parametrize(("part", "rounded"), [(1, 1), (-1, -1), (3, 2), (-3, -2), (0, 0)])
def test_a_half_is_rounded_away_from_zero_as_postgresql_does(part: int, rounded: int) -> None:
    assert half_up(part, 2) == rounded
