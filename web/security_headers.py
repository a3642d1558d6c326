"""The security headers of every answer.

They are added around the whole application: Litestar runs middleware after routing, so a 404 or 405 would have none.
"""

from collections.abc import Callable
from typing import Final

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from runtime.ids import new_token

# Nothing from other origins and nothing inline is allowed, so that a text which was not escaped could not run, send or
# load anything. A page that needs more sets its own header.
_POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
WITH_FORM: Final = {"Content-Security-Policy": _POLICY.replace("form-action 'none'", "form-action 'self'")}
"""The header of a page that has a form."""
_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    # Pages show states that change, so no browser or proxy may show a stored copy.
    (b"cache-control", b"no-store"),
)
# A payer's link gives access to the charge, so search engines must not list it. They may list the front page and /docs,
# as robots.txt says too (web/front.py).
_NO_INDEX = (b"x-robots-tag", b"noindex, nofollow")


# Browsers ignore this header over plain http.
_ONLY_TLS = (b"strict-transport-security", b"max-age=31536000")


def with_security_headers(app: ASGIApp, *, tls: Callable[[], bool]) -> ASGIApp:
    """Wraps `app`: adds the headers it did not set itself, and answers HEAD as GET without the body. `tls`: whether
    browsers reach the application over https."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return
        head = scope["method"] == "HEAD"
        if head:
            # Changed in a copy: the server's own scope still says HEAD, by which it knows that the answer has no body.
            scope = {**scope, "method": "GET"}
        request_id = new_token()
        scope["state"]["request_id"] = request_id
        added = [*_HEADERS, *([_ONLY_TLS] if tls() else ()), (b"x-request-id", request_id.encode())]
        if scope["path"] != "/" and not scope["path"].startswith("/docs"):
            added.append(_NO_INDEX)

        body_sent = False

        async def with_headers(message: Message) -> None:
            nonlocal body_sent
            if message["type"] == "http.response.start":
                headers = [_allowing_head(each) for each in message["headers"]]
                present = {name.lower() for name, _ in headers}
                headers.extend(each for each in added if each[0] not in present)
                message["headers"] = headers
            elif head and message["type"] == "http.response.body":
                if body_sent:
                    return
                # The answer to HEAD ends with the first body message: a stream would keep it open for minutes.
                body_sent = True
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        await app(scope, receive, with_headers)

    return answer


def _allowing_head(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Adds HEAD to an Allow header with GET: the framework does not know that we answer HEAD wherever we answer GET."""
    name, value = header
    return (name, value + b", HEAD") if name.lower() == b"allow" and b"GET" in value else header
