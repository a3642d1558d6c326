"""A line of spec or contract, and the tests that show it: generated tests of this folder, or tests elsewhere."""

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from api.app import ROUTES
from api.route import Route
from domain.errors import Code
from tests.conformance.cases import CASES
from tests.conformance.rules import Rule, rules_of

# skipif is not among them: such a test runs wherever it can.
_NEVER: Final = re.compile(r"\.(skip|xfail)\b")
TESTS: Final = Path(__file__).parents[1]
HERE: Final = "conformance/test_conformance.py"

_FILES: Final = {"here": HERE} | {
    path.stem.removeprefix("test_"): path.relative_to(TESTS).as_posix() for path in sorted(TESTS.glob("**/test_*.py"))
}

RULED: Final[tuple[tuple[Rule, Route], ...]] = tuple((rule, route) for route in ROUTES for rule in rules_of(route))


GENERATED: Final = frozenset(
    {
        *(("test_every_operation", f"{rule.name}-{route.name}") for rule, route in RULED),
        *(("test_error", case.id) for case in CASES),
        *(("test_every_valid_request_succeeds", route.name) for route in ROUTES),
        *(("test_every_creation_is_replayed", route.name) for route in ROUTES if route.key),
    }
)
"""Name and parameter of each generated test that a line may point to."""


class Line(Struct, frozen=True, kw_only=True):
    """A line of spec or contract. `shown` has its tests, as file::name below tests/; `codes` has the error codes that
    the line shows and that no operation of the API can answer."""

    id: str
    says: str
    shown: tuple[str, ...]
    codes: tuple[Code, ...] = ()


class Section(Struct, frozen=True):
    title: str
    lines: tuple[Line, ...]


def line(id: str, says: str, *shown: str, codes: tuple[Code, ...] = ()) -> Line:
    """Returns a Line. Each of `shown` is "file test", with the file's name without its folder and without test_; `here`
    stands for the generated tests of this folder.

    Full paths, a hundred of them, would make the tables hard to read.
    """
    nodes = (each.partition(" ") for each in shown)
    return Line(
        id=id, says=says, shown=tuple(f"{_FILES.get(file, file)}::{test}" for file, _, test in nodes), codes=codes
    )


def ways(operation: str, code: Code) -> list[str]:
    """Returns the generated tests that reach this code of this operation, rules first."""
    ruled = [
        f"{HERE}::test_every_operation[{rule.name}-{route.name}]"
        for rule, route in RULED
        if route.name == operation and rule.code is code
    ]
    return ruled + [
        f"{HERE}::test_error[{case.id}]" for case in CASES if case.operation == operation and case.code is code
    ]


def missing(nodes: Iterable[str]) -> list[str]:
    """Returns the tests among `nodes` that do not exist, are skipped, or are expected to fail."""
    return [node for node in nodes if not _exists(*node.split("::"))]


def _exists(file: str, test: str) -> bool:
    name, _, parameter = test.partition("[")
    if name not in _tests_of(file):
        return False
    return not parameter or (name, parameter.removesuffix("]")) in GENERATED


@cache
def _tests_of(file: str) -> frozenset[str]:
    """Returns the names of the file's tests that are not skipped or expected to fail."""
    path = TESTS / file
    if not path.exists():
        return frozenset()
    return frozenset(
        each.name
        for each in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and each.name.startswith("test_")
        and not any(_NEVER.search(ast.unparse(mark)) for mark in each.decorator_list)
    )
