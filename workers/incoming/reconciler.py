"""Ask the bank, without waiting for callbacks, for everything it received. Production only: the sandbox has no payers
of its own.

Callbacks get lost; the bank's list is what counts. Each round asks again for the last minutes, because a list may
show a payment late, and books what is missing.
"""

from datetime import datetime, timedelta

import structlog
from msgspec import Struct

import sql
from banks.protocol import Unknown
from runtime.postgres import session
from workers.context import Context
from workers.incoming.pix_payments import book_pix
from workers.orders.pix import callback_url, register_keys

OVERLAP = timedelta(minutes=15)

_FIRST = timedelta(days=1)
_STEP = timedelta(hours=6)  # at most, per question: after a long outage the answers stay of bearable size
_KEYS_MAX = 20

_log = structlog.get_logger()


class _Until(Struct, frozen=True):
    until: datetime


class _Key(Struct, frozen=True):
    pix_key: str


find_reconciled = sql.maybe("bank_hint.reconciled", _Until)
set_reconciled = sql.run("bank_hint.set_reconciled")
find_callbacks_elsewhere = sql.many("bank_order.callbacks_elsewhere", _Key)


async def reconcile(context: Context, bank: str) -> int:
    """One round at this bank; answers how many payments it found that were not on the books, plus 1 while it lags
    behind."""
    await _move_callbacks(context, bank)
    now = context.now()
    async with session(context.pool) as conn:
        reconciled = await find_reconciled(conn, bank=bank, method="pix")
    since = (reconciled.until if reconciled is not None else now - _FIRST) - OVERLAP
    until = min(now, since + OVERLAP + _STEP)
    answer = await context.banks.production[bank].pix.received(since, until)
    if isinstance(answer, Unknown):
        _log.info("reconciler_waits", detail=answer.detail)
        return 0
    found = await book_pix(context, answer.value)
    if found:
        _log.info("reconciler_found", count=found)
    async with session(context.pool) as conn:
        await set_reconciled(conn, bank=bank, method="pix", until=until)
    return found + (until < now)


async def _move_callbacks(context: Context, bank: str) -> None:
    """When our address has changed, the bank is told for the keys that still have the old one."""
    async with session(context.pool) as conn:
        keys = await find_callbacks_elsewhere(conn, bank=bank, url=callback_url(context), limit=_KEYS_MAX)
    await register_keys(context, [(bank, key.pix_key) for key in keys])
