"""Tests every line of spec and contract that HTTP can show. The tests are generated from tables, one for each line."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
import pytest_asyncio

from api.app import ROUTES
from api.route import Route
from domain.errors import Code
from runtime.postgres import Pool
from tests.conformance.cases import CASES, Case
from tests.conformance.lines import RULED
from tests.conformance.rules import Rule, granted, plain, replayed, unapproved
from tests.conformance.spec import TOKEN_PATH
from tests.conformance.world import JSON, World, open_world
from tests.contract.test_openapi import conforms
from tests.support.in_process import DOCS_URL, Reply, envelope

BY_NAME = {route.name: route for route in ROUTES}
COMES_BACK = {
    Code.RATE_LIMITED, Code.IDEMPOTENCY_IN_PROGRESS, Code.BANK_UNAVAILABLE, Code.SERVICE_UNAVAILABLE,
}  # fmt: skip
"""Refusals with a Retry-After."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(servers: Any, pool: Pool) -> AsyncIterator[World]:
    async with open_world(servers, pool) as opened:
        yield opened


def assert_refused(world: World, route: Route, reply: Reply, code: Code) -> None:
    """Asserts that the reply is this refusal in full: status, envelope, the link to the code's page, and the code and
    headers that the OpenAPI document declares."""
    error = envelope(reply)
    assert error["code"] == code.name, reply
    assert error["documentation_url"] == f"{DOCS_URL}/errors/{code.name}"
    if code in COMES_BACK:
        assert int(str(reply.header("retry-after"))) >= 1, reply
    if code is Code.METHOD_NOT_ALLOWED:
        return  # a refusal of the path: no operation declares it
    declared_answer = world.document["paths"][plain(route)][route.method.lower()]["responses"][str(reply.status)]
    assert code.name in declared_answer["content"]["application/json"]["examples"]
    always = [name for name, header in declared_answer["headers"].items() if header.get("required", True)]
    assert [name for name in always if reply.header(name.lower()) is None] == [], reply


@pytest.mark.parametrize(
    ("rule", "route"), [pytest.param(rule, route, id=f"{rule.name}-{route.name}") for rule, route in RULED]
)
async def test_every_operation(world: World, rule: Rule, route: Route) -> None:
    """Every operation that a rule applies to refuses with the rule's code."""
    assert_refused(world, route, await rule.ask(world, route), rule.code)


@pytest.mark.parametrize("route", [pytest.param(route, id=route.name) for route in ROUTES])
async def test_every_valid_request_succeeds(world: World, route: Route) -> None:
    reply = await granted(world, route)
    assert reply.status == min(status for status in route.answers if not (route.key and status == 200)), reply
    if route.name == "printBoleto":
        assert reply.header("content-type") == "application/pdf"
        assert str(reply.header("content-disposition")).startswith("attachment")
        assert reply.body.startswith(b"%PDF-")
    else:
        conforms(world.document, route.method.lower(), plain(route), reply)


@pytest.mark.parametrize("route", [pytest.param(route, id=route.name) for route in ROUTES if route.key])
async def test_every_creation_is_replayed(world: World, route: Route) -> None:
    first, again = await replayed(world, route)
    assert (first.status, again.status) == (201, 200), again
    assert first.json() == again.json()
    assert (first.header("idempotent-replayed"), again.header("idempotent-replayed")) == (None, "true")
    assert again.header("idempotency-key")


@pytest.mark.parametrize(
    "route", [pytest.param(route, id=route.name) for route in ROUTES if Code.KYC_REQUIRED not in route.errors]
)
async def test_only_operations_that_declare_kyc_required_answer_it(world: World, route: Route) -> None:
    reply = await unapproved(world, route)
    assert reply.status < 400 or reply.code() != "KYC_REQUIRED", reply


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
async def test_error(world: World, case: Case) -> None:
    """An operation's own error is answered to the request of each of its cases."""
    assert_refused(world, BY_NAME[case.operation], await case.ask(world), case.code)


CLIENT = {"grant_type": "client_credentials", "client_id": "nobody", "client_secret": "nothing"}


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        pytest.param({**CLIENT, "grant_type": "password"}, 400, "unsupported_grant_type", id="another-grant"),
        pytest.param(CLIENT, 401, "invalid_client", id="unknown-client"),
        pytest.param({"grant_type": "client_credentials"}, 401, "invalid_client", id="no-client"),
        pytest.param({}, 400, "invalid_request", id="no-fields"),
    ],
)
async def test_token_errors_follow_rfc_6749(world: World, fields: dict[str, str], status: int, error: str) -> None:
    """The token endpoint answers errors as in RFC 6749 section 5.2, and not in the envelope."""
    for headers, body in (
        ([(b"content-type", b"application/x-www-form-urlencoded")], urlencode(fields).encode()),
        ([JSON], msgspec.json.encode(fields)),
    ):
        reply = await world.send("POST", TOKEN_PATH, body, token=None, headers=headers)
        assert (reply.status, reply.json()["error"]) == (status, error), reply
        assert (reply.header("www-authenticate") is not None) == (status == 401)
        conforms(world.document, "post", TOKEN_PATH, reply)


@pytest.mark.parametrize("code", [pytest.param(code, id=code.name) for code in Code])
def test_every_code_has_a_documentation_page(world: World, code: Code) -> None:
    status, page = world.pages[code]
    assert status == 200
    assert code.name in page
