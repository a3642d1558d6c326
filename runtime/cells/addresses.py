"""The address of a cell's database: `postgresql://role:password@host:port/database?search_path=schema`."""

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

PUBLIC: Final = "public"
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def is_schema(name: str) -> bool:
    """Whether the name needs no quotes in any statement or URL."""
    return _SCHEMA.fullmatch(name) is not None and not name.startswith("pg_")


def with_search_path(url: str, schema: str) -> str:
    """The URL, with this schema as the one in which sessions find everything."""
    parts = urlsplit(url)
    rest = [(name, value) for name, value in parse_qsl(parts.query) if name != "search_path"]
    query = urlencode(rest if schema == PUBLIC else [*rest, ("search_path", schema)])
    return urlunsplit(parts._replace(query=query))


def schema_of(url: str) -> str:
    return dict(parse_qsl(urlsplit(url).query)).get("search_path", PUBLIC)


def as_role_of(url: str, other: str) -> str:
    """The database of `url`, as the role that `other` names."""
    parts = urlsplit(url)
    userinfo, at, _ = urlsplit(other).netloc.rpartition("@")
    _, _, hosts = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{userinfo}{at}{hosts}"))


def shown(url: str) -> str:
    """Host, port, database and schema, for people: without role and password."""
    parts = urlsplit(url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path} {schema_of(url)}"


def same_role(url: str, other: str) -> bool:
    return urlsplit(url).username == urlsplit(other).username


def redis_of(url: str, number: int) -> str:
    """The Redis of a cell: the installation's, in the logical database of the cell's number. Redis only speeds up what
    PostgreSQL holds, and two cells share nothing in it."""
    if not number:
        return url
    parts = urlsplit(url)
    if parts.scheme.startswith("redis+sentinel"):
        service, _, _ = parts.path.lstrip("/").partition("/")
        return urlunsplit(parts._replace(path=f"/{service}/{number}"))
    return urlunsplit(parts._replace(path=f"/{number}"))
