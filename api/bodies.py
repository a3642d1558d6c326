"""Read a JSON body strictly: every fault is a 4xx that names the field, and a specific code wins over a general one."""

import hashlib
import json
import re
from typing import Any, TypeVar

import msgspec

from domain.errors import Code, Refused

Body = TypeVar("Body")

_AT = re.compile(r" - at `\$\.?([^`]*)`$")
_canonical = msgspec.json.Encoder(order="deterministic").encode


class _Repeated(ValueError):
    """A key stands twice in one object: which of the two is meant cannot be known."""


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`; Refused MALFORMED_JSON, or VALIDATION_ERROR when it is JSON but no object."""
    if body.count(b"[") + body.count(b"{") > 1000:
        raise Refused(Code.MALFORMED_JSON)
    try:
        given = _read(body.decode("utf-8"))
        # Lone surrogates pass the parser and would fail at the database.
        if b"\\u" in body:
            json.dumps(given, ensure_ascii=False).encode("utf-8")
    except _Repeated as repeated:
        raise Refused(Code.MALFORMED_JSON, fields={str(repeated): "stands more than once"}) from None
    except (ValueError, RecursionError):
        raise Refused(Code.MALFORMED_JSON) from None
    if not isinstance(given, dict):
        raise Refused(Code.VALIDATION_ERROR, fields={"$": "must be an object"})
    return given


def _guard(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Repeated(key.encode("utf-8", "replace").decode()[:100])
            seen.add(key)
    return made


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


# Made once: json.loads would make a decoder for each body.
_read = json.JSONDecoder(object_pairs_hook=_guard, parse_constant=_no_constant).decode


def fingerprint(method: str, path: str, given: dict[str, Any]) -> bytes:
    """SHA-256 of method, path and the canonical JSON of the body as sent (contract section 4)."""
    try:
        canonical = _canonical(given)
    except (OverflowError, ValueError, TypeError):
        # Numbers beyond 64 bits, in fields nobody reads.
        canonical = json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    return hashlib.sha256(f"{method} {path}\n".encode() + canonical).digest()


def shaped(given: dict[str, Any], into: type[Body]) -> Body:
    """The object as `into`, strictly; Refused(VALIDATION_ERROR) naming the first field that does not fit."""
    try:
        return msgspec.convert(given, into, strict=True)
    except msgspec.ValidationError as error:
        message = str(error)
        at = _AT.search(message)
        missing = re.search(r"missing required field `([^`]+)`", message)
        parts = [part for part in (at[1] if at else "", missing[1] if missing else "") if part]
        field = ".".join(parts) or "$"
        raise Refused(Code.VALIDATION_ERROR, fields={field: _AT.sub("", message)}) from None
    except (ValueError, OverflowError, RecursionError):
        raise Refused(Code.VALIDATION_ERROR, fields={"$": "is not of the documented shape"}) from None


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# The same, as the OpenAPI document says it.
TEXT_PATTERN = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"


def text(field: str, value: str | None, most: int) -> str | None:
    """Free text within its bound and without control characters; Refused(VALIDATION_ERROR) otherwise."""
    if value is None:
        return None
    if len(value) > most:
        raise Refused(Code.VALIDATION_ERROR, fields={field: f"must have at most {most} characters"})
    if _CONTROL.search(value):
        raise Refused(Code.VALIDATION_ERROR, fields={field: "must not contain control characters"})
    return value
