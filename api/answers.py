"""The API's answers: JSON bytes with their headers, and the one error envelope."""

from typing import Any

import msgspec
from litestar.response.base import ASGIResponse
from msgspec import Struct

from domain.errors import Code, Refused

_JSON = (b"content-type", b"application/json")
# Answers hold balances, payers and payment codes: no proxy may cache them, and no browser may render them as a page.
_NO_STORE = (b"cache-control", b"no-store")
_NO_SNIFF = (b"x-content-type-options", b"nosniff")
encode = msgspec.json.Encoder().encode


class Field(Struct, frozen=True):
    field: str
    message: str


class ErrorBody(Struct, frozen=True, omit_defaults=True):
    """The error. `fields` lists the fields of the request that are wrong, when the error lies in single fields."""

    code: str
    message: str
    request_id: str
    documentation_url: str
    fields: list[Field] | None = None


class ErrorEnvelope(Struct, frozen=True):
    """Every error except the token endpoint's (spec, Errors)."""

    error: ErrorBody


class Answer(ASGIResponse):
    """Bytes and headers, sent as they are: the framework's own response costs more than many handlers."""

    __slots__ = ("raw_headers",)

    def __init__(
        self, body: bytes, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] | list[tuple[bytes, bytes]] = ()
    ) -> None:
        self.body = body
        self.status_code = status
        self.raw_headers = [_JSON, (b"content-length", b"%d" % len(body)), _NO_STORE, _NO_SNIFF, *headers]
        self.background = None

    def to_asgi_response(self, *_: object, **__: object) -> "Answer":
        """Litestar calls this on the answer of an exception handler."""
        return self

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


class Bytes(Answer):
    """An answer that is not JSON."""

    __slots__ = ()

    def __init__(self, body: bytes, media_type: bytes) -> None:
        super().__init__(body)
        self.raw_headers[0] = (b"content-type", media_type)


def refusal(refused: Refused, *, request_id: str, docs_url: str) -> Answer:
    """The error envelope of a refusal, with the headers that its code requires."""
    code = refused.code
    body = ErrorEnvelope(
        ErrorBody(
            code=code.name,
            message=refused.message,
            request_id=request_id,
            documentation_url=f"{docs_url}/errors/{code.name}",
            fields=[Field(name, message) for name, message in refused.fields.items()] if refused.fields else None,
        )
    )
    headers: list[tuple[bytes, bytes]] = []
    if code is Code.UNAUTHENTICATED:
        # RFC 6750 section 3.1: a request without a token gets no error code, only the scheme.
        fault = b"" if refused.facts.get("cause") == "missing" else b', error="invalid_token"'
        headers.append((b"www-authenticate", b'Bearer realm="quita"' + fault))
    if refused.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % refused.retry_after_s))
    return Answer(encode(body), code.status, headers)
