"""The API reference: the OpenAPI document of this process, as pages.

The document is passed in as bytes, because this package does not import the API. So the pages show what GET
/v1/openapi.json says, down to each error. The document is read once per process and language.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from domain.errors import Code
from web.documentation.guides import Language
from web.documentation.portuguese import in_portuguese
from web.documentation.samples import SampleCall, samples_of
from web.documentation.schema_words import SchemaWords, name_of, without_null

SCHEMAS: Final = "schemas"
_DEPTH_MAX = 6  # bodies are three levels deep; a schema that contains itself would recurse without end
_UUID = "01a1fdb9-7c1e-7d3a-9f1e-2b7c64d0a001"

# fmt: off
# Values of examples, by the field's name, where no schema gives one.
_EXAMPLES: Final[dict[str, str]] = {
    "name": "Ana Lima", "nome": "Ana Lima", "document": "52998224725", "documento": "52998224725",
    "email": "ana@example.com", "to": "ana@example.com", "phone": "+5511999990000", "zip_code": "01310100",
    "cep": "01310100", "street": "Avenida Paulista", "logradouro": "Avenida Paulista", "number": "1578",
    "numero": "1578", "city": "São Paulo", "cidade": "São Paulo", "state": "SP", "uf": "SP",
    "amount": "10.50", "external_id": "order-1001", "pix_key": "ana@example.com", "client_id": "$CLIENT_ID",
    "client_secret": "$CLIENT_SECRET", "description": "Order 1001", "reason": "returned goods",
}
# Optional fields that an example shows too, as an ordinary request has them.
_OPTIONAL_SHOWN: Final[dict[str, tuple[str, ...]]] = {
    "CreatePix": ("external_id", "expires_in"), "CreateBoleto": ("external_id",), "CreateDual": ("external_id",),
    "CreateRefund": ("amount", "reason"), "SendEmail": ("to",), "SandboxPayment": ("amount",),
    "CreateWithdrawal": ("external_id",), "CreateSchedule": ("max_charges", "payer"), "SchedulePayer": ("name",),
}
# fmt: on


class DocumentedField(Struct, frozen=True, kw_only=True):
    """A parameter, or a field of a body or answer. `schema` is the name of the field's schema, if it has one; it
    completes `type` ("array of" Leg)."""

    name: str
    type: str
    schema: str = ""
    required: bool = False
    rules: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    description: str = ""


class DocumentedAnswer(Struct, frozen=True):
    status: str
    description: str
    schema: str
    media_type: str
    headers: tuple[str, ...]


class Refusal(Struct, frozen=True):
    """An error answer. `page`: whether the code has a page; the token endpoint's codes, from RFC 6749, have none."""

    status: str
    code: str
    message: str
    page: bool


class Operation(Struct, frozen=True, kw_only=True):
    id: str
    method: str
    path: str
    summary: str
    tag: str
    notes: str
    scopes: tuple[str, ...]
    parameters: tuple[tuple[str, tuple[DocumentedField, ...]], ...]
    """The parameters by place: path, query, header."""
    body: str
    """The name of the body's schema."""
    body_required: bool
    body_fields: tuple[DocumentedField, ...]
    results: tuple[DocumentedAnswer, ...]
    refusals: tuple[Refusal, ...]
    samples: tuple[tuple[str, str], ...]
    """The call in each programming language."""
    example: str
    """An example of the successful answer, as JSON; empty if the answer is a file."""


class Schema(Struct, frozen=True):
    name: str
    description: str
    fields: tuple[DocumentedField, ...]


class DocumentedEvent(Struct, frozen=True):
    """A kind of event: when it happens, its body's schema and fields, and an example body as JSON."""

    kind: str
    when: str
    schema: str
    fields: tuple[DocumentedField, ...]
    example: str


class Reference(Struct, frozen=True):
    """The whole reference. `tags` maps a tag's name in addresses to its title and its operations, in the document's
    order."""

    tags: dict[str, tuple[str, tuple[Operation, ...]]]
    schemas: tuple[Schema, ...]
    events: tuple[DocumentedEvent, ...] = ()


def read(document: bytes, language: Language = "en") -> Reference:
    """The reference in `language`, made from the English document."""
    openapi = msgspec.json.decode(document)
    if language == "pt":
        openapi = in_portuguese(openapi)
    reader = _Reader(openapi, language)
    operations = [
        reader.operation(method.upper(), path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    ]
    tags = {
        _slug(tag["name"]): (
            tag.get("x-displayName", tag["name"]),
            tuple(each for each in operations if each.tag == tag["name"]),
        )
        for tag in openapi["tags"]
    }
    return Reference(tags, tuple(reader.schemas()), tuple(reader.events(openapi.get("webhooks", {}))))


class _Reader:
    def __init__(self, openapi: dict[str, Any], language: Language) -> None:
        self._words = SchemaWords(language)
        self._schemas: dict[str, Any] = openapi["components"]["schemas"]
        self._base_url: str = openapi["servers"][0]["url"]

    def schemas(self) -> Iterator[Schema]:
        for name, schema in sorted(self._schemas.items()):
            yield Schema(name, _one_line(schema.get("description", "")), tuple(self._fields(schema)))

    def events(self, webhooks: dict[str, Any]) -> Iterator[DocumentedEvent]:
        for kind, methods in webhooks.items():
            operation = methods["post"]
            content = operation["requestBody"]["content"]["application/json"]
            name = name_of(content["schema"])
            yield DocumentedEvent(
                kind,
                operation["summary"],
                name,
                tuple(self._fields(self._schemas[name])),
                _indented_json(content["example"]),
            )

    def operation(self, method: str, path: str, spec: dict[str, Any]) -> Operation:
        parameters = spec.get("parameters", [])
        places = tuple(
            (place, tuple(self._parameter(each) for each in parameters if each["in"] == place))
            for place in ("path", "query", "header")
        )
        request = spec.get("requestBody", {})
        content: dict[str, Any] = request.get("content", {})
        body = next((name_of(each["schema"]) for each in content.values()), "")
        scopes = dict.fromkeys(scope for way in spec.get("security", []) for scope in way.get("oauth2", ()))
        # The description's sentence on scopes is removed, because scopes are shown in a place of their own.
        notes = re.sub(r"^(?:Scope|Escopo): [^.]*\.\s*", "", spec.get("description", ""))
        return Operation(
            id=spec["operationId"],
            method=method,
            path=path,
            summary=spec["summary"],
            tag=spec["tags"][0],
            notes=notes,
            scopes=tuple(scopes),
            parameters=tuple((place, fields) for place, fields in places if fields),
            body=body,
            body_required=request.get("required", False),
            body_fields=tuple(self._nested_fields(self._schemas[body])) if body else (),
            results=tuple(self._results(spec["responses"])),
            refusals=tuple(self._refusals(spec["responses"])),
            samples=self._samples(method, path, spec, body, next(iter(content), "")),
            example=_example(spec["responses"]),
        )

    def example(self, name: str, schema: dict[str, Any], *, depth: int = 0) -> Any:
        """An example value of the field `name` that the schema allows."""
        assert depth < _DEPTH_MAX, name
        schema, _ = without_null(schema)
        if inner := name_of(schema):
            return self.body(inner, depth=depth + 1)
        if name == "account_id":
            return "$ACCOUNT_ID"
        if "const" in schema:
            return schema["const"]
        for key in ("examples", "enum"):
            if schema.get(key):
                # The first value of an enum is the usual one, except among Brazil's states.
                return _EXAMPLES[name] if key == "enum" and name in ("uf", "state") else schema[key][0]
        match schema.get("type"), schema.get("format"):
            case "array", _:
                return [self.example(name, schema["items"], depth=depth + 1)]
            case "integer", _:
                return schema.get("default", schema.get("minimum", 1))
            case "boolean", _:
                return True
            case _, "uuid":
                return _UUID
            case _, "date":
                return "2027-01-31"
            case _, "date-time":
                return "2026-11-21T09:54:00.123Z"
        return _EXAMPLES.get(name, _UUID if name.endswith("_id") else "text")

    def body(self, name: str, *, depth: int = 0) -> dict[str, Any]:
        """An example body: the required fields, and the usual optional ones."""
        schema = self._schemas[name]
        wanted = [*schema.get("required", ())]
        wanted += schema.get("if", {}).get("required", ())
        wanted += _OPTIONAL_SHOWN.get(name, ())
        properties = schema.get("properties", {})
        return {
            each: self.example(each, properties[each], depth=depth)
            for each in dict.fromkeys(wanted)
            if each in properties
        }

    def _parameter(self, parameter: dict[str, Any]) -> DocumentedField:
        return self._field(
            parameter["name"],
            parameter["schema"],
            required=parameter.get("required", False),
            description=parameter.get("description", ""),
        )

    def _fields(self, schema: dict[str, Any]) -> Iterator[DocumentedField]:
        required = schema.get("required", ())
        for name, each in schema.get("properties", {}).items():
            yield self._field(name, each, required=name in required)

    def _nested_fields(self, schema: dict[str, Any], prefix: str = "", depth: int = 0) -> Iterator[DocumentedField]:
        """The fields of a body, each followed by the fields of its own schema, as in `payer.name`."""
        assert depth < _DEPTH_MAX, prefix
        required = schema.get("required", ())
        for name, each in schema.get("properties", {}).items():
            yield self._field(f"{prefix}{name}", each, required=name in required)
            if inner := name_of(without_null(each)[0]):
                yield from self._nested_fields(self._schemas[inner], f"{prefix}{name}.", depth + 1)

    def _field(self, name: str, schema: dict[str, Any], *, required: bool, description: str = "") -> DocumentedField:
        non_null, nullable = without_null(schema)
        items = non_null.get("items", {}) if non_null.get("type") == "array" else non_null
        values = items.get("enum", [items["const"]] if "const" in items else [])
        return DocumentedField(
            name=name,
            type=self._words.kind(non_null, nullable=nullable),
            schema=name_of(items),
            required=required,
            rules=tuple(self._words.rules(non_null)),
            values=tuple(str(each) for each in values),
            description=description or schema.get("description") or non_null.get("description", ""),
        )

    def _results(self, responses: dict[str, Any]) -> Iterator[DocumentedAnswer]:
        for status, answer in responses.items():
            if status.startswith("2"):
                media_type, content = next(iter(answer.get("content", {"": {}}).items()))
                headers = tuple(answer.get("headers", ()))
                yield DocumentedAnswer(
                    status, answer["description"], name_of(content.get("schema", {})), media_type, headers
                )

    def _refusals(self, responses: dict[str, Any]) -> Iterator[Refusal]:
        for status, answer in responses.items():
            if status.startswith("2"):
                continue
            content = answer["content"]["application/json"]
            # The token endpoint's codes come from the schema's enum: its answers have no examples by code.
            schema = self._schemas[name_of(content["schema"])]["properties"]["error"]
            meanings = dict(each.split(": ", 1) for each in answer["description"].split(" | ") if ": " in each)
            for name in content.get("examples") or schema["enum"]:
                yield Refusal(status, name, meanings.get(name, answer["description"]), name in Code.__members__)

    def _samples(
        self, method: str, path: str, spec: dict[str, Any], body: str, media_type: str
    ) -> tuple[tuple[str, str], ...]:
        """Sample calls that can be pasted once their $VARIABLES are set."""
        return samples_of(
            SampleCall(
                method=method,
                base_url=self._base_url,
                path=re.sub(r"\{(\w+)\}", lambda placeholder: f"${_variable_name(placeholder[1])}", path),
                body=self.body(body) if body and media_type == "application/json" else None,
                media_type=media_type,
                keyed=any(each["name"] == "Idempotency-Key" for each in spec.get("parameters", [])),
                saves_file=any("application/pdf" in each.get("content", {}) for each in spec["responses"].values()),
            )
        )


def _example(responses: dict[str, Any]) -> str:
    """The example of the first successful answer. A QR Code's image is cut, because nobody can read it."""
    for status, answer in responses.items():
        content = answer.get("content", {}).get("application/json", {})
        if status.startswith("2") and "example" in content:
            return re.sub(r"(data:image/png;base64,.{16})[^\"]*", r"\1...", _indented_json(content["example"]))
    return ""


def _indented_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _variable_name(name: str) -> str:
    return re.sub(r"[^A-Z]+", "_", name.upper())


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("`", "").strip()


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
