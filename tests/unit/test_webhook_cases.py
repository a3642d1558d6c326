"""The page of hard cases names tests that exist for each of the 42."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "webhook_cases.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) [^|]+ \| (.+) \|$", PAGE, re.M)
# A file, or a test of the file that was named last; a long name may be cut short by dots.
NAMED = re.compile(r"((?:unit|property|integration|contract|fault)/[\w/]+)|`(test_\w+)(?:\[[^]`]*\])?(\.\.\.)?`")


def test_each_of_the_42_cases_has_its_line_in_order() -> None:
    assert [int(number) for number, _ in ROWS] == list(range(1, 43))


def test_each_case_names_tests_and_each_of_them_exists() -> None:
    missing, without, source = [], [], ""
    for number, held_by in ROWS:
        named = NAMED.findall(held_by)
        if not named:
            without.append(number)
        for file, test, dots in named:
            if file:
                path = TESTS / f"{file}.py"
                source = path.read_text(encoding="utf-8") if path.is_file() else ""
            begins = f"def {test}" if dots or file else f"def {test}("
            if begins not in source:
                missing.append(file or test)
    assert (missing, without) == ([], [])
