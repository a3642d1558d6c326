"""Read a JSON body strictly: every fault is a 4xx that names the field, and a specific code wins over a general one.

The bounds of a field stand in its type (api/body/fields.py) and msgspec enforces them. Only a body that fails is read
again, field by field, to name every fault in it.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from functools import cache
from itertools import accumulate, islice
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from domain.errors import Code, Refused

Body = TypeVar("Body", bound=Struct)

_canonical = msgspec.json.Encoder(order="deterministic").encode
DEPTH_MAX = 500
"""A body nested deeper could overflow the stack of the code that reads it."""
_FLOAT_CHARACTERS_MAX = 16
_NAME_MAX = 40
_UNKNOWN_MAX = 20
"""At most this many unknown fields are compared with known names: comparing costs time."""
_LIKENESS_MIN = 0.8
_SYNONYMS = {
    "amount": ("amount_cents", "amount_in_cents", "value", "valor", "valor_cents", "quantia"),
    "valorCents": ("valor", "amount", "amount_cents", "value"),
    "due_date": ("vencimento", "data_vencimento", "due", "expiration_date"),
    "dataVencimento": ("vencimento", "due_date", "due"),
    "expires_in": ("expiration", "expires", "expiracao", "validade", "ttl"),
    "payer": ("pagador", "customer", "cliente"),
    "pagador": ("payer", "customer", "cliente"),
    "description": ("descricao",),
    "descricao": ("description",),
    "external_id": ("referencia", "reference", "reference_id"),
    "fine": ("multa",),
    "interest": ("juros", "juros_mora", "mora"),
    "discounts": ("desconto", "descontos", "discount"),
    "metadata": ("metadados",),
}
"""Names that other APIs give a field, and its name in the other language (English or Portuguese)."""
_WHITESPACE = b" \t\r\n"
_CONVERSION_ERRORS = (ValueError, OverflowError, RecursionError)
TEXT_PATTERN = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"
_TYPE_FAULTS = {str: "must be text", int: "must be a whole number", bool: "must be true or false"}


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_DEPTH_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - _DEPTH_STEPS.keys())


def _depth(body: bytes) -> int:
    """The depth to which arrays and objects are nested in the body."""
    brackets = _STRING.sub(b"", body).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_DEPTH_STEPS.__getitem__, brackets)), default=0)


class _RepeatedKey(ValueError):
    """A key stands twice in one object, so the intended value cannot be known."""


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`; Refused(MALFORMED_JSON), or Refused(VALIDATION_ERROR) for JSON that is no object."""
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX and _depth(body) > DEPTH_MAX:
        raise Refused(Code.MALFORMED_JSON, message=f"The body is nested deeper than {DEPTH_MAX} levels.")
    if not body.strip(_WHITESPACE):
        raise Refused(Code.MALFORMED_JSON, message="There is no body: send a JSON object.")
    try:
        body_object = _decode(body.decode("utf-8"))
        # Lone surrogates pass the parser and would fail at the database.
        if b"\\u" in body:
            json.dumps(body_object, ensure_ascii=False, default=str).encode("utf-8")
    except _RepeatedKey as repeated:
        raise Refused(Code.MALFORMED_JSON, fields={str(repeated): "stands more than once"}) from None
    except (ValueError, RecursionError) as fault:
        raise Refused(Code.MALFORMED_JSON, message=_syntax_fault(fault)) from None
    if not isinstance(body_object, dict):
        raise Refused(Code.VALIDATION_ERROR, fields={"$": "must be an object"})
    return body_object


def _syntax_fault(fault: Exception) -> str | None:
    """The refusal's message, with the place where the body ceases to be JSON; None keeps the error code's own message.
    No part of the body is repeated."""
    match fault:
        case json.JSONDecodeError() if fault.doc.startswith("\ufeff"):
            return "The body is not valid JSON: it begins with a byte order mark (EF BB BF), which JSON has none of."
        case json.JSONDecodeError():
            what = fault.msg[:1].lower() + fault.msg[1:]
            return f"The body is not valid JSON: {what}, at line {fault.lineno}, column {fault.colno}."
        case UnicodeDecodeError():
            return f"The body is not UTF-8: byte {fault.start + 1} begins no character."
        case UnicodeEncodeError():
            return "The body is not valid JSON: a \\u escape is half of a surrogate pair."
        case _NotFinite():
            return f"The body is not valid JSON: {fault} is no number there."
    return None


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKey(key.encode("utf-8", "replace").decode()[:100])
            seen.add(key)
    return members


class _NotFinite(ValueError):
    """NaN, Infinity or -Infinity."""


def _refuse_constant(text: str) -> Any:
    raise _NotFinite(text)


def _exact_number(text: str) -> float | Decimal:
    """A Decimal where a float would round: two bodies that differ in a long number must have different fingerprints.
    ValueError for an exponent that Decimal cannot hold; int() raises it too for thousands of digits."""
    number = float(text)
    if len(text) <= _FLOAT_CHARACTERS_MAX and not math.isinf(number):
        return number
    try:
        return Decimal(text)
    except InvalidOperation:  # an ArithmeticError
        raise ValueError from None


# One decoder for all bodies: json.loads with these hooks would build a new one on each call.
_decode = json.JSONDecoder(
    object_pairs_hook=_object_without_repeats, parse_constant=_refuse_constant, parse_float=_exact_number
).decode


def fingerprint(method: str, path: str, given: dict[str, Any]) -> bytes:
    """SHA-256 of method, path and the canonical JSON of the body as sent (contract section 4)."""
    try:
        canonical = _canonical(given)
    except (OverflowError, ValueError, TypeError):
        # msgspec cannot encode numbers beyond 64 bits; only unknown fields can still have them here.
        canonical = json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str).encode()
    return hashlib.sha256(f"{method} {path}\n".encode() + canonical).digest()


def convert_body(given: dict[str, Any], into: type[Body], *, within: str = "") -> Body:
    """Converts the object to `into`, strictly; `within` is a prefix for the field names in errors.

    Refused with the code of the first faulty field that has a code of its own, else VALIDATION_ERROR that names every
    faulty field.
    """
    try:
        body = msgspec.convert(given, into, strict=True)
        _run_checks(body)
        return body
    except _CONVERSION_ERRORS:
        faults = list(_faults(given, into, within))
    for name, code, message in faults:
        if code is not Code.VALIDATION_ERROR:
            raise Refused(code, fields={name: message})
    wrong = {name: message for name, _, message in faults}
    raise Refused(Code.VALIDATION_ERROR, fields=wrong or {"$": "is not of the documented shape"})


class _Field(Struct, frozen=True):
    name: str
    hint: Any
    required: bool
    plain: type | None
    """str, int or bool; None for an object."""
    nested: type[Struct] | None
    entries: "tuple[_Field, _Field] | None"
    """Key and value of an object whose keys are the caller's own."""
    item: "_Field | None"
    """The item of a list of objects."""
    meta: Meta
    code: Code
    fault: str | None
    check: Callable[[Any], object] | None


@cache
def _fields(into: type[Struct]) -> tuple[_Field, ...]:
    return tuple(_field_of_hint(each.name, each.type, required=each.required) for each in msgspec.structs.fields(into))


def _field_of_hint(name: str, hint: Any, *, required: bool = True) -> _Field:
    parts = list(_hint_parts(hint))
    mapping = next((part for part in parts if get_origin(part) is dict), None)
    listed = next((part for part in parts if get_origin(part) is list), None)
    metas = [part for part in parts if isinstance(part, Meta)]
    extra = {name: value for meta in metas for name, value in (meta.extra or {}).items()}
    return _Field(
        name,
        hint,
        required,
        None if mapping else next((part for part in parts if isinstance(part, type) and part in _TYPE_FAULTS), None),
        next((part for part in parts if isinstance(part, type) and issubclass(part, Struct)), None),
        None
        if mapping is None
        else (_field_of_hint("key", get_args(mapping)[0]), _field_of_hint("value", get_args(mapping)[1])),
        None if listed is None else _field_of_hint("item", get_args(listed)[0]),
        next((meta for meta in metas if (meta.max_length, meta.ge) != (None, None)), Meta()),
        extra.get("code", Code.VALIDATION_ERROR),
        extra.get("fault"),
        extra.get("check"),
    )


def _hint_parts(hint: Any) -> Iterator[Any]:
    """The types and annotations that a type hint is made of; `dict[...]` and `list[...]` stay whole."""
    inner = () if get_origin(hint) in (dict, list) else get_args(hint)
    if not inner:
        yield hint
    for part in inner:
        yield from _hint_parts(part)


@cache
def _checked_fields(into: type[Struct]) -> tuple[_Field, ...]:
    return tuple(field for field in _fields(into) if field.check or _has_nested_checks(field))


def _has_nested_checks(field: _Field) -> bool:
    nested = field.nested if field.item is None else field.item.nested
    return nested is not None and bool(_checked_fields(nested))


def _run_checks(body: Struct) -> None:
    """Runs the `check` of every field that has one, nested objects included; ValueError for a wrong value."""
    for field in _checked_fields(type(body)):
        value = getattr(body, field.name)
        if value is None or value is msgspec.UNSET:
            continue
        if field.check is not None:
            field.check(value)
        else:
            for each in value if field.item is not None else (value,):
                _run_checks(each)


def _faults(given: dict[str, Any], into: type[Struct], within: str) -> Iterator[tuple[str, Code, str]]:
    fields = _fields(into)
    for field in fields:
        name = within + field.name
        if field.name not in given:
            if field.required:
                has_own_code = field.fault is not None and field.code is not Code.VALIDATION_ERROR
                hint = _misspelling_hint(field.name, given, into)
                yield (
                    name,
                    field.code,
                    f"is required, and {field.fault}{hint}" if has_own_code else f"is required{hint}",
                )
            continue
        value = given[field.name]
        if field.nested is not None and isinstance(value, dict):
            yield from _faults(value, field.nested, name + ".")
        elif field.entries is not None and isinstance(value, dict):
            yield from _entry_faults(field, value, name)
        elif field.item is not None and isinstance(value, list):
            yield from _item_faults(field, value, name)
        elif not _fits(field, value):
            yield name, field.code, _fault_message(field, value)


def _misspelling_hint(name: str, given: dict[str, Any], into: type[Struct]) -> str:
    """The end of the message for a missing field: the misspelt name that the body has instead, or nothing."""
    misspelling = misspelling_of(name, given, into)
    return "" if misspelling is None else f": {misspelling} is not its name"


def misspelt_fields(given: dict[str, Any], into: type[Struct], within: str = "") -> tuple[str, ...]:
    """A sentence for each unknown (and so ignored) field whose name resembles a field that the body leaves out."""
    names, nested = _names_and_nested(into)
    warnings: tuple[str, ...] = ()
    if not given.keys() <= names:
        warnings = tuple(
            f"{within}{key} is no field and was ignored: {within}{meant} is its name."
            for key, meant in _misspellings(given, names)
        )
    for name, inner in nested:
        if isinstance(value := given.get(name), dict):
            warnings += misspelt_fields(value, inner, f"{within}{name}.")
    return warnings


def misspelling_of(field: str, given: dict[str, Any], into: type[Struct]) -> str | None:
    """The unknown field of the body that is probably `field` misspelt; None when `field` is there or nothing is like
    it."""
    names, _ = _names_and_nested(into)
    if field in given or given.keys() <= names:
        return None
    return next((key for key, meant in _misspellings(given, names) if meant == field), None)


def _misspellings(given: dict[str, Any], names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Unknown fields, each with the left-out field that its name resembles or is another word for."""
    left_out = {_folded_name(name): name for name in names if name not in given}
    left_out |= {
        _folded_name(word): name for name in left_out.values() for word in _SYNONYMS.get(name, ()) if word not in names
    }
    for key in islice((each for each in given if each not in names and len(each) <= _NAME_MAX), _UNKNOWN_MAX):
        if nearest := get_close_matches(_folded_name(key), left_out, n=1, cutoff=_LIKENESS_MIN):
            yield key, left_out[nearest[0]]


@cache
def _names_and_nested(into: type[Struct]) -> tuple[frozenset[str], tuple[tuple[str, type[Struct]], ...]]:
    """All field names of a struct; and the fields that are objects, each with its struct."""
    fields = _fields(into)
    return (
        frozenset(field.name for field in fields),
        tuple((field.name, field.nested) for field in fields if field.nested is not None),
    )


def _folded_name(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _entry_faults(field: _Field, given: dict[str, Any], name: str) -> Iterator[tuple[str, Code, str]]:
    """The faults of an object whose keys are the caller's own (metadata). An invalid key is not repeated in the
    message."""
    assert field.entries is not None
    key_field, value_field = field.entries
    if field.meta.max_length is not None and len(given) > field.meta.max_length:
        yield name, field.code, f"must have at most {field.meta.max_length} keys"
        return
    for key, value in given.items():
        if not _fits(key_field, key):
            yield name, field.code, f"each key {_fault_message(key_field, key)}"
        elif not _fits(value_field, value):
            yield f"{name}.{key}", field.code, _fault_message(value_field, value)


def _item_faults(field: _Field, given: list[Any], name: str) -> Iterator[tuple[str, Code, str]]:
    """The faults of a list of objects; items are named by index, from 0."""
    assert field.item is not None
    assert field.item.nested is not None
    if field.meta.max_length is not None and len(given) > field.meta.max_length:
        yield name, field.code, f"must have at most {field.meta.max_length} items"
        return
    for index, value in enumerate(given):
        if isinstance(value, dict):
            yield from _faults(value, field.item.nested, f"{name}.{index}.")
        else:
            yield f"{name}.{index}", field.code, "must be an object"


def _fits(field: _Field, value: Any) -> bool:
    try:
        msgspec.convert(value, field.hint, strict=True)
        if field.check is not None and value is not None:
            field.check(value)
    except _CONVERSION_ERRORS:
        return False
    return True


def _fault_message(field: _Field, value: Any) -> str:
    bounds = field.meta
    if bounds.ge is not None and bounds.le is not None:
        return f"must be a whole number from {bounds.ge} to {bounds.le}"
    if isinstance(value, str) and bounds.max_length is not None and len(value) > bounds.max_length:
        return f"must have at most {bounds.max_length} characters"
    if field.fault is not None and (isinstance(value, str) or field.code is not Code.VALIDATION_ERROR):
        return field.fault
    if field.item is not None:
        return "must be a list"
    return "must be an object" if field.plain is None else _TYPE_FAULTS[field.plain]
