"""HTTP connections of a client, kept for the next request, on which nothing is taken that was not asked for.

aiohttp queues what comes on a connection that waits, in any amount, and takes it for the answer to the next request: to
another order of a bank, or to another event. A server that answers twice would so refuse the one and confirm the other.
"""

import asyncio
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler


class AskedConnection(ResponseHandler):
    """The client's end of a connection. `idle` while it waits for its next request: what comes then ends it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.idle = False

    def data_received(self, data: bytes) -> None:
        if not (self.idle and data):  # aiohttp goes on with what it has by an empty piece
            self.take(data)
            # The end of an answer makes it idle; what stands behind that is left in its buffer.
            if not (self.idle and self.should_close):
                return
        self.abort()

    def take(self, data: bytes) -> None:
        """A piece of an answer."""
        super().data_received(data)


class AskedConnector(aiohttp.TCPConnector):
    """`protocol` makes the client's end of each connection."""

    def __init__(self, *, protocol: type[AskedConnection] = AskedConnection, **named: Any) -> None:
        super().__init__(**named)
        # aiohttp has no public place for a protocol of one's own, nor for what becomes of connections given back.
        self._factory = partial(protocol, loop=self._loop)  # type: ignore[assignment]

    async def connect(self, *given: Any, **named: Any) -> Any:
        connection = await super().connect(*given, **named)
        assert isinstance(connection.protocol, AskedConnection)
        connection.protocol.idle = False
        return connection

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        assert isinstance(protocol, AskedConnection)
        protocol.idle = True
