"""A Brazilian spreadsheet shows the values of a CSV file unchanged and executes none of them as a formula."""

import csv
import io
from datetime import UTC, date, datetime

import pytest

from readmodels.reports.csv_lines import BOM, BasisPoints, Cents, csv_line


def _read(raw: bytes) -> list[list[str]]:
    """Parsed as a spreadsheet parses it."""
    return list(csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline=""), delimiter=";"))


def test_a_file_is_marked_as_utf_8_and_separated_by_semicolons() -> None:
    assert BOM.decode("utf-8-sig") == ""
    assert csv_line([date(2026, 11, 21), "açaí", Cents(123_456)]) == "2026-11-21;açaí;1234,56\r\n".encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("", ""),
        (0, "0"),
        (-7, "-7"),
        (Cents(0), "0,00"),
        (Cents(5), "0,05"),
        (Cents(-5), "-0,05"),
        (Cents(-123_456), "-1234,56"),
        (Cents(10**15), "10000000000000,00"),
        (BasisPoints(9_750), "97,50"),
        (date(2026, 2, 1), "2026-02-01"),
        (datetime(2026, 11, 21, 2, 59, 59, tzinfo=UTC), "2026-11-20 23:59:59"),
    ],
)
def test_numbers_and_days_are_written_in_brazilian_notation(value: object, text: str) -> None:
    assert csv_line([value]) == text.encode() + b"\r\n"  # type: ignore[list-item]


@pytest.mark.parametrize("text", ["a;b", 'say "oi"', "a,b", "two\r\nlines", "tab\there", " space ", "ação"])
def test_text_is_read_back_unchanged(text: str) -> None:
    assert _read(csv_line([text, "x"])) == [[text, "x"]]


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@SUM(A1)", "=cmd|' /C calc'!A0", " =1", "\t=1", "\r=1", "\n@x", "%0A=1", "|x", "＝1", "－1"],
)
def test_text_that_begins_a_formula_gets_an_apostrophe_in_front(text: str) -> None:
    ((field, _),) = _read(csv_line([text, "x"]))
    assert field == "'" + text


@pytest.mark.parametrize(
    "text",
    ["00031285570000000062", "00123", "1E5", "1e+5", "10-12", "10/12", "1.10", "1,5", "2026-11-21", "12:30", "0000",
     "00190000090312855700000000062172116660000014990", "50%", "1 000"],
)  # fmt: skip
def test_digits_that_a_spreadsheet_would_reformat_get_a_tab_in_front(text: str) -> None:
    ((field, _),) = _read(csv_line([text, "x"]))
    assert field == "\t" + text


@pytest.mark.parametrize("text", ["0", "1001", "123456789012345", "order-1001", "12 caixas", "1E5x", "01a1fdb9-6fd9"])
def test_text_that_a_spreadsheet_does_not_change_gets_nothing_in_front(text: str) -> None:
    ((field, _),) = _read(csv_line([text, "x"]))
    assert field == text


def test_nul_and_lone_surrogates_do_not_break_the_file() -> None:
    assert _read(csv_line(["a\0b", "\ud800"])) == [["ab", "?"]]
