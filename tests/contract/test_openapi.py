"""The OpenAPI document is valid, complete and exact: requests and answers conform to it (contract section 14)."""

import copy
import re
import secrets
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from api.app import ROUTES
from api.openapi.document import document as made
from domain.errors import Code
from tests.support.in_process import Api, Reply, bearer
from tests.support.pages import SETTINGS

Schema = dict[str, Any]


@pytest.fixture(scope="module")
async def document(api: Api) -> Schema:
    reply = await api.get("/v1/openapi.json", token=None)
    assert reply.status == 200
    found: Schema = reply.json()
    return found


def operations(document: Schema) -> list[tuple[str, str, Schema]]:
    return [(method, path, found) for path, item in document["paths"].items() for method, found in item.items()]


def validator(document: Schema, schema: Schema) -> jsonschema_rs.Draft202012Validator:
    whole = {**copy.deepcopy(schema), "components": document["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def body_of(document: Schema, path: str) -> jsonschema_rs.Draft202012Validator:
    return validator(document, document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"])


def conforms(document: Schema, method: str, path: str, reply: Reply) -> None:
    """Assert that the document describes the answer: status, headers and body."""
    responses = document["paths"][path][method]["responses"]
    assert str(reply.status) in responses, reply
    answer = responses[str(reply.status)]
    (kind,) = answer["content"]
    assert reply.header("content-type") == kind
    schema = answer["content"][kind]["schema"]
    errors = list(validator(document, schema).iter_errors(reply.json()))
    assert not errors, (reply, [str(error) for error in errors][:3])
    for name, header in answer["headers"].items():
        if "$ref" in header:
            header = document["components"]["headers"][header["$ref"].rpartition("/")[2]]
        value = reply.header(name.lower())
        if value is None and not header["required"]:
            continue
        assert value is not None, (name, reply)
        plain = int(value) if header["schema"].get("type") == "integer" else value
        assert validator(document, header["schema"]).is_valid(plain), (name, value)


def test_the_document_is_valid_openapi_31(document: Schema) -> None:
    assert document["openapi"] == "3.1.0"
    errors = list(OPENAPI_31_VALIDATOR.iter_errors(document))
    assert not errors, [str(error) for error in errors][:3]


def test_every_schema_of_the_document_is_valid_json_schema(document: Schema) -> None:
    found: list[Schema] = list(document["components"]["schemas"].values())
    for _, _, operation in operations(document):
        found += [parameter["schema"] for parameter in operation["parameters"]] if "parameters" in operation else []
        for answer in operation["responses"].values():
            found += [media["schema"] for media in answer["content"].values()]
    assert len(found) > 100
    for schema in found:
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        validator(document, schema)


def test_every_reference_of_the_document_resolves(document: Schema) -> None:
    for reference in re.findall(r'"\$ref":"#/([^"]+)"', msgspec.json.encode(document).decode()):
        at: Any = document
        for part in reference.split("/"):
            at = at[part]


def test_the_document_has_exactly_the_routes_of_the_table(document: Schema) -> None:
    documented = {(method.upper(), path) for method, path, _ in operations(document)}
    routed = {(route.method, re.sub(r":[a-z]+}", "}", route.path)) for route in ROUTES}
    assert documented == routed | {("POST", "/v1/oauth/token")}
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)


def test_every_operation_documents_every_answer_down_to_the_error_code(document: Schema) -> None:
    for method, path, operation in operations(document):
        if path == "/v1/oauth/token":
            continue
        codes: set[str] = set()
        for status, answer in operation["responses"].items():
            assert "X-Request-Id" in answer["headers"], path
            if status.startswith("2"):
                assert {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} <= set(answer["headers"])
                continue
            if status != "401":  # an unauthenticated caller has no limits
                assert {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} <= set(answer["headers"]), status
            content = answer["content"]["application/json"]
            assert content["schema"] == {"$ref": f"#/components/schemas/Error{status}"}
            names = list(content["examples"])
            assert all(str(Code[name].status) == status for name in names)
            for example in content["examples"].values():
                assert validator(document, content["schema"]).is_valid(example["value"])
            codes |= set(names)
        always = {"UNAUTHENTICATED", "RATE_LIMITED", "INTERNAL_ERROR", "SERVICE_UNAVAILABLE"}
        scoped = any(each.get("oauth2") for each in operation["security"])
        assert always | ({"INSUFFICIENT_SCOPE"} if scoped else set()) <= codes, (method, path)
        if "requestBody" in operation:
            assert {"MALFORMED_JSON", "VALIDATION_ERROR", "UNSUPPORTED_MEDIA_TYPE", "PAYLOAD_TOO_LARGE"} <= codes


def test_scopes_of_operations_are_declared_in_the_security_scheme(document: Schema) -> None:
    known = document["components"]["securitySchemes"]["oauth2"]["flows"]["clientCredentials"]["scopes"]
    for _, path, operation in operations(document):
        asked = [scope for each in operation["security"] for scope in each.get("oauth2", [])]
        assert set(asked) <= set(known)
        assert bool(asked) == (path not in ("/v1/oauth/token", "/v1/me"))


def test_every_path_parameter_is_declared_and_examples_fit_their_schemas(document: Schema) -> None:
    for _, path, operation in operations(document):
        named = {parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "path"}
        assert named == set(re.findall(r"{([^}]+)}", path))
        for parameter in operation.get("parameters", []):
            assert parameter["required"] == (parameter["in"] == "path" or parameter["name"] == "Idempotency-Key")
            schema = validator(document, parameter["schema"])
            if "example" in parameter:
                assert schema.is_valid(parameter["example"])


async def test_real_answers_conform_to_the_document(api: Api, document: Schema) -> None:
    token, name = await api.token(), secrets.token_hex(6)
    create, pix = "/v1/charges/pix", api.pix(external_id=name, payer={"name": "Ana"})
    for _ in range(2):
        conforms(document, "post", create, await api.post(create, pix, token=token, key=name))
    ids = [(await api.create(external_id=name))["charge_id"] for _ in range(3)]
    one, pay, cancel = (
        "/v1/charges/{charge_id}",
        "/v1/charges/{charge_id}/simulate-payment",
        "/v1/charges/{charge_id}/cancel",
    )
    for _ in range(2):
        conforms(document, "post", pay, await api.post(pay.format(charge_id=ids[0]), None, token=token))
        conforms(document, "post", cancel, await api.post(cancel.format(charge_id=ids[1]), None, token=token))
    for charge_id in (*ids, "x"):
        conforms(document, "get", one, await api.get(one.format(charge_id=charge_id), token=token))
        conforms(document, "get", one, await api.get(one.format(charge_id=charge_id), token=None))
    reference = "/v1/charges/cancel"
    for given in (
        {"charge_id": ids[2], "reason": "paid_externally"},
        {"external_id": "nobody's"},
        {},
        {"external_id": 1},
    ):
        conforms(document, "post", reference, await api.post(reference, given, token=token))
    narrow = await api.token(scope="refunds:create")
    account = str(api.first.account_id)
    for path, operation in ((path, item["get"]) for path, item in document["paths"].items() if "get" in item):
        real = path.format(
            account_id=account,
            charge_id=ids[0],
            key=name,
            delivery_id="x",
            refund_id="x",
            request_id="x",
            schedule_id="x",
            withdrawal_id="x",
        )
        for asked in (token, narrow, None):
            conforms(document, "get", path, await api.get(real, token=asked))
        if any(parameter["name"] == "limit" for parameter in operation["parameters"]):
            for query in ("?limit=1", "?limit=0", "?cursor=x", "?nope=1", "?order=asc&limit=2"):
                conforms(document, "get", path, await api.get(real + query, token=token))
    for path in ("/v1/accounts/{account_id}/balance", "/v1/accounts/{account_id}/ledger"):
        conforms(document, "get", path, await api.get(path.format(account_id="x"), token=token))
    conforms(document, "post", create, await api.ask("POST", create, body=b"x" * 300_000))
    conforms(document, "post", create, await api.ask("POST", create, body=b"{}"))
    conforms(document, "post", create, await api.post(create, b"{", token=token, key="k"))
    conforms(document, "post", create, await api.post(create, pix, token=token))
    conforms(document, "post", create, await api.post(create, pix | {"amount": "1"}, token=token, key=name))
    waiting = await api.token(api.third, "production")
    conforms(document, "post", create, await api.post(create, pix, token=waiting, key="k"))
    for fields in ({}, {"grant_type": "x"}, {"grant_type": "client_credentials"}, _client(api)):
        conforms(document, "post", "/v1/oauth/token", await api.post("/v1/oauth/token", fields, token=None))


async def test_real_events_conform_to_the_schemas_of_their_webhooks(api: Api, document: Schema) -> None:
    """The feed contains the webhooks' bodies word for word."""
    token = await api.token()
    for way, given in (
        ("charges/{charge_id}/simulate-payment", None), ("charges/{charge_id}/cancel", None),
        ("sandbox/charges/{charge_id}/expire", None), ("sandbox/charges/{charge_id}/fail", None),
        ("sandbox/charges/{charge_id}/pay", {"times": 2}), ("sandbox/charges/{charge_id}/pay", {"amount": "0.01"}),
        ("sandbox/charges/{charge_id}/pay", {"amount": "99.00"}),
    ):  # fmt: skip
        for reference in ({}, {"external_id": secrets.token_hex(6)}):
            made = await api.post("/v1/charges/pix", api.pix(**reference), token=token, key=secrets.token_hex(8))
            reply = await api.post("/v1/" + way.format(**made.json()), given, token=token)
            assert reply.status == 200, (way, reply)
            feed = await api.get(f"/v1/events?charge_id={made.json()['charge_id']}", token=token)
            assert feed.json()["data"], way
            for item in feed.json()["data"]:
                event = {name: value for name, value in item.items() if name not in ("type", "sequence", "created_at")}
                content = document["webhooks"][event["event"]]["post"]["requestBody"]["content"]["application/json"]
                schema = document["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
                found = list(validator(document, schema | {"additionalProperties": False}).iter_errors(event))
                assert not found, (way, event, [error.message for error in found])


def _client(api: Api) -> dict[str, str]:
    credential = api.first.test
    return {
        "grant_type": "client_credentials",
        "client_id": credential.client_id,
        "client_secret": credential.client_secret,
    }


ACCOUNT = "00000000-0000-7000-8000-000000000001"
GOOD: list[Schema] = [
    {}, {"amount": "0.01"}, {"amount": "9999999999.99"}, {"amount": "1.5"}, {"amount": "001"}, {"expires_in": 60},
    {"expires_in": 2592000}, {"expires_in": None}, {"external_id": None}, {"external_id": ""},
    {"external_id": "é" * 255},
    {"description": "a\nb\tc"}, {"payer": None}, {"payer": {}}, {"payer": {"name": "Zé", "document": "12345678909"}},
    {"payer": {"document": "12345678000195"}}, {"payer": {"email": "a@b"}}, {"payer": {"phone": "+55 11 9"}},
    {"payer": {"email": None, "x": 1}}, {"more": [1, {}]}, {"external_id": "\U0001f4b8" * 255},
]  # fmt: skip
BAD: list[Schema] = [
    {"account_id": "x"}, {"account_id": ACCOUNT.replace("-", "")}, {"account_id": None},
    {"account_id": f"{{{ACCOUNT}}}"},
    {"amount": "0"}, {"amount": "0.00"}, {"amount": "000.0"}, {"amount": 1}, {"amount": None}, {"amount": "1.000"},
    {"amount": "12345678901"}, {"amount": "-1"}, {"amount": "1\n"}, {"amount": "٣"}, {"amount": ""},
    {"expires_in": 59},
    {"expires_in": 2592001}, {"expires_in": "60"}, {"expires_in": True}, {"expires_in": 60.5}, {"external_id": 1},
    {"external_id": "x" * 256}, {"external_id": "\x00"}, {"external_id": "\x7f"}, {"description": "x" * 501},
    {"description": []}, {"payer": []}, {"payer": {"name": 1}}, {"payer": {"name": "x" * 201}},
    {"payer": {"document": "1"}}, {"payer": {"document": "123456789012"}}, {"payer": {"document": ""}},
    {"payer": {"email": "x"}}, {"payer": {"email": "a@b@c"}}, {"payer": {"email": "@b"}}, {"payer": {"email": "a b@c"}},
    {"payer": {"email": "a@" + "b" * 253}}, {"payer": {"phone": "1" * 33}}, {"payer": {"document": "12345678909\n"}},
]  # fmt: skip


@pytest.mark.parametrize(("given", "good"), [(each, True) for each in GOOD] + [(each, False) for each in BAD], ids=repr)
async def test_a_pix_creation_is_accepted_exactly_when_the_schema_accepts_it(
    api: Api, document: Schema, given: Schema, good: bool
) -> None:
    body = api.pix(**given)
    assert body_of(document, "/v1/charges/pix").is_valid(body) is good
    reply = await api.post("/v1/charges/pix", body, token=await api.token(), key=secrets.token_hex(8))
    assert reply.status == (201 if good else 400), reply


@pytest.mark.parametrize("name", ["account_id", "amount"])
async def test_a_pix_creation_without_a_required_field_is_refused_by_schema_and_api(
    api: Api, document: Schema, name: str
) -> None:
    body = {key: value for key, value in api.pix().items() if key != name}
    assert not body_of(document, "/v1/charges/pix").is_valid(body)
    assert (await api.post("/v1/charges/pix", body, token=await api.token(), key="k")).status == 400


@pytest.mark.parametrize(
    ("given", "good"),
    [
        ({"charge_id": ACCOUNT}, True),
        ({"charge_id": "x"}, True),
        ({"external_id": "x"}, True),
        ({"external_id": "", "charge_id": None}, True),
        ({"external_id": "x", "reason": "paid_externally"}, True),
        ({"external_id": "x", "reason": None}, True),
        ({"external_id": "x", "more": 1}, True),
        ({}, False),
        ({"charge_id": ACCOUNT, "external_id": "x"}, False),
        ({"charge_id": None, "external_id": None}, False),
        ({"charge_id": 1}, False),
        ({"external_id": 1}, False),
        ({"external_id": "x" * 256}, False),
        ({"external_id": "x", "reason": "x"}, False),
        ({"external_id": "x", "reason": True}, False),
    ],
    ids=repr,
)
async def test_a_cancellation_is_accepted_exactly_when_the_schema_accepts_it(
    api: Api, document: Schema, given: Schema, good: bool
) -> None:
    assert body_of(document, "/v1/charges/cancel").is_valid(given) is good
    reply = await api.post("/v1/charges/cancel", given, token=await api.token())
    assert reply.status in ({200, 404} if good else {400}), reply


@pytest.mark.parametrize(
    ("given", "good"),
    [
        ({"advance": "PT1S"}, True), ({"advance": "P0DT1S"}, True), ({"advance": "P1D", "to": None}, True),
        ({"advance": "P1W"}, True), ({"advance": "PT36H"}, True), ({"advance": "P1DT2H3M4S"}, True),
        ({"to": "2026-01-01T00:00:00Z"}, True), ({"to": "2026-01-01T00:00:00.123456Z", "more": 1}, True),
        ({}, False), ({"advance": None, "to": None}, False), ({"advance": "P1D", "to": "2026-01-01T00:00:00Z"}, False),
        ({"advance": ""}, False), ({"advance": "P"}, False), ({"advance": "P0D"}, False), ({"advance": "PT"}, False),
        ({"advance": "P1DT"}, False), ({"advance": "P1M"}, False), ({"advance": "-P1D"}, False),
        ({"advance": "P1.5D"}, False), ({"advance": "P1W1D"}, False), ({"advance": "P1D\n"}, False),
        ({"advance": 86400}, False), ({"to": ""}, False), ({"to": "2026-01-01"}, False),
        ({"to": "2026-02-30T00:00:00Z"}, False), ({"to": "2026-01-01T00:00:00-03:00"}, False), ({"to": 1}, False),
    ],
    ids=repr,
)  # fmt: skip
async def test_a_move_of_the_sandbox_clock_is_accepted_exactly_when_the_schema_accepts_it(
    api: Api, document: Schema, given: Schema, good: bool
) -> None:
    path = "/v1/sandbox/clock"
    assert body_of(document, path).is_valid(given) is good
    reply = await api.post(path, given, token=await api.token(api.second))
    assert reply.status == (200 if good else 400), reply
    conforms(document, "post", path, reply)


@pytest.mark.parametrize(
    ("paid_at", "good"),
    [
        (None, True), ("2026-01-01T00:00:00.123Z", True), ("2026-01-01T00:00:00Z", True),
        ("2026-01-01T00:00:00.123456Z", True), ("2026-01-01", False), ("2026-01-01T00:00:00", False),
        ("2026-02-30T00:00:00Z", False), ("2026-01-01T00:00:00-03:00", False), (1, False),
    ],
)  # fmt: skip
async def test_the_sandboxs_paid_at_is_accepted_exactly_when_the_schema_accepts_it(
    api: Api, document: Schema, paid_at: Any, good: bool
) -> None:
    token = await api.token()
    made = await api.post("/v1/charges/pix", api.pix(), token=token, key=secrets.token_hex(8))
    path = "/v1/sandbox/charges/{charge_id}/pay"
    assert body_of(document, path).is_valid({"paid_at": paid_at}) is good
    reply = await api.post(path.format(**made.json()), {"paid_at": paid_at}, token=token)
    assert reply.status == (200 if good else 400), reply


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("limit", 1, True), ("limit", 10**6, True), ("limit", 0, False), ("limit", -1, False),
        ("order", "asc", True), ("order", "up", False), ("external_id", "x" * 255, True), ("external_id", "", False),
        ("external_id", "x" * 256, False), ("external_id", "\x01", False), ("created_from", "2026-02-28", True),
        ("created_from", "2026-02-30", False), ("created_from", "20260228", False), ("status", ["paid"], True),
        ("status", ["paid"] * 20, True), ("status", ["paid"] * 21, False), ("status", ["x"], False),
    ],
)  # fmt: skip
async def test_a_filter_is_accepted_exactly_when_its_schema_accepts_it(
    api: Api, document: Schema, name: str, value: Any, good: bool
) -> None:
    parameters = document["paths"]["/v1/charges"]["get"]["parameters"]
    schema = next(parameter["schema"] for parameter in parameters if parameter["name"] == name)
    assert validator(document, schema).is_valid(value) is good
    values = value if isinstance(value, list) else [value]
    query = "&".join(f"{name}={''.join(f'%{byte:02X}' for byte in str(each).encode())}" for each in values)
    reply = await api.ask("GET", "/v1/charges", query=query.encode(), headers=bearer(await api.token()))
    assert reply.status == (200 if good else 400), reply


def test_the_document_satisfies_the_rules_of_redocly_and_spectral(document: Schema) -> None:
    """The requirements of redocly's and spectral's rules, checked here without them; only a licence is not stated."""
    assert document["info"]["contact"]["name"] == "Quita"
    every = [each for ways in [*document["paths"].values(), *document["webhooks"].values()] for each in ways.values()]
    assert [each["operationId"] for each in every if "security" not in each or not each["description"]] == []
    assert {tag for each in every for tag in each["tags"]} <= {tag["name"] for tag in document["tags"]}
    text = msgspec.json.encode(document).decode()
    assert [name for name in document["components"]["schemas"] if f'"#/components/schemas/{name}"' not in text] == []


@pytest.mark.parametrize(
    ("given", "contact"),
    [
        ("ajuda@quita.example", {"name": "Quita", "email": "ajuda@quita.example"}),
        ("https://ajuda.quita.example", {"name": "Quita", "url": "https://ajuda.quita.example"}),
        ("0800 000 0000", {"name": "Quita", "url": SETTINGS.docs_url}),
    ],
)
def test_the_document_names_the_support_contact(given: str, contact: dict[str, str]) -> None:
    settings = msgspec.structs.replace(SETTINGS, support_contact=given)
    assert msgspec.json.decode(made(ROUTES, settings))["info"]["contact"] == contact
