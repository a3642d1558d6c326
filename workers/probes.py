"""The probes of a worker process on WORKER_PORT: /livez, /readyz and /metrics.

They answer from the first moment of the process to its last, so an orchestrator sees a worker that starts slowly, and
one that drains.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from runtime.metrics import exposition
from runtime.readiness import Readiness, takes_writes
from workers.context import Context

_END_S = 1.0


class Probes:
    """`failing` names the duties whose latest rounds all failed."""

    def __init__(self, context: Context, failing: Callable[[], list[str]]) -> None:
        self._context = context
        self._failing = failing
        self._readiness = Readiness(context.pool)

    async def alive(self, _: web.Request) -> web.Response:
        """200 while the event loop turns. Nothing else is checked, because a restart would repair nothing else."""
        return web.json_response({"status": "ok"})

    async def ready(self, _: web.Request) -> web.Response:
        """503 while the worker stops, while PostgreSQL is unreachable, takes no writes or has another schema, and while
        duties fail. `degraded` when Redis is away or takes no writes."""
        if self._context.stopping.is_set():
            return web.json_response({"status": "draining"}, status=503)
        database = await self._readiness.database()
        facts: dict[str, Any] = {"postgres": database != "unreachable"}
        if database == "read_only":
            facts["writes"] = False
        if database in ("outdated", "outgrown"):
            facts["schema"] = False
        if failing := self._failing():
            facts["failing"] = failing
        if database != "ready" or failing:
            return web.json_response({"status": "unavailable", **facts}, status=503)
        facts["redis"] = await takes_writes(self._context.redis)
        return web.json_response({"status": "ok" if facts["redis"] else "degraded", **facts})

    async def metrics(self, _: web.Request) -> web.Response:
        """The metrics of this process alone."""
        return web.Response(body=exposition(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


@asynccontextmanager
async def serve_probes(context: Context, failing: Callable[[], list[str]]) -> AsyncIterator[None]:
    """Answer probes on WORKER_PORT, if it is set, until the end of the block. Raises OSError when the port is taken."""
    port = context.settings.watching.worker_port
    if port is None:
        yield
        return
    probes = Probes(context, failing)
    app = web.Application()
    app.add_routes(
        [web.get("/livez", probes.alive), web.get("/readyz", probes.ready), web.get("/metrics", probes.metrics)]
    )
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_END_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, context.settings.host, port).start()
        yield
    finally:
        await runner.cleanup()
