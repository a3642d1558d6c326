"""Find transfers that a bank sent although they failed here, and book them. Production only.

A bank may refuse money that it has already taken: the answer to the first attempt is lost, the second attempt is
refused, and the look-up shows an old state. The bank's list of what it sent shows the transfer; the money had been
credited back to a wallet that it had left.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct

import sql
from banks.lists import BankPage
from banks.protocol import Done, Rejected
from banks.transfers import SentTransfer
from commands.money.reversals import REVERSALS_MAX, BankReturn, book_sent_refunds
from commands.money.withdraw import WithdrawalEnd, end_withdrawal
from domain.instants import to_millisecond
from runtime.coordination.lanes import WEBHOOKS
from runtime.coordination.leases import release_lease
from runtime.postgres import session, transaction
from workers.context import Context
from workers.incoming.intervals import Pass
from workers.incoming.passes import BankList, Page, advance, hold, lease_name
from workers.incoming.pix_payments import charge_id_from_txid

_DAY = timedelta(days=1)
# fmt: off
SENT_PASS: Final = Pass(name="nightly", behind=timedelta(hours=3), every=_DAY, reach=7 * _DAY, width_max=_DAY,
                        width_min=timedelta(seconds=1))
# fmt: on
_METHOD: Final = "transfer"

_log = structlog.get_logger()


class _FailedWithdrawal(Struct, frozen=True, gc=False):
    withdrawal_id: UUID
    account_id: UUID
    amount_cents: int


find_failed_withdrawals = sql.many("withdrawal.failed", _FailedWithdrawal)


async def reconcile_sent(context: Context, bank: str) -> int:
    """One round over what this bank lists as sent; returns how many of the transfers had failed here, plus 1 while
    there is more to ask for. A bank that has no such list is asked once a night."""
    if not await hold(context, bank, _METHOD):
        return 0
    transfers = context.banks.production[bank].transfers

    async def fetch(since: datetime, until: datetime, after: str | None, _: Pass) -> Page[SentTransfer]:
        answer = await transfers.sent_page(since, until, after)
        return Done(BankPage(items=[])) if isinstance(answer, Rejected) else answer

    async def book(items: list[SentTransfer]) -> int:
        return await book_sent(context, bank, items)

    known_by: Callable[[SentTransfer], str] = attrgetter("id")
    bank_list = BankList(bank=bank, method=_METHOD, fetch=fetch, book=book, known_by=known_by)
    advanced = await advance(context, bank_list, SENT_PASS)
    if not advanced.behind:
        async with session(context.pool) as conn:
            await release_lease(conn, name=lease_name(bank, _METHOD), holder=context.worker)
    return advanced.found + advanced.behind


async def book_sent(context: Context, bank: str, items: Sequence[SentTransfer]) -> int:
    """Book the transfers that failed here, each once; returns how many. A differing amount is only logged."""
    by_id = {charge_id_from_txid(each.id): each for each in items if each.status == "done"}
    sent = {id: each for id, each in by_id.items() if id is not None}
    if not sent:
        return 0
    booked = 0
    async with session(context.pool) as conn:
        failed = await find_failed_withdrawals(conn, withdrawal_ids=list(sent))
    for row in failed:
        if sent[row.withdrawal_id].amount_cents != row.amount_cents:
            _log.error("sent_another_amount", kind="withdrawal_send", order_id=str(row.withdrawal_id))
            continue
        ended = WithdrawalEnd(
            account_id=row.account_id,
            withdrawal_id=row.withdrawal_id,
            end_to_end_id=sent[row.withdrawal_id].reference,
        )
        async with transaction(context.pool) as conn:
            await end_withdrawal(conn, ended, now=to_millisecond(context.now()))
        booked += 1
    refunds = [
        BankReturn(
            position=position,
            charge_id=None,
            boleto_number=None,
            end_to_end_id=each.reference or each.id,
            refund_id=id,
            bank_id=each.id,
            return_id=None,
            amount_cents=each.amount_cents,
        )
        for position, (id, each) in enumerate(sent.items())
    ]
    for start in range(0, len(refunds), REVERSALS_MAX):  # the bank decides how many a page has
        async with transaction(context.pool) as conn:
            booked += await book_sent_refunds(conn, refunds[start : start + REVERSALS_MAX], now=context.now())
    if booked:
        _log.error("sent_after_all", bank=bank, count=booked)
        context.jobs.wake(WEBHOOKS)
    return booked
