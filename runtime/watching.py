"""The platform's monitoring, and how it is taken out of service: settings with defaults (docs/production.md).

Metrics and probes are for operators: each has a port of its own, which is not the public one.
"""

from collections.abc import Mapping

from msgspec import Struct

from runtime.limits.variables import whole_numbers
from runtime.tracing.settings import Tracing, read_tracing

DRAIN_S_MAX = 300


class Watching(Struct, frozen=True, kw_only=True):
    """Field `x_y` is the variable X_Y, except `tracing`."""

    metrics_port: int | None = None
    """Where the supervisor of API processes serves /metrics, on HOST; nowhere unless given."""
    worker_port: int | None = None
    """Where a worker process serves /livez, /readyz and /metrics, on HOST; nowhere unless given."""
    drain_s: int = 0
    """How long /readyz of an API process is 503 after SIGTERM, before the process takes no more connections: as long as
    a balancer needs to see it."""
    verify_hour: int = 2
    """The hour of the day in Sao Paulo within which the nightly verification begins."""
    verify_percent: int = 25
    """The share of one connection's time that the verification takes; 0: there is none."""
    tracing: Tracing | None = None
    """Where traces go; nowhere unless given."""


_BOUNDS: Mapping[str, tuple[int, int]] = {
    "metrics_port": (1, 65_535),
    "worker_port": (1, 65_535),
    "drain_s": (0, DRAIN_S_MAX),
    "verify_hour": (0, 23),
    "verify_percent": (0, 100),
}


def read_watching(env: Mapping[str, str]) -> Watching:
    """ValueError names the variable that is out of its bounds."""
    return Watching(**whole_numbers(env, _BOUNDS, _BOUNDS.__getitem__), tracing=read_tracing(env))
