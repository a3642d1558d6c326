"""Reading a request's head: one of our cookies, a query parameter.

The framework's own parsers are not used. They cache the parsed cookies and parameters of the last 1,024 requests,
whoever sent them: with heads of 32 KB, a gigabyte. And they unquote cookies with the standard library's code, as
SimpleCookie does, which takes seconds for a cookie full of escapes or of `=`; meanwhile no request is answered.
"""

from typing import Any
from urllib.parse import parse_qsl, unquote


def cookie_in(scope: Any, name: str) -> str:
    """The cookie's value, or an empty text. Our cookies are percent-encoded, without quotes or other escapes."""
    for header, value in scope["headers"]:
        if header == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                cookie_name, _, cookie_value = pair.strip().partition("=")
                if cookie_name == name:
                    return unquote(cookie_value)
    return ""


def parameter_in(scope: Any, name: str) -> str | None:
    """The first query parameter of this name."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return next((value for parameter, value in pairs if parameter == name), None)
