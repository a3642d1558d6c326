"""HTTP connections of a client, kept for the next request, which take no data that was not asked for.

aiohttp queues any amount of data that comes on an idle connection, and takes it for the answer to the next request: to
another bank order, or another event. So a server that answers twice would confirm or refuse the wrong one.
"""

import asyncio
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler


class AskedConnection(ResponseHandler):
    """The client's end of a connection. `idle` while it waits for its next request: data that comes then ends it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.idle = False

    def data_received(self, data: bytes) -> None:
        if not (self.idle and data):  # aiohttp passes an empty piece to go on with the data it has
            self.take(data)
            # The end of an answer makes the connection idle; data behind that end is left in its buffer.
            if not (self.idle and self.should_close):
                return
        self.abort()

    def take(self, data: bytes) -> None:
        """Take a piece of an answer."""
        super().data_received(data)


class AskedConnector(aiohttp.TCPConnector):
    """Makes connections whose client's end is a `protocol`."""

    def __init__(self, *, protocol: type[AskedConnection] = AskedConnection, **named: Any) -> None:
        super().__init__(**named)
        # aiohttp has no public hook for a protocol of one's own, nor for connections that are given back.
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
