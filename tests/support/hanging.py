"""PostgreSQL that hangs, as one whose disk does: a proxy before it passes nothing on once it is told to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit


@asynccontextmanager
async def hanging(url: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Its address there, and what makes it hang from then on: no connection ends, and new ones are taken."""
    hangs, parts = asyncio.Event(), urlsplit(url)
    open_: list[asyncio.StreamWriter] = []
    carrying = set[asyncio.Task[None]]()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.append(writer)
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                if not hangs.is_set():
                    writer.write(data)
        if not hangs.is_set():
            writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(parts.hostname, parts.port)
        both = [asyncio.create_task(carry(reader, server_writer)), asyncio.create_task(carry(server_reader, writer))]
        carrying.update(both)

    proxy = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    try:
        yield urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{port}")), hangs
    finally:
        proxy.close()
        for writer in open_:
            writer.transport.abort()
        if carrying:
            await asyncio.wait(carrying)
