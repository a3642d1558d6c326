"""POST /v1/oauth/token: OAuth 2.0 client credentials (RFC 6749 sections 2.3.1, 4.4 and 5)."""

import hmac
import secrets
import time
from base64 import b64decode, urlsafe_b64encode
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, unquote_plus

from litestar import Request
from litestar.di import NamedDependency
from msgspec import UNSET, Meta, Struct, UnsetType

import sql
from api.admission import read_body
from api.answers import Answer, encode
from api.body.reading import read_object
from api.context import ApiContext
from api.route import OpenRoute
from commands.merchants.merchants import ALL_SCOPES
from domain.errors import Refused
from runtime.cells.number import marked
from runtime.postgres import DB_UNAVAILABLE, session

LIFETIME_S = 3600
FIELD_MAX = 2000
_FORM_TYPE = b"application/x-www-form-urlencoded"
_SCOPE_REGEX = "|".join(ALL_SCOPES)
_Secret = Annotated[str, Meta(min_length=1, max_length=FIELD_MAX, pattern=r"^[^\x00]*\Z")]
_NO_CACHE = ((b"pragma", b"no-cache"),)


class Credential(Struct, frozen=True):
    secret_hash: bytes
    previous_secret_hash: bytes | None
    previous_until: datetime | None
    scopes: list[str]
    revoked_at: datetime | None


class Token(Struct, frozen=True):
    """An access token, as in RFC 6749 section 5.1; `scope` is a space-separated list."""

    access_token: str
    token_type: str
    expires_in: int
    scope: str


class TokenError(Struct, frozen=True):
    """An error of the token endpoint, as in RFC 6749 section 5.2."""

    error: str
    error_description: str


class TokenRequest(Struct, kw_only=True, omit_defaults=True):
    """The token request, as form fields or JSON. `client_id` and `client_secret` may be sent by HTTP Basic instead."""

    grant_type: Literal["client_credentials"]
    client_id: _Secret | UnsetType = UNSET
    client_secret: _Secret | UnsetType = UNSET
    scope: (
        Annotated[
            str,
            Meta(
                pattern=rf"^(({_SCOPE_REGEX})( ({_SCOPE_REGEX}))*)?\Z",
                max_length=FIELD_MAX,
                description="Scopes wanted, separated by spaces: some of the credential's own. By default all of them.",
            ),
        ]
        | UnsetType
    ) = UNSET


class _Declined(Exception):
    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.description = description


find_credential = sql.maybe("credential.find", Credential)
issue_token = sql.maybe("credential.issue_token", str)


async def issue(context: NamedDependency[ApiContext], request: Request[Any, Any, Any]) -> Answer:
    """Answers 200 with a token, or an RFC 6749 error: 400, or 401 with `WWW-Authenticate` for a wrong client."""
    try:
        token = await _issue_token(context, request)
    except _Declined as declined:
        headers = list(_NO_CACHE)
        if declined.status == 401:
            headers.append((b"www-authenticate", b'Basic realm="quita"'))
        return Answer(encode(TokenError(declined.error, declined.description)), declined.status, headers)
    except Refused as refused:
        return _too_many_requests(refused)
    except DB_UNAVAILABLE:
        headers = [*_NO_CACHE, (b"retry-after", b"1")]
        return Answer(encode(TokenError("temporarily_unavailable", "Try again.")), 503, headers)
    return Answer(encode(token), 200, _NO_CACHE)


def _too_many_requests(refused: Refused) -> Answer:
    """429 for too many requests. RFC 6749 has no code for it; `temporarily_unavailable` tells the client to retry."""
    headers = [*_NO_CACHE, (b"retry-after", b"%d" % (refused.retry_after_s or 1))]
    return Answer(
        encode(TokenError("temporarily_unavailable", "Too many requests: a token lasts an hour.")), 429, headers
    )


async def _issue_token(context: ApiContext, request: Request[Any, Any, Any]) -> Token:
    context.spend("tokens_per_min", request.scope)
    fields = await _read_fields(request)
    # The grant type is checked before the client, so that an empty form is not answered as a wrong client.
    grant_type = fields.get("grant_type")
    if not grant_type:
        raise _Declined(400, "invalid_request", "grant_type is missing: it is client_credentials.")
    if grant_type != "client_credentials":
        raise _Declined(400, "unsupported_grant_type", "Only client_credentials is supported.")
    client_id, client_secret = _client_credentials(request, fields)
    now = context.now()
    async with session(context.pool) as conn:
        credential = await find_credential(conn, client_id=client_id)
        # An unknown client costs the same comparison as a wrong secret.
        presented = sha256(client_secret.encode()).digest()
        matches = hmac.compare_digest(presented, credential.secret_hash if credential else bytes(32))
        if (
            credential
            and credential.previous_secret_hash
            and credential.previous_until
            and credential.previous_until > now
        ):
            matches |= hmac.compare_digest(presented, credential.previous_secret_hash)
        declined = _Declined(401, "invalid_client", "Unknown client or wrong secret.")
        if credential is None or not matches or credential.revoked_at is not None:
            raise declined
        # Only after the secret is verified: a client_id is not secret, and requests by somebody who knows it must not
        # use up its owner's rate.
        context.rates.spend("client_tokens_per_min", client_id, now_s=time.monotonic())
        scopes = _granted_scopes(fields.get("scope"), credential.scopes)
        access_token = urlsafe_b64encode(marked(secrets.token_bytes(32))).decode().rstrip("=")
        issued = await issue_token(
            conn,
            token_hash=sha256(access_token.encode()).digest(),
            client_id=client_id,
            presented=presented,
            scopes=scopes,
            issued_at=now,
            expires_at=now + timedelta(seconds=LIFETIME_S),
        )
        if issued is None:  # rotated or revoked since it was looked up
            raise declined
    return Token(access_token, "Bearer", LIFETIME_S, " ".join(scopes))


async def _read_fields(request: Request[Any, Any, Any]) -> dict[str, str]:
    """The request's non-empty fields; a repeated or non-text field is invalid_request (RFC 6749 section 3.2)."""
    kinds = [value for name, value in request.scope["headers"] if name == b"content-type"]
    kind = kinds[0].split(b";", 1)[0].strip().lower() if len(kinds) == 1 else b""
    try:
        raw = await read_body(request)
        if not raw:
            given = {}  # of any Content-Type: the error then names the missing field
        elif kind == b"application/json":
            given = read_object(raw)
        elif kind == _FORM_TYPE:
            pairs = parse_qsl(raw.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=50)
            given = dict(pairs)
            if len(given) != len(pairs):
                raise _Declined(400, "invalid_request", "A parameter stands more than once.")
        else:
            raise _Declined(
                400, "invalid_request", "The body must be a form (application/x-www-form-urlencoded) or JSON."
            )
    except (Refused, ValueError):
        raise _Declined(400, "invalid_request", "The body cannot be read.") from None
    fields = {
        name: given[name]
        for name in ("grant_type", "client_id", "client_secret", "scope")
        if given.get(name) not in (None, "")
    }
    for name, value in fields.items():
        if not isinstance(value, str) or "\0" in value or len(value) > FIELD_MAX:
            raise _Declined(400, "invalid_request", f"{name} must be a string.")
    return fields


def _client_credentials(request: Request[Any, Any, Any], fields: dict[str, str]) -> tuple[str, str]:
    """Client id and secret, from HTTP Basic or the fields. Using both ways at once is refused (section 2.3)."""
    headers = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if headers:
        if len(headers) > 1 or headers[0][:6].lower() != b"basic ":
            raise _Declined(401, "invalid_client", "The Authorization header must be Basic.")
        if "client_secret" in fields:
            raise _Declined(400, "invalid_request", "Use one way of client authentication.")
        try:
            text = b64decode(headers[0][6:].strip(), validate=True).decode("utf-8")
            client_id, colon, secret = text.partition(":")
            client_id, secret = (unquote_plus(client_id, errors="strict"), unquote_plus(secret, errors="strict"))
        except ValueError:
            raise _Declined(401, "invalid_client", "The Authorization header cannot be read.") from None
        if not colon or "\0" in client_id:
            raise _Declined(401, "invalid_client", "The Authorization header cannot be read.")
        if fields.get("client_id", client_id) != client_id:
            raise _Declined(400, "invalid_request", "Two clients are named.")
        return client_id, secret
    if "client_id" not in fields or "client_secret" not in fields:
        raise _Declined(401, "invalid_client", "Client authentication is missing.")
    return fields["client_id"], fields["client_secret"]


def _granted_scopes(requested: str | None, held: list[str]) -> list[str]:
    """The scopes asked for, a subset of the credential's, in the credential's order; all of them when none is named."""
    if requested is None:
        return held
    names = requested.split(" ") if requested.strip() else []
    if not names or any(scope not in held for scope in names):
        raise _Declined(
            400, "invalid_scope", "The credential does not hold all of these scopes; one blank stands between two."
        )
    return [scope for scope in held if scope in names]


ROUTES = (OpenRoute("POST", "/v1/oauth/token", "issueToken", issue),)
