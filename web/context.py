"""The services that pages and their commands need: seal, job queue, reply channel, PIX locations, issuer of boletos.

Redis only makes them faster: without Redis a worker finds an order on its next round, and the outcome is polled.
"""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from litestar import Request

from commands.bank_orders.boleto_issuer import BoletoIssuer
from commands.bank_orders.pix_locations import LocationReserve
from domain.instants import to_millisecond
from readmodels.cursor import Cursors
from runtime.jobs import Jobs
from runtime.limits.addresses import client_key
from runtime.postgres import Pool
from runtime.redis import open_redis
from runtime.replies import Replies
from runtime.seal import Seal
from runtime.settings import Settings
from web.postal import PostalCodes


def spend(request: Request[Any, Any, Any], what: str) -> None:
    """Count an anonymous request against the rate limit of its client address (runtime/limits/rates.py);
    Refused(RATE_LIMITED)."""
    state = request.app.state
    state.rates.spend(what, client_key(request.scope, state.settings), now_s=time.monotonic())


class WebContext:
    def __init__(self, settings: Settings, pool: Pool, *, now: Callable[[], datetime]) -> None:
        def to_the_millisecond() -> datetime:
            return to_millisecond(now())

        self.seal = Seal(settings.secret_key)
        self.cursors = Cursors(self.seal.keys("dashboard cursor"))
        self._redis = open_redis(settings.redis_url, blocking=False)
        self.jobs = Jobs(self._redis)
        self.replies = Replies(open_redis(settings.redis_url, blocking=True), pool, self.seal)
        self.reserve = LocationReserve(settings.bank, pool, self.jobs)
        self.postal_codes = PostalCodes(settings.cep_url)
        self.boletos = BoletoIssuer(settings, pool, self.jobs, self.replies, self.reserve, to_the_millisecond)

    async def open(self) -> None:
        await self.replies.start()

    async def close(self) -> None:
        await self.postal_codes.close()
        await self.boletos.close()
        await self.reserve.close()
        await self.jobs.stop()
        await self.replies.stop()
        await self._redis.aclose(close_connection_pool=True)
