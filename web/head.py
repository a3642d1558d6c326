"""What pages read of a request's head: a cookie of ours, a parameter of the address.

Not by the framework, which keeps both of the last 1,024 requests in the form it read them into, whoever sent them: of
heads of 32 KB that is a gigabyte. And it unquotes cookies with the standard library's code, as SimpleCookie does: a
cookie full of signs that are escaped, or of `=`, takes that seconds, in which nobody is answered.
"""

from typing import Any
from urllib.parse import parse_qsl, unquote


def cookie_in(scope: Any, name: str) -> str:
    """Empty without one. Cookies of ours are percent-encoded: no quotes, and nothing else that is escaped."""
    for header, value in scope["headers"]:
        if header == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                own, _, given = pair.strip().partition("=")
                if own == name:
                    return unquote(given)
    return ""


def parameter_in(scope: Any, name: str) -> str | None:
    """The first of this name."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return next((value for each, value in pairs if each == name), None)
