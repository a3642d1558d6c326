"""Ask each bank, without waiting for callbacks, for everything it received. Production only: the sandbox has no payers
of its own.

Callbacks get lost; the bank's lists are what counts. They are read for money as it arrives, and again later, because a
list may show money late: nightly over a week, and over three months for money that went back (docs/reconciliation.md).
For each bank and list, one process of the installation does it at a time.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

import structlog

import sql
from banks.boletos import PaidBoleto
from banks.protocol import BOLETO_DAYS_MAX, RECEIVED_WIDTH_MAX
from banks.received import ReceivedPix
from domain.refund import RETURN_WITHIN
from runtime.coordination.leases import release_lease
from runtime.postgres import session
from workers.context import Context
from workers.incoming.boleto_payments import book_listed
from workers.incoming.intervals import WIDTH, Pass, days_of
from workers.incoming.passes import BankList, Page, advance, hold, lease_name, measure_list_lag
from workers.incoming.pix_payments import book_pix
from workers.orders.callback_keys import callback_url, register_keys

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_NIGHTLY_BEHIND = timedelta(hours=3)
"""Nightly passes begin at 3 in the morning: a day's money is listed by then."""
_KEYS_MAX = 20

# fmt: off
PIX_PASSES: Final = (
    Pass(name="new",      again=timedelta(minutes=1), first=_DAY, width_max=WIDTH, width_min=_SECOND),
    Pass(name="late",     behind=timedelta(minutes=15), every=timedelta(minutes=5), first=timedelta(minutes=5),
         width_max=WIDTH, width_min=_SECOND),
    Pass(name="nightly",  behind=_NIGHTLY_BEHIND, every=_DAY, reach=7 * _DAY, width_max=WIDTH, width_min=_SECOND),
    # A MED may begin up to 80 days after the payment, a devolucao later still.
    Pass(name="returned", behind=_NIGHTLY_BEHIND, every=_DAY, reach=RETURN_WITHIN, width_max=RECEIVED_WIDTH_MAX,
         width_min=_SECOND, returned=True),
)
BOLETO_PASSES: Final = (
    # The list goes by days of movement, so the day before is asked for again each time.
    Pass(name="new",      again=_DAY, first=3 * _DAY, width_max=30 * _DAY, width_min=_DAY),
    Pass(name="nightly",  behind=_NIGHTLY_BEHIND, every=_DAY, reach=7 * _DAY, width_max=7 * _DAY, width_min=_DAY),
)
# fmt: on
assert max(each.width_max for each in BOLETO_PASSES) < timedelta(days=BOLETO_DAYS_MAX - 1)

_log = structlog.get_logger()


find_callbacks_elsewhere = sql.many("bank_order.callbacks_elsewhere", str)


async def reconcile(context: Context, bank: str) -> int:
    """One round over the PIX of this bank; returns how many payments it found that had not been booked, plus 1 while it
    lags behind. Also 0 when another worker does it."""
    if not await hold(context, bank, "pix"):
        return 0
    await _register_moved_callbacks(context, bank)
    pix = context.banks.production[bank].pix

    async def fetch(since: datetime, until: datetime, after: str | None, list_pass: Pass) -> Page[ReceivedPix]:
        return await pix.received_page(since, until, after, returned=list_pass.returned)

    async def book(items: list[ReceivedPix]) -> int:
        return await book_pix(context, bank, items)

    known_by: Callable[[ReceivedPix], str] = attrgetter("end_to_end_id")
    bank_list = BankList(bank=bank, method="pix", fetch=fetch, book=book, known_by=known_by)
    return await _advance_passes(context, bank_list, PIX_PASSES)


async def reconcile_boletos(context: Context, bank: str) -> int:
    """One round over this bank's list of paid boletos; returns as `reconcile`."""
    if not await hold(context, bank, "boleto"):
        return 0
    boletos = context.banks.production[bank].boletos

    async def fetch(since: datetime, until: datetime, after: str | None, list_pass: Pass) -> Page[PaidBoleto]:
        return await boletos.paid_page(*days_of(since, until), after)

    async def book(items: list[PaidBoleto]) -> int:
        return await book_listed(context, bank, items)

    known_by: Callable[[PaidBoleto], str] = attrgetter("number")
    bank_list = BankList(bank=bank, method="boleto", fetch=fetch, book=book, known_by=known_by)
    return await _advance_passes(context, bank_list, BOLETO_PASSES)


async def measure_lag(context: Context) -> int:
    """Measured by every worker, also by those that do not reconcile: any of them may be asked for its metrics, and a
    gauge that is measured no more would show an old lag. Returns 0."""
    for bank in context.banks.production:
        await measure_list_lag(context, bank, "pix", PIX_PASSES[0])
        await measure_list_lag(context, bank, "boleto", BOLETO_PASSES[0])
    return 0


async def _advance_passes(context: Context, bank_list: BankList[Any], passes: Sequence[Pass]) -> int:
    """Ask about one interval of each pass, but only of the first pass while that is behind: new money comes first."""
    booked_count, behind = 0, False
    for list_pass in passes:
        advanced = await advance(context, bank_list, list_pass)
        booked_count += advanced.found
        behind = behind or advanced.behind
        if advanced.behind and list_pass is passes[0]:
            break
    if booked_count:
        _log.info("reconciler_found", bank=bank_list.bank, method=bank_list.method, count=booked_count)
    if not behind:
        async with session(context.pool) as conn:
            await release_lease(conn, name=lease_name(bank_list.bank, bank_list.method), holder=context.worker)
    return booked_count + behind


async def _register_moved_callbacks(context: Context, bank: str) -> None:
    """When our address has changed, tell the bank for the keys that still have the old one."""
    async with session(context.pool) as conn:
        keys = await find_callbacks_elsewhere(conn, bank=bank, url=callback_url(context), limit=_KEYS_MAX)
    await register_keys(context, bank, keys)
