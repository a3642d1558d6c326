"""Connections to the master of a Redis that Sentinels watch.

The connections are redis-py's: each new one asks a Sentinel for the master. A connection whose server answers READONLY,
because it was demoted, is closed, and so are idle connections to another master.
"""

from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from redis.asyncio.connection import BlockingConnectionPool, ConnectionPool
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool

SCHEME: Final = "redis+sentinel://"
_PORT: Final = 26_379
_WRONG_URL: Final = (
    "REDIS_URL must be such as redis+sentinel://user:password@one:26379,two:26379/service/0, with the Sentinels' own"
    " ?sentinel_username= and sentinel_password= where they have them"
)


class SentinelPool(SentinelConnectionPool):
    """Ends its connections to Sentinels together with the others."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await super().disconnect(inuse_connections)
        if inuse_connections:  # otherwise the pool has only found another master
            for sentinel in self.sentinel_manager.sentinels:
                await sentinel.aclose(close_connection_pool=True)


class BlockingSentinelPool(SentinelPool, BlockingConnectionPool):
    """While all connections are in use, a caller waits for one."""


def sentinel_pool(url: str, *, blocks: bool, sentinel_s: float, **options: Any) -> ConnectionPool:
    """Connections to the master of `redis+sentinel://[user:password@]one:26379,two:26379/service/0`. `options` are for
    the connections and the pool. A Sentinel that is silent for `sentinel_s` is passed over. Raises ValueError."""
    try:
        parts = urlsplit(url)
        userinfo, _, hosts = parts.netloc.rpartition("@")
        user, _, password = userinfo.partition(":")
        service, _, database = parts.path.strip("/").partition("/")
        sentinels = [_sentinel_address(each) for each in hosts.split(",")]
        query = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
        sentinel_login = {name: query.pop(f"sentinel_{name}", [None])[0] for name in ("username", "password")}
        if query or not service or not all(host for host, _ in sentinels):
            raise ValueError
        options["db"] = int(database or "0")
    except ValueError:
        raise ValueError(_WRONG_URL) from None
    options |= {"username": unquote(user) or None, "password": unquote(password) or None}
    sentinel_options = {
        "socket_connect_timeout": sentinel_s,
        "socket_timeout": sentinel_s,
        "socket_keepalive": True,
        **sentinel_login,
    }
    pool: Any = BlockingSentinelPool if blocks else SentinelPool
    manager: Any = Sentinel
    made: ConnectionPool = pool(service, manager(sentinels, sentinel_kwargs=sentinel_options), **options)
    return made


def _sentinel_address(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    return parts.hostname or "", parts.port or _PORT
