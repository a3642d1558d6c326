"""A client of the API over HTTP, which obtains its access token when it first needs one."""

import http.client
import json
import uuid
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from .keys import CannotRun, Keys

_ANSWER_S = 30.0
_AS_IT_IS = "%/:?@!$&'()*+,;=~[]"


class Away(CannotRun):
    """The API does not answer, or answers 429 or 5xx; the same request may succeed later."""


class ApiRefused(CannotRun):
    """The API's refusal: its code, its message and the faulty fields."""

    def __init__(self, error: dict[str, Any]) -> None:
        fields = "".join(f"\n  {each['field']}: {each['message']}" for each in error.get("fields", ()))
        super().__init__(f"{error['code']}: {error['message']}{fields}\n  {error['documentation_url']}")
        self.error = error


class Api:
    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._token = ""
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def url(self) -> str:
        return self._keys.url.rstrip("/")

    def get(self, path: str, /, **query: Any) -> Any:
        """Sends a GET request. In `query`, None leaves a parameter out and a list repeats it."""
        given = {name: value for name, value in query.items() if value is not None}
        return self._send("GET", path + (f"?{urlencode(given, doseq=True)}" if given else ""), None, {})

    def post(self, path: str, body: Any = None, *, key: bool = False, sandbox_bank: str | None = None) -> Any:
        """Sends a POST request; with `key`, it carries a new Idempotency-Key."""
        headers = {"Idempotency-Key": str(uuid.uuid4())} if key else {}
        if sandbox_bank is not None:
            headers["X-Sandbox-Bank"] = sandbox_bank
        return self._send("POST", path, body, headers)

    def patch(self, path: str, body: Any) -> Any:
        return self._send("PATCH", path, body, {})

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        if sent is not None:
            headers = headers | {"Content-Type": "application/json"}
        for last in (False, True):  # the token may have expired: it lives an hour, and some commands run all day
            status, answer = self._request(
                method, path, sent, headers | {"Authorization": f"Bearer {self._access_token()}"}
            )
            if status < 400:
                return answer
            if status == 401 and not last:
                self._token = ""
                continue
            if _is_temporary(status):
                raise Away(f"the API answers {status}: {_error_text(answer)}")
            break
        raise ApiRefused(answer["error"])

    def _access_token(self) -> str:
        if not self._token:
            form = {"grant_type": "client_credentials", **self._keys._asdict()}
            del form["url"]
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            status, answer = self._request("POST", "/v1/oauth/token", urlencode(form).encode(), headers)
            if _is_temporary(status):
                raise Away(f"the API answers {status}: {_error_text(answer)}")
            if status != 200:
                raise CannotRun(f"the API refuses the credential: {_error_text(answer)}")
            self._token = answer["access_token"]
        return self._token

    def _request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, Any]:
        parts = address(self._keys.url)
        if self._connection is None:
            self._connection = connection_to(self._keys.url, _ANSWER_S)
        try:
            self._connection.request(method, parts.path + path, body, headers)
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            self._connection = None
            raise Away(f"the API at {self._keys.url} does not answer: {short(error)}") from error


def _is_temporary(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status == 429 or status >= 500


def _error_text(answer: Any) -> str:
    """The text of an error answer: from the API, the token endpoint (RFC 6749), or a proxy in front of the API."""
    given = answer if isinstance(answer, dict) else {}
    error = given.get("error")
    message = error.get("message") if isinstance(error, dict) else given.get("error_description")
    return str(message or answer)[:200]


def address(url: str) -> SplitResult:
    """Splits a URL, with path and query quoted as a request line needs them; CannotRun when it is no http address."""
    with suppress(ValueError):  # a port that is no number, an open bracket, a host with an empty label
        parts = urlsplit(url)
        whole = url.isprintable() and " " not in url and parts.port != 0
        if parts.scheme in ("http", "https") and parts.hostname and whole:
            parts.hostname.encode("idna")
            return parts._replace(path=quote(parts.path, _AS_IT_IS), query=quote(parts.query, _AS_IT_IS))
    raise CannotRun(f"{url!r} is no address to send requests to, such as https://shop.example.com/hooks")


def connection_to(url: str, timeout_s: float) -> http.client.HTTPConnection:
    parts = address(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    # The port is always given: without one, http.client would read the end of an IPv6 address as a port.
    return kind(parts.hostname or "", parts.port or kind.default_port, timeout=timeout_s)


def short(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
