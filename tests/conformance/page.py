"""The long table of conformance, line -> answer -> test, made from the tables, for build/ (not committed)."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from domain.errors import Code
from tests.conformance.cases import CASES
from tests.conformance.contract_lines import CONTRACT
from tests.conformance.lines import HERE, RULED, Section, ways
from tests.conformance.rules import RULES
from tests.conformance.spec import ENDPOINTS, Endpoint
from tests.conformance.spec_lines import SPEC

ROOT: Final = Path(__file__).parents[2]
SUMMARY: Final = ROOT / "docs" / "conformance.md"
TABLE: Final = ROOT / "build" / "conformance.md"

SECTIONS: Final[tuple[Section, ...]] = (*SPEC, *CONTRACT)

_HEAD: Final = """\
# Conformance

Each line that specification and contract promise, what is answered, and the test that shows it. Written by
`python -m tests.conformance` from the tables in `tests/conformance`.

{counts}

Tests are named as pytest does, below `tests/`; `{short}` is short for `{here}`. Run them with
`python -m pytest tests/conformance`, and any other by its name.
"""


def page() -> str:
    return "\n".join(_whole()) + "\n"


def _whole() -> Iterator[str]:
    errors = sum(len(each.errors) for each in ENDPOINTS)
    others = sum(len(section.lines) for section in SECTIONS)
    counts = _table(
        ("What", "How many"),
        (
            ("Endpoints", str(len(ENDPOINTS))),
            ("Lines of their error lists", str(errors)),
            ("Rules that every operation of a kind keeps", str(len(RULES))),
            ("Other lines of specification and contract", str(others)),
            ("Generated tests of errors over HTTP", str(len(RULED) + len(CASES))),
            ("Generated tests of what is granted, replayed and declined a token", str(_granted())),
        ),
    )
    yield _HEAD.format(counts="\n".join(counts), short=_SHORT, here=HERE)
    yield "## Every operation\n"
    yield from _table(
        ("Where", "Line", "Answer", "Operations", "Test"),
        (
            (
                rule.where,
                rule.says,
                _answer(rule.code),
                str(sum(each is rule for each, _ in RULED)),
                _code(f"{_SHORT}::test_every_operation[{rule.name}-*]"),
            )
            for rule in RULES
        ),
    )
    yield "\n## Endpoints"
    for endpoint in ENDPOINTS:
        yield f"\n### {endpoint.method} {endpoint.path}\n"
        yield from _endpoint(endpoint)
    for section in SECTIONS:
        yield f"\n## {section.title}\n"
        yield from _table(("Line", "Test"), ((line.says, _tests(line.shown)) for line in section.lines))


_SHORT: Final = "here"


def _endpoint(endpoint: Endpoint) -> Iterator[str]:
    name = endpoint.operation
    scopes = " or ".join(f"`{scope}`" for scope in endpoint.scopes)
    key = "; header `Idempotency-Key` required" if endpoint.key else ""
    yield f"{endpoint.where[0].upper()}{endpoint.where[1:]}. Scope {scopes}{key}. Operation `{name}`.\n"
    granted = [f"{HERE}::test_every_valid_request_succeeds[{name}]"] + (
        [f"{HERE}::test_every_creation_is_replayed[{name}]"] if endpoint.key else []
    )
    rows = [(endpoint.answers, endpoint.answers[:3], _tests(granted))]
    rows += [(says, _answer(code), _reached(name, code)) for code, says in endpoint.errors]
    yield from _table(("Line", "Answer", "Test"), rows)


def _granted() -> int:
    keyed = sum(each.key for each in ENDPOINTS)
    return len(ENDPOINTS) + keyed


def _answer(code: Code) -> str:
    return f"{code.status} {code.name}"


def _tests(nodes: Iterable[str]) -> str:
    return "<br>".join(_code(node.replace(HERE, _SHORT)) for node in nodes)


def _reached(operation: str, code: Code) -> str:
    """Returns the generated tests of a line; those that differ only in their way are written as one."""
    nodes = ways(operation, code)
    start = f"{HERE}::test_error[{operation}-{code.name}-"
    tests = [_tests(node for node in nodes if not node.startswith(start))]
    ends = [node.removeprefix(start).removesuffix("]") for node in nodes if node.startswith(start)]
    if len(ends) == 1:
        tests.append(_code(f"{start.replace(HERE, _SHORT)}{ends[0]}]"))
    elif ends:
        tests.append(f"{_code(start.replace(HERE, _SHORT) + '*]')} with {', '.join(map(_code, ends))}")
    return "<br>".join(each for each in tests if each)


def _code(text: str) -> str:
    return f"`{text}`"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
