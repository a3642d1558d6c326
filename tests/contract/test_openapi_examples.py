"""The OpenAPI document beside its schemas: examples that fit, a description of every field, and its webhooks."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from api.app import ROUTES
from api.openapi.document import TAGS
from domain.boleto.codes import check_barcode
from domain.events import EventKind
from tests.contract.test_openapi import Schema, document, operations, validator
from tests.support.br_code_reader import parse_br_code
from tests.support.in_process import Api

__all__ = ["document"]


def successes(document: Schema) -> Iterator[tuple[str, Schema]]:
    """The operation id and the content of every 2xx answer."""
    for _, _, operation in operations(document):
        for status, answer in operation["responses"].items():
            if status.startswith("2") and "application/json" in answer["content"]:
                yield operation["operationId"], answer["content"]["application/json"]


def test_every_success_answer_has_an_example_that_its_schema_accepts(document: Schema) -> None:
    found = list(successes(document))
    assert len(found) > 40
    for name, content in found:
        errors = list(validator(document, content["schema"]).iter_errors(content["example"]))
        assert not errors, (name, [str(error) for error in errors][:3])


def test_an_example_has_every_required_field_of_its_schema(document: Schema) -> None:
    for name, content in successes(document):
        schema = document["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
        # Which of the other fields are present depends on the kind of charge or event.
        assert set(schema["required"]) <= set(content["example"]) <= set(schema["properties"]) | {"anomaly", "version",
            "payment_id", "method"}, name  # fmt: skip


def test_every_field_and_parameter_has_a_description(document: Schema) -> None:
    for name, schema in document["components"]["schemas"].items():
        for field, field_schema in schema.get("properties", {}).items():
            assert field_schema.get("description", "").strip(), (name, field)
    for _, path, operation in operations(document):
        for parameter in operation.get("parameters", []):
            assert parameter["description"].strip(), (path, parameter["name"])


def test_no_description_refers_to_documents_that_merchants_do_not_have(document: Schema) -> None:
    descriptions = re.findall(r'"description":"((?:[^"\\]|\\.)*)"', msgspec.json.encode(document).decode())
    assert len(descriptions) > 300
    assert not [text for text in descriptions if re.search(r"\b(contract section|spec,|docs/decisions)", text)]


def test_no_schema_has_a_default_of_null(document: Schema) -> None:
    assert '"default":null' not in msgspec.json.encode(document).decode()


def test_each_tag_has_a_description_and_an_operation(document: Schema) -> None:
    used = {operation["tags"][0] for _, _, operation in operations(document)}
    assert {tag["name"] for tag in document["tags"]} == used == set(TAGS)
    assert all(tag["description"] for tag in document["tags"])


def test_error_bodies_share_one_schema_per_status(document: Schema) -> None:
    seen = {
        (path == "/v1/oauth/token", status, answer["content"]["application/json"]["schema"]["$ref"])
        for _, path, operation in operations(document)
        for status, answer in operation["responses"].items()
        if status >= "4"
    }
    assert len(seen) == len({each[:2] for each in seen})


def test_each_kind_of_event_is_a_webhook_with_a_schema_and_an_example(document: Schema) -> None:
    assert set(document["webhooks"]) == {kind.value for kind in EventKind}
    for kind, webhook in document["webhooks"].items():
        content = webhook["post"]["requestBody"]["content"]["application/json"]
        example = content["example"]
        assert example["event"] == kind
        schema = document["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
        assert validator(document, schema | {"additionalProperties": False}).is_valid(example), kind
        assert set(example) == set(schema["properties"]), kind


def test_the_br_code_and_barcode_of_the_examples_encode_their_amount(document: Schema) -> None:
    charges = {name: content["example"] for name, content in successes(document)}
    pix = charges["createPixCharge"]["pix"]
    assert parse_br_code(pix["qr_code"])["54"] == "149.90"
    slip = charges["createBoletoCharge"]["boleto"]
    check_barcode(slip["codigo_barras"])
    assert slip["codigo_barras"][9:19] == "0000014990"


@pytest.mark.parametrize("mode", ["test", "production"])
async def test_get_me_shows_the_account_mode_scopes_and_rate_of_a_token(api: Api, mode: str) -> None:
    merchant = api.first
    token = await api.token(merchant, mode, scope="payments:read")
    shown: dict[str, Any] = (await api.get("/v1/me", token=token)).json()
    credential = merchant.test if mode == "test" else merchant.production
    assert shown == {
        "account_id": str(merchant.account_id), "name": merchant.name, "mode": mode, "scopes": ["payments:read"],
        "client_id": credential.client_id, "rate": shown["rate"],
    }  # fmt: skip
    assert set(shown["rate"]) == {"limit", "burst"}
    assert [route.name for route in ROUTES if route.path == "/v1/me"] == ["getMe"]
