"""A PostgreSQL that hangs, as with a hanging disk: a proxy in front of it stops forwarding when the test says so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit


@asynccontextmanager
async def hanging(url: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Yields the address of the proxy, and an event that makes it hang once set: connections stay open, and new ones
    are accepted, but nothing is forwarded."""
    hangs, parts = asyncio.Event(), urlsplit(url)
    open_: list[asyncio.StreamWriter] = []
    forwarding = set[asyncio.Task[None]]()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.append(writer)
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                if not hangs.is_set():
                    writer.write(data)
        if not hangs.is_set():
            writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(parts.hostname, parts.port)
        both = [
            asyncio.create_task(forward(reader, server_writer)),
            asyncio.create_task(forward(server_reader, writer)),
        ]
        forwarding.update(both)

    proxy = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    try:
        yield urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{port}")), hangs
    finally:
        proxy.close()
        for writer in open_:
            writer.transport.abort()
        if forwarding:
            await asyncio.wait(forwarding)
