"""Registrations of test charges, in the one statement that also ends their orders.

The sandbox's bank lives in this database (design: inside the worker), so there is nobody to wait for: no lease, no
answer and no second statement. A fault in one order fails the statement; then all go through the bank's port.
"""

from datetime import datetime

import structlog
from msgspec import Struct

import sql
from banks.protocol import DESCRIPTION_CHARACTERS_MAX
from runtime.postgres import DB_UNAVAILABLE, session
from workers.context import Context

_log = structlog.get_logger()


class _Registered(Struct, frozen=True, gc=False):
    txids: list[str]
    looked_until: datetime | None


_register = sql.one("sandbox_order.register", _Registered)


async def register_cobs(context: Context) -> tuple[int, datetime | None]:
    """Put what is due at the simulated bank; answers how many orders have ended and, if any did, when the last one
    that was looked at was due: registrations that were due until then have ended, or are the port's."""
    async with session(context.pool) as conn:
        try:
            registered = await _register(
                conn,
                now=context.now(),
                limit=context.settings.pace.orders_claimed,
                description_max=DESCRIPTION_CHARACTERS_MAX,
            )
        except DB_UNAVAILABLE:
            raise
        except Exception as error:
            _log.warning("bank_batch_failed", error=type(error).__name__)
            return 0, None
        await context.banks.sandbox.conclude(conn, registered.txids)
    return len(registered.txids), registered.looked_until if registered.txids else None
