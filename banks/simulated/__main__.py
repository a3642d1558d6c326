"""The simulated bank as a process: `python -m banks.simulated`, on BANK_PORT or the port of BANK_URL.

Its tables are in DATABASE_URL: it waits while the database is unavailable, and exits with 0 on SIGTERM or SIGINT.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

import aiohttp
import structlog
import uvloop
from aiohttp import web

from banks.banco_do_brasil.adapter import agreement_of
from banks.simulated.bank import PRODUCTION, SimulatedBank
from banks.simulated.boleto_control import BoletoControl
from banks.simulated.boleto_wire import BoletoWire
from banks.simulated.cobv_wire import CobvWire
from banks.simulated.control import ControlRoutes, Teller
from banks.simulated.return_wire import ReturnWire
from banks.simulated.signing import JWKS_PATH, open_signer
from banks.simulated.wire import BODY_BYTES_MAX, Access, Wire, books_may_be_away
from runtime import log
from runtime.postgres import DB_UNAVAILABLE, Pool, open_pool
from runtime.seal import Seal
from runtime.settings import Settings, read_settings

_POOL_SIZE = 8
_CLOSE_S = 2.0
_WAIT_S_MAX = 2.0

_log = structlog.get_logger()


def main() -> None:
    log.setup("bank")
    uvloop.run(_main(read_settings()))


async def _main(settings: Settings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopping.set)
    serving = asyncio.create_task(_serve(settings, stopping))
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        # Open requests get a moment to finish; a caller that loses its answer asks again.
        await asyncio.wait((serving,), timeout=_CLOSE_S * 2)
    stopped.cancel()
    if serving.done():
        serving.result()
    else:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    _log.info("bank_stopped")


async def _serve(settings: Settings, stopping: asyncio.Event) -> None:
    pool = await _open_when_there(settings, stopping)
    if pool is None:
        return
    try:
        async with opened_app(settings, pool) as app:
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_S)
            await runner.setup()
            try:
                port = bank_port(settings)
                await web.TCPSite(runner, settings.host, port, reuse_address=True, backlog=1024).start()
                _log.info("bank_started", port=port)
                await stopping.wait()
            finally:
                await runner.cleanup()
    finally:
        pool.terminate()


@asynccontextmanager
async def opened_app(settings: Settings, pool: Pool) -> AsyncIterator[web.Application]:
    """Open the application over the production world's tables, and run its callbacks meanwhile."""
    seal = Seal(settings.secret_key)
    bank = SimulatedBank(pool, seal, world=PRODUCTION, url=settings.bank_url, now=lambda: datetime.now(UTC))
    signer = await open_signer(pool, seal, jku=settings.bank_url + JWKS_PATH, now=bank.now())
    access = Access(
        client_id=settings.bank_client_id,
        client_secret=settings.bank_client_secret,
        app_key=settings.bank_app_key,
        token_key=seal.key("simulated bank, tokens"),
    )
    wire = Wire(bank, signer, access)
    wire.play(await bank.fault())
    if url := os.environ.get("BANK_BOLETO_WEBHOOK"):
        # At the real bank this address is entered by hand in the portal.
        await bank.boletos.set_webhook(url)
    boleto_wire = BoletoWire(wire, bank.boletos, signer, agreement_of(settings))
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=False) as http:
        teller = Teller(bank, wire, http)
        telling = asyncio.create_task(teller.run())
        try:
            app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[books_may_be_away])
            app.add_routes([*ControlRoutes(bank, wire, teller).routes(), *BoletoControl(bank.boletos).routes()])
            app.add_routes(
                [
                    *CobvWire(wire).routes(),
                    *boleto_wire.routes(),
                    *ReturnWire(wire, bank.transfers).routes(),
                    *wire.routes(),
                ]
            )
            yield app
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)


def bank_port(settings: Settings) -> int:
    """Return BANK_PORT, else the port of BANK_URL."""
    text = os.environ.get("BANK_PORT", "")
    return int(text) if text else urlsplit(settings.bank_url).port or 8009


async def _open_when_there(settings: Settings, stopping: asyncio.Event) -> Pool | None:
    failures = 0
    while not stopping.is_set():
        try:
            kept = settings.statements_kept
            return await open_pool(settings.database_url, name="bank", size=_POOL_SIZE, statements_kept=kept)
        except DB_UNAVAILABLE as gone:
            failures += 1
            if failures & (failures - 1) == 0:
                _log.warning("bank_waits", error=type(gone).__name__)
            await asyncio.sleep(min(0.1 * 2 ** min(failures, 10), _WAIT_S_MAX))
    return None


if __name__ == "__main__":
    main()
