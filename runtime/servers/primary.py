"""Connections to one of the servers that a URL names: for DATABASE_URL, to the primary, which takes writes.

asyncpg asks the hosts of a URL one after the other, with one time limit for all of them: a machine without power
answers nothing, the limit passes, and the next host is never asked. Here each host has a limit of its own, and the host
that was found last is asked first.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from asyncpg.connect_utils import SessionAttribute

if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection

HOST_S: Final = 2.0
"""How long each of several hosts may take to accept a connection; less than half of the 5 s that a request waits."""

_UNREADABLE_URL: Final = (
    "the address of PostgreSQL must be such as postgresql://user:password@host:5432/quita;"
    " in a password / ? # and @ are written as %2F %3F %23 and %40"
)

Target = Literal["primary", "any"]


class NoPrimary(ConnectionError):
    """All servers that can be reached are standbys; one of them may be about to be promoted."""


class Hosts:
    """The hosts of `url`, as in `postgresql://user:password@one:5432,two:5433/database`. `target` decides, whatever
    `target_session_attrs` the URL has: `primary` never connects to a standby, `any` takes the first that answers."""

    def __init__(self, url: str, target: Target = "primary") -> None:
        self._urls = each_host(url)
        self._target = SessionAttribute(target)

    async def connect(self, **options: Any) -> _Connection:
        """A connection; `options` as asyncpg.connect has them. Raises asyncpg's error for the last host, and NoPrimary
        when all hosts that answer are standbys."""
        if len(self._urls) == 1:
            return await self._connect(self._urls[0], options)
        last_error: Exception | None = None
        for url in self._urls:
            is_connected = False
            try:
                async with asyncio.timeout(HOST_S):
                    conn = await self._connect(url, options)
                is_connected = True
                return conn
            except (OSError, TimeoutError, asyncpg.PostgresError) as error:
                # A host that cannot be reached says more than a host that is a standby.
                if last_error is None or not isinstance(error, NoPrimary):
                    last_error = error
            finally:
                # Also when the caller's own time was up: the next caller begins with another host.
                if not is_connected and self._urls[0] == url:
                    self._urls = (*self._urls[1:], url)
        assert last_error is not None
        raise last_error

    async def _connect(self, url: str, options: dict[str, Any]) -> _Connection:
        try:
            conn: _Connection = await asyncpg.connect(url, target_session_attrs=self._target, **options)
        except asyncpg.TargetServerAttributeNotMatched:
            raise NoPrimary("the server is a standby, which takes no writes") from None
        except asyncpg.ClientConfigurationError:
            raise
        except ValueError:  # it quotes what it takes for the port: a piece of the password
            raise asyncpg.ClientConfigurationError(_UNREADABLE_URL) from None
        return conn


def each_host(url: str) -> tuple[str, ...]:
    """The URL of each host. Hosts named in the query (`?host=`) stay together."""
    parts = urlsplit(url)
    userinfo, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return (url,)
    return tuple(urlunsplit(parts._replace(netloc=f"{userinfo}{at}{host}")) for host in hosts.split(","))
