"""Puts PostgreSQL as far away as another machine: `python -m bench.relay HOST PORT DELAY_S` is a TCP relay in a process
of its own, which forwards data in both directions DELAY_S later.

It uses select(2), whose timeout has microseconds: event loops wait in whole milliseconds.
"""

import asyncio
import select
import socket
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

_READ_BYTES = 256 * 1024
_BACKLOG = 64


@asynccontextmanager
async def far_away(database_url: str, delay_s: float) -> AsyncIterator[tuple[str, int]]:
    """Runs a relay with `delay_s` in each direction; yields the database's URL through it, and its process id."""
    parts = urlsplit(database_url)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.relay", parts.hostname or "", str(parts.port), str(delay_s),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        authority = parts.netloc.rpartition(":")[0]
        yield parts._replace(netloc=f"{authority}:{port}").geturl(), process.pid
    finally:
        process.terminate()
        await process.wait()


def _relay(host: str, port: int, delay_s: float) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    print(listener.getsockname()[1], flush=True)
    peers: dict[socket.socket, socket.socket] = {}
    under_way: deque[tuple[float, socket.socket, bytes]] = deque()
    while True:
        wait_s = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        readable, _, _ = select.select([listener, *peers], [], [], wait_s)
        now = time.monotonic()
        while under_way and under_way[0][0] <= now:
            _, peer, data = under_way.popleft()
            if peer in peers:
                peer.sendall(data)
        for each in readable:
            if each is listener:
                near, far = listener.accept()[0], socket.create_connection((host, port))
                for one, other in ((near, far), (far, near)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    peers[one] = other
            elif each in peers:
                data = each.recv(_READ_BYTES)
                if data:
                    under_way.append((now + delay_s, peers[each], data))
                else:
                    for end in (each, peers[each]):
                        del peers[end]
                        end.close()


if __name__ == "__main__":
    _relay(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
