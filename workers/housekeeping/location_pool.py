"""Keep locations ready, so that creating a PIX charge waits for no bank."""

import structlog
from msgspec import Struct

import sql
from banks.protocol import Done
from commands.bank_orders.pix_locations import HIGH, LOW, add_to_pool
from domain.mode import Mode
from runtime.postgres import session
from workers.context import Context

CHUNK = {Mode.SANDBOX: 2_000, Mode.PRODUCTION: 200}
"""Asked for at once: one statement of the simulated bank, or so many requests, a few at a time."""

_log = structlog.get_logger()


class _Level(Struct, frozen=True):
    count: int


find_level = sql.one("pix_location.level", _Level)


async def fill_pool(context: Context, mode: Mode) -> int:
    """Fill the pool of one mode to its high mark when it is below its low one; answers how many were added."""
    level = await _level(context, mode)
    if level >= LOW[mode]:
        return 0
    added = 0
    for _ in range(HIGH[mode] // CHUNK[mode] + 1):
        missing = HIGH[mode] - level - added
        if missing <= 0:
            break
        answer = await context.banks.of(mode, context.settings.bank).pix.create_locations(min(missing, CHUNK[mode]))
        if not isinstance(answer, Done):
            _log.warning("location_pool_not_filled", test=mode.test, ready=level + added, answer=type(answer).__name__)
            break
        async with session(context.pool) as conn:
            await add_to_pool(conn, mode, context.settings.bank, answer.value)
        added += len(answer.value)
    return added


async def _level(context: Context, mode: Mode) -> int:
    async with session(context.pool) as conn:
        return (await find_level(conn, test=mode.test, bank=context.settings.bank, high=HIGH[mode])).count
