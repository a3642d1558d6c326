"""What every answer of the web door carries, whoever gave it.

It stands around the whole application and not among its middleware, because Litestar runs that only after it
has found a route: a 404 or 405 would go out bare.
"""

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from runtime.ids import new_token

# Nothing from elsewhere and nothing inline: a merchant's text that slipped through escaping still could not
# run, send or load anything. A page that needs more says so itself, in its own header.
_POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    # A page tells a state that changes: neither a browser nor a proxy may show it again later.
    (b"cache-control", b"no-store"),
)
# The link of a payer is the only key to his page: it must not end up in a search engine. /docs may.
_NO_INDEX = (b"x-robots-tag", b"noindex, nofollow")


def outermost(app: ASGIApp) -> ASGIApp:
    """`app` with the headers above where it set none itself; HEAD is answered as GET without the body."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return
        head = scope["method"] == "HEAD"
        if head:
            # In a scope of our own: the server's tells it that this answer has no body.
            scope = {**scope, "method": "GET"}
        request_id = new_token()
        scope["state"]["request_id"] = request_id
        wanted = [*_HEADERS, (b"x-request-id", request_id.encode())]
        if not scope["path"].startswith("/docs"):
            wanted.append(_NO_INDEX)

        told = False

        async def dressed(message: Message) -> None:
            nonlocal told
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                given = {name.lower() for name, _ in headers}
                headers.extend(each for each in wanted if each[0] not in given)
                message["headers"] = headers
            elif head and message["type"] == "http.response.body":
                if told:
                    return
                # Here an answer to HEAD ends: what comes in pieces may take minutes to.
                told = True
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        await app(scope, receive, dressed)

    return answer
