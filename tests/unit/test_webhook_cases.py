"""docs/webhook_cases.md names existing tests for each of its 42 cases."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "webhook_cases.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) [^|]+ \| (.+) \|$", PAGE, re.M)
# A file, or a test of the file that was named before it; three dots may replace the end of a long name.
NAMED = re.compile(r"((?:unit|property|integration|contract|fault)/[\w/]+)|`(test_\w+)(?:\[[^]`]*\])?(\.\.\.)?`")


def test_each_of_the_42_cases_has_a_line_and_they_are_in_order() -> None:
    assert [int(number) for number, _ in ROWS] == list(range(1, 43))


def test_each_case_names_at_least_one_test_and_all_named_tests_exist() -> None:
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
