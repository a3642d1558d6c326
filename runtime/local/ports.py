"""Free ports of 127.0.0.1 for local work and tests.

A server binds its port seconds after the port was chosen: PostgreSQL starts before the API does. No other process may
choose the same port meanwhile, so each process chooses from blocks of ports that it has locked until it ends.
"""

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runtime.local.files import write_private

_PORTS: Final = range(10_240, 32_768)
"""Below the ports that the system gives to outgoing connections (32768 and up on Linux, 49152 on macOS): such a
connection could have the port before the server that it was chosen for."""
_BLOCK: Final = 352
_STEP: Final = 4
"""The ports after a chosen one are left to further processes of its kind."""


def _ports() -> Iterator[int]:
    locked_blocks: list[int] = []  # file descriptors: the end of the process closes them, which frees the blocks
    count = len(_PORTS) // _BLOCK
    for number in range(count):
        block = (os.getpid() + number) % count  # processes that are started together begin apart
        lock = _lock_block(block)
        if lock is not None:
            locked_blocks.append(lock)
            yield from _PORTS[block * _BLOCK : (block + 1) * _BLOCK : _STEP]
    while True:  # a process that has used up all blocks shares them with others
        yield from _PORTS[::_STEP]


def _lock_block(block: int) -> int | None:
    """Returns a descriptor that holds the lock, or None when another process has locked the block."""
    folder = Path(tempfile.gettempdir(), f"quita-ports-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(folder / str(block), os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError:  # the folder is somebody else's, or cannot be written to
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


_chosen = _ports()


def free_port() -> int:
    """Returns a port that is free, and that no running process has chosen before."""
    return next(filter(port_is_free, _chosen))


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def remembered_port(file: Path) -> int:
    """Returns the port stored in `file` when it is still free, else a new one, which is stored."""
    try:
        port = int(file.read_text(encoding="ascii"))
        if port_is_free(port):
            return port
    except (OSError, ValueError, OverflowError):
        pass
    return new_port(file)


def new_port(file: Path) -> int:
    """Returns a new free port, which is stored in `file`."""
    port = free_port()
    write_private(file, str(port).encode())
    return port
