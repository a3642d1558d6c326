"""Tests that nothing is left out: spec, contract, the table of routes, the OpenAPI document and the table of codes name
the same operations and codes, and each of them has a test."""

from collections import Counter

import msgspec
import pytest

from api.app import ROUTES
from api.openapi.document import document
from api.route import Route
from domain.errors import Code
from tests.conformance.cases import CASES
from tests.conformance.lines import RULED, Section, missing, ways
from tests.conformance.page import SECTIONS, SUMMARY, page
from tests.conformance.requests import BODIES, PLACES, RESOURCES
from tests.conformance.rules import RULES, identifier_of, plain
from tests.conformance.spec import CODES, ENDPOINTS, TOKEN_PATH, Endpoint
from tests.support.banking import settings_for

# No operation answers these codes: the path has none, or none for the method.
OF_NO_OPERATION = {Code.ROUTE_NOT_FOUND, Code.METHOD_NOT_ALLOWED}
BY_NAME = {route.name: route for route in ROUTES}


def declared() -> list[tuple[str, Code]]:
    """Returns each operation with each error code that the OpenAPI document declares for it."""
    declared_document = msgspec.json.decode(document(ROUTES, settings_for()))
    found = []
    for path, item in declared_document["paths"].items():
        for operation in item.values():
            if path == TOKEN_PATH:
                continue
            for status, answer in operation["responses"].items():
                if status >= "4":
                    names = answer["content"]["application/json"]["examples"]
                    found += [(operation["operationId"], Code[name]) for name in names]
    return found


DECLARED = declared()
LINES = [line for section in SECTIONS for line in section.lines]


def test_the_tables_of_the_spec_name_exactly_the_routes() -> None:
    assert Counter(each.operation for each in ENDPOINTS) == Counter(route.name for route in ROUTES)


@pytest.mark.parametrize("endpoint", [pytest.param(each, id=each.operation) for each in ENDPOINTS])
def test_a_route_has_the_path_scopes_key_and_errors_that_the_spec_promises(endpoint: Endpoint) -> None:
    route = BY_NAME[endpoint.operation]
    assert (route.method, plain(route)) == (endpoint.method, endpoint.path)
    assert set(route.scopes) == set(endpoint.scopes)
    assert route.key == endpoint.key
    declared_codes = {code for name, code in DECLARED if name == route.name}
    assert {code for code, _ in endpoint.errors} <= declared_codes
    assert set(route.errors) <= {code for code, _ in endpoint.errors}, (
        "an error of the route that no line of the spec promises"
    )


def test_every_error_that_the_spec_lists_has_a_case() -> None:
    bare = [
        (each.operation, code.name) for each in ENDPOINTS for code, _ in each.errors if not ways(each.operation, code)
    ]
    assert bare == []


def test_every_error_that_the_document_declares_has_a_case() -> None:
    bare = [(operation, code.name) for operation, code in DECLARED if not ways(operation, code)]
    assert bare == []


def test_every_error_of_a_case_or_rule_is_declared_in_the_document() -> None:
    cases = [(case.operation, case.code) for case in CASES]
    cases += [(route.name, rule.code) for rule, route in RULED if rule.code not in OF_NO_OPERATION]
    assert set(cases) <= set(DECLARED)


def test_every_error_code_is_reached_by_a_case_rule_or_line() -> None:
    reached = {case.code for case in CASES} | {rule.code for rule in RULES}
    shown = {code for line in LINES for code in line.codes}
    assert set(Code) - reached - shown == set()


def test_every_code_has_the_status_that_the_spec_states() -> None:
    assert all(code.status == status for status, codes in CODES.items() for code in codes)


@pytest.mark.parametrize("route", [pytest.param(route, id=route.name) for route in ROUTES])
def test_every_route_has_a_valid_request_to_test_it_with(route: Route) -> None:
    assert (route.body is None) or route.name in BODIES
    name = identifier_of(route)
    assert name in {None, "account_id", "key", *RESOURCES}
    assert not route.key or name is None or route.name in PLACES


def test_names_of_cases_rules_and_lines_are_unique() -> None:
    for names in ([case.id for case in CASES], [rule.name for rule in RULES], [line.id for line in LINES]):
        assert [name for name, count in Counter(names).items() if count > 1] == []
    assert {case.operation for case in CASES} <= set(BY_NAME)


def test_every_rule_applies_to_a_route() -> None:
    assert {rule.name for rule, _ in RULED} == {rule.name for rule in RULES}


@pytest.mark.parametrize("section", [pytest.param(each, id=each.title) for each in SECTIONS])
def test_the_tests_of_every_line_exist_and_are_not_skipped(section: Section) -> None:
    for line in section.lines:
        assert line.shown, line.id
        assert missing(line.shown) == [], line.id


def test_the_summary_names_every_section_and_the_table_contains_every_line() -> None:
    summary, table = SUMMARY.read_text(encoding="utf-8"), page()
    assert [section.title for section in SECTIONS if f"| {section.title} |" not in summary] == []
    assert [line.id for line in LINES if line.says.replace("|", "\\|") not in table] == []
    assert [each.path for each in ENDPOINTS if f"### {each.method} {each.path}\n" not in table] == []
