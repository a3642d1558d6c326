"""Bounds of a connection: how long a client may take, how much it may send, and how many connections there may be.
Settings with defaults (docs/settings.md).

Each bounds what a stranger gets before a token is looked at.
"""

import contextlib
import resource
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from runtime.limits.variables import whole_numbers

OPEN_FILES_MAX = 1_048_576
"""The limit where the hard limit is none: more than any process of ours has sockets."""
_FILES_KEPT = 256
"""Files for PostgreSQL, Redis, logs and modules, beside the connections of clients."""


class HttpBounds(Struct, frozen=True, kw_only=True):
    """Field `x_y` is the variable HTTP_X_Y; each bound is for one API process."""

    first_byte_s: float = 10.0
    headers_s: float = 10.0
    """From the first byte of a request to its empty line."""
    body_s: float = 20.0
    """From there to the end of the body: 256 KiB at 13 KB/s."""
    idle_s: float = 75.0
    """Between two requests. Longer than the minute after which proxies close a connection that they keep."""
    write_s: float = 30.0
    """How long an answer may wait for a client that does not read."""
    header_bytes_max: int = 32 * 1024
    target_bytes_max: int = 16 * 1024
    connections_max: int = 10_000
    connections_per_address_max: int = 1_000
    """From one IPv4 address or IPv6 network of 64 bits; TRUSTED_PROXIES are not counted."""

    def fitting(self, open_files: int) -> "HttpBounds":
        """The same bounds for a process that may have `open_files` files open."""
        fits = max(1, open_files - _FILES_KEPT)
        return self if self.connections_max <= fits else replace(self, connections_max=fits)


_FIELD_MAX: Mapping[str, int] = {
    "first_byte_s": 600,
    "headers_s": 600,
    "body_s": 600,
    "idle_s": 3_600,
    "write_s": 600,
    "header_bytes_max": 1_048_576,
    "target_bytes_max": 65_536,
}
_DEFAULT_MAX = 1_000_000


def read_http_bounds(env: Mapping[str, str]) -> HttpBounds:
    """ValueError names the variable that is no number from 1 to its bound."""

    def bounds(field: str) -> tuple[int, int]:
        return 1, _FIELD_MAX.get(field, _DEFAULT_MAX)

    return HttpBounds(**whole_numbers(env, HttpBounds.__struct_fields__, bounds, prefix="HTTP_"))


def raise_open_files() -> int:
    """Let this process open as many files as the hard limit allows; returns how many. The usual 1,024 is a limit for
    programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < limit:
        # macOS takes no more than kern.maxfilesperproc, whatever the hard limit says.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else soft
