"""Connections to Redis, an optimization: every caller must work without it (see REDIS_UNAVAILABLE)."""

from typing import Any

import redis.exceptions
from redis.asyncio import Redis
from redis.asyncio.connection import BlockingConnectionPool, Connection, ConnectionPool

from runtime.servers.sentinel import SCHEME, sentinel_pool

# The errors of a Redis that is not there: catch these, do the slower thing, and go on. A Redis that answers with an
# error is no better than none: out of memory, read only, without its replicas (NOREPLICAS), unable to write to its
# disk (MISCONF). The last two come as plain ResponseError, as mistakes of our own would.
REDIS_UNAVAILABLE: tuple[type[BaseException], ...] = (
    redis.exceptions.ConnectionError,  # also: pool exhausted, still loading, refused credentials
    redis.exceptions.TimeoutError,
    redis.exceptions.WatchError,  # the connection died while it watched a key, as arq's do
    redis.exceptions.ResponseError,
    OSError,
    TimeoutError,
)

COMMAND_S = 0.25
"""Longer than any healthy command takes, short enough that a request which loses it is still quick."""
_COMMAND_CONNECTIONS = 32
_BLOCKING_CONNECTIONS = 4


def open_redis(url: str, *, blocking: bool) -> Redis:
    """A client. `blocking`, for readers that wait inside Redis (BLPOP), leaves the socket without a timeout: such a
    reader bounds its wait itself."""
    if blocking:
        return Redis.from_pool(  # and not Redis(connection_pool=), whose closing leaves the pool's connections open
            connections(url, max_connections=_BLOCKING_CONNECTIONS, socket_timeout=None)
        )
    return Redis.from_pool(
        connections(
            url,
            blocks=True,
            max_connections=_COMMAND_CONNECTIONS,
            timeout=COMMAND_S,  # an exhausted pool is a quick error, not a queue
            socket_timeout=COMMAND_S,
        )
    )


def connections(url: str, *, blocks: bool = False, **options: Any) -> ConnectionPool:
    """A pool of connections to the one Redis of the URL, or to the master that its Sentinels name. `blocks`: while all
    connections are in use, a caller waits for one."""
    options |= {"socket_connect_timeout": COMMAND_S, "socket_keepalive": True}
    if url.startswith(SCHEME):
        return sentinel_pool(url, blocks=blocks, sentinel_s=COMMAND_S, **options)
    if url.startswith("redis://"):
        options["connection_class"] = _MasterConnection
    return (BlockingConnectionPool if blocks else ConnectionPool).from_url(url, **options)


class _MasterConnection(Connection):
    """Closes when its server was demoted: behind a name or a proxy, the next connection finds the master."""

    async def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*args, **options)
        except redis.exceptions.ReadOnlyError:
            await self.disconnect()
            raise redis.exceptions.ConnectionError("the master became a replica") from None
